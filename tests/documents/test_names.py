"""The table of what the five documents name: methods, tools, arguments, defaults and texts.

Names are those of the documents in Python's spelling. Behaviour is tested beside each toolset; here
each row fails when a name, an argument, a default or a text is another.
"""

import inspect
from pathlib import Path

import pytest
from pydantic import BaseModel

from skillsearch.agents.tool import ToolResult, Toolset
from skillsearch.agents.toolsets import chunks, context, skills_manager
from skillsearch.agents.toolsets.environments import (
    Environment,
    ServerEnvironment,
    SkillInfo,
    SkillLoader,
    base_skill_tool,
)
from skillsearch.execution.artifacts import FolderArtifacts
from skillsearch.execution.executors import select_executor
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.workspace import Workspaces

REQUIRED = inspect.Parameter.empty

SIGNATURES = {
    SkillLoader.load_all: "",
    Environment.get_skills_info_for_tool_description: "",
    Environment.get_skills_directory: "",
    Environment.load_skills: "",
    Environment.register_tool: "tool",
    Environment.list_tools: "",
    ServerEnvironment.load_from_config: "",
    ServerEnvironment.switch_environment: "name",
    ServerEnvironment.reload: "",
    SkillInfo: "id, name, description, path",
    ToolResult: "success, output='', error=None",
    chunks.SkillManager.register_skill: "content",
    chunks.SkillManager.activate_chunk: "skill_name, chunk_id",
    chunks.LoadSkillChunkTool.execute: "args",
    chunks.SkillChunk: "id, description, content",
    chunks.Skill: "metadata, core_content, chunks, active_chunks=frozenset()",
    context.SkillsLoader: f"skills_root={Path('.skills')!r}",
    context.SkillsLoader.load_all_metadata: "",
    context.SkillsManager.get_skill_content: "skill_name",
    context.SkillsManager.get_metadata_summary: "",
    context.calculate_match_score: "query, metadata",
    context.list_skills: "ctx, args",
    context.search_skills: "ctx, args",
    context.get_skill: "ctx, args",
    context.Skill: "name, description, content, path, loaded_at=<factory>",
    context.ToolContext: "workspace_root, todos=<factory>, mode='code', browser_session=None, "
    "skills_manager=None, active_skills=<factory>",
    skills_manager.SkillsManager.list_skills: "",
    skills_manager.SkillsManager.list_skill_assets: "skill_name",
    skills_manager.SkillsManager.create_root: "",
}
"""What functions and types take first, in this order and with these defaults.

The checklist has those that its documents write out.
"""

TOOLS = {  # arguments with their defaults; None for one that may be left out
    ("000", "skill"): {"skill": REQUIRED},
    ("001", "load_skill_chunk"): {"skill_name": REQUIRED, "chunk_id": REQUIRED},
    ("002", "list_skills"): {},
    ("002", "search_skills"): {"query": REQUIRED, "limit": 5},
    ("002", "get_skill"): {"name": REQUIRED},
    ("003", "load_skill"): {"skill_name": REQUIRED},
    ("003", "search_skills"): {"query": REQUIRED, "n": 5},
    ("003", "load_skill_asset"): {"skill_name": REQUIRED, "relative_path": REQUIRED},
    ("003", "get_skill_script_path"): {"skill_name": REQUIRED, "script_name": REQUIRED},
    ("003", "list_skill_assets"): {"skill_name": REQUIRED},
    ("004", "skill_load"): {"skill": REQUIRED, "docs": None, "include_all_docs": False},
    ("004", "skill_select_docs"): {"skill": REQUIRED, "docs": None, "include_all_docs": False}
    | {"mode": "replace"},
    ("004", "skill_list_docs"): {"skill": REQUIRED},
    ("004", "skill_run"): {"skill": REQUIRED, "command": REQUIRED, "cwd": "", "env": {}}
    | {"output_files": [], "inputs": [], "outputs": None, "timeout": None}
    | {"save_as_artifacts": False, "omit_inline_content": False, "artifact_prefix": ""}
    # These two are in the tool that the document tells of.
    | {"stdin": "", "editor_text": None},
}
OBJECTS = {  # arguments of `skill_run`, and the fields of their objects
    "inputs": {"from": REQUIRED, "to": "", "mode": "copy", "pin": False},
    "outputs": {"globs": [], "inline": False, "save": False, "name_template": ""}
    | {"max_files": 100, "max_file_bytes": 4 * 1024**2, "max_total_bytes": 64 * 1024**2},
}


@pytest.fixture
def host(tmp_path):
    folder = tmp_path / "host"
    folder.mkdir()
    (folder / "data.txt").write_text("from the host")
    return folder


