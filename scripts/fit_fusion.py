"""Fit the calibrated score on judged collections and write its coefficients into the package.

Usage: python scripts/fit_fusion.py COLLECTION... [--work DIR] [--output FILE]
       [--reader FOLDER --unseen NAME[:HALF]...]
       python scripts/fit_fusion.py --packaged --only FEATURE

To add a feature, write a row in ``index/search/features.py`` (and one in ``evidence.py`` if it is
to move the score of a hit), give it 0 in ``calibration.json``, and run the second form: it fits the
feature on the collections of the package and holds all other numbers.

The parts lie in the folder ``fusion``.

The queries of ``scripts/cross_language`` are searched as well: our own, in 17 languages, over
documents of the collections, and three small collections in Spanish, Russian and Chinese. Last
comes what example requests say (``--examples``), on the collections whose skills have them, all of
them and half of them; ``--examples-alone`` fits nothing else.

Ranking weights are found by coordinate ascent on nDCG@10 (Metzler and Croft, 2007); the score of
each of the first hits by logistic regression with signs held and then its scale (Platt, 1999),
once by what a search always knows, and once with what a reader says. FOLDER holds a reader that was
trained without the collections named as unseen: the coefficients of the reader are fitted and
measured on these alone. Of ``NAME:HALF`` only every other repository counts. What is printed was
predicted for each collection by coefficients fitted without it and without its family, so it says
what a new collection can expect; the coefficients written are fitted on all.

Five kinds of query teach the score: judged ones, the same with the right skills hidden
(dropped relevant), twins, others that nothing fits, and queries of foreign collections. So that
neither the length nor the number of skills matters, every collection also takes part in variants:
one line a skill, few skills.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from benchmark.measures import save_report
from fusion.answers import Answers, Logits, unseen_queries
from fusion.calibration import MIXED_EXAMPLES, ScoreCalibration, fit_calibration, fit_hits
from fusion.measures import (
    Predicted,
    Table,
    by_collection,
    choose_threshold,
    margin,
    margins,
    measure,
    measure_kinds,
    of_each,
    print_kinds,
    print_table,
)
from fusion.ranking import Matrix, RankingData, blocks, fit_ranking
from fusion.samples import QUERIES, Sample, Sampler, cross_language, family, with_examples
from numpy.typing import NDArray

from skillsearch import evaluation
from skillsearch.evaluation.assess import means
from skillsearch.evaluation.collection import load_collection
from skillsearch.evaluation.types import Collection
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.calibration_file import PACKAGED, load_calibration
from skillsearch.index.search.evidence import EVIDENCE, READER
from skillsearch.index.search.features import FEATURES

EXAMPLES = frozenset({"cosine_examples", "has_examples"})
"""Evidence of example requests. In the ranking, an example weighs as a description does; what
opposes is chosen so that skills without any, where half have some, lose a point of nDCG@10."""
Rows = Mapping[str, Mapping[str, float]]
_BY_FEATURES = ("hybrid", "bm25", "dense")  # of the order before scores
CROSS_LANGUAGE = Path(__file__).with_name("cross_language")
PACKAGED_COLLECTIONS = tuple(
    Path(evaluation.__file__).with_name(name) for name in ("example", "written")
)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line, which say of themselves what they are."""

    collections: Sequence[Path]
    packaged: bool
    only: Sequence[str]
    work: Path
    output: Path
    cross_language: Path
    reader: Path | None
    unseen: Sequence[str]
    queries: int
    threshold: float | None
    results: Path | None
    ablation: bool
    examples: Path | None
    examples_alone: bool


@dataclass(frozen=True, slots=True)
class Fold:
    """One family of collections, and a ranking that was fitted without it.

    Attributes:
        held: Which samples belong to its whole collections.
        seen: Which samples have nothing to do with it.
        data: Its judged samples, by collection.
        weights: Ranking weights fitted on the seen samples.
        answers: All samples under these weights.
    """

    held: NDArray[np.bool_]
    seen: NDArray[np.bool_]
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
        seen = np.array([name not in (family(s.collection), family(s.source)) for s in samples])
        held = np.array([family(s.collection) == name and s.variant == "whole" for s in samples])
        weights = fit_ranking(list(blocks(samples, seen).values()), (), first, free)
        answers = Answers.of(samples, weights, logits)
        if logits is not None:
            logits.save()
        folds.append(Fold(held, seen, blocks(samples, held), weights, answers))
    return folds


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
    """Score the whole collections, each by a calibration that saw nothing of its family."""
    predicted = Predicted.empty(len(samples))
    for fold in folds:
        calibration = fit_calibration(samples, fold.answers, fold.seen, left_out, first, free)
        scores = calibration.scores(fold.answers, threshold, with_reader=with_reader)
        predicted.put(fold.held, Predicted.of(samples, *scores))
    return predicted


