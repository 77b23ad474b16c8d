"""The tool `skill_run`: its arguments, and real runs of each of them."""

import json

import pytest

from skillsearch.agents.run_tools import MAX_ITEMS, MAX_TEXT_CHARS
from skillsearch.agents.session import ARTIFACTS_KEY
from skillsearch.agents.tool import Toolset
from skillsearch.agents.toolsets.workspace import WorkspaceToolset
from skillsearch.execution.artifacts import FolderArtifacts
from skillsearch.execution.executors import select_executor
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.types import MAX_COMMAND_BYTES, MAX_TIMEOUT
from skillsearch.execution.workspace import Workspaces
from skillsearch.library.skill_library import SkillLibrary

MIB = 1 << 20


@pytest.fixture
def host(tmp_path):
    """A folder of the host that inputs may come from."""
    folder = tmp_path / "host"
    folder.mkdir()
    (folder / "data.csv").write_text("1,2\n")
    return folder


@pytest.fixture
def artifacts(tmp_path):
    """A store that has one artifact."""
    store = FolderArtifacts(tmp_path / "artifacts")
    store.save("seed.txt", b"sown", "text/plain")
    return store


@pytest.fixture
def runner(tmp_path, host, artifacts):
    """Runs commands in plain processes of this machine."""
    runner = SkillRunner(
        select_executor("local"),
        workspaces=Workspaces(tmp_path / "workspaces"),
        artifacts=artifacts,
        host_folders=(host,),
        skill_folder=lambda name: tmp_path / "skills" / name,
    )
    yield runner
    runner.close()


@pytest.fixture
def make_tool(tmp_path, make_skill, runner):
    """Make the tool over a root of one skill, which is loaded."""
    folder = make_skill(tmp_path / "skills", "maths").parent
    (folder / "scripts").mkdir()
    (folder / "scripts" / "double.py").write_text("import sys\nprint(int(sys.argv[1]) * 2)\n")

    def make(*, loaded=("maths",), **options):
        library = SkillLibrary.from_roots(
            tmp_path / "skills", index_dir=tmp_path / "index", model="hashing"
        )
        workspace = WorkspaceToolset(library, runner=runner, **options)
        for name in loaded:
            workspace.session.load(name)
        return Toolset([tool for tool in workspace.toolset().tools() if tool.name == "skill_run"])

    return make


@pytest.fixture
def tool(make_tool):
    """The tool of a session."""
    return make_tool()


def run(tool, command="true", /, **arguments):
    """Run a command; return the result."""
    answer = tool.call("skill_run", {"skill": "maths", "command": command, **arguments})
    assert "result" in answer, answer
    return answer["result"]


def error(tool, command="true", /, **arguments):
    """Run a command that cannot be run; return the error."""
    answer = tool.call("skill_run", {"skill": "maths", "command": command, **arguments})
    assert "error" in answer, answer
    return answer["error"]


def files(result):
    """Return name and content of the collected files."""
    return {file["name"]: file.get("content") for file in result["output_files"]}


def test_the_definition_names_types_and_defaults(tool):
    (spec,) = tool.specs("anthropic")
    schema = spec["input_schema"]
    found = {n: (p["type"], p.get("default")) for n, p in schema["properties"].items()}
    assert schema["required"] == ["skill", "command"]
    assert found == {
        "skill": ("string", None),
        "command": ("string", None),
        "cwd": ("string", ""),
        "env": ("object", {}),
        "stdin": ("string", ""),
        "editor_text": (["string", "null"], None),
        "output_files": ("array", []),
        "timeout": (["number", "null"], None),
        "save_as_artifacts": ("boolean", False),
        "omit_inline_content": ("boolean", False),
        "artifact_prefix": ("string", ""),
        "inputs": ("array", []),
        "outputs": (["object", "null"], None),
    }


