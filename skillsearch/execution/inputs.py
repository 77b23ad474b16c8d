"""What a command is to work with, put into its workspace from artifacts, this machine or a skill.

Where an input comes from is asked for by a model, so it is not trusted: it is opened below the one
folder that its scheme allows, part by part and never through a link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakKeyDictionary

from skillsearch.errors import WorkspaceError
from skillsearch.execution.artifacts import ArtifactStore
from skillsearch.execution.copying import Copier
from skillsearch.execution.files import bounded, open_plain, reason, replace_link
from skillsearch.execution.globs import FOLDERS
from skillsearch.execution.input_plans import InputPlan, Parts, plan_inputs
from skillsearch.execution.media_types import HEAD_BYTES, media_type
from skillsearch.execution.request import ArtifactRef, InputSpec, StagedInput
from skillsearch.execution.staging import SKILLS, folder_name
from skillsearch.execution.workspace import Workspace
from skillsearch.files.openat import open_file, open_folder, using
from skillsearch.files.paths import shown

FOLDER_TYPE = "inode/directory"


class InputStager:
    """Puts inputs into workspaces. It remembers the versions of the artifacts that it put there."""

    def __init__(
        self,
        artifacts: ArtifactStore | None,
        host_folders: Sequence[Path],
        skill_folder: Callable[[str], Path],
    ) -> None:
        """Take what inputs may come from.

        Args:
            artifacts: The artifacts; None where none are kept.
            host_folders: The folders of this machine that inputs may be read from.
            skill_folder: Returns the folder of a skill, or raises a `SkillSearchError`.
        """
        self._artifacts = artifacts
        self._host_folders = tuple(host_folders)
        self._skill_folder = skill_folder
        self._put: WeakKeyDictionary[Workspace, dict[Parts, ArtifactRef]] = WeakKeyDictionary()

    def stage(
        self,
        workspace: Workspace,
        specs: Sequence[InputSpec],
        variables: Mapping[str, str] = FOLDERS,
    ) -> tuple[tuple[StagedInput, ...], tuple[str, ...]]:
        """Put inputs into a workspace.

        A file or link in the way is replaced, and a folder filled up. Only what stays inside the
        workspace is linked; all else is copied. When one input fails, those before it stay.

        Args:
            workspace: The workspace.
            specs: The inputs, not trusted.
            variables: What the path of a target may begin with, and the folder below the
                workspace of each.

        Returns:
            What was put where (a linked folder counts no bytes), and warnings, a line each.

        Raises:
            WorkspaceError: An input is refused, cannot be read or written, or is too large.
            ArtifactNotFoundError: There is no such artifact.
        """
        plans = plan_inputs(specs, variables)
        copier = Copier()
        with workspace.guard:
            staged = tuple(self._stage(workspace, plan, copier) for plan in plans)
        return staged, bounded(copier.notes)

    def _stage(self, workspace: Workspace, plan: InputPlan, copier: Copier) -> StagedInput:
        """Put one input into a workspace."""
        found = _link_target(workspace, plan) if plan.spec.mode == "link" else None
        if plan.spec.mode == "link" and found is None:
            copier.notes.append(f"{plan.source} was copied: a link would leave the workspace.")
        if plan.scheme == "artifact":
            return self._put_artifact(workspace, plan, copier)
        if found is not None:
            size, kind = _put_link(workspace, plan, found)
        else:
            with self._opened(workspace, plan) as fd:
                size, kind = _put_copy(workspace, plan, copier, fd)
        return StagedInput(plan.target, plan.spec.source, size, kind)

    def _put_artifact(self, workspace: Workspace, plan: InputPlan, copier: Copier) -> StagedInput:
        """Write an artifact into a workspace."""
        if self._artifacts is None:
            raise WorkspaceError(
                f"The input {plan.source} cannot be read, as no artifacts are kept here; copy it"
                " from workspace:// or host://."
            )
        put = self._put.setdefault(workspace, {})
        before = put.get(plan.to)
        version = plan.version
        if version is None and plan.spec.pin and before and before.name == plan.place:
            version = before.version
        artifact = self._artifacts.load(plan.place, version)
        with _target(workspace, plan) as folder:
            copier.put_bytes(artifact.data, folder, plan.to[-1], plan.spec.source)
        if before is None or before.name != plan.place:
            put[plan.to] = artifact.ref
        return StagedInput(
            plan.target, plan.spec.source, len(artifact.data), artifact.media_type, artifact.ref
        )

    @contextmanager
    def _opened(self, workspace: Workspace, plan: InputPlan) -> Iterator[int]:
        """Open the file or folder that an input comes from."""
        try:
            base, parts = self._base(workspace, plan)
            with using(base):
                fd = _open_any(base, parts)
        except OSError as error:
            raise _unreadable(plan, error) from error
        with using(fd):
            yield fd

    def _base(self, workspace: Workspace, plan: InputPlan) -> tuple[int, Parts]:
        """Open the folder that an input must lie below, and return the path from there."""
        if plan.scheme == "workspace":
            return workspace.open(), plan.parts
        if plan.scheme == "skill":
            return open_folder(self._skill_folder(plan.place)), plan.parts
        path = Path(os.path.realpath(Path("/", *plan.parts)))
        for folder in self._host_folders:
            allowed = Path(os.path.realpath(folder))
            if path.is_relative_to(allowed):
                return open_folder(allowed), path.relative_to(allowed).parts
        raise WorkspaceError(
            f"The input {plan.source} lies in no folder that inputs may be read from; allow its"
            " folder in host_folders, or put the file into the workspace."
        )


def _open_any(base: int, parts: Parts) -> int:
    """Open a plain file or a folder below an open folder."""
    if not parts:
        return os.dup(base)
    fd = open_file(base, parts)
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return open_plain(base, parts, os.fstat(base).st_uid)


def _put_copy(workspace: Workspace, plan: InputPlan, copier: Copier, fd: int) -> tuple[int, str]:
    """Copy an open file or folder into a workspace, and return its size and type."""
    name = plan.to[-1]
    with _target(workspace, plan) as folder:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            size, head = copier.put_file(fd, folder, name, plan.spec.source)
            return size, media_type(name, head)
        with using(open_folder(folder, (name,), make=True)) as into:
            return copier.put_folder(fd, into, plan.spec.source), FOLDER_TYPE


def _link_target(workspace: Workspace, plan: InputPlan) -> Parts | None:
    """Return the path below the workspace that an input can be a link to."""
    if plan.scheme == "workspace":
        return plan.parts
    if plan.scheme != "skill":
        return None
    staged = (SKILLS, folder_name(plan.place))
    try:
        os.close(workspace.open(*staged))
    except OSError:
        return None
    return (*staged, *plan.parts)


def _put_link(workspace: Workspace, plan: InputPlan, found: Parts) -> tuple[int, str]:
    """Make a link to a file or folder of the workspace, and return the size and type of that."""
    try:
        with using(workspace.open()) as top, using(_open_any(top, found)) as fd:
            status = os.fstat(fd)
            is_folder = stat.S_ISDIR(status.st_mode)
            head = b"" if is_folder else os.read(fd, HEAD_BYTES)
    except OSError as error:
        raise _unreadable(plan, error) from error
    from_target = "/".join((*[".."] * (len(plan.to) - 1), *found))
    with _target(workspace, plan) as folder:
        replace_link(folder, plan.to[-1], from_target)
    return (0, FOLDER_TYPE) if is_folder else (status.st_size, media_type(plan.to[-1], head))


@contextmanager
def _target(workspace: Workspace, plan: InputPlan) -> Iterator[int]:
    """Open the folder that an input goes to, made where it is missing."""
    try:
        with using(workspace.open(*plan.to[:-1], make=True)) as folder:
            yield folder
    except OSError as error:
        raise WorkspaceError(
            f"The input {plan.source} cannot be put to {shown(plan.target)}: {reason(error)}; give"
            " it another 'to', or remove what is in the way."
        ) from error


def _unreadable(plan: InputPlan, error: OSError) -> WorkspaceError:
    """Return the error for a source that cannot be opened."""
    return WorkspaceError(
        f"The input {plan.source} cannot be read: {reason(error)}; name a file or folder that is"
        " there, and not a link."
    )
