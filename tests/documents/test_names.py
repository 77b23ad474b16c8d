"""The table of what the five documents name: methods, tools, arguments, defaults and texts.

Names are those of the documents in Python's spelling. Behaviour is tested beside each toolset; here
each row fails when a name, an argument, a default or a text is another.
"""

import dataclasses
import inspect
import logging
from pathlib import Path

import pytest
from pydantic import BaseModel

from skillsearch.agents.tool import ToolResult, Toolset
from skillsearch.agents.toolsets import chunks, context, skills_manager
from skillsearch.agents.toolsets.chunks import LoadSkillChunkTool
from skillsearch.agents.toolsets.environments import (
    Environment,
    ServerEnvironment,
    SkillInfo,
    SkillLoader,
    base_skill_tool,
    create_skill_tool_with_description,
)
from skillsearch.execution.artifacts import FolderArtifacts
from skillsearch.execution.executors import select_executor
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.types import DEFAULT_TIMEOUT
from skillsearch.execution.workspace import Workspaces

REQUIRED = inspect.Parameter.empty

METHODS = [  # document, function, its arguments with their defaults
    ("000", SkillLoader.__init__, {"skills_dir": REQUIRED}),
    ("000", SkillLoader.load_all, {}),
    ("000", create_skill_tool_with_description, {"skills": REQUIRED}),
    ("000", Environment.list_skills, {}),
    ("000", Environment.get_skill, {"id": REQUIRED}),
    ("000", Environment.get_skills_info_for_tool_description, {}),
    ("000", Environment.get_skills_directory, {}),
    ("000", Environment.load_skills, {}),
    ("000", Environment.register_tool, {"tool": REQUIRED}),
    ("000", Environment.list_tools, {}),
    ("000", ServerEnvironment.load_from_config, {}),
    ("000", ServerEnvironment.switch_environment, {"name": REQUIRED}),
    ("000", ServerEnvironment.reload, {}),
    ("001", chunks.SkillManager.load_from_directory, {"dir": REQUIRED}),
    ("001", chunks.SkillManager.register_skill, {"content": REQUIRED}),
    ("001", chunks.SkillManager.get_skills_prompt, {}),
    (
        "001",
        chunks.SkillManager.activate_chunk,
        {"skill_name": REQUIRED, "chunk_id": REQUIRED},
    ),
    ("001", LoadSkillChunkTool.__init__, {"manager": REQUIRED}),
    ("001", LoadSkillChunkTool.execute, {"args": REQUIRED}),
    ("002", context.SkillsLoader.__init__, {"skills_root": Path(".skills")}),
    ("002", context.SkillsLoader.load_skill_metadata, {"skill_name": REQUIRED}),
    ("002", context.SkillsLoader.load_all_metadata, {}),
    ("002", context.SkillsLoader.load_skill_content, {"skill_name": REQUIRED}),
    ("002", context.SkillsManager.__init__, {"loader": REQUIRED}),
    ("002", context.SkillsManager.search_skills, {"query": REQUIRED, "limit": 3}),
    ("002", context.SkillsManager.get_skill_content, {"skill_name": REQUIRED}),
    ("002", context.SkillsManager.get_metadata_summary, {}),
    ("002", context.calculate_match_score, {"query": REQUIRED, "metadata": REQUIRED}),
    ("002", context.list_skills, {"ctx": REQUIRED, "args": REQUIRED}),
    ("002", context.search_skills, {"ctx": REQUIRED, "args": REQUIRED}),
    ("002", context.get_skill, {"ctx": REQUIRED, "args": REQUIRED}),
    ("003", skills_manager.SkillsManager.__init__, {"skills_root": None}),
    ("003", skills_manager.SkillsManager.list_skills, {}),
    ("003", skills_manager.SkillsManager.get_skill_content, {"name": REQUIRED}),
    ("003", skills_manager.SkillsManager.search_skills, {"query": REQUIRED, "n": 5}),
    (
        "003",
        skills_manager.SkillsManager.get_skill_asset,
        {"skill_name": REQUIRED, "relative_path": REQUIRED},
    ),
    (
        "003",
        skills_manager.SkillsManager.get_skill_script_path,
        {"skill_name": REQUIRED, "script_name": REQUIRED},
    ),
    ("003", skills_manager.SkillsManager.list_skill_assets, {"skill_name": REQUIRED}),
    ("003", skills_manager.SkillsManager.create_root, {}),
]