def test_the_definition_is_short_and_plain(tool):
    (spec,) = tool.specs("openai")
    text = json.dumps(spec)
    assert len(text) < 4000
    assert not [word for word in ("$ref", "propertyNames", "``", "`") if word in text]


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": ""},
        {"command": "x" * (MAX_COMMAND_BYTES + 1)},
        {"command": ["ls", "-l"]},
        {"cwd": "x" * 1025},
        {"env": {str(number): "" for number in range(MAX_ITEMS + 1)}},
        {"env": {"x" * 1025: ""}},
        {"env": {"A": "x" * (MAX_TEXT_CHARS + 1)}},
        {"env": {"A": {}}},
        {"stdin": "x" * (MAX_TEXT_CHARS + 1)},
        {"editor_text": "x" * (MAX_TEXT_CHARS + 1)},
        {"output_files": ["x"] * (MAX_ITEMS + 1)},
        {"output_files": ["x" * 1025]},
        {"output_files": [{"glob": "out/*"}]},
        {"timeout": -1},
        {"timeout": MAX_TIMEOUT + 1},
        {"timeout": float("nan")},
        {"artifact_prefix": "x" * 1025},
        {"inputs": [{"from": "host:///x"}] * (MAX_ITEMS + 1)},
        {"inputs": [{"to": "x"}]},
        {"inputs": [{"from": ""}]},
        {"inputs": [{"from": "host:///x", "mode": "move"}]},
        {"inputs": [{"source": "host:///x"}]},
        {"outputs": {"globs": ["x"] * (MAX_ITEMS + 1)}},
        {"outputs": {"max_files": 1001}},
        {"outputs": {"max_files": -1}},
        {"outputs": {"max_file_bytes": 64 * MIB + 1}},
        {"outputs": {"max_total_bytes": 64 * MIB + 1}},
        {"outputs": {"max_files": 1, "MaxFiles": 1}},
        {"outputs": ["out/*"]},
        {"timeoutt": 5},
    ],
)
def test_arguments_beyond_their_bounds_are_refused(tool, tmp_path, arguments):
    told = tool.call("skill_run", {"skill": "maths", "command": "true", **arguments})
    assert told["error"]["code"] == "invalid-arguments"
    assert list((tmp_path / "workspaces").glob("ws_*")) == []


@pytest.mark.parametrize(
    ("command", "arguments", "stdout"),
    [
        ("python3 double.py 21 | tr 4 5", {"cwd": "scripts"}, "52\n"),
        ("echo $A; cat", {"env": {"A": "tea"}, "stdin": "grün\n", "timeout": 0}, "tea\ngrün\n"),
        ("$EDITOR work/note && cat work/note", {"editor_text": "seen"}, "seen"),
    ],
)
def test_an_argument_reaches_the_command(tool, command, arguments, stdout):
    """A timeout of zero is the default: models fill one in for what they do not mean."""
    result = run(tool, command, **arguments)
    assert (result["stdout"], result["exit_code"]) == (stdout, 0)


def test_a_file_of_the_host_is_put_where_it_is_wanted(tool, host):
    inputs = [{"from": f"host://{host}/data.csv", "to": "work/there.csv"}]
    result = run(tool, "cat work/there.csv", inputs=inputs)
    assert result["stdout"] == "1,2\n"
    (staged,) = result["staged_inputs"]
    assert (staged["name"], staged["size_bytes"]) == ("work/there.csv", 4)


@pytest.mark.parametrize(
    ("source", "mode"),
    [
        ("artifact://seed.txt@0", "copy"),
        ("skill://maths/scripts/double.py", "link"),
        ("workspace://work/made.txt", "copy"),
    ],
)
def test_inputs_have_the_sources_of_the_seed(tool, source, mode):
    run(tool, "echo made > work/made.txt")
    result = run(tool, "cat inputs/*", inputs=[{"from": source, "mode": mode}])
    texts = {"artifact": "sown", "skill": "import sys\n", "workspace": "made\n"}
    assert result["stdout"].startswith(texts[source.partition(":")[0]])
    assert [staged["original_name"] for staged in result["staged_inputs"]] == [source]


def test_a_pinned_input_keeps_its_version(tool, artifacts):
    inputs = [
        {"from": "artifact://seed.txt", "to": "work/pinned", "pin": True},
        {"from": "artifact://seed.txt", "to": "work/newest"},
    ]
    run(tool, inputs=inputs)
    artifacts.save("seed.txt", b"reaped", "text/plain")
    result = run(tool, "cat work/pinned work/newest", inputs=inputs)
    assert result["stdout"] == "sownreaped"


