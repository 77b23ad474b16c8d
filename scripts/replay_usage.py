"""What searching gains from usage, and what mistakes cost: simulated loads on judged collections.

Usage: python scripts/replay_usage.py COLLECTION... [--work DIR] [--queries N] [--seeds N]
       [--weight W] [--most SHARE]

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

import markdown_tables
import numpy as np
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


def report(
    name: str, samples: Sequence[Sample], seeds: int, calibration: Calibration, most: float
) -> Iterator[str]:
    """Yield the rows of a table for a collection, in hundredths, each with its interval."""
    plain = [measures(ranking(each, None, calibration, 0.0), each.grades) for each in samples]
    without = [f"{100 * value:.1f}" for value in np.mean(plain, axis=0)]
    yield markdown_tables.line([name, "without usage", "", *without, *without])
    for times in TIMES:
        for right in RIGHT:
            changes = replay(samples, right, times, seeds, calibration, most)
            cells = [
                "{:+.1f} ({:+.1f}, {:+.1f})".format(
                    100 * column.mean(), *(100 * end for end in interval(column))
                )
                for rows in changes.values()
                for column in rows.T
            ]
            yield markdown_tables.line([name, str(times), f"{right:.0%}", *cells])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table of some collections."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("collections", nargs="+", type=Path, metavar="COLLECTION")
    parser.add_argument("--work", type=Path, default=Path("index_cache/replay"))
    parser.add_argument("--queries", type=int, default=300, help="requests of each, at most")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--weight", type=float, help="of usage, in log-odds")
    parser.add_argument("--most", type=float, default=MOST_USAGE, help="most that usage says")
    options = parser.parse_args(arguments)
    calibration = default_calibration()
    if options.weight is not None:
        calibration = with_weight(calibration, options.weight)
    columns = [f"{part} {measure}" for part in ("repeated", "new") for measure in MEASURES]
    heads = ["collection", "loads of each", "right", *columns]
    print("\n".join(markdown_tables.table(heads)))
    for folder in options.collections:
        samples = samples_of(folder, options.work, options.queries)
        rows = report(folder.name, samples, options.seeds, calibration, options.most)
        print("\n".join(rows), flush=True)


if __name__ == "__main__":
    main()
