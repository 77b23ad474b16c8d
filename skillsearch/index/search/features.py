"""The features that order candidates, a row each: `FEATURES` is the one place to add one.

Its fitted weight stands in ``calibration.json``. Ranker, explanation, checks of that file and
``scripts/fit_fusion.py`` read the table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.index.corpus import Corpus
from skillsearch.index.search.exclusion import contradiction_shares, exclusion_shares
from skillsearch.index.search.query import QueryForm
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.index.storage.numbering import Numbers, Values

# Less similar examples say nothing.
LEAST_OF_EXAMPLES = 0.4
# A longer query cannot be the spelling of a name.
_NAME_QUERY_TERMS = 4
# Least share of common letter triples (Dice) at which a spelling is near.
_NEAR_NAME = 0.6

Sign = Literal[-1, 0, 1]
Channel = Literal["words", "dense", "skill"]


@dataclass(frozen=True)
class MeasuredCandidates:
    """Candidates of a query, and what all features are computed from.

    `metadata` and `full` are the BM25 scores of the metadata, and of metadata and body together, as
    shares of the query's maximum score. `named` are the documents whose name the query is.
    """

    corpus: Corpus
    query: QueryForm
    documents: Numbers
    named: Numbers
    metadata: NDArray[np.floating]
    full: NDArray[np.floating]

    @cached_property
    def cosines(self) -> tuple[Values, Values]:
        """The cosines to the metadata and to the examples, at least 0.

        They are 0 for a query without a vector, and to examples if no skill has any.
        """
        nothing = np.zeros(len(self.documents))
        if not self.query.has_vector:
            return nothing, nothing
        fields = self.corpus.dense.cosines(self.query.vector, self.documents)
        metadata, *examples = (np.maximum(field.astype(np.float64), 0.0) for field in fields)
        return metadata, examples[0] if examples else nothing

    @cached_property
    def supporting(self) -> dict[str, Values]:
        """The features that speak for a candidate, by name."""
        return {name: row.compute(self) for name, row in FEATURES.items() if row.sign > 0}

    @cached_property
    def nearness(self) -> Values:
        """The sum of all features that speak for a candidate; those against it rest on it."""
        total: Values = np.sum(list(self.supporting.values()), axis=0)
        return total

    @property
    def excluding(self) -> tuple[Corpus, QueryForm, Numbers, Values]:
        """What exclusions and contradictions are computed from."""
        return self.corpus, self.query, self.documents, self.nearness

    def matrix(self) -> Values:
        """Return a row of all features for each candidate, columns as in `FEATURES`."""
        against = {name: row.compute(self) for name, row in FEATURES.items() if row.sign < 0}
        values = self.supporting | against
        return np.stack([values[name] for name in FEATURES], 1)


@dataclass(frozen=True, slots=True)
class Feature:
    """A number about a candidate.

    Attributes:
        name: Its name in ``calibration.json`` and in explanations.
        sign: 1 if it speaks for a candidate, -1 if against it; its weight has that sign.
        channel: ``words`` of BM25 and names, ``dense`` vectors, or the ``skill`` itself.
        compute: Returns its values.
        start: Absolute weight that a fit begins with.
        is_excess: Whether it is by how much one measure exceeds another.
    """

    name: str
    sign: Sign
    channel: Channel
    compute: Callable[[MeasuredCandidates], Values]
    start: float = 5.0
    is_excess: bool = False


def _name_match(measured: MeasuredCandidates) -> Values:
    """Return 1 for skills whose name the query is, less for a near spelling of it."""
    query, store = measured.query, measured.corpus.documents
    match = np.isin(measured.documents, measured.named).astype(np.float64)
    if len(query.counts) <= _NAME_QUERY_TERMS and len(query.text.split()) <= _NAME_QUERY_TERMS:
        wanted = _triples(query.text)
        for row in np.flatnonzero(match == 0):
            name = _triples(store[int(measured.documents[row])].name)
            dice = 2 * len(wanted & name) / max(len(wanted) + len(name), 1)
            match[row] = dice if dice >= _NEAR_NAME else 0.0
    return match


def _triples(name: str) -> set[str]:
    padded = f" {' '.join(name.casefold().replace('-', ' ').replace('_', ' ').split())} "
    return {padded[i : i + 3] for i in range(len(padded) - 2)}


def _example_excess(measured: MeasuredCandidates) -> Values:
    """Return by how much the examples are nearer than the metadata, and `LEAST_OF_EXAMPLES`.

    The cosine is that to the mean of a skill's example requests, whose words count in BM25 too.
    """
    least = np.maximum(measured.cosines[0], LEAST_OF_EXAMPLES)
    more = np.maximum(measured.cosines[1] - least, 0.0)
    excess: Values = more * _store(measured).exampled[measured.documents]
    return excess


def _beside_vectors(measured: MeasuredCandidates, shares: NDArray[np.floating]) -> Values:
    """Return shares of words as float64, or 0 if the query has no vector."""
    return shares.astype(np.float64) * measured.query.has_vector


def _alone(measured: MeasuredCandidates, shares: NDArray[np.floating]) -> Values:
    """Return shares of words as float64, or 0 if the query has a vector."""
    return shares.astype(np.float64) * (not measured.query.has_vector)


def _store(measured: MeasuredCandidates) -> DocumentStore:
    return measured.corpus.documents


_TABLE = (
    Feature("bm25_metadata", 1, "words", lambda m: _beside_vectors(m, m.metadata), 3.0),
    Feature("bm25_full", 1, "words", lambda m: _beside_vectors(m, m.full), 12.0),
    # All that speaks for a skill until an index has vectors.
    Feature("bm25_metadata_alone", 1, "words", lambda m: _alone(m, m.metadata), 45.0),
    Feature("name", 1, "words", _name_match, 4.0),
    Feature("cosine_metadata", 1, "dense", lambda m: m.cosines[0], 10.0),
    Feature("cosine_examples", 1, "dense", _example_excess, 10.0, is_excess=True),
    Feature("excluded", -1, "skill", lambda m: exclusion_shares(*m.excluding), 12.0),
    Feature("contradiction", -1, "skill", lambda m: contradiction_shares(*m.excluding), 8.0),
    # How far the skill is near whatever is asked, mostly 0.
    Feature("hubness", -1, "skill", lambda m: _store(m).hubness[m.documents], 10.0),
    # What examples add to skills that nobody asks for.
    Feature("has_examples", -1, "skill", lambda m: _store(m).exampled[m.documents] * 1.0, 0.8),
)
FEATURES = {feature.name: feature for feature in _TABLE}

# What the system bm25 ranks by.
LEXICAL = ("bm25_metadata", "bm25_full", "name")


def features_of(*channels: Channel) -> tuple[str, ...]:
    """Return the names of the features of some channels."""
    return tuple(name for name, row in FEATURES.items() if row.channel in channels)
