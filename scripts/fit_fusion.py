"""Fit the calibrated score on judged collections and write its coefficients into the package.

Usage: python scripts/fit_fusion.py COLLECTION... [--work DIR] [--output FILE]
       [--reader FOLDER --unseen NAME[:HALF]...]
       python scripts/fit_fusion.py --packaged --only FEATURE

To add a feature, write a row in ``index/search/features.py`` (and one in ``evidence.py`` if it is
to move the score of a hit), give it 0 in ``calibration.json``, and run the second form: it fits the
feature on the collections of the package and holds all other numbers.

The queries of ``scripts/cross_language`` are asked as well: our own, in 17 languages, over
documents of the collections, and three small collections in Spanish, Russian and Chinese. Last
comes what example requests say (``--examples``), on the collections whose skills have them, all of
them and half of them; ``--examples-alone`` fits nothing else.

Ranking weights are found by coordinate ascent on nDCG@10 (Metzler and Croft, 2007); the confidence
in each of the first hits by logistic regression with signs held and then its scale (Platt, 1999),
once by what a search always knows, and once with what a reader says. FOLDER holds a reader that was
trained without the collections named as unseen: the coefficients of the reader are fitted and
measured on these alone. Of ``NAME:HALF`` only every other repository counts. What is printed was
predicted for each collection by coefficients fitted without it and without its family, so it says
what a new collection can expect; the coefficients written are fitted on all.

Five kinds of query teach the confidence: judged ones, the same with the right skills hidden
(dropped gold), twins, others that nothing fits, and queries of foreign collections. So that neither
the length nor the number of skills matters, every collection also takes part in variants: one line
a skill, few skills.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import statistics
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from bench_measures import save_report
from fusion_samples import (
    JUDGED,
    QUERIES,
    VARIANTS,
    Sample,
    Sampler,
    cross_language,
    family,
    with_examples,
)
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from skillsearch import evaluation
from skillsearch.embedders.model_files import sha256_of
from skillsearch.evaluation.assess import auroc, expected_calibration_error, means
from skillsearch.evaluation.collection import load_collection
from skillsearch.evaluation.style import FEWEST, style_auroc
from skillsearch.evaluation.types import Collection, JudgedQuery
from skillsearch.index.search.calibration import NAMED, Calibration
from skillsearch.index.search.calibration_file import PACKAGED, load_calibration
from skillsearch.index.search.evidence import EVIDENCE, INTERCEPT, READER, leads
from skillsearch.index.search.features import FEATURES, features_of
from skillsearch.index.search.ranker import best_first
from skillsearch.index.search.reading import DOUBT, READ_MOST, can_read, shown_of
from skillsearch.readers.reader import load_reader
from skillsearch.text.states import BOUNDS, count_shown

Matrix = NDArray[np.float64]

HITS = 10
"""First hits of an answer, which are judged."""
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
FALSE_ANSWERS = {"foreign": 0.04, "twin": 0.08}
"""Share of the queries of a kind that the default threshold may answer, mean over collections."""
AGAINST = tuple(name for name, row in FEATURES.items() if row.sign < 0)
LEXICAL_FEATURES, DENSE_FEATURES = features_of("words"), features_of("dense")
SIGNS = {name: row.sign for name, row in EVIDENCE.items()} | {READER: 1}
HELD = {name: row.held for name, row in EVIDENCE.items() if row.held is not None}
NOT_BESIDE_READER = ("lead",)
"""Evidence that says nothing of a hit that was read. A twin leads the other hits as much as its
original does; with it, twins of other collections are told apart worse (AUROC .853, not .871)."""
READER_WEIGHTS = tuple(step / 10 for step in range(41))
"""Ranking weights of the reader that are tried."""
START = {name: row.sign * row.start for name, row in FEATURES.items()}
"""Where the ascent begins."""
EXAMPLES = frozenset({"cosine_examples", "has_examples"})
"""Evidence of example requests. In the ranking, an example weighs as a description does; what
opposes is chosen so that skills without any, where half have some, lose a point of nDCG@10."""
CROSS_LANGUAGE = Path(__file__).with_name("cross_language")
PACKAGED_COLLECTIONS = tuple(
    Path(evaluation.__file__).with_name(name) for name in ("example", "written")
)
UNANSWERABLE = ("dropped", "twin", "nothing", "foreign")
_UNSURE = ("judged", "dropped")
_LEAST_SCALE = 0.05
"""Evidence never speaks against what it speaks for."""
_NO_HIT = 1e9
_CONSTANT = 1e-6
"""Evidence that deviates less tells nothing."""
DISCOUNTS = 1.0 / np.log2(np.arange(2, 12))


class RankingData:
    """The judged samples of one collection as one block of numbers."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        """Pad the candidates of all samples to one length."""
        width = max(len(sample.relevant) for sample in samples)
        self.features = np.zeros((len(samples), width, len(FEATURES)))
        self.gains = np.zeros((len(samples), width))
        self.missing = np.ones((len(samples), width), bool)
        for row, sample in enumerate(samples):
            size = len(sample.relevant)
            self.features[row, :size] = sample.candidates.features
            self.gains[row, :size] = sample.relevant
            self.missing[row, :size] = False
        best = np.cumsum(DISCOUNTS)
        self.ideal = np.array([best[min(max(s.judged, 1), 10) - 1] for s in samples])

    def ndcg(self, weights: Matrix) -> float:
        """Return the mean nDCG@10 of an order by weighted sum."""
        sums = self.features @ weights
        sums[self.missing] = -np.inf
        order = np.argsort(-sums, axis=1, kind="stable")[:, :10]
        gains = np.take_along_axis(self.gains, order, axis=1)
        return float(((gains * DISCOUNTS[: gains.shape[1]]).sum(axis=1) / self.ideal).mean())


def channel(weights: Matrix, names: Iterable[str]) -> Matrix:
    """Return the weights with all other features set to 0."""
    return np.array([w if f in names else 0.0 for f, w in zip(FEATURES, weights, strict=True)])


def goodness(data: Sequence[RankingData], weights: Matrix) -> float:
    """Return the mean nDCG@10 over collections, less what any loses against its better half."""
    total = 0.0
    for block in data:
        value = block.ndcg(weights)
        single = max(
            block.ndcg(channel(weights, LEXICAL_FEATURES)),
            block.ndcg(channel(weights, DENSE_FEATURES)),
        )
        total += value - max(single - value, 0.0)
    return total / len(data)


def fit_ranking(
    data: Sequence[RankingData],
    fixed: Iterable[str] = (),
    first: Calibration | None = None,
    free: Sequence[str] = (),
) -> Matrix:
    """Find ranking weights by coordinate ascent.

    Args:
        data: One block a collection; each counts the same.
        fixed: Features whose weight stays 0.
        first: A fit of which only the `free` features are to be fitted anew.

    Returns:
        One weight per feature; those of metadata, names, examples and what opposes stay the first.
    """
    held = (
        {"bm25_metadata", "name", "cosine_metadata", "cosine_examples", *AGAINST}
        if first is None
        else set(FEATURES) - {*free}
    )
    start = START if first is None else {**START, **{n: first.weights[n] for n in held}}
    held.update(fixed)
    weights = np.array([0.0 if name in fixed else start[name] for name in FEATURES])
    best, step = goodness(data, weights), 1.5
    while step > 1.05:
        moved = False
        for place, name in enumerate(FEATURES):
            # A weight that fell to 0 may come back.
            for value in (weights[place] * step, weights[place] / step, 0.0, start[name]):
                tried = weights.copy()
                tried[place] = value
                if name in held or (found := goodness(data, tried)) <= best + 1e-5:
                    continue
                best, weights, moved = found, tried, True
        if not moved:
            step = 1 + (step - 1) / 2
    return weights


@dataclass(frozen=True, slots=True)
class Answers:
    """All samples under one set of ranking weights, one row each, and a column for each hit.

    Attributes:
        evidence: Evidence for each of the first `HITS` hits, columns as in `EVIDENCE`; NaN for
            missing ones.
        sums: Their ranking sums, the highest first.
        relevant: Which of these hits are relevant.
        logits: What the reader says of the first hits; NaN for those that it has not read.
    """

    evidence: Matrix
    sums: Matrix
    relevant: NDArray[np.bool_]
    logits: Matrix

    @classmethod
    def of(cls, samples: Sequence[Sample], weights: Matrix, logits: Logits | None) -> Answers:
        """Rank the candidates of every sample."""
        shape = (len(samples), HITS)
        answers = cls(
            np.full((*shape, len(EVIDENCE)), np.nan),
            np.full(shape, -_NO_HIT),
            np.zeros(shape, bool),
            np.full(shape, np.nan),
        )
        lead = list(EVIDENCE).index("lead")
        for row, sample in enumerate(samples):
            found = sample.candidates
            sums = found.features @ weights
            order = best_first(sums, found.documents)[:HITS]
            size = len(order)
            answers.evidence[row, :size] = sample.evidence(order.tolist())
            answers.evidence[row, :size, lead] = leads(sums[order])
            answers.sums[row, :size] = sums[order]
            answers.relevant[row, :size] = sample.relevant[order]
            if logits is not None:
                read = logits.of(sample, order[:READ_MOST].tolist())
                answers.logits[row, : len(read)] = read
        return answers

    def reordered(self, weight: float) -> NDArray[np.int64]:
        """Return the place of each hit after reading, (samples, `HITS`)."""
        is_read = ~np.isnan(self.logits)
        sums = self.sums + weight * np.nan_to_num(self.logits)
        # First those that were read, best first; beside them the places that they had.
        best = np.argsort(np.where(is_read, -sums, np.inf), axis=1, kind="stable")
        places = np.argsort(~is_read, axis=1, kind="stable")
        order = np.empty_like(best)
        np.put_along_axis(order, places, best, axis=1)
        return order


class Logits:
    """What a reader says of queries that it was trained without; kept in a file."""

    def __init__(self, folder: Path, queries: Mapping[str, Container[str]], work: Path) -> None:
        """Load the reader, for queries by collection, and what it said before."""
        self._reader = load_reader(str(folder))
        digest = sha256_of(folder / "reader.onnx_data")
        self.queries = queries
        self._path = work / f"logits-{digest[:16]}.json"
        self._known: dict[str, float] = {}
        if self._path.is_file():
            self._known = json.loads(self._path.read_text(encoding="utf-8"))

    def of(self, sample: Sample, rows: Sequence[int]) -> list[float]:
        """Return the logits of the candidates in some rows, none if they are not to be read."""
        unseen = self.queries.get(sample.collection)
        if unseen is None or sample.variant != "whole":
            return []
        if sample.asked and sample.asked.query_id not in unseen:
            return []
        texts = {}
        for row in rows:
            if row not in sample.read:
                document = sample.corpus.documents[int(sample.candidates.documents[row])]
                if can_read(document, sample.query):
                    texts[row] = shown_of(document, sample.query)
                else:
                    sample.read[row] = math.nan
        asked = sample.query.request
        keys = {
            row: sha256(f"{asked}\0{text}".encode()).hexdigest()[:24] for row, text in texts.items()
        }
        wanted = {key: texts[row] for row, key in keys.items() if key not in self._known}
        if wanted:
            read = self._reader.read(asked, list(wanted.values()))
            self._known.update(zip(wanted, read.tolist(), strict=True))
        sample.read.update((row, self._known[key]) for row, key in keys.items())
        return [sample.read[row] for row in rows]

    def save(self) -> None:
        """Keep what was read."""
        self._path.write_text(json.dumps(self._known), encoding="utf-8")


def unseen_queries(
    collections: Sequence[Collection], names: Sequence[str]
) -> dict[str, Container[str]]:
    """Return the ids of queries that a reader was trained without, by collection.

    Of ``NAME:HALF`` they are those of every other repository, as `train_reader` leaves them out.
    """
    halves = {name.partition(":")[0]: name.partition(":")[2] for name in names}
    found: dict[str, Container[str]] = {}
    for one in collections:
        if one.name not in halves:
            continue
        ids = {query.query_id for query in (*one.queries, *one.negatives)}
        if half := halves[one.name]:
            homes = sorted({document.doc_id.partition("/")[0] for document in one.documents})
            kept = set(homes[int(half) :: 2])
            ids = {each for each in ids if each.partition("/")[0] in kept}
        found[one.name] = ids
    return found


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
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    values = [*(found[:-1] / deviation).tolist(), float(found[-1])]
    return dict(zip([*names, INTERCEPT], values, strict=True))


@dataclass(frozen=True, slots=True)
class Confidence:
    """The second step: coefficients for hits alone and read, and the reader's ranking weight."""

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
        odds = np.where(missing, -_NO_HIT, alone)
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
        own = np.where(odds > -_NO_HIT / 2, expit(odds), 0.0)
        fitting = np.where((own > 0) & (own >= threshold), own, 0.0)
        order = np.argsort(-fitting, axis=1, kind="stable")
        own, relevant = (np.take_along_axis(one, order, axis=1) for one in (own, relevant))
        # A score above the one before it is cut down to it.
        return np.minimum.accumulate(own, axis=1), relevant

    @staticmethod
    def _odds(fit: Mapping[str, float], values: Matrix, more: Matrix | float = 0.0) -> Matrix:
        """Return the log-odds of evidence as `Calibration.confidence` adds them up, and `more`."""
        parts = values * np.array([fit[name] for name in EVIDENCE])
        despite_name = [row.counts_despite_name for row in EVIDENCE.values()]
        against = parts[..., despite_name].sum(axis=-1)
        odds: Matrix = parts.sum(axis=-1) + fit[INTERCEPT] + more
        is_named = values[..., list(EVIDENCE).index("name")] >= 1
        odds[is_named] = np.maximum(odds, NAMED + against)[is_named]
        return odds


