"""Runs of a skill's command from request to result, with real files and processes."""

import errno
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import skillsearch
from skillsearch.errors import CommandRefusedError, ExecutionError, ExecutorError, WorkspaceError
from skillsearch.execution.commands import CommandPolicy
from skillsearch.execution.executors import executor_statuses, select_executor
from skillsearch.execution.isolation.local import LocalExecutor
from skillsearch.execution.runner import SkillRunner, run_warnings
from skillsearch.execution.types import (
    ArtifactRef,
    Finished,
    InputSpec,
    OutputSpec,
    RunLimits,
    RunRequest,
)
from skillsearch.execution.workspaces.artifacts import FolderArtifacts
from skillsearch.execution.workspaces.workspace import Workspaces

PYTHON_MATH = Path(skillsearch.__file__).parent / "examples" / "python-math"
FIBONACCI = "0\n1\n1\n2\n3\n5\n8\n13\n21\n34\n"


@pytest.fixture
def make_runner(tmp_path, base):
    """Make runners, by default with a store of artifacts; close them in the end."""
    runners = []

    def make(executor=None, **options):
        options.setdefault("artifacts", FolderArtifacts(tmp_path / "artifacts"))
        workspaces = Workspaces(base)
        runners.append(SkillRunner(executor or LocalExecutor(), workspaces=workspaces, **options))
        return runners[-1]

    yield make
    for runner in runners:
        runner.close()


@pytest.fixture
def skill(tmp_path, make_skill):
    folder = make_skill(tmp_path / "skills", "tea-timer").parent
    (folder / "scripts").mkdir()
    (folder / "scripts" / "brew.sh").write_text("#!/bin/sh\necho brewing\n", encoding="utf-8")
    return folder


@pytest.fixture
def run(make_runner, skill):
    runner = make_runner()

    def of(command, *, session="", **request):
        return runner.run(RunRequest("tea-timer", skill, command, **request), session)

    return of


@pytest.mark.parametrize(
    "name", ["local", "namespace", pytest.param("container", marks=pytest.mark.requires_docker)]
)
def test_the_example_of_the_documents_runs_with_every_executor(make_runner, name):
    if reason := next(status.reason for status in executor_statuses() if status.name == name):
        pytest.skip(reason)
    command = "python3 scripts/fib.py 10 > out/fib.txt"
    request = RunRequest("python-math", PYTHON_MATH, command, output_files=("out/*.txt",))
    result = make_runner(select_executor(name)).run(request).to_dict()
    assert result.pop("duration_ms") >= 0
    file = {
        "name": "out/fib.txt",
        "content": FIBONACCI,
        "mime_type": "text/plain",
        "size_bytes": len(FIBONACCI),
        "truncated": False,
        "ref": "workspace://out/fib.txt",
    }
    assert result == {
        "stdout": "",
        "stderr": "",
        "exit_code": 0,
        "timed_out": False,
        "executor": name,
        "output_files": [file],
        "primary_output": file,
    }


def test_a_command_reads_what_it_is_given(run):
    result = run('cat; echo "$LEAVES"', stdin="hot \ud800 water ", env={"LEAVES": "green"})
    assert result.stdout == "hot ? water green\n"


