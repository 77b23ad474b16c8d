"""Three skills, a workspace that offers them, and calls of its tools."""

from datetime import UTC, datetime, timedelta

import pytest

from skillsearch.agents.session import SkillSession
from skillsearch.agents.toolsets.workspace import WorkspaceToolset
from skillsearch.library.skill_library import SkillLibrary

MATH = "Small Python utilities for math and text files."
BODY = "Overview\n\nRun short Python scripts inside the skill workspace."
NAMES = ("skill_load", "skill_select_docs", "skill_list_docs", "skill_run")
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def root(tmp_path, make_skill):
    skills = tmp_path / "skills"
    folder = make_skill(skills, "python-math", MATH, body=f"{BODY}\n").parent
    for path in ("USAGE.md", "notes.TXT", "references/api.md", "scripts/fib.py", "data.csv"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(f"content of {path}")
    make_skill(skills, "git-log", "Read the log of a repository.", body="Read the log.\n")
    make_skill(skills, "brew-coffee", "Brew filter coffee with a scale.", body="Grind.\n")
    return skills


@pytest.fixture
def library(root, tmp_path):
    return SkillLibrary.from_roots(root, index_dir=tmp_path / "index", model="hashing")


@pytest.fixture
def open_workspace(library):
    """Open a workspace on a state; each load is a second later than the one before."""

    def open_workspace(state=None, *, agent="", lifetime="turn", max_loaded=None, **options):
        times = (NOON + timedelta(seconds=count) for count in range(10_000))
        session = SkillSession(
            state, agent=agent, lifetime=lifetime, max_loaded=max_loaded, clock=lambda: next(times)
        )
        return WorkspaceToolset(library, session, **options)

    return open_workspace


@pytest.fixture
def workspace(open_workspace):
    return open_workspace()


@pytest.fixture(scope="session")
def call():
    """Call a tool of a workspace, and return its result or its error."""

    def run(workspace, tool, /, **arguments):
        answer = workspace.toolset().call(tool, arguments)
        return answer["result"] if "result" in answer else answer["error"]

    return run


@pytest.fixture(scope="session")
def specs():
    """Return the descriptions and schemas of a workspace's tools by their names."""

    def read(workspace):
        definitions = workspace.toolset().specs("anthropic")
        return {spec["name"]: (spec["description"], spec["input_schema"]) for spec in definitions}

    return read


@pytest.fixture(scope="session")
def enums(specs):
    """Return the names of skills that the tools of a workspace take, for each tool."""

    def read(workspace):
        schemas = {name: schema for name, (_, schema) in specs(workspace).items()}
        return [schemas[name]["properties"]["skill"].get("enum") for name in NAMES]

    return read
