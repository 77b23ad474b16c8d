"""Answer requests from one version of an index in Milvus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.errors import (
    CacheError,
    EmbedderError,
    IndexNotFoundError,
    RemoteError,
    SkillNotFoundError,
    VersionConstraintError,
)
from skillsearch.index.corpus import Corpus, OpenedIndex
from skillsearch.index.dense.channels import QueryEmbedders
from skillsearch.index.documents import Document
from skillsearch.index.fields import ANALYSIS
from skillsearch.index.names import find_by_name, nearest_names
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.duplicates import MOST_SHADOWED, shadowed_copies
from skillsearch.index.search.query import QueryForm, analyse_queries
from skillsearch.index.search.search import SearchRequest, run
from skillsearch.index.storage.cache import Generation as LocalGeneration
from skillsearch.remote.candidates import (
    CandidateStore,
    Frequencies,
    candidate_fields,
    make_corpus,
)
from skillsearch.remote.client import CollectionMissingError, MilvusServer, Row
from skillsearch.remote.generations import Head
from skillsearch.remote.rows import document_of, key_of, name_key, query_text, unpack
from skillsearch.remote.schema import HEAD, Generation, dense_fields, lexical_fields
from skillsearch.remote.term_statistics import FREQUENCIES, frequencies_at, term_id
from skillsearch.skills.versions import split_requirement
from skillsearch.text.languages import language_of
from skillsearch.text.tokenizer import term_hash, terms
from skillsearch.types import ChannelVote, Hit

TRIES = 5
"""Attempts of a reader that writers overtake."""
_MAX_CANDIDATES = 1_000
"""Documents that each channel is asked for; the messages of Milvus are limited."""
_MIN_CANDIDATES = 50
_QUERY_TERMS = 1_000
"""Terms that Milvus looks for, the rarest of the query; scores use all."""
_NAMED = 1_000
"""Skills of one name that are read."""
_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class View:
    """One version of a generation, whatever is written meanwhile.

    Attributes:
        server: The server.
        generation: The generation.
        head: Its head.
        frequencies: Document frequencies of the terms of the query, 0 for unknown terms.
    """

    server: MilvusServer
    generation: Generation
    head: Head
    frequencies: Frequencies

    @classmethod
    def open(cls, server: MilvusServer, alias: str, query: Collection[str] = ()) -> View | None:
        """Read the current version.

        Args:
            server: The server.
            alias: The name of the index.
            query: Terms whose document frequencies are needed.

        Returns:
            The view; None if a writer was two versions ahead by then: try again.

        Raises:
            IndexNotFoundError: When there is no index of this name.
            CacheError: When this version of the package cannot read it.
            RemoteError: When the server does not answer.
        """
        hashes = list(dict.fromkeys(map(term_hash, query)))
        ids = [HEAD, *map(term_id, hashes)]
        try:
            rows = server.get(alias, ids, ["note", *FREQUENCIES])
        except CollectionMissingError as exc:
            raise IndexNotFoundError(
                f"There is no index {alias!r} in Milvus at {server.shown}. "
                f"{_how_to_make(server, alias)}"
            ) from exc
        if HEAD not in rows:
            raise CacheError(f"the collection {alias!r} has no head")
        head = Head.from_row(rows[HEAD])
        frequencies: dict[int, tuple[int, int]] = {}
        for term, key in zip(hashes, ids[1:], strict=True):
            found = frequencies_at(rows[key], head.version) if key in rows else (0, 0)
            if found is None:
                return None
            frequencies[term] = found
        return cls(server, Generation(alias, head.number), head, frequencies)

    def still_holds(self) -> bool:
        """Return whether everything read through this view belongs to its version.

        Rows are removed two versions after they ended, so one new version does no harm.
        """
        with suppress(CollectionMissingError):
            rows = self.server.get(self.generation.alias, [HEAD], ["version", "note"])
            if HEAD in rows:
                now = Head.from_row(rows[HEAD])
                return now.number == self.head.number and now.version <= self.head.version + 1
        return False

    def candidates(self, form: QueryForm, n: int, condition: str) -> list[Row]:
        """Read the candidates of a query, with `candidate_fields`, each once.

        Args:
            form: The analysed query.
            n: How many hits are wanted.
            condition: A further filter for them, or empty.

        Returns:
            Their rows.

        Raises:
            RemoteError: When the server does not answer.
        """
        k = min(max(_MIN_CANDIDATES, 4 * n), _MAX_CANDIDATES)
        fields = candidate_fields(self.head)
        visible = f"{self.head.condition} and shadowed == false"
        if condition:
            visible += f" and {condition}"
        documents = self.generation.documents
        if self.head.searched <= k:
            return self.server.query(documents, visible, fields, k)
        named = f"name_key == {name_key(form.text)} and {visible}"
        rows = self.server.query(documents, named, fields, k)
        if queries := self._queries(form):
            rows += self.server.nearest(documents, queries, visible, k, fields)
        return list({row["id"]: row for row in rows}.values())

    def namesakes(self, names: Collection[str], limit: int) -> list[Row]:
        """Read documents with certain names, even shadowed ones, with `candidate_fields`."""
        condition = f"{_is_named(names)} and {self.head.condition}"
        fields = candidate_fields(self.head)
        return self.server.query(self.generation.documents, condition, fields, limit)

    def named(self, names: Collection[str], doc_ids: Collection[str]) -> list[Row]:
        """Read the records of documents with certain names or ids."""
        keys = ", ".join(f'"{key_of(doc_id)}"' for doc_id in doc_ids)
        condition = f"({_is_named(names)} or key in [{keys}]) and {self.head.condition}"
        return self.server.query(self.generation.documents, condition, ("record",), _NAMED)

    def content(self, doc_id: str) -> bytes | None:
        """Return the SKILL.md of a document as it was indexed; None if it is gone."""
        condition = f'key == "{key_of(doc_id)}" and {self.head.condition}'
        rows = self.server.query(self.generation.documents, condition, ("content",), 1)
        return unpack(rows[0]["content"]) if rows else None

    def rows(self, fields: Sequence[str]) -> Iterator[Row]:
        """Read all documents, in no order."""
        documents, condition = self.generation.documents, self.head.condition
        for page in self.server.iterate(documents, condition, ("id", *fields), _PAGE):
            yield from page

    def _queries(self, form: QueryForm) -> dict[str, tuple[str, object]]:
        """Return the metric and the query of each vector field."""
        with_body = self.head.settings.with_body
        queries: dict[str, tuple[str, object]] = {}
        for place, name in enumerate(lexical_fields(with_body=with_body)):
            if text := query_text(self._rarest(form.counts, place), _QUERY_TERMS):
                queries[f"sparse_{name}"] = ("BM25", text)
        dense = dense_fields(len(form.views), with_body=with_body)
        for view, names in zip(form.views, dense, strict=True):
            if view.vector.any():
                queries.update((name, ("IP", view.vector)) for name in names)
        return queries

    def _rarest(self, counts: Counter[str], place: int) -> list[int]:
        """Return the terms of a query that occur in a field, the rarest first."""
        known = {term_hash(term): self.frequencies[term_hash(term)][place] for term in counts}
        return sorted((term for term, number in known.items() if number), key=lambda t: known[t])


class Searcher:
    """Searches an index in Milvus with the `embedders` of its channels.

    Its methods raise `IndexNotFoundError` if there is no index that can be searched, and
    `RemoteError` if the server does not answer or writers are faster than this reader.
    """

    def __init__(
        self,
        server: MilvusServer,
        collection: str,
        embedders: QueryEmbedders,
        calibration: Calibration,
    ) -> None:
        """Prepare to search the index named `collection`."""
        self._server = server
        self._collection = collection
        self._calibration = calibration
        self.embedders = embedders

    def view(self, query: Collection[str] = ()) -> View:
        """Return the current version, with the document frequencies of some terms."""
        for _ in range(TRIES):
            try:
                view = View.open(self._server, self._collection, query)
            except CacheError as exc:
                raise self._unusable(str(exc)) from exc
            if view is None:
                continue
            if view.head.settings.analysis != ANALYSIS:
                raise self._unusable("it was made by another version of skillsearch")
            return view
        raise self.overtaken()

    def answer(self, request: SearchRequest) -> tuple[tuple[Hit, ...], tuple[ChannelVote, ...]]:
        """Return the hits, and the votes of the channels if the request asks to explain.

        Raises `EmbedderError` if the embedder cannot be loaded, or is not the one of the index.
        """
        condition = "" if request.include_hidden else "hidden == false"
        for _ in range(TRIES):
            view = self.view(_terms_of(request.query))
            if not view.head.searched:
                return (), ()
            form = self._analyse(request.query, view)
            try:
                n = request.n + len(request.exclude)
                corpus = self._corpus(view.candidates(form, n, condition), view)
                hits = run(request, corpus, form, self._calibration, _roots(view))
                hits = self._with_shadowed(hits, view)
            except CollectionMissingError:
                continue
            if not view.still_holds():
                continue
            if not (request.explain and request.system == "hybrid"):
                return hits, ()
            from skillsearch.index.search.explain import channel_votes

            return hits, channel_votes(form, _opened(view, corpus))
        raise self.overtaken()

    def find(self, name: str, view: View) -> Document:
        """Find the document that a name means, as `SkillIndex.find` does."""
        names = [name]
        with suppress(VersionConstraintError):
            names.append(split_requirement(name)[0])
        doc_ids = [one for one in names if ":" in one]
        names += [one.partition(":")[2] for one in doc_ids]
        found = map(document_of, view.named(names, doc_ids))
        documents = sorted(found, key=lambda document: document.doc_id)
        store = CandidateStore(documents, view.head)
        try:
            return find_by_name(name, store, _roots(view), suggest=False)
        except SkillNotFoundError as exc:
            if documents:
                raise
            near = self._nearest_names(name[:MAX_QUERY_CHARS])
            raise SkillNotFoundError(name, near) from exc

    def overtaken(self) -> RemoteError:
        """Return the error for writers that are faster than this reader."""
        return RemoteError(
            f"The index {self._collection!r} was rewritten {TRIES} times while it was read; "
            "try again."
        )

    def _unusable(self, reason: str) -> IndexNotFoundError:
        return IndexNotFoundError(
            f"The index {self._collection!r} in Milvus at {self._server.shown} cannot be used: "
            f"{reason}. {_how_to_make(self._server, self._collection)}"
        )

    def _nearest_names(self, name: str) -> tuple[str, ...]:
        """Return similar names, of the documents that a search for the name finds."""
        if not name.strip():
            return ()
        view = self.view(_terms_of(name))
        with suppress(EmbedderError, CollectionMissingError):
            rows = view.candidates(self._analyse(name, view), 1, "")
            return nearest_names(name, self._corpus(rows, view).documents)
        return ()

    def _analyse(self, text: str, view: View) -> QueryForm:
        """Split a query into terms and embed it for the channels."""
        opened = _opened(view, make_corpus([], view.head, view.frequencies))
        try:
            (form,) = analyse_queries([text], opened, self._calibration, self.embedders)
        except EmbedderError as exc:
            channel = view.head.settings.channels[0]
            embedder = self.embedders.loaded.get(channel.model)
            if embedder is None or embedder.fingerprint == channel.fingerprint:
                raise
            raise EmbedderError(
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
        limit = (MOST_SHADOWED + 1) * len(hits)
        corpus = self._corpus(view.namesakes([hit.name for hit in hits], limit), view)
        found = []
        for hit in hits:
            number = corpus.documents.number_of(hit.doc_id)
            others = () if number is None else shadowed_copies(corpus, number)
            paths = tuple(corpus.documents[other].path for other in others)
            found.append(replace(hit, duplicates=hit.duplicates + paths))
        return tuple(found)

    def _corpus(self, rows: Sequence[Row], view: View) -> Corpus:
        try:
            return make_corpus(rows, view.head, view.frequencies)
        except CacheError as exc:
            raise self._unusable(str(exc)) from exc


def _terms_of(text: str) -> list[str]:
    return terms(text, language_of(text))


def _roots(view: View) -> list[str]:
    return [str(root.path) for root in view.head.settings.roots]


def _is_named(names: Collection[str]) -> str:
    """Return a filter for documents with certain names."""
    return f"name_key in [{', '.join(str(name_key(name)) for name in names)}]"


def _opened(view: View, corpus: Corpus) -> OpenedIndex:
    """Return a corpus in the form that the analysis of a query takes."""
    generation = LocalGeneration(view.generation.documents, Path(), {}, {})
    return OpenedIndex(generation, view.head.settings, corpus)


def _how_to_make(server: MilvusServer, alias: str) -> str:
    return (
        f"To fix: run `skillsearch index FOLDER --backend milvus --uri {server.shown} "
        f"--collection {alias}`"
    )
