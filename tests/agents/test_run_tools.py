"""The tool `skill_run`: its arguments, the request that they make, and what is given back."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from skillsearch.agents.arguments import checked
from skillsearch.agents.run_tools import MAX_ITEMS, MAX_TEXT_CHARS, RunArgs
from skillsearch.agents.tool import Toolset
from skillsearch.agents.toolsets.workspace import WorkspaceToolset
from skillsearch.execution.types import (
    MAX_COMMAND_BYTES,
    MAX_TIMEOUT,
    InputSpec,
    OutputSpec,
    RunRequest,
)
from skillsearch.library.skill_library import SkillLibrary

MIB = 1 << 20


@pytest.fixture
def artifacts(artifacts):
    """Have an artifact from the start."""
    artifacts.save("seed.txt", b"sown", "text/plain")
    return artifacts


@pytest.fixture
def tool(tmp_path, make_skill, runner):
    make_skill(tmp_path / "skills", "maths")
    library = SkillLibrary.from_roots(
        tmp_path / "skills", index_dir=tmp_path / "index", model="hashing"
    )
    workspace = WorkspaceToolset(library, runner=runner)
    workspace.session.load("maths")
    return Toolset([tool for tool in workspace.toolset().tools() if tool.name == "skill_run"])


def run(tool, command="true", /, **arguments):
    answer = tool.call("skill_run", {"skill": "maths", "command": command, **arguments})
    assert "result" in answer, answer
    return answer["result"]


def error(tool, command="true", /, **arguments):
    answer = tool.call("skill_run", {"skill": "maths", "command": command, **arguments})
    assert "error" in answer, answer
    return answer["error"]


def test_the_definition_is_short_and_plain(tool):
    (spec,) = tool.specs("openai")
    text = json.dumps(spec)
    assert len(text) < 4000
    assert not [word for word in ("$ref", "propertyNames", "``", "`") if word in text]


LONG = "x" * (MAX_TEXT_CHARS + 1)
TOO_MANY = ["x"] * (MAX_ITEMS + 1)
BEYOND = {
    "command": ["", "x" * (MAX_COMMAND_BYTES + 1), ["ls", "-l"]],
    "cwd": ["x" * 1025],
    "env": [
        *(dict.fromkeys(map(str, range(MAX_ITEMS + 1)), ""), {"x" * 1025: ""}),
        *({"A": LONG}, {"A": {}}),
    ],
    "stdin": [LONG],
    "editor_text": [LONG],
    "output_files": [TOO_MANY, ["x" * 1025], [{"glob": "out/*"}]],
    "timeout": [-1, MAX_TIMEOUT + 1, float("nan")],
    "artifact_prefix": ["x" * 1025],
    "inputs": [
        *([{"from": "host:///x"}] * (MAX_ITEMS + 1), [{"to": "x"}], [{"from": ""}]),
        *([{"from": "host:///x", "mode": "move"}], [{"source": "host:///x"}]),
    ],
    "outputs": [
        *({"globs": TOO_MANY}, ["out/*"], {"max_files": 1, "MaxFiles": 1}, {"max_files": -1}),
        *(
            {"max_files": 1001},
            *({f"max_{size}_bytes": 64 * MIB + 1} for size in ("file", "total")),
        ),
    ],
    "timeoutt": [5],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BEYOND.items() for value in values]
)
def test_arguments_beyond_their_bounds_are_refused(name, value):
    with pytest.raises(ValidationError):
        checked(RunArgs, {"skill": "maths", "command": "true", name: value})


def go_name(name):
    """Return the name that a field has in Go."""
    return "".join(part.title() for part in name.split("_"))


@pytest.mark.parametrize("is_go", [False, True])
def test_arguments_make_the_request_of_a_runner(is_go):
    limits = {"max_files": 1, "max_file_bytes": 3, "max_total_bytes": 4}
    outputs = {"globs": ["out/**"], "inline": True, "save": True, "name_template": "p/", **limits}
    plain = {
        "command": "ls",
        "cwd": "scripts",
        "env": {"A": "b"},
        "stdin": "tea",
        "editor_text": "seen",
        "timeout": 9.0,
        "save_as_artifacts": True,
        "omit_inline_content": True,
        "artifact_prefix": "run/",
    }
    args = RunArgs(
        skill="Maths",
        output_files=["out/*"],
        inputs=[{"from": "artifact://a", "to": "work/a", "mode": "link", "pin": True}],
        outputs={go_name(name): value for name, value in outputs.items()} if is_go else outputs,
        **plain,
    )
    assert args.request("maths", Path("/s")) == RunRequest(
        "maths",
        Path("/s"),
        output_files=("out/*",),
        inputs=(InputSpec("artifact://a", "work/a", "link", pin=True),),
        outputs=OutputSpec(("out/**",), inline=True, save=True, name_template="p/", **limits),
        **plain,
    )


def test_what_is_zero_has_its_default():
    """Models fill one in for what they do not mean."""
    zeros = dict.fromkeys(("max_files", "max_file_bytes", "max_total_bytes"), 0)
    args = RunArgs(skill="x", command="ls", timeout=0, outputs={"globs": ["out/*"], **zeros})
    assert args.request("x", Path("/s")) == RunRequest(
        "x", Path("/s"), "ls", outputs=OutputSpec(("out/*",))
    )


def test_declared_outputs_are_saved_under_their_template(tool, artifacts):
    outputs = {"globs": ["out/*"], "save": True, "name_template": "pref/"}
    (ref,) = run(tool, "printf x > out/a.txt", outputs=outputs)["artifact_files"]
    assert ref["name"].startswith("pref/")
    assert artifacts.load(ref["name"], ref["version"]).data == b"x"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"inputs": [{"from": "artifact://seed.txt@7"}]}, "artifact-not-found"),
        ({"inputs": [{"from": "host:///etc/passwd"}]}, "workspace"),
        ({"output_files": ["../*"]}, "workspace"),
        ({"env": {"LD_PRELOAD": "/tmp/x.so"}}, "workspace"),
    ],
)
def test_what_cannot_be_had_is_told_without_places_on_the_host(tool, tmp_path, arguments, code):
    failure = error(tool, **arguments)
    assert failure["code"] == code
    assert str(tmp_path) not in json.dumps(failure)
