"""Which SKILL.md files changed since an index was made: three ways to find out, one result.

`ChangeDetector.at` looks at given paths, `by_stat` at what has another stat than in the snapshot,
and `walk` at everything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from skillsearch.files.file_stat import UNKNOWN_STAT
from skillsearch.files.paths import is_plain
from skillsearch.index.build.reading import ReadFile, is_same, read_file, stat_of
from skillsearch.index.build.snapshot import SeenFile, SeenFiles, Snapshot
from skillsearch.index.corpus import OpenedIndex
from skillsearch.index.documents import Document
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.skills.discovery import (
    MAX_DEPTH,
    Discovery,
    Scope,
    discover,
    id_of,
    inside,
    scopes_at,
)
from skillsearch.skills.resources import SKIPPED_FOLDERS
from skillsearch.types import Diagnostic, JsonValue, Progress, Root, SkillFile

MOST_PLACES = 3_000
"""With more changed folders and files than this, a walk is simpler."""
_NOT_AGAIN = frozenset({"folder-unreadable", "link-leaves-root"})
"""Diagnostics that a walk reports of an entry before it lists that entry."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Added, changed and removed: SKILL.md files by path or documents by id, each in order."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    missing_roots: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.added) + len(self.changed) + len(self.removed)

    def __str__(self) -> str:
        return f"{len(self.added)} added, {len(self.changed)} changed, {len(self.removed)} removed"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {name: list(found) for name, found in asdict(self).items()}


