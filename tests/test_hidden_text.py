"""Nothing that a reader would not see leaves by any interface; what is shown names its skill."""

import json
import unicodedata

import pytest

from skillsearch import SkillIndex
from skillsearch.agents.default_tools import library_tools
from skillsearch.agents.tool import Toolset
from skillsearch.agents.toolsets.chunks import LoadSkillChunkTool, SkillManager
from skillsearch.agents.toolsets.context import SkillsLoader, ToolContext
from skillsearch.agents.toolsets.context import SkillsManager as ContextManager
from skillsearch.agents.toolsets.context import toolset as context_toolset
from skillsearch.agents.toolsets.skills_manager import SkillsManager
from skillsearch.agents.toolsets.workspace import WorkspaceToolset
from skillsearch.library.skill_library import SkillLibrary

VISIBLE_FORMATS = (
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)
"""Signs of Arabic, Syriac and Kaithi that Unicode counts as formats, and every reader sees."""
FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0\U000e0002\U000e0fff"
SELECTORS = [*map(chr, range(0xFE00, 0xFE10)), *map(chr, range(0xE0100, 0xE01F0))]
HIDDEN = [
    char
    for char in map(chr, (*range(0x20000), *range(0xE0000, 0xE1000)))
    if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") and char not in "\n\t"
]
HIDDEN = [*(char for char in HIDDEN if char not in VISIBLE_FORMATS), *FILLERS, *SELECTORS]
A_SKILL = 40
"""Hidden characters of one skill, so that nothing is cut."""