def test_output_files_come_back_with_content_and_type(tool):
    result = run(tool, "echo 55 > out/fib.txt; echo {} > out/a.json", output_files=["out/*.txt"])
    assert result["output_files"] == [
        {
            "name": "out/fib.txt",
            "content": "55\n",
            "mime_type": "text/plain",
            "size_bytes": 3,
            "truncated": False,
            "ref": "workspace://out/fib.txt",
        }
    ]
    assert files(run(tool, output_files=["$OUTPUT_DIR/*.txt"])) == {"out/fib.txt": "55\n"}


def test_saved_files_are_named_as_artifacts(make_tool, artifacts):
    saved = []
    tool = make_tool(on_delta=lambda d: saved.append(json.loads(d[ARTIFACTS_KEY])["artifacts"]))
    arguments = {
        "output_files": ["out/*"],
        "save_as_artifacts": True,
        "omit_inline_content": True,
        "artifact_prefix": "run/",
    }
    for version, word in enumerate(("one", "two")):
        result = run(tool, f"printf {word} > out/word.txt", **arguments)
        assert files(result) == {"out/word.txt": None}
        (ref,) = result["artifact_files"]
        assert ref["version"] == version
        assert ref["name"].startswith("run/")
    assert saved[-1] == [{**ref, "ref": "artifact://run/out/word.txt@1"}]
    assert artifacts.load(ref["name"], 0).data == b"one"
    run(tool, output_files=["out/*"])
    assert len(saved) == 2


GO = {
    "globs": "Globs",
    "inline": "Inline",
    "save": "Save",
    "name_template": "NameTemplate",
    "max_files": "MaxFiles",
    "max_file_bytes": "MaxFileBytes",
    "max_total_bytes": "MaxTotalBytes",
}


@pytest.mark.parametrize("is_go", [False, True])
@pytest.mark.parametrize(
    ("limits", "contents"),
    [
        ({"max_files": 1}, {"out/a.txt": "aaaa"}),
        ({"max_file_bytes": 3}, {"out/a.txt": "aaa", "out/b/c.txt": "ccc"}),
        ({"max_total_bytes": 4}, {"out/a.txt": "aaaa"}),
        ({"inline": False}, {"out/a.txt": None, "out/b/c.txt": None}),
        (
            {"max_files": 0, "max_file_bytes": 0, "max_total_bytes": 0},
            {"out/a.txt": "aaaa", "out/b/c.txt": "cccc"},
        ),
    ],
)
def test_declared_outputs_obey_their_limits(tool, is_go, limits, contents):
    spec = {"globs": ["$OUTPUT_DIR/**"], "inline": True, **limits}
    outputs = {GO[name]: value for name, value in spec.items()} if is_go else spec
    command = "mkdir out/b; printf aaaa > out/a.txt; printf cccc > out/b/c.txt"
    result = run(tool, command, outputs=outputs)
    assert files(result) == contents
    assert bool(result.get("warnings")) == (len(limits) == 1 and "inline" not in limits)


@pytest.mark.parametrize("is_go", [False, True])
def test_declared_outputs_are_saved_under_their_template(tool, artifacts, is_go):
    spec = {"globs": ["out/*"], "save": True, "name_template": "pref/"}
    outputs = {GO[name]: value for name, value in spec.items()} if is_go else spec
    (ref,) = run(tool, "printf x > out/a.txt", outputs=outputs)["artifact_files"]
    assert ref["name"].startswith("pref/")
    assert artifacts.load(ref["name"], ref["version"]).data == b"x"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"inputs": [{"from": "artifact://seed.txt@7"}]}, "artifact-not-found"),
        ({"inputs": [{"from": "host:///etc/passwd"}]}, "workspace"),
        ({"inputs": [{"from": "workspace://../x"}]}, "workspace"),
        ({"inputs": [{"from": "artifact://seed.txt", "to": "../x"}]}, "workspace"),
        ({"output_files": ["../*"]}, "workspace"),
        ({"outputs": {"globs": ["/etc/*"]}}, "workspace"),
        ({"env": {"LD_PRELOAD": "/tmp/x.so"}}, "workspace"),
    ],
)
def test_what_cannot_be_had_is_told_without_places_on_the_host(tool, tmp_path, arguments, code):
    told = error(tool, **arguments)
    assert told["code"] == code
    assert str(tmp_path) not in json.dumps(told)