@dataclass(frozen=True, slots=True)
class Fitted:
    """One part of the fit: what came out, and what it predicts of collections left out of it.

    Attributes:
        calibration: The fit.
        left_out: The measures of each collection.
        kinds: The AUROC of each kind of request, as `measure_kinds` returns them.
        margins: How far measures are known, as `fusion.measures.margins` returns it.
        ablation: What each part is worth, as `measure_ablation` returns it, if it was asked for.
    """

    calibration: Calibration
    left_out: Table
    kinds: Rows = field(default_factory=dict)
    margins: Rows = field(default_factory=dict)
    ablation: Rows = field(default_factory=dict)


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
        ablation: Also measure what each part is worth.
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
    worth = {}
    if ablation and first is None:
        worth = measure_ablation(samples, folds, weights, scored, table, threshold)
    return Fitted(calibration, table, kinds, margins(samples, scored, threshold), worth)


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
    scoring = fit_calibration(samples, answers, every, (), first, free)
    calibration = Calibration(
        dict(zip(FEATURES, weights.tolist(), strict=True)),
        scoring.reader,
        {name: round(value, 3) for name, value in scoring.alone.items()},
        {name: round(value, 3) for name, value in scoring.read.items()},
        threshold,
    )
    used = {name: (block, weights) for name, block in data.items()}
    predicted = Predicted.of(samples, *scoring.scores(answers, threshold))
    return calibration, measure(samples, used, predicted, threshold)


def measure_ablation(
    samples: Sequence[Sample],
    folds: Sequence[Fold],
    weights: Mapping[str, tuple[RankingData, Matrix]],
    whole: Predicted,
    table: Table,
    threshold: float,
) -> dict[str, dict[str, float]]:
    """Return what leaving out the reader, each piece of evidence, and each feature changes.

    `whole` and `table` are what all parts together predict. Means over the collections, each left
    out of the fit. Those of nDCG@10 and recall have their `margin`.
    """
    before, before_of_each = means(table.values()), of_each(whole, threshold)
    rows: dict[str, dict[str, float]] = {}
    for name in (READER, *EVIDENCE):
        out = () if name == READER else (name,)
        scored = predict(samples, folds, out, threshold=threshold, with_reader=name != READER)
        after = means(measure(samples, weights, scored, threshold).values())
        row = {key: value - before[key] for key, value in after.items() if key not in _BY_FEATURES}
        for key, values in of_each(scored, threshold).items():
            changes = by_collection(samples, values - before_of_each[key], "judged")
            row[f"{key} margin"] = margin(changes.values())
        rows[name] = row
        print(name, row, flush=True)
    return rows | without_features(samples, folds)


def without_features(
    samples: Sequence[Sample], folds: Sequence[Fold]
) -> dict[str, dict[str, float]]:
    """Return what leaving out each feature changes in the order that features alone give."""
    rows = {}
    for feature in FEATURES:
        changes = []
        for fold in folds:
            without = fit_ranking(list(blocks(samples, fold.seen).values()), (feature,))
            changes += [
                data.ndcg_of_each(without) - data.ndcg_of_each(fold.weights)
                for data in fold.data.values()
            ]
        mean = statistics.mean(float(change.mean()) for change in changes)
        rows[f"feature {feature}"] = {"hybrid": mean, "hybrid margin": margin(changes)}
        print(feature, rows[f"feature {feature}"], flush=True)
    return rows


