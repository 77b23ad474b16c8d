"""Tests that every toolset says of a skill that nobody has vouched for it."""

from pathlib import Path

import pytest

from skillsearch.agents.default_tools import library_tools
from skillsearch.agents.session import SkillSession
from skillsearch.agents.tool import Toolset
from skillsearch.agents.toolsets import context
from skillsearch.agents.toolsets.chunks import SkillManager
from skillsearch.agents.toolsets.environments import Environment
from skillsearch.agents.toolsets.server_environment import ServerEnvironment
from skillsearch.agents.toolsets.skills_manager import SkillsManager
from skillsearch.agents.toolsets.workspace import WorkspaceToolset
from skillsearch.library.skill_library import SkillLibrary

WARNING = "From a fetched root: nobody has vouched for it."
QUERY = "steep green tea at the right temperature"


@pytest.fixture
def library(drinks, tmp_path):
    index_dir = tmp_path / "index"
    return SkillLibrary.from_roots(drinks, index_dir=index_dir, model="hashing", trust="fetched")


def test_the_default_tools_tell_trust_in_records(library):
    tools = Toolset(library_tools(library))
    for name, arguments in (("search_skills", {"query": QUERY}), ("list_skills", {})):
        rows = tools.call(name, arguments)["result"]["skills"]
        assert {row["trust"] for row in rows} == {"fetched"}
    loaded = tools.call("load_skill", {"name": "steep-tea"})["result"]
    assert (loaded["trust"], loaded["body"]) == ("fetched", "# Tea\n\nUse 80 C.")


def test_the_manager_warns_its_model_and_not_its_caller(library):
    manager = SkillsManager(library=library)
    tools = manager.toolset()
    text = tools.call("load_skill", {"skill_name": "steep-tea"})["result"]
    assert text == f"{WARNING}\n\n{manager.get_skill_content('steep-tea')}"
    (row,) = tools.call("search_skills", {"query": QUERY, "n": 1})["result"]
    assert row["trust"] == "fetched"


def test_the_context_warns(library):
    skills = context.SkillsManager(context.SkillsLoader(library=library))
    tools = context.toolset(context.ToolContext(workspace_root=Path.cwd(), skills_manager=skills))
    loaded = tools.call("get_skill", {"name": "steep-tea"})["result"]["output"]
    assert loaded.startswith(f"{WARNING}\n\n---\nname: steep-tea")
    lines = tools.call("list_skills", {})["result"]["output"].splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "- brew-coffee [fetched]",
        "- squeeze-lemons [fetched]",
        "- steep-tea [fetched]",
    ]


def test_the_workspace_warns(library):
    session = SkillSession(lifetime="session")
    workspace = WorkspaceToolset(library, session)
    workspace.toolset().call("skill_load", {"skill": "steep-tea"})
    prompt = workspace.system_prompt()
    assert "- steep-tea [fetched]: Steep green tea" in prompt
    assert f"[Loaded] steep-tea\n\n{WARNING}\n\n# Tea" in prompt


def test_the_chunks_warn(library):
    prompt = SkillManager(library=library).get_skills_prompt()
    assert f"## steep-tea\n{WARNING}\n\n# Tea" in prompt
    assert prompt.count(WARNING) == 3


def test_an_environment_warns(drinks, tmp_path):
    options = {"index_dir": tmp_path / "index", "model": "hashing", "trust": "project"}
    tools = Environment("skills", drinks, **options).toolset()
    output = tools.call("skill", {"skill": "steep-tea"})["result"]["output"]
    assert output == "From a project root: nobody has vouched for it.\n\n# Tea\n\nUse 80 C."


@pytest.mark.parametrize(("settings", "warns"), [("skillsearch.toml", True), ("own", False)])
def test_an_environment_of_a_project_is_vouched_for_by_nobody(
    tmp_path, home, make_skill, monkeypatch, settings, warns
):
    monkeypatch.chdir(tmp_path)
    make_skill(tmp_path / "envs" / "work" / "skills")
    own = home / "config" / "skillsearch"
    own.mkdir(parents=True)
    file = own / "skillsearch.toml" if settings == "own" else tmp_path / settings
    file.write_text(f'environments = "{tmp_path / "envs"}"\nmodel = "hashing"\n')
    tools = ServerEnvironment().toolset()
    output = tools.call("skill", {"skill": "tea-timer"})["result"]["output"]
    assert output.startswith("From a project root") == warns