def fit_confidence(
    samples: Sequence[Sample],
    answers: Answers,
    known: NDArray[np.bool_],
    left_out: Iterable[str] = (),
    first: Calibration | None = None,
    free: Sequence[str] = (),
) -> Confidence:
    """Fit the second step on the hits of the known samples.

    Args:
        samples: All samples.
        answers: Their hits.
        known: Which samples may be seen.
        left_out: Evidence that must not be used.
        first: A fit of which only the `free` evidence is to be fitted anew.
    """
    held = HELD | dict.fromkeys(left_out, 0.0)
    if first is not None:
        kept = (*EVIDENCE, INTERCEPT)
        held |= {name: first.alone[name] for name in kept if name not in free}
    alone = _fit_hits(samples, answers, known, held, mix=MIXED if first else None)
    if first is not None:
        fitted = {name: alone[name] for name in EVIDENCE if name in free}
        return Confidence(alone, {**first.read, **fitted}, first.reader)
    reader = fit_reader_weight(samples, answers, known)
    held |= dict.fromkeys(NOT_BESIDE_READER, 0.0)
    return Confidence(alone, _fit_hits(samples, answers, known, held, reader), reader)


def _fit_hits(
    samples: Sequence[Sample],
    answers: Answers,
    known: NDArray[np.bool_],
    held: Mapping[str, float],
    reader: float | None = None,
    *,
    mix: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Fit one confidence on the hits that exist, or on those that were read.

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
    places = np.flatnonzero(known & present.any(axis=1))
    if not len(places):
        return dict.fromkeys((*names, INTERCEPT), 0.0)
    some = [samples[place] for place in places.tolist()]
    rows, hits = np.nonzero(present[places])
    outcomes = answers.relevant[places][rows, hits].astype(float)
    by_rank, first = (one[ranks[places][rows, hits]] for one in (HIT_WEIGHTS, SCALE_WEIGHTS))
    values = evidence[places][rows, hits]
    if mix is not None:
        mixed = sample_weights(some, mix)[rows] * first
        return fit_logistic(values, outcomes, mixed, names, held)
    taught = sample_weights(some, TAUGHT)[rows] * by_rank
    is_open = np.array([s.kind in _UNSURE and family(s.collection) not in JUDGED for s in some])
    taught *= np.where(is_open[rows] & (outcomes == 0), UNJUDGED, 1.0)
    if reader is not None:
        is_judged = np.array([family(s.collection) in JUDGED for s in some])
        taught *= np.where(is_judged[rows], 1.0, READ_UNJUDGED)
    found = fit_logistic(values, outcomes, taught, names, held)
    odds = values @ np.array([found[name] for name in names]) + found[INTERCEPT]
    shares = shared_weights(some, MIX)[rows] * first
    shares *= np.where(is_open[rows] & (outcomes == 0), SCALE_UNJUDGED, 1.0)
    slope, shift = fit_scale(odds, outcomes, shares)
    scaled = {name: slope * value for name, value in found.items()}
    scaled[INTERCEPT] += shift
    return {**scaled, **held}


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
    samples: Sequence[Sample], answers: Answers, known: NDArray[np.bool_]
) -> float:
    """Return the ranking weight of the reader with the highest mean nDCG@10, 0 without reading."""
    names = np.array([s.collection if _is(s, "judged") else "" for s in samples])
    is_read = known & ~np.isnan(answers.logits).all(axis=1) & (names != "")
    best = (0.0, 0.0)
    for weight in READER_WEIGHTS if is_read.any() else ():
        order = answers.reordered(weight)
        found = _ndcg(samples, np.take_along_axis(answers.relevant, order, axis=1))
        value = statistics.mean(
            float(found[is_read & (names == name)].mean()) for name in {*names[is_read].tolist()}
        )
        best = max(best, (value, -weight))
    return -best[1]


