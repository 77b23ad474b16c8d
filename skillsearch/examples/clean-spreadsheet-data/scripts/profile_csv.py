"""Profile a CSV file: per column its type, gaps, distinct values and typical dirt."""

import argparse
import csv
import io
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

KINDS = [
    ("integer", re.compile(r"[+-]?\d+")),
    ("decimal", re.compile(r"[+-]?\d*\.\d+")),
    ("decimal-comma", re.compile(r"[+-]?\d{1,3}(\.\d{3})*,\d+|[+-]?\d+,\d+")),
    ("iso-date", re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2})?.*)?")),
    ("other-date", re.compile(r"\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})")),
]
PLACEHOLDERS = {"n/a", "na", "null", "none", "nan", "-", "--", "?", "unknown", "tbd", "#n/a"}


def kind_of(value: str) -> str:
    """Name the kind of one non-empty cell."""
    return next((name for name, pattern in KINDS if pattern.fullmatch(value)), "text")


def profile_column(cells: list[str]) -> dict[str, Any]:
    """Count what is in one column and what is wrong with it."""
    stripped = [cell.strip() for cell in cells]
    filled = [cell for cell in stripped if cell]
    distinct = Counter(filled)
    folded = Counter(re.sub(r"\s+", " ", cell).casefold() for cell in distinct)
    return {
        "filled": len(filled),
        "empty": len(cells) - len(filled),
        "distinct": len(distinct),
        "kinds": dict(Counter(map(kind_of, filled)).most_common()),
        "padded": sum(raw != cell for raw, cell in zip(cells, stripped, strict=True)),
        "placeholders": sum(cell.casefold() in PLACEHOLDERS for cell in filled),
        "leading_zeros": sum(bool(re.fullmatch(r"0\d+", cell)) for cell in filled),
        "case_variants": sum(count > 1 for count in folded.values()),
        "top": distinct.most_common(3),
    }


def read_rows(path: Path, encoding: str, delimiter: str | None) -> list[list[str]]:
    """Read every row, guessing the delimiter from the header when none is given."""
    text = path.read_text(encoding=encoding)
    delimiter = delimiter or max(",;\t|", key=text.partition("\n")[0].count)
    return list(filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)))


def profile(rows: list[list[str]]) -> dict[str, Any]:
    """Profile a whole table whose first row is the header."""
    header, *body = rows
    good = [row for row in body if len(row) == len(header)]
    return {
        "rows": len(body),
        "ragged_rows": len(body) - len(good),
        "duplicate_rows": len(good) - len({tuple(row) for row in good}),
        "duplicate_headers": sorted(name for name, n in Counter(header).items() if n > 1),
        "columns": [
            {"name": name, **profile_column([row[i] for row in good])}
            for i, name in enumerate(header)
        ],
    }


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="the CSV file")
    parser.add_argument("--encoding", default="utf-8-sig", help="default: %(default)s")
    parser.add_argument("--delimiter", help="one character; default: guessed")
    parser.add_argument("--json", action="store_true", help="print JSON, not text")
    args = parser.parse_args()
    rows = read_rows(args.path, args.encoding, args.delimiter)
    if not rows:
        print("the file is empty", file=sys.stderr)
        return 1
    report = profile(rows)
    if args.json:
        print(json.dumps(report, ensure_ascii=False, indent=2))
        return 0
    print(
        f"{report['rows']} rows, {report['ragged_rows']} ragged, "
        f"{report['duplicate_rows']} exact duplicates"
    )
    for column in report["columns"]:
        dirt = {k: column[k] for k in ("padded", "placeholders", "leading_zeros", "case_variants")}
        notes = ", ".join(f"{key} {count}" for key, count in dirt.items() if count)
        kinds = ", ".join(f"{kind} {count}" for kind, count in column["kinds"].items())
        print(
            f"{column['name']}: {column['filled']} filled, {column['empty']} empty, "
            f"{column['distinct']} distinct; {kinds or 'nothing'}" + (f"; {notes}" * bool(notes))
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