def fit_examples(samples: Sequence[Sample], before: Calibration, logits: Logits | None) -> Fitted:
    """Fit what examples say of a hit, the rest of a calibration held; see `fit_part`."""
    weights = np.array([before.weights[name] for name in FEATURES])
    answers = Answers.of(samples, weights, logits)
    held_alone, held_read = (
        {name: value for name, value in part.items() if name not in EXAMPLES}
        for part in (before.alone, before.read)
    )
    held_read["cosine_examples"] = 0.0  # A reader has seen the example.
    reader = before.reader
    threshold, predicted = before.threshold, Predicted.empty(len(samples))

    def fitted(seen: NDArray[np.bool_]) -> ScoreCalibration:
        alone = fit_hits(samples, answers, seen, held_alone, mix=MIXED_EXAMPLES)
        read = fit_hits(samples, answers, seen, held_read, reader, mix=MIXED_EXAMPLES)
        return ScoreCalibration(alone, read if logits else before.read, reader)

    families = [family(sample.collection) for sample in samples]
    for name in sorted(set(families)):
        held = np.array([own == name for own in families])
        scores = fitted(~held).scores(answers, threshold)
        predicted.put(held, Predicted.of(samples, *scores))
    every = np.ones(len(samples), bool)
    used = {name: (block, weights) for name, block in blocks(samples, every).items()}
    table = measure(samples, used, predicted, threshold)
    print_table("examples, left out", table)
    for title, scoring in (
        ("examples, without their evidence", ScoreCalibration(before.alone, before.read, reader)),
        ("examples, fitted", fitted(every)),
    ):
        scored = Predicted.of(samples, *scoring.scores(answers, threshold))
        print_table(title, measure(samples, used, scored, threshold))
    alone, read = (
        {name: round(value, 3) for name, value in part.items()}
        for part in (scoring.alone, scoring.read)
    )
    return Fitted(replace(before, alone=alone, read=read), table)


def parsed_arguments() -> Options:
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
    options = Options(**vars(parser.parse_args()))
    if bool(options.collections) == options.packaged:
        parser.error("give collections, or --packaged and none")
    return replace(options, collections=options.collections or PACKAGED_COLLECTIONS)


def main() -> None:
    """Fit on the collections given on the command line."""
    options = parsed_arguments()
    collections = [load_collection(path) for path in options.collections]
    is_partial = bool(options.only or options.examples_alone)
    before, provenance = _in_place(options.output) if is_partial else (None, {})
    measures = provenance.setdefault("left_out_of_the_fit", {})
    calibration = before
    if calibration is None or options.only:
        others = cross_language(options.cross_language, collections)
        every = [*collections, *others]
        samples = Sampler(every, options.work, options.queries).samples()
        logits = logits_of(every, options)
        fitted = fit_part(
            samples,
            before,
            logits=logits,
            ablation=options.ablation,
            free=options.only,
            threshold=options.threshold,
        )
        part = f"only {', '.join(options.only)}" if options.only else "all"
        calibration, measures[part] = fitted.calibration, rounded(fitted.left_out)
        if options.results:
            save_results(fitted, options.results)
        provenance[f"collections of {part}" if options.only else "collections"] = sizes(every)
        provenance["queries of a collection"] = options.queries
    if options.examples:
        exampled = with_examples(collections, options.examples)
        samples = Sampler(exampled, options.work, options.queries).samples()
        fitted = fit_examples(samples, calibration, logits_of(exampled, options))
        calibration, measures["examples"] = fitted.calibration, rounded(fitted.left_out)
        provenance["collections with examples"] = sizes(exampled)
    save(calibration, {**provenance, "date": today()}, options.output)


def _in_place(path: Path) -> tuple[Calibration, dict[str, Any]]:
    provenance: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["provenance"]
    return load_calibration(path), provenance


def logits_of(collections: Sequence[Collection], options: Options) -> Logits | None:
    """Return what the reader says, if one is given."""
    if not options.reader:
        return None
    return Logits(options.reader, unseen_queries(collections, options.unseen), options.work)


def sizes(collections: Iterable[Collection]) -> dict[str, dict[str, int]]:
    """Return the sizes of collections for the record."""
    return {
        collection.name: {
            "documents": len(collection.documents),
            "queries": len(collection.queries),
        }
        for collection in collections
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
        "margins": fitted.margins,
        "ablation": fitted.ablation,
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
