"""Break lines of pure modules, one at a time, and see whether their tests notice.

Usage: python scripts/mutate.py [--count 40] [--seed 0] [--least 0.7] [--json]

A mutant turns a comparison, a sum, an ``and``, a condition or a number within a function into
another, in a copy of the checkout; the tests of the module then run on it. One that passes them
survives: a line that no test holds, or one that means the same. Exits with 1 if fewer than the
least share of mutants is noticed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, TypedDict

CHECKOUT = Path(__file__).resolve().parent.parent
MODULES = {
    "evaluation/comparison": "evaluation/test_comparison",
    "evaluation/measures": "evaluation/test_measures",
    "evaluation/states": "evaluation/test_states",
    "index/search/calibration": "index/test_calibration",
    "skills/versions": "skills/test_versions",
    "text/exclusions": "text/test_exclusions",
    "text/unwanted_clauses": "text/test_unwanted_clauses",
    "text/markdown": "text/test_markdown",
    "index/search/passages": "index/test_passages",
    "text/prose": "text/test_prose",
}
"""Pure modules of the package, and the tests of each."""
PAIRS = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn)),
    *((ast.Is, ast.IsNot), (ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.And, ast.Or)),
)
SWAPS = dict(PAIRS) | {second: first for first, second in PAIRS}
TIMEOUT_S = 600


class Report(TypedDict):
    """How many mutants there were, of how many that there can be, and those that survived."""

    mutants: int
    of: int
    noticed: float
    survivors: list[str]


def sites(tree: ast.Module) -> list[ast.AST]:
    """Return the nodes within functions that can be broken, always in the same order."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    statements = chain.from_iterable(function.body for function in functions)
    nodes = {id(node): node for statement in statements for node in ast.walk(statement)}
    return [node for node in nodes.values() if any(True for _ in _changes(node))]


def _changes(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """Yield the name of an attribute and what to put there instead, at most once."""
    match node:
        case ast.Compare(ops=[op, *rest]) if type(op) in SWAPS:
            yield "ops", [SWAPS[type(op)](), *rest]
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in SWAPS:
            yield "op", SWAPS[type(op)]()
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "test", ast.UnaryOp(ast.Not(), test)
        case ast.Constant(value=bool() as value):
            yield "value", not value
        case ast.Constant(value=int() as value):
            yield "value", value + 1


def mutant(source: str, number: int) -> tuple[str, str]:
    """Return a source with one site broken, and which line became what."""
    tree = ast.parse(source)
    node: Any = sites(tree)[number]
    was = ast.unparse(node).partition("\n")[0]
    for name, value in _changes(node):
        setattr(node, name, value)
    became = ast.unparse(ast.fix_missing_locations(node)).partition("\n")[0]
    return ast.unparse(tree), f"{node.lineno}: {was} -> {became}"


def passes(folder: Path, tests: str) -> bool:
    """Return whether the tests of a module pass in a copy of the checkout."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", ""]
    variables = os.environ | {"CI": "true", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, f"tests/{tests}.py"],
            cwd=folder,
            env=variables,
            capture_output=True,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:  # it never ends: noticed
        return False
    return not done.returncode


def copy_checkout(folder: Path) -> None:
    """Copy into a folder what the tests need."""
    for name in ("skillsearch", "tests", "scripts", "pyproject.toml", "README.md"):
        copy: Any = shutil.copytree if (CHECKOUT / name).is_dir() else shutil.copy
        copy(CHECKOUT / name, folder / name)


def run(count: int, seed: int, folder: Path) -> Report:
    """Break so many lines of a copy in the folder; return how many were noticed."""
    copy_checkout(folder)
    paths = {module: folder / f"skillsearch/{module}.py" for module in MODULES}
    sources = {module: path.read_text(encoding="utf-8") for module, path in paths.items()}
    choices = [
        (module, number)
        for module, source in sources.items()
        for number in range(len(sites(ast.parse(source))))
    ]
    chosen = random.Random(seed).sample(choices, min(count, len(choices)))
    for tests in sorted({MODULES[module] for module, _ in chosen}):
        if not passes(folder, tests):
            raise SystemExit(f"tests/{tests}.py fails before anything is broken")
    survivors = []
    for module, number in chosen:
        broken, change = mutant(sources[module], number)
        paths[module].write_text(broken, encoding="utf-8")
        if passes(folder, MODULES[module]):
            survivors.append(f"{module}.py:{change}")
        paths[module].write_text(sources[module], encoding="utf-8")
    noticed = 1 - len(survivors) / len(chosen)
    return {"mutants": len(chosen), "of": len(choices), "noticed": noticed, "survivors": survivors}


def main() -> None:
    """Break, test, tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--least", type=float, default=0.7, help="share that is to be noticed")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = run(args.count, args.seed, Path(folder))
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        print(f"{report['noticed']:.0%} of {report['mutants']} mutants were noticed; survivors:")
        print(*report["survivors"] or ["none"], sep="\n")
    sys.exit(report["noticed"] < args.least)


if __name__ == "__main__":
    main()