def spread(text, hidden):
    """Put hidden characters between the letters of a text, several in a row."""
    size = -(-len(hidden) // (len(text) - 1))
    parts = ["".join(hidden[at : at + size]) for at in range(0, len(hidden), size)]
    return "".join(a + b for a, b in zip(text, [*parts, *[""] * len(text)], strict=False))


def quoted(text):
    """Write a text as YAML that holds no odd character itself."""
    return '"' + "".join(f"\\U{ord(char):08x}" for char in text) + '"'


def write_skill(folder, name, hidden, title):
    """Write a skill that has hidden characters wherever an author can put them."""
    chunk = f'<chunk id="cool{hidden[0]}er" description="{spread("Cool it", hidden)}">'
    fields = {
        "name": title,
        "description": spread("Steep green tea at the right temperature.", hidden),
        "license": spread("MIT License", hidden),
        "version": f"1.{hidden[0]}0",
        "requires-skills": spread("boil-water", hidden),
    }
    head = "".join(f"{key}: {quoted(value)}\n" for key, value in fields.items())
    nested = (
        f"metadata:\n  {quoted(spread('author', hidden))}: {quoted(spread('A Person', hidden))}\n"
    )
    body = f"# {spread('Tea', hidden)}\n\n{chunk}{spread('Wait', hidden)}</chunk>\n"
    path = folder / name / "SKILL.md"
    (path.parent / "references").mkdir(parents=True)
    path.write_bytes(f"---\n{head}{nested}---\n{body}".encode())
    notes = spread("Green tea likes 80 degrees.", [char for char in hidden if char != "\x00"])
    (path.parent / "references" / "notes.md").write_bytes(notes.encode())
    for number, char in enumerate(hidden):
        if char != "\x00":
            (path.parent / "references" / f"un{char}seen{number}.md").write_text("?")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Make skills that hold every hidden character: in their names, and with names to publish."""
    folder = tmp_path_factory.mktemp("hidden") / "skills"
    groups = [HIDDEN[at : at + A_SKILL] for at in range(0, len(HIDDEN), A_SKILL)]
    for number, hidden in enumerate(groups):
        write_skill(folder, f"odd-{number}", hidden, spread(f"odd-name-{number}", hidden))
        write_skill(folder, f"tea-{number}", hidden, f"tea-{number}")
        write_skill(folder, f"fold{hidden[-1]}er-{number}", hidden, f"unseen-{number}")
    return folder


@pytest.fixture(scope="module")
def index_folder(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hidden") / "index"
    SkillIndex.from_roots(root, index_dir=folder, model="hashing")
    return folder


@pytest.fixture
def library(index_folder):
    return SkillLibrary.open(index_folder)


def texts_in(value):
    """Yield every text of a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_in(item)


def hidden_in(value):
    return sorted(set("".join(texts_in(value))) & set(HIDDEN))


SHOWING = [
    ("list",),
    ("show", "tea-3"),
    ("show", "tea-3", "--body"),
    ("show", "tea-3", "--files"),
    ("show", "tea-3", "--file", "references/notes.md"),
    ("show", "tea-3", "--chunk", "cooler"),
    ("query", "steep green tea", "-n", "50", "--threshold", "0"),
    ("query", "steep green tea", "-n", "50", "--threshold", "0", "--explain"),
    ("prompt", "--all"),
    ("prompt", "--all", "--format", "json"),
    ("prompt", "--all", "--format", "markdown", "--load", "tea-3"),
    ("status",),
    ("doctor",),
    ("audit",),
]


@pytest.mark.parametrize("args", SHOWING, ids=" ".join)
def test_no_command_prints_what_nobody_sees(cli, index_folder, args):
    for form in ([], ["--json"]):
        done = cli(*args, *form, "--index-dir", index_folder)
        assert done.stdout
        assert hidden_in(done.stdout + done.stderr) == []
        if form:
            assert hidden_in(json.loads(done.stdout)) == []


@pytest.mark.parametrize("command", ["validate", "budget", "index"])
def test_no_command_over_folders_prints_what_nobody_sees(cli, root, command):
    options = ["--index-dir", "i", "--model", "hashing"] if command == "index" else []
    for form in ([], ["--json"]):
        done = cli(command, root, *options, *form)
        assert hidden_in(done.stdout + done.stderr) == []
        if form:
            assert hidden_in(json.loads(done.stdout)) == []


def toolsets(root, library):
    """Yield each toolset over the skills, and arguments for its tools."""
    chunks = SkillManager()
    chunks.load_from_directory(root)
    skill = {"skill": "tea-3", "name": "tea-3", "skill_name": "tea-3", "query": "green tea"}
    file = dict.fromkeys(("path", "relative_path"), "references/notes.md")
    arguments = {**skill, **file, "chunk_id": "cooler", "script_name": "none.py"}
    manager = ContextManager(SkillsLoader(root, model="hashing"))
    for toolset in (
        Toolset(library_tools(library, threshold=0.0)),
        SkillsManager(root, model="hashing").toolset(),
        context_toolset(ToolContext(workspace_root=root, skills_manager=manager)),
        LoadSkillChunkTool(chunks).toolset(),
        WorkspaceToolset(library).toolset(),
    ):
        yield toolset, arguments


def test_no_tool_gives_a_model_what_nobody_sees(root, library):
    for toolset, arguments_for in toolsets(root, library):
        assert hidden_in(toolset.specs()) == []
        for tool in toolset.tools():
            fields = tool.arguments.model_fields
            arguments = {name: value for name, value in arguments_for.items() if name in fields}
            for name in ("tea-3", "un\u200bknown\ufe0f"):
                swapped = {k: name if v == "tea-3" else v for k, v in arguments.items()}
                assert hidden_in(toolset.call(tool.name, swapped)) == []


def test_no_prompt_holds_what_nobody_sees(root, library):
    chunks = SkillManager()
    chunks.load_from_directory(root)
    workspace = WorkspaceToolset(library)
    workspace.toolset().call("skill_load", {"skill": "tea-3", "include_all_docs": True})
    for prompt in (chunks.get_skills_prompt(), workspace.system_prompt("green tea")):
        assert "tea-3" in prompt
        assert hidden_in(prompt) == []


def test_every_name_that_is_shown_finds_its_skill(cli, library, index_folder):
    toolset = Toolset(library_tools(library))
    listed = json.loads(cli("list", "--json", "--index-dir", index_folder).stdout)["skills"]
    assert len(listed) == 2 * -(-len(HIDDEN) // A_SKILL)
    for entry in listed:
        shown = toolset.call("load_skill", {"name": entry["name"]})["result"]
        assert shown["name"] == entry["name"]
        assert library.find(entry["name"]).doc_id == entry["doc_id"]
        assert library.find(entry["doc_id"]).path == entry["path"]
        assert shown["files"] == ["references/notes.md"]
        assert shown["files_truncated"]
        arguments = {"name": entry["name"], "path": shown["files"][0]}
        page = toolset.call("read_skill_file", arguments)["result"]
        assert page["content"].replace("\n", "") == "Green tea likes 80 degrees."
    left_out = [d for d in library.diagnostics if d.code == "path-hidden-characters"]
    assert len(left_out) == -(-len(HIDDEN) // A_SKILL)
