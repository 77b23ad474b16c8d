"""An index of skills in Milvus, searched as `SkillIndex` searches one on disk."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from skillsearch import errors
from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.environ import milvus_token
from skillsearch.index.corpus import OpenedIndex
from skillsearch.index.dense.channels import QueryEmbedders
from skillsearch.index.documents import Document
from skillsearch.index.fields import ANALYSIS
from skillsearch.index.names import find_by_name, nearest_names
from skillsearch.index.request import IndexRequest
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.duplicates import MOST_SHADOWED, shadowed_copies
from skillsearch.index.search.query import QueryForm, analyse_queries, weigh_terms
from skillsearch.index.search.search import SearchRequest, answer
from skillsearch.remote.client import CollectionMissingError, MilvusServer, Row
from skillsearch.remote.rows import document_of
from skillsearch.remote.schema import COLLECTION
from skillsearch.remote.view import CandidateStore, View, candidate_fields, is_named
from skillsearch.roots.sources import note_index
from skillsearch.skills.versions import split_requirement
from skillsearch.text.languages import language_of
from skillsearch.text.safe_text import one_line
from skillsearch.text.tokenizer import terms
from skillsearch.types import Hit, IndexReport, Languages, Progress, SearchResult, Skill, System

if TYPE_CHECKING:
    from skillsearch.index.corpus import IndexSettings

TRIES = 5  # attempts of a reader that writers overtake


class RemoteIndex:
    """An index of skills in Milvus; all methods raise `RemoteError` if the server does not answer.

    A search sees one version of it, whatever is written meanwhile. Names, scores, evidence,
    threshold and abstention match `SkillIndex`; Milvus only selects the candidates.
    """

    def __init__(self, server: MilvusServer, collection: str, *, device: str | None = None) -> None:
        """Wrap a connection to an index; use `from_roots` or `open` instead."""
        self._server = server
        self._collection = collection
        self._calibration = default_calibration()
        self._embedders = QueryEmbedders(device=device)

    @classmethod
    def from_roots(
        cls,
        roots: str | Path | Iterable[str | Path],
        *,
        uri: str,
        collection: str = "skillsearch",
        model: str = "onnx",
        with_body: bool = True,
        languages: Languages = "auto",
        device: str | None = None,
        token: str | None = None,
        progress: Progress | None = None,
    ) -> RemoteIndex:
        """Index folders of skills in Milvus, or bring their index up to date, and open it.

        The index `collection` holds only their skills; a `token` of None is
        ``SKILLSEARCH_MILVUS_TOKEN`` or the one in the `uri`, such as ``http://127.0.0.1:19530``.
        The rest is as in `SkillIndex.from_roots`. Raises ConfigError, RootError, EmbedderError,
        MissingDependencyError, or LockTimeoutError if another process is writing the index.
        """
        from skillsearch.roots.bundles import local_roots

        given = [roots] if isinstance(roots, str | Path) else list(roots)
        paths, sources = local_roots(given)
        index, _ = cls.build(
            IndexRequest(paths, model, with_body, sources, languages),
            uri,
            collection=collection,
            device=device,
            token=token,
            progress=progress,
        )
        return index

    @classmethod
    def build(
        cls,
        request: IndexRequest,
        uri: str,
        *,
        collection: str = "skillsearch",
        device: str | None = None,
        token: str | None = None,
        progress: Progress | None = None,
    ) -> tuple[RemoteIndex, IndexReport]:
        """Do what `from_roots` does for a request; also return a report."""
        # A search needs neither the parser nor the builder: import them only here.
        from skillsearch.embedders.embedder import load_embedder
        from skillsearch.remote.indexing import Indexing

        with cls._connecting(uri, collection, token, device) as index:
            for root in request.roots:
                note_index(root, f"the collection {collection} in Milvus")
            load = partial(load_embedder, device=device)
            run = Indexing(index._server, collection, request, load, progress=progress)
            report = run.run()
            index._embedders.renew(run.embedders)
        return index, report

    @classmethod
    def open(
        cls,
        uri: str,
        *,
        collection: str = "skillsearch",
        device: str | None = None,
        token: str | None = None,
    ) -> RemoteIndex:
        """Open an index as `from_roots` does; IndexNotFoundError if there is none to search."""
        with cls._connecting(uri, collection, token, device) as index:
            index._view()
        return index

    @classmethod
    @contextmanager
    def _connecting(
        cls, uri: str, collection: str, token: str | None, device: str | None
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

    def __enter__(self) -> RemoteIndex:
        return self

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
    def skipped(self) -> int:
        """SKILL.md files that could not be indexed."""
        return self._view().head.skipped

    def documents(self) -> Iterator[Document]:
        """Read all documents, in no order, with one page in memory at a time."""
        return map(document_of, self._view().rows(["record"]))

    def search(
        self,
        query: str,
        n: int = 5,
        threshold: float | None = None,
        *,
        system: System = "hybrid",
        explain: bool = False,
        include_hidden: bool = True,
        exclude: Collection[str] = (),
    ) -> SearchResult:
        """Find the skills that fit a request, or none, as `SkillIndex.search` does.

        With `explain`, a section of a body is only named if its file is on this machine.
        """
        started = time.perf_counter()
        request = SearchRequest(
            query, n, threshold, system, explain, include_hidden, frozenset(exclude)
        )
        for _ in range(TRIES):
            view = self._view(query)
            with suppress(CollectionMissingError):
                result = self._answer(request, view)
                if view.still_holds():
                    return replace(result, seconds=time.perf_counter() - started)
        raise self._overtaken()

    def find(self, name: str) -> Document:
        """Find the document that a name means, as `SkillIndex.find` does, with its errors."""
        return self._find(name, self._view())

    def get(self, name: str) -> Skill:
        """Read a skill by its name as it was indexed, whatever its file is now; fails as `find`."""
        from skillsearch.skills.parser import parse_skill

        for _ in range(TRIES):
            view = self._view()
            document = self._find(name, view)
            data = view.content(document.doc_id)
            if data is not None:
                path, root = Path(document.path), Path(document.root)
                return parse_skill(data, doc_id=document.doc_id, path=path, root=root)[0]
        raise self._overtaken()

    def delete(self, doc_ids: Collection[str]) -> int:
        """Remove documents by id and return how many there were.

        The next indexing brings back those on disk; a skill that one of them shadowed stays
        shadowed until then. Raises IndexNotFoundError, or LockTimeoutError if another process is
        writing.
        """
        from skillsearch.remote.row_writer import delete

        return delete(self._server, self._collection, doc_ids)

    def _view(self, query: str = "") -> View:
        """Return the current version, with the document frequencies of the terms of a query."""
        words = terms(query, language_of(query)) if query else ()
        for _ in range(TRIES):
            try:
                view = View.open(self._server, self._collection, words)
            except CollectionMissingError as exc:
                raise errors.IndexNotFoundError(
                    f"There is no index {self._collection!r} in Milvus at {self._server.shown}. "
                    f"{self._how_to_make()}"
                ) from exc
            except errors.CacheError as exc:
                raise self._unusable(str(exc)) from exc
            if view is None:
                continue
            if view.head.settings.analysis != ANALYSIS:
                raise self._unusable("it was made by another version of skillsearch")
            return view
        raise self._overtaken()

    def _answer(self, request: SearchRequest, view: View) -> SearchResult:
        if not view.head.searched:
            return answer([request], self._index_of([], view), [], self._calibration)[0]
        form = self._analyse(request.query, view)
        condition = "" if request.include_hidden else "hidden == false"
        rows = view.candidates(form, request.n + len(request.exclude), condition)
        index = self._index_of(rows, view)
        form = replace(form, weights=weigh_terms(index.corpus, form.counts))
        (result,) = answer([request], index, [form], self._calibration)
        return replace(result, hits=self._with_shadowed(result.hits, view))

    def _analyse(self, text: str, view: View) -> QueryForm:
        """Split a query into terms and embed it for the channels."""
        index = self._index_of([], view)
        try:
            (form,) = analyse_queries([text], index, self._calibration, self._embedders)
        except errors.EmbedderError as exc:
            channel = view.head.settings.channels[0]
            embedder = self._embedders.loaded.get(channel.model)
            if embedder is None or embedder.fingerprint == channel.fingerprint:
                raise
            raise errors.EmbedderError(
                f"The index {self._collection!r} was made with another version of the model "
                f"{channel.model!r} ({channel.fingerprint}) than the one installed here "
                f"({embedder.fingerprint}); install that version, or rebuild the index: "
                f"skillsearch index FOLDER --backend milvus --model {channel.model}"
            ) from exc
        return form

    def _with_shadowed(self, hits: tuple[Hit, ...], view: View) -> tuple[Hit, ...]:
        """Add the copies that hits shadow to their duplicates."""
        if not hits or not view.head.shadowed:
            return hits
        condition, limit = is_named([hit.name for hit in hits]), (MOST_SHADOWED + 1) * len(hits)
        rows = view.matching(condition, candidate_fields(view.head), limit)
        corpus = self._index_of(rows, view).corpus
        found = []
        for hit in hits:
            number = corpus.documents.number_of(hit.doc_id)
            others = () if number is None else shadowed_copies(corpus, number)
            paths = tuple(corpus.documents[other].path for other in others)
            found.append(replace(hit, duplicates=hit.duplicates + paths))
        return tuple(found)

    def _find(self, name: str, view: View) -> Document:
        names = [name]
        with suppress(errors.VersionConstraintError):
            names.append(split_requirement(name)[0])
        doc_ids = [one for one in names if ":" in one]
        names += [one.partition(":")[2] for one in doc_ids]
        found = map(document_of, view.named(names, doc_ids))
        documents = sorted(found, key=lambda document: document.doc_id)
        try:
            store = CandidateStore(documents, view.head)
            return find_by_name(name, store, view.roots, suggest=False)
        except errors.VersionNotFoundError:
            raise
        except errors.SkillNotFoundError as exc:
            near: tuple[str, ...] = ()
            if query := name[:MAX_QUERY_CHARS].strip():
                view = self._view(query)
                with suppress(errors.EmbedderError, CollectionMissingError):
                    rows = view.candidates(self._analyse(query, view), 1)
                    near = nearest_names(query, self._index_of(rows, view).corpus.documents)
            raise errors.SkillNotFoundError(name, near) from exc

    def _index_of(self, rows: Sequence[Row], view: View) -> OpenedIndex:
        try:
            return view.index_of(rows)
        except errors.CacheError as exc:
            raise self._unusable(str(exc)) from exc

    def _unusable(self, reason: str) -> errors.IndexNotFoundError:
        return errors.IndexNotFoundError(
            f"The index {self._collection!r} in Milvus at {self._server.shown} cannot be used: "
            f"{reason}. {self._how_to_make()}"
        )

    def _overtaken(self) -> errors.RemoteError:
        return errors.RemoteError(
            f"The index {self._collection!r} was rewritten {TRIES} times while it was read; "
            "try again."
        )

    def _how_to_make(self) -> str:
        return (
            f"To fix: run `skillsearch index FOLDER --backend milvus --uri {self._server.shown} "
            f"--collection {self._collection}`"
        )
