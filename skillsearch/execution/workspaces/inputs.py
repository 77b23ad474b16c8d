"""Puts the inputs of a command into its workspace, from artifacts, this machine or a skill.

Sources are not trusted: each is opened below the one folder that its scheme allows, never through
a link.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from skillsearch.errors import WorkspaceError
from skillsearch.execution.types import InputSpec, Parts, StagedInput
from skillsearch.execution.workspaces import files
from skillsearch.execution.workspaces.artifacts import ArtifactStore, parse_ref
from skillsearch.execution.workspaces.globs import FOLDERS, substitute
from skillsearch.execution.workspaces.staging import SKILLS, digest_tree, folder_name, list_tree
from skillsearch.execution.workspaces.workspace import Workspace
from skillsearch.files.media_types import HEAD_BYTES, media_type
from skillsearch.files.openat import open_file, open_folder, using
from skillsearch.files.paths import shown

MAX_INPUTS = 100
FOLDER_TYPE = "inode/directory"
_READ = "read: %s; name an existing file or folder that is not a link."
_PUT = "put to {target}: %s; give it another 'to', or remove what is in the way."
TARGETS = ("work", "out", "runs")
_SOURCE = re.compile(r"artifact://|workspace://|host:///|skill://[^/]")
_SOURCES = "artifact://name, host:///absolute/path, skill://name/path or workspace://path"


class InputStager(NamedTuple):
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
        budget = files.Budget(self.limits)
        with workspace.guard:
            staged = tuple(self._stage(workspace, plan, budget) for plan in plans.values())
        return staged, files.bounded(budget.notes)

    def _stage(self, workspace: Workspace, plan: _Plan, budget: files.Budget) -> StagedInput:
        link = plan.linked(workspace) if plan.spec.mode == "link" else None
        if plan.spec.mode == "link" and link is None:
            budget.note(f"{plan.source} was copied: a link would leave the workspace.")
        if plan.scheme == "artifact":
            return self._put_artifact(workspace, plan, budget)
        with plan.explained(_READ):
            base, parts = (workspace.open(), link) if link else self._base(workspace, plan)
            with using(base):
                fd = _open(base, parts)
        (*above, name), before = plan.to, budget.total_bytes
        with using(fd), plan.explained(_PUT), using(workspace.open(*above, make=True)) as folder:
            status = os.fstat(fd)
            is_folder = stat.S_ISDIR(status.st_mode)
            kind = FOLDER_TYPE if is_folder else media_type(name, os.pread(fd, HEAD_BYTES, 0))
            if link:
                with files.replacing(folder, name) as temporary:
                    target = "/".join((*[".."] * len(above), *link))
                    os.symlink(target, temporary, dir_fd=folder)
                size = 0 if is_folder else status.st_size
                return StagedInput(plan.target, plan.spec.source, size, kind)
            if is_folder:
                with plan.explained(_READ):
                    tree = list_tree(fd, budget, plan.spec.source)
                budget.note(*tree.notes)
                with using(open_folder(folder, (name,), make=True)) as into:
                    digest_tree(fd, tree, budget, into)
            else:
                mode = 0o755 if status.st_mode & 0o111 else 0o644
                files.replace_file(folder, name, budget.taken(fd, plan.spec.source), mode)
        return StagedInput(plan.target, plan.spec.source, budget.total_bytes - before, kind)

    def _put_artifact(self, workspace: Workspace, plan: _Plan, budget: files.Budget) -> StagedInput:
        if self.artifacts is None:
            raise WorkspaceError(
                f"The input {plan.source} cannot be read, as no artifacts are kept here; copy it"
                " from workspace:// or host://."
            )
        before = workspace.inputs.get(plan.to)
        first = before if before and before.name == plan.origin else None
        pinned = first.version if first and plan.spec.pin else None
        version = pinned if plan.version is None else plan.version
        artifact = self.artifacts.load(plan.origin, version)
        *above, name = plan.to
        with plan.explained(_PUT), using(workspace.open(*above, make=True)) as folder:
            files.replace_file(folder, name, budget.taken(artifact.data, plan.spec.source), 0o644)
        if first is None:
            workspace.inputs[plan.to] = artifact.ref
        return StagedInput(
            plan.target, plan.spec.source, len(artifact.data), artifact.media_type, artifact.ref
        )

    def _base(self, workspace: Workspace, plan: _Plan) -> tuple[int, Parts]:
        """Open the folder that an input must lie below; return it and the path from there."""
        if plan.scheme == "workspace":
            return workspace.open(), plan.parts
        if plan.scheme == "skill":
            return open_folder(self.skill_folder(plan.origin)), plan.parts
        path = Path(os.path.realpath(Path("/", *plan.parts)))
        for folder in self.host_folders:
            allowed = Path(os.path.realpath(folder))
            if path.is_relative_to(allowed):
                return open_folder(allowed), path.relative_to(allowed).parts
        raise WorkspaceError(
            f"The input {plan.source} is not in a folder that inputs may be read from; allow its"
            " folder in host_folders, or put the file into the workspace."
        )


class _Plan(NamedTuple):
    """A parsed input: name of an artifact or skill, or path, and the path to put it to."""

    spec: InputSpec
    source: str  # as messages show it
    scheme: str
    origin: str
    parts: Parts
    version: int | None
    to: Parts
    target: str

    def linked(self, workspace: Workspace) -> Parts | None:
        """Return the path below the workspace that it can link to, if there is one."""
        staged = (SKILLS, folder_name(self.origin))
        if self.scheme == "skill" and workspace.has_folder(*staged):
            return (*staged, *self.parts)
        return self.parts if self.scheme == "workspace" else None

    def explained(self, problem: str) -> AbstractContextManager[None]:
        why = problem.format(target=shown(self.target))
        return files.explained(f"The input {self.source} cannot be {why}", files.reason)


def _plan(spec: InputSpec, variables: Mapping[str, str]) -> _Plan:
    if spec.mode not in {"copy", "link"}:
        raise WorkspaceError(f"The mode of an input is {shown(spec.mode)}; use 'copy' or 'link'.")
    source = shown(spec.source)
    if not _SOURCE.match(spec.source):
        raise WorkspaceError(f"The input {source} has an unknown source; write {_SOURCES}.")
    scheme, _, path = spec.source.partition("://")
    origin, version = "", None
    if scheme == "artifact":
        (origin, version), path = parse_ref(spec.source), ""
    elif scheme == "skill":
        origin, _, path = path.partition("/")
        path = path if path.strip("/") else ""
    elif scheme == "host":
        path = path.removeprefix("/")
    is_whole = not path and origin  # an artifact or a skill
    parts = () if is_whole else files.relative_parts(path, "The path of an input")
    own = origin.rpartition("/")[2] if scheme == "artifact" else folder_name(origin)
    to = _parse_target(substitute(spec.to, variables), [own, *parts][-1])
    target = "/".join(to)
    if scheme == "workspace" and parts == to[: len(parts)]:
        raise WorkspaceError(
            f"The input {source} would be put into itself, at {shown(target)}; give it another"
            " 'to'."
        )
    return _Plan(spec, source, scheme, origin, parts, version, to, target)


def _parse_target(to: str, name: str) -> Parts:
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
    fd = open_file(base, parts) if parts else os.dup(base)
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return files.open_plain(base, parts, os.fstat(base).st_uid)