def test_a_command_sees_the_variables_of_its_run_and_no_others(run, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    result = run(
        'echo "$SKILL_NAME $SECRET_TOKEN"; cd "$WORKSPACE_DIR" && for folder in "$SKILLS_DIR"'
        ' "$WORK_DIR" "$OUTPUT_DIR" "$RUN_DIR"; do echo "${folder#"$PWD"/}"; done'
    )
    first, *folders, run_dir = result.stdout.splitlines()
    assert (first, folders) == ("tea-timer ", ["skills", "work", "out"])
    assert re.fullmatch(r"runs/run_\d{8}T\d{6}\.\d{3}", run_dir)


@pytest.mark.parametrize(
    ("cwd", "folder"), [("scripts", "skills/tea-timer/scripts"), ("${RUN_DIR}", "runs/run_")]
)
def test_a_command_runs_where_it_is_asked_to(run, cwd, folder):
    result = run('echo "${PWD#"$WORKSPACE_DIR"/}"', cwd=cwd)
    assert result.stdout.startswith(folder)
    assert "/" not in result.stdout.strip().removeprefix(folder)
    assert result.warnings == ()


@pytest.mark.parametrize("cwd", ["../..", "x" * 300, "$WORK_DIR/elsewhere"])
def test_a_command_runs_in_the_skill_where_there_is_no_such_folder(run, tmp_path, cwd):
    run(f"ln -s {tmp_path} work/elsewhere")
    result = run('echo "${PWD#"$WORKSPACE_DIR"/}"', cwd=cwd)
    assert result.stdout == "skills/tea-timer\n"
    reason = "is not a folder of the workspace; the command ran in skills/tea-timer."
    assert result.warnings == (f"cwd {cwd[:200]!r} {reason}",)


def test_a_command_ends_when_its_time_is_over(run):
    result = run(
        "echo begun; : > out/empty; echo x > out/full; sleep 3600",
        timeout=3,
        output_files=("out/*",),
    )
    assert (result.timed_out, result.stdout) == (True, "begun\n")
    assert result.exit_code != 0
    assert [file.name for file in result.output_files] == ["out/full"]
    empty = "The command failed, so empty files are left out: 'out/empty'."
    assert result.warnings[-1] == empty


def test_long_streams_are_cut_in_the_middle_with_a_warning(make_runner, skill):
    runner = make_runner(limits=RunLimits(output_bytes=100))
    command = "printf 'a%.0s' {1..1000}; printf 'b%.0s' {1..60} >&2"
    result = runner.run(RunRequest("tea-timer", skill, command))
    assert result.stdout == f"{'a' * 50}\n[... 900 bytes left out ...]\n{'a' * 50}"
    assert (result.stderr, result.warnings) == ("b" * 60, ("stdout truncated",))


def test_a_timeout_is_that_of_the_limits_or_more_than_nothing_up_to_an_hour(make_runner, skill):
    timeouts = []

    class Noting(LocalExecutor):
        def run(self, program):
            timeouts.append(program.limits.timeout)
            return super().run(program)

    result = make_runner(Noting()).run(RunRequest("tea-timer", skill, "true", timeout=1e9))
    assert result.warnings == ("The timeout is capped at 3,600 seconds.",)
    assert timeouts == [3600]
    for timeout in (0, float("nan")):
        with pytest.raises(ExecutionError, match=f"timeout is {timeout}; give more than 0 seconds"):
            make_runner().run(RunRequest("tea-timer", skill, "true", timeout=timeout))
    runner = make_runner(limits=RunLimits(timeout=0.5))
    assert runner.run(RunRequest("tea-timer", skill, "sleep 60")).timed_out


def test_where_nothing_is_asked_for_the_files_of_out_are_told(run):
    result = run("for n in {10..34}; do echo $n > out/$n.txt; done; echo w > work/w.txt")
    assert [file.name for file in result.output_files] == [f"out/{n}.txt" for n in range(10, 30)]
    assert {file.content for file in result.output_files} == {None}
    assert (result.primary_output.name, result.primary_output.content) == ("out/10.txt", "10\n")
    (warning,) = result.warnings
    assert "max_files is 20" in warning


def test_what_an_earlier_run_left_is_not_the_output_of_this_one(run):
    first = run("echo 1 > out/a; echo 1 > out/b; echo 1 > out/c; echo 1 > work/d")
    assert first.primary_output.name == "out/a"
    idle = run("cat out/a")
    assert (idle.stdout, idle.output_files, idle.primary_output) == ("1\n", (), None)
    named = run("echo 2 > out/z", output_files=("out/*",))
    assert [file.name for file in named.output_files] == ["out/a", "out/b", "out/c", "out/z"]
    assert [file.content for file in named.output_files] == ["1\n"] * 3 + ["2\n"]
    assert named.primary_output.name == "out/z"
    changed = run("echo 1 > out/b; mv work/d out/d; cp -p out/c out/e; touch -d 2001-01-01 out/e")
    assert [file.name for file in changed.output_files] == ["out/b", "out/d", "out/e"]


def test_declared_outputs_come_with_contents_only_where_these_are_wanted(run):
    plain = run("echo x > out/x", outputs=OutputSpec(("out/**",)))
    assert [(file.name, file.content) for file in plain.output_files] == [("out/x", None)]
    assert plain.primary_output is None
    inline = run("echo x > out/x", outputs=OutputSpec(("out/**",), inline=True))
    assert [(file.name, file.content) for file in inline.output_files] == [("out/x", "x\n")]
    assert inline.primary_output == inline.output_files[0]


def test_both_ways_to_name_outputs_go_together(run):
    result = run(
        "echo x > out/x; echo y > out/y",
        output_files=("out/x",),
        outputs=OutputSpec(("out/**",), save=True),
    )
    assert [(file.name, file.content) for file in result.output_files] == [
        ("out/x", "x\n"),
        ("out/y", None),
    ]
    assert result.artifact_files == (ArtifactRef("out/x", 0), ArtifactRef("out/y", 0))


def test_a_file_beyond_a_limit_is_cut_and_not_saved(run):
    spec = OutputSpec(("out/**",), inline=True, save=True, max_file_bytes=3)
    result = run("printf 12345 > out/long; printf 123 > out/short", outputs=spec)
    files = [(file.content, file.size_bytes, file.truncated) for file in result.output_files]
    assert files == [("123", 5, True), ("123", 3, False)]
    assert result.artifact_files == (ArtifactRef("out/short", 0),)
    cut, not_saved = result.warnings
    assert cut.startswith("'out/long' is cut to 3 of 5 bytes")
    assert not_saved == "'out/long' is cut, and is not kept; raise its limits."


def test_saved_files_are_artifacts_with_a_prefix_and_versions(run):
    older = {"save_as_artifacts": True, "artifact_prefix": "brew/", "omit_inline_content": True}
    first = run("echo 1 > out/x", output_files=("out/*",), **older)
    assert first.artifact_files == (ArtifactRef("brew/out/x", 0),)
    assert [(file.name, file.content) for file in first.output_files] == [("out/x", None)]
    assert (first.primary_output, first.warnings) == (None, ())
    spec = OutputSpec(("out/*",), save=True, name_template="brew/")
    assert run("true", outputs=spec).artifact_files == (ArtifactRef("brew/out/x", 1),)


def test_what_cannot_be_saved_is_returned_with_a_warning(make_runner, skill):
    request = RunRequest(
        "tea-timer",
        skill,
        "echo 1 > out/x",
        output_files=("out/*",),
        save_as_artifacts=True,
        omit_inline_content=True,
    )
    result = make_runner(artifacts=None).run(request)
    assert (result.output_files[0].content, result.artifact_files) == ("1\n", ())
    assert result.warnings == ("There is no artifact store; the outputs are not kept.",)


def test_a_name_that_no_artifact_can_have_is_a_warning(run):
    result = run(
        "echo 1 > out/x",
        output_files=("out/*",),
        save_as_artifacts=True,
        artifact_prefix="/etc/",
        outputs=OutputSpec(("out/*",), save=True, name_template="../"),
    )
    assert (result.exit_code, result.artifact_files) == (0, ())
    assert ["'out/x' is not kept: " in text for text in result.warnings] == [True, True]


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        (
            {"save_as_artifacts": True},
            "save_as_artifacts has no effect without output_files; name the files there.",
        ),
        (
            {"omit_inline_content": True},
            "omit_inline_content has no effect: nothing is to be saved.",
        ),
    ],
)
def test_a_wish_without_an_object_is_a_warning(run, options, warning):
    assert warning in run("true", **options).warnings


