"""Puts the inputs of a command into its workspace, from artifacts, this machine or a skill.

Sources are chosen by a model, so they are not trusted: each is opened below the one folder that
its scheme allows, part by part and never through a link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

from skillsearch.errors import WorkspaceError
from skillsearch.execution.artifacts import ArtifactStore, parse_ref
from skillsearch.execution.content import HEAD_BYTES, media_type
from skillsearch.execution.files import (
    COPY_LIMITS,
    CopyLimits,
    bounded,
    chunks_of,
    open_plain,
    reason,
    relative_parts,
    replace_file,
    replace_link,
)
from skillsearch.execution.globs import FOLDERS, substitute
from skillsearch.execution.staging import SKILLS, folder_name
from skillsearch.execution.types import ArtifactRef, InputSpec, Parts, StagedInput
from skillsearch.execution.workspace import Workspace
from skillsearch.files.openat import open_file, open_folder, using
from skillsearch.files.paths import shown

MAX_INPUTS = 100
FOLDER_TYPE = "inode/directory"
TARGETS = ("work", "out", "runs")
"""The folders of a workspace that an input may be put into."""

_INPUTS = ("work", "inputs")
_SOURCES = "artifact://name, host:///absolute/path, skill://name/path or workspace://path"


class InputStager:
    """Puts inputs into workspaces. It remembers the versions of the artifacts that it put there."""

    def __init__(
        self,
        artifacts: ArtifactStore | None,
        host_folders: Sequence[Path],
        skill_folder: Callable[[str], Path],
        limits: CopyLimits = COPY_LIMITS,
    ) -> None:
        """Take the places that inputs may come from; see `SkillRunner`."""
        self._artifacts = artifacts
        self._host_folders = tuple(host_folders)
        self._skill_folder = skill_folder
        self._limits = limits
        self._put: WeakKeyDictionary[Workspace, dict[Parts, ArtifactRef]] = WeakKeyDictionary()

    def stage(
        self,
        workspace: Workspace,
        specs: Sequence[InputSpec],
        variables: Mapping[str, str] = FOLDERS,
    ) -> tuple[tuple[StagedInput, ...], tuple[str, ...]]:
        """Put inputs into a workspace; if one fails, those before it stay.

        A file or link in the way is replaced, and a folder is merged into. Only what stays inside
        the workspace is linked; everything else is copied.

        Targets may begin with one of the variables, which are names of folders. Returns the staged
        inputs (a linked folder counts no bytes), and warnings. Raises a `WorkspaceError` if an
        input is refused, cannot be read or written, or is too large.
        """
        plans = _plan_all(specs, variables)
        copier = _Copier(self._limits)
        with workspace.guard:
            staged = tuple(self._stage(workspace, plan, copier) for plan in plans)
        return staged, bounded(copier.notes)

    def _stage(self, workspace: Workspace, plan: _Plan, copier: _Copier) -> StagedInput:
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

    def _put_artifact(self, workspace: Workspace, plan: _Plan, copier: _Copier) -> StagedInput:
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
            copier.put((artifact.data,), folder, plan.to[-1], plan.spec.source)
        if before is None or before.name != plan.place:
            put[plan.to] = artifact.ref
        return StagedInput(
            plan.target, plan.spec.source, len(artifact.data), artifact.media_type, artifact.ref
        )

    @contextmanager
    def _opened(self, workspace: Workspace, plan: _Plan) -> Iterator[int]:
        """Open the file or folder that an input comes from."""
        try:
            base, parts = self._base(workspace, plan)
            with using(base):
                fd = _open_any(base, parts)
        except OSError as error:
            raise _unreadable(plan, error) from error
        with using(fd):
            yield fd

    def _base(self, workspace: Workspace, plan: _Plan) -> tuple[int, Parts]:
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
            f"The input {plan.source} is not in a folder that inputs may be read from; allow its"
            " folder in host_folders, or put the file into the workspace."
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    """A parsed input.

    Attributes:
        place: Name of the artifact or skill; empty for other schemes.
        parts: Path below the skill or the workspace, or from ``/`` on this machine.
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
        return shown(self.spec.source)

    @property
    def target(self) -> str:
        return "/".join(self.to)


def _plan_all(specs: Sequence[InputSpec], variables: Mapping[str, str]) -> tuple[_Plan, ...]:
    """Parse inputs; refuse too many of them, and two with the same target."""
    if len(specs) > MAX_INPUTS:
        raise WorkspaceError(
            f"There are {len(specs)} inputs, and {MAX_INPUTS} are allowed; give a folder instead."
        )
    plans: dict[Parts, _Plan] = {}
    for spec in specs:
        plan = _plan(spec, variables)
        if plan.to in plans:
            raise WorkspaceError(
                f"The inputs {plans[plan.to].source} and {plan.source} both go to"
                f" {shown(plan.target)}; give one of them another 'to'."
            )
        plans[plan.to] = plan
    return tuple(plans.values())


def _plan(spec: InputSpec, variables: Mapping[str, str]) -> _Plan:
    if spec.mode not in {"copy", "link"}:
        raise WorkspaceError(f"The mode of an input is {shown(spec.mode)}; use 'copy' or 'link'.")
    scheme, place, parts, version = _parse_source(spec.source)
    name = parts[-1] if parts else folder_name(place)
    if scheme == "artifact":
        name = place.rpartition("/")[2]
    to = _parse_target(substitute(spec.to, variables), name)
    if scheme == "workspace" and parts == to[: len(parts)]:
        raise WorkspaceError(
            f"The input {shown(spec.source)} would be put into itself, at {shown('/'.join(to))};"
            " give it another 'to'."
        )
    return _Plan(spec, scheme, place, parts, version, to)