def hit_error(scores: Matrix, relevant: NDArray[np.bool_]) -> float:
    """Return the expected calibration error over all first hits of some answers."""
    is_hit = scores > 0
    outcomes = relevant[is_hit].astype(float).tolist()
    return expected_calibration_error(scores[is_hit].tolist(), outcomes)[0]


def _is(sample: Sample, kind: str) -> bool:
    """Return whether a sample is of a kind, in a whole collection."""
    return sample.kind == kind and sample.variant == "whole"


def blocks(samples: Sequence[Sample], known: NDArray[np.bool_]) -> dict[str, RankingData]:
    """Gather the known judged samples of whole collections, by collection."""
    groups: dict[str, list[Sample]] = {}
    for sample, is_known in zip(samples, known, strict=True):
        if is_known and _is(sample, "judged"):
            groups.setdefault(sample.collection, []).append(sample)
    return {name: RankingData(group) for name, group in groups.items()}


@dataclass(frozen=True, slots=True)
class Fold:
    """One family of collections, and a ranking that was fitted without it.

    Attributes:
        held: Which samples belong to its whole collections.
        known: Which samples have nothing to do with it.
        data: Its judged samples, by collection.
        weights: Ranking weights fitted on the known samples.
        answers: All samples under these weights.
    """

    held: NDArray[np.bool_]
    known: NDArray[np.bool_]
    data: Mapping[str, RankingData]
    weights: Matrix
    answers: Answers