@pytest.mark.parametrize(
    "request_part",
    [
        {"outputs": OutputSpec(("/etc/*",))},
        {"inputs": (InputSpec("workspace://../x"),)},
        {"inputs": (InputSpec("skill://other/SKILL.md"),)},
        {"env": {"LD_PRELOAD": "/tmp/x.so"}},
    ],
    ids=["output", "input", "skill", "variable"],
)
def test_a_request_that_cannot_be_met_is_refused_before_the_command_runs(run, request_part):
    with pytest.raises(ExecutionError):
        run("echo ran > out/x", **request_part)
    assert run("ls out").stdout == ""


def test_inputs_come_from_every_scheme(make_runner, skill, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "host.txt").write_text("host", encoding="utf-8")
    runner = make_runner(host_folders=[tmp_path / "data"])
    saving = RunRequest(
        "tea-timer",
        skill,
        "printf artifact > out/a.txt; printf workspace > work/w.txt",
        outputs=OutputSpec(("out/*",), save=True),
    )
    assert runner.run(saving).artifact_files == (ArtifactRef("out/a.txt", 0),)
    sources = (
        InputSpec("artifact://out/a.txt@0"),
        InputSpec(f"host://{tmp_path}/data/host.txt", to="inputs/h.txt"),
        InputSpec("workspace://work/w.txt", to="work/copied.txt", mode="link"),
        InputSpec("skill://tea-timer/scripts/brew.sh"),
    )
    request = RunRequest(
        "tea-timer", skill, "cat inputs/a.txt inputs/h.txt work/copied.txt", inputs=sources
    )
    result = runner.run(request)
    assert result.stdout == "artifacthostworkspace"
    assert [(staged.name, staged.source) for staged in result.staged_inputs] == [
        ("work/inputs/a.txt", sources[0].source),
        ("work/inputs/h.txt", sources[1].source),
        ("work/copied.txt", sources[2].source),
        ("work/inputs/brew.sh", sources[3].source),
    ]


