"""Measure both editions of the written collection.

Usage: python scripts/measure_written.py [COLLECTION] --results FILE

The first edition is the first lines of each file of the collection, over all its skills. The result
file has what ``skillsearch eval --drop-relevant`` prints of each: edition, system, measure, value,
and its interval if there is one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

from benchmark.measures import save_report
from compare import WRITTEN

FIRST_LINES = {"queries.jsonl": 300, "negatives.jsonl": 150, "qrels.tsv": 360}
"""How many lines of each file are the first edition; the corpus is the same in both."""
CORPUS = "corpus.jsonl"
EVAL = (sys.executable, "-m", "skillsearch", "eval", "--drop-relevant")
Row = tuple[str, str, str, tuple[float, ...]]


def make_first_edition(collection: Path, folder: Path) -> None:
    """Write the first edition of a collection into a folder, which is made."""
    folder.mkdir()
    (folder / CORPUS).write_bytes((collection / CORPUS).read_bytes())
    for name, count in FIRST_LINES.items():
        with (collection / name).open("rb") as file:
            (folder / name).write_bytes(b"".join(islice(file, count)))


def measure(collection: Path) -> list[Row]:
    """Return the rows that ``eval`` prints of a collection."""
    done = subprocess.run([*EVAL, collection], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return [
        (edition, system, figure, tuple(float(cell) for cell in cells if cell))
        for edition, system, figure, *cells in rows
    ]


def main() -> None:
    """Measure, and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("collection", type=Path, nargs="?", default=WRITTEN)
    parser.add_argument("--results", type=Path, required=True, metavar="FILE")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder, "first")
        make_first_edition(args.collection, first)
        figures = [row for edition in (args.collection, first) for row in measure(edition)]
    save_report({"figures": figures}, args.results)


if __name__ == "__main__":
    main()