def make_folds(
    samples: Sequence[Sample],
    first: Calibration | None = None,
    logits: Logits | None = None,
    free: Sequence[str] = (),
) -> list[Fold]:
    """Fit a ranking without each family in turn."""
    folds = []
    for name in sorted({family(sample.collection) for sample in samples}):
        known = np.array([name not in (family(s.collection), family(s.source)) for s in samples])
        held = np.array([family(s.collection) == name and s.variant == "whole" for s in samples])
        weights = fit_ranking(list(blocks(samples, known).values()), (), first, free)
        answers = Answers.of(samples, weights, logits)
        if logits is not None:
            logits.save()
        folds.append(Fold(held, known, blocks(samples, held), weights, answers))
    return folds


@dataclass(frozen=True, slots=True)
class Predicted:
    """Scores of the first hits, which are relevant, and the nDCG@10; a row for each sample."""

    scores: Matrix
    relevant: NDArray[np.bool_]
    ndcg: Matrix

    @classmethod
    def empty(cls, size: int) -> Predicted:
        """Return room for so many samples."""
        return cls(np.zeros((size, HITS)), np.zeros((size, HITS), bool), np.zeros(size))


def predict(
    samples: Sequence[Sample],
    folds: Sequence[Fold],
    left_out: Iterable[str] = (),
    first: Calibration | None = None,
    *,
    threshold: float = 0.0,
    with_reader: bool = True,
    free: Sequence[str] = (),
) -> Predicted:
    """Score the whole collections, each by a confidence that saw nothing of its family."""
    found = Predicted.empty(len(samples))
    for fold in folds:
        confidence = fit_confidence(samples, fold.answers, fold.known, left_out, first, free)
        scores, relevant = confidence.scores(fold.answers, threshold, with_reader=with_reader)
        found.scores[fold.held], found.relevant[fold.held] = scores[fold.held], relevant[fold.held]
        found.ndcg[fold.held] = _ndcg(samples, relevant)[fold.held]
    return found