def test_an_input_comes_from_another_skill_where_the_runner_knows_it(make_runner, skill):
    runner = make_runner(skill_folder={"python-math": PYTHON_MATH}.__getitem__)
    source = InputSpec("skill://python-math/scripts/fib.py")
    result = runner.run(RunRequest("tea-timer", skill, "python3 inputs/fib.py 3", inputs=(source,)))
    assert result.stdout == "0\n1\n1\n"


def test_runs_of_one_session_wait_and_those_of_others_do_not(make_runner, skill, tmp_path):
    runner = make_runner()
    for name in "ab":
        (tmp_path / name).mkdir()

    def command(mine, other):
        return (
            f"test -e work/busy && echo collision; : > work/busy; : > {tmp_path}/{mine}/here;"
            f" until [ -e {tmp_path}/{other}/here ]; do sleep 0.01; done; rm work/busy"
        )

    def run(mine, other):
        request = RunRequest("tea-timer", skill, command(mine, other), timeout=30)
        return runner.run(request, mine)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, "abab", "baba"))
    assert [(run.stdout, run.exit_code, run.timed_out) for run in results] == [("", 0, False)] * 4
    assert runner._workspaces._turns == {}


def test_an_editor_writes_the_text_that_was_given(run):
    text = "tea's ready\n$HOME 한\n"
    result = run("$EDITOR +3 out/note", editor_text=text, output_files=("out/*",))
    assert result.output_files[0].content == text
    run("rm -rf work/.skillsearch; ln -s /etc work/.skillsearch")
    command = 'sh -c "$VISUAL \\"\\$@\\"" editor "out/a note"; cat "out/a note"'
    assert run(command, editor_text="b").stdout == "b"


@pytest.mark.parametrize("name", ["a base", "a'base", "a:base"])
def test_an_editor_has_a_place_of_any_name(skill, tmp_path, name):
    """A shell splits what it takes from `$EDITOR`, and takes no quotes off."""
    command = ("bash", "-c", 'sh -c "$EDITOR \\"\\$@\\"" editor out/a && cat out/a')
    with SkillRunner(LocalExecutor(), workspaces=Workspaces(tmp_path / name)) as runner:
        by_program = runner.run(RunRequest("tea-timer", skill, command, editor_text="x"))
        assert by_program.stdout == "x"
        by_shell = RunRequest("tea-timer", skill, "$EDITOR +3 out/b; cat out/b", editor_text="y")
        assert runner.run(by_shell).stdout == "y"


@pytest.mark.parametrize("name", ["EDITOR", "VISUAL"])
def test_two_editors_are_one_too_many_and_without_a_text_there_is_none(run, name):
    assert run(f'echo "[${name}]"').stdout == "[]\n"
    assert run(f"${name} out/x; wc -c < out/x", editor_text="").stdout.strip() == "0"
    with pytest.raises(ExecutionError, match=f"but env sets {name}; leave out"):
        run("true", editor_text="x", env={name: "vi"})


def test_lists_of_commands_decide_what_runs(make_runner, skill):
    (skill / "scripts" / "brew.sh").chmod(0o755)
    runner = make_runner(policy=CommandPolicy(allowed=("echo", "scripts/brew.sh")))
    assert runner.run(RunRequest("tea-timer", skill, "echo 1 '$HOME'")).stdout == "1 $HOME\n"
    assert runner.run(RunRequest("tea-timer", skill, "scripts/brew.sh")).stdout == "brewing\n"
    with pytest.raises(CommandRefusedError):
        runner.run(RunRequest("tea-timer", skill, "cat SKILL.md"))
    with pytest.raises(CommandRefusedError):
        runner.run(RunRequest("tea-timer", skill, "scripts/brew.sh", cwd="$WORK_DIR"))


