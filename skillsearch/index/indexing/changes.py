"""Which SKILL.md files changed since an index was made: three ways to find out, one result.

`ChangeDetector.at` looks at given paths, `by_stat` at what has another stat than in the snapshot,
and `walk` at everything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, field, replace
from functools import cached_property
from itertools import chain, compress, count, islice
from pathlib import Path

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.files.openat import UNKNOWN_STAT
from skillsearch.files.paths import is_plain
from skillsearch.index.corpus import OpenedIndex
from skillsearch.index.documents.document import Document
from skillsearch.index.indexing.reading import NO_EXAMPLES, FileReader, is_same
from skillsearch.index.indexing.snapshot import SeenFile, SeenFiles, Snapshot
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.skills.discovery import (
    Discovery,
    Scope,
    discover,
    id_of,
    inside,
    is_skipped,
    scopes_at,
)
from skillsearch.skills.example_requests import ExampleBook, beside_hash
from skillsearch.skills.resources import MAX_DEPTH
from skillsearch.types.indexing import Progress
from skillsearch.types.skills import SKILL_MD, Diagnostic, FileStat, Root, SkillFile

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

    def to_dict(self) -> dict[str, list[str]]:
        """Return the JSON form."""
        return {name: list(values) for name, values in asdict(self).items()}


@dataclass(frozen=True)
class FileChanges:
    """The SKILL.md files that were looked at, compared with how they looked before.

    `is_kept` is 1 for each file found with the bytes that were indexed. The `reader` has read those
    that could not be indexed before and cannot now, which are `refused`, by place. `scopes` are the
    folders that were looked at (None for all), a part of the snapshot `before` of the `index`, if
    there were these. `examples` is as in `Snapshot`.
    """

    index: OpenedIndex | None
    discovery: Discovery
    roots: Sequence[Root]
    is_kept: Sequence[int]
    reader: FileReader
    refused: Set[int] = frozenset()
    before: Snapshot | None = None
    seen_before: Mapping[str, SeenFile] = field(default_factory=dict)
    seen_at_ns: int = 0
    scopes: tuple[Scope, ...] | None = ()
    examples: str = ""

    @property
    def files(self) -> Sequence[SkillFile]:
        """The files found, by document id."""
        return self.discovery.files

    @cached_property
    def to_read(self) -> list[SkillFile]:
        """The files that came or changed and may be indexed."""
        done = {*compress(count(), self.is_kept), *self.refused}
        return [file for position, file in enumerate(self.files) if position not in done]

    @cached_property
    def removed_ids(self) -> frozenset[str]:
        """The ids of the indexed skills whose files are gone."""
        held = self.index.settings.roots if self.index else self.roots
        inner_first = sorted(held, key=lambda root: len(root.path.parts), reverse=True)
        gone = (Path(path) for path in self._gone if self.seen_before[path].is_indexed)
        ids = {id_of(inner_first, path) for path in gone} - {file.doc_id for file in self.files}
        return frozenset(doc_id for doc_id in ids if doc_id is not None)

    def report(self, missing_roots: tuple[str, ...] = ()) -> Changes:
        """Return the changes by path."""
        read, changed = self.reader.files, []
        for path, is_kept in zip(self._paths, self.is_kept, strict=True):
            seen, again = self.seen_before.get(path), read.get(path)
            if seen and not is_kept and (again is None or again.seen[1:] != seen[1:]):
                changed.append(path)
        added = set(self._paths) - self.seen_before.keys()
        come, other, gone = (tuple(sorted(some)) for some in (added, changed, self._gone))
        return Changes(come, other, gone, missing_roots)

    @cached_property
    def _paths(self) -> list[str]:
        return [str(file.path) for file in self.files]

    @property
    def _gone(self) -> set[str]:
        return self.seen_before.keys() - set(self._paths)

    def diagnostics(self, before: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
        """Yield what was found, and of the run before what still holds: of all that is not read."""
        yield from self.discovery.diagnostics
        yield from chain.from_iterable(read.diagnostics for read in self.reader.files.values())
        unchanged = set(compress(self._paths, self.is_kept))
        is_inside = inside(self.scopes) if self.scopes is not None else lambda _path: True
        yield from (d for d in before if d.path in unchanged or not is_inside(d.path))

    def snapshot(self, generation: str) -> Snapshot:
        """Return the state of all that was looked at, once every file that changed was read."""
        unreadable = {
            diagnostic.path
            for diagnostic in self.discovery.diagnostics
            if diagnostic.code == "folder-unreadable"
        }
        folders = {path: -1 if path in unreadable else at for path, at in self.discovery.folders}
        read = self.reader.files
        seen = (
            read[path].seen if path in read else self.seen_before[path]._replace(stat=file.stat)
            for path, file in zip(self._paths, self.files, strict=True)
        )
        files = SeenFiles.of(self._paths, seen)
        beside = (self.reader.continued.get(path, ()) for path in self._paths)
        stats = dict(chain.from_iterable(beside))
        others = (SeenFile(stat, "", is_indexed=False) for stat in stats.values())
        continued = SeenFiles.of(list(stats), others)
        snapshot = Snapshot(generation, folders, files, continued, self.examples)
        return snapshot.without_racy(self.seen_at_ns)

    def save_snapshot(self, folder: Path, generation: str) -> None:
        """Save the state of the disk, unless folders not looked at have an unknown one."""
        looked = self.snapshot(generation)
        if self.scopes is None:
            looked.save(folder)
        elif self.before:
            self.before.amended(self.scopes, looked).save(folder)

    def all_new(self) -> FileChanges:
        """Return the same look at the disk compared with nothing."""
        nothing = bytearray(len(self.files))
        return replace(self, index=None, seen_before={}, is_kept=nothing, refused=frozenset())


@dataclass(frozen=True)
class ChangeDetector:
    """Finds out what changed on disk since an index was made; without one, since `before`.

    The folder of the index is not looked into; `by_stat` gives up after `most_places`. What lies
    below roots that are `gone` stays as it was. All files below the roots whose paths are in
    `unfinished` are to be read again.
    """

    index: OpenedIndex | None
    folder: Path | None
    roots: Sequence[Root]
    verify: bool = False
    progress: Progress | None = None
    most_places: int = MOST_PLACES
    before: Snapshot | None = None
    gone: Sequence[Root] = ()
    book: ExampleBook = NO_EXAMPLES
    unfinished: Set[str] = frozenset()

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The state of the disk that the index was made of, if it was kept."""
        if self.index and self.folder:
            return Snapshot.load(self.folder, self.index.name)
        return self.before

    def is_unchanged(self) -> bool:
        """Return whether every folder and file has the stat it had."""
        if self.verify or self.unfinished or self.snapshot is None:
            return False
        return self.snapshot.examples == self._examples and not any(self._other_stats)

    @cached_property
    def _examples(self) -> str:
        """The digest of the book; with the roots that are gone, if those lack what is new in it."""
        digest = self.book.digest
        if not self.gone or (self.snapshot and self.snapshot.examples == digest):
            return digest
        return "\n".join([digest, *sorted(str(root.path) for root in self.gone)])

    @cached_property
    def _with_other_examples(self) -> frozenset[str]:
        """The paths of the indexed skills for which the book has other examples by now."""
        if self.snapshot and self.snapshot.examples == self._examples:
            return frozenset()
        gone = {str(root.path) for root in self.gone}
        documents = self.index.corpus.documents if self.index else ()
        there = (document for document in documents if document.root not in gone)
        given = ((d, tuple(each for each in d.examples if each.source != "skill")) for d in there)
        return frozenset(d.path for d, had in given if self.book.of(d.name, d.description) != had)

    def at(self, paths: Iterable[Path]) -> FileChanges | None:
        """Look at files and folders, maybe gone; None if only a walk can tell."""
        if self.snapshot is None:
            return None
        wanted = {path: None for path in paths}
        for path in list(wanted):
            real = f"{os.path.realpath(path.parent)}/{path.name}"
            around = self.snapshot.folders_of_skills(real)
            wanted |= {Path(folder, SKILL_MD): None for folder in around}
        changes = self._look_at(scopes_at(self.roots, wanted))
        # Other skills may have other examples by now.
        return changes and replace(changes, examples=self.snapshot.examples)

    def by_stat(self) -> FileChanges | None:
        """Look where a folder or a file has another stat; None if only a walk can tell."""
        if self.verify or self.index is None:
            return None
        return self._look_at(self.changed_scopes(self.index.diagnostics()))

    def changed_scopes(self, reported: Sequence[Diagnostic]) -> tuple[Scope, ...] | None:
        """Return the folders to look at to find all that a walk over the roots would find.

        `reported` are the diagnostics of the walk before. None if only a walk can tell: much has
        changed, links to folders are involved, or a diagnostic would be lost that is not reported
        again.
        """
        folders, files = self._other_stats
        files = (*files, *sorted(self._with_other_examples.difference(files)))
        if self.snapshot is None or len(folders) + len(files) > self.most_places:
            return None
        folders_before, tops = self.snapshot.folders, {str(root.path) for root in self.roots}
        if _needs_walk(folders_before, tops, reported, frozenset(folders)):
            return None
        around = map(self.snapshot.folders_of_skills, (*folders, *files))
        places = dict.fromkeys((*map(_parent, files), *chain.from_iterable(around)), False)
        try:
            for folder in folders:
                if os.path.lexists(folder):
                    places.setdefault(folder, False)
                    new = (path for path in _subfolders(folder) if path not in folders_before)
                    places |= dict.fromkeys(new, True)
                else:
                    places[folder] = True
            if self.folder:
                places.pop(os.path.realpath(self.folder), None)
            scopes = sorted(places.items())
            return tuple(_scope(self.roots, path, is_deep=is_deep) for path, is_deep in scopes)
        except (_WalkNeededError, OSError):
            return None

    def walk(self) -> FileChanges:
        """Look at everything below the roots."""
        documents = self.index.corpus.documents if self.index else ()
        seen_before = self.snapshot.files if self.snapshot else _unseen(documents)
        seen_at_ns = time.time_ns()
        discovery = discover(self._there, leave_out=self.folder)
        if gone := {str(root.path): root for root in self.gone}:
            left = (document for document in documents if document.root in gone)
            files = [
                SkillFile(d.doc_id, Path(d.path), gone[d.root], seen_before[d.path].stat)
                for d in left
            ]
            files = sorted((*discovery.files, *files), key=lambda file: file.doc_id)
            is_gone = inside(Scope(root, "", is_deep=True) for root in self.gone)
            folders_before = self.snapshot.folders.items() if self.snapshot else ()
            folders = (*discovery.folders, *(item for item in folders_before if is_gone(item[0])))
            discovery = replace(discovery, files=tuple(files), folders=folders)
        return self._compare(discovery, seen_before, seen_at_ns)

    @property
    def _there(self) -> list[Root]:
        return [root for root in self.roots if root not in self.gone]

    @cached_property
    def _other_stats(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if self.snapshot is None:
            return (), ()
        most = self.most_places + 1
        is_there = inside(Scope(root, "", True) for root in self._there)
        folders = tuple(islice(filter(is_there, self.snapshot.changed_folders()), most))
        files = filter(is_there, self.snapshot.changed_files())
        return folders, tuple(islice(files, most - len(folders)))

    def _look_at(self, scopes: tuple[Scope, ...] | None) -> FileChanges | None:
        if self.index is None or scopes is None:
            return None
        seen_at_ns = time.time_ns()
        discovery = discover(self.roots, scopes, leave_out=self.folder)
        is_inside = inside(scopes)
        if not all(is_inside(f"{folder}/.") for folder, _ in discovery.folders):
            return None  # Only a walk knows whether a link leads to a folder that comes anyway.
        documents = self.index.corpus.documents
        seen_before = _unseen(documents_in(documents, scopes))
        before = self.snapshot.files if self.snapshot else {}
        for path in (str(file.path) for file in discovery.files):
            if (seen := before.get(path)) and not seen.is_indexed:
                seen_before[path] = seen
        changes = self._compare(discovery, seen_before, seen_at_ns, scopes)
        # A walk reports that a root is empty.
        return changes if len(changes.removed_ids) < len(documents) else None

    def _unchanged_beside(self, discovery: Discovery) -> Mapping[str, list[tuple[str, FileStat]]]:
        """Return the files read with the SKILL.md of each folder below which nothing has changed.

        To look there for eval files takes as long as all else in a walk.
        """
        if self.snapshot is None or self.verify:
            return {}
        before, now = self.snapshot.folders, dict(discovery.folders)
        is_there = inside(Scope(root, "", True) for root in self._there)
        changed = [path for path in {*before, *now} if before.get(path) != now.get(path)]
        changed += filter(is_there, self.snapshot.continued.changed())
        touched = set(chain.from_iterable(map(self.snapshot.folders_of_skills, changed)))
        beside: dict[str, list[tuple[str, FileStat]]]
        beside = {folder: [] for folder in self.snapshot.with_skill if folder not in touched}
        for path, stat in self.snapshot.continued.stats():
            if (owner := next(self.snapshot.folders_of_skills(path), "")) in beside:
                beside[owner].append((path, stat))
        return beside

    def _compare(
        self,
        discovery: Discovery,
        seen_before: Mapping[str, SeenFile],
        seen_at_ns: int,
        scopes: tuple[Scope, ...] | None = None,
    ) -> FileChanges:
        """Compare files with what is known of them; those that could not be indexed are read."""
        files = discovery.files
        reader = FileReader(self.book, [root.path for root in self.roots])
        is_kept, refused = bytearray(len(files)), set()
        beside = self._unchanged_beside(discovery) if scopes is None else {}
        for position, file in enumerate(files if seen_before else ()):
            if (seen := seen_before.get(str(file.path))) and seen.is_indexed:
                more = beside.get(str(file.path.parent))
                is_kept[position] = self._is_kept(file, seen, reader, is_beside=more is not None)
                reader.continued.setdefault(str(file.path), more or ())
            elif seen and reader.read(file) is None:
                refused.add(position)
            if self.progress:
                self.progress("read", position + 1, len(files))
        return FileChanges(
            self.index,
            discovery,
            self.roots,
            is_kept,
            reader,
            refused,
            self.snapshot,
            seen_before,
            seen_at_ns,
            scopes,
            self._examples,
        )

    def _is_kept(
        self, file: SkillFile, seen: SeenFile, reader: FileReader, *, is_beside: bool
    ) -> bool:
        """Return whether a file stays as indexed; `is_beside`: nothing beside it has changed."""
        return file.root in self.gone or (
            str(file.path) not in self._with_other_examples
            and str(file.root.path) not in self.unfinished
            and is_same(file, seen, verify=self.verify, roots=reader.roots)
            and (is_beside or reader.continues(file, seen))
        )


def documents_in(documents: DocumentStore, scopes: Iterable[Scope]) -> Iterator[Document]:
    """Yield the documents inside the scopes."""
    for scope in scopes:
        number = documents.number_of(f"{scope.root.alias}:{scope.relative or '.'}")
        if number is not None:
            yield documents[number]
        if scope.is_deep:
            folder = f"{scope.relative}/" if scope.relative else ""
            yield from documents.with_prefix(f"{scope.root.alias}:{folder}")


class _WalkNeededError(Exception):
    """A folder holds something that only a walk over the roots treats correctly."""


def _needs_walk(
    folders: Collection[str], tops: Set[str], reported: Sequence[Diagnostic], changed: Set[str]
) -> bool:
    """Return whether a folder was reached by a link alone, or a diagnostic would be lost."""
    if any(_parent(path) not in folders and path not in tops for path in folders):
        return True
    lost = (d for d in reported if d.code in _NOT_AGAIN and _parent(d.path) in changed)
    return any(d.code == "too-many-folders" for d in reported) or any(lost)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _unseen(documents: Iterable[Document]) -> dict[str, SeenFile]:
    hashed = ((d, beside_hash(d.continuation_hash, d.evals_hash)) for d in documents)
    return {d.path: SeenFile(UNKNOWN_STAT, d.content_hash, beside_hash=more) for d, more in hashed}


def _subfolders(folder: str) -> list[str]:
    """Return the folders in a folder that a walk would look into."""
    for _, names, _ in os.walk(folder):
        paths = [f"{folder}/{name}" for name in names if not is_skipped(name)]
        if any(map(os.path.islink, paths)):
            break
        return paths
    raise _WalkNeededError


def _scope(roots: Sequence[Root], path: str, *, is_deep: bool) -> Scope:
    folder = Path(path)
    around = (root for root in roots if folder.is_relative_to(root.path))
    inner = max(around, key=lambda root: len(root.path.parts))
    below = folder.relative_to(inner.path).parts
    # A walk does not look into these, and reports them.
    if len(below) > MAX_DEPTH or not is_plain(path):
        raise _WalkNeededError
    return Scope(inner, "/".join(below), is_deep)