def _ndcg(samples: Sequence[Sample], relevant: NDArray[np.bool_]) -> Matrix:
    best = np.cumsum(DISCOUNTS)
    ideal = np.array([best[min(max(s.judged, 1), 10) - 1] for s in samples])
    values: Matrix = relevant @ DISCOUNTS / ideal
    return values


def ranking_measures(data: RankingData, weights: Matrix) -> dict[str, float | None]:
    """Measure the ranking of one collection against words and vectors alone, nDCG@10."""
    return {
        "hybrid": data.ndcg(weights),
        "bm25": data.ndcg(channel(weights, LEXICAL_FEATURES)),
        "dense": data.ndcg(channel(weights, DENSE_FEATURES)),
    }


def confidence_measures(
    samples: Sequence[Sample], found: Predicted, name: str, threshold: float
) -> dict[str, float | None]:
    """Measure the scores of one collection."""
    rows = {
        kind: np.array([_is(s, kind) and s.collection == name for s in samples])
        for kind in ("judged", *UNANSWERABLE)
    }
    tops = {kind: found.scores[mask][:, 0] for kind, mask in rows.items()}
    hits, right = found.scores[rows["judged"]], found.relevant[rows["judged"]]
    best = np.where(right, hits, 0.0).max(axis=1)
    values: dict[str, float | None] = {
        "read": float(found.ndcg[rows["judged"]].mean()),
        "ece first": expected_calibration_error(tops["judged"], right[:, 0].tolist())[0],
        "ece hits": hit_error(hits, right),
        "kept": float((best >= threshold).mean()),
    }
    ranked = [pair for pair in zip(hits.tolist(), right, strict=True) if pair[1].any()]
    for face, bound in BOUNDS.items():
        counts = [count_shown(scores, threshold, bound)[1] for scores, _ in ranked]
        named = [one[:count].any() for count, (_, one) in zip(counts, ranked, strict=True)]
        values[f"shown {face}"] = float(np.mean(named)) if named else None
        silent = tops["foreign"] < bound
        values[f"none {face}"] = float(silent.mean()) if len(silent) else None
    for kind in UNANSWERABLE:
        some = tops[kind]
        values[f"auroc {kind}"] = auroc(tops["judged"], some) if len(some) else None
        values[f"{kind} answered"] = float((some >= threshold).mean()) if len(some) else None
    return values


Table = dict[str, dict[str, float | None]]


def measure(
    samples: Sequence[Sample],
    weights: Mapping[str, tuple[RankingData, Matrix]],
    found: Predicted,
    threshold: float,
) -> Table:
    """Measure every collection."""
    return {
        name: ranking_measures(data, used) | confidence_measures(samples, found, name, threshold)
        for name, (data, used) in weights.items()
    }


def by_collection(
    samples: Sequence[Sample],
    values: NDArray[Any],
    kind: str,
    among: Container[str] | None = None,
) -> list[NDArray[Any]]:
    """Return the rows of the samples of a kind, those of each collection together.

    `among` are the collections that count, by default all.
    """
    names = np.array([s.collection if _is(s, kind) else "" for s in samples])
    wanted = sorted(name for name in {*names.tolist()} - {""} if among is None or name in among)
    return [values[names == name] for name in wanted]


