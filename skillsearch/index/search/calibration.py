"""Ranking features → an order of the candidates, and the probability that each fits.

Two steps, each a short sum. *Ranking*: non-negative weights times features put the candidates in
order. *Confidence*: the log-odds that the best one fits come from the evidence for it and from what
is known of query and corpus; the others' are lower by how far their ranking sum is behind the best.
So scores order candidates as the ranking does, and the best one says whether anything fits at all.
The numbers in use come from the file that ``scripts/fit_fusion.py`` wrote into the package.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.errors import ConfigError
from skillsearch.index.documents import DENSE_CHANNELS
from skillsearch.types import JsonValue

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Names = tuple[str, ...]
    Values = NDArray[np.float64]

# Order of the columns of every feature matrix.
# bm25_metadata, bm25_full: BM25 of the metadata, and of metadata and body together, as the share of
#     the query's maximum score, times the trust in the first dense channel.
# cosine_metadata: cosine similarity to the metadata, at least 0, times the same trust.
# NAME_multilingual: the same three by the second dense channel, times the trust in it: what the
#     trust in the first leaves if the index has a second, else 0.
# cosine_body_multilingual: cosine similarity to the head of the body, by the second channel alone.
# bm25_metadata_alone: BM25 of the metadata, times what both leave: all that speaks for a skill in a
#     script that no embedder of the index can read.
# name: 1 if the query is the skill's name, less for a near spelling of it.
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

DENSE_FEATURES = DENSE_CHANNELS[0] + DENSE_CHANNELS[1]
LEXICAL_FEATURES = tuple(name for name in FEATURES if name not in DENSE_FEATURES)

# Features of a query that tell whether the first of two channels knows its language.
# english, other_language: 1 if its words and letters tell that it is English, that it is not.
# other_letters: share of its letters that are not ASCII.
# overlap: share of the weight of its terms that the corpus knows.
LANGUAGE_FEATURES = ("english", "other_language", "other_letters", "overlap")

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
# Evidence that the confidence in the best candidate rests on.
# bm25_full, name, cosine_metadata, and the second channel's: its ranking features.
# bm25_known_alone: bm25_metadata_alone, but terms in a script that the corpus does not use are left
#     out of the maximum score: that a Korean word is unknown to an English corpus says nothing.
# rarest_term: idf of the rarest query term that occurs in it over the idf of a term in no document;
#     mean of metadata and full text, times the trust in the first channel.
# corpus_size: log2 of the number of documents, within `SIZE_RANGE`: the best of more skills that do
#     not fit comes closer by chance.
# distrust, multilingual: the share that no channel is trusted with, and the trust in the second;
#     they move the intercept and may have either sign.
EVIDENCE = (*SUPPORTING, *OPPOSING, "distrust", "multilingual")

# Corpus sizes between which the confidence falls; beyond them it was not seen to fall further.
SIZE_RANGE = (16, 256)

# Coefficients with their provenance: collections, date, measures.
PACKAGED = Path(__file__).with_name("calibration.json")
_MAX_BYTES = 1 << 20
# Larger coefficients are a mistake, and their sums might not be finite.
_LARGEST = 1e6
# Lower log-odds make no score above 0.
_LOWEST = -700.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """The fitted numbers of both steps; coefficients are log-odds per unit.

    The weights of the ranking features are not negative. The `lag` is what a candidate loses per
    unit that its ranking sum is behind the best; the second is for a best candidate that the second
    channel judges. `clues` has each of `LANGUAGE_FEATURES`, and ``intercept``.
    """

    weights: Mapping[str, float]
    evidence: Mapping[str, float]
    intercept: float
    lag: float
    lag_multilingual: float
    threshold: float
    clues: Mapping[str, float]

    def p_english(self, features: Mapping[str, float]) -> float:
        """Return how likely the first channel knows a query's language, by `LANGUAGE_FEATURES`."""
        told = sum(self.clues[name] * features[name] for name in LANGUAGE_FEATURES)
        log_odds = self.clues["intercept"] + told
        return 1.0 / (1.0 + math.exp(-max(log_odds, _LOWEST)))

    def contributions(self, features: Values) -> Values:
        """Return what each feature adds to the ranking sum, shaped as the features."""
        parts: Values = features * np.array([self.weights[one] for one in FEATURES])
        return parts

    def confidence(self, evidence: Mapping[str, float]) -> dict[str, float]:
        """Return the log-odds that each piece of evidence adds, and the ``intercept``."""
        parts = {name: self.evidence[name] * evidence[name] for name in EVIDENCE}
        return parts | {"intercept": self.intercept}

    def lag_for(self, evidence: Mapping[str, float]) -> float:
        """Return the lag in use, between both by the share of the second channel."""
        return self.lag + (self.lag_multilingual - self.lag) * evidence["multilingual"]

    def scores(self, sums: Values, evidence: Mapping[str, float]) -> Values:
        """Return the probability of relevance of each candidate; the evidence is for the best."""
        best = sum(self.confidence(evidence).values())
        behind = self.lag_for(evidence) * (sums.max(initial=0.0) - sums)
        log_odds = np.maximum(best - behind, _LOWEST)
        probabilities: Values = 1.0 / (1.0 + np.exp(-log_odds))
        return probabilities

    def channel_scores(self, features: Values, channel: Names) -> Values:
        """Return the weighted mean of one channel's features, an uncalibrated score of 0 to 1."""
        weights = np.array([self.weights[name] if name in channel else 0.0 for name in FEATURES])
        means: Values = features @ weights / max(weights.sum(), 1e-12)
        return means

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: dict(one) if isinstance(one, Mapping) else one for name, one in values}

    @classmethod
    def from_dict(cls, values: Mapping[str, JsonValue]) -> Calibration:
        """Read the JSON form; unknown keys are ignored, except features with a weight.

        A ValueError if a number is missing, not finite, too large, or has a sign that would let
        more evidence lower a score.
        """
        weights = _numbers(values, "weights", FEATURES, positive=FEATURES)
        for name, value in values["weights"].items():
            if name not in weights and value:
                raise ValueError(f"{reprlib.repr(name)} is not a feature of this version")
        lags = ("lag", "lag_multilingual")
        single = _numbers({"": values}, "", ("intercept", *lags, "threshold"), positive=lags)
        if not 0 <= single["threshold"] <= 1:
            raise ValueError(f"threshold is {single['threshold']}, not between 0 and 1")
        return cls(
            weights,
            _numbers(values, "evidence", EVIDENCE, positive=SUPPORTING, negative=OPPOSING),
            clues=_numbers(values, "clues", (*LANGUAGE_FEATURES, "intercept")),
            **single,
        )


