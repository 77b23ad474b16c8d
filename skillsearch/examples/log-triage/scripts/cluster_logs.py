"""Group log lines that differ only in numbers, ids and quoted values; print the largest groups."""

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path

# Order matters: the specific shapes first, bare numbers last.
SHAPES = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.I), "<uuid>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<ip>"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)[0-9a-f]{12,}\b", re.I), "<hex>"),
    (re.compile(r'"[^"]*"|\'[^\']*\''), "<str>"),
    (re.compile(r"(?<![\w<])[+-]?\d+(?:\.\d+)?"), "<n>"),
]
Group = tuple[int, int, int, str]
"""How many lines have a shape, the numbers of the first and the last one, and the first itself."""


def shape_of(line: str) -> str:
    """Replace what varies from line to line by placeholders."""
    for pattern, mark in SHAPES:
        line = pattern.sub(mark, line)
    return " ".join(line.split())


def cluster(lines: Iterable[str], only: re.Pattern[str]) -> dict[str, Group]:
    """Group the lines that match `only` by their shapes, in the order of their first lines."""
    groups: dict[str, Group] = {}
    for number, raw in enumerate(lines, start=1):
        line = raw.rstrip("\r\n")[:2000]
        if line.strip() and only.search(line):
            shape = shape_of(line)
            count, first, _, sample = groups.get(shape, (0, number, 0, line))
            groups[shape] = count + 1, first, number, sample
    return groups


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?", type=Path, help="log file; default: standard input")
    parser.add_argument(
        "--only", type=re.compile, default="", help="regular expression that lines must match"
    )
    parser.add_argument("--top", type=int, default=20, help="groups to show; default: %(default)s")
    parser.add_argument("--rare", action="store_true", help="show the rarest groups instead")
    args = parser.parse_args()
    if args.path is None:
        groups = cluster(sys.stdin, args.only)
    else:
        with args.path.open(encoding="utf-8", errors="replace") as handle:
            groups = cluster(handle, args.only)
    sign = 1 if args.rare else -1
    ranked = sorted(groups.items(), key=lambda item: sign * item[1][0])
    for shape, (count, first, last, sample) in ranked[: args.top]:
        print(f"{count:>8}  lines {first}-{last}  {shape[:160]}")
        print(f"          e.g. {sample[:200]}")
    total = sum(count for count, *_ in groups.values())
    print(f"{total} lines in {len(groups)} groups", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