def choose_threshold(
    samples: Sequence[Sample], found: Predicted, among: Container[str] | None = None
) -> float:
    """Return the lowest threshold, in steps of 0.01, with at most `FALSE_ANSWERS`.

    Twins that differ in a version or a direction alone do not count: they were all written to be as
    hard as can be, and people ask few like them.
    """
    is_counted = [
        s.asked is None or (s.kind, s.asked.kind) != ("twin", "contrast") for s in samples
    ]
    counted = [s for s, counts in zip(samples, is_counted, strict=True) if counts]
    scores = found.scores[is_counted, 0]
    tops = {kind: by_collection(counted, scores, kind, among) for kind in FALSE_ANSWERS}

    def is_enough(threshold: float) -> bool:
        return all(
            statistics.mean(float((one >= threshold).mean()) for one in tops[kind]) <= most
            for kind, most in FALSE_ANSWERS.items()
            if tops[kind]
        )

    return next((step / 100 for step in range(1, 100) if is_enough(step / 100)), 0.99)


def print_table(title: str, table: Table) -> None:
    """Print one line a collection, then the means."""
    rows: Mapping[str, Mapping[str, float | None]] = {**table, "mean": {**means(table.values())}}
    names = list(rows["mean"])
    print(f"\n{title:24}", *(f"{name:>16}" for name in names))
    for label, row in rows.items():
        cells = (f"{'-':>16}" if row[name] is None else f"{row[name]:16.3f}" for name in names)
        print(f"{label:24}", *cells, flush=True)


def measure_kinds(samples: Sequence[Sample], found: Predicted) -> dict[str, dict[str, float]]:
    """Return the AUROC of each kind of request with twins, and that of style alone.

    Means over the collections that have enough of the kind.
    """
    with_twins = {s.collection for s in samples if s.kind == "twin"}
    tops: dict[tuple[str, str, str], list[tuple[JudgedQuery, float]]] = {}
    for sample, score in zip(samples, found.scores[:, 0].tolist(), strict=True):
        if sample.asked and sample.variant == "whole" and sample.collection in with_twins:
            key = (sample.asked.kind, sample.collection, sample.kind)
            tops.setdefault(key, []).append((sample.asked, score))
    values: dict[str, dict[str, list[float]]] = {}
    for (kind, collection, source), some in sorted(tops.items()):
        judged = tops.get((kind, collection, "judged"), [])
        if source == "judged" or min(len(some), len(judged)) < FEWEST:
            continue
        row = values.setdefault(kind, {})
        scores = [np.array([score for _, score in each]) for each in (judged, some)]
        row.setdefault(f"auroc {source}", []).append(auroc(*scores))
        if source == "twin":
            requests = [[query for query, _ in each] for each in (judged, some)]
            row.setdefault("style twin", []).append(style_auroc(*requests))
    return {
        kind: {name: statistics.mean(each) for name, each in row.items()}
        for kind, row in values.items()
    }


def print_kinds(kinds: Mapping[str, Mapping[str, float]]) -> None:
    """Print one line a kind of request."""
    names = sorted({name for row in kinds.values() for name in row})
    print(f"\n{'kind of request':24}", *(f"{name:>16}" for name in names))
    for kind, row in kinds.items():
        cells = (f"{row[name]:16.3f}" if name in row else f"{'-':>16}" for name in names)
        print(f"{kind:24}", *cells, flush=True)


def print_ablation(
    samples: Sequence[Sample],
    folds: Sequence[Fold],
    weights: Mapping[str, tuple[RankingData, Matrix]],
    whole: Mapping[str, float],
    threshold: float,
) -> None:
    """Print what leaving out the reader, each piece of evidence, and each feature changes."""
    names = [name for name in whole if name not in ("hybrid", "bm25", "dense")]
    print(f"\n{'without the evidence':24}", *(f"{name:>16}" for name in names))
    for name in (READER, *EVIDENCE):
        out = () if name == READER else (name,)
        scored = predict(samples, folds, out, threshold=threshold, with_reader=name != READER)
        found = means(measure(samples, weights, scored, threshold).values())
        print(f"{name:24}", *(f"{found[n] - whole[n]:+16.3f}" for n in names), flush=True)
    print(f"\n{'without the feature':24} {'nDCG@10':>16}")
    for feature in FEATURES:
        values = []
        for fold in folds:
            used = fit_ranking(list(blocks(samples, fold.known).values()), (feature,))
            values += [data.ndcg(used) for data in fold.data.values()]
        print(f"{feature:24} {statistics.mean(values) - whole['hybrid']:+16.3f}", flush=True)


