"""Tests of the front door: the public names, and what importing them costs."""

import ast
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import skillsearch

HEAVY = set(
    "click faiss numpy onnxruntime packaging platformdirs pydantic rank_bm25 rich "
    "sentence_transformers tokenizers torch yaml".split()
)


def test_all_is_sorted_and_names_everything_public():
    source = Path(skillsearch.__file__).read_text(encoding="utf-8")
    public = {
        name
        for name, value in vars(skillsearch).items()
        if not name.startswith("_")
        and not isinstance(value, type(sys))
        and value is not typing.TYPE_CHECKING
    }
    tree = ast.parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported = {alias.asname or alias.name for node in imports for alias in node.names}
    assert skillsearch.__all__ == sorted(skillsearch.__all__)
    assert set(skillsearch.__all__) == public | imported - {"__version__"}
    assert len(source.splitlines()) <= 40


@pytest.mark.parametrize("name", skillsearch.__all__)
def test_every_public_name_is_there_and_documented(name):
    assert getattr(skillsearch, name).__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'nonsense'"):
        _ = skillsearch.nonsense


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, skillsearch; print(*sys.modules)"
    folder = Path(skillsearch.__file__).parents[1]
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder
    )
    assert not HEAVY & set(run.stdout.split())
