"""The façade: build an index, open it, keep it up to date, search it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from skillsearch.embedders.embedding import Embedder
from skillsearch.errors import (
    CacheError,
    IndexNotFoundError,
    OtherVersionError,
    SkillError,
    SkillNotFoundError,
)
from skillsearch.index.corpus import OpenedIndex, open_current, open_settled
from skillsearch.index.dense.query_embedder import ModelSettings, QueryEmbedder
from skillsearch.index.documents.document import Document
from skillsearch.index.documents.names import find_by_name, handle_of, skill_of, with_handles
from skillsearch.index.documents.relatives import copies, described, families
from skillsearch.index.documents.selecting import selected
from skillsearch.index.documents.shadowing import name_problems
from skillsearch.index.indexing.changes import ChangeDetector, Changes
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.indexing.snapshot import Snapshot
from skillsearch.index.roots.held import last_request
from skillsearch.index.roots.request import IndexConfig, IndexRequest, OnMissing
from skillsearch.index.roots.root_change import RootChange
from skillsearch.index.search.analysis import analyse_queries
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.options import SearchOptions, check_query
from skillsearch.index.search.query import QueryForm
from skillsearch.index.search.reading import Reading
from skillsearch.index.search.search import Position, Search, answer
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.readers.loading import Readers
from skillsearch.roots.sources import note_index
from skillsearch.settings.config import load_only, load_settings
from skillsearch.settings.user_folders import index_dir_for
from skillsearch.skills.discovery import make_roots
from skillsearch.skills.example_requests import ExampleBook
from skillsearch.text.safe_text import counted, listed
from skillsearch.types.answers import Family, SearchResult, Selection
from skillsearch.types.indexing import IndexReport, Progress
from skillsearch.types.signatures import public, searches, takes
from skillsearch.types.skills import Diagnostic, Root, Skill

if TYPE_CHECKING:
    from skillsearch.usage.support import Usage

logger = logging.getLogger(__name__)


@public({"trust": ()})
class SkillIndex:
    """An index of skills on disk, opened for searching.

    Searches see the `opened` generation, whatever changes on disk and whatever other processes
    write, until `refresh` or `reopen`; they write nothing into the index. The user's cache gets the
    digests of a model's files once they were checked, and where a project file places an index, the
    key to its folder. One index belongs to one thread at a time.
    """

    def __init__(
        self,
        folder: IndexFolder,
        opened: OpenedIndex,
        embedder: Embedder | None = None,
        *,
        calibration: Calibration | None = None,
        device: str | None = None,
        readers: Readers | None = None,
    ) -> None:
        """Wrap an opened index and its loaded models; use `from_roots` or `open` instead."""
        self._folder = folder
        self.opened = opened
        self._device = device
        self._embedder = QueryEmbedder(embedder, device=device)
        self._readers = readers or Readers(device=device)
        self._calibration = calibration or default_calibration()
        self._analysed: tuple[OpenedIndex, Sequence[str], list[QueryForm]] | None = None
        self.threshold: float | None = None  # of searches that are given none
        self.usage: Usage | None = None  # what requests led to, which counts for skills

    @classmethod
    def from_roots(
        cls,
        roots: str | Path | Iterable[str | Path],
        *,
        device: str | None = None,
        examples: ExampleBook | None = None,
        progress: Progress | None = None,
        **config: Unpack[IndexConfig],
    ) -> SkillIndex:
        """Index folders of skills, or bring their index up to date, and open it.

        What is None is asked of the settings: model, fields and device.

        Args:
            roots: One folder, or several in order of precedence; each may be an archive, or the
                URL of one or of a SKILL.md, which is fetched anew each time.
            index_dir: Folder of the index, which will hold nothing else; by default one for these
                roots in the user's cache.
            model: Model spec: ``onnx``, ``hashing``, ``st:NAME``, a folder.
            with_body: False to index names and descriptions alone.
            trust: Who vouches for the roots, ``LEVEL`` for all or ``ROOT=LEVEL``; the levels are
                `skillsearch.types.skills.TRUSTS`. By default archives and URLs are ``fetched``, and
                folders ``vetted``, since you name them.
            device: Where a model of sentence-transformers runs: ``cpu``, ``cuda``, ``cuda:1``,
                ``mps``, ``auto``. Vectors mean the same on all.
            examples: Which example requests skills get; by default those of the user, of the
                package, and those that skills bring themselves.
            progress: Called with the stage, how many are done, and how many there are.

        Raises:
            RootError: If a root is missing, unreadable or not a folder, or cannot be unpacked.
            EmbedderError: If the embedder cannot be loaded.
            StorageError: If the index cannot be written.
        """
        request = IndexRequest.of(roots, config)
        folder = Path(config.get("index_dir") or index_dir_for(request.roots, request.model))
        options = IndexOptions(device=device, progress=progress, examples=examples)
        index, _ = cls.build(request, folder.absolute(), options)
        index.threshold = load_only("threshold", index_dir=folder).threshold
        return index

    @classmethod
    def build(
        cls, change: IndexRequest | RootChange, index_dir: Path, options: IndexOptions | None = None
    ) -> tuple[SkillIndex, IndexReport]:
        """Bring the index in a folder up to date, open it, and report the changes.

        A request says what it is to hold, a change what is to become of what it holds by then. The
        index is opened as this run left it, whatever another process has written since. Fails as
        `from_roots` and `refresh` do; an IndexNotFoundError if it is damaged right after.
        """
        # A search needs neither the parser nor the builder: import them only here.
        from skillsearch.index.indexing.builder import Builder

        folder = IndexFolder(index_dir)
        builder = Builder(folder, change, options)
        for root in builder.request.roots:
            note_index(root, str(index_dir.absolute()))
        report = builder.run()
        if (opened := builder.opened) is None:
            raise IndexNotFoundError(
                f"The index in {index_dir} was damaged right after it was written; "
                "check the disk, or choose another --index-dir."
            )
        return cls(folder, opened, builder.embedder, device=builder.options.device), report

    @classmethod
    def open(cls, index_dir: str | Path | None = None) -> SkillIndex:
        """Open an index that was built before, by default the one that the settings name.

        A damaged one is rebuilt.

        Raises:
            IndexNotFoundError: If there is none, or it cannot be rebuilt because its roots are not
                recorded.
            RootError: If a damaged one cannot be rebuilt because a root is missing or unreadable.
            EmbedderError: If it is rebuilt, and the embedder cannot be loaded.
            StorageError: If it is rebuilt, and cannot be written.
            ConfigError: If the settings name it and cannot be used.
        """
        path = Path(index_dir) if index_dir else load_settings().index_dir
        folder = IndexFolder(path.absolute())
        if opened := open_current(folder):
            index = cls(folder, opened)
        elif last_request(folder) is None or not folder.exists():
            raise folder.not_found()
        else:
            index, _ = cls.build(RootChange.of_caller(folder.path, how="keep"), folder.path)
        index.threshold = load_only("threshold", index_dir=index_dir).threshold
        return index

    @property
    def folder(self) -> Path:
        """Folder of the index."""
        return self._folder.path

    @property
    def address(self) -> str:
        """What tells it from other indexes: its folder, however it is spelt."""
        return os.path.realpath(self.folder)

    @property
    def model(self) -> ModelSettings:
        """The model that it was made with."""
        return self.opened.settings.model

    @property
    def generation(self) -> str:
        """Name of the generation that is searched."""
        return self.opened.name

    def __len__(self) -> int:
        return len(self.opened.corpus.documents)

    def __repr__(self) -> str:
        return f"<SkillIndex of {counted(len(self), 'skill')} in {self.folder}>"

    def documents(self, selection: Selection = ()) -> Iterator[Document]:
        """Yield all documents, or those of a selection, in order of their ids."""
        return iter(selected(self.opened.corpus.documents, selection, self.opened.settings.roots))

    def root_of(self, document: Document) -> Root:
        """Return the root of a document."""
        return self.opened.settings.root_of(document)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Return the diagnostics of the build, and those of its names, by path."""
        opened = self.opened
        try:
            reported = opened.diagnostics()
        except CacheError:
            # This generation was removed after newer ones were written; report theirs.
            if (newer := open_current(self._folder)) is None:
                return ()
            opened, reported = newer, newer.diagnostics()
        with opened.guard:
            names = name_problems(opened.corpus.documents, opened.settings.roots)
            return tuple(sorted((*reported, *names), key=lambda item: (item.path, item.line or 0)))

    def is_current(self) -> bool:
        """Return whether, by the stat of every folder and file, the disk is what was indexed."""
        snapshot = Snapshot.load(self.folder, self.generation)
        if snapshot is None or snapshot.examples != ExampleBook().digest:
            return False
        return snapshot.is_current()

    def has_changed_model(self) -> bool:
        """Return whether the files of the model are not those that the index was built with."""
        return self.opened.settings.model.has_changed()

    def differences(self, *, verify: bool = False) -> Changes:
        """Return the files that differ between the index and its existing roots.

        With `verify`, hash every file instead of trusting an unchanged stat. A CacheError if a part
        of the index is damaged.
        """
        roots = self.opened.settings.roots
        present = {root.path for root in make_roots([root.path for root in roots])[0]}
        gone = [root for root in roots if root.path not in present]
        book = ExampleBook()
        detector = ChangeDetector(self.opened, self.folder, roots, verify, gone=gone, book=book)
        return detector.walk().report(tuple(str(root.path) for root in gone))

    def refresh(
        self,
        *,
        verify: bool = False,
        keep_missing: bool = False,
        only: Sequence[Path] = (),
        progress: Progress | None = None,
    ) -> IndexReport:
        """Bring the index up to date with the disk and search the result from now on.

        With `verify` every file is hashed, the index's too, whatever its stat says. With
        `keep_missing` the skills of a root that is gone stay as they are, as long as only
        little has changed in the others. `only` names the SKILL.md files and folders to look at,
        deleted ones too: in a large index that is much faster than finding out what changed; other
        changes wait for the next full look. `progress` is called with the stage, how many are done,
        and how many there are. A RootError, EmbedderError or StorageError as of `from_roots`, or an
        IndexNotFoundError if the index is gone, leaves the index as it is.
        """
        missing: OnMissing = "keep" if keep_missing else "refuse"
        options = IndexOptions(verify=verify, missing=missing, only=only, progress=progress)
        return self.apply(RootChange.of_caller(self.folder, "keep"), options)

    def add_roots(
        self,
        roots: str | Path | Iterable[str | Path],
        *,
        trust: str | Sequence[str] = (),
        progress: Progress | None = None,
    ) -> IndexReport:
        """Hold more roots, behind those held by then, which other processes may have added.

        All are brought up to date. Roots, trust and errors are those of `from_roots`; a root that
        is held already may be named to give it another trust.
        """
        change = RootChange.of_caller(self.folder, "add", roots, trust)
        return self.apply(change, IndexOptions(progress=progress))

    def remove_roots(
        self, roots: str | Path | Iterable[str | Path], *, progress: Progress | None = None
    ) -> IndexReport:
        """Stop holding roots, even if their folders are gone; `left` counts their skills.

        A RootError for a root that is not held, and if none would be left; else the errors of
        `refresh`.
        """
        change = RootChange.of_caller(self.folder, "remove", roots)
        return self.apply(change, IndexOptions(progress=progress))

    def apply(self, change: RootChange, options: IndexOptions | None = None) -> IndexReport:
        """Change what the index holds as `build` does, and search the result from now on."""
        change = replace(change, otherwise=self.opened.settings.request())
        model, embedder = self.opened.settings.model, self._embedder.loaded
        usable = {model.spec: embedder} if embedder and not model.has_changed() else {}
        options = replace(options or IndexOptions(), device=self._device, embedders=usable)
        renewed, report = self.build(change, self.folder, options)
        self.opened, self._embedder = renewed.opened, renewed._embedder
        return report

    def reopen(self) -> None:
        """Search the newest generation from now on, whoever wrote it.

        An OtherVersionError if another version of skillsearch did: built anew, the index would be
        theirs and ours in turn. Else the errors of `open`.
        """
        try:
            self.opened = open_settled(self._folder)
        except OtherVersionError as exc:
            raise OtherVersionError(
                f"another version of skillsearch wrote it since ({exc}). To fix: restart this "
                "program with that version, or give each its own index (SKILLSEARCH_INDEX_DIR)"
            ) from exc
        except CacheError:
            self.opened = self.open(self._folder.path).opened
        embedder = self._embedder.loaded
        if embedder and embedder.fingerprint != self.opened.settings.model.fingerprint:
            self._embedder = QueryEmbedder(device=self._device)

    @searches(SearchOptions)
    def search(self, query: str, options: SearchOptions) -> SearchResult:
        """Find the skills that fit a request, said in words, or none; nothing is written.

        A skill is shadowed if another one of its name is in an earlier root, or is a newer version
        in the same root. A shadowed skill is never a hit, and changes no score; `find` still takes
        its id, ``root:name`` or ``name@constraint``. Copies under other names take one place: the
        one in the first root names the others.

        Raises:
            QueryError: If the query is empty or too long, or an option cannot be used; a
                SelectionError if the selection leaves nothing or names a root that is not there.
            EmbedderError: If the model cannot be loaded or has changed since the index was built;
                `refresh` with `verify` helps.
            CacheError: If a part of the index is found to be damaged; names it.
        """
        return self.answer([query], options)[0]

    @takes(SearchOptions)
    def search_many(self, queries: Sequence[str], options: SearchOptions) -> list[SearchResult]:
        """Answer many requests as `search` does, embedded together on all cores.

        The seconds of each result are its share of all. A QueryError, SelectionError, EmbedderError
        or CacheError as of `search`; one query that cannot be used refuses all.
        """
        return self.answer(queries, options)

    def answer(self, queries: Sequence[str], options: SearchOptions) -> list[SearchResult]:
        """Answer requests as `search_many` does, with its errors, given all options at once."""
        started = time.perf_counter()
        if options.threshold is None:
            options = replace(options, threshold=self.threshold)
        for query in queries:
            check_query(query)
        forms = self.analyse_many(queries) if len(self) else []
        forms = [form.learned(self.usage) for form in forms]
        reading = Reading.of(options.reader, self._readers)
        with self.opened.guard:
            results = answer(queries, options, self.opened, forms, self._calibration, reading)
        seconds = (time.perf_counter() - started) / max(len(queries), 1)
        return [replace(result, seconds=seconds) for result in results]

    def position(self, query: str, document: Document, options: SearchOptions) -> Position | None:
        """Return how a skill stands for a request, shown or not; None if it is left out.

        Its rank and score are those of `answer`, if that shows it. A QueryError, EmbedderError or
        CacheError as of `search`.
        """
        check_query(query)
        threshold = self.threshold if options.threshold is None else options.threshold
        options = replace(options, threshold=threshold, system="hybrid", explain=True)
        form = self.analyse(query).learned(self.usage)
        reading = Reading.of(options.reader, self._readers)
        with self.opened.guard:
            search = Search.of(options, self.opened, self._calibration, reading)
            number = search.corpus.documents.number_of(document.doc_id)
            return None if number is None else search.position_of(form, number)

    def analyse(self, query: str) -> QueryForm:
        """Return a query as it is searched for, its terms and vector; may raise EmbedderError."""
        return self.analyse_many([query])[0]

    def analyse_many(self, queries: Sequence[str]) -> list[QueryForm]:
        """Return queries as `analyse` does, all embedded together; the last ones are known."""
        last = self._analysed
        if last is None or last[0] is not self.opened or last[1] != [*queries]:
            forms = analyse_queries(queries, self.opened, self._embedder)
            last = self._analysed = self.opened, [*queries], forms
        return last[2]

    def copies(self, doc_ids: Iterable[str]) -> frozenset[str]:
        """Return the known ids of documents, and of all their namesakes and near-copies."""
        documents = self.opened.corpus.documents
        with self.opened.guard:
            alike = copies(documents, documents.numbers_of(doc_ids).tolist())
        return frozenset(documents[number].doc_id for number in alike)

    def families(self) -> list[tuple[Document, ...]]:
        """Return the families of near-copies, the largest first.

        The first document of each stands for the others, which follow by id.
        """
        with self.opened.guard:
            return families(self.opened.corpus.documents)

    def family(self, document: Document, others: Sequence[Document]) -> Family:
        """Return the family of a document, given its near-copies, by names that load them."""
        opened = self.opened
        family = described(document, others)
        with opened.guard:
            return with_handles(family, opened.corpus.documents, opened.settings.root_paths)

    def count_holding(self, terms: Collection[str], *, besides: Document) -> int:
        """Count the skills whose metadata or examples have all of the terms.

        Not a document itself, its copies, nor what is shadowed.
        """
        corpus = self.opened.corpus
        with self.opened.guard:
            holding = corpus.lexical[0].holding(terms)
            left_out = corpus.documents.numbers_of(self.copies([besides.doc_id]))
            return len(np.setdiff1d(holding, [*left_out, *corpus.documents.left_out]))

    def handle(self, document: Document) -> str:
        """Return the shortest name that identifies this skill only.

        It is its name, else ``root:name``, else its id.
        """
        opened = self.opened
        with opened.guard:
            return handle_of(document, opened.corpus.documents, opened.settings.root_paths)

    def with_calibration(self, calibration: Calibration) -> SkillIndex:
        """Return the same opened index under another calibration."""
        other = copy(self)
        other._calibration = calibration
        return other

    def get(self, name: str) -> Skill:
        """Read the skill that a name means as it is on disk now.

        A SkillNotFoundError, VersionNotFoundError, VersionConstraintError or AmbiguousNameError as
        of `find`, and a ParseError if its file can no longer be read as a skill.
        """
        return self.read(self.find(name))

    def read(self, document: Document) -> Skill:
        """Read the skill of a document as it is on disk now; a ParseError if it cannot be."""
        return skill_of(document, [root.path for root in self.opened.settings.roots])

    def find(self, name: str, selection: Selection = ()) -> Document:
        """Find the document of a selection that a name means, without reading its file.

        The name may be in any case, ``root:name`` if several roots have it, or the document's id;
        each also with a constraint on the version, as ``pdf@>=1.2,<2``. Of several documents it
        means the newest in the first root that has any. A SkillNotFoundError, VersionNotFoundError
        or AmbiguousNameError names similar names, the versions, the candidates, or the project that
        has it; a VersionConstraintError if the constraint cannot be read.
        """
        opened = self.opened
        every, roots = opened.corpus.documents, opened.settings.root_paths
        documents = selected(every, selection, opened.settings.roots)
        try:
            return find_by_name(name, documents, roots)
        except SkillNotFoundError as exc:
            projects: tuple[str, ...] = ()
            with suppress(SkillError):
                projects = self.root_of(find_by_name(name, every, roots, suggest=False)).projects
            if not projects:
                raise
            where = listed(projects, 3)
            reason = f"is a skill of the project {where}: go there, or ask with --all-projects"
            raise SkillNotFoundError(name, (), reason) from exc