@dataclass(frozen=True)
class FileChanges:
    """The SKILL.md files that were looked at, compared with how they looked before.

    `is_kept` is 1 for each file found with the bytes that were indexed; `refused` are files that
    could not be indexed before and cannot now, by place. `scopes` are the folders that were looked
    at (None for all), a part of the snapshot `before`, if there was one.
    """

    discovery: Discovery
    roots: Sequence[Root]
    known: Mapping[str, SeenFile]
    is_kept: bytearray
    refused: Mapping[int, ReadFile]
    seen_at_ns: int
    scopes: tuple[Scope, ...] | None = None
    before: Snapshot | None = None

    @property
    def files(self) -> Sequence[SkillFile]:
        """The files found, by document id."""
        return self.discovery.files

    @cached_property
    def to_read(self) -> list[SkillFile]:
        """The files that came or changed and may be indexed."""
        return [
            file
            for place, file in enumerate(self.files)
            if not self.is_kept[place] and place not in self.refused
        ]

    @cached_property
    def removed_ids(self) -> frozenset[str]:
        """The ids of the indexed skills whose files are gone."""
        inner_first = sorted(self.roots, key=lambda root: len(root.path.parts), reverse=True)
        gone = (Path(path) for path in self._gone if self.known[path].is_indexed)
        ids = {id_of(inner_first, path) for path in gone}
        found = {file.doc_id for file in self.files}
        return frozenset(one for one in ids if one is not None and one not in found)

    def report(self, missing_roots: tuple[str, ...] = ()) -> Changes:
        """Return the changes by path."""
        changed = []
        for place, file in enumerate(self.files):
            seen, again = self.known.get(str(file.path)), self.refused.get(place)
            is_other = again is None or (seen and again.seen.content_hash != seen.content_hash)
            if seen and not self.is_kept[place] and is_other:
                changed.append(str(file.path))
        added = {str(file.path) for file in self.files} - self.known.keys()
        lost = tuple(f"{root}/" for root in missing_roots)
        removed = (path for path in self._gone if not path.startswith(lost))
        return Changes(
            tuple(sorted(added)), tuple(sorted(changed)), tuple(sorted(removed)), missing_roots
        )

    @property
    def _gone(self) -> set[str]:
        return self.known.keys() - {str(file.path) for file in self.files}

    def diagnostics(self, reported: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
        """Yield those diagnostics of the run before that still hold: of all that is not read."""
        kept = {str(file.path) for at, file in enumerate(self.files) if self.is_kept[at]}
        is_inside = inside(self.scopes) if self.scopes is not None else None
        for diagnostic in reported:
            if diagnostic.path in kept or (is_inside and not is_inside(diagnostic.path)):
                yield diagnostic
        for found in self.refused.values():
            yield from found.diagnostics

    def snapshot(self, generation: str, read: Mapping[str, SeenFile]) -> Snapshot:
        """Return the state of all that was looked at; `read` are the files that were read."""

        def seen(place: int, path: str) -> SeenFile:
            if path in read:
                return read[path]
            if place in self.refused:
                return self.refused[place].seen
            return self.known[path]._replace(stat=stat_of(self.files[place]))

        unreadable = {d.path for d in self.discovery.diagnostics if d.code == "folder-unreadable"}
        folders = {path: -1 if path in unreadable else at for path, at in self.discovery.folders}
        paths = [str(file.path) for file in self.files]
        files = SeenFiles.of(paths, (seen(*one) for one in enumerate(paths)))
        return Snapshot(generation, folders, files).without_racy(self.seen_at_ns)

    def save_snapshot(self, folder: Path, generation: str, read: Mapping[str, SeenFile]) -> None:
        """Save the state of the disk, unless folders not looked at have an unknown one."""
        looked = self.snapshot(generation, read)
        if self.scopes is None:
            looked.save(folder)
        elif self.before:
            self.before.amended(self.scopes, looked).save(folder)

    def all_new(self) -> FileChanges:
        """Return the same look at the disk compared with nothing."""
        return replace(self, known={}, is_kept=bytearray(len(self.files)), refused={})


@dataclass(frozen=True)
class ChangeDetector:
    """Finds out what changed on disk since an index was made; without one, since `before`.

    The folder of the index is not looked into; `by_stat` gives up after `most_places`.
    """

    index: OpenedIndex | None
    folder: Path | None
    roots: Sequence[Root]
    verify: bool = False
    progress: Progress | None = None
    most_places: int = MOST_PLACES
    before: Snapshot | None = None

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The state of the disk that the index was made of, if it was kept."""
        if self.index and self.folder:
            return Snapshot.load(self.folder, self.index.name)
        return self.before

    def is_unchanged(self) -> bool:
        """Return whether every folder and file has the stat it had."""
        return not self.verify and self.snapshot is not None and not any(self._other_stats)

    def at(self, paths: Iterable[Path]) -> FileChanges | None:
        """Look at SKILL.md files and folders, maybe gone; None if only a walk can tell."""
        return self._look_at(scopes_at(self.roots, paths))

    def by_stat(self) -> FileChanges | None:
        """Look where a folder or a file has another stat; None if only a walk can tell."""
        if self.verify or self.snapshot is None or self.index is None:
            return None
        folders, files = self._other_stats
        if len(folders) + len(files) > self.most_places:
            return None
        reported = self.index.diagnostics()
        known = self.snapshot.folders
        scopes = changed_scopes(known, folders, files, self.roots, reported, self.folder)
        return None if scopes is None else self._look_at(scopes)

    def walk(self) -> FileChanges:
        """Look at everything below the roots."""
        known: Mapping[str, SeenFile] = self.snapshot.files if self.snapshot else {}
        if self.index and not self.snapshot:
            known = _unseen(self.index.corpus.documents)
        seen_at_ns = time.time_ns()
        return self._compare(discover(self.roots, leave_out=self.folder), known, seen_at_ns)

    @cached_property
    def _other_stats(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if self.snapshot is None:
            return (), ()
        folders = tuple(islice(self.snapshot.changed_folders(), self.most_places + 1))
        files = islice(self.snapshot.changed_files(), self.most_places + 1 - len(folders))
        return folders, tuple(files)

    def _look_at(self, scopes: tuple[Scope, ...]) -> FileChanges | None:
        assert self.index is not None
        seen_at_ns = time.time_ns()
        discovery = discover(self.roots, scopes, leave_out=self.folder)
        is_inside = inside(scopes)
        asked = {str(scope.root.path / scope.relative) for scope in scopes}
        if not all(path in asked or is_inside(path) for path, _ in discovery.folders):
            return None  # Only a walk knows whether a link leads to a folder that comes anyway.
        documents = self.index.corpus.documents
        known = _unseen(documents_in(documents, scopes))
        before = self.snapshot.files if self.snapshot else {}
        for path in (str(file.path) for file in discovery.files):
            if (seen := before.get(path)) and not seen.is_indexed:
                known[path] = seen
        found = self._compare(discovery, known, seen_at_ns)
        if len(found.removed_ids) == len(documents):
            return None  # A walk reports that a root is empty.
        return replace(found, scopes=scopes, before=self.snapshot)

    def _compare(
        self, discovery: Discovery, known: Mapping[str, SeenFile], seen_at_ns: int
    ) -> FileChanges:
        """Compare files with what is known of them; those that could not be indexed are read."""
        files = discovery.files
        is_kept = bytearray(len(files))
        refused: dict[int, ReadFile] = {}
        for place, file in enumerate(files if known else ()):
            seen = known.get(str(file.path))
            if seen and seen.is_indexed:
                is_kept[place] = is_same(file, seen, verify=self.verify)
            elif seen and (again := read_file(file)).skill is None:
                refused[place] = again
            if self.progress:
                self.progress("read", place + 1, len(files))
        return FileChanges(discovery, self.roots, known, is_kept, refused, seen_at_ns)


def changed_scopes(
    known: Collection[str],
    folders: Sequence[str],
    files: Sequence[str],
    roots: Sequence[Root],
    reported: Iterable[Diagnostic],
    left_out: Path | None,
) -> tuple[Scope, ...] | None:
    """Return the folders to look at to find all that a walk over the roots would find.

    `known` are all folders of the snapshot; `folders` and `files` those with another stat, gone
    ones included; `reported` the diagnostics of the walk before. None if only a walk can tell:
    links to folders are involved, or a diagnostic would be lost that is not reported again.
    """
    tops, changed = {str(root.path) for root in roots}, frozenset(folders)
    if not all(path.rpartition("/")[0] in known or path in tops for path in known):
        return None  # A folder was reached by a link alone.
    for one in reported:  # Would it be dropped and not be found again?
        is_inside = one.path.rpartition("/")[0] in changed
        if one.code == "too-many-folders" or (one.code in _NOT_AGAIN and is_inside):
            return None
    places = {path.rpartition("/")[0]: False for path in files}
    try:
        for folder in folders:
            if os.path.lexists(folder):
                places.setdefault(folder, False)
                places |= {path: True for path in _subfolders(folder) if path not in known}
            else:
                places[folder] = True
        if left_out:
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


def _unseen(documents: Iterable[Document]) -> dict[str, SeenFile]:
    return {one.path: SeenFile(UNKNOWN_STAT, one.content_hash) for one in documents}


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
