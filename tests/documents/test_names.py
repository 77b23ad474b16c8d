"""The table of what the five documents name: methods, tools, arguments and defaults.

Names are those of the documents in Python's spelling. Behaviour is tested beside each toolset; here
each row fails when a name, an argument or a default is another.
"""

import inspect
from pathlib import Path

import pytest
from pydantic import BaseModel

from skillsearch.agents.tool import ToolResult
from skillsearch.agents.toolsets import chunks, context, skills_manager
from skillsearch.agents.toolsets.environments import Environment, SkillInfo, SkillLoader
from skillsearch.agents.toolsets.server_environment import ServerEnvironment

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

OFFSET = {"offset": 0}  # of tools whose answer may be cut; no document has it
TOOLS = {  # arguments with their defaults; None for one that may be left out
    ("000", "skill"): {"skill": REQUIRED} | OFFSET,
    ("001", "load_skill_chunk"): {"skill_name": REQUIRED, "chunk_id": REQUIRED} | OFFSET,
    ("002", "list_skills"): {},
    ("002", "search_skills"): {"query": REQUIRED, "limit": 5},
    ("002", "get_skill"): {"name": REQUIRED} | OFFSET,
    ("003", "load_skill"): {"skill_name": REQUIRED} | OFFSET,
    ("003", "search_skills"): {"query": REQUIRED, "n": 5},
    ("003", "load_skill_asset"): {"skill_name": REQUIRED, "relative_path": REQUIRED} | OFFSET,
    ("003", "get_skill_script_path"): {"skill_name": REQUIRED, "script_name": REQUIRED},
    ("003", "list_skill_assets"): {"skill_name": REQUIRED} | OFFSET,
    ("004", "skill_load"): {"skill": REQUIRED, "docs": None, "include_all_docs": False},
    ("004", "skill_select_docs"): {"skill": REQUIRED, "docs": None, "include_all_docs": False}
    | {"mode": "replace"},
    ("004", "skill_list_docs"): {"skill": REQUIRED} | OFFSET,
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
def systems(tmp_path, make_skill, make_systems):
    root = tmp_path / "skills"
    body = 'Core.\n<chunk id="deep" description="More of it.">Details.</chunk>\n'
    folder = make_skill(
        root, "python-math", "Small utilities for math.", body, version="1.2"
    ).parent
    (folder / "USAGE.md").write_text("Usage.")
    (folder / "references").mkdir()
    (folder / "references" / "REFERENCE.md").write_text("Reference.")
    make_skill(root, "data-analysis", "Analyse data.", "Look at it.")
    return make_systems(root, model="hashing")


@pytest.mark.parametrize(
    ("function", "expected"), SIGNATURES.items(), ids=[f.__qualname__ for f in SIGNATURES]
)
def test_names_arguments_and_defaults_are_those_of_the_documents(function, expected):
    is_model = isinstance(function, type) and issubclass(function, BaseModel)
    parameters = [
        parameter.replace(annotation=REQUIRED)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self"
        and (is_model or parameter.kind is parameter.POSITIONAL_OR_KEYWORD)
    ]
    count = len(expected.split(", ")) if expected else 0
    assert ", ".join(map(str, parameters[:count])) == expected
    assert REQUIRED not in [parameter.default for parameter in parameters[count:]]


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
        schema = schemas["004", "skill_run"]["properties"][name]
        assert shown(schema.get("items", schema)) == expected(arguments)
