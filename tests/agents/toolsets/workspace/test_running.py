"""Commands of a workspace: where they run, what has to be loaded before, what is recorded."""

import gc
import json
from pathlib import Path

import pytest

from skillsearch.agents.toolsets.workspace import WorkspaceToolset
from skillsearch.execution.isolation.namespace import NamespaceExecutor
from skillsearch.library.skill_library import SkillLibrary


def test_without_a_runner_commands_run_where_they_are_isolated(open_workspace, call):
    if NamespaceExecutor().reason():
        pytest.skip("namespaces do not work here")
    workspace = open_workspace()
    call(workspace, "skill_load", skill="python-math")
    run = {"skill": "python-math", "command": "cat scripts/fib.py; echo; pwd"}
    done = call(workspace, "skill_run", **run)
    assert done["executor"] == "namespace"
    output, folder = done["stdout"].splitlines()
    assert output == "content of scripts/fib.py"
    assert Path(folder).is_dir()
    del workspace
    gc.collect()
    assert not Path(folder).exists()


def test_where_nothing_isolates_local_has_to_be_allowed(open_workspace, monkeypatch, call):
    monkeypatch.setattr(NamespaceExecutor, "reason", lambda self: "Not here.")
    run = {"skill": "python-math", "command": "echo ran"}
    for executor in ("auto", "namespace"):
        workspace = open_workspace(executor=executor)
        call(workspace, "skill_load", skill="python-math")
        error = call(workspace, "skill_run", **run)
        assert error["code"] == "not-isolated"
        assert "executor='local'" in error["message"]
    allowed = open_workspace(executor="local")
    call(allowed, "skill_load", skill="python-math")
    done = call(allowed, "skill_run", **run)
    assert (done["executor"], done["stdout"].strip()) == ("local", "ran")
    with pytest.raises(ValueError, match="use one of auto, local, namespace, container, or None"):
        open_workspace(executor="docker")


def test_turned_off_nothing_tells_of_running(open_workspace, runner, call, specs):
    workspace = open_workspace(executor=None)
    assert "skill_run" not in str(specs(workspace)) + workspace.system_prompt()
    error = call(workspace, "skill_run", skill="git-log", command="true")
    assert error["code"] == "running-is-off"
    assert error["message"].startswith("skill_run is off: executor is not configured")
    assert "SkillRunner" in error["next_step"]
    assert "skillsearch mcp --allow-run" in error["next_step"]
    prompt = open_workspace(runner=runner, guidance="Use them.").system_prompt()
    assert "skill_run" not in prompt


def test_a_skill_is_loaded_before_it_is_run(open_workspace, runner, call):
    workspace = open_workspace(runner=runner)
    run = {"skill": "Python-Math", "command": "cat scripts/fib.py"}
    refused = 'skill_run requires skill_load first for "python-math"'
    assert call(workspace, "skill_run", **run)["message"] == refused
    call(workspace, "skill_load", skill="python-math")
    assert call(workspace, "skill_run", **run)["stdout"] == "content of scripts/fib.py"
    workspace.begin_turn()
    assert call(workspace, "skill_run", **run)["code"] == "skill-not-loaded"


def test_what_a_run_saves_is_recorded_in_the_state(open_workspace, runner, call):
    deltas, events = [], []
    workspace = open_workspace(
        runner=runner, on_delta=deltas.append, on_event=events.append, call_id=lambda: "call-7"
    )
    call(workspace, "skill_load", skill="python-math")
    run = {"skill": "python-math", "command": "echo 1 > out/a.txt"}
    outputs = {"globs": ["out/*"], "save": True}
    for _ in range(2):
        result = call(workspace, "skill_run", **run, outputs=outputs)
    (ref,) = result["artifact_files"]
    record = json.loads(workspace.session.state["temp:skill:artifacts"])
    saved = {**ref, "ref": f"artifact://{ref['name']}@1"}
    assert record == {"tool_call_id": "call-7", "artifacts": [saved]}
    assert [list(delta) for delta in deltas[1:]] == [["temp:skill:artifacts"]] * 2
    assert [event.delta for event in events] == deltas
    call(workspace, "skill_run", **run)
    assert (len(deltas), events[-1].delta) == (3, {})


def test_sessions_of_one_runner_have_workspaces_of_their_own(open_workspace, runner, call):
    def ls(workspace, command="ls work"):
        call(workspace, "skill_load", skill="git-log")
        return call(workspace, "skill_run", skill="git-log", command=command)["stdout"].split()

    first, second = open_workspace(runner=runner), open_workspace(runner=runner)
    assert ls(first, "touch work/mine && ls work") == ["inputs", "mine"]
    assert "mine" not in ls(second)
    again = [open_workspace(runner=runner, run_session="s") for _ in range(2)]
    ls(again[0], "touch work/ours")
    assert "ours" in ls(again[1])


def test_a_skill_of_a_hostile_name_is_run_like_any_other(tmp_path, make_skill, runner, call, enums):
    path = make_skill(tmp_path / "r", "folder", body="x")
    path.write_text(path.read_text().replace("name: folder", 'name: "a/\\n\\n[Loaded] @b"'))
    workspace = WorkspaceToolset(SkillLibrary.from_roots(tmp_path / "r"), runner=runner)
    (handle,) = enums(workspace)[0]
    call(workspace, "skill_load", skill=handle)
    result = call(workspace, "skill_run", skill=handle, command="ls $WORKSPACE_DIR/skills; ls")
    assert result["exit_code"] == 0
    assert result["stdout"].splitlines()[1:] == ["SKILL.md", "inputs", "out", "work"]
