"""A query and an opened index → candidates, their features, their scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.index.calibration import CALIBRATION, DENSE_FEATURES, FEATURES, LEXICAL_FEATURES
from skillsearch.index.corpus import Corpus
from skillsearch.index.dense import DenseIndex
from skillsearch.index.documents import DocumentStore
from skillsearch.index.fusion import reciprocal_rank_fusion
from skillsearch.index.lexical import UNKNOWN_BIGRAM_WEIGHT, LexicalIndex, top_documents
from skillsearch.index.tokenizer import is_bigram, terms
from skillsearch.types import System

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MIN_CANDIDATES = 50
"""Candidates taken from each channel before their features are compared; with twice as many, no
measure of any collection changes."""
_NAME_QUERY_TERMS = 4
"""Longer queries are no spelling of a name."""
_NEAR_NAME = 0.6
"""Least share of common letter triples (Dice) at which a spelling is near."""


@dataclass(frozen=True, slots=True)
class QueryForm:
    """A query, analysed.

    Attributes:
        text: As it was asked.
        counts: How often each term occurs.
        vector: Its embedding, float32, (dimensions,); all zero where nothing could be embedded.
        trust: How far the embedder can judge it, 0 to 1.
    """

    text: str
    counts: Counter[str]
    vector: NDArray[np.float32]
    trust: float


@dataclass(frozen=True, slots=True)
class Candidates:
    """Documents worth scoring.

    Attributes:
        documents: Their numbers, int64, ascending.
        features: One row a document, columns as in `FEATURES`, float64, 0 to 1.
        corpus_size: Number of documents that they were taken from.
    """

    documents: NDArray[np.int64]
    features: NDArray[np.float64]
    corpus_size: int


def find_candidates(corpus: Corpus, query: QueryForm, n: int) -> Candidates:
    """Take the best documents of every channel and compute all features of each.

    Args:
        corpus: The opened index.
        query: The analysed query.
        n: Hits wanted in the end; more of them make a larger pool.

    Returns:
        The candidates; every document that is best in some channel is among them.
    """
    k = max(_MIN_CANDIDATES, 4 * n)
    metadata = _shares(corpus.lexical_metadata, query)
    full = metadata if corpus.lexical_full is None else _shares(corpus.lexical_full, query)
    pools = [top_documents(metadata, k), top_documents(full, k)]
    if query.trust > 0 and query.vector.any():
        pools.append(corpus.dense_metadata.search(query.vector, k)[0])
        if corpus.dense_body is not None:
            pools.append(corpus.dense_body.search(query.vector, k)[0])
    named = np.array(corpus.documents.named(query.text), np.int64)
    if len(corpus.documents) <= k:
        # BM25Okapi gives a term in half of a corpus the weight 0, and few are soon half.
        pools.append(np.arange(len(corpus.documents)))
    documents = _union([*pools, named])
    trust = np.asarray(corpus.documents.trust[documents], np.float64) * query.trust
    columns = {
        "bm25_metadata": metadata[documents] * trust,
        "bm25_full": full[documents] * trust,
        "bm25_metadata_alone": metadata[documents] * (1.0 - trust),
        "name": _name_match(corpus.documents, query, documents, named),
        "cosine_metadata": _cosines(corpus.dense_metadata, query, documents) * trust,
        "cosine_body": _cosines(corpus.dense_body, query, documents) * trust,
    }
    features = np.stack([columns[name] for name in FEATURES], axis=1)
    return Candidates(documents, features, len(corpus.documents))


def score(candidates: Candidates, system: System) -> NDArray[np.float64]:
    """Score candidates by one system; see `SYSTEMS` for what the scores mean."""
    features = candidates.features
    if system == "hybrid":
        return CALIBRATION.scores(features, candidates.corpus_size)
    lexical = CALIBRATION.channel_scores(features, LEXICAL_FEATURES)
    dense = CALIBRATION.channel_scores(features, DENSE_FEATURES)
    if system == "bm25":
        return lexical
    return dense if system == "dense" else reciprocal_rank_fusion([lexical, dense])


def analyse(text: str, embed: Callable[[str], tuple[NDArray[np.float32], float]]) -> QueryForm:
    """Split a query into terms and embed it.

    Args:
        text: The query.
        embed: Gives the vector of a text and the trust in it.

    Returns:
        The analysed query.
    """
    vector, trust = embed(text)
    return QueryForm(text, Counter(terms(text)), vector, trust)


def _union(pools: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the distinct documents of several pools, ascending.

    `numpy.unique` does the same, but its first call imports numpy.ma: 4 % of a cold query.
    """
    documents = np.sort(np.concatenate(pools))
    distinct: NDArray[np.int64] = documents[np.diff(documents, prepend=-1) > 0]
    return distinct


def _shares(index: LexicalIndex, query: QueryForm) -> NDArray[np.float32]:
    """Return the BM25 score of every document as a share of what the query can attain."""
    weights = {term: UNKNOWN_BIGRAM_WEIGHT for term in query.counts if is_bigram(term)}
    attainable = index.attainable(query.counts, weights)
    if attainable <= 0:
        return np.zeros(index.size, np.float32)
    shares: NDArray[np.float32] = index.scores(query.counts) / np.float32(attainable)
    return shares


def _cosines(
    index: DenseIndex | None, query: QueryForm, documents: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the similarity of each document, no less than 0; all 0 without an index."""
    if index is None:
        return np.zeros(len(documents))
    return np.maximum(index.similarities(query.vector, documents).astype(np.float64), 0.0)


def _name_match(
    store: DocumentStore,
    query: QueryForm,
    documents: NDArray[np.int64],
    named: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return how much the query looks like each document's name, 0 to 1."""
    match = np.isin(documents, named).astype(np.float64)
    wanted = _triples(query.text)
    if len(query.counts) > _NAME_QUERY_TERMS or len(query.text.split()) > _NAME_QUERY_TERMS:
        return match
    for place in np.flatnonzero(match == 0):
        name = _triples(store[int(documents[place])].name)
        dice = 2 * len(wanted & name) / max(len(wanted) + len(name), 1)
        match[place] = dice if dice >= _NEAR_NAME else 0.0
    return match


def _triples(name: str) -> set[str]:
    """Return the letter triples of a name, its ends marked, case and separators aside."""
    padded = f" {' '.join(name.casefold().replace('-', ' ').replace('_', ' ').split())} "
    return {padded[i : i + 3] for i in range(len(padded) - 2)}
