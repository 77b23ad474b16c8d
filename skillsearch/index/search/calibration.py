"""Ranking features → an order of the candidates, and the probability that each fits; pure.

Two steps, each a sum of few terms. *Ranking*: non-negative weights times features put the
candidates of a query in order. *Confidence*: the log-odds that the best of them fits come from the
evidence for it and from what is known of query and corpus; those of the others are lower by how far
their ranking sum lies behind the best. So a score has the same order as the ranking, and the best
score says whether anything fits at all.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.index.fields import DENSE_CHANNELS
from skillsearch.types import JsonValue

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEATURES = (
    "bm25_metadata",
    "bm25_full",
    "bm25_metadata_alone",
    "name",
    "cosine_metadata",
    "bm25_metadata_multilingual",
    "bm25_full_multilingual",
    "cosine_metadata_multilingual",
    "cosine_body_multilingual",
)
"""Order of the columns of every feature matrix.

bm25_metadata, bm25_full: BM25 of the metadata, and of metadata and body together, as the share of
    the query's attainable score, times the trust in the embedder of the first dense channel.
cosine_metadata: cosine similarity to the metadata, times the same trust; negative ones count as 0.
NAME_multilingual: the same three, but by the second dense channel, times the trust in it: what the
    trust in the first leaves where the index has a second, else 0.
cosine_body_multilingual: cosine similarity to the head of the body, by the second channel alone.
bm25_metadata_alone: BM25 of the metadata, times what both leave: all that speaks for a skill in
    a script that no embedder of the index can read.
name: 1 where the query is the skill's name, less for a near spelling of it.
"""

DENSE_FEATURES = DENSE_CHANNELS[0] + DENSE_CHANNELS[1]
LEXICAL_FEATURES = tuple(name for name in FEATURES if name not in DENSE_FEATURES)

CLUES = ("english", "other_language", "other_letters", "overlap")
"""What tells whether the first channel knows the language of a query, where there is a second.

english, other_language: 1 where its words and letters tell that it is English, that it is not.
other_letters: share of its letters that are not ASCII.
overlap: share of the weight of its terms that the corpus knows.
"""

SUPPORTING = (
    "bm25_full",
    "bm25_known_alone",
    "name",
    "cosine_metadata",
    "rarest_term",
    "bm25_full_multilingual",
    "cosine_metadata_multilingual",
)
OPPOSING = ("corpus_size",)
EVIDENCE = (*SUPPORTING, *OPPOSING, "distrust", "multilingual")
"""What the confidence in the best candidate rests on.

bm25_full, name, cosine_metadata, and those of the second channel: its ranking features.
bm25_known_alone: bm25_metadata_alone, but terms in a script that the corpus does not use are left
    out of what is attainable: that a Korean word is unknown to an English corpus says nothing.
rarest_term: idf of the rarest query term that occurs in it over the idf of a term in no document;
    mean of metadata and full text, times the trust in the first channel.
corpus_size: log2 of the number of documents, between `SIZE_RANGE`: the best of more skills that
    do not fit comes closer by chance.
distrust, multilingual: what no channel is trusted with, and the trust in the second; they move
    the intercept and may have either sign.
