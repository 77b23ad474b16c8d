"""An index of skills in Milvus, searched as `SkillIndex` searches one on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar, Unpack

import numpy as np

from skillsearch import errors
from skillsearch.errors import CollectionMissingError
from skillsearch.index.corpus import IndexSettings
from skillsearch.index.dense.query_embedder import ModelSettings, QueryEmbedder
from skillsearch.index.documents.document import Document
from skillsearch.index.documents.names import find_by_name, nearest_names, split_written_name
from skillsearch.index.documents.relatives import MOST_LISTED, family_of
from skillsearch.index.roots.request import IndexConfig, IndexRequest
from skillsearch.index.roots.root_change import RootChange
from skillsearch.index.roots.scope import without_scope
from skillsearch.index.search.analysis import analyse_queries
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.options import SearchOptions, check_query
from skillsearch.index.search.query import QueryForm, weigh_terms
from skillsearch.index.search.reading import Reading
from skillsearch.index.search.search import answer
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.readers.loading import Readers
from skillsearch.remote.client import MilvusRow, MilvusServer
from skillsearch.remote.rows import COLLECTION, document_of
from skillsearch.remote.view import RemoteView
from skillsearch.roots.sources import note_index
from skillsearch.settings.environ import milvus_token
from skillsearch.settings.values import MAX_QUERY_CHARS
from skillsearch.skills.versions import split_requirement
from skillsearch.text.languages import language_of
from skillsearch.text.safe_text import one_line
from skillsearch.text.tokenizer import terms
from skillsearch.types.answers import Hit, SearchResult
from skillsearch.types.indexing import IndexReport, Progress
from skillsearch.types.signatures import public, searches
from skillsearch.types.skills import Root, Skill

if TYPE_CHECKING:
    from skillsearch.usage.support import Usage

_Result = TypeVar("_Result")

TRIES = 5  # attempts of a reader that writers overtake


class ConnectionOptions(TypedDict, total=False):
    """Which index of a server is meant, how it is opened, and the device of the models."""

    collection: str
    token: str | None
    device: str | None


@public({"collection": "skillsearch"})
class RemoteIndex(AbstractContextManager["RemoteIndex"]):
    """An index of skills in Milvus; all methods raise `RemoteError` if the server does not answer.

    A search sees one version of it, whatever is written meanwhile. Names, scores, evidence,
    threshold and abstention match `SkillIndex`; Milvus only selects the candidates.
    """

    def __init__(self, server: MilvusServer, collection: str, *, device: str | None = None) -> None:
        """Wrap a connection to an index; use `from_roots` or `open` instead."""
        self._server = server
        self._collection = collection
        self._calibration = default_calibration()
        self._embedder = QueryEmbedder(device=device)
        self._readers = Readers(device=device)
        self._model: ModelSettings | None = None  # of the version that was read last
        self._analysed: QueryForm | None = None  # the query that was embedded last
        self.usage: Usage | None = None  # what requests led to, which counts for skills

    @classmethod
    def from_roots(
        cls,
        roots: str | Path | Iterable[str | Path],
        *,
        uri: str,
        model: str = "onnx",
        with_body: bool = True,
        trust: str | Sequence[str] = (),
        progress: Progress | None = None,
        **connection: Unpack[ConnectionOptions],
    ) -> RemoteIndex:
        """Index folders of skills in Milvus, or bring their index up to date, and open it.

        The index `collection` holds only their skills; a `token` of None is
        ``SKILLSEARCH_MILVUS_TOKEN`` or the one in the `uri`, such as ``http://127.0.0.1:19530``.
        The rest is as in `SkillIndex.from_roots`. Raises ConfigError, RootError, EmbedderError,
        MissingDependencyError, or LockTimeoutError if another process is writing the index.
        """
        config: IndexConfig = {"model": model, "with_body": with_body, "trust": trust}
        request = IndexRequest.of(roots, config)
        return cls.build(request, uri, progress=progress, **connection)[0]

    @classmethod
    def build(
        cls,
        change: IndexRequest | RootChange,
        uri: str,
        *,
        progress: Progress | None = None,
        **connection: Unpack[ConnectionOptions],
    ) -> tuple[RemoteIndex, IndexReport]:
        """Do what `from_roots` does for a request, or a change of what is held; return a report."""
        # A search needs neither the parser nor the builder: import them only here.
        from skillsearch.embedders.embedder import load_embedder
        from skillsearch.remote.indexing import Indexing

        with cls._connecting(uri, **connection) as index:
            load = partial(load_embedder, device=connection.get("device"))
            run = Indexing(index._server, index._collection, change, load, progress=progress)
            for root in run.request.roots:
                note_index(root, f"the collection {index._collection} in Milvus")
            report = run.run()
            index._embedder = QueryEmbedder(run.embedder, device=connection.get("device"))
        return index, report

    @classmethod
    def open(cls, uri: str, **connection: Unpack[ConnectionOptions]) -> RemoteIndex:
        """Open an index as `from_roots` does; IndexNotFoundError if there is none to search."""
        with cls._connecting(uri, **connection) as index:
            index._view()
        return index

    @classmethod
    @contextmanager
    def _connecting(
        cls,
        uri: str,
        collection: str = "skillsearch",
        token: str | None = None,
        device: str | None = None,
    ) -> Iterator[RemoteIndex]:
        """Provide an index, which any error inside closes."""
        if not COLLECTION.fullmatch(collection):
            raise errors.ConfigError(
                f"The collection name {one_line(collection, 80)!r} is invalid; use at most 200 "
                "letters, digits and underscores, and do not start with a digit."
            )
        server = MilvusServer(uri, milvus_token() if token is None else token)
        with ExitStack() as stack:
            stack.callback(server.close)
            yield cls(server, collection, device=device)
            stack.pop_all()

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def __len__(self) -> int:
        return self._view().head.documents

    @property
    def generation(self) -> str:
        """Name and version of the generation that readers see now."""
        return self._view().name

    @property
    def settings(self) -> IndexSettings:
        """The settings that the index was made with."""
        return self._view().head.settings

    @property
    def address(self) -> str:
        """What tells it from other indexes: its collection, and the address of the server."""
        return f"{self._collection} in {self._server.shown}"

    @property
    def model(self) -> ModelSettings:
        """The model that the version was made with that was read last."""
        return self._model or self.settings.model

    @property
    def skipped(self) -> int:
        """SKILL.md files that could not be indexed."""
        return self._view().head.skipped

    def root_of(self, document: Document) -> Root:
        """Return the root of a document."""
        return self.settings.root_of(document)

    def documents(self) -> Iterator[Document]:
        """Read all documents, in no order, with one page in memory at a time."""
        return map(document_of, self._view().rows(["record"]))

    @searches(SearchOptions)
    def search(self, query: str, options: SearchOptions) -> SearchResult:
        """Find the skills that fit a request, or none, as `SkillIndex.search` does.

        With `explain`, a section of a body is only named if its file is on this machine. All skills
        are searched, those of every project: a QueryError if only vetted or selected ones are asked
        for.
        """
        return self.answer([query], options)[0]

    def answer(self, queries: Sequence[str], options: SearchOptions) -> list[SearchResult]:
        """Answer requests one by one as `search` does, given all options at once.

        A QueryError if the options select some of the skills: Milvus searches all.
        """
        selection = without_scope(options.selection)
        if options.vetted_only or selection:
            chosen = "vetted_only" if options.vetted_only else selection[0][0]
            message = f"Milvus searches all skills, so {chosen} cannot select some; leave it out."
            raise errors.QueryError(message)
        return [self._search(query, options) for query in queries]

    def _search(self, query: str, options: SearchOptions) -> SearchResult:
        started = time.perf_counter()
        check_query(query)

        def read(view: RemoteView) -> SearchResult | None:
            result = self._answer(query, options, view)
            return result if view.still_holds() else None

        return replace(self._read(read, query), seconds=time.perf_counter() - started)

    def analyse(self, query: str) -> QueryForm:
        """Return a query as it is searched for; the last one is known."""
        if self._analysed and self._analysed.text == query:
            return self._analysed
        return self._read(partial(self._analyse, query), query)

    def find(self, name: str) -> Document:
        """Find the document that a name means, as `SkillIndex.find` does, with its errors."""
        return self._read(partial(self._find, name))

    def get(self, name: str) -> Skill:
        """Read a skill by its name as it was indexed, whatever its file is now; fails as `find`."""
        from skillsearch.skills.parser import parse_skill

        def read(view: RemoteView) -> Skill | None:
            document = self._find(name, view)
            if (data := view.content(document.doc_id)) is None:
                return None
            path, root = Path(document.path), Path(document.root)
            return parse_skill(data, doc_id=document.doc_id, path=path, root=root)[0]

        return self._read(read)

    def delete(self, doc_ids: Collection[str]) -> int:
        """Remove documents by id and return how many there were.

        The next indexing brings back those on disk; what one of them shadowed stays shadowed until
        then. Raises IndexNotFoundError, or LockTimeoutError if another process is writing.
        """
        from skillsearch.remote.row_writer import delete

        return delete(self._server, self._collection, doc_ids)

    def _read(self, read: Callable[[RemoteView], _Result | None], query: str = "") -> _Result:
        """Return what a function reads of the current version, which knows a query's terms.

        It is called again, with a newer version, if it returns None or its collection is gone.
        """
        described = f"{self._collection!r} in Milvus at {self._server.shown}"
        words = terms(query, language_of(query)) if query else ()
        for _ in range(TRIES):
            try:
                view = RemoteView.open(self._server, self._collection, words)
                with suppress(CollectionMissingError):
                    if view and (answered := read(view)) is not None:
                        self._model = view.head.settings.model
                        return answered
            except CollectionMissingError as exc:
                raise self._to_make(f"There is no index {described}") from exc
            except errors.CacheError as exc:
                raise self._to_make(f"The index {described} cannot be used: {exc}") from exc
        raise errors.RemoteError(
            f"The index {self._collection!r} was rewritten {TRIES} times while it was read; "
            "try again."
        )

    def _to_make(self, problem: str) -> errors.IndexNotFoundError:
        return errors.IndexNotFoundError(
            f"{problem}. To fix: run `skillsearch index FOLDER --backend milvus "
            f"--uri {self._server.shown} --collection {self._collection}`"
        )

    def _view(self, query: str = "") -> RemoteView:
        return self._read(lambda view: view, query)

    def _answer(self, query: str, options: SearchOptions, view: RemoteView) -> SearchResult:
        if not view.head.searched:
            return answer([query], options, view.index_of([]), [], self._calibration)[0]
        form = self._analyse(query, view).learned(self.usage)
        condition = "" if options.include_hidden else "hidden == false"
        rows = view.candidates(form, options.n + len(options.exclude), condition)
        index = view.index_of(rows)
        form = replace(form, weights=weigh_terms(index.corpus, form.counts))
        reading = Reading.of(options.reader, self._readers)
        (result,) = answer([query], options, index, [form], self._calibration, reading)
        count = len(result.hits)
        hits = self._with_shadowed(result.shown, rows, options, view)
        return replace(result, hits=hits[:count], perhaps=hits[count:])

    def _analyse(self, text: str, view: RemoteView) -> QueryForm:
        """Split a query into terms and embed it."""
        index = view.index_of([])
        try:
            (form,) = analyse_queries([text], index, self._embedder)
        except errors.EmbedderError as exc:
            made_with, embedder = view.head.settings.model, self._embedder.loaded
            if embedder is None or embedder.fingerprint == made_with.fingerprint:
                raise
            raise errors.EmbedderError(
                f"The index {self._collection!r} was made with another version of the model "
                f"{made_with.spec!r} ({made_with.fingerprint}) than the one installed here "
                f"({embedder.fingerprint}); install that version, or rebuild the index: "
                f"skillsearch index FOLDER --backend milvus --model {made_with.spec}"
            ) from exc
        self._analysed = form
        return form

    def _with_shadowed(
        self,
        hits: tuple[Hit, ...],
        rows: Sequence[MilvusRow],
        options: SearchOptions,
        view: RemoteView,
    ) -> tuple[Hit, ...]:
        """Add the copies that hits shadow to their families; `rows` are the candidates."""
        if not hits or not view.head.shadowed:
            return hits
        limit = (MOST_LISTED + 1) * len(hits)
        named = view.named([hit.name for hit in hits], fields=view.fields, limit=limit)
        distinct = {document_of(row).doc_id: row for row in (*rows, *named)}
        store = view.index_of(list(distinct.values())).corpus.documents
        gone = store.numbers_of(options.exclude)
        if not options.include_hidden:
            gone = np.concatenate([gone, np.flatnonzero(store.hidden)])
        completed = []
        for hit in hits:
            number = store.number_of(hit.doc_id)
            family = hit.family if number is None else family_of(store, number, gone)
            completed.append(hit.with_family(family))
        return tuple(completed)

    def _find(self, name: str, view: RemoteView) -> Document:
        names = [name]
        with suppress(errors.VersionConstraintError):
            names.append(split_requirement(name)[0])
        doc_ids = [key for key in names if ":" in key]
        names += [
            *(key.partition(":")[2] for key in doc_ids),
            *(split_written_name(key)[2] for key in names),
        ]
        rows = view.named(names, doc_ids)
        documents = sorted(map(document_of, rows), key=lambda document: document.doc_id)
        try:
            roots = view.head.settings.root_paths
            return find_by_name(name, DocumentStore.build(documents), roots, suggest=False)
        except errors.VersionNotFoundError:
            raise
        except errors.SkillNotFoundError as exc:
            near: tuple[str, ...] = ()
            if query := name[:MAX_QUERY_CHARS].strip():
                view = self._view(query)
                with suppress(errors.EmbedderError, CollectionMissingError):
                    rows = view.candidates(self._analyse(query, view), 1)
                    nearby = view.index_of(rows).corpus.documents
                    near = nearest_names(query, (document.name for document in nearby))
            raise errors.SkillNotFoundError(name, near) from exc
