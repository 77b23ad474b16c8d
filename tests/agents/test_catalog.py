"""Tests of the skills of a library as every toolset offers them."""

import logging

import pytest

from skillsearch import SkillLibrary
from skillsearch.agents.catalog import SkillCatalog, nearest_of
from skillsearch.errors import SkillNotFoundError


@pytest.fixture
def root(tmp_path, make_skill):
    """Two skills; the folder of one has another name than the skill."""
    make_skill(tmp_path / "skills", "steep-tea", "Steep tea.", version="1.2")
    folder = make_skill(tmp_path / "skills", "grind-coffee", "Grind coffee.", version="2.0").parent
    folder.rename(folder.with_name("mill"))
    return tmp_path / "skills"


@pytest.fixture
def catalog(root):
    """Open them, with a threshold that only a perfect score reaches."""
    return SkillCatalog(SkillLibrary.from_roots(root, model="hashing"), threshold=1.0)


@pytest.mark.parametrize("name", ["grind-coffee", "mill", "Mill"])
def test_a_skill_is_found_by_its_name_or_its_folder(catalog, name):
    assert catalog.find(name).name == "grind-coffee"
    assert catalog.find(name, ">=2").name == "grind-coffee"
    with pytest.raises(SkillNotFoundError):
        catalog.find(name, "<2")


def test_the_nearest_names_stand_in_brackets(catalog):
    with pytest.raises(SkillNotFoundError) as caught:
        catalog.find("steep-teas")
    assert nearest_of(caught.value) == " (nearest: steep-tea)"
    assert nearest_of(SkillNotFoundError("x", ())) == ""


def test_a_threshold_of_a_call_replaces_that_of_the_catalog(catalog):
    assert catalog.search("steep tea", 2).hits == ()
    assert [hit.name for hit in catalog.search("steep tea", 1, 0.0)] == ["steep-tea"]


def test_lines_say_how_many_skills_have_no_room(catalog):
    skills = catalog.library.list()
    assert catalog.lines(skills, 1_000) == "- grind-coffee: Grind coffee.\n- steep-tea: Steep tea."
    note = "(not listed: 2 of 2 skills; find them with search_skills)"
    assert catalog.lines(skills, 40) == note


def test_a_diagnostic_is_logged_once_in_the_words_of_its_toolset(root, caplog):
    library = SkillLibrary.from_roots(root, model="hashing")
    ours = logging.getLogger("skillsearch.test")
    catalog = SkillCatalog(library, describe=lambda new: f"seen: {new.code}", logger=ours)
    caplog.clear()
    (root / "empty").mkdir()
    (root / "empty" / "SKILL.md").write_text("---\n- a\n---\n")
    for _ in range(3):
        catalog.refresh()
    assert [record.name for record in caplog.records] == ["skillsearch.test"]
    assert caplog.messages == ["seen: yaml-not-a-mapping"]
