"""How likely a hit is right: a logistic fit of its evidence, and the scale of scores."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from fusion.answers import HITS, NO_HIT, Answers
from fusion.ranking import Matrix, ndcg_of
from fusion.samples import JUDGED, VARIANTS, Sample, family
from skillsearch.index.search.calibration import NAMED, Calibration
from skillsearch.index.search.evidence import EVIDENCE, INTERCEPT, READER
from skillsearch.index.search.reading import DOUBT

HIT_WEIGHTS = np.array([1.0] + [0.25] * 4 + [0.1] * 5)
"""What each hit weighs in the fit: the siblings of a right skill are often unjudged, and most
hits behind the first are wrong."""
SCALE_WEIGHTS = np.array([1.0] + [0.03] * 9)
"""Likewise for the scale: a score is first of all the share of first hits that are right. With 0 it
says too much of the others: their error is .11 then, not .09."""
TAUGHT = {
    "judged": 1.0,
    "dropped": 0.02,
    "twin": 1.0,
    "nothing": 1.0,
    "foreign": 1.0,
    "named": 0.05,
}
"""Weights of the kinds of query that teach how much each piece of evidence says, the same for each
collection. Where the right skills are dropped, siblings that nobody judged often fit."""
MIX = {**TAUGHT, "twin": 0.05, "nothing": 0.3, "foreign": 0.05}
"""The same for the scale and the intercept: shares of the requests that a score is a probability
for, whichever collections have them."""
MIXED = {**MIX, "foreign": 0.6}
"""Likewise for evidence that joins a scale that is given."""
MIXED_EXAMPLES = {**MIXED, "twin": 0.15}
"""Likewise for what examples say: they make twins look right, too."""
UNJUDGED = 0.2
"""Weight, where siblings are not judged, of hits that are wrong only for want of a judgment."""
SCALE_UNJUDGED = 0.7
"""The same for the scale. If every hit without a judgment is wrong there, scores are too low where
siblings were judged: their calibration error is .135 with 1 and .106 with .5. But more twins are
told to fit: 6.7 and 9.3 % (requests-0 and -1) with 1, 8.7 and 12 % with .5."""
READ_UNJUDGED = 0.1
"""Weight, in the fit of hits that were read, of collections whose siblings are not judged: a reader
is there to tell a right skill from its siblings. With 1 the AUROC of twins is .837, with this .849;
that of foreign queries .947 and .939, the calibration error .126 and .120."""
SIGNS = {name: row.sign for name, row in EVIDENCE.items()} | {READER: 1}
HELD = {name: row.held for name, row in EVIDENCE.items() if row.held is not None}
NOT_BESIDE_READER = ("lead",)
"""Evidence that says nothing of a hit that was read. A twin leads the other hits as much as its
original does; with it, twins of other collections are told apart worse (AUROC .853, not .871)."""
READER_WEIGHTS = tuple(step / 10 for step in range(41))
"""Ranking weights of the reader that are tried."""
_UNSURE = ("judged", "dropped")
_LEAST_SCALE = 0.05
"""Evidence never speaks against what it speaks for."""
_CONSTANT = 1e-6
"""Evidence that deviates less tells nothing."""


@dataclass(frozen=True, slots=True)
class ScoreCalibration:
    """From evidence to scores: coefficients for hits alone and read, and the reader's weight."""

    alone: Mapping[str, float]
    read: Mapping[str, float]
    reader: float

    def scores(
        self, answers: Answers, threshold: float = 0.0, *, with_reader: bool = True
    ) -> tuple[Matrix, NDArray[np.bool_]]:
        """Score the first hits of all samples as a search does; 0 for missing ones.

        Hits that reach the `threshold` come first, the likeliest before the others.

        Returns:
            Scores in the order of the answer, and which of the hits are relevant.
        """
        values = np.nan_to_num(answers.evidence)
        missing = np.isnan(answers.evidence[:, :, 0])
        alone = self._odds(self.alone, values)
        odds = np.where(missing, -NO_HIT, alone)
        relevant = answers.relevant
        if with_reader:
            best = expit(odds.max(axis=1))
            doubted = (best > DOUBT[0]) & (best < DOUBT[1]) & ~np.isnan(answers.logits).all(axis=1)
            logits = np.nan_to_num(answers.logits)
            read = self._odds(self.read, values, self.read[READER] * logits)
            read = np.where(logits > 0, np.maximum(alone, read), read)
            is_read = doubted[:, np.newaxis] & ~np.isnan(answers.logits)
            odds = np.where(is_read, read, odds)
            order = np.where(
                doubted[:, np.newaxis], answers.reordered(self.reader), np.arange(HITS)
            )
            odds = np.take_along_axis(odds, order, axis=1)
            relevant = np.take_along_axis(relevant, order, axis=1)
        own = np.where(odds > -NO_HIT / 2, expit(odds), 0.0)
        fitting = np.where((own > 0) & (own >= threshold), own, 0.0)
        order = np.argsort(-fitting, axis=1, kind="stable")
        own, relevant = (np.take_along_axis(values, order, axis=1) for values in (own, relevant))
        # A score above the one before it is cut down to it.
        return np.minimum.accumulate(own, axis=1), relevant

    @staticmethod
    def _odds(fit: Mapping[str, float], values: Matrix, more: Matrix | float = 0.0) -> Matrix:
        """Return the log-odds of evidence as `Calibration.log_odds` adds them up, and `more`."""
        parts = values * np.array([fit[name] for name in EVIDENCE])
        despite_name = [row.counts_despite_name for row in EVIDENCE.values()]
        against = parts[..., despite_name].sum(axis=-1)
        odds: Matrix = parts.sum(axis=-1) + fit[INTERCEPT] + more
        is_named = values[..., list(EVIDENCE).index("name")] >= 1
        odds[is_named] = np.maximum(odds, NAMED + against)[is_named]
        return odds


