"""A query and an opened index → the documents worth scoring, with their features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, NamedTuple

import numpy as np

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.index.corpus import Corpus
from skillsearch.index.search.features import FEATURES, MeasuredCandidates
from skillsearch.index.search.query import QueryForm
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.index.storage.numbering import (
    NOTHING,
    Numbers,
    Values,
    find_sorted,
    union,
    without,
)

# Candidates by words and by vectors each; with twice as many, no measure of any collection changes.
_LEAST_CANDIDATES, _CANDIDATES_PER_HIT = 50, 4
# Members of a family that are ranked besides its leader.
_MOST_MEMBERS = 50
MOST_USED = 10
"""Of the skills that requests like a query led to, at most this many become candidates by that."""

Nominator = Literal["words", "vectors", "name", "usage", "all"]
"""What makes a document a candidate. words: its BM25 score; name: the query is its name, or pinned
to it; usage: requests like the query led to it; all: the corpus is so small that each is one."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Documents worth scoring, ascending, with a row of `FEATURES` each.

    `lexical` has their features `LEXICAL`, whether the query has a vector or not. The `pools` are
    the documents that each nominator named.
    """

    documents: Numbers
    features: Values
    lexical: Values
    pools: Mapping[Nominator, Numbers] = field(default_factory=dict, kw_only=True)

    def feature(self, name: str) -> Values:
        """Return one feature of all of them."""
        return self.features[:, list(FEATURES).index(name)]


@dataclass(frozen=True, slots=True)
class Ranked(Candidates):
    """Ranked candidates: their scores, by which a system orders them, and rows from the best on.

    In a hybrid ranking the scores are sums that order candidates, not yet probabilities.
    """

    scores: Values
    best: Numbers


class Judged(NamedTuple):
    """A hit in a row of a ranking: evidence, score, and the score that it has of its own.

    If the score is less, it was cut down to the score of the hit in the row `cut_by`.
    """

    row: int
    evidence: Mapping[str, float]
    score: float
    own_score: float
    cut_by: int | None = None


def count_candidates(n: int) -> int:
    """Return how many candidates words and vectors nominate each for n hits."""
    return max(_LEAST_CANDIDATES, _CANDIDATES_PER_HIT * n)


def find_candidates(
    corpus: Corpus,
    queries: Sequence[QueryForm],
    n: int,
    excluded: Numbers = NOTHING,
    *,
    also: Numbers = NOTHING,
) -> list[Candidates]:
    """Take the families that are best by words or by vectors for each weighed query, for n hits.

    A family is found by what stands for it, so that many copies crowd nothing out, and then comes
    with all its members. Those of the documents `also` are taken whatever nominates them.
    """
    store = corpus.documents
    left_out, unseen = store.left_out, store.uncounted
    if len(excluded):
        left_out = union(left_out, excluded)
        unseen = union(left_out, store.families.waiting(left_out))
    k = count_candidates(n)
    nearest = [NOTHING] * len(queries)
    if rows := [row for row, query in enumerate(queries) if query.has_vector]:
        vectors = np.stack([queries[row].vector for row in rows])
        for row, pool in zip(rows, corpus.dense.nearest_to_each(vectors, k, unseen), strict=True):
            nearest[row] = pool

    def candidates_of(query: QueryForm, near: Numbers) -> Candidates:
        weighed = list(zip(corpus.lexical, query.weights, strict=True))
        matches = [field.best(weights, k, unseen) for field, weights in weighed]
        named = union(np.array(store.named(query.text), np.int64), store.numbers_of(query.pinned))
        words = union(*(match.documents for match in matches))
        pools: dict[Nominator, Numbers] = {"words": words, "vectors": near, "name": named}
        if query.usage:
            pools["usage"] = store.numbers_of(most_used(query.usage))
        if store.counted_size <= k:
            # BM25Okapi gives a term in half of a corpus the weight 0, and few are soon half.
            pools["all"] = store.counted
        nominated = union(*pools.values(), also)
        documents = without(_with_families(store, nominated, left_out), left_out)
        shares = [
            # Without any term, scores and shares are 0.
            match.scores_of(documents) / np.float32(weights.max_score or 1.0)
            for match, weights in zip(matches, query.weights, strict=True)
        ]
        # If only metadata is indexed, the one field stands for both.
        metadata, full = shares[0], shares[-1]
        measured = MeasuredCandidates(corpus, query, documents, named, metadata, full)
        lexical = np.stack([metadata, full, measured.supporting["name"]], 1).astype(np.float64)
        return Candidates(documents, measured.matrix(), lexical, pools=pools)

    return list(map(candidates_of, queries, nearest))


def _with_families(store: DocumentStore, documents: Numbers, left_out: Numbers) -> Numbers:
    """Return the leaders of documents, and the members that may lead instead, ascending."""
    families = store.families
    leaders = union(families.leaders_of(documents))
    candidates = [leaders]
    leading = leaders[families.are_leading(leaders)]
    are_gone = find_sorted(left_out, leading) >= 0
    for leader, is_gone in zip(leading.tolist(), are_gone.tolist(), strict=True):
        members, are_peers = families.followers(leader)
        candidates.append((members if is_gone else members[are_peers])[:_MOST_MEMBERS])
    return union(*candidates)


def most_used(usage: Mapping[str, float]) -> list[str]:
    """Return the ids of the `MOST_USED` skills that requests like a query led to most."""
    return sorted(usage, key=lambda doc_id: (-usage[doc_id], doc_id))[:MOST_USED]
