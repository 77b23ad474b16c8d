"""The modules of the package as syntax trees, for the tests of its own source."""

import ast
from functools import cache
from pathlib import Path

import skillsearch

PACKAGE = Path(skillsearch.__file__).parent
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def module_name(path):
    """Return a file's module name inside the package, such as ``index.fusion``."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
EXAMPLES = {name: path for name, path in FILES.items() if name.startswith("examples.")}
PATHS = {name: path for name, path in FILES.items() if name not in EXAMPLES}


@cache
def tree_of(name):
    """Return the syntax tree of a module."""
    return ast.parse(FILES[name].read_text(encoding="utf-8"))


@cache
def nodes_of(name):
    """Return all nodes of a module's syntax tree."""
    return tuple(ast.walk(tree_of(name)))


def offenders(check, names=None):
    """Return what a check finds in each module in which it finds anything."""
    return {name: faults for name in names or PATHS if (faults := check(name))}