FIELDS = [  # document, type, its fields with their defaults
    (
        "000",
        SkillInfo,
        {"id": REQUIRED, "name": REQUIRED, "description": REQUIRED, "path": REQUIRED},
    ),
    ("000", ToolResult, {"success": REQUIRED, "output": "", "error": None}),
    ("001", chunks.SkillMetadata, {"name": REQUIRED, "version": "", "description": REQUIRED}),
    ("001", chunks.SkillChunk, {"id": REQUIRED, "description": REQUIRED, "content": REQUIRED}),
    (
        "001",
        chunks.Skill,
        {
            "metadata": REQUIRED,
            "core_content": REQUIRED,
            "chunks": REQUIRED,
            "active_chunks": frozenset(),
        },
    ),
    (
        "002",
        context.SkillMetadata,
        {"name": REQUIRED, "description": REQUIRED, "path": REQUIRED},
    ),
    (
        "002",
        context.Skill,
        {
            "name": REQUIRED,
            "description": REQUIRED,
            "content": REQUIRED,
            "path": REQUIRED,
            "loaded_at": "now",
        },
    ),
    (
        "002",
        context.ToolContext,
        {
            "workspace_root": REQUIRED,
            "todos": [],
            "mode": "code",
            "browser_session": None,
            "skills_manager": None,
            "active_skills": [],
        },
    ),
    ("002", context.ListSkillsArgs, {}),
    ("002", context.SearchSkillsArgs, {"query": REQUIRED, "limit": 5}),
    ("002", context.GetSkillArgs, {"name": REQUIRED}),
]

TOOLS = [  # document, tool, its arguments with their defaults; None for one that may be left out
    ("000", "skill", {"skill": REQUIRED}),
    ("001", "load_skill_chunk", {"skill_name": REQUIRED, "chunk_id": REQUIRED}),
    ("002", "list_skills", {}),
    ("002", "search_skills", {"query": REQUIRED, "limit": 5}),
    ("002", "get_skill", {"name": REQUIRED}),
    ("003", "load_skill", {"skill_name": REQUIRED}),
    ("003", "search_skills", {"query": REQUIRED, "n": 5}),
    ("003", "load_skill_asset", {"skill_name": REQUIRED, "relative_path": REQUIRED}),
    ("003", "get_skill_script_path", {"skill_name": REQUIRED, "script_name": REQUIRED}),
    ("003", "list_skill_assets", {"skill_name": REQUIRED}),
    ("004", "skill_load", {"skill": REQUIRED, "docs": None, "include_all_docs": False}),
    (
        "004",
        "skill_select_docs",
        {"skill": REQUIRED, "docs": None, "include_all_docs": False, "mode": "replace"},
    ),
    ("004", "skill_list_docs", {"skill": REQUIRED}),
    (
        "004",
        "skill_run",
        {
            "skill": REQUIRED,
            "command": REQUIRED,
            "cwd": "",
            "env": {},
            "output_files": [],
            "inputs": [],
            "outputs": None,
            "timeout": None,
            "save_as_artifacts": False,
            "omit_inline_content": False,
            "artifact_prefix": "",
            "stdin": "",  # this and the next: in the tool that the document tells of
            "editor_text": None,
        },
    ),
]

OBJECTS = [  # document, tool, argument, the fields of its object with their defaults
    (
        "004",
        "skill_run",
        "inputs",
        {"from": REQUIRED, "to": "", "mode": "copy", "pin": False},  # pin as stdin above
    ),
    (
        "004",
        "skill_run",
        "outputs",
        {
            "globs": [],
            "inline": False,
            "save": False,
            "name_template": "",
            "max_files": 100,
            "max_file_bytes": 4 * 1024 * 1024,
            "max_total_bytes": 64 * 1024 * 1024,
        },
    ),
]

FIBONACCI = """import sys
a, b = 0, 1
for _ in range(int(sys.argv[1])):
    print(a)
    a, b = b, a + b
"""


@pytest.fixture
def host(tmp_path):
    """The folder of the host that inputs may come from."""
    folder = tmp_path / "host"
    folder.mkdir()
    (folder / "data.txt").write_text("from the host")
    return folder


@pytest.fixture
def runner(tmp_path, host):
    """Runs commands in plain processes of this machine."""
    artifacts = FolderArtifacts(tmp_path / "artifacts")
    artifacts.save("kept.txt", b"from the store", "text/plain")
    runner = SkillRunner(
        select_executor("local"),
        workspaces=Workspaces(tmp_path / "workspaces"),
        artifacts=artifacts,
        host_folders=(host,),
    )
    yield runner
    runner.close()


