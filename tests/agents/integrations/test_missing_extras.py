"""Tests of the adapters where their libraries are not installed."""

import importlib
import sys

import pytest

from skillsearch.errors import MissingDependencyError


@pytest.mark.parametrize(
    ("adapter", "module", "extra"),
    [
        ("langchain", "langchain_core", "langchain"),
        ("adk", "google.adk", "adk"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
    ],
)
def test_an_adapter_without_its_library_names_the_extra(monkeypatch, adapter, module, extra):
    for loaded in [name for name in sys.modules if name == module or name.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    name = f"skillsearch.agents.integrations.{adapter}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(MissingDependencyError, match=rf"install .*\[{extra}\]"):
        importlib.import_module(name)
