"""Counts names that say nothing: ``python scripts/vague_names.py [--list]``.

``one``, ``found``, ``asked`` and ``place`` fit anything, so they name nothing; the field has a word
for each thing: hit, match, request, folder. The names in the package's code count, not words in
comments, docstrings and texts. ``--list`` prints the lines.
"""

from __future__ import annotations

import argparse
import io
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "skillsearch"
VAGUE = ("one", "found", "asked", "place")
SKILLS = "examples"
"""The folder of the example skills, whose scripts are no code of the package."""


def names(package: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield each name in the code of a package, with its file and line."""
    for path in sorted(package.rglob("*.py")):
        if SKILLS in path.relative_to(package).parts:
            continue
        for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
            if token.type == tokenize.NAME:
                yield path, token.start[0], token.string


def per_ten_thousand(package: Path) -> dict[str, float]:
    """Return how many of 10,000 names are each of the vague ones."""
    counts = Counter(name for _, _, name in names(package))
    return {name: 1e4 * counts[name] / counts.total() for name in VAGUE}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the counts, and with ``--list`` the lines."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="name each line that has one")
    if parser.parse_args(arguments).list:
        for path, line, name in names(PACKAGE):
            if name in VAGUE:
                print(f"{path.relative_to(PACKAGE.parent)}:{line}: {name}")
    shares = per_ten_thousand(PACKAGE)
    words = ", ".join(f"{name} {share:.1f}" for name, share in shares.items())
    print(f"{sum(shares.values()):.1f} of 10,000 names say nothing: {words}")


if __name__ == "__main__":
    main()
