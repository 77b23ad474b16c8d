"""What is answered at the default threshold: to requests that a skill fits, and to others.

Usage: python scripts/answers.py COLLECTION... [--examples FILE] [--work DIR] [--results FILE]

Asks each collection whole, by ``skillsearch eval``: which requests hear of a right skill, which of
those that nothing fits get an answer, and how many are told "none" by each face. With the example
requests of a file (see `fusion.samples.with_examples`) a collection is asked a second time with
them. The result file has shares of requests and no texts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

import markdown_tables
from benchmark.measures import save_report
from benchmark.rows import Machine
from fusion.samples import with_examples

from skillsearch.evaluation.collection import load_collection, save_collection
from skillsearch.evaluation.reporting.report import percent
from skillsearch.text.states import BOUNDS

HYBRID = "hybrid"
BY_BOUND = {bound: f"from {bound}" for bound in BOUNDS.values() if bound != BOUNDS["list"]}
"""Systems that show whatever reaches the bound of a face, where that is not the one of lists."""


class Unanswerable(TypedDict):
    """Requests of a kind that nothing fits: how many get an answer, and are told "none" by face."""

    requests: int
    answered: float
    AUROC: float
    none: dict[str, float]


Row = TypedDict(
    "Row",
    {
        "recall": float,
        "perhaps": float,
        "none": float,
        "requests": int,
        "kinds": dict[str, float],
        "nDCG@10": float,
        "Success@1": float,
        "ECE": float,
        "unanswerable": dict[str, Unanswerable],
    },
)
"""A collection: shares of its requests."""


class Report(TypedDict):
    """The result file; `save_report` adds the machine."""

    machine: NotRequired[Machine]
    collections: dict[str, Row]


def measure(folder: Path, work: Path, more: str = "") -> Row:
    """Return what answers to the requests of a collection say, as shares of them.

    Args:
        folder: The collection.
        work: Where its index is kept.
        more: Settings of the systems that are asked.
    """
    systems = [f"{HYBRID}=system:hybrid{more}"]
    systems += [f"{name}=system:hybrid,threshold:{b}{more}" for b, name in BY_BOUND.items()]
    options = [word for system in systems for word in ("--system", system)]
    command = [sys.executable, "-m", "skillsearch", "eval", str(folder), *options]
    command += ["--work", str(work), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    report = json.loads(done.stdout)
    said, ranked = report["states"], report["systems"][HYBRID]
    unanswerable: dict[str, Unanswerable] = {
        kind: {
            "requests": count,
            "answered": said[HYBRID][kind]["false"],
            "AUROC": said[HYBRID][kind]["auroc"],
            "none": {
                face: said[BY_BOUND.get(bound, HYBRID)][kind]["none"]
                for face, bound in BOUNDS.items()
            },
        }
        for kind, count in report["unanswerable"].items()
    }
    answerable = said[HYBRID]["answerable"]
    return {
        "recall": answerable["recall"],
        "perhaps": answerable["perhaps"],
        "none": answerable["none"],
        "requests": report["queries"],
        "kinds": answerable["kinds"],
        "nDCG@10": ranked["nDCG@10"],
        "Success@1": ranked["Success@1"],
        "ECE": report["abstention"][HYBRID]["calibration_error"]["answerable"],
        "unanswerable": unanswerable,
    }


def rows(
    folders: list[Path], examples: Path | None, work: Path, made: Path
) -> Iterator[tuple[str, Row]]:
    """Measure collections, and again with examples those that have some."""
    collections = [load_collection(folder) for folder in folders]
    given = with_examples(collections, examples) if examples else []
    exampled = {collection.name: collection for collection in given}
    for folder, name in zip(folders, (collection.name for collection in collections), strict=True):
        yield name, measure(folder, work)
        if name in exampled:
            save_collection(exampled[name], made / name)
            yield f"{name}, with examples", measure(made / name, work, ",examples:given")


def table(report: Report) -> list[str]:
    """Return a row for each collection and kind of requests that nothing fits."""
    heads = ["requests", "a right skill fits", "or may fit", "nDCG@10", "ECE", "nothing fits"]
    heads += ["answered", 'told "none"', "AUROC"]
    lines = []
    for name, row in report["collections"].items():
        first = [f"{name}: {row['requests']}", *map(in_percent, (row["recall"], row["perhaps"]))]
        first += [f"{percent(row['nDCG@10'])}", f"{row['ECE']:.3f}"]
        beside = [_unanswered(*item) for item in row["unanswerable"].items()] or [[""] * 4]
        lines += [[*first, *beside[0]], *([""] * len(first) + more for more in beside[1:])]
    return markdown_tables.table(heads, lines)


def _unanswered(kind: str, said: Unanswerable) -> list[str]:
    shares = map(in_percent, (said["answered"], said["none"]["list"]))
    return [f"{kind}: {said['requests']}", *shares, f"{said['AUROC']:.3f}"]


def in_percent(share: float) -> str:
    """Return a share with its sign."""
    return f"{percent(share)} %"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure collections and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("collections", nargs="+", type=Path)
    parser.add_argument("--examples", type=Path, help="example requests of the collections")
    parser.add_argument("--work", type=Path, help="keep the indexes here for the next run")
    parser.add_argument("--results", type=Path, help="write the shares to a file too")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        made = Path(temporary)
        work = args.work or made / "work"
        report: Report = {"collections": dict(rows(args.collections, args.examples, work, made))}
    print("\n".join(table(report)))
    if args.results:
        save_report(report, args.results)


if __name__ == "__main__":
    main()