def fit_calibration(
    samples: Sequence[Sample],
    answers: Answers,
    seen: NDArray[np.bool_],
    left_out: Iterable[str] = (),
    first: Calibration | None = None,
    free: Sequence[str] = (),
) -> ScoreCalibration:
    """Fit the scores on the hits of the seen samples.

    Args:
        samples: All samples.
        answers: Their hits.
        seen: Which samples may be seen.
        left_out: Evidence that must not be used.
        first: A fit of which only the `free` evidence is to be fitted anew.
    """
    held = HELD | dict.fromkeys(left_out, 0.0)
    if first is not None:
        names = (*EVIDENCE, INTERCEPT)
        held |= {name: first.alone[name] for name in names if name not in free}
    alone = fit_hits(samples, answers, seen, held, mix=MIXED if first else None)
    if first is not None:
        fitted = {name: alone[name] for name in EVIDENCE if name in free}
        return ScoreCalibration(alone, {**first.read, **fitted}, first.reader)
    reader = fit_reader_weight(samples, answers, seen)
    held |= dict.fromkeys(NOT_BESIDE_READER, 0.0)
    return ScoreCalibration(alone, fit_hits(samples, answers, seen, held, reader), reader)


def fit_hits(
    samples: Sequence[Sample],
    answers: Answers,
    seen: NDArray[np.bool_],
    held: Mapping[str, float],
    reader: float | None = None,
    *,
    mix: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Fit one score on the hits that exist, or on those that were read.

    The latter if the ranking weight of a `reader` is given. It is fitted on a `mix` of requests,
    or else on what is `TAUGHT` and then brought to the scale of `MIX`, but for what is held.
    """
    names: tuple[str, ...] = tuple(EVIDENCE)
    present, evidence = ~np.isnan(answers.evidence[:, :, 0]), answers.evidence
    ranks = np.tile(np.arange(HITS), (len(samples), 1))
    if reader is not None:
        present, names = ~np.isnan(answers.logits), (*EVIDENCE, READER)
        evidence = np.concatenate([evidence, answers.logits[:, :, np.newaxis]], axis=2)
        ranks = np.argsort(answers.reordered(reader), axis=1)
    members = np.flatnonzero(seen & present.any(axis=1))
    if not len(members):
        return dict.fromkeys((*names, INTERCEPT), 0.0)
    some = [samples[member] for member in members.tolist()]
    rows, hits = np.nonzero(present[members])
    outcomes = answers.relevant[members][rows, hits].astype(float)
    by_rank, first = (by[ranks[members][rows, hits]] for by in (HIT_WEIGHTS, SCALE_WEIGHTS))
    values = evidence[members][rows, hits]
    if mix is not None:
        mixed = sample_weights(some, mix)[rows] * first
        return fit_logistic(values, outcomes, mixed, names, held)
    is_judged = np.array([family(sample.collection) in JUDGED for sample in some])
    is_unsure = np.array([sample.kind in _UNSURE for sample in some])
    # Wrong only for want of a judgment, as far as is known.
    is_open = (is_unsure & ~is_judged)[rows] & (outcomes == 0)
    taught = sample_weights(some, TAUGHT)[rows] * by_rank * np.where(is_open, UNJUDGED, 1.0)
    if reader is not None:
        taught *= np.where(is_judged[rows], 1.0, READ_UNJUDGED)
    fitted = fit_logistic(values, outcomes, taught, names, held)
    odds = values @ np.array([fitted[name] for name in names]) + fitted[INTERCEPT]
    shares = shared_weights(some, MIX)[rows] * first * np.where(is_open, SCALE_UNJUDGED, 1.0)
    slope, shift = fit_scale(odds, outcomes, shares)
    scaled = {name: slope * value for name, value in fitted.items()}
    scaled[INTERCEPT] += shift
    return {**scaled, **held}


def sample_weights(samples: Sequence[Sample], mix: Mapping[str, float]) -> Matrix:
    """Weigh samples so that collections, and in each the kinds, count as `VARIANTS` and a mix."""
    counts: dict[tuple[str, str, str], int] = {}
    for sample in samples:
        key = (sample.collection, sample.variant, sample.kind)
        counts[key] = counts.get(key, 0) + 1
    weights = [
        mix[s.kind] * VARIANTS[s.variant].weight / counts[s.collection, s.variant, s.kind]
        for s in samples
    ]
    return np.array(weights) / sum(weights) * 2000.0


def shared_weights(samples: Sequence[Sample], mix: Mapping[str, float]) -> Matrix:
    """Weigh samples likewise, but each kind by its share of the mix, in however few collections.

    Else requests that nothing fits, which one collection has, would hardly count for the scale.
    """
    weights = sample_weights(samples, mix)
    kinds = np.array([sample.kind for sample in samples])
    for kind in {*kinds.tolist()}:
        weights[kinds == kind] /= len({s.collection for s in samples if s.kind == kind})
    shares: Matrix = weights / weights.sum()
    return shares * 2000.0


def fit_logistic(
    rows: Matrix,
    outcomes: Matrix,
    weights: Matrix,
    names: Sequence[str] = tuple(EVIDENCE),
    held: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, float]:
    """Fit log-odds as a sum of evidence with the signs that `Calibration` asks for.

    Args:
        rows: Evidence, a column for each of the `names`.
        outcomes: 1 if the hit is relevant, else 0.
        weights: Weight of each row.
        names: What the columns are.
        held: Coefficients that are given, by name; 0 leaves evidence out.

    Returns:
        A coefficient for each name and the ``intercept``. Columns are held to unit deviation under
        a light ridge.
    """
    deviation = np.where(rows.std(axis=0) > _CONSTANT, rows.std(axis=0), 1.0)
    scaled = np.c_[rows / deviation, np.ones(len(rows))]

    def loss(values: Matrix) -> tuple[float, Matrix]:
        odds = scaled @ values
        probability = expit(odds)
        ridge = np.r_[values[:-1], 0.0]
        likelihood = np.logaddexp(0.0, odds) - outcomes * odds
        gradient = scaled.T @ (weights * (probability - outcomes)) + ridge
        return float((weights * likelihood).sum() + (ridge**2).sum() / 2), gradient

    bounds: list[tuple[float | None, float | None]] = []
    for name, scale in zip([*names, INTERCEPT], [*deviation.tolist(), 1.0], strict=True):
        sign = SIGNS.get(name, 0)
        low, high = 0.0 if sign > 0 else None, 0.0 if sign < 0 else None
        bounds.append((held[name] * scale,) * 2 if name in held else (low, high))
    start = np.array([low or 0.0 for low, _ in bounds])
    best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    values = [*(best[:-1] / deviation).tolist(), float(best[-1])]
    return dict(zip([*names, INTERCEPT], values, strict=True))


def fit_scale(odds: Matrix, outcomes: Matrix, weights: Matrix) -> tuple[float, float]:
    """Return the factor and the shift that make log-odds fit outcomes (Platt, 1999)."""

    def loss(values: Matrix) -> tuple[float, Matrix]:
        scaled = values[0] * odds + values[1]
        likelihood = np.logaddexp(0.0, scaled) - outcomes * scaled
        wrong = weights * (expit(scaled) - outcomes)
        return float((weights * likelihood).sum()), np.array([wrong @ odds, wrong.sum()])

    bounds = [(_LEAST_SCALE, None), (None, None)]
    slope, shift = minimize(loss, (1.0, 0.0), jac=True, method="L-BFGS-B", bounds=bounds).x
    return float(slope), float(shift)


def fit_reader_weight(
    samples: Sequence[Sample], answers: Answers, seen: NDArray[np.bool_]
) -> float:
    """Return the ranking weight of the reader with the highest mean nDCG@10, 0 without reading."""
    names = np.array([s.collection if s.is_whole("judged") else "" for s in samples])
    is_read = seen & ~np.isnan(answers.logits).all(axis=1) & (names != "")
    best = (0.0, 0.0)
    for weight in READER_WEIGHTS if is_read.any() else ():
        order = answers.reordered(weight)
        ndcg = ndcg_of(samples, np.take_along_axis(answers.relevant, order, axis=1))
        value = statistics.mean(
            float(ndcg[is_read & (names == name)].mean()) for name in {*names[is_read].tolist()}
        )
        best = max(best, (value, -weight))
    return -best[1]