@pytest.fixture
def systems(tmp_path, make_skill, make_systems, runner):
    """Two skills, one of them with chunks and files."""
    root = tmp_path / "skills"
    body = 'Core.\n<chunk id="deep" description="More of it.">Details.</chunk>\n'
    folder = make_skill(
        root, "python-math", "Small utilities for math.", body, version="1.2"
    ).parent
    (folder / "USAGE.md").write_text("Usage.")
    (folder / "references").mkdir()
    (folder / "references" / "REFERENCE.md").write_text("Reference.")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "fib.py").write_text(FIBONACCI)
    make_skill(root, "data-analysis", "Analyse data.", "Look at it.")
    return make_systems(root, runner, model="hashing")


def arguments_of(function):
    """Return the arguments of a function that can be given by place, with their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.name != "self"
        and parameter.kind not in {parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD}
    }


def fields_of(type_):
    """Return the fields of a dataclass or a pydantic model, with their defaults."""
    if issubclass(type_, BaseModel):
        return {
            name: field.get_default(call_default_factory=True)
            if not field.is_required()
            else REQUIRED
            for name, field in type_.model_fields.items()
        }
    return {
        field.name: field.default if field.default is not dataclasses.MISSING else REQUIRED
        for field in dataclasses.fields(type_)
        if field.default_factory is dataclasses.MISSING
    }


@pytest.mark.parametrize(
    ("document", "function", "arguments"),
    METHODS,
    ids=[f"{d}-{f.__qualname__}" for d, f, _ in METHODS],
)
def test_a_method_takes_the_arguments_of_its_document(document, function, arguments):
    """In their order, with their defaults; more can be given by keyword, or behind them."""
    found = arguments_of(function)
    assert list(found.items())[: len(arguments)] == list(arguments.items())
    assert REQUIRED not in list(found.values())[len(arguments) :]


@pytest.mark.parametrize(
    ("document", "type_", "fields"), FIELDS, ids=[f"{d}-{t.__qualname__}" for d, t, _ in FIELDS]
)
def test_a_type_has_the_fields_of_its_document(document, type_, fields):
    found = fields_of(type_)
    assert fields.keys() <= found.keys()
    assert {name: found[name] for name in fields if fields[name] != "now"} == {
        name: default for name, default in fields.items() if default != "now"
    }
    assert REQUIRED not in [found[name] for name in found.keys() - fields.keys()]


@pytest.mark.parametrize(
    ("document", "tool", "arguments"), TOOLS, ids=[f"{d}-{t}" for d, t, _ in TOOLS]
)
def test_a_tool_takes_the_arguments_of_its_document(systems, document, tool, arguments):
    specs = {
        spec["name"]: spec["input_schema"] for spec in systems.toolset(document).specs("anthropic")
    }
    schema = specs[tool]
    assert schema.get("properties", {}).keys() == arguments.keys()
    assert set(schema.get("required", [])) == {n for n, d in arguments.items() if d is REQUIRED}
    shown = {n: p.get("default") for n, p in schema.get("properties", {}).items() if n in arguments}
    assert shown == {n: None if d is REQUIRED else d for n, d in arguments.items()}


@pytest.mark.parametrize(
    ("document", "tool", "argument", "fields"),
    OBJECTS,
    ids=[f"{d}-{t}-{a}" for d, t, a, _ in OBJECTS],
)
def test_an_object_has_the_fields_of_its_document(systems, document, tool, argument, fields):
    specs = systems.toolset(document).specs("anthropic")
    (schema,) = [spec["input_schema"] for spec in specs if spec["name"] == tool]
    found = schema["properties"][argument]
    found = found.get("items", found)
    assert set(found.get("required", [])) == {n for n, d in fields.items() if d is REQUIRED}
    shown = {name: field.get("default", REQUIRED) for name, field in found["properties"].items()}
    assert shown == fields


def test_there_are_no_tools_beyond_those_of_the_documents(systems):
    """But for a catalogue that is too large to be described."""
    named = {(document, tool) for document, tool, _ in TOOLS}
    found = {
        (document, tool.name)
        for document in ("000", "001", "002", "003", "004")
        for tool in systems.toolset(document).tools()
    }
    assert found == named


TEXTS = [  # document, what is done, the text that the document gives for it
    ("000", lambda s: base_skill_tool.description, "Execute a skill."),
    (
        "000",
        lambda s: s.environment.list_tools()[0].description,
        "Execute a skill. Available skills:\n- data-analysis: Analyse data.\n"
        "- python-math: Small utilities for math.",
    ),
    (
        "000",
        lambda s: s.environment.get_skills_info_for_tool_description(),
        "- data-analysis: Analyse data.\n- python-math: Small utilities for math.",
    ),
    (
        "000",
        lambda s: s.toolset("000").specs("anthropic")[0]["input_schema"]["properties"]["skill"][
            "description"
        ],
        "The skill ID to execute",
    ),
    (
        "000",
        lambda s: s.call("000", "skill", skill="nope")["error"],
        "Skill not found: nope. Available skills: data-analysis, python-math",
    ),
    (
        "000",
        lambda s: Toolset([base_skill_tool]).call("skill", {"skill": "x"})["result"]["error"],
        "Environment not available",
    ),
    ("000", lambda s: s.call("000", "skill", skill="data-analysis")["output"], "Look at it."),
    (
        "001",
        lambda s: s.chunks.get_skills_prompt(),
        "## data-analysis\nLook at it.\n\n"
        "## python-math\nCore.\n[Available Chunks]\n- deep: More of it.",
    ),
    (
        "001",
        lambda s: s.call("001", "load_skill_chunk", skill_name="python-math", chunk_id="deep"),
        "Details.",
    ),
    ("001", lambda s: s.chunks.skills["python-math"].metadata.version, "1.2"),
    ("001", lambda s: s.chunks.skills["python-math"].core_content, "Core."),
    ("001", lambda s: list(s.chunks.update_variables()), ["skill_docs"]),
    (
        "002",
        lambda s: context.skills_prompt(s.skills),
        "## Available Skills\n\nThe following skills are available to assist with specific tasks:"
        "\n\n- data-analysis: Analyse data.\n- python-math: Small utilities for math.\n\n"
        "When a task matches a skill's description, you can use the `get_skill` tool to retrieve "
        "the full skill content and follow its instructions.",
    ),
    (
        "002",
        lambda s: [found.name for found in s.skills.metadata_list],
        ["data-analysis", "python-math"],
    ),
    ("002", lambda s: s.skills.get_skill_content("nope"), None),
    ("003", lambda s: s.manager.get_skill_content("xxx"), "未找到技能: xxx"),
    ("003", lambda s: s.call("003", "load_skill", skill_name="xxx"), "未找到技能: xxx"),
    (
        "003",
        lambda s: s.call(
            "003",
            "load_skill_asset",
            skill_name="Python-Math",
            relative_path="references/REFERENCE.md",
        ),
        "Reference.",
    ),
    (
        "003",
        lambda s: s.call("003", "list_skill_assets", skill_name="python-math"),
        ["references/REFERENCE.md", "scripts/fib.py"],
    ),
    ("003", lambda s: skills_manager.SkillsManager(s.root / "none").list_skills(), []),
    ("003", lambda s: skills_manager.SkillsManager(s.root / "none").search_skills("x"), []),
    ("004", lambda s: s.call("004", "skill_load", skill="python-math"), "loaded: python-math"),
    (
        "004",
        lambda s: s.call("004", "skill_list_docs", skill="python-math"),
        ["USAGE.md", "references/REFERENCE.md"],
    ),
    (
        "004",
        lambda s: s.call(
            "004", "skill_select_docs", skill="python-math", docs=["USAGE.md"], mode="add"
        ),
        {
            "skill": "python-math",
            "selected_docs": ["USAGE.md"],
            "include_all_docs": False,
            "mode": "add",
        },
    ),
]


@pytest.mark.parametrize(
    ("document", "act", "text"),
    TEXTS,
    ids=[f"{document}-{place}" for place, (document, _, _) in enumerate(TEXTS)],
)
def test_an_answer_is_that_of_its_document(systems, document, act, text):
    assert act(systems) == text


@pytest.mark.parametrize(
    ("document", "act", "beginning"),
    [
        ("004", lambda s: s.call("004", "skill_load", skill="nope"), "unknown skill: nope"),
        ("004", lambda s: s.call("004", "skill_list_docs", skill="nope"), "unknown skill: nope"),
        ("004", lambda s: s.call("004", "skill_load", skill=""), "skill is required"),
        (
            "004",
            lambda s: s.workspace.system_prompt(),
            "Available skills:\n- data-analysis: Analyse",
        ),
    ],
)
def test_an_answer_begins_as_that_of_its_document(systems, document, act, beginning):
    assert act(systems).startswith(beginning)


@pytest.mark.parametrize(
    ("arguments", "docs"),
    [
        ({}, None),
        ({"docs": ["USAGE.md"]}, '["USAGE.md"]'),
        ({"include_all_docs": True}, "*"),
    ],
)
def test_loading_writes_the_session_keys_of_the_document(systems, arguments, docs):
    """A host that keeps the state finds them under these names."""
    systems.call("004", "skill_load", skill="python-math", **arguments)
    assert systems.state["temp:skill:loaded:python-math"] == "1"
    assert systems.state.get("temp:skill:docs:python-math") == docs


@pytest.mark.parametrize(
    ("mode", "selected"),
    [("add", '["USAGE.md", "references/REFERENCE.md"]'), ("replace", None), ("clear", "[]")],
)
def test_selecting_documents_has_the_three_modes_of_the_document(systems, mode, selected):
    systems.call("004", "skill_load", skill="python-math", docs=["USAGE.md"])
    arguments = {"docs": ["references/REFERENCE.md"], "mode": mode}
    systems.call("004", "skill_select_docs", skill="python-math", **arguments)
    expected = selected or '["references/REFERENCE.md"]'
    found = systems.state["temp:skill:docs:python-math"]
    assert found.replace('","', '", "') == expected


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("just text", "No frontmatter found in"),
        ("---\nname: x\n---\n", "Missing name or description in"),
        ("---\n- a\n---\n", "Failed to"),
    ],
)
def test_a_skill_that_cannot_be_loaded_is_logged_in_the_words_of_the_document(
    systems, caplog, content, words
):
    (systems.root / "broken").mkdir()
    (systems.root / "broken" / "skill.md").write_text(content)
    with caplog.at_level(logging.WARNING, "skillsearch"):
        systems.environment.load_skills()
    assert [info.id for info in systems.environment.list_skills()] == [
        "data-analysis",
        "python-math",
    ]
    assert any(words in record.getMessage() for record in caplog.records)


def run(systems, command, /, **arguments):
    """Load the skill of document 004 and run a command of it; return the result."""
    systems.call("004", "skill_load", skill="python-math")
    return systems.call("004", "skill_run", skill="python-math", command=command, **arguments)


def test_the_example_of_the_document_runs(systems):
    """From skill_load to the collected file, with all fields of the document's result."""
    result = run(
        systems, "python3 scripts/fib.py 10 > out/fib.txt", output_files=["out/fib.txt"], timeout=60
    )
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("", "", 0)
    assert result["timed_out"] is False
    assert 0 < result["duration_ms"] < 60_000
    (file,) = result["output_files"]
    assert (file["name"], file["mime_type"]) == ("out/fib.txt", "text/plain")
    assert file["content"].split() == "0 1 1 2 3 5 8 13 21 34".split()


