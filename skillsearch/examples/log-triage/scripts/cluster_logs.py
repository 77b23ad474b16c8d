"""Group log lines that differ only in numbers, ids and quoted values; print the largest groups."""

import argparse
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
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


@dataclass
class Group:
    """Lines of one shape."""

    count: int
    first: int
    last: int
    sample: str


def shape_of(line: str) -> str:
    """Replace what varies from line to line by placeholders."""
    for pattern, mark in SHAPES:
        line = pattern.sub(mark, line)
    return " ".join(line.split())


def cluster(lines: Iterable[str], only: re.Pattern[str] | None) -> dict[str, Group]:
    """Count the shapes of all lines that match `only`."""
    groups: dict[str, Group] = {}
    for number, raw in enumerate(lines, start=1):
        line = raw.rstrip("\r\n")[:2000]
        if not line.strip() or (only and not only.search(line)):
            continue
        shape = shape_of(line)
        group = groups.get(shape)
        if group is None:
            groups[shape] = Group(1, number, number, line)
        else:
            group.count += 1
            group.last = number
    return groups


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?", type=Path, help="log file; default: standard input")
    parser.add_argument("--only", type=re.compile, help="regular expression that lines must match")
    parser.add_argument("--top", type=int, default=20, help="groups to show; default: %(default)s")
    parser.add_argument("--rare", action="store_true", help="show the rarest groups instead")
    args = parser.parse_args()
    if args.path is None:
        groups = cluster(sys.stdin, args.only)
    else:
        with args.path.open(encoding="utf-8", errors="replace") as handle:
            groups = cluster(handle, args.only)
    sign = 1 if args.rare else -1
    ranked = sorted(groups.items(), key=lambda item: (sign * item[1].count, item[1].first))
    for shape, group in ranked[: args.top]:
        print(f"{group.count:>8}  lines {group.first}-{group.last}  {shape[:160]}")
        print(f"          e.g. {group.sample[:200]}")
    total = sum(group.count for group in groups.values())
    print(f"{total} lines in {len(groups)} groups", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