"""

SIZE_RANGE = (16, 256)
"""Corpus sizes between which the confidence falls; beyond them it was not seen to fall further."""

_LARGEST = 1e6
"""Larger coefficients are a mistake, and their sums might be no number."""
_LOWEST = -700.0
"""Lower log-odds make no score above 0."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The fitted numbers of both steps.

    Attributes:
        weights: Weight of each ranking feature, none negative.
        evidence: Log-odds that each piece of `EVIDENCE` adds a unit.
        intercept: Log-odds of the best candidate without any evidence.
        lag: Log-odds that a candidate loses for each unit that its ranking sum lies behind.
        lag_multilingual: The same where the second channel judges the best candidate.
        threshold: Lowest score that is a hit, unless the caller says otherwise.
        clues: Log-odds that each of `CLUES` adds to the first channel knowing a query's language,
            and those without any as ``intercept``.
    """

    weights: Mapping[str, float]
    evidence: Mapping[str, float]
    intercept: float
    lag: float
    lag_multilingual: float
    threshold: float
    clues: Mapping[str, float]

    def fluency(self, clues: Mapping[str, float]) -> float:
        """Return how likely the first channel knows the language of a query, by its `CLUES`."""
        log_odds = self.clues["intercept"] + sum(self.clues[name] * clues[name] for name in CLUES)
        return 1.0 / (1.0 + math.exp(-max(log_odds, _LOWEST)))

    def contributions(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what each feature adds to the ranking sum, shaped as the features."""
        weights = np.array([self.weights[name] for name in FEATURES])
        parts: NDArray[np.float64] = features * weights
        return parts

    def confidence(self, evidence: Mapping[str, float]) -> dict[str, float]:
        """Return what each piece of evidence adds to the log-odds of the best candidate.

        Args:
            evidence: Value of each of `EVIDENCE`.

        Returns:
            Log-odds by piece of evidence, and the intercept as ``intercept``.
        """
        parts = {name: self.evidence[name] * evidence[name] for name in EVIDENCE}
        return parts | {"intercept": self.intercept}

    def lag_behind(self, evidence: Mapping[str, float]) -> float:
        """Return the lag that holds, between both by the share of the second channel."""
        return self.lag + (self.lag_multilingual - self.lag) * evidence["multilingual"]

    def scores(
        self, sums: NDArray[np.float64], evidence: Mapping[str, float]
    ) -> NDArray[np.float64]:
        """Return the probability of relevance of each candidate.

        Args:
            sums: Ranking sum of each candidate, float64.
            evidence: Value of each of `EVIDENCE`, for the candidate with the highest sum.

        Returns:
            Scores between 0 and 1, float64, in the order of the sums.
        """
        best = sum(self.confidence(evidence).values())
        behind = self.lag_behind(evidence) * (sums.max(initial=0.0) - sums)
        log_odds = np.maximum(best - behind, _LOWEST)
        probabilities: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-log_odds))
        return probabilities

    def channel_scores(
        self, features: NDArray[np.float64], channel: tuple[str, ...]
    ) -> NDArray[np.float64]:
        """Return the weighted mean of one channel's features, an uncalibrated score of 0 to 1."""
        weights = np.array([self.weights[name] if name in channel else 0.0 for name in FEATURES])
        means: NDArray[np.float64] = features @ weights / max(weights.sum(), 1e-12)
        return means

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {
            "weights": dict(self.weights),
            "evidence": dict(self.evidence),
            "intercept": self.intercept,
            "lag": self.lag,
            "lag_multilingual": self.lag_multilingual,
            "threshold": self.threshold,
            "clues": dict(self.clues),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, JsonValue]) -> Calibration:
        """Read the JSON form.

        Args:
            values: What `to_dict` gave; other keys are left alone, but for features that this
                version does not have and that weigh something.

        Returns:
            The calibration.

        Raises:
            ValueError: When a number is missing, not finite, too large, or has a sign that would
                let more evidence lower a score; when an unknown feature weighs something.
        """
        weights = _numbers(values, "weights", FEATURES)
        for name, value in values["weights"].items():
            if name not in weights and value:
                raise ValueError(f"{reprlib.repr(name)} is no feature of this version")
        evidence = _numbers(values, "evidence", EVIDENCE)
        single = _numbers(
            {"it": values}, "it", ("intercept", "lag", "lag_multilingual", "threshold")
        )
        clues = _numbers(values, "clues", (*CLUES, "intercept"))
        positive = [*weights.items(), *((name, evidence[name]) for name in SUPPORTING)]
        negated = [(name, -evidence[name]) for name in OPPOSING]
        lags = [(name, single[name]) for name in ("lag", "lag_multilingual")]
        for name, value in [*positive, *lags, *negated]:
            if value < 0:
                raise ValueError(f"{name!r} has the wrong sign")
        if not 0 <= single["threshold"] <= 1:
            raise ValueError(f"threshold is {single['threshold']}, not between 0 and 1")
        return cls(weights, evidence, **single, clues=clues)


def size_evidence(size: int) -> float:
    """Return the evidence that a number of documents is: its log2, between `SIZE_RANGE`."""
    smallest, largest = SIZE_RANGE
    return math.log2(min(max(size, smallest), largest))


def _numbers(
    values: Mapping[str, JsonValue], key: str, names: tuple[str, ...]
) -> Mapping[str, float]:
    """Read finite numbers by name."""
    table = values.get(key)
    if not isinstance(table, Mapping):
        raise ValueError(f"{key!r} is no table of numbers")
    numbers = {}
    for name in names:
        value: Any = table.get(name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and abs(value) <= _LARGEST):
            found = reprlib.repr(value)
            raise ValueError(f"{name!r} is {found}, not a number up to {_LARGEST:,.0f}")
        numbers[name] = float(value)
    return MappingProxyType(numbers)
