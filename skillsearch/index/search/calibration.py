"""Ranking features → an order of the candidates, and the probability that each of them fits.

Two steps, each a short sum. *Ranking*: weights times features put the candidates in order.
*Score*: the log-odds that a hit fits are a sum over the evidence for it: its own, and how it
compares with the other hits. There are two such sums, for hits that a reader has read and for
others.
``scripts/fit_fusion.py`` finds the numbers.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType

import numpy as np

from skillsearch.errors import UnusableError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.index.search.evidence import EVIDENCE, INTERCEPT, READER, UNVETTED
from skillsearch.index.search.features import FEATURES, Sign
from skillsearch.index.storage.numbering import Values
from skillsearch.types.json_values import Json, JsonObject, object_of

# What an unvetted root takes from the sum that ranks, and from the log-odds of a hit. Where half of
# the skills are of such roots, theirs lose 2 points of nDCG@10.
UNVETTED_IN_RANKING, UNVETTED_LOG_ODDS = 0.3, 1.0
# Log-odds, before what counts against it, that a hit has at least if the query is its name: short
# or everyday words (`it`) are too little for the rest of the evidence, and for a reader.
NAMED = 3.0
# Larger coefficients are a mistake, and their sums might not be finite.
_LARGEST = 1e6
# Lower log-odds make no score above 0.
_LOWEST = -700.0

_FEATURE_SIGNS: Mapping[str, Sign] = {name: row.sign for name, row in FEATURES.items()}
_EVIDENCE_SIGNS: Mapping[str, Sign] = {
    **{name: row.sign for name, row in EVIDENCE.items()},
    INTERCEPT: 0,
}


@dataclass(frozen=True, slots=True)
class Calibration:
    """The fitted numbers of both steps; coefficients are log-odds per unit.

    Attributes:
        weights: Of all `FEATURES`, in the sum that ranks.
        reader: Weight of what a reader says in that sum, not negative.
        alone: Coefficients of all `EVIDENCE`, and the ``intercept``.
        read: The same for hits that were read, also for `READER`.
        threshold: Hits fit from this probability on.
    """

    weights: Mapping[str, float]
    reader: float
    alone: Mapping[str, float]
    read: Mapping[str, float]
    threshold: float

    def contributions(self, features: Values) -> Values:
        """Return the part of each feature in the ranking sum, shaped as the features."""
        parts: Values = features * np.array([self.weights[name] for name in FEATURES])
        return parts

    def log_odds_parts(self, evidence: Mapping[str, float]) -> dict[str, float]:
        """Return the log-odds that each piece of evidence adds, and the ``intercept``.

        The evidence of a hit includes `READER` if it was read, and `UNVETTED` if its root is. A
        reader that speaks for a hit, with log-odds above 0, never lowers what `alone` gives it.
        """
        alone = _parts(self.alone, evidence)
        if READER not in evidence:
            return alone
        read = _parts(self.read, evidence)
        is_less = sum(read.values()) < sum(alone.values())
        return alone if is_less and evidence[READER] > 0 else read

    def log_odds(self, evidence: Mapping[str, float]) -> float:
        """Return the log-odds that a hit fits, by the evidence for it."""
        return sum(self.log_odds_parts(evidence).values())

    def channel_scores(
        self, features: Values, channel: Sequence[str], columns: Sequence[str] = tuple(FEATURES)
    ) -> Values:
        """Return the weighted mean of one channel's features, an uncalibrated score of 0 to 1.

        The `columns` are the names of the features that are passed. What exceeds another feature
        has no share of its own.
        """
        weights = np.array([self.weights[name] if name in channel else 0.0 for name in columns])
        whole = sum(self.weights[name] for name in channel if not FEATURES[name].is_excess)
        means: Values = features @ weights / max(whole, 1e-12)
        return np.minimum(means, 1.0)

    def to_dict(self) -> JsonObject:
        """Return the JSON form."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Json]) -> Calibration:
        """Read the JSON form; unknown keys are ignored, except features with a weight.

        An UnusableError if a number is missing, not finite, too large, or has a sign that would let
        more evidence lower a score.
        """
        weights = _numbers(values, "weights", _FEATURE_SIGNS)
        for name, value in object_of(values["weights"]).items():
            if name not in weights and value:
                raise UnusableError(f"{reprlib.repr(name)} is not a feature of this version")
        single = _numbers({"": values}, "", {"threshold": 1, READER: 1})
        if single["threshold"] > 1:
            raise UnusableError(f"threshold is {single['threshold']}, not between 0 and 1")
        alone = _numbers(values, "alone", _EVIDENCE_SIGNS)
        read = _numbers(values, "read", {**_EVIDENCE_SIGNS, READER: 1})
        return cls(weights, alone=alone, read=read, **single)


def _parts(fit: Mapping[str, float], evidence: Mapping[str, float]) -> dict[str, float]:
    """Return the part of each piece of evidence by a fit, and the ``intercept``."""
    fit = {READER: 0.0, UNVETTED: -UNVETTED_LOG_ODDS, **fit}
    parts = {name: fit[name] * value for name, value in evidence.items()}
    parts[INTERCEPT] = fit[INTERCEPT]
    if evidence["name"] >= 1:
        despite_name = {name for name, row in EVIDENCE.items() if row.counts_despite_name}
        rest = sum(part for name, part in parts.items() if name not in {*despite_name, UNVETTED})
        parts["name"] += max(NAMED - rest, 0.0)
    return parts


def probability(log_odds: float) -> float:
    """Return the probability of log-odds, above 0 whatever they are."""
    return 1.0 / (1.0 + math.exp(-max(log_odds, _LOWEST)))


def _numbers(
    values: Mapping[str, Json], key: str, signs: Mapping[str, Sign]
) -> Mapping[str, float]:
    """Read a table of numbers by name, each of its sign, or 0; of either if that is 0."""
    if not isinstance(table := values.get(key), Mapping):
        raise UnusableError(f"{key!r} is not a table of numbers")
    numbers = {}
    for name, sign in signs.items():
        value = table.get(name)
        is_bool = isinstance(value, bool)
        if is_bool or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
            text = reprlib.repr(value)
            raise UnusableError(f"{name!r} is {text}, not a number up to {_LARGEST:,.0f}")
        if sign * value < 0:
            raise UnusableError(f"{name!r} has the wrong sign")
        numbers[name] = float(value)
    return MappingProxyType(numbers)
