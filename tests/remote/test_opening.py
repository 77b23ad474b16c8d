"""The index in Milvus that the settings name."""

from dataclasses import replace

import pytest

from skillsearch.errors import ConfigError
from skillsearch.index.roots.root_change import RootChange
from skillsearch.remote import opening
from skillsearch.settings.table import Settings

SETTINGS = Settings(backend="milvus", uri="http://memory")


def test_a_server_without_an_address_is_refused():
    with pytest.raises(ConfigError, match="needs the address of a server: --uri"):
        opening.open_in_milvus(replace(SETTINGS, uri=""))


def test_a_change_is_planned_upon_what_the_collection_holds(index_in, root, tmp_path, monkeypatch):
    """And in a local index, upon what that holds."""
    remote, _ = index_in(root)
    monkeypatch.setattr(opening, "open_in_milvus", lambda _settings: remote)
    more = tmp_path / "more"
    more.mkdir()
    assert opening.planned(RootChange((more,), settings=SETTINGS)).roots == (root, more)
    local = Settings(index_dir=tmp_path / "index")
    assert opening.planned(RootChange((more,), settings=local)).roots == (more,)