def _parse_source(source: str) -> tuple[str, str, Parts, int | None]:
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
    raise WorkspaceError(f"The input {shown(source)} has an unknown source; write {_SOURCES}.")


def _parse_target(to: str, name: str) -> Parts:
    """Return the target of an input; `name` is its own name."""
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


def _open_any(base: int, parts: Parts) -> int:
    """Open a plain file or a folder."""
    if not parts:
        return os.dup(base)
    fd = open_file(base, parts)
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return open_plain(base, parts, os.fstat(base).st_uid)


def _put_copy(workspace: Workspace, plan: _Plan, copier: _Copier, fd: int) -> tuple[int, str]:
    """Copy an open file or folder into a workspace, and return its size and type."""
    name = plan.to[-1]
    with _target(workspace, plan) as folder:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            size, head = copier.put_file(fd, folder, name, plan.spec.source)
            return size, media_type(name, head)
        with using(open_folder(folder, (name,), make=True)) as into:
            return copier.put_folder(fd, into, plan.spec.source), FOLDER_TYPE


def _link_target(workspace: Workspace, plan: _Plan) -> Parts | None:
    """Return the path below the workspace that an input can link to, if there is one."""
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


def _put_link(workspace: Workspace, plan: _Plan, found: Parts) -> tuple[int, str]:
    """Link to a file or folder of the workspace, and return its size and type."""
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
def _target(workspace: Workspace, plan: _Plan) -> Iterator[int]:
    """Open the folder that an input goes to, making it if it is missing."""
    try:
        with using(workspace.open(*plan.to[:-1], make=True)) as folder:
            yield folder
    except OSError as error:
        raise WorkspaceError(
            f"The input {plan.source} cannot be put to {shown(plan.target)}: {reason(error)}; give"
            " it another 'to', or remove what is in the way."
        ) from error


def _unreadable(plan: _Plan, error: OSError) -> WorkspaceError:
    return WorkspaceError(
        f"The input {plan.source} cannot be read: {reason(error)}; name an existing file or folder"
        " that is not a link."
    )


class _Copier:
    """Copies into open folders until the budget of one staging is used up."""

    def __init__(self, limits: CopyLimits) -> None:
        self.notes: list[str] = []
        self._limits = limits
        self._entries_left = limits.entries
        self._bytes_left = limits.total_bytes

    def put_file(self, fd: int, folder: int, name: str, path: str) -> tuple[int, bytes]:
        """Copy an open file and its executable bit; see `put`."""
        mode = 0o755 if os.fstat(fd).st_mode & stat.S_IXUSR else 0o644
        return self.put(chunks_of(fd, self._limits.file_bytes + 1), folder, name, path, mode)

    def put_folder(self, source: int, target: int, path: str, *, depth: int = 0) -> int:
        """Copy the contents of an open folder into another one, over files of the same names.

        Links, special files and unreadable ones are left out with a note. Returns how many bytes
        were copied; `path` is the source as messages quote it.
        """
        if depth > self._limits.depth:
            raise WorkspaceError(
                f"{shown(path)} lies more than {self._limits.depth} folders deep; make an archive"
                " of it, or ask for less."
            )
        owner = os.fstat(source).st_uid
        total = 0
        for name, is_folder in self._entries(source, path):
            inner = f"{path}/{name}"
            try:
                fd = (
                    open_folder(source, (name,))
                    if is_folder
                    else open_plain(source, (name,), owner)
                )
            except OSError as error:
                self.notes.append(f"{shown(inner)} was left out: {reason(error)}.")
                continue
            with using(fd):
                if is_folder:
                    with using(open_folder(target, (name,), make=True)) as into:
                        total += self.put_folder(fd, into, inner, depth=depth + 1)
                else:
                    total += self.put_file(fd, target, name, inner)[0]
        return total

    def put(
        self, chunks: Iterable[bytes], folder: int, name: str, path: str, mode: int = 0o644
    ) -> tuple[int, bytes]:
        """Write a file in place of a file or link of that name; return its size and beginning."""
        head, size = b"", 0

        def counted() -> Iterator[bytes]:
            nonlocal head, size
            for chunk in chunks:
                head += chunk[: HEAD_BYTES - len(head)]
                size += len(chunk)
                self._spend(len(chunk), size, path)
                yield chunk

        replace_file(folder, name, counted(), mode)
        return size, head

    def _entries(self, folder: int, path: str) -> list[tuple[str, bool]]:
        """Return the names in a folder, sorted, and which may be folders."""
        found: list[tuple[str, bool]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self._entries_left -= 1
                if self._entries_left < 0:
                    raise WorkspaceError(
                        f"There are more than {self._limits.entries:,} files and folders to copy,"
                        f" in {shown(path)} and before; make an archive of them, or ask for less."
                    )
                found.append((entry.name, entry.is_dir(follow_symlinks=False)))
        return sorted(found)

    def _spend(self, count: int, size: int, path: str) -> None:
        self._bytes_left -= count
        if size > self._limits.file_bytes:
            raise WorkspaceError(
                f"{shown(path)} is larger than {self._limits.file_bytes:,} bytes; split it up."
            )
        if self._bytes_left < 0:
            raise WorkspaceError(
                f"The inputs up to {shown(path)} are larger than {self._limits.total_bytes:,} bytes"
                " together; ask for less."
            )