@pytest.fixture
def runner(tmp_path, host):
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
    root = tmp_path / "skills"
    body = 'Core.\n<chunk id="deep" description="More of it.">Details.</chunk>\n'
    folder = make_skill(
        root, "python-math", "Small utilities for math.", body, version="1.2"
    ).parent
    (folder / "USAGE.md").write_text("Usage.")
    (folder / "references").mkdir()
    (folder / "references" / "REFERENCE.md").write_text("Reference.")
    make_skill(root, "data-analysis", "Analyse data.", "Look at it.")
    return make_systems(root, runner, model="hashing")


@pytest.mark.parametrize(
    ("function", "expected"), SIGNATURES.items(), ids=[f.__qualname__ for f in SIGNATURES]
)
def test_names_arguments_and_defaults_are_those_of_the_documents(function, expected):
    """More can be given by keyword, or behind them, and none of it has to be."""
    is_model = isinstance(function, type) and issubclass(function, BaseModel)
    found = [
        parameter.replace(annotation=REQUIRED)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self"
        and (is_model or parameter.kind is parameter.POSITIONAL_OR_KEYWORD)
    ]
    count = len(expected.split(", ")) if expected else 0
    assert ", ".join(map(str, found[:count])) == expected
    assert REQUIRED not in [parameter.default for parameter in found[count:]]


def shown(schema):
    """Return what the schema of an object shows: required names, and defaults by name."""
    properties = schema.get("properties", {})
    return {*schema.get("required", [])}, {n: p.get("default") for n, p in properties.items()}


def expected(arguments):
    """Return what the schema of an object with these arguments has to show."""
    required = {name for name, default in arguments.items() if default is REQUIRED}
    return required, {n: None if n in required else d for n, d in arguments.items()}


def test_there_are_the_tools_of_the_documents_with_their_arguments(systems):
    schemas = {
        (document, spec["name"]): spec["input_schema"]
        for document in ("000", "001", "002", "003", "004")
        for spec in systems.toolset(document).specs("anthropic")
    }
    assert {key: shown(schema) for key, schema in schemas.items()} == {
        key: expected(arguments) for key, arguments in TOOLS.items()
    }
    for name, arguments in OBJECTS.items():
        found = schemas["004", "skill_run"]["properties"][name]
        assert shown(found.get("items", found)) == expected(arguments)


def test_texts_are_those_of_the_documents(systems):
    assert systems.environment.list_tools()[0].description == (
        "Execute a skill. Available skills:\n- data-analysis: Analyse data.\n"
        "- python-math: Small utilities for math."
    )
    without = Toolset([base_skill_tool]).call("skill", {"skill": "x"})["result"]["error"]
    assert without == "Environment not available"
    assert systems.chunks.get_skills_prompt() == (
        "## data-analysis\nLook at it.\n\n"
        "## python-math\nCore.\n[Available Chunks]\n- deep: More of it."
    )
    assert context.skills_prompt(systems.skills) == (
        "## Available Skills\n\nThe following skills are available to assist with specific tasks:"
        "\n\n- data-analysis: Analyse data.\n- python-math: Small utilities for math.\n\n"
        "When a task matches a skill's description, you can use the `get_skill` tool to retrieve "
        "the full skill content and follow its instructions."
    )
    assert systems.call("003", "load_skill", skill_name="xxx") == "未找到技能: xxx"
    assert systems.call("004", "skill_load", skill="nope").startswith("unknown skill: nope")


def run(systems, command, /, **arguments):
    """Load the skill of document 004 and run a command of it; return the result."""
    systems.call("004", "skill_load", skill="python-math")
    return systems.call("004", "skill_run", skill="python-math", command=command, **arguments)


def test_a_skill_is_run_only_after_it_was_loaded(systems):
    message = systems.call("004", "skill_run", skill="python-math", command="true")
    assert message == 'skill_run requires skill_load first for "python-math"'


def test_a_command_is_run_by_bash_as_a_login_shell(systems):
    result = run(systems, "shopt -q login_shell && [[ $0 == bash ]] && echo $BASH_VERSION")
    assert result["stdout"] > "3"


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
    result = run(systems, "echo 1 > out/a.txt", **arguments)
    assert [(file["name"], file["content"]) for file in result["output_files"]] == [
        ("out/a.txt", "1\n")
    ]


def test_two_stars_are_any_number_of_folders(systems):
    result = run(
        systems,
        "mkdir -p out/b/c; echo 1 > out/a; echo 2 > out/b/c/d",
        outputs={"globs": ["$OUTPUT_DIR/b/**", "${OUTPUT_DIR}/*"]},
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
    command = "for i in {100..204}; do echo 1 > out/$i; done"
    result = run(systems, command, outputs={"globs": ["out/*"], "inline": True, **limit})
    assert len(result["output_files"]) == names
    assert {file["content"] for file in result["output_files"]} == {
        "1" if "max_file_bytes" in limit else "1\n"
    }
    assert result["warnings"]