def test_a_skill_is_run_only_after_it_was_loaded(systems):
    """The document's flow: first skill_load, then skill_run."""
    message = systems.call("004", "skill_run", skill="python-math", command="true")
    assert message == 'skill_run requires skill_load first for "python-math"'


FOLDERS = {
    "WORKSPACE_DIR": ".",
    "SKILLS_DIR": "skills",
    "WORK_DIR": "work",
    "OUTPUT_DIR": "out",
    "RUN_DIR": "runs/run_*",
}


def test_a_run_has_the_folders_of_the_document_in_its_environment(systems, tmp_path):
    """All of one workspace; what runs there can write to them."""
    command = "; ".join(f"cd ${name} && pwd -P && touch written-{name}" for name in FOLDERS)
    paths = run(systems, command)["stdout"].split()
    for path, (name, folder) in zip(paths, FOLDERS.items(), strict=True):
        (written,) = (tmp_path / "workspaces").glob(f"ws_*/{folder}/written-{name}")
        assert path == str(written.parent.resolve())


def test_a_run_knows_its_skill(systems):
    assert run(systems, "echo $SKILL_NAME")["stdout"] == "python-math\n"


@pytest.mark.parametrize(
    ("cwd", "folder"),
    [({}, "skills/python-math"), ({"cwd": "scripts"}, "skills/python-math/scripts")],
)
def test_a_command_runs_where_the_document_says(systems, cwd, folder):
    result = run(systems, "pwd -P; cd $WORKSPACE_DIR; pwd -P", **cwd)
    found, top = result["stdout"].split()
    assert found == f"{top}/{folder}"


