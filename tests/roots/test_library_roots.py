"""Archives and URLs as roots of a library."""

import pytest

from skillsearch.agents.toolsets.skills_manager import SkillsManager
from skillsearch.errors import RootError
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.roots.sources import folder_of

TEA = {"steep-tea/SKILL.md": b"---\nname: steep-tea\ndescription: Steep tea.\n---\nUse 80 C.\n"}


def test_a_library_reads_an_archive_or_refuses_it(pack):
    """Other than a folder that is missing, a refused archive does not come by itself."""
    with pytest.raises(RootError, match="was refused"):
        SkillLibrary.from_roots(pack("drinks.zip", {"../evil": b"x"}))
    archive = pack("drinks.tgz", TEA)
    library = SkillLibrary.from_roots(str(archive), model="hashing")
    assert [root.path for root in library.roots] == [folder_of(archive)]
    assert [root.alias for root in library.roots] == ["drinks"]
    assert library.get("steep-tea").body == "Use 80 C."


def test_a_library_reads_a_url(pack, server):
    """It is asked for once, when the library is made."""
    url = server.page("/drinks.zip", pack("drinks.zip", TEA).read_bytes())
    library = SkillLibrary.from_roots([url], model="hashing")
    library.refresh()
    assert [document.name for document in library.list()] == ["steep-tea"]
    assert len(server.asked) == 1


def test_skills_root_names_the_skills_of_a_manager(pack, monkeypatch, tmp_path):
    archive = pack("drinks.zip", TEA)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLS_ROOT", str(archive))
    manager = SkillsManager(model="hashing")
    assert manager.roots == (folder_of(archive),)
    assert manager.list_skills() == ["steep-tea"]
