"""The skills of the five documents on disk, and the five systems over them."""

import json
import logging
from functools import cached_property
from pathlib import Path

import pytest
import yaml

from skillsearch.agents.session import SkillSession
from skillsearch.agents.toolsets import (
    chunks,
    context,
    environments,
    server_environment,
    skills_manager,
    workspace,
)
from skillsearch.execution.executors import select_executor
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.workspaces.workspace import Workspaces
from skillsearch.library.skill_library import SkillLibrary

HERE = Path(__file__).parent
CORPUS = {
    row["_id"]: row
    for row in map(json.loads, (HERE / "corpus.jsonl").read_text("utf-8").splitlines())
}


def skill_md(row):
    head = {key: row[key] for key in ("name", "description", "version") if key in row}
    return f"---\n{yaml.safe_dump(head, allow_unicode=True, sort_keys=False)}---\n\n{row['body']}"


def write_skills(root, ids, file_name="SKILL.md"):
    for name in ids:
        texts = {file_name: skill_md(CORPUS[name]), **CORPUS[name].get("files", {})}
        for path, text in texts.items():
            file = root / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")


class Systems:
    """The five systems over one folder, each made when it is first used."""

    def __init__(self, folder, root=None, runner=None, **options):
        """Take a folder of skills, or write those of all documents, and an environment of two."""
        self.folder = folder
        self.options = {"index_dir": folder / "index", **options}
        self.state = {}
        self.runner = runner or SkillRunner(
            select_executor("local"), workspaces=Workspaces(folder / "workspaces")
        )
        self.environments = folder / "environments"
        self.root = root or self.environments / "documents" / "skills"
        if root is None:
            write_skills(self.root, CORPUS)
            two = ("test-skill", "another-skill")
            write_skills(self.environments / "test-env" / "skills", two, "skill.md")

    def add(self, skill, text, root=None, file="SKILL.md"):
        """Write a file of a skill, by default into the folder of all."""
        path = (root or self.root) / skill / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    @cached_property
    def environment(self):
        """The system of document 000, over the folder of all."""
        return environments.Environment("documents", self.root, **self.options)

    @cached_property
    def server(self):
        return server_environment.ServerEnvironment(self.environments, "test-env")

    @cached_property
    def chunks(self):
        manager = chunks.SkillManager(**self.options)
        manager.load_from_directory(self.root)
        return manager

    @cached_property
    def chunk_tool(self):
        return chunks.LoadSkillChunkTool(self.chunks)

    @cached_property
    def loader(self):
        return context.SkillsLoader(self.root, **self.options)

    @cached_property
    def skills(self):
        return context.SkillsManager(self.loader)

    @cached_property
    def ctx(self):
        return context.ToolContext(workspace_root=self.root, skills_manager=self.skills)

    @cached_property
    def manager(self):
        return skills_manager.SkillsManager(self.root, **self.options)

    @cached_property
    def library(self):
        return SkillLibrary.from_roots(self.root, **self.options)

    @cached_property
    def workspace(self):
        session = SkillSession(self.state)
        return workspace.WorkspaceToolset(self.library, session, runner=self.runner)

    def toolset(self, document):
        return {
            "000": lambda: self.environment.toolset(),
            "001": lambda: self.chunk_tool.toolset(),
            "002": lambda: context.toolset(self.ctx),
            "003": lambda: self.manager.toolset(),
            "004": lambda: self.workspace.toolset(),
        }[document]()

    def spec(self, document, tool):
        """Return the definition of a tool, as a model is sent it."""
        specs = self.toolset(document).specs("anthropic")
        return next(spec for spec in specs if spec["name"] == tool)

    def schema(self, document, tool):
        """Return what a tool's arguments may be, by their names."""
        return self.spec(document, tool)["input_schema"].get("properties", {})

    def call(self, document, tool, **arguments):
        """Call a tool; return its result, or the message of its error."""
        answer = self.toolset(document).call(tool, arguments)
        return answer["result"] if "result" in answer else answer["error"]["message"]

    def run(self, command, skill="python-math", **arguments):
        """Load a skill of document 004 and run a command of it."""
        self.call("004", "skill_load", skill=skill)
        return self.call("004", "skill_run", skill=skill, command=command, **arguments)

    def search(self, document, text):
        """Return the folders of what a system gives for a request, best first."""
        if document == "000":
            return [skill["id"] for skill in self.environment.search_skills(text)]
        if document == "001":
            answer = self.chunks.search(text)
            return [hit.doc_id.partition(":")[2] for hit in (*answer, *answer.perhaps)]
        if document == "002":
            return [skill.path.parent.name for skill in self.skills.search_skills(text)]
        if document == "003":
            names = [skill["name"] for skill in self.manager.search_skills(text)]
        else:
            lines = self.workspace.system_prompt(text).partition("\n\n")[0].splitlines()
            names = [line[2:].partition(": ")[0] for line in lines if line.startswith("- ")]
        folders = {row["name"]: folder for folder, row in CORPUS.items()}
        return [folders[name] for name in names]


class Log(logging.Handler):
    """Keeps what is logged."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """The skills of all documents and an index of them, for systems that write nothing."""
    folder = tmp_path_factory.mktemp("shared")
    write_skills(folder / "skills", CORPUS)
    return {"root": folder / "skills", "index_dir": folder / "index"}


@pytest.fixture
def make_systems(tmp_path_factory):
    """Make the five systems, each time in a folder of their own."""
    created = []

    def make(root=None, runner=None, **options):
        created.append(Systems(tmp_path_factory.mktemp("systems"), root, runner, **options))
        return created[-1]

    yield make
    for systems in created:
        systems.runner.close()


@pytest.fixture(scope="session")
def read_systems(tmp_path_factory, shared):
    """Make the five systems once, for tests that write nothing."""
    systems = Systems(tmp_path_factory.mktemp("systems"), model="hashing", **shared)
    yield systems
    systems.runner.close()


@pytest.fixture
def systems(make_systems):
    return make_systems()


@pytest.fixture
def logged():
    """Do something, and return what was logged meanwhile, as one text."""

    def lines_of(act):
        log, logger = Log(), logging.getLogger("skillsearch")
        level = logger.level
        logger.addHandler(log)
        logger.setLevel(logging.INFO)
        try:
            act()
        finally:
            logger.removeHandler(log)
            logger.setLevel(level)
        return "\n".join(log.lines)

    return lines_of


@pytest.fixture(scope="session")
def corpus():
    """The skills of the collection by their folders."""
    return CORPUS
