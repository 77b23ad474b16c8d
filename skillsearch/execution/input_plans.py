"""The words of an input → where it comes from and where it goes to. Opens nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillsearch.errors import WorkspaceError
from skillsearch.execution.artifacts import parse_ref
from skillsearch.execution.files import relative_parts
from skillsearch.execution.globs import FOLDERS, substitute
from skillsearch.execution.request import InputSpec
from skillsearch.execution.staging import folder_name
from skillsearch.files.paths import shown

MAX_INPUTS = 100
TARGETS = ("work", "out", "runs")
"""The folders of a workspace that an input may be put into."""

_INPUTS = ("work", "inputs")
_SOURCES = "artifact://name, host:///absolute/path, skill://name/path or workspace://path"

Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InputPlan:
    """An input whose words were understood.

    Attributes:
        spec: As it was asked for.
        scheme: ``artifact``, ``host``, ``skill`` or ``workspace``.
        place: Name of the artifact or skill; empty for the others.
        parts: Path below the skill or the workspace, or from ``/`` on this machine.
        version: Of an artifact, where one was asked for.
        to: Path below the workspace.
    """

    spec: InputSpec
    scheme: str
    place: str
    parts: Parts
    version: int | None
    to: Parts

    @property
    def source(self) -> str:
        """Where it comes from, as messages quote it."""
        return shown(self.spec.source)

    @property
    def target(self) -> str:
        """Where it goes to, as a path below the workspace."""
        return "/".join(self.to)


def plan_inputs(
    specs: Sequence[InputSpec], variables: Mapping[str, str] = FOLDERS
) -> tuple[InputPlan, ...]:
    """Understand what is to be put into a workspace.

    Args:
        specs: What was asked for, not trusted.
        variables: What the path of a target may begin with, and the folder of each.

    Returns:
        A plan for each, in the same order.

    Raises:
        WorkspaceError: There are too many, two go to the same place, or one has an unknown scheme
            or mode, or a path that leaves its folder.
    """
    if len(specs) > MAX_INPUTS:
        raise WorkspaceError(
            f"There are {len(specs)} inputs, and {MAX_INPUTS} are allowed; give a folder instead."
        )
    plans: dict[Parts, InputPlan] = {}
    for spec in specs:
        plan = _plan(spec, variables)
        if plan.to in plans:
            raise WorkspaceError(
                f"The inputs {plans[plan.to].source} and {plan.source} both go to"
                f" {shown(plan.target)}; give one of them another 'to'."
            )
        plans[plan.to] = plan
    return tuple(plans.values())


def _plan(spec: InputSpec, variables: Mapping[str, str]) -> InputPlan:
    """Understand one input."""
    if spec.mode not in {"copy", "link"}:
        raise WorkspaceError(f"The mode of an input is {shown(spec.mode)}; use 'copy' or 'link'.")
    scheme, place, parts, version = _take_apart(spec.source)
    name = parts[-1] if parts else folder_name(place)
    if scheme == "artifact":
        name = place.rpartition("/")[2]
    to = _target(substitute(spec.to, variables), name)
    if scheme == "workspace" and parts == to[: len(parts)]:
        raise WorkspaceError(
            f"The input {shown(spec.source)} would be put into itself, at {shown('/'.join(to))};"
            " give it another 'to'."
        )
    return InputPlan(spec, scheme, place, parts, version, to)


def _take_apart(source: str) -> tuple[str, str, Parts, int | None]:
    """Return the scheme of a source, the name in it, its path, and its version."""
    scheme, _, rest = source.partition("://")
    if scheme == "artifact":
        name, version = parse_ref(source)
        return scheme, name, (), version
    if scheme == "workspace":
        return scheme, "", relative_parts(rest, "The path of an input"), None
    if scheme == "host" and rest.startswith("/"):
        return scheme, "", relative_parts(rest[1:], "The path of an input"), None
    name, _, below = rest.partition("/")
    if scheme == "skill" and name:
        parts = relative_parts(below, "The path of an input") if below.strip("/") else ()
        return scheme, name, parts, None
    raise WorkspaceError(f"The input {shown(source)} has no known source; write {_SOURCES}.")


def _target(to: str, name: str) -> Parts:
    """Return where an input goes to that would keep a name."""
    if not to:
        return (*_INPUTS, name)
    parts = relative_parts(to, "The target of an input")
    if to.endswith("/"):
        parts = (*parts, name)
    if parts[0] == "inputs":
        parts = ("work", *parts)
    if parts[0] not in TARGETS or len(parts) == 1:
        allowed = ", ".join(f"{folder}/" for folder in TARGETS)
        raise WorkspaceError(
            f"The target {shown(to)} of an input is not below {allowed}; write one such as"
            " 'work/inputs/data.csv'."
        )
    return parts
