"""The manager: its answers are what a model reads, so the texts are held fast."""

from pathlib import Path

import pytest

from skillsearch.agents.toolsets.skills_manager import SkillsManager
from skillsearch.errors import ConfigError, RootError

COMPARE = "import sys\nprint(open(sys.argv[1]).read() == open(sys.argv[2]).read())\n"


@pytest.fixture
def root(tmp_path, make_skill):
    skills = tmp_path / "skills"
    folder = make_skill(
        skills, "file-diff", "Compare two files line by line.", body="# Compare\n\nRun it.\n"
    ).parent
    for path, text in {
        "references/SPEC.md": "one to one",
        "assets/template.md": "# {title}",
        "scripts/compare.py": COMPARE,
        "notes/private.md": "not for tools",
    }.items():
        (folder / path).parent.mkdir()
        (folder / path).write_text(text)
    (folder / "assets" / "logo.png").write_bytes(b"\x89PNG\0")
    make_skill(skills, "data-analysis", "Analyse data in spreadsheets.")
    return skills


@pytest.fixture
def manager(root, tmp_path):
    return SkillsManager(root, index_dir=tmp_path / "index", model="hashing")


@pytest.fixture
def call(manager):
    toolset = manager.toolset()

    def run(name, **arguments):
        answer = toolset.call(name, arguments)
        assert "error" not in answer, answer
        return answer["result"]

    return run


def test_an_unknown_name_is_told_with_the_nearest(manager):
    assert manager.get_skill_content("file-dif") == "未找到技能: file-dif (nearest: file-diff)"


def test_a_skill_that_cannot_be_read_is_told_by_its_folder(manager, root):
    (root / "broken").mkdir()
    (root / "broken" / "SKILL.md").write_text("# Empty")
    assert manager.list_skills() == ["data-analysis", "file-diff"]
    answer = manager.get_skill_content("Broken")
    assert answer.startswith("broken/SKILL.md cannot be read as a skill: The file does not start")
    assert str(root) not in answer


def test_search_gives_names_and_descriptions_alone(manager):
    assert manager.search_skills("compare two files")[0] == {
        "name": "file-diff",
        "description": "Compare two files line by line.",
    }


def test_search_gives_five_unless_told_otherwise(tmp_path, make_skill):
    for number in range(8):
        make_skill(tmp_path / "r", f"tea-{number}", f"Steep green tea {number}.")
    manager = SkillsManager(tmp_path / "r", index_dir=tmp_path / "i", model="hashing")
    assert len(manager.search_skills("steep green tea")) == 5
    assert len(manager.search_skills("steep green tea", 2)) == 2


@pytest.mark.parametrize("arguments", [(" \n",), ("tea", 0)])
def test_what_cannot_be_searched_finds_nothing_and_is_logged(manager, caplog, arguments):
    assert manager.search_skills(*arguments) == []
    assert caplog.messages[-1].startswith("Nothing was searched: ")
    answer = manager.toolset().call(
        "search_skills", dict(zip(("query", "n"), arguments, strict=False))
    )
    assert answer.get("result", []) == []


def test_a_variable_of_another_setting_ends_no_search(manager, monkeypatch, tmp_path):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("SKILLSEARCH_N", "many")
    monkeypatch.setenv("SKILLSEARCH_DAEMON", "maybe")
    assert manager.search_skills("compare two files")[0]["name"] == "file-diff"
    assert SkillsManager().list_skills() == []
    monkeypatch.setenv("SKILLSEARCH_ROOTS", "other")
    monkeypatch.setenv("SKILLS_ROOT", "elsewhere")
    assert [root.name for root in SkillsManager().roots] == ["other"]
    monkeypatch.delenv("SKILLSEARCH_ROOTS")
    assert [root.name for root in SkillsManager().roots] == ["elsewhere"]
    monkeypatch.setenv("SKILLSEARCH_READER", "nobody")
    with pytest.raises(ConfigError, match="SKILLSEARCH_READER='nobody'"):
        SkillsManager(manager.roots[0], model="hashing").search_skills("compare two files")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("references/SPEC.md", "one to one"),
        ("assets/template.md", "# {title}"),
        ("scripts/compare.py", COMPARE),
    ],
)
def test_an_asset_is_read_from_each_of_the_three_folders(manager, path, text):
    assert manager.get_skill_asset("file-diff", path) == text


@pytest.mark.parametrize(
    "path",
    [
        *("../data-analysis/SKILL.md", "references/../SKILL.md"),
        *("/etc/passwd", "SKILL.md", "notes/private.md"),
    ],
)
def test_no_other_path_is_read(manager, path):
    answer = manager.get_skill_asset("file-diff", path)
    assert answer.startswith("The ")
    assert "name:" not in answer
    assert "private" not in answer.replace(path, "")
    assert "root:" not in answer


def test_a_binary_asset_is_told(manager):
    answer = manager.get_skill_asset("file-diff", "assets/logo.png")
    assert answer.startswith("The file 'assets/logo.png' is not text (5 bytes)")


@pytest.mark.parametrize("script", ["../references/SPEC.md", "missing.py"])
def test_no_other_script_has_a_path(manager, script):
    assert not manager.get_skill_script_path("file-diff", script).startswith("/")


def test_assets_are_listed_by_folder(manager):
    assert manager.list_skill_assets("File-Diff") == [
        "assets/logo.png",
        "assets/template.md",
        "references/SPEC.md",
        "scripts/compare.py",
    ]


def test_the_root_is_that_of_the_settings_or_skills(tmp_path, monkeypatch, make_skill):
    monkeypatch.chdir(tmp_path)
    make_skill(tmp_path / "skills", "here")
    make_skill(tmp_path / "other", "there")
    assert SkillsManager().list_skills() == ["here"]
    monkeypatch.setenv("SKILLSEARCH_ROOTS", str(tmp_path / "other"))
    assert SkillsManager().list_skills() == ["there"]


def test_a_new_root_gets_a_readme(tmp_path):
    manager = SkillsManager(tmp_path / "new" / "skills")
    readme = manager.create_root()
    assert readme == tmp_path / "new" / "skills" / "README.md"
    assert "https://agentskills.io/specification" in readme.read_text()
    readme.write_text("mine")
    assert manager.create_root().read_text() == "mine"
    assert manager.list_skills() == []


def test_a_root_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RootError, match="cannot be created"):
        SkillsManager(tmp_path / "file" / "skills").create_root()


def test_an_agent_follows_a_procedure_from_search_to_script(call, root):
    (hit,) = call("search_skills", query="compare two files", n=1)
    name = hit["name"]
    assert "# Compare" in call("load_skill", skill_name=name)
    assets = call("list_skill_assets", skill_name=name)
    assert call("load_skill_asset", skill_name=name, relative_path=assets[2]) == "one to one"
    path = call("get_skill_script_path", skill_name=name, script_name="compare.py")
    assert Path(path).is_file()


@pytest.mark.parametrize("tool", ["load_skill", "list_skill_assets"])
def test_a_tool_answers_an_unknown_skill_with_text(call, tool):
    assert call(tool, skill_name="xxx") == "未找到技能: xxx"
    assert call("list_skill_assets", skill_name="data-analysis") == []
