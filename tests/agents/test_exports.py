"""The names that users import from `skillsearch.agents`."""

import importlib
from collections import Counter

import pytest

from skillsearch import agents

NAMES = {module: names.split() for module, names in agents._HOMES.items()}
HOMES = Counter(name for names in NAMES.values() for name in names)


def test_every_exported_name_can_be_imported():
    assert agents.__all__ == sorted(agents.__all__)
    assert agents.__all__ == sorted(name for name, homes in HOMES.items() if homes == 1)
    for module, names in NAMES.items():
        home = importlib.import_module(f"skillsearch.agents.{module}")
        for name in set(names) & set(agents.__all__):
            assert getattr(agents, name) is getattr(home, name)


@pytest.mark.parametrize("name", sorted(name for name, homes in HOMES.items() if homes > 1))
def test_a_name_of_several_modules_says_where_each_lives(name):
    with pytest.raises(ImportError, match=f"^{name} is not in skillsearch.agents") as caught:
        exec(f"from skillsearch.agents import {name}", {})
    lines = str(caught.value).partition("Use ")[2].split("; or ")
    objects = []
    for line in lines:
        scope = {}
        exec(line, scope)
        objects.append(scope[name])
    assert len({id(exported) for exported in objects}) == len(lines) == HOMES[name]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Toolsets'"):
        _ = agents.Toolsets
