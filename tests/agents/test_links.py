"""Tests of a SKILL.md that links to a text in another root of the user."""

import pytest

from skillsearch import SkillIndex, SkillLibrary
from skillsearch.agents.toolsets import chunks, context
from skillsearch.agents.toolsets.environments import Environment
from skillsearch.agents.toolsets.skills_manager import SkillsManager
from skillsearch.agents.toolsets.workspace import WorkspaceToolset
from skillsearch.index.search.reading import body_of

BODY = "Warm the cup first."


@pytest.fixture
def library(tmp_path):
    """Two roots: a skill of the first links to a text in the second."""
    store, skills = tmp_path / "store", tmp_path / "skills"
    store.mkdir()
    (store / "tea.md").write_text(f"---\nname: tea\ndescription: Brew tea.\n---\n{BODY}\n")
    (skills / "tea").mkdir(parents=True)
    (skills / "tea" / "SKILL.md").symlink_to(store / "tea.md")
    return SkillLibrary.from_roots([skills, store], model="hashing")


def loaded_by_workspace(library):
    workspace = WorkspaceToolset(library, executor=None)
    workspace.toolset().call("skill_load", {"skill": "tea"})
    return workspace.system_prompt()


@pytest.mark.parametrize(
    "load",
    [
        lambda library: chunks.SkillManager(library=library).get_skills_prompt(),
        lambda library: context.SkillsLoader(library=library).load_skill_content("tea"),
        lambda library: SkillsManager(library=library).get_skill_content("tea"),
        loaded_by_workspace,
        lambda library: library.get("tea").body,
    ],
    ids=["chunks", "context", "manager", "workspace", "library"],
)
def test_a_toolset_follows_a_link_into_another_root(library, load):
    assert BODY in load(library)


def test_an_environment_follows_a_link_into_another_root_of_its_index(library, tmp_path):
    SkillIndex.from_roots(tmp_path / "store", index_dir=tmp_path / "index", model="hashing")
    environment = Environment(
        "test", tmp_path / "skills", index_dir=tmp_path / "index", model="hashing"
    )
    assert [info.id for info in environment.list_skills()] == ["tea"]
    answer = environment.toolset().call("skill", {"skill": "tea"})
    assert answer == {"result": {"success": True, "output": BODY}}


def test_a_reader_is_shown_what_lies_behind_a_link(library):
    (document,) = library.list()
    roots = [root.path for root in library.roots]
    assert body_of(document, roots).strip() == BODY
    (hit,) = library.search("warm the cup", 1, 0.0, explain=True)
    assert hit.explain.snippet == BODY
