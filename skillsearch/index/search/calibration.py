"""Ranking features → an order of the candidates, and the probability that each of them fits.

Two steps, each a short sum. *Ranking*: weights times features put the candidates in order.
*Confidence*: the log-odds that a hit fits come from the evidence for it: its own, and how it stands
beside the others. There are two of them, for hits that a reader has read and for others.
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
from typing import Any

import numpy as np

from skillsearch.errors import ConfigError
from skillsearch.index.documents import DENSE_CHANNELS
from skillsearch.index.storage.numbering import Values
from skillsearch.types import JsonValue

Names = tuple[str, ...]

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
# cosine_examples: by how much the cosine similarity to the mean of its example requests exceeds
#     that to the metadata, and `LEAST_OF_EXAMPLES`; their words count in both fields of BM25.
# has_examples: 1 if it has any: what they add to skills that nobody asks for; it opposes.
# excluded: share of the words by which query and skill exclude each other; it opposes.
# hubness: how far the skill is near whatever is asked, mostly 0; it opposes too.
FEATURES = (
    "bm25_metadata",
    "bm25_full",
    "bm25_metadata_alone",
    "name",
    "cosine_metadata",
    "cosine_examples",
    "bm25_metadata_multilingual",
    "bm25_full_multilingual",
    "cosine_metadata_multilingual",
    "cosine_body_multilingual",
    "excluded",
    "hubness",
    "has_examples",
)
AGAINST = ("excluded", "hubness", "has_examples")
# What counts even against a skill that the query names.
DESPITE_NAME = ("excluded", "hubness")
# Features that say by how much one measure exceeds another.
EXCEEDING = ("cosine_examples",)
# Less similar examples say nothing.
LEAST_OF_EXAMPLES = 0.4

DENSE_FEATURES = DENSE_CHANNELS[0] + DENSE_CHANNELS[1]
LEXICAL_FEATURES = tuple(name for name in FEATURES if name not in (*DENSE_FEATURES, *AGAINST))

# What the system bm25 ranks by, the same with any dense channels.
LEXICAL = ("bm25_metadata", "bm25_full", "name")

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
    "cosine_examples",
    "rarest_term",
    "stand_out",
    "lead",
    "bm25_full_multilingual",
    "cosine_metadata_multilingual",
    "stand_out_multilingual",
)
# Evidence that the confidence in a hit rests on.
# bm25_full, name, cosine_metadata, and the second channel's: its ranking features.
# bm25_known_alone: bm25_metadata_alone, but terms in a script that the corpus does not use are left
#     out of the maximum score: that a Korean word is unknown to an English corpus says nothing.
# rarest_term: idf of the rarest query term that occurs in it over the idf of a term in no document;
#     mean of metadata and full text, times the trust in the first channel.
# stand_out: how far its cosine is above the mean of those after the first few: many skills that
#     are as near say that none is meant.
# lead: how far its ranking sum is before the best other hit, negative if it is behind; within
#     `LEADS`.
# cosine_examples, excluded, hubness, has_examples: its ranking features; the last three count
#     against it.
# distrust, multilingual: the share that no channel is trusted with, and the trust in the second;
#     they move the intercept and may have either sign.
EVIDENCE = (*SUPPORTING, *AGAINST, "distrust", "multilingual")
# The log-odds of a reader: evidence of hits that it has read, and a ranking feature among these.
READER = "reader"
# Evidence against hits of roots that nobody vouched for, where somebody did for others; not fitted.
UNVETTED = "unvetted"
# What it takes from the sum that ranks, and from the log-odds of a hit. Honest skills of such roots
# lose .5 points of nDCG@10 by half a unit of the sum, and 2.8 by three quarters.
UNVETTED_IN_RANKING, UNVETTED_LOG_ODDS = 0.5, 1.0
LEADS = (-3.0, 3.0)
# Log-odds, before what counts against it, that a hit has at least if the query is its name: short
# or everyday words (`it`) are too little for the rest of the evidence, and for a reader.
NAMED = 3.0
# Places of the cosines that a hit has to stand out from, and what stands for missing ones.
BACKGROUND = (5, 25)
NO_COSINE = 0.15

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

    The weights of the ranking features, but for those `AGAINST`, and of the `reader` are not
    negative. `alone` and `read` have the coefficients of all `EVIDENCE` and the ``intercept``,
    `read` also that of `READER`.
    Hits fit from the `threshold` on. `clues` has each of `LANGUAGE_FEATURES`, and ``intercept``.
    """

    weights: Mapping[str, float]
    reader: float
    alone: Mapping[str, float]
    read: Mapping[str, float]
    threshold: float
    clues: Mapping[str, float]

    def p_english(self, features: Mapping[str, float]) -> float:
        """Return how likely the first channel knows a query's language, by `LANGUAGE_FEATURES`."""
        told = sum(self.clues[name] * features[name] for name in LANGUAGE_FEATURES)
        return probability(self.clues["intercept"] + told)

    def contributions(self, features: Values) -> Values:
        """Return what each feature adds to the ranking sum, shaped as the features."""
        parts: Values = features * np.array([self.weights[one] for one in FEATURES])
        return parts

    def confidence(self, evidence: Mapping[str, float]) -> dict[str, float]:
        """Return the log-odds that each piece of evidence adds, and the ``intercept``.

        The evidence is that of a hit, with `READER` if it was read, and `UNVETTED` if it is. A
        reader that speaks for a hit, with log-odds above 0, never takes from what it has `alone`:
        `read` knows nothing of hits that the first channel cannot judge.
        """
        alone = _parts(self.alone, evidence)
        if READER not in evidence:
            return alone
        read = _parts(self.read, evidence)
        is_less = sum(read.values()) < sum(alone.values())
        return alone if is_less and evidence[READER] > 0 else read

    def log_odds(self, evidence: Mapping[str, float]) -> float:
        """Return the log-odds that a hit fits, by the evidence for it."""
        return sum(self.confidence(evidence).values())

    def channel_scores(self, features: Values, channel: Names, columns: Names = FEATURES) -> Values:
        """Return the weighted mean of one channel's features, an uncalibrated score of 0 to 1.

        The `columns` are the names of the features that are given. What exceeds another feature
        has no share of its own.
        """
        weights = np.array([self.weights[name] if name in channel else 0.0 for name in columns])
        whole = sum(self.weights[name] for name in channel if name not in EXCEEDING)
        means: Values = features @ weights / max(whole, 1e-12)
        return np.minimum(means, 1.0)

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
        weights = _numbers(
            values, "weights", FEATURES, (*LEXICAL_FEATURES, *DENSE_FEATURES), AGAINST
        )
        for name, value in values["weights"].items():
            if name not in weights and value:
                raise ValueError(f"{reprlib.repr(name)} is not a feature of this version")
        names = ("threshold", READER)
        single = _numbers({"": values}, "", names, positive=names)
        if single["threshold"] > 1:
            raise ValueError(f"threshold is {single['threshold']}, not between 0 and 1")
        known = (*EVIDENCE, "intercept")
        return cls(
            weights,
            alone=_numbers(values, "alone", known, SUPPORTING, AGAINST),
            read=_numbers(values, "read", (*known, READER), (*SUPPORTING, READER), AGAINST),
            clues=_numbers(values, "clues", (*LANGUAGE_FEATURES, "intercept")),
            **single,
        )


def _parts(fit: Mapping[str, float], evidence: Mapping[str, float]) -> dict[str, float]:
    """Return what each piece of evidence adds by a fit, and the ``intercept``."""
    used = {READER: 0.0, UNVETTED: -UNVETTED_LOG_ODDS, **fit}
    parts = {name: used[name] * value for name, value in evidence.items()}
    parts["intercept"] = used["intercept"]
    if evidence["name"] >= 1:
        said = sum(part for name, part in parts.items() if name not in (*DESPITE_NAME, UNVETTED))
        parts["name"] += max(NAMED - said, 0.0)
    return parts


def probability(log_odds: float) -> float:
    """Return the probability of log-odds, above 0 whatever they are."""
    return 1.0 / (1.0 + math.exp(-max(log_odds, _LOWEST)))


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
