"""Skills searched by words alone: BM25 over their metadata, there long before any vector is."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np

from skillsearch.embedders.embedding_keys import text_key
from skillsearch.index.corpus import Corpus
from skillsearch.index.documents import Document
from skillsearch.index.fields import METADATA_CHARS, NAME_WEIGHT
from skillsearch.index.lexical.builder import LexicalWriter
from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.lexical.postings import LexicalSegment
from skillsearch.index.precedence import find_shadowed
from skillsearch.index.search.fitted import default_calibration
from skillsearch.index.search.query_form import QueryForm, QueryView
from skillsearch.index.search.search import SearchRequest, run
from skillsearch.index.segments import METADATA
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.text.languages import language_of
from skillsearch.text.tokenizer import document_terms, terms
from skillsearch.types import Root, SearchResult

_NO_VOTE = (QueryView(np.zeros(0, np.float32), 0.0),)


class WordIndex:
    """An index without dense channels.

    It is asked as a `SkillIndex` is, and judges as one does if no embedder can read the query.
    """

    def __init__(self, corpus: Corpus, roots: Sequence[str]) -> None:
        """Wrap a corpus; use `build` instead."""
        self._corpus = corpus
        self._roots = roots

    @classmethod
    def build(
        cls, documents: DocumentStore, about: Mapping[str, str], roots: Sequence[Root]
    ) -> Self:
        """Count the words of the metadata of all documents that their names mean.

        Args:
            documents: The documents.
            about: What the metadata says beside the name, by path, if it is more than the
                description.
            roots: The roots, in order of precedence.

        Returns:
            The index.

        Raises:
            OSError: When there is no room for temporary files.
        """
        paths = [str(root.path) for root in roots]
        shadowed = find_shadowed(documents, paths)
        left_out = {one.document.doc_id for one in shadowed}
        found: list[Document] = []
        with tempfile.TemporaryDirectory(prefix="skillsearch-") as folder:
            writer = LexicalWriter(Path(folder), METADATA)
            meant = (one for one in documents if one.doc_id not in left_out)
            for number, document in enumerate(meant):
                name = document.name[:METADATA_CHARS]
                text = about.get(document.path, document.description)[:METADATA_CHARS]
                language = language_of(f"{name}: {text}")
                named = document_terms(name, language) * NAME_WEIGHT
                writer.add(number, named + document_terms(text, language))
                key = text_key(f"{name}: {text}").hex()
                found.append(replace(document, keys=((key, ""),), language=language))
            writer.finish(len(found))
            field = LexicalField.of(LexicalSegment.load(Path(folder), METADATA))
        return cls(Corpus(DocumentStore.build(found), field, None, (), (None,)), paths)

    def search(
        self,
        query: str,
        n: int = 5,
        threshold: float | None = None,
        *,
        include_hidden: bool = True,
        exclude: Collection[str] = (),
    ) -> SearchResult:
        """Find the skills that fit a request by its words, or none.

        Args:
            query: What is to be done, in words.
            n: How many hits at most.
            threshold: Lowest accepted score; by default that of `SkillIndex.search`.
            include_hidden: As in `SkillIndex.search`.
            exclude: As in `SkillIndex.search`.

        Returns:
            The hits, best first.

        Raises:
            QueryError: When the query is empty or too long, or n or threshold cannot be used.
        """
        started = time.perf_counter()
        request = SearchRequest.of(
            query, n=n, threshold=threshold, include_hidden=include_hidden, exclude=exclude
        )
        language = language_of(query)
        form = QueryForm(query, language, Counter(terms(query, language)), _NO_VOTE)
        calibration = default_calibration()
        is_empty = not len(self._corpus.documents)
        hits = () if is_empty else run(request, self._corpus, form, calibration, self._roots)
        seconds = time.perf_counter() - started
        cut = request.cut(calibration)
        return SearchResult(query, cut, hits, not hits, seconds, words_only=True)
