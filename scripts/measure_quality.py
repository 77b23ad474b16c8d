"""Measure ranking and abstention on judged collections, every system side by side.

Usage: python scripts/measure_quality.py COLLECTION... [--work DIR] [--json]

Each collection (a folder with corpus.jsonl, queries.jsonl and qrels.tsv) is written out as folders
with a SKILL.md, indexed like any other skills, and searched through `SkillIndex.search`. Measures
are those of ir-measures; a hit's duplicates follow it in the run, for they share its place.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ir_measures
import yaml
from ir_measures import RR, R, Success, nDCG

from skillsearch.index.skill_index import SkillIndex
from skillsearch.types import SYSTEMS, SearchResult, System

MEASURES = [nDCG @ 10, R @ 5, Success @ 1, RR @ 10]
DEPTH = 50

Record = dict[str, Any]


def read_jsonl(path: Path) -> list[Record]:
    """Read JSON lines; none where there is no such file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def read_pairs(path: Path) -> Iterator[list[str]]:
    """Yield the rows of a tab-separated file below its header; none where there is no file."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            yield line.split("\t")


def write_skills(corpus: list[Record], root: Path) -> dict[str, str]:
    """Write a corpus as skill folders; return the id of the record in each SKILL.md by its path."""
    paths = {}
    for number, record in enumerate(corpus):
        head = {"name": record["name"], "description": record["description"] or record["name"]}
        text = yaml.safe_dump(head, allow_unicode=True, sort_keys=False, width=10_000)
        path = root / f"{number:05}" / "SKILL.md"
        data = f"---\n{text}---\n\n{record.get('body') or ''}\n"
        if not path.exists() or path.read_text(encoding="utf-8") != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(data, encoding="utf-8")
        paths[str(path)] = str(record["_id"])
    return paths


def run_of(result: SearchResult, paths: dict[str, str], ignored: set[str]) -> dict[str, float]:
    """Turn a result into a run: one score a document, falling by rank."""
    ranked = [path for hit in result for path in (hit.path, *hit.duplicates)]
    kept = [paths[path] for path in ranked if paths[path] not in ignored]
    return {doc_id: float(len(kept) - place) for place, doc_id in enumerate(kept)}


def measure(collection: Path, work: Path, systems: tuple[System, ...]) -> Record:
    """Index one collection, search all its queries, and measure every system."""
    root = work / collection.name / "skills"
    root.mkdir(parents=True, exist_ok=True)
    paths = write_skills(read_jsonl(collection / "corpus.jsonl"), root.resolve())
    index = SkillIndex.from_roots(root, index_dir=work / collection.name / "index")
    queries = read_jsonl(collection / "queries.jsonl")
    qrels: dict[str, dict[str, int]] = {}
    for query_id, doc_id, grade, *_ in read_pairs(collection / "qrels.tsv"):
        qrels.setdefault(query_id, {})[doc_id] = int(grade)
    ignored: dict[str, set[str]] = {}
    for query_id, doc_id, *_ in read_pairs(collection / "ignore.tsv"):
        ignored.setdefault(query_id, set()).add(doc_id)
    report: Record = {"collection": collection.name, "queries": len(qrels), "systems": {}}
    for system in systems:
        run = {}
        for query in queries:
            result = index.search(query["text"], n=DEPTH, threshold=0.0, system=system)
            run[query["_id"]] = run_of(result, paths, ignored.get(query["_id"], set()))
        values = ir_measures.calc_aggregate(MEASURES, qrels, run)
        report["systems"][system] = {str(key): round(100 * values[key], 1) for key in MEASURES}
    answered = [query for query in queries if index.search(query["text"], n=1)]
    negatives = read_jsonl(collection / "negatives.jsonl")
    report["answered"] = share(len(answered), len(queries))
    report["negatives_answered"] = share(
        sum(bool(index.search(query["text"], n=1)) for query in negatives), len(negatives)
    )
    return report


def share(part: int, whole: int) -> float | None:
    """Return part of whole, None of nothing."""
    return round(part / whole, 3) if whole else None


def foreign_answered(index_dir: Path, queries: list[Record]) -> float | None:
    """Return the share of queries of other domains that an index answers."""
    index = SkillIndex.open(index_dir)
    return share(sum(bool(index.search(query["text"], n=1)) for query in queries), len(queries))


def print_table(reports: list[Record], systems: tuple[System, ...]) -> None:
    """Print one line a collection and system, then the means."""
    columns = [str(measure) for measure in MEASURES]
    print(f"{'collection':20} {'system':8}", *(f"{name:>9}" for name in columns))
    for report in reports:
        for system in systems:
            values = report["systems"][system]
            cells = (f"{values[name]:9.1f}" for name in columns)
            print(f"{report['collection']:20} {system:8}", *cells)
    for system in systems:
        means = (
            statistics.mean(report["systems"][system][name] for report in reports)
            for name in columns
        )
        print(f"{'mean':20} {system:8}", *(f"{value:9.1f}" for value in means))
    print("\nshare of queries answered at the default threshold")
    for report in reports:
        print(
            f"{report['collection']:20} own {report['answered']}  "
            f"negatives {report['negatives_answered']}  foreign {report.get('foreign_answered')}"
        )


def main() -> None:
    """Measure the collections given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collections", nargs="+", type=Path)
    parser.add_argument("--work", type=Path, help="keep skills and indexes here for the next run")
    parser.add_argument("--foreign", type=Path, help="a collection whose queries none can answer")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = args.work or Path(temporary)
        reports = [measure(collection, work, SYSTEMS) for collection in args.collections]
        if args.foreign:
            queries = read_jsonl(args.foreign / "queries.jsonl")[:200]
            for report in reports:
                index_dir = work / report["collection"] / "index"
                report["foreign_answered"] = foreign_answered(index_dir, queries)
    if args.json:
        print(json.dumps({"collections": reports}, indent=1))
    else:
        print_table(reports, SYSTEMS)


if __name__ == "__main__":
    main()