def test_a_workspace_that_vanishes_while_it_is_prepared_is_made_anew(
    make_runner, skill, base, tmp_path
):
    vanished = []

    def find(name):
        (workspace,) = (path for path in base.glob("ws_*") if path.is_dir())
        if len(vanished) < times:
            vanished.append(workspace)
            workspace.rename(tmp_path / f"vanished-{len(vanished)}")
        return skill

    runner = make_runner(skill_folder=find)
    inputs = (InputSpec("skill://tea-timer/SKILL.md"),)
    request = RunRequest("tea-timer", skill, "ls inputs", inputs=inputs)
    times = 1
    assert (runner.run(request).stdout, len(vanished)) == ("SKILL.md\n", 1)
    times = 3
    with pytest.raises(WorkspaceError, match="gone"):
        runner.run(request)
    assert len(vanished) == 3


def test_a_command_that_removes_its_workspace_has_a_result(run):
    result = run('echo ran; cd /; chmod -R u+w "$WORKSPACE_DIR"; rm -rf "$WORKSPACE_DIR"')
    assert (result.stdout, result.output_files) == ("ran\n", ())
    assert any(warning.startswith("Outputs were not collected: ") for warning in result.warnings)
    assert run("pwd > out/x; echo again").stdout == "again\n"


def test_a_skill_that_is_gone_cannot_be_run(run, skill):
    shutil.rmtree(skill)
    with pytest.raises(WorkspaceError, match="tea-timer"):
        run("true")


def test_the_records_of_runs_name_the_versions_that_were_made_and_taken(run):
    latest = InputSpec("artifact://out/x")
    run("echo 1 > out/x", outputs=OutputSpec(("out/x",), save=True))
    run("echo 2 > out/x", outputs=OutputSpec(("out/x",), save=True))
    stdout = run("cat $WORKSPACE_DIR/metadata.json inputs/x", inputs=(latest,)).stdout
    metadata = json.loads(stdout.removesuffix("2\n"))
    assert list(metadata["skills"]) == ["tea-timer"]
    keys = ("globs", "saved_as", "versions")
    outputs = [tuple(output[key] for key in keys) for output in metadata["outputs"]]
    assert outputs == [(["out/x"], ["out/x"], [version]) for version in (0, 1)]
    (record,) = metadata["inputs"]
    resolved = {"resolved": "artifact://out/x@1", "version": 1}
    assert {**record, "ts": ""} == {
        "from": "artifact://out/x",
        "to": "work/inputs/x",
        **resolved,
        "mode": "copy",
        "ts": "",
    }


def test_a_runner_that_is_closed_runs_nothing_more(make_runner, skill, base):
    runner = make_runner()
    runner.close()
    with pytest.raises(ExecutionError, match="is closed; make another"):
        runner.run(RunRequest("tea-timer", skill, "true"))
    assert not base.exists()


def test_a_run_that_is_not_over_when_its_runner_is_closed_leaves_nothing(make_runner, skill, base):
    closings = [lambda: runner.close()]

    def find(name):
        if closings:
            closings.pop()()
        return skill

    runner = make_runner(skill_folder=find)
    inputs = (InputSpec("skill://other/SKILL.md"),)
    with pytest.raises(ExecutionError, match="is gone"):
        runner.run(RunRequest("tea-timer", skill, "true", inputs=inputs))
    assert not any(base.glob("ws_*"))


def test_what_the_system_refuses_is_an_error_of_ours(make_runner, skill):
    class Failing(LocalExecutor):
        def run(self, program):
            raise OSError(errno.EMFILE, "Too many open files")

    with pytest.raises(ExecutorError, match="'local' cannot be used: Too many open files"):
        make_runner(Failing()).run(RunRequest("tea-timer", skill, "true"))


def test_problems_and_truncated_streams_are_warnings():
    finished = Finished(b"", b"", 3, 4, 0, False, 5, problems=("two\nlines",))
    assert run_warnings(finished) == ["two lines", "stdout truncated", "stderr truncated"]
    assert run_warnings(Finished(b"", b"", 0, 0, 0, False, 5)) == []
