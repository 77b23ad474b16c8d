"""Puts the inputs of a command into its workspace, from artifacts, this machine or a skill.

Sources are not trusted: each is opened below the one folder that its scheme allows, never through
a link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from skillsearch.errors import WorkspaceError
from skillsearch.execution import files
from skillsearch.execution.artifacts import ArtifactStore, parse_ref
from skillsearch.execution.globs import FOLDERS, substitute
from skillsearch.execution.staging import SKILLS, folder_name, list_tree, open_files
from skillsearch.execution.types import InputSpec, Parts, StagedInput
from skillsearch.execution.workspace import Workspace
from skillsearch.files.media_types import HEAD_BYTES, media_type
from skillsearch.files.openat import open_file, open_folder, using
from skillsearch.files.paths import shown

MAX_INPUTS = 100
FOLDER_TYPE = "inode/directory"
_READ = "read: {reason}; name an existing file or folder that is not a link."
_PUT = "put to {target}: {reason}; give it another 'to', or remove what is in the way."
TARGETS = ("work", "out", "runs")
_SOURCES = "artifact://name, host:///absolute/path, skill://name/path or workspace://path"


@dataclass(frozen=True, slots=True)
class InputStager:
    """Puts inputs into workspaces, from the places that they may come from; see `SkillRunner`."""

    artifacts: ArtifactStore | None
    host_folders: Sequence[Path]
    skill_folder: Callable[[str], Path]
    limits: files.CopyLimits = files.COPY_LIMITS

    def stage(
        self,
        workspace: Workspace,
        specs: Sequence[InputSpec],
        variables: Mapping[str, str] = FOLDERS,
    ) -> tuple[tuple[StagedInput, ...], tuple[str, ...]]:
        """Put inputs into a workspace, and return these and warnings.

        A file or link in the way is replaced, and a folder is merged into. Only what stays inside
        the workspace is linked. A `WorkspaceError` is raised if an input is refused, cannot be read
        or written, or is too large; those before it stay.
        """
        if len(specs) > MAX_INPUTS:
            raise WorkspaceError(
                f"There are {len(specs)} inputs, and {MAX_INPUTS} are allowed; give a folder"
                " instead."
            )
        plans: dict[Parts, _Plan] = {}
        for spec in specs:
            plan = _plan(spec, variables)
            if (other := plans.setdefault(plan.to, plan)) is not plan:
                raise WorkspaceError(
                    f"The inputs {other.source} and {plan.source} both go to"
                    f" {shown(plan.target)}; give one of them another 'to'."
                )
        budget, notes = files.Budget(self.limits), list[str]()
        with workspace.guard:
            staged = tuple(self._stage(workspace, plan, budget, notes) for plan in plans.values())
        return staged, files.bounded(notes)

    def _stage(
        self, workspace: Workspace, plan: _Plan, budget: files.Budget, notes: list[str]
    ) -> StagedInput:
        found = _link_target(workspace, plan) if plan.spec.mode == "link" else None
        if plan.spec.mode == "link" and found is None:
            notes.append(f"{plan.source} was copied: a link would leave the workspace.")
        if plan.scheme == "artifact":
            return self._put_artifact(workspace, plan, budget)
        if found is not None:
            size, kind = _put_link(workspace, plan, found)
        else:
            with _explained(plan, _READ):
                base, parts = self._base(workspace, plan)
                with using(base):
                    fd = _open(base, parts)
            with using(fd), _explained(plan, _PUT), using(plan.open_target(workspace)) as folder:
                size, kind = _put_copy(plan, budget, notes, fd, folder)
        return StagedInput(plan.target, plan.spec.source, size, kind)

    def _put_artifact(self, workspace: Workspace, plan: _Plan, budget: files.Budget) -> StagedInput:
        if self.artifacts is None:
            raise WorkspaceError(
                f"The input {plan.source} cannot be read, as no artifacts are kept here; copy it"
                " from workspace:// or host://."
            )
        before = workspace.inputs.get(plan.to)
        known = before if before and before.name == plan.place else None
        pinned = known.version if known and plan.spec.pin else None
        artifact = self.artifacts.load(plan.place, pinned if plan.version is None else plan.version)
        with _explained(plan, _PUT), using(plan.open_target(workspace)) as folder:
            chunks = budget.taken(artifact.data, plan.spec.source)
            files.replace_file(folder, plan.to[-1], chunks, 0o644)
        if known is None:
            workspace.inputs[plan.to] = artifact.ref
        return StagedInput(
            plan.target, plan.spec.source, len(artifact.data), artifact.media_type, artifact.ref
        )

    def _base(self, workspace: Workspace, plan: _Plan) -> tuple[int, Parts]:
        """Open the folder that an input must lie below; return it and the path from there."""
        if plan.scheme == "workspace":
            return workspace.open(), plan.parts
        if plan.scheme == "skill":
            return open_folder(self.skill_folder(plan.place)), plan.parts
        path = Path(os.path.realpath(Path("/", *plan.parts)))
        for folder in self.host_folders:
            allowed = Path(os.path.realpath(folder))
            if path.is_relative_to(allowed):
                return open_folder(allowed), path.relative_to(allowed).parts
        raise WorkspaceError(
            f"The input {plan.source} is not in a folder that inputs may be read from; allow its"
            " folder in host_folders, or put the file into the workspace."
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    """A parsed input: name of an artifact or skill, or path, and the path to put it to."""

    spec: InputSpec
    scheme: str
    place: str
    parts: Parts
    version: int | None
    to: Parts

    @property
    def source(self) -> str:
        return shown(self.spec.source)

    @property
    def target(self) -> str:
        return "/".join(self.to)

    def open_target(self, workspace: Workspace) -> int:
        return workspace.open(*self.to[:-1], make=True)


def _plan(spec: InputSpec, variables: Mapping[str, str]) -> _Plan:
    if spec.mode not in {"copy", "link"}:
        raise WorkspaceError(f"The mode of an input is {shown(spec.mode)}; use 'copy' or 'link'.")
    scheme, place, parts, version = _parse_source(spec.source)
    own = place.rpartition("/")[2] if scheme == "artifact" else folder_name(place)
    name = parts[-1] if parts else own
    to = _parse_target(substitute(spec.to, variables), name)
    if scheme == "workspace" and parts == to[: len(parts)]:
        raise WorkspaceError(
            f"The input {shown(spec.source)} would be put into itself, at {shown('/'.join(to))};"
            " give it another 'to'."
        )
    return _Plan(spec, scheme, place, parts, version, to)


def _parse_source(source: str) -> tuple[str, str, Parts, int | None]:
    """Return scheme, name, path and version of a source."""
    scheme, _, rest = source.partition("://")
    if scheme == "artifact":
        name, version = parse_ref(source)
        return scheme, name, (), version
    if scheme == "workspace":
        return scheme, "", files.relative_parts(rest, "The path of an input"), None
    if scheme == "host" and rest.startswith("/"):
        return scheme, "", files.relative_parts(rest[1:], "The path of an input"), None
    name, _, below = rest.partition("/")
    if scheme == "skill" and name:
        parts = files.relative_parts(below, "The path of an input") if below.strip("/") else ()
        return scheme, name, parts, None
    raise WorkspaceError(f"The input {shown(source)} has an unknown source; write {_SOURCES}.")


def _parse_target(to: str, name: str) -> Parts:
    """Return the target of an input; `name` is its own name."""
    to = to or "inputs/"
    parts = files.relative_parts(to, "The target of an input")
    parts = (*parts, name) if to.endswith("/") else parts
    if parts[0] == "inputs":
        parts = ("work", *parts)
    if parts[0] in TARGETS and len(parts) > 1:
        return parts
    allowed = ", ".join(f"{folder}/" for folder in TARGETS)
    raise WorkspaceError(
        f"The target {shown(to)} of an input is not below {allowed}; write one such as"
        " 'work/inputs/data.csv'."
    )


def _open(base: int, parts: Parts) -> int:
    if not parts:
        return os.dup(base)
    fd = open_file(base, parts)
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return files.open_plain(base, parts, os.fstat(base).st_uid)


def _put_copy(
    plan: _Plan, budget: files.Budget, notes: list[str], fd: int, folder: int
) -> tuple[int, str]:
    name, source = plan.to[-1], plan.spec.source
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        size = _copy(budget, fd, folder, name, source)
        return size, media_type(name, os.pread(fd, HEAD_BYTES, 0))
    with _explained(plan, _READ):
        tree = list_tree(fd, budget, (source,))
    notes += tree.notes
    size = 0
    with using(open_folder(folder, (name,), make=True)) as into:
        for parts in tree.folders:
            os.close(open_folder(into, parts, make=True))
        for parts, file in open_files(fd, tree, notes, (source,)):
            with using(open_folder(into, parts[:-1])) as inner:
                size += _copy(budget, file, inner, parts[-1], "/".join((source, *parts)))
    return size, FOLDER_TYPE


def _copy(budget: files.Budget, fd: int, folder: int, name: str, path: str) -> int:
    mode = 0o755 if os.fstat(fd).st_mode & stat.S_IXUSR else 0o644
    return files.replace_file(folder, name, budget.taken(fd, path), mode)


def _link_target(workspace: Workspace, plan: _Plan) -> Parts | None:
    """Return the path below the workspace that an input can link to, if there is one."""
    staged = (SKILLS, folder_name(plan.place))
    if plan.scheme == "skill" and workspace.has_folder(*staged):
        return (*staged, *plan.parts)
    return plan.parts if plan.scheme == "workspace" else None


def _put_link(workspace: Workspace, plan: _Plan, found: Parts) -> tuple[int, str]:
    with (
        _explained(plan, _READ),
        using(workspace.open()) as top,
        using(_open(top, found)) as fd,
    ):
        status = os.fstat(fd)
        is_folder = stat.S_ISDIR(status.st_mode)
        head = b"" if is_folder else os.read(fd, HEAD_BYTES)
    from_target = "/".join((*[".."] * (len(plan.to) - 1), *found))
    with _explained(plan, _PUT), using(plan.open_target(workspace)) as folder:
        files.replace_link(folder, plan.to[-1], from_target)
    return (0, FOLDER_TYPE) if is_folder else (status.st_size, media_type(plan.to[-1], head))


@contextmanager
def _explained(plan: _Plan, problem: str) -> Iterator[None]:
    """Turn an `OSError` into the error that says which input cannot be used, and why."""
    try:
        yield
    except OSError as error:
        why = problem.format(target=shown(plan.target), reason=files.reason(error))
        raise WorkspaceError(f"The input {plan.source} cannot be {why}") from error
