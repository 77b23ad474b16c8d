"""Which SKILL.md files changed since an index was made: three ways to find out, one result.

`ChangeDetector.at` looks at given paths, `by_stat` at what has another stat than in the snapshot,
and `walk` at everything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from skillsearch.files.file_stat import UNKNOWN_STAT
from skillsearch.files.paths import is_plain
from skillsearch.index.build.reading import ReadFile, is_same, read_file, stat_of
from skillsearch.index.build.snapshot import SeenFile, SeenFiles, Snapshot, take_snapshot
from skillsearch.index.corpus import OpenedIndex
from skillsearch.index.documents import Document
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.skills.discovery import (
    MAX_DEPTH,
    Discovery,
    Scope,
    discover,
    discover_in,
    id_of,
    inside,
    make_roots,
    scopes_at,
)
from skillsearch.skills.resources import SKIPPED_FOLDERS
from skillsearch.types import Diagnostic, JsonValue, Progress, Root, SkillFile

MOST_PLACES = 3_000
"""With more changed folders and files than this, a walk is simpler."""
_NOT_AGAIN = frozenset({"folder-unreadable", "link-leaves-root"})
"""Diagnostics that a walk reports of an entry before it lists that entry."""


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The SKILL.md files that were looked at, compared with what was known of them.

    Attributes:
        discovery: The files and folders found.
        known: How the files looked before, by path.
        is_kept: For each file found, 1 if it has the bytes that were indexed.
        refused: Files that could not be indexed before and cannot now, by place.
        seen_at_ns: When the look began, nanoseconds since the epoch.
        missing_roots: Roots that are gone; their skills do not count as removed.
        scopes: The folders that were looked at; None for all.
        before: The snapshot that the scopes are a part of, if there was one.
    """

    discovery: Discovery
    known: Mapping[str, SeenFile]
    is_kept: bytearray
    refused: Mapping[int, ReadFile]
    seen_at_ns: int
    missing_roots: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] | None = None
    before: Snapshot | None = None

    @property
    def files(self) -> Sequence[SkillFile]:
        """All files found, by document id."""
        return self.discovery.files

    @property
    def to_read(self) -> list[SkillFile]:
        """The files that came or changed and may be indexed."""
        return [
            file
            for place, file in enumerate(self.files)
            if not self.is_kept[place] and place not in self.refused
        ]

    @property
    def added(self) -> tuple[str, ...]:
        """Paths of the files that were not known."""
        return tuple(sorted({str(file.path) for file in self.files} - self.known.keys()))

    @property
    def changed(self) -> tuple[str, ...]:
        """Paths of the files with other bytes than before."""
        found = []
        for place, file in enumerate(self.files):
            seen, again = self.known.get(str(file.path)), self.refused.get(place)
            is_other = again is None or (seen and again.seen.content_hash != seen.content_hash)
            if seen and not self.is_kept[place] and is_other:
                found.append(str(file.path))
        return tuple(sorted(found))

    @property
    def removed(self) -> tuple[str, ...]:
        """Paths of the files that are gone."""
        lost = tuple(f"{root}/" for root in self.missing_roots)
        gone = self.known.keys() - {str(file.path) for file in self.files}
        return tuple(sorted(path for path in gone if not path.startswith(lost)))

    def removed_ids(self, roots: Sequence[Root]) -> set[str]:
        """Return the ids of the indexed skills whose files are gone."""
        inner_first = sorted(roots, key=lambda root: len(root.path.parts), reverse=True)
        gone = (Path(path) for path in self.removed if self.known[path].is_indexed)
        ids = {id_of(inner_first, path) for path in gone}
        return {one for one in ids if one is not None} - {file.doc_id for file in self.files}

    def __len__(self) -> int:
        return len(self.added) + len(self.changed) + len(self.removed)

    def __str__(self) -> str:
        return f"{len(self.added)} added, {len(self.changed)} changed, {len(self.removed)} removed"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        names = ("added", "changed", "removed", "missing_roots")
        return {name: list(getattr(self, name)) for name in names}

    def diagnostics(self, reported: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
        """Yield the diagnostics of all files that need not be read.

        `reported` is what was reported before, of these files and of others.
        """
        kept = {
            str(file.path)
            for file, is_kept in zip(self.files, self.is_kept, strict=True)
            if is_kept
        }
        is_inside = inside(self.scopes) if self.scopes is not None else None
        for diagnostic in reported:
            if diagnostic.path in kept or (is_inside and not is_inside(diagnostic.path)):
                yield diagnostic
        for found in self.refused.values():
            yield from found.diagnostics

    def snapshot(self, generation: str, read: Mapping[str, SeenFile]) -> Snapshot | None:
        """Return the state of the disk; None if that of the other folders is not known."""
        looked = take_snapshot(generation, self.discovery, self.seen_files(read), self.seen_at_ns)
        if self.scopes is None:
            return looked
        return self.before.amended(self.scopes, looked) if self.before else None

    def seen_files(self, read: Mapping[str, SeenFile]) -> SeenFiles:
        """Return how all files found look; `read` are those that were read, by path."""
        seen = SeenFiles()
        for place, file in enumerate(self.files):
            path = str(file.path)
            seen.add(path, read.get(path) or self._seen(place, file))
        return seen

    def all_new(self) -> FileChanges:
        """Return the same look at the disk compared with nothing."""
        return compare_files(self.discovery, {}, self.seen_at_ns)

    def _seen(self, place: int, file: SkillFile) -> SeenFile:
        """Return how a file looks that is kept or refused."""
        if place in self.refused:
            return self.refused[place].seen
        return self.known[str(file.path)]._replace(stat=stat_of(file))


def compare_files(
    discovery: Discovery,
    known: Mapping[str, SeenFile],
    seen_at_ns: int,
    *,
    verify: bool = False,
    progress: Progress | None = None,
) -> FileChanges:
    """Compare the files found with what is known of them, by path.

    A file whose stat is unchanged is not opened unless `verify` is set; one that could not be
    indexed before is read again.
    """
    files = discovery.files
    is_kept = bytearray(len(files))
    refused: dict[int, ReadFile] = {}
    for place, file in enumerate(files if known else ()):
        seen = known.get(str(file.path))
        if seen and seen.is_indexed:
            is_kept[place] = is_same(file, seen, verify=verify)
        elif seen and (again := read_file(file)).skill is None:
            refused[place] = again
        if progress:
            progress("read", place + 1, len(files))
    return FileChanges(discovery, known, is_kept, refused, seen_at_ns)


class ChangeDetector:
    """Finds out what changed on disk since an index was made."""

    def __init__(
        self,
        index: OpenedIndex | None,
        folder: Path,
        roots: Sequence[Root],
        *,
        verify: bool = False,
        progress: Progress | None = None,
        most_places: int = MOST_PLACES,
    ) -> None:
        """Take an index, None for an empty one, its folder and its roots.

        With `verify` no stat is trusted and every file is hashed. After more than `most_places`
        changed stats `by_stat` gives up.
        """
        self.index = index
        self._folder = folder
        self._roots = roots
        self._verify = verify
        self._progress = progress
        self._most_places = most_places

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The state of the disk that the index was made of, if it was kept."""
        return _snapshot_of(self.index, self._folder) if self.index else None

    def is_unchanged(self) -> bool:
        """Return whether every folder and file has the stat it had."""
        return not self._verify and self.snapshot is not None and not any(self._other_stats)

    def at(self, paths: Iterable[Path]) -> FileChanges | None:
        """Look at SKILL.md files and folders, maybe gone; None if only a walk can tell."""
        return self._look_at(scopes_at(self._roots, paths))

    def by_stat(self) -> FileChanges | None:
        """Look where a folder or a file has another stat; None if only a walk can tell."""
        if self._verify or self.snapshot is None or self.index is None:
            return None
        folders, files = self._other_stats
        if len(folders) + len(files) > self._most_places:
            return None
        reported = self.index.diagnostics()
        known = self.snapshot.folders
        scopes = changed_scopes(known, folders, files, self._roots, reported, self._folder)
        return None if scopes is None else self._look_at(scopes)

    def walk(self) -> FileChanges:
        """Look at everything below the roots."""
        seen_at_ns = time.time_ns()
        discovery = discover(self._roots, leave_out=self._folder)
        known: Mapping[str, SeenFile] = self.snapshot.files if self.snapshot else {}
        if self.index and not self.snapshot:
            known = {one.path: _unseen(one) for one in self.index.corpus.documents}
        return compare_files(
            discovery, known, seen_at_ns, verify=self._verify, progress=self._progress
        )

    @cached_property
    def _other_stats(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The folders and files whose stat differs, one more than `most_places` at most."""
        if self.snapshot is None:
            return (), ()
        folders = tuple(islice(self.snapshot.changed_folders(), self._most_places + 1))
        files = islice(self.snapshot.changed_files(), self._most_places + 1 - len(folders))
        return folders, tuple(files)

    def _look_at(self, scopes: tuple[Scope, ...]) -> FileChanges | None:
        """Look at some folders; None if only a walk can tell."""
        assert self.index is not None
        seen_at_ns = time.time_ns()
        discovery = discover_in(self._roots, scopes, leave_out=self._folder)
        is_inside = inside(scopes)
        asked = {str(scope.root.path / scope.relative) for scope in scopes}
        if not all(path in asked or is_inside(path) for path, _ in discovery.folders):
            return None  # Only a walk knows whether a link leads to a folder that comes anyway.
        documents = self.index.corpus.documents
        known = {one.path: _unseen(one) for one in documents_in(documents, scopes)}
        before = self.snapshot.files if self.snapshot else {}
        for path in (str(file.path) for file in discovery.files):
            if (seen := before.get(path)) and not seen.is_indexed:
                known[path] = seen
        found = compare_files(discovery, known, seen_at_ns, progress=self._progress)
        if len(found.removed_ids(self._roots)) == len(documents):
            return None  # A walk reports that a root is empty.
        return replace(found, scopes=scopes, before=self.snapshot)


def is_up_to_date(index: OpenedIndex, folder: IndexFolder) -> bool:
    """Return whether every folder and file has the stat it had when an index was made."""
    snapshot = _snapshot_of(index, folder.path)
    return snapshot is not None and snapshot.is_current()


def compare(index: OpenedIndex, folder: IndexFolder, *, verify: bool) -> FileChanges:
    """Compare every SKILL.md below the roots of an index that exist with what was indexed."""
    roots = index.settings.roots
    present = {root.path for root in make_roots([root.path for root in roots])[0]}
    there = [root for root in roots if root.path in present]
    found = ChangeDetector(index, folder.path, there, verify=verify).walk()
    missing = tuple(str(root.path) for root in roots if root.path not in present)
    return replace(found, missing_roots=missing)


def changed_scopes(
    known: Collection[str],
    folders: Sequence[str],
    files: Sequence[str],
    roots: Sequence[Root],
    reported: Iterable[Diagnostic],
    left_out: Path,
) -> tuple[Scope, ...] | None:
    """Return the folders to look at to find all that a walk over the roots would find.

    Args:
        known: All folders of the snapshot.
        folders: Those whose time changed, or that are gone.
        files: SKILL.md files whose stat changed, or that are gone.
        roots: The roots of the snapshot.
        reported: The diagnostics of the walk before.
        left_out: A folder not to look into.

    Returns:
        The folders; None if only a walk can tell: links to folders are involved, or a diagnostic
        would be lost that looking at these folders does not report again.
    """
    tops, changed = {str(root.path) for root in roots}, frozenset(folders)
    if not all(path.rpartition("/")[0] in known or path in tops for path in known):
        return None  # A folder was reached by a link alone.
    if any(_is_lost(one, changed) for one in reported):
        return None
    places = {path.rpartition("/")[0]: False for path in files}
    try:
        for folder in folders:
            if os.path.lexists(folder):
                places.setdefault(folder, False)
                places |= {path: True for path in _subfolders(folder) if path not in known}
            else:
                places[folder] = True
        places.pop(os.path.realpath(left_out), None)
        return tuple(_scope(roots, path, is_deep=deep) for path, deep in sorted(places.items()))
    except (_WalkNeededError, OSError):
        return None


def documents_in(documents: DocumentStore, scopes: Iterable[Scope]) -> Iterator[Document]:
    """Yield the documents that lie in some folders."""
    for scope in scopes:
        number = documents.number_of(f"{scope.root.alias}:{scope.relative or '.'}")
        if number is not None:
            yield documents[number]
        if scope.is_deep:
            folder = f"{scope.relative}/" if scope.relative else ""
            yield from documents.with_prefix(f"{scope.root.alias}:{folder}")


class _WalkNeededError(Exception):
    """A folder holds something that only a walk over the roots treats correctly."""


def _unseen(document: Document) -> SeenFile:
    """Return an indexed file of which only the hash is known."""
    return SeenFile(UNKNOWN_STAT, document.content_hash)


def _snapshot_of(index: OpenedIndex, folder: Path) -> Snapshot | None:
    snapshot = Snapshot.load(folder)
    return snapshot if snapshot and snapshot.generation == index.name else None


def _is_lost(found: Diagnostic, changed: Collection[str]) -> bool:
    """Return whether a diagnostic would be dropped and not be found again."""
    if found.code in _NOT_AGAIN:
        return found.path.rpartition("/")[0] in changed
    return found.code == "too-many-folders"


def _subfolders(folder: str) -> list[str]:
    """Return the folders in a folder that a walk would look into."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in SKIPPED_FOLDERS:
                continue
            if entry.is_dir(follow_symlinks=False):
                found.append(entry.path)
            elif entry.is_symlink() and entry.is_dir():
                raise _WalkNeededError
    return found


def _scope(roots: Sequence[Root], path: str, *, is_deep: bool) -> Scope:
    """Return a folder of a root as a scope."""
    place = Path(path)
    inner = max(
        (root for root in roots if place.is_relative_to(root.path)),
        key=lambda root: len(root.path.parts),
    )
    below = place.relative_to(inner.path).parts
    # A walk does not look into these, and reports them.
    if len(below) > MAX_DEPTH or not is_plain(path):
        raise _WalkNeededError
    return Scope(inner, "/".join(below), is_deep)