def fit_all(
    samples: Sequence[Sample],
    threshold: float,
    first: Calibration | None = None,
    logits: Logits | None = None,
    free: Sequence[str] = (),
) -> tuple[Calibration, Table]:
    """Fit both steps on everything, and measure the result on what it was fitted on."""
    every = np.ones(len(samples), bool)
    data = blocks(samples, every)
    weights = fit_ranking(list(data.values()), (), first, free).round(2)
    answers = Answers.of(samples, weights, logits)
    confidence = fit_confidence(samples, answers, every, (), first, free)
    calibration = Calibration(
        dict(zip(FEATURES, weights.tolist(), strict=True)),
        confidence.reader,
        {name: round(value, 3) for name, value in confidence.alone.items()},
        {name: round(value, 3) for name, value in confidence.read.items()},
        threshold,
    )
    used = {name: (block, weights) for name, block in data.items()}
    scores, relevant = confidence.scores(answers, threshold)
    found = Predicted(scores, relevant, _ndcg(samples, relevant))
    return calibration, measure(samples, used, found, threshold)


@dataclass(frozen=True, slots=True)
class Fitted:
    """One part of the fit: what came out, and what it predicts of collections left out of it.

    `kinds` are the AUROC of each kind of request, as `measure_kinds` returns them.
    """

    calibration: Calibration
    left_out: Table
    kinds: Mapping[str, Mapping[str, float]]


def fit_part(
    samples: Sequence[Sample],
    first: Calibration | None = None,
    *,
    logits: Logits | None = None,
    ablation: bool = False,
    free: Sequence[str] = (),
    threshold: float | None = None,
) -> Fitted:
    """Fit on all samples, and print what that predicts of each family of collections.

    Args:
        samples: The searches.
        first: A fit of which only what is `free` is to be fitted anew.
        logits: What a reader says; by default nothing.
        ablation: Also print what each part is worth.
        free: Names of features and evidence.
        threshold: The threshold, if it is given.

    Returns:
        The calibration and its measures. With a reader, these say what the order is worth without.
    """
    folds = make_folds(samples, first, logits, free)
    # What a reader has learned by heart says nothing of other requests.
    among = logits.queries if logits else None
    chosen = choose_threshold(samples, predict(samples, folds), among)
    print(f"threshold by the rule of false answers: {chosen}")
    if threshold is None:
        threshold = chosen if first is None else first.threshold
    scored = predict(samples, folds, (), first, threshold=threshold, free=free)
    weights = {name: (data, fold.weights) for fold in folds for name, data in fold.data.items()}
    table = measure(samples, weights, scored, threshold)
    if logits is not None:
        unread = predict(
            samples, folds, (), first, threshold=threshold, with_reader=False, free=free
        )
        for name, row in measure(samples, weights, unread, threshold).items():
            table[name]["not read"] = row["read"]
    title = ", ".join(free) or "all"
    print_table(f"{title}, left out", table)
    kinds = measure_kinds(samples, scored)
    print_kinds(kinds)
    calibration, seen = fit_all(samples, threshold, first, logits, free)
    print_table(f"{title}, fitted", seen)
    if ablation and first is None:
        print_ablation(samples, folds, weights, means(table.values()), threshold)
    return Fitted(calibration, table, kinds)


def parsed_arguments() -> argparse.Namespace:
    """Return the options of the command line; the package's collections if none are given."""
    parser = argparse.ArgumentParser(description="Fit the calibrated score on judged collections.")
    parser.add_argument("collections", nargs="*", type=Path)
    parser.add_argument(
        "--packaged",
        action="store_true",
        help="fit on the collections of the package",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[*FEATURES, *EVIDENCE],
        default=[],
        help="fit these features and this evidence, and nothing else",
    )
    parser.add_argument("--work", type=Path, default=Path("build/fit"), help="folder of indexes")
    parser.add_argument("--output", type=Path, default=PACKAGED)
    parser.add_argument(
        "--cross-language", type=Path, default=CROSS_LANGUAGE, help="queries in other languages"
    )
    parser.add_argument("--reader", type=Path, help="folder of a reader")
    parser.add_argument(
        "--unseen", nargs="*", default=[], help="collections that it was trained without"
    )
    parser.add_argument(
        "--queries", type=int, default=QUERIES, help="most queries of a collection [200]"
    )
    parser.add_argument("--threshold", type=float, help="in place of the one that the fit gives")
    parser.add_argument("--results", type=Path, help="file for the measures, by collection")
    parser.add_argument("--ablation", action="store_true", help="also fit without each part")
    parser.add_argument("--examples", type=Path, help="example requests of the collections")
    parser.add_argument(
        "--examples-alone", action="store_true", help="fit what examples say, and nothing else"
    )
    args = parser.parse_args()
    if bool(args.collections) == args.packaged:
        parser.error("give collections, or --packaged and none")
    args.collections = args.collections or PACKAGED_COLLECTIONS
    return args


