"""Counts names that say nothing: ``python scripts/vague_names.py [--list]``.

``one``, ``found``, ``asked`` and ``place`` fit anything, so they name nothing; the field has a word
for each thing: hit, match, request, folder. The names in the package's code count, not words in
comments, docstrings and texts. ``kind``, ``said``, ``left`` and ``of`` are good names of keys,
methods and arguments of others, so that only variables and parameters of these names count.
``--list`` prints the lines.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

PACKAGE = Path(__file__).resolve().parents[1] / "skillsearch"
VAGUE = ("one", "found", "asked", "place")
VAGUE_VARIABLES = ("kind", "said", "left", "of")
SKILLS = "examples"
"""The folder of the example skills, whose scripts are no code of the package."""

Named: TypeAlias = tuple[Path, int, str]
"""A name, with its file and line."""


def files(package: Path) -> Iterator[Path]:
    """Yield the files of a package's code."""
    for path in sorted(package.rglob("*.py")):
        if SKILLS not in path.relative_to(package).parts:
            yield path


def names(package: Path) -> Iterator[Named]:
    """Yield each name in the code of a package."""
    for path in files(package):
        for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
            if token.type == tokenize.NAME:
                yield path, token.start[0], token.string


def variables(package: Path) -> Iterator[Named]:
    """Yield each name that is assigned to in the code of a package, fields and parameters too."""
    for path in files(package):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield path, node.lineno, node.id
            elif isinstance(node, ast.arg):
                yield path, node.lineno, node.arg


COUNTED: Sequence[tuple[str, Sequence[str], Callable[[Path], Iterator[Named]]]] = (
    ("names", VAGUE, names),
    ("variables", VAGUE_VARIABLES, variables),
)
"""What is counted, which of them are vague, and what yields them."""


def per_ten_thousand(package: Path) -> dict[str, dict[str, float]]:
    """Return how many of 10,000 names, and of variables, are each of the vague ones."""
    shares = {}
    for counted, vague, find in COUNTED:
        counts = Counter(name for _, _, name in find(package))
        shares[counted] = {name: 1e4 * counts[name] / counts.total() for name in vague}
    return shares


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the counts, and with ``--list`` the lines."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="name each line that has one")
    if parser.parse_args(arguments).list:
        for _, vague, find in COUNTED:
            for path, line, name in find(PACKAGE):
                if name in vague:
                    print(f"{path.relative_to(PACKAGE.parent)}:{line}: {name}")
    for counted, shares in per_ten_thousand(PACKAGE).items():
        words = ", ".join(f"{name} {share:.1f}" for name, share in shares.items())
        print(f"{sum(shares.values()):.1f} of 10,000 {counted} say nothing: {words}")


if __name__ == "__main__":
    main()
