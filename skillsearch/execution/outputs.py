"""Finds and reads the files that a run left in its workspace.

A program may have left anything, and may still be changing it: links to secrets, FIFOs, 10^5 files,
a file that never ends. No link is followed, everything is bounded, and whatever is not taken is
reported in a warning.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from skillsearch.errors import WorkspaceError
from skillsearch.execution.content import HEAD_BYTES, media_type
from skillsearch.execution.files import TEMPORARY, bounded, chunks_of, open_plain, reason
from skillsearch.execution.globs import FOLDERS, Matcher, matcher
from skillsearch.execution.metadata import METADATA
from skillsearch.execution.types import CEILINGS, LINKS, OutputSpec, Parts
from skillsearch.execution.workspace import Workspace
from skillsearch.files.openat import open_folder, using
from skillsearch.files.paths import is_utf8, shown

MAX_ENTRIES = 20_000
"""Files, folders and others that one collection looks at."""
MAX_DEPTH = 32
MAX_SECONDS = 30.0
"""Time limit of the search for files; patterns and names made to match slowly reach it."""


@dataclass(frozen=True, slots=True)
class CollectedFile:
    """A file as it was when it was collected; it is new if it changed since the run began."""

    name: str
    data: bytes
    size: int
    media_type: str
    truncated: bool
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class Collected:
    """The files of a collection by name, bounded warnings, and whether a limit cut it short."""

    files: tuple[CollectedFile, ...] = ()
    warnings: tuple[str, ...] = ()
    limits_hit: bool = False


def collect(
    workspace: Workspace,
    spec: OutputSpec,
    variables: Mapping[str, str] = FOLDERS,
    since_ns: int = 0,
    *,
    max_entries: int = MAX_ENTRIES,
    max_seconds: float = MAX_SECONDS,
) -> Collected:
    """Read the matching files of a workspace.

    A file that has several names is taken once. metadata.json and the links that every staged
    skill has are left out. Raises a `WorkspaceError` if a pattern or limit cannot be used, or the
    workspace is gone.
    """
    patterns = matcher(spec.globs, variables, hidden=spec.hidden)
    for name, ceiling in CEILINGS.items():
        value: int = getattr(spec, name)
        if not 1 <= value <= ceiling:
            raise WorkspaceError(f"{name} is {value}; give a number from 1 to {ceiling}.")
    collection = _Collection(spec, since_ns, max_entries, max_seconds)
    try:
        with using(workspace.open()) as top:
            collection.add_folder(top, (), patterns)
            collection.read(top)
    except OSError as error:
        raise WorkspaceError(
            f"The workspace {shown(workspace.path)} cannot be read: {error.strerror}."
        ) from error
    warnings = bounded([*collection.limits, *collection.warnings])
    return Collected(tuple(collection.files), warnings, collection.limits_hit)


class _Collection:
    """The files found so far, those that were read, and warnings."""

    def __init__(
        self, spec: OutputSpec, since_ns: int, max_entries: int, max_seconds: float
    ) -> None:
        self.files: list[CollectedFile] = []
        self.limits: list[str] = []
        self.warnings: list[str] = []
        self.limits_hit = False
        self._spec = spec
        self._since_ns = since_ns
        self._found: list[Parts] = []
        self._max_entries = self._entries_left = max_entries
        self._max_seconds = max_seconds
        self._deadline = time.monotonic() + max_seconds
        self._is_stopped = False
        self._read: dict[tuple[int, int], str] = {}

    def add_folder(self, fd: int, above: Parts, patterns: Matcher) -> None:
        """Find the matching files below an open folder."""
        for name, kind in self._entries(fd, patterns):
            if time.monotonic() > self._deadline:
                if not self._is_stopped:
                    self._stop(f"The search for files took longer than {self._max_seconds:g} s")
                return
            parts, inner = (*above, name), patterns.below(name)
            if (inner.is_match or inner.goes_on) and not _is_ours(parts, kind):
                self._add(fd, parts, kind, inner)

    def _add(self, folder: int, parts: Parts, kind: str, patterns: Matcher) -> None:
        """Take note of a file, a folder or another thing in an open folder."""
        if kind == "folder":
            if patterns.goes_on:
                self._add_subfolder(folder, parts, patterns)
        elif kind == "link":
            self._leave_out(parts, "it is a link")
        elif not patterns.is_match:
            return
        elif kind == "other":
            self._leave_out(parts, "it is not a plain file")
        elif not is_utf8(parts[-1]):
            self._leave_out(parts, "its name is not UTF-8")
        else:
            self._found.append(parts)

    def _entries(self, fd: int, patterns: Matcher) -> list[tuple[str, str]]:
        """Return the names in an open folder with their kinds, sorted; of too many the first."""
        names: Collection[str] | None = patterns.next_names
        if names is None:  # plain names are found even among more than can be looked at
            names = []
            with os.scandir(fd) as entries:
                for entry in entries:
                    if self._entries_left <= 0:
                        self._stop(f"Only {self._max_entries:,} files and folders were looked at")
                        break
                    self._entries_left -= 1
                    names.append(entry.name)
        return [(name, kind) for name in sorted(names) if (kind := _kind(fd, name))]

    def _stop(self, what: str) -> None:
        self._is_stopped = self.limits_hit = True
        self.limits.append(f"{what}; name fewer folders in the patterns, or leave fewer files.")

    def _add_subfolder(self, fd: int, parts: Parts, patterns: Matcher) -> None:
        """Open a folder in an open one and find the matching files below it."""
        if self._is_stopped:
            return
        if len(parts) >= MAX_DEPTH:
            self.limits_hit = True
            self._leave_out(parts, f"it lies {MAX_DEPTH} folders deep")
            return
        if not is_utf8(parts[-1]):
            self._leave_out(parts, "its name is not UTF-8")
            return
        try:
            with using(open_folder(fd, parts[-1:])) as inner:
                self.add_folder(inner, parts, patterns)
        except OSError as error:
            self._leave_out(parts, reason(error))

    def read(self, top: int) -> None:
        """Read the files that were found, by name, until a limit is reached."""
        owner = os.fstat(top).st_uid
        left = self._spec.max_total_bytes
        waiting = sorted(self._found, key="/".join, reverse=True)
        while waiting and left > 0 and len(self.files) < self._spec.max_files:
            parts = waiting.pop()
            try:
                with using(open_plain(top, parts, owner)) as fd:
                    left -= self._read_file(fd, "/".join(parts), left)
            except OSError as error:
                self._leave_out(parts, reason(error))
        if waiting:
            self.limits_hit = True
            limit = "max_files" if left > 0 else "max_total_bytes"
            self.limits.append(
                f"{limit} is {getattr(self._spec, limit):,}; matching files that were not"
                f" collected: {len(waiting):,}."
            )

    def _read_file(self, fd: int, name: str, left: int) -> int:
        """Read an open file, and return how many bytes of it were kept."""
        before = os.fstat(fd)
        is_new = before.st_ctime_ns >= self._since_ns  # unlike mtime, no program can set it
        if self._spec.only_new and not is_new:
            return 0
        key = before.st_dev, before.st_ino
        if key in self._read:
            self.warnings.append(
                f"{shown(name)} is the same file as {shown(self._read[key])}, collected once."
            )
            return 0
        self._read[key] = name
        limit = min(self._spec.max_file_bytes, left)
        data = b"".join(chunks_of(fd, limit + 1))
        after = os.fstat(fd)
        size = len(data) if len(data) <= limit else max(after.st_size, len(data))
        if size > limit:
            self.limits_hit = True
            self.warnings.append(f"{shown(name)} is cut to {limit:,} of {size:,} bytes.")
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            self.warnings.append(f"{shown(name)} changed while it was collected.")
        kind = media_type(name, data[:HEAD_BYTES])
        self.files.append(CollectedFile(name, data[:limit], size, kind, size > limit, is_new))
        return min(size, limit)

    def _leave_out(self, parts: Parts, why: str) -> None:
        self.warnings.append(f"{shown('/'.join(parts))} was not collected: {why}.")


def _kind(folder: int, name: str) -> str | None:
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return None
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "other"


def _is_ours(parts: Parts, kind: str) -> bool:
    """Return whether an entry is machinery of the workspace rather than left by a command."""
    if len(parts) == 1:
        return parts[0] == METADATA or parts[0].startswith(TEMPORARY)
    return kind == "link" and parts[0] == "skills" and len(parts) == 3 and parts[2] in LINKS
