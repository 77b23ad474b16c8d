"""Finds, reads, keeps and describes the files that a run left in its workspace.

A program may have left anything, and may still be changing it. No link is followed, everything is
bounded, and whatever is not taken is reported in a warning.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from skillsearch.errors import SkillSearchError, WorkspaceError
from skillsearch.execution import types
from skillsearch.execution.isolation.capture import visible_text, whole_characters
from skillsearch.execution.tracing import span
from skillsearch.execution.workspaces.artifacts import ArtifactStore
from skillsearch.execution.workspaces.files import (
    TEMPORARY,
    bounded,
    chunks_of,
    explained,
    open_plain,
    reason,
)
from skillsearch.execution.workspaces.globs import FOLDERS, Matcher, matcher
from skillsearch.execution.workspaces.workspace import METADATA, Workspace
from skillsearch.files.media_types import HEAD_BYTES, is_text, media_type
from skillsearch.files.openat import open_folder, using
from skillsearch.files.paths import is_utf8, shown
from skillsearch.text.safe_text import listed
from skillsearch.types.json_values import JsonObject

MAX_ENTRIES = 20_000
MAX_DEPTH = 32
MAX_SECONDS = 30.0  # patterns and names made to match slowly reach it

_AUTOMATIC = types.OutputSpec(globs=("out/**",), max_files=20, only_new=True)
"""The patterns collected if nothing was asked for."""
_NAMED = 5  # files in a warning


class CollectedFile(NamedTuple):
    """A file as it was when it was collected; it is new if it changed since the run began."""

    name: str
    data: bytes
    size: int
    media_type: str
    truncated: bool
    is_new: bool = True


_Files = Sequence[CollectedFile]


class FileCollection(NamedTuple):
    """The files of a collection by name, bounded warnings, and whether a limit cut it short."""

    files: _Files
    warnings: tuple[str, ...]
    limits_hit: bool


class Gathering:
    """The outputs of a run so far; a problem is but a warning, as the result is worth having."""

    def __init__(
        self,
        workspace: Workspace,
        variables: Mapping[str, str],
        since_ns: int,
        store: ArtifactStore | None,
        inputs: tuple[types.StagedInput, ...],
        warnings: list[str],
    ) -> None:
        """Take what is known before the run, and the warnings so far.

        Patterns may begin with `variables`, which name folders; the run began `since_ns` by the
        clock of the workspace's disk.
        """
        self.workspace, self.variables, self.since_ns = workspace, variables, since_ns
        self.store, self.inputs, self.warnings = store, inputs, warnings
        self.files: dict[str, types.OutputFile] = {}
        self.texts: list[types.OutputFile] = []  # one is the primary output
        self.artifacts: list[types.ArtifactRef] = []

    def gather(self, request: types.RunRequest, *, failed: bool) -> None:
        """Collect the outputs of the run, and keep those that are to be kept."""
        specs = output_specs(request)
        for spec in specs:
            files, limits_hit = self._collect(spec, failed=failed)
            saved = self._save(files, spec) if spec.save else {}
            self._describe(files, spec, saved if request.omit_inline_content else ())
            self.artifacts.extend(saved.values())
            record: JsonObject = {
                "globs": spec.globs,
                "saved_as": [ref.name for ref in saved.values()],
                "versions": [ref.version for ref in saved.values()],
                "limits_hit": limits_hit,
            }
            try:
                self.workspace.record("outputs", record)
            except SkillSearchError as error:
                self.warnings.append(f"The outputs are not recorded in metadata.json: {error}")
        if request.save_as_artifacts and not request.output_files:
            self.warnings.append(
                "save_as_artifacts has no effect without output_files; name the files there."
            )
        if request.omit_inline_content and not any(spec.save for spec in specs):
            self.warnings.append("omit_inline_content has no effect: nothing is to be saved.")

    def _collect(self, spec: types.OutputSpec, *, failed: bool) -> tuple[_Files, bool]:
        exec_id, patterns = self.workspace.path.name, ", ".join(spec.globs)
        try:
            with span("workspace.collect", {"exec_id": exec_id, "patterns": patterns}) as tell:
                collected = collect(self.workspace, spec, self.variables, self.since_ns)
                tell({"count": len(collected.files)})
        except SkillSearchError as error:
            self.warnings.append(f"Outputs were not collected: {error}")
            return (), False
        files, notes = without_empty(collected.files) if failed else (collected.files, [])
        self.warnings.extend((*collected.warnings, *notes))
        return files, collected.limits_hit

    def _save(self, files: _Files, spec: types.OutputSpec) -> dict[str, types.ArtifactRef]:
        """Keep files as artifacts; return those that are kept, by the name of the file."""
        if self.store is None:
            self.warnings.append("There is no artifact store; the outputs are not kept.")
            return {}
        saved, notes = {}, []
        for file in files:
            if file.truncated:
                notes.append(f"{shown(file.name)} is cut, and is not kept; raise its limits.")
                continue
            try:
                name = spec.name_template + file.name
                saved[file.name] = self.store.save(name, file.data, file.media_type)
            except (SkillSearchError, OSError) as error:
                notes.append(f"{shown(file.name)} is not kept: {error}")
        self.warnings.extend(bounded(notes))
        return saved

    def _describe(self, files: _Files, spec: types.OutputSpec, omitted: Collection[str]) -> None:
        with span("workspace.inline", {"exec_id": self.workspace.path.name, "count": len(files)}):
            for file in files:
                inline = spec.inline and file.name not in omitted
                is_candidate = spec is _AUTOMATIC and file.size <= types.MAX_PRIMARY_BYTES
                output = output_file(file, inline=inline or is_candidate)
                if output.content is not None and file.is_new:
                    self.texts.append(output)
                if inline or file.name not in self.files:
                    self.files[file.name] = output if inline else replace(output, content=None)


def output_specs(request: types.RunRequest) -> tuple[types.OutputSpec, ...]:
    """Return the outputs that a request names; by default the first files of ``out``."""
    save, prefix = request.save_as_artifacts, request.artifact_prefix
    older = types.OutputSpec(request.output_files, inline=True, save=save, name_template=prefix)
    specs = (older, request.outputs)
    return tuple(spec for spec in specs if spec is not None and spec.globs) or (_AUTOMATIC,)


def primary_output(files: Sequence[types.OutputFile]) -> types.OutputFile | None:
    """Return the first file by name that holds a text of at most `MAX_PRIMARY_BYTES`."""
    texts = (file for file in files if file.content and file.size_bytes <= types.MAX_PRIMARY_BYTES)
    return min(texts, key=lambda file: file.name, default=None)


def output_file(file: CollectedFile, *, inline: bool) -> types.OutputFile:
    """Return the description of a collected file, with its content if that is wanted and text."""
    data = whole_characters(file.data) if file.truncated else file.data
    content = visible_text(data) if inline and is_text(file.media_type, data) else None
    return types.OutputFile(file.name, file.media_type, file.size, content, file.truncated)


def without_empty(files: _Files) -> tuple[_Files, list[str]]:
    """Drop the empty files of a failed run, which were begun and never written, with a warning."""
    full = [file for file in files if file.size]
    names = listed((shown(file.name) for file in files if not file.size), _NAMED)
    return full, [f"The command failed, so empty files are left out: {names}."] if names else []


def collect(
    workspace: Workspace,
    spec: types.OutputSpec,
    variables: Mapping[str, str] = FOLDERS,
    since_ns: int = 0,
) -> FileCollection:
    """Read the matching files of a workspace, each once, or raise a `WorkspaceError`."""
    patterns = matcher(spec.globs, variables, hidden=spec.hidden)
    for name, ceiling in types.CEILINGS.items():
        value: int = getattr(spec, name)
        if not 1 <= value <= ceiling:
            raise WorkspaceError(f"{name} is {value}; give a number from 1 to {ceiling}.")
    collection = _Collection(spec, since_ns)
    failed = explained(f"The workspace {shown(workspace.path)} cannot be read: %s.")
    with failed, using(workspace.open()) as top:
        collection.add_folder(top, (), patterns)
        collection.read(top)
    warnings = bounded([*collection.limits, *collection.warnings])
    return FileCollection(tuple(collection.files), warnings, collection.limits_hit)


class _Collection:
    def __init__(self, spec: types.OutputSpec, since_ns: int) -> None:
        self.spec, self.since_ns = spec, since_ns
        self.started = time.monotonic()
        self.entries = 0
        self.matching: list[types.Parts] = []
        self.inodes: dict[tuple[int, int], str] = {}
        self.files: list[CollectedFile] = []
        self.limits: list[str] = []
        self.warnings: list[str] = []
        self.limits_hit = self.is_stopped = False

    def add_folder(self, fd: int, above: types.Parts, patterns: Matcher) -> None:
        """Find the matching files below an open folder."""
        names: Collection[str] | None = patterns.next_names
        if names is None:  # names that are given are found among any number
            with os.scandir(fd) as entries:
                names = [entry.name for entry in islice(entries, MAX_ENTRIES - self.entries)]
                self.entries += len(names)
                if self.entries == MAX_ENTRIES and next(entries, None):
                    self._stop(f"Only {MAX_ENTRIES:,} files and folders were looked at")
        for name in sorted(names):
            if time.monotonic() - self.started > MAX_SECONDS:
                self._stop(f"The search for files took longer than {MAX_SECONDS:g} s")
                return
            inner = patterns.below(name)
            if inner.is_match or inner.goes_on:
                self._add(fd, (*above, name), inner)

    def _add(self, folder: int, parts: types.Parts, patterns: Matcher) -> None:
        try:
            mode = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode
        except OSError:
            return
        is_folder = stat.S_ISDIR(mode)
        wanted = patterns.goes_on and not self.is_stopped if is_folder else patterns.is_match
        if _is_ours(parts, mode) or not (wanted or stat.S_ISLNK(mode)):
            return
        try:
            if why := _unusable(parts, mode):
                self.limits_hit |= is_folder and len(parts) >= MAX_DEPTH
                self._leave_out(parts, why)
            elif is_folder:
                with using(open_folder(folder, parts[-1:])) as inner:
                    self.add_folder(inner, parts, patterns)
            else:
                self.matching.append(parts)
        except OSError as error:
            self._leave_out(parts, reason(error))

    def read(self, top: int) -> None:
        """Read the files that were found, by name, until a limit is reached."""
        owner = os.fstat(top).st_uid
        left = self.spec.max_total_bytes
        waiting = sorted(self.matching, key="/".join, reverse=True)
        while waiting and left > 0 and len(self.files) < self.spec.max_files:
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
                f"{limit} is {getattr(self.spec, limit):,}; matching files that were not"
                f" collected: {len(waiting):,}."
            )

    def _read_file(self, fd: int, name: str, left: int) -> int:
        """Read an open file, and return how many bytes of it were kept."""
        before = os.fstat(fd)
        is_new = before.st_ctime_ns >= self.since_ns  # unlike mtime, no program can set it
        if self.spec.only_new and not is_new:
            return 0
        first = self.inodes.setdefault((before.st_dev, before.st_ino), name)
        if first != name:
            self.warnings.append(
                f"{shown(name)} is the same file as {shown(first)}, collected once."
            )
            return 0
        limit = min(self.spec.max_file_bytes, left)
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

    def _stop(self, what: str) -> None:
        if not self.is_stopped:
            self.limits.append(f"{what}; name fewer folders in the patterns, or leave fewer files.")
        self.is_stopped = self.limits_hit = True

    def _leave_out(self, parts: types.Parts, why: str) -> None:
        self.warnings.append(f"{shown('/'.join(parts))} was not collected: {why}.")


def _is_ours(parts: types.Parts, mode: int) -> bool:
    """Return whether an entry is machinery of the workspace rather than left by a command."""
    if len(parts) == 1:
        return parts[0] == METADATA or parts[0].startswith(TEMPORARY)
    is_link_place = parts[0] == "skills" and len(parts) == 3 and parts[2] in types.LINKS
    return is_link_place and stat.S_ISLNK(mode)


def _unusable(parts: types.Parts, mode: int) -> str:
    """Return why an entry is not collected or entered, if so."""
    if stat.S_ISLNK(mode):
        return "it is a link"
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        return "it is not a plain file"
    if stat.S_ISDIR(mode) and len(parts) >= MAX_DEPTH:
        return f"it lies {MAX_DEPTH} folders deep"
    return "" if is_utf8(parts[-1]) else "its name is not UTF-8"
