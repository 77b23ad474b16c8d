"""The names that users import from `skillsearch.agents`."""

import pytest

from skillsearch import agents


def test_every_exported_name_can_be_imported():
    """They are listed in order, and each is loaded from its module when it is first used."""
    assert agents.__all__ == sorted(agents.__all__)
    assert [getattr(agents, name).__name__ for name in agents.__all__] == agents.__all__


def test_an_unknown_name_is_an_attribute_error():
    """As of any module."""
    with pytest.raises(AttributeError, match="no attribute 'Toolsets'"):
        _ = agents.Toolsets
