"""A query and an opened index → candidates, their features, their scores."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.index.calibration import DENSE_CHANNELS, FEATURES, LEXICAL_FEATURES, Calibration
from skillsearch.index.corpus import Corpus
from skillsearch.index.documents import DocumentStore
from skillsearch.index.evidence import find_evidence
from skillsearch.index.fusion import reciprocal_rank_fusion
from skillsearch.index.lexical import LexicalIndex, top_documents
from skillsearch.index.query_form import QueryForm, shares_of_trust
from skillsearch.types import System

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MIN_CANDIDATES = 50
"""Candidates taken from each channel before their features are compared; with twice as many, no
measure of any collection changes."""
_MOST_HIDDEN = 1_000
"""Hidden documents that dense search makes up for: more than that are hardly all the nearest."""
_NAME_QUERY_TERMS = 4
"""Longer queries are no spelling of a name."""
_NEAR_NAME = 0.6
"""Least share of common letter triples (Dice) at which a spelling is near."""
_TIE_BITS = 23
"""Scores whose leading bits, as many as float32 has, are equal are equal."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Documents worth scoring.

    Attributes:
        documents: Their numbers, int64, ascending.
        features: One row a document, columns as in `FEATURES`, float64, 0 to 1.
    """

    documents: NDArray[np.int64]
    features: NDArray[np.float64]


def find_candidates(
    corpus: Corpus, query: QueryForm, n: int, excluded: Collection[int] = ()
) -> Candidates:
    """Take the best documents of every channel and compute all features of each.

    Args:
        corpus: The opened index.
        query: The analysed query.
        n: Hits wanted in the end; more of them make a larger pool.
        excluded: Numbers of documents that must not be candidates.

    Returns:
        The candidates; every document that is best in some channel is among them.
    """
    k = max(_MIN_CANDIDATES, 4 * n)
    hidden = np.array(sorted(excluded), np.int64)
    metadata = _shares(corpus.lexical_metadata, query, hidden)
    full = metadata
    if corpus.lexical_full is not None:
        full = _shares(corpus.lexical_full, query, hidden)
    pools = [top_documents(metadata, k), top_documents(full, k)]
    for fields, view in zip(corpus.dense, query.views, strict=False):
        if view.vector.any():
            # FAISS is not told what to leave out, but asked for that many more.
            pools += fields.nearest(view.vector, k + min(len(hidden), _MOST_HIDDEN))
    named = np.array(corpus.documents.named(query.text), np.int64)
    if len(corpus.documents) <= k:
        # BM25Okapi gives a term in half of a corpus the weight 0, and few are soon half.
        pools.append(np.arange(len(corpus.documents)))
    documents = _union([*pools, named])
    documents = documents[~np.isin(documents, hidden)]
    first, second, neither = shares_of_trust(corpus, query, documents)
    columns = {
        "bm25_metadata": metadata[documents] * first,
        "bm25_full": full[documents] * first,
        "bm25_metadata_alone": metadata[documents] * neither,
        "name": _name_match(corpus.documents, query, documents, named),
        "bm25_metadata_multilingual": metadata[documents] * second,
        "bm25_full_multilingual": full[documents] * second,
    }
    for number, share, suffix in ((0, first, ""), (1, second, "_multilingual")):
        metadata_cosines, body_cosines = _cosines(corpus, query, number, documents)
        columns[f"cosine_metadata{suffix}"] = metadata_cosines * share
        columns[f"cosine_body{suffix}"] = body_cosines * share
    features = np.stack([columns[name] for name in FEATURES], axis=1)
    return Candidates(documents, features)


def score(
    corpus: Corpus,
    query: QueryForm,
    candidates: Candidates,
    system: System,
    calibration: Calibration,
) -> NDArray[np.float64]:
    """Score candidates by one system; see `SYSTEMS` for what the scores mean."""
    features = candidates.features
    if not len(features):
        return np.zeros(0)
    if system == "hybrid":
        sums = calibration.contributions(features).sum(axis=1)
        _, evidence = best_evidence(corpus, query, candidates, sums)
        return calibration.scores(sums, evidence)
    lexical = calibration.channel_scores(features, LEXICAL_FEATURES)
    # Each dense channel judges its share: the sum of both stays between 0 and 1.
    first, second = (calibration.channel_scores(features, names) for names in DENSE_CHANNELS)
    dense = first + second
    if system == "bm25":
        return lexical
    return dense if system == "dense" else reciprocal_rank_fusion([lexical, dense])


def best_evidence(
    corpus: Corpus, query: QueryForm, candidates: Candidates, sums: NDArray[np.float64]
) -> tuple[int, dict[str, float]]:
    """Return which candidate has the highest ranking sum, and the evidence for it."""
    best = int(best_first(sums, candidates.documents)[0])
    document = int(candidates.documents[best])
    return best, find_evidence(corpus, query, document, candidates.features[best])


def best_first(scores: NDArray[np.float64], documents: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of scores from the highest to the lowest, ties by document number.

    Sums of floats differ in their last bits with what else is scored: ties must not.
    """
    mantissas, exponents = np.frexp(scores)
    rounded = np.ldexp(np.rint(np.ldexp(mantissas, _TIE_BITS)), exponents)
    return np.lexsort((documents, -rounded))


def _union(pools: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the distinct documents of several pools, ascending.

    `numpy.unique` does the same, but its first call imports numpy.ma: 4 % of a cold query.
    """
    documents = np.sort(np.concatenate(pools))
    distinct: NDArray[np.int64] = documents[np.diff(documents, prepend=-1) > 0]
    return distinct


def _shares(
    index: LexicalIndex, query: QueryForm, hidden: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return each document's BM25 score as a share of what the query can attain, 0 if hidden."""
    attainable = index.attainable(query.counts)
    if attainable <= 0:
        return np.zeros(index.size, np.float32)
    shares: NDArray[np.float32] = index.scores(query.counts) / np.float32(attainable)
    shares[hidden] = 0
    return shares


def _cosines(
    corpus: Corpus, query: QueryForm, channel: int, documents: NDArray[np.int64]
) -> list[NDArray[np.float64]]:
    """Return what a channel makes of metadata and bodies, no less than 0; 0 where it has no say."""
    if channel >= len(query.views) or not query.views[channel].vector.any():
        return [np.zeros(len(documents))] * 2
    fields, vector = corpus.dense[channel], query.views[channel].vector
    return [
        np.maximum(field.similarities(vector, documents).astype(np.float64), 0.0)
        if field is not None
        else np.zeros(len(documents))
        for field in (fields.metadata, fields.body)
    ]


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