@cache
def default_calibration() -> Calibration:
    """Return the calibration that comes with the package."""
    return load_calibration(PACKAGED)


def load_calibration(path: Path) -> Calibration:
    """Read a calibration; a ConfigError if the file cannot be read or does not hold one."""
    try:
        with path.open("rb") as file:
            values = json.loads(file.read(_MAX_BYTES))
        if not isinstance(values, dict):
            raise ValueError("it is not a JSON object")
        return Calibration.from_dict(values)
    except (OSError, ValueError, RecursionError) as exc:
        raise ConfigError(
            f"{path} holds no calibration that can be used: {exc}. "
            "Make one: python scripts/fit_fusion.py COLLECTION... --output FILE"
        ) from exc


def size_evidence(size: int) -> float:
    """Return the log2 of a number of documents, within `SIZE_RANGE`."""
    return math.log2(min(max(size, SIZE_RANGE[0]), SIZE_RANGE[1]))


def _numbers(
    values: Mapping[str, Any], key: str, names: Names, positive: Names = (), negative: Names = ()
) -> Mapping[str, float]:
    """Read a table of numbers, some of which must not be below or above 0."""
    table = values.get(key)
    if not isinstance(table, Mapping):
        raise ValueError(f"{key!r} is not a table of numbers")
    numbers = {}
    for name in names:
        value: Any = table.get(name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and abs(value) <= _LARGEST):
            found = reprlib.repr(value)
            raise ValueError(f"{name!r} is {found}, not a number up to {_LARGEST:,.0f}")
        if (value < 0 and name in positive) or (value > 0 and name in negative):
            raise ValueError(f"{name!r} has the wrong sign")
        numbers[name] = float(value)
    return MappingProxyType(numbers)