def main() -> None:
    """Fit on the collections given on the command line."""
    args = parsed_arguments()
    collections = [load_collection(path) for path in args.collections]
    is_partial = bool(args.only or args.examples_alone)
    before, provenance = _in_place(args.output) if is_partial else (None, {})
    measures = provenance.setdefault("left_out_of_the_fit", {})
    calibration = before
    if calibration is None or args.only:
        others = cross_language(args.cross_language, collections)
        every = [*collections, *others]
        samples = Sampler(every, args.work, args.queries).samples()
        logits = logits_of(every, args)
        fitted = fit_part(
            samples,
            before,
            logits=logits,
            ablation=args.ablation,
            free=args.only,
            threshold=args.threshold,
        )
        part = f"only {', '.join(args.only)}" if args.only else "all"
        calibration, measures[part] = fitted.calibration, rounded(fitted.left_out)
        if args.results:
            save_results(fitted, args.results)
        provenance[f"collections of {part}" if args.only else "collections"] = sizes(every)
        provenance["queries of a collection"] = args.queries
    if args.examples:
        exampled = with_examples(collections, args.examples)
        samples = Sampler(exampled, args.work, args.queries).samples()
        fitted = fit_examples(samples, calibration, logits_of(exampled, args))
        calibration, measures["examples"] = fitted.calibration, rounded(fitted.left_out)
        provenance["collections with examples"] = sizes(exampled)
    save(calibration, {**provenance, "date": today()}, args.output)


def _in_place(path: Path) -> tuple[Calibration, dict[str, Any]]:
    provenance: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["provenance"]
    return load_calibration(path), provenance


def logits_of(collections: Sequence[Collection], args: argparse.Namespace) -> Logits | None:
    """Return what the reader says, if one is given."""
    if not args.reader:
        return None
    return Logits(args.reader, unseen_queries(collections, args.unseen), args.work)


def fit_examples(samples: Sequence[Sample], before: Calibration, logits: Logits | None) -> Fitted:
    """Fit what examples say of a hit, the rest of a calibration held; see `fit_part`."""
    weights = np.array([before.weights[name] for name in FEATURES])
    answers = Answers.of(samples, weights, logits)
    kept, kept_read = (
        {name: value for name, value in part.items() if name not in EXAMPLES}
        for part in (before.alone, before.read)
    )
    threshold, found = before.threshold, Predicted.empty(len(samples))

    def fitted(known: NDArray[np.bool_]) -> Confidence:
        alone = _fit_hits(samples, answers, known, kept, mix=MIXED_EXAMPLES)
        # A reader has seen the example.
        held, reader = {**kept_read, "cosine_examples": 0.0}, before.reader
        read = _fit_hits(samples, answers, known, held, reader, mix=MIXED_EXAMPLES)
        return Confidence(alone, read if logits else before.read, reader)

    families = [family(sample.collection) for sample in samples]
    for name in sorted(set(families)):
        held = np.array([one == name for one in families])
        scores, relevant = fitted(~held).scores(answers, threshold)
        found.scores[held], found.relevant[held] = scores[held], relevant[held]
        found.ndcg[held] = _ndcg(samples, relevant)[held]
    every = np.ones(len(samples), bool)
    used = {name: (block, weights) for name, block in blocks(samples, every).items()}
    table = measure(samples, used, found, threshold)
    print_table("examples, left out", table)
    for title, confidence in (
        ("examples, without their evidence", Confidence(before.alone, before.read, before.reader)),
        ("examples, fitted", fitted(every)),
    ):
        scores, relevant = confidence.scores(answers, threshold)
        scored = Predicted(scores, relevant, _ndcg(samples, relevant))
        print_table(title, measure(samples, used, scored, threshold))
    alone, read = (
        {name: round(value, 3) for name, value in part.items()}
        for part in (confidence.alone, confidence.read)
    )
    return Fitted(replace(before, alone=alone, read=read), table, {})


def sizes(collections: Iterable[Collection]) -> dict[str, dict[str, int]]:
    """Return the sizes of collections for the record."""
    return {
        one.name: {"documents": len(one.documents), "queries": len(one.queries)}
        for one in collections
    }


def rounded(table: Table) -> dict[str, float]:
    """Return the means of a table for the record."""
    return {name: round(value, 4) for name, value in means(table.values()).items()}


def today() -> str:
    """Return the date."""
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()


def save_results(fitted: Fitted, path: Path) -> None:
    """Write the measures of each collection, and of each kind of request, for the pages."""
    record = {
        "threshold": fitted.calibration.threshold,
        "collections": fitted.left_out,
        "kinds": fitted.kinds,
    }
    digits = json.loads(json.dumps(record), parse_float=lambda text: round(float(text), 4))
    save_report(digits, path)


def save(calibration: Calibration, provenance: Mapping[str, object], output: Path) -> None:
    """Write a calibration with its provenance."""
    record = {**calibration.to_dict(), "provenance": provenance}
    output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"\nthreshold {calibration.threshold}; written to {output}")


if __name__ == "__main__":
    main()
