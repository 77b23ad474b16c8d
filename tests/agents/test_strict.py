"""The switch `strict`: skills whose metadata are not as specified are skipped, with a warning."""

import json

import pytest

from skillsearch import SkillLibrary
from skillsearch.agents import LoadSkillChunkTool, SkillManager, SkillsLoader, WorkspaceToolset
from skillsearch.agents.toolsets import context, environments, skills_manager
from skillsearch.errors import SelectionError

GOOD = "---\nname: steep-tea\ndescription: Steep green tea.\n---\nUse 80 C.\n"
BROKEN = {
    "no-name": ("---\ndescription: Steep green tea.\n---\n", "name-missing"),
    "no-description": ("---\nname: no-description\n---\nSteep tea.\n", "description-missing"),
    "unquoted": ("---\nname: unquoted\ndescription: Tea: green\n---\n", "yaml-unquoted-colon"),
    "late": ("Hello.\n\n---\nname: late\ndescription: Tea.\n---\n", "frontmatter-offset"),
    "open": ("---\nname: open\ndescription: Tea.\n\n# Tea\n", "frontmatter-unclosed"),
    "nested": ("---\nmetadata:\n  name: nested\n  description: T\n---\n", "field-nested"),
}
UNNAMED = {
    "upper": ("---\nname: Green Tea\ndescription: Tea.\n---\n", "name-characters"),
    "other": ("---\nname: not-other\ndescription: Tea.\n---\n", "name-differs-from-folder"),
    "a--b": ("---\nname: a--b\ndescription: Tea.\n---\n", "name-hyphens"),
    "long": (f"---\nname: long\ndescription: {'Tea ' * 300}\n---\n", "description-too-long"),
}
"""Names and descriptions that can be read, but are not as the specification has them."""


@pytest.fixture
def root(tmp_path):
    for name, text in {
        "steep-tea": GOOD,
        **{n: t for n, (t, _) in (BROKEN | UNNAMED).items()},
    }.items():
        (tmp_path / "skills" / name).mkdir(parents=True)
        (tmp_path / "skills" / name / "SKILL.md").write_text(text)
    return tmp_path / "skills"


def names_of(toolset, root, tmp_path, strict):
    how = {"model": "hashing", "index_dir": tmp_path / "index", "strict": strict}
    if toolset == "environments":
        loaded = environments.Environment("here", root, **how).list_skills()
        return [info.id for info in loaded]
    if toolset == "skills_manager":
        return skills_manager.SkillsManager(root, **how).list_skills()
    if toolset == "context":
        manager = context.SkillsManager(SkillsLoader(root, **how))
        return [metadata.name for metadata in manager.metadata_list]
    if toolset == "chunks":
        return list(SkillManager(library=SkillLibrary.from_roots(root, **how)).skills)
    library = SkillLibrary.from_roots(root, **how)
    if toolset == "workspace":
        (load, *_) = WorkspaceToolset(library).toolset().specs("anthropic")
        return load["input_schema"]["properties"]["skill"]["enum"]
    return [document.name for document in library.list()]


TOOLSETS = ["library", "skills_manager", "context", "chunks", "workspace", "environments"]


@pytest.mark.parametrize("toolset", TOOLSETS)
def test_every_toolset_skips_and_warns(toolset, root, tmp_path, caplog):
    assert len(names_of(toolset, root, tmp_path, strict=False)) == 1 + len(BROKEN) + len(UNNAMED)
    assert "Skipped" not in caplog.text
    free = {"upper", "other", "a--b", "long"} if toolset == "environments" else set()
    assert set(names_of(toolset, root, tmp_path, strict=True)) == {"steep-tea", *free}
    skipped = [text for text in caplog.messages if text.startswith("Skipped ")]
    assert len(skipped) == len(BROKEN) + (0 if free else len(UNNAMED))


@pytest.mark.parametrize("name", [*BROKEN, *UNNAMED])
def test_what_is_skipped_is_diagnosed_with_the_reason(name, root):
    library = SkillLibrary.from_roots(root, strict=True)
    _, code = (BROKEN | UNNAMED)[name]
    path = root / name / "SKILL.md"
    (warning,) = (
        diagnostic
        for diagnostic in library.diagnostics
        if diagnostic.code == "strict-skipped" and diagnostic.path == str(path)
    )
    assert (warning.severity, code in warning.message) == ("warning", True)
    assert code in {
        diagnostic.code for diagnostic in library.diagnostics if diagnostic.path == str(path)
    }
    with pytest.raises(SelectionError, match=r"left out by the settings.*strict"):
        library.find(f"skills:{name}")
    path.write_text(GOOD.replace("steep-tea", "sound"))
    path.parent.rename(root / "sound")
    library.refresh()
    assert "sound" in [document.name for document in library.list()]


def test_a_folder_without_a_sound_skill_is_empty(root, tmp_path):
    (root / "steep-tea" / "SKILL.md").unlink()
    manager = skills_manager.SkillsManager(
        root, strict=True, model="hashing", index_dir=tmp_path / "i"
    )
    assert (manager.list_skills(), manager.search_skills("steep tea")) == ([], [])
    assert "strict" in manager.get_skill_content("upper")
    chunks = SkillManager(library=manager.library)
    assert chunks.get_skills_prompt() == ""
    answer = LoadSkillChunkTool(chunks).execute({"skill_name": "a--b", "chunk_id": "x"})
    assert "strict" in answer


def test_a_skipped_skill_shadows_none(tmp_path):
    for root, text in (
        ("first", "---\nname: tea\n---\nTea.\n"),
        ("second", GOOD.replace("steep-tea", "tea")),
    ):
        (tmp_path / root / "tea").mkdir(parents=True)
        (tmp_path / root / "tea" / "SKILL.md").write_text(text)
    roots = [tmp_path / "first", tmp_path / "second"]
    assert SkillLibrary.from_roots(roots).find("tea").alias == "first"
    assert SkillLibrary.from_roots(roots, strict=True).find("tea").alias == "second"


def test_many_that_are_skipped_are_counted(root, caplog):
    for number in range(30):
        (root / f"n{number}").mkdir()
        (root / f"n{number}" / "SKILL.md").write_text("---\ndescription: Tea.\n---\n")
    for _ in range(2):
        assert len(SkillLibrary.from_roots(root, strict=True).list()) == 1
    assert len(caplog.messages) == 11
    assert caplog.messages[-1] == "Skipped 30 more, as strict asks."


def test_the_command_line_says_what_it_skips(root, cli, tmp_path):
    index_option = ["--index-dir", tmp_path / "index"]
    assert cli("index", root, "--model", "hashing", *index_option).exit_code == 0
    assert len(cli("list", *index_option).stdout.splitlines()) > 9
    listed = cli("list", "--json", "--strict", *index_option)
    assert [skill["name"] for skill in json.loads(listed.stdout)["skills"]] == ["steep-tea"]
    assert f"Skipped {root / 'no-name' / 'SKILL.md'}: " in listed.stderr