def test_the_folder_of_a_skill_has_the_links_of_the_document(systems):
    """So that paths in the text of a skill mean the folders of the workspace."""
    links = {"out": "out", "work": "work", "inputs": "work/inputs"}
    steps = [
        f"test -L {link} && touch {link}/x-{link} && ls $WORKSPACE_DIR/{folder}/x-{link}"
        for link, folder in links.items()
    ]
    assert run(systems, " && ".join(steps))["exit_code"] == 0


def test_a_command_is_run_by_bash_as_a_login_shell(systems):
    result = run(systems, "shopt -q login_shell && [[ $0 == bash ]] && echo $BASH_VERSION")
    assert result["stdout"] > "3"


def test_a_run_takes_its_variables(systems):
    assert run(systems, "echo $N", env={"N": "7"})["stdout"] == "7\n"


def test_a_run_without_a_timeout_has_the_default_of_the_executor():
    """Five minutes, as in the system of the document."""
    assert DEFAULT_TIMEOUT == 300


@pytest.mark.parametrize(
    "arguments",
    [
        {"output_files": ["out/*.txt"]},
        {"output_files": ["$OUTPUT_DIR/*.txt"]},
        {"outputs": {"globs": ["out/*.txt"], "inline": True}},
        {"outputs": {"globs": ["${OUTPUT_DIR}/*.txt"], "inline": True}},
    ],
)
def test_patterns_are_those_of_the_document(systems, arguments):
    """From the workspace, or by the variable of a folder."""
    result = run(systems, "echo 1 > out/a.txt", **arguments)
    assert [(file["name"], file["content"]) for file in result["output_files"]] == [
        ("out/a.txt", "1\n")
    ]


