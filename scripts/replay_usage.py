"""What searching gains from usage, and what mistakes cost: simulated loads on judged collections.

Usage: python scripts/replay_usage.py COLLECTION... [--work DIR] [--queries N] [--seeds N]
       [--weight W] [--most SHARE] [--results FILE]

Half of the requests of a collection were asked before, some times each, and each time a skill was
loaded: in so many of 100 cases a right one, else a wrong one among the first five, as an agent
would that trusts the list. Then these requests are asked again (repeated), and the others for the
first time (new). The reader is off. ``--weight`` and ``--most`` try other numbers than those of the
package, which were set on requests-2 to -6 and are reported on others.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NotRequired, TypedDict

import markdown_tables
import numpy as np
from benchmark.measures import save_report
from benchmark.rows import Machine
from numpy.typing import NDArray

from skillsearch.evaluation.collection import load_collection
from skillsearch.evaluation.comparison import interval
from skillsearch.evaluation.judged_index import write_skills
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.candidates import find_candidates
from skillsearch.index.search.evidence import MOST_USAGE, find_evidence, of_usage
from skillsearch.index.search.ranker import heads, judge, rank
from skillsearch.index.skill_index import SkillIndex
from skillsearch.skills.example_requests import ExampleBook
from skillsearch.usage.events import Event, packed
from skillsearch.usage.support import Usage

HITS = 10
TRUSTED = 5
"""A wrong load is of one of so many first hits."""
RIGHT = (0.6, 0.8, 1.0)
"""Shares of the loads that are right."""
TIMES = (1, 3)
"""How often a request was asked before."""
MEASURES = ("nDCG@10", "Success@1")


class Change(TypedDict):
    """What some loads change: the mean of each part and measure, and the ends of its interval."""

    times: int
    right: float
    changes: dict[str, list[float]]


class Row(TypedDict):
    """A collection: how many requests were asked, their measures without usage, and changes."""

    requests: int
    without: dict[str, float]
    loads: list[Change]


class Report(TypedDict):
    """The result file; `save_report` adds the machine."""

    machine: NotRequired[Machine]
    collections: dict[str, Row]


@dataclass(frozen=True, slots=True)
class Sample:
    """A request: its vector, the grades of right skills, its first hits and their evidence."""

    vector: NDArray[np.float32]
    grades: Mapping[str, int]
    skills: Sequence[str]
    evidence: Sequence[Mapping[str, float]]


def samples_of(folder: Path, work: Path, most: int) -> list[Sample]:
    """Search a collection for some of its requests, evenly spaced, without usage."""
    collection = load_collection(folder)
    folders = write_skills(collection, work)
    book = ExampleBook(None, packaged=False, own=False, extra={})
    request = IndexRequest(folders.roots, "onnx", with_body=True)
    options = IndexOptions(examples=book)
    index, _ = SkillIndex.build(request, folders.work / "index-usage", options)
    corpus, calibration = index.opened.corpus, default_calibration()
    judged = [query for query in collection.queries if query.query_id in collection.qrels]
    chosen = np.linspace(0, len(judged) - 1, min(most, len(judged))).astype(int).tolist()
    queries = [judged[number] for number in chosen]
    samples = []
    for query, form in zip(queries, index.analyse_many([q.text for q in queries]), strict=True):
        (candidates,) = find_candidates(corpus, [form], HITS)
        ranked = heads(corpus, rank(corpus, candidates, "hybrid", calibration))
        rows = ranked.best[:HITS].tolist()
        documents = ranked.documents[rows].tolist()
        skills = [folders.ids[corpus.documents[number].doc_id] for number in documents]
        grades = {key: grade for key, grade in collection.qrels[query.query_id].items() if grade}
        evidence = find_evidence(corpus, form, ranked, rows)
        samples.append(Sample(form.vector, grades, skills, evidence))
    return samples


def loads(
    samples: Sequence[Sample], right: float, times: int, random: np.random.Generator
) -> Iterator[Event]:
    """Yield loads of today: of a right skill in a share of the cases, else of a wrong hit."""
    for sample in samples:
        wrong = [skill for skill in sample.skills[:TRUSTED] if skill not in sample.grades]
        best = [skill for skill, grade in sample.grades.items() if grade > 1] or [*sample.grades]
        for _ in range(times):
            skills = best if random.random() < right or not wrong else wrong
            skill = skills[int(random.integers(len(skills)))]
            yield Event("loaded", 0, "", vector=packed(sample.vector), skill=skill)


def ranking(
    sample: Sample, usage: Usage | None, calibration: Calibration, most: float
) -> list[str]:
    """Return the skills in the order of an answer, given what requests led to before."""
    support = usage.support(sample.vector) if usage else {}
    shares = of_usage(np.array([support.get(skill, 0.0) for skill in sample.skills]), most)
    evidence = [
        {**values, "usage": share}
        for share, values in zip(shares.tolist(), sample.evidence, strict=True)
    ]
    return [sample.skills[hit.row] for hit in judge(evidence, range(len(evidence)), calibration)]


def measures(skills: Sequence[str], grades: Mapping[str, int]) -> tuple[float, float]:
    """Return nDCG@10, with linear gains, and whether the first is right."""
    gains = [grades.get(skill, 0) for skill in skills[:HITS]]
    ideal = sorted(grades.values(), reverse=True)[:HITS]
    best = sum(gain / math.log2(rank + 2) for rank, gain in enumerate(ideal))
    gained = sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains))
    return gained / best, float(bool(gains and gains[0]))


def replay(
    samples: Sequence[Sample],
    right: float,
    times: int,
    seeds: int,
    calibration: Calibration,
    most: float = MOST_USAGE,
) -> dict[str, NDArray[np.float64]]:
    """Return by how much the measures of each request change: repeated, and new."""
    changes: dict[str, list[tuple[float, ...]]] = {"repeated": [], "new": []}
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        order = random.permutation(len(samples)).tolist()
        half = len(order) // 2
        parts = {"repeated": order[:half], "new": order[half:]}
        before = [samples[number] for number in parts["repeated"]]
        events = list(loads(before, right, times, random))
        usage = Usage.of(events, len(samples[0].vector), today=0)
        for part, numbers in parts.items():
            for number in numbers:
                sample = samples[number]
                without, after = (
                    measures(ranking(sample, some, calibration, most), sample.grades)
                    for some in (None, usage)
                )
                changes[part].append(tuple(np.subtract(after, without)))
    return {part: np.array(rows) for part, rows in changes.items()}


def with_weight(calibration: Calibration, weight: float) -> Calibration:
    """Return a calibration with another weight of usage."""
    alone, read = ({**fit, "usage": weight} for fit in (calibration.alone, calibration.read))
    return replace(calibration, alone=alone, read=read)


def report(samples: Sequence[Sample], seeds: int, calibration: Calibration, most: float) -> Row:
    """Return what is measured without usage, and what loads change, each with its interval."""
    plain = [measures(ranking(each, None, calibration, 0.0), each.grades) for each in samples]
    means = np.mean(plain, axis=0).tolist()
    loaded: list[Change] = []
    for times in TIMES:
        for right in RIGHT:
            changes = {
                f"{part} {measure}": [float(column.mean()), *interval(column)]
                for part, rows in replay(samples, right, times, seeds, calibration, most).items()
                for measure, column in zip(MEASURES, rows.T, strict=True)
            }
            loaded.append({"times": times, "right": right, "changes": changes})
    without = dict(zip(MEASURES, means, strict=True))
    return {"requests": len(samples), "without": without, "loads": loaded}


def table(report: Report) -> list[str]:
    """Return a row for each collection and number of loads: Success@1 of repeated requests."""
    heads = ["collection", "Success@1 without usage", "loads of each"]
    heads += [f"change at {right:.0%} right".replace("%", " %") for right in RIGHT]
    rows = []
    for name, row in report["collections"].items():
        for times in TIMES:
            cells = [
                "{:+.1f} ({:+.1f} to {:+.1f})".format(
                    *(100 * value for value in loads["changes"]["repeated Success@1"])
                )
                for loads in row["loads"]
                if loads["times"] == times
            ]
            rows.append([name, f"{100 * row['without']['Success@1']:.1f}", str(times), *cells])
    return markdown_tables.table(heads, rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure collections and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("collections", nargs="+", type=Path, metavar="COLLECTION")
    parser.add_argument("--work", type=Path, default=Path("index_cache/replay"))
    parser.add_argument("--queries", type=int, default=300, help="requests of each, at most")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--weight", type=float, help="of usage, in log-odds")
    parser.add_argument("--most", type=float, default=MOST_USAGE, help="most that usage says")
    parser.add_argument("--results", type=Path, help="write the figures to a file too")
    options = parser.parse_args(arguments)
    calibration = default_calibration()
    if options.weight is not None:
        calibration = with_weight(calibration, options.weight)
    measured: Report = {"collections": {}}
    for folder in options.collections:
        samples = samples_of(folder, options.work, options.queries)
        row = report(samples, options.seeds, calibration, options.most)
        measured["collections"][folder.name] = row
    print("\n".join(table(measured)))
    if options.results:
        save_report(measured, options.results)


if __name__ == "__main__":
    main()
