"""A query and an opened index → candidates, their features, their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.index.corpus import Corpus
from skillsearch.index.fields import DENSE_CHANNELS
from skillsearch.index.search.calibration import FEATURES, LEXICAL_FEATURES, Calibration
from skillsearch.index.search.evidence import find_evidence
from skillsearch.index.search.fusion import reciprocal_rank_fusion
from skillsearch.index.search.query_form import QueryForm, shares_of_trust
from skillsearch.index.storage.document_store import DocumentStore
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
NOTHING: NDArray[np.int64] = np.zeros(0, np.int64)
"""Numbers of no documents."""
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
    corpus: Corpus,
    query: QueryForm,
    n: int,
    excluded: NDArray[np.int64] = NOTHING,
    near: Sequence[NDArray[np.int64]] | None = None,
) -> Candidates:
    """Take the best documents of every channel and compute all features of each.

    Args:
        corpus: The opened index.
        query: The analysed query.
        n: Hits wanted in the end; more of them make a larger pool.
        excluded: Numbers of documents that must not be candidates, beside those never searched.
        near: What `nearest_documents` found for the query, if that is known.

    Returns:
        The candidates; every document that is best in some channel is among them.
    """
    k, left_out = _pool_size(n), _left_out(corpus, excluded)
    fields = [corpus.lexical_metadata]
    if corpus.lexical_full is not None:
        fields.append(corpus.lexical_full)
    weighed = [field.weigh(query.counts) for field in fields]
    matches = [
        field.best(weights, k, left_out) for field, weights in zip(fields, weighed, strict=True)
    ]
    pools = [found.documents for found in matches]
    pools += nearest_documents(corpus, [query], n, excluded)[0] if near is None else near
    named = np.array(corpus.documents.named(query.text), np.int64)
    if corpus.documents.searched_size <= k:
        # BM25Okapi gives a term in half of a corpus the weight 0, and few are soon half.
        pools.append(corpus.documents.searched)
    documents = _union([*pools, named])
    if len(left_out):
        documents = documents[~np.isin(documents, left_out)]
    shares = [
        _shares(found.scores_of(documents), field.attainable(weights))
        for found, field, weights in zip(matches, fields, weighed, strict=True)
    ]
    # An index of metadata alone has the one field for both.
    metadata, full = shares[0], shares[-1]
    first, second, neither = shares_of_trust(corpus, query, documents)
    columns: dict[str, NDArray[np.floating]] = {
        "bm25_metadata": metadata * first,
        "bm25_full": full * first,
        "bm25_metadata_alone": metadata * neither,
        "name": _name_match(corpus.documents, query, documents, named),
        "bm25_metadata_multilingual": metadata * second,
        "bm25_full_multilingual": full * second,
    }
    for number, share in enumerate((first, second)):
        cosines = _cosines(corpus, query, number, documents)
        # An index of metadata alone has none of bodies.
        named_cosines = zip(DENSE_CHANNELS[number], cosines, strict=False)
        columns |= {name: values * share for name, values in named_cosines}
    features = np.zeros((len(documents), len(FEATURES)))
    for place, name in enumerate(FEATURES):
        if name in columns:
            features[:, place] = columns[name]
    return Candidates(documents, features)


def nearest_documents(
    corpus: Corpus,
    queries: Sequence[QueryForm],
    n: int,
    excluded: NDArray[np.int64] = NOTHING,
) -> list[list[NDArray[np.int64]]]:
    """Find the documents nearest to queries in each dense channel that is asked.

    Args:
        corpus: The opened index.
        queries: The analysed queries.
        n: Hits wanted in the end.
        excluded: Numbers of documents that must not be among them, beside those never searched.

    Returns:
        For each query, for each channel that has its vector, document numbers, ascending.
    """
    left_out = _left_out(corpus, excluded)
    found: list[list[NDArray[np.int64]]] = [[] for _ in queries]
    for number, channel in enumerate(corpus.dense):
        asked = [
            place
            for place, query in enumerate(queries)
            if number < len(query.views) and query.views[number].vector.any()
        ]
        if not asked:
            continue
        vectors = np.stack([queries[place].views[number].vector for place in asked])
        near = channel.nearest_to_each(vectors, _pool_size(n), left_out)
        for place, documents in zip(asked, near, strict=True):
            found[place].append(documents)
    return found


def _pool_size(n: int) -> int:
    """Return how many candidates each channel gives."""
    return max(_MIN_CANDIDATES, 4 * n)


def _left_out(corpus: Corpus, excluded: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the documents that must not be candidates, ascending."""
    never = corpus.documents.left_out
    return _union([never, excluded]) if len(excluded) else never


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
    best = int(best_first(sums, corpus.documents.in_order(candidates.documents))[0])
    document = int(candidates.documents[best])
    return best, find_evidence(corpus, query, document, candidates.features[best])


def best_first(scores: NDArray[np.float64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of scores from the highest to the lowest, ties by the order of ids.

    Sums of floats differ in their last bits with what else is scored: ties must not.
    """
    mantissas, exponents = np.frexp(scores)
    rounded = np.ldexp(np.rint(np.ldexp(mantissas, _TIE_BITS)), exponents)
    return np.lexsort((order, -rounded))


def _union(pools: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the distinct documents of several pools, ascending.

    `numpy.unique` does the same, but its first call imports numpy.ma: 4 % of a cold query.
    """
    documents = np.sort(np.concatenate(pools))
    is_first = np.ones(len(documents), np.bool_)
    np.not_equal(documents[1:], documents[:-1], out=is_first[1:])
    return documents[is_first]


def _shares(scores: NDArray[np.float32], attainable: float) -> NDArray[np.float32]:
    """Return BM25 scores as shares of what the query can attain."""
    if attainable <= 0:
        return np.zeros_like(scores)
    shares: NDArray[np.float32] = scores / np.float32(attainable)
    return shares


def _cosines(
    corpus: Corpus, query: QueryForm, channel: int, documents: NDArray[np.int64]
) -> list[NDArray[np.float64]]:
    """Return what a channel makes of metadata and, maybe, bodies; nothing if it has no say."""
    if channel >= len(query.views) or not query.views[channel].vector.any():
        return []
    found = corpus.dense[channel].cosines(query.views[channel].vector, documents)
    return [np.maximum(one.astype(np.float64), 0.0) for one in found if one is not None]


def _name_match(
    store: DocumentStore,
    query: QueryForm,
    documents: NDArray[np.int64],
    named: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return how much the query looks like each document's name, 0 to 1."""
    match = np.isin(documents, named).astype(np.float64) if len(named) else np.zeros(len(documents))
    if len(query.counts) > _NAME_QUERY_TERMS or len(query.text.split()) > _NAME_QUERY_TERMS:
        return match
    wanted = _triples(query.text)
    for place in np.flatnonzero(match == 0):
        name = _triples(store[int(documents[place])].name)
        dice = 2 * len(wanted & name) / max(len(wanted) + len(name), 1)
        match[place] = dice if dice >= _NEAR_NAME else 0.0
    return match


def _triples(name: str) -> set[str]:
    """Return the letter triples of a name, its ends marked, case and separators aside."""
    padded = f" {' '.join(name.casefold().replace('-', ' ').replace('_', ' ').split())} "
    return {padded[i : i + 3] for i in range(len(padded) - 2)}