def test_two_stars_are_any_number_of_folders(systems):
    result = run(
        systems,
        "mkdir -p out/b/c; echo 1 > out/a; echo 2 > out/b/c/d",
        outputs={"globs": ["$OUTPUT_DIR/**"]},
    )
    assert [file["name"] for file in result["output_files"]] == ["out/a", "out/b/c/d"]
    assert "content" not in result["output_files"][0]


@pytest.mark.parametrize(
    ("source", "mode", "text"),
    [
        ("artifact://kept.txt", "copy", "from the store"),
        ("artifact://kept.txt@0", "link", "from the store"),
        ("host://{host}/data.txt", "copy", "from the host"),
        ("host://{host}/data.txt", "link", "from the host"),
        ("workspace://work/made.txt", "link", "made before"),
        ("skill://python-math/USAGE.md", "copy", "Usage."),
    ],
)
def test_inputs_have_the_schemes_and_modes_of_the_document(systems, host, source, text, mode):
    """Without `to` they lie in the inputs, under the last part of their name."""
    run(systems, "printf 'made before' > work/made.txt")
    place = source.format(host=host)
    result = run(systems, "cat $WORK_DIR/inputs/*", inputs=[{"from": place, "mode": mode}])
    assert (result["stdout"], result["exit_code"]) == (text, 0)


@pytest.mark.parametrize(
    "arguments",
    [
        {
            "output_files": ["out/*"],
            "save_as_artifacts": True,
            "artifact_prefix": "pref/",
            "omit_inline_content": True,
        },
        {"outputs": {"globs": ["out/*"], "save": True, "name_template": "pref/"}},
    ],
)
def test_both_ways_of_the_document_save_artifacts(systems, arguments):
    """Named in the result and in the session, and without content."""
    result = run(systems, "echo 1 > out/a.txt", **arguments)
    (ref,) = result["artifact_files"]
    assert ref == {"name": "pref/out/a.txt", "version": 0}
    (file,) = result["output_files"]
    assert (file["mime_type"], "content" in file) == ("text/plain", False)
    assert '"ref":"artifact://pref/out/a.txt@0"' in systems.state["temp:skill:artifacts"]


@pytest.mark.parametrize(
    ("limit", "names"),
    [({}, 100), ({"max_files": 3}, 3), ({"max_total_bytes": 50}, 25), ({"max_file_bytes": 1}, 100)],
)
def test_what_is_collected_has_the_limits_of_the_document(systems, limit, names):
    """A hundred files unless told otherwise; what is cut is said to be."""
    command = "for i in {100..204}; do echo 1 > out/$i; done"
    result = run(systems, command, outputs={"globs": ["out/*"], "inline": True, **limit})
    assert len(result["output_files"]) == names
    assert {file["content"] for file in result["output_files"]} == {
        "1" if "max_file_bytes" in limit else "1\n"
    }
    assert result["warnings"]
