"""An index of words alone, which a library searches until its own is made."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from skillsearch.index.corpus import METADATA, Corpus, IndexSettings, OpenedIndex, count_statistics
from skillsearch.index.dense.query_embedder import ModelSettings
from skillsearch.index.dense.vectors import DenseIndex
from skillsearch.index.documents.document import ANALYSIS, METADATA_CHARS, NAME_WEIGHT, Document
from skillsearch.index.documents.families import Likeness, find_families
from skillsearch.index.documents.shadowing import find_shadowed
from skillsearch.index.lexical.builder import LexicalWriter
from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.lexical.postings import LexicalSegment
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import Generation, IndexFolder
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.text.languages import language_of
from skillsearch.text.tokenizer import document_terms
from skillsearch.types.answers import SearchResult
from skillsearch.types.skills import Root

_NO_MODEL = ModelSettings("", "", "", 0)
"""Stands for the model of an index of words alone."""


class WordIndex:
    """BM25 over metadata: it scores like a `SkillIndex` for a query without a vector."""

    def __init__(
        self, documents: DocumentStore, about: Mapping[str, str], roots: Sequence[Root]
    ) -> None:
        """Index the metadata of all documents not shadowed; `about` is as in a `Scan`."""
        left_out = {each.document.doc_id for each in find_shadowed(documents, roots)}
        counted: list[Document] = []
        with tempfile.TemporaryDirectory(prefix="skillsearch-") as folder:
            writer = LexicalWriter(Path(folder), METADATA)
            indexed = (document for document in documents if document.doc_id not in left_out)
            for number, document in enumerate(indexed):
                name = document.name[:METADATA_CHARS]
                text = about.get(document.path, document.description)[:METADATA_CHARS]
                language = language_of(f"{name}: {text}")
                named = document_terms(name, language) * NAME_WEIGHT
                writer.add(number, named + document_terms(text, language))
                counted.append(replace(document, language=language))
            writer.finish(len(counted))
            segment = LexicalSegment.load(Path(folder), METADATA)
        store = DocumentStore.build(counted)
        settings = IndexSettings(tuple(roots), _NO_MODEL, False, ANALYSIS)
        dense = DenseIndex(())
        store.families = find_families(Likeness(store, dense, (1.0, 1.0), settings.aliases))
        corrections = segment.tally(store.signs)
        statistics = count_statistics(store, [segment], corrections)
        postings = LexicalField((segment,), statistics, corrections)
        corpus = Corpus(store, (postings,), dense, (None,))
        opened = OpenedIndex(Generation("", Path(), {}, {}), settings, corpus)
        self._index = SkillIndex(IndexFolder(Path()), opened)

    def answer(self, queries: Sequence[str], options: SearchOptions) -> list[SearchResult]:
        """Find the skills that fit requests by their words, as `SkillIndex.answer` does."""
        results = self._index.answer(queries, replace(options, reader="off"))
        return [replace(result, words_only=True) for result in results]
