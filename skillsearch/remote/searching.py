"""A request → hits, from one version of an index in Milvus."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.embedders.embedding import embed
from skillsearch.errors import (
    CacheError,
    EmbedderError,
    IndexNotFoundError,
    RemoteError,
    SkillNotFoundError,
    VersionConstraintError,
)
from skillsearch.index import fields as field_rules
from skillsearch.index.corpus import Corpus, OpenedIndex
from skillsearch.index.dense.channels import QueryEmbedders
from skillsearch.index.documents import Document
from skillsearch.index.names import find_by_name, nearest_names
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.duplicates import MOST_SHADOWED, shadowed_copies
from skillsearch.index.search.query import QueryForm, analyse
from skillsearch.index.search.search import SearchRequest, run
from skillsearch.index.storage.cache import Generation
from skillsearch.remote.candidates import CandidateStore, make_corpus
from skillsearch.remote.client import CollectionMissingError, MilvusServer, Row
from skillsearch.remote.rows import document_of
from skillsearch.remote.view import View
from skillsearch.skills.versions import split_requirement
from skillsearch.text import tokenizer
from skillsearch.text.languages import language_of
from skillsearch.types import ChannelVote

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skillsearch.types import Hit

TRIES = 5
"""Times that a reader begins anew because writers overtook it."""


class Searcher:
    """Searches an index in Milvus.

    Attributes:
        embedders: Embed the queries.
    """

    def __init__(
        self,
        server: MilvusServer,
        collection: str,
        embedders: QueryEmbedders,
        calibration: Calibration,
    ) -> None:
        """Prepare to search.

        Args:
            server: The server.
            collection: Name of the index.
            embedders: Embed the queries.
            calibration: Weighs features and evidence.
        """
        self._server = server
        self._collection = collection
        self._calibration = calibration
        self.embedders = embedders

    def view(self, terms: Collection[str] = ()) -> View:
        """Return the version that holds now.

        Args:
            terms: Terms whose document frequencies are needed.

        Returns:
            The version.

        Raises:
            IndexNotFoundError: When there is no index, or none that can be searched.
            RemoteError: When the server does not answer, or writers are faster than this reader.
        """
        for _ in range(TRIES):
            try:
                view = View.open(self._server, self._collection, terms)
            except CacheError as exc:
                raise self.unusable(str(exc)) from exc
            if view is None:
                continue
            if view.head.settings.analysis != (tokenizer.VERSION, field_rules.VERSION):
                raise self.unusable("it was made by another version of skillsearch")
            return view
        raise self.overtaken()

    def answer(self, request: SearchRequest) -> tuple[tuple[Hit, ...], tuple[ChannelVote, ...]]:
        """Answer a request.

        Args:
            request: What is asked.

        Returns:
            The hits, and which channels had a vote where the request is to be explained.

        Raises:
            EmbedderError: When the embedder cannot be loaded, or is not that of the index.
            IndexNotFoundError: When there is no index, or none that can be searched.
            RemoteError: When the server does not answer, or writers are faster than this reader.
        """
        condition = "" if request.include_hidden else "hidden == false"
        for _ in range(TRIES):
            view = self.view(_terms_of(request.query))
            if not view.head.searched:
                return (), ()
            form = self._analyse(request.query, view)
            roots = [str(root.path) for root in view.head.settings.roots]
            try:
                corpus = self._candidates(form, view, request.n + len(request.exclude), condition)
                hits = run(request, corpus, form, self._calibration, roots)
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
        """Find the document that a name means.

        Args:
            name: The name, as in `SkillIndex.find`.
            view: What to look in.

        Returns:
            The document.

        Raises:
            SkillNotFoundError: When there is none; names the nearest of those a search finds.
            VersionNotFoundError: When no version fits; names those there are.
            AmbiguousNameError: When one root has several that versions do not tell apart.
            RemoteError: When the server does not answer.
        """
        names = [name]
        with contextlib.suppress(VersionConstraintError):
            names.append(split_requirement(name)[0])
        doc_ids = [one for one in names if ":" in one]
        names += [one.partition(":")[2] for one in doc_ids]
        documents = sorted(
            map(document_of, view.named(names, doc_ids)), key=lambda document: document.doc_id
        )
        roots = [str(root.path) for root in view.head.settings.roots]
        store = CandidateStore(documents, view.head)
        try:
            return find_by_name(name, store, roots, suggest=False)
        except SkillNotFoundError as exc:
            if documents:
                raise
            near = self._nearest_names(name[:MAX_QUERY_CHARS])
            raise SkillNotFoundError(name, near) from exc

    def unusable(self, reason: str) -> IndexNotFoundError:
        """Say that the index cannot be used, and what to do."""
        return IndexNotFoundError(
            f"The index {self._collection!r} in Milvus at {self._server.shown} cannot be used: "
            f"{reason}. Make it anew: skillsearch index FOLDER --backend milvus "
            f"--uri {self._server.shown} --collection {self._collection}"
        )

    def overtaken(self) -> RemoteError:
        """Say that writers were faster."""
        return RemoteError(
            f"The index {self._collection!r} was written {TRIES} times while this read it; "
            "try again."
        )

    def _nearest_names(self, name: str) -> tuple[str, ...]:
        """Return names that look like one, of the documents that a search for it finds."""
        if not name.strip():
            return ()
        view = self.view(_terms_of(name))
        with contextlib.suppress(EmbedderError, CollectionMissingError):
            corpus = self._candidates(self._analyse(name, view), view, 1, "")
            return nearest_names(name, corpus.documents)
        return ()

    def _analyse(self, text: str, view: View) -> QueryForm:
        """Return a query as the channels see it."""
        channels = view.head.settings.channels
        usable = self.embedders.count_usable(channels)
        opened = _opened(view, make_corpus([], view.head, view.frequencies))

        def embed_query(channel: int, shown: str) -> NDArray[np.float32]:
            """Embed the query for a channel."""
            return self._embed_query(view, channel, shown)

        form = analyse(text, opened, self._calibration, embed_query, channels=usable)
        if usable == self.embedders.count_usable(channels):
            return form
        return self._analyse(text, view)

    def _embed_query(self, view: View, channel: int, text: str) -> NDArray[np.float32]:
        """Embed a query with the embedder of a channel, if it is the one that made the index."""
        settings = view.head.settings.channels[channel]
        load = self.embedders.first if channel == 0 else self.embedders.second
        embedder = load(settings)
        if embedder is None:
            return np.zeros(settings.dimensions, np.float32)
        if embedder.fingerprint != settings.fingerprint:
            mismatch = EmbedderError(
                f"The index {self._collection!r} was made with another version of the model "
                f"{settings.model!r} ({settings.fingerprint}) than the one here "
                f"({embedder.fingerprint}); install that one, or make the index anew: skillsearch "
                f"index FOLDER --backend milvus --model {settings.model}"
            )
            if channel == 0:
                raise mismatch
            self.embedders.give_up(mismatch)
            return np.zeros(settings.dimensions, np.float32)
        vector: NDArray[np.float32] = embed(embedder, [text], role="query").vectors[0]
        return vector

    def _candidates(self, form: QueryForm, view: View, n: int, condition: str) -> Corpus:
        """Fetch the candidates of a query."""
        return self._corpus(view.candidates(form, n, condition), view)

    def _with_shadowed(self, hits: tuple[Hit, ...], view: View) -> tuple[Hit, ...]:
        """Have hits name the copies that they shadow too."""
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
        """Put rows together."""
        try:
            return make_corpus(rows, view.head, view.frequencies)
        except CacheError as exc:
            raise self.unusable(str(exc)) from exc


def _terms_of(text: str) -> list[str]:
    """Return the terms of a query."""
    return tokenizer.terms(text, language_of(text))


def _opened(view: View, corpus: Corpus) -> OpenedIndex:
    """Return a corpus in the form that the analysis of a query takes."""
    generation = Generation(view.generation.documents, Path(), {}, {})
    return OpenedIndex(generation, view.head.settings, corpus)
