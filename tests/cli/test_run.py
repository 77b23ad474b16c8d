"""Tests of ``skillsearch run``: real runs of a small skill, and what a user gets of them."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import skillsearch
from skillsearch.cli.run import read_stdin
from skillsearch.cli.run_results import find_hints
from skillsearch.execution.executors import REGISTRY, executor_statuses
from skillsearch.execution.types import Capabilities, RunRequest, RunResult
from skillsearch.index.skill_index import SkillIndex

FIBONACCI = """import sys
a, b = 0, 1
for _ in range(int(sys.argv[1])):
    print(a)
    a, b = b, a + b
"""
TEN = "0\n1\n1\n2\n3\n5\n8\n13\n21\n34\n"
SHOW_ARGUMENTS = "import sys; print(*sys.argv[1:], sep='|')"


@pytest.fixture(scope="module")
def skills(tmp_path_factory, write_skill):
    """The folder of the skill of the design document; a run sees a copy of it."""
    root = tmp_path_factory.mktemp("run") / "skills"
    folder = write_skill(root, "python-math", "Small utilities for math.").parent
    (folder / "scripts").mkdir()
    (folder / "scripts" / "fib.py").write_text(FIBONACCI)
    return root


@pytest.fixture(scope="module")
def index(skills):
    folder = skills.parent / "index"
    SkillIndex.from_roots(skills, index_dir=folder, model="hashing")
    return folder


@pytest.fixture
def run(cli, index):
    """Run a command of the skill; options come first, then ``--`` and the command."""

    def run(*args, stdin=None, executor="local"):
        options = ["--index-dir", index, "--executor", executor]
        return cli("run", *options, "python-math", *args, stdin=stdin)

    return run


@pytest.fixture
def local(run):
    return lambda text, *options, **settings: run(*options, "--", "bash", "-c", text, **settings)


@pytest.mark.parametrize(
    "executor", ["local", "namespace", pytest.param("container", marks=pytest.mark.requires_docker)]
)
def test_the_example_of_the_document_runs_by_each_executor(run, executor):
    reasons = {each.name: each.reason for each in executor_statuses()}
    if reasons[executor]:
        pytest.skip(reasons[executor])
    command = "python3 scripts/fib.py 10 > out/fib.txt"
    result = run("--output", "out/*.txt", "--", "bash", "-c", command, executor=executor)
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    assert Path("out/fib.txt").read_text() == TEN
    assert result.stderr.splitlines() == ["kept: out/fib.txt"]


def test_each_stream_goes_to_its_own_and_nothing_is_added_that_moves_a_cursor(local, home):
    """So that who runs a command reads what it wrote, and nothing else."""
    result = local(r"printf '\033[2J\033]0;t\007ok\n'; printf '\033[31mbad\n' >&2")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "[2J]0;tok\n", "[31mbad\n")
    assert [path for path in home.rglob("ws_*") if path.is_dir()] == []


def test_how_a_run_went_is_told_if_it_failed_or_is_asked_for(local):
    failed = local("exit 3").stderr.splitlines()
    assert len(failed) == 1
    assert re.fullmatch(r"exit code 3 after \d+\.\d\d s; run by: local", failed[0])
    lines = local("exit 0", "-v").stderr.splitlines()
    assert re.fullmatch(r"info: exit code 0 after \d+\.\d\d s; run by: local", lines[-1])


def test_what_stands_behind_the_dashes_is_the_command_as_it_is(run):
    words = ["--json", "-v", "a b", "*", "$HOME", "--", "--output", "x"]
    result = run("--", "python3", "-c", SHOW_ARGUMENTS, *words)
    assert result.stdout == "|".join(words) + "\n"


@pytest.mark.slow
def test_a_command_that_times_out_exits_with_124(local):
    result = local("echo begun; sleep 60", "--timeout", "0.5")
    assert (result.exit_code, result.stdout) == (124, "begun\n")
    assert "timed out after 0.5" in result.stderr


def test_a_program_that_is_not_there_exits_with_127(run):
    result = run("--", "no-such-program")
    assert (result.exit_code, result.stdout) == (127, "")
    assert "no-such-program" in result.stderr
    assert "not started, after" in result.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["python-mat", "--", "true"], "Did you mean: python-math"),
        (["--require-isolation", "python-math", "--", "true"], "isolation is required"),
        (
            ["--index-dir", "nowhere", "python-math", "--", "true"],
            "/work/nowhere, or run the skill",
        ),
        (["--input", "artifact://x", "python-math", "--", "true"], "artifact"),
        (["--input", "skill://none/x", "python-math", "--", "true"], "none"),
        (["--env", "LD_PRELOAD=x", "python-math", "--", "true"], "LD_PRELOAD"),
    ],
)
def test_what_is_not_run_exits_with_125(cli, index, options, words):
    """One line says why; no command of a skill is likely to exit so."""
    result = cli("run", "--index-dir", index, "--executor", "local", *options)
    assert (result.exit_code, result.stdout) == (125, "")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--output", "../x", "write it from the workspace on, as 'out/*.txt'"),
        ("--output", "/etc/passwd", "write it from the workspace on, as 'out/*.txt'"),
        ("--output", "$HOME/x", "HOME"),
        ("--output", "[z-a]", "[z-a]"),
        ("--root", "none", "none'; name one for --root"),
        ("--root", ".", "no readable skill below"),
    ],
)
def test_an_argument_that_cannot_be_meant_is_wrong_usage(cli, index, option, value, words):
    options = ("--index-dir", index, "--executor", "local", option, value)
    result = cli("run", *options, "python-math", "--", "true")
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "Say what to run"),
        (["python-math"], "Say what to run"),
        (["python-math", "--"], "Say what to run"),
        (["--", "true"], "Say what to run"),
        (["python-math", "true"], "Say what to run"),
        (["python-math", "true", "--", "x"], "Say what to run"),
        (["python-math", "--", "echo a"], "let a shell read it: -- bash -c '...'"),
        (["--env", "x", "python-math", "--", "true"], "NAME=VALUE"),
        (["--env", "=x", "python-math", "--", "true"], "NAME=VALUE"),
        (
            ["--input", "none.csv", "python-math", "--", "true"],
            "'none.csv' is neither a file nor a folder",
        ),
        (["--input", "/", "python-math", "--", "true"], "'/' is neither a file nor a folder"),
        (["--timeout", "0", "python-math", "--", "true"], "0.0 is not in the range 0<x<=3600"),
        (["--timeout", "nan", "python-math", "--", "true"], "'nan' is not a number"),
        (
            ["--timeout", "3601", "python-math", "--", "true"],
            "3601.0 is not in the range 0<x",
        ),
        (["--force", "python-math", "--", "true"], "--output GLOB"),
        (["--output-dir", "new", "python-math", "--", "true"], "--output GLOB"),
        (
            ["--output", "out/*", "--output-dir", "/dev/null/x", "python-math", "--", "true"],
            "Nothing can be kept in '/dev/null/x'",
        ),
        (["--executor", "vm", "python-math", "--", "true"], "vm"),
        (["--image", "alpine", "python-math", "--", "true"], "--executor container"),
    ],
)
def test_wrong_usage_exits_with_2(cli, index, options, words):
    result = cli("run", "--index-dir", index, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in " ".join(result.stderr.split())
    assert not Path("new").exists()


def test_json_is_one_object_with_all_that_is_known(local):
    result = local("echo hi; echo 1 > out/a.txt; exit 3", "--output", "out/*", "--json")
    record = json.loads(result.stdout)
    assert (record["stdout"], record["exit_code"], record["executor"]) == ("hi\n", 3, "local")
    assert [(file["name"], file["content"]) for file in record["output_files"]] == [
        ("out/a.txt", "1\n")
    ]
    assert (result.exit_code, result.stderr) == (3, "")
    assert Path("out/a.txt").read_text() == "1\n"


def test_files_are_kept_byte_for_byte_under_their_paths(local):
    command = "mkdir -p out/b; printf '\\x00\\xff' > out/b/c.bin; echo w > work/note"
    options = ["--output", "out/**", "--output", "$WORK_DIR/note", "--output-dir", "kept/here"]
    result = local(command, *options)
    assert result.exit_code == 0, result.stderr
    assert Path("kept/here/out/b/c.bin").read_bytes() == b"\x00\xff"
    assert Path("kept/here/work/note").read_text() == "w\n"


def test_a_file_that_is_there_is_not_written_over(local):
    Path("out").mkdir()
    Path("out/a").write_text("mine")
    command = "printf new > out/a; printf new > out/b"
    result = local(command, "--output", "out/*")
    assert result.exit_code == 125
    assert "out/a was not written: it exists" in result.stderr
    assert [Path("out/a").read_text(), Path("out/b").read_text()] == ["mine", "new"]
    assert local(f"{command}; exit 4", "--output", "out/*").exit_code == 4
    assert local(command, "--output", "out/*", "--force").exit_code == 0
    assert Path("out/a").read_text() == "new"


@pytest.mark.parametrize("is_forced", [False, True])
@pytest.mark.parametrize("link", ["out", "out/a"])
def test_no_file_is_written_through_a_link(local, tmp_path, link, is_forced):
    target = tmp_path / "elsewhere"
    target.mkdir()
    (target / "a").write_text("mine")
    Path(link).parent.mkdir(exist_ok=True)
    Path(link).symlink_to(target if link == "out" else target / "a")
    force = ["--force"] if is_forced else []
    result = local("printf new > out/a", "--output", "out/*", *force)
    assert result.exit_code == 125
    assert "out/a" in result.stderr
    assert (target / "a").read_text() == "mine"


NAMESPACE = Capabilities("namespaces", False, False, False, False, (), ())
LOCAL = Capabilities("none", True, True, True, True, (), ())


@pytest.mark.parametrize(
    ("code", "stderr", "capabilities", "words"),
    [
        (-1, "execvp: Permission denied", NAMESPACE, ["by its interpreter"]),
        (126, "bash: scripts/a.sh: Permission denied", LOCAL, ["by its interpreter"]),
        (127, "bash: jq: command not found", LOCAL, ["looked for next to skillsearch's Python"]),
        (1, "mkdir: 'docs': Permission denied", LOCAL, ["../skills/python-math from there"]),
        (30, "Read-only file system", NAMESPACE, ["--cwd work"]),
        (2, "a.sh: $'\\r': command not found", LOCAL, ["Windows line endings"]),
        (1, "ModuleNotFoundError: No module named 'x'", LOCAL, [sys.prefix]),
        (6, "curl: (6) Could not resolve host: a.org", NAMESPACE, ["has no network"]),
        (6, "curl: (6) Could not resolve host: a.org", LOCAL, []),
        (1, "Connection refused; No module named x", NAMESPACE, [sys.prefix, "has no network"]),
        (0, "No module named 'x'; went on without", NAMESPACE, []),
        (3, "usage: fib.py N", NAMESPACE, []),
    ],
)
def test_what_a_command_failed_for_is_explained_where_it_is_known(
    tmp_path, code, stderr, capabilities, words
):
    request = RunRequest("python-math", tmp_path, ("python3", "scripts/fib.py"))
    result = RunResult("", stderr, code, False, 1, "namespace")
    hints = find_hints(result, request, capabilities)
    assert len(hints) == len(words)
    assert all(word in hint for word, hint in zip(words, hints, strict=True))
    timed_out = RunResult("", stderr, code, True, 1, "namespace")
    assert find_hints(timed_out, request, capabilities) == []


@pytest.mark.parametrize(
    ("word", "capabilities", "is_told"),
    [
        ("people.csv", LOCAL, True),
        ("{cwd}/people.csv", NAMESPACE, True),
        ("{cwd}/people.csv", LOCAL, False),
        ("SKILL.md", LOCAL, False),
        ("out", LOCAL, False),
        ("none.csv", LOCAL, False),
        (".", LOCAL, False),
        ("", LOCAL, False),
        ("x" * 5000, LOCAL, False),
    ],
)
def test_a_file_of_the_user_that_a_command_missed_is_an_input(
    make_skill, tmp_path, monkeypatch, word, capabilities, is_told
):
    """Scripts tell of it in their own way, and may exit with 0 then."""
    folder = make_skill(tmp_path / "skills", "python-math").parent
    monkeypatch.chdir(tmp_path)
    for name in ("people.csv", "SKILL.md", "out"):
        Path(name).touch()
    word = word.format(cwd=Path.cwd())
    request = RunRequest("python-math", folder, ("cat", word))
    result = RunResult(f"File not found: {word}", "", 0, False, 1, "local")
    hints = find_hints(result, request, capabilities)
    expected = f"add --input {word}, and in the command call it inputs/people.csv."
    assert [expected in hint for hint in hints] == [True] * is_told


def test_a_hint_stands_in_the_report(run):
    Path("people.csv").touch()
    lines = run("--", "cat", "people.csv").stderr.splitlines()
    assert lines[-1].startswith("hint: The command cannot see your people.csv")


def test_files_that_are_not_kept_are_told_of(local):
    nothing = local("echo 1 > out/a.txt", "--output", "out/*.csv")
    assert nothing.exit_code == 0
    assert "warning: No file matches --output; " in nothing.stderr
    result = local("echo 1 > out/a.txt; touch out/.b")
    assert result.stderr.splitlines() == [
        "not kept: out/a.txt (text/plain, 2 bytes)",
        "To keep files add: --output 'out/**'",
    ]
    assert not Path("out").exists()


@pytest.mark.parametrize("pattern", ["**", "**/*", "*", "./"])
def test_no_wildcard_keeps_hidden_files(local, pattern):
    """They would steer the user's shell, git or editor; who wants them names them."""
    plant = "mkdir -p .git/hooks out/.vscode; echo x | tee .bashrc .git/hooks/post-commit"
    command = f'cd "$WORKSPACE_DIR"; {plant} out/.vscode/tasks.json out/a'
    result = local(command, "--output", pattern, "--output-dir", "all")
    assert result.exit_code == 0, result.stderr
    saved = {path.name for path in Path("all").rglob("*") if path.is_file()}
    assert "a" in saved or pattern == "*"
    assert not [path for path in Path("all").rglob("*") if path.name.startswith(".")]
    named = local(command, "--output", "{.bashrc,.git/**,out/**/.*/*}", "--output-dir", "named")
    assert named.exit_code == 0, named.stderr
    saved = {str(path.relative_to("named")) for path in Path("named").rglob("*") if path.is_file()}
    assert saved == {".bashrc", ".git/hooks/post-commit", "out/.vscode/tasks.json"}


def test_a_file_too_large_to_be_kept_is_a_fault(local):
    """A cut file is worse than none."""
    result = local("truncate -s 65M out/big", "--output", "out/*")
    assert result.exit_code == 125
    assert not Path("out/big").exists()
    assert "out/big" in result.stderr


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("data.csv", "work/inputs/data.csv"),
        ("data.csv=work/there.csv", "work/there.csv"),
        ("a=b.csv=work/c", "work/c"),
        ("100% grün.csv", "work/inputs/100% grün.csv"),
        ("link.csv=work/c", "work/c"),
        ("host://{cwd}/data.csv", "work/inputs/data.csv"),
        ("skill://python-math/scripts/fib.py=work/c", "work/c"),
        ("folder", "work/inputs/folder/inner"),
    ],
)
def test_inputs_are_copied_into_the_workspace(local, source, path):
    """Files and folders that the user names need no further leave."""
    for name in ("data.csv", "a=b.csv", "100% grün.csv", "folder/inner"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("content\n")
    Path("link.csv").symlink_to("data.csv")
    result = local(f'cat "$WORKSPACE_DIR/{path}"', "--input", source.format(cwd=Path.cwd()))
    expected = FIBONACCI if source.startswith("skill") else "content\n"
    assert (result.stdout, result.exit_code) == (expected, 0), result.stderr


def test_the_original_of_an_input_is_out_of_reach(local):
    Path("data.csv").write_text("mine")
    assert local("echo x > inputs/data.csv", "--input", "data.csv").exit_code == 0
    assert Path("data.csv").read_text() == "mine"


def test_variables_and_folder_are_passed_on(local):
    result = local('echo "$A $B"; basename "$PWD"', "--env", "A=1=2", "--env", "B=", "--cwd", "out")
    assert result.stdout == "1=2 \nout\n"


@pytest.mark.parametrize(
    ("option", "seen"), [([], ""), (["--stdin"], "grün\n"), (["-i"], "grün\n")]
)
def test_our_stdin_is_read_when_it_is_asked_for(run, option, seen):
    """A pipe that nobody closes stops no run that does not want it."""
    assert run(*option, "--", "cat", stdin="grün\n").stdout == seen


def test_a_stdin_that_is_no_text_is_refused_and_a_closed_one_empty(run, monkeypatch):
    result = run("-i", "--", "cat", stdin=io.BytesIO(b"\xff"))
    assert result.exit_code == 125
    assert "use --input FILE" in result.stderr
    monkeypatch.setattr("sys.stdin", None)
    assert read_stdin() == ""


def test_output_beyond_the_tool_s_limit_is_printed_whole(local):
    """A model gets 16 KiB, a pipe all of it."""
    assert local("seq 50000").stdout == "".join(f"{number}\n" for number in range(1, 50_001))


def test_a_skill_below_a_root_needs_no_index(cli, skills, home):
    command = ["python-math", "--executor", "local", "--", "python3", "scripts/fib.py", "10"]
    result = cli("run", "--root", skills, *command)
    assert (result.exit_code, result.stdout) == (0, TEN)
    assert not list(home.rglob("CURRENT"))


def test_the_first_root_wins(cli, skills, tmp_path, make_skill):
    other = make_skill(tmp_path / "other", "python-math").parent
    (other / "mine").touch()

    def ls(name):
        roots = ["--root", skills, "--root", tmp_path / "other"]
        return cli("run", *roots, "--executor", "local", name, "--", "ls").stdout.split()

    assert "scripts" in ls("python-math")
    assert "mine" in ls("other:python-math")


def test_the_executors_of_this_machine_are_told(cli):
    result = cli("run", "--list-executors")
    assert result.exit_code == 0
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[0] for row in rows if row[1] != "not isolated"] == list(REGISTRY)
    assert rows[0][:2] == ["local", "works here"]
    record = json.loads(cli("run", "--list-executors", "--json").stdout)
    assert [each["name"] for each in record["executors"]] == list(REGISTRY)
    gaps = {row[2] for row in rows if row[:2] == ["local", "not isolated"]}
    assert gaps == set(record["executors"][0]["not_isolated"])


def start(*args, **options):
    environment = {**os.environ, "PYTHONPATH": str(Path(skillsearch.__file__).parents[1])}
    command = [sys.executable, "-m", "skillsearch", "run", *map(str, args)]
    return subprocess.Popen(command, env=environment, text=True, **options)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_interrupted_leaves_no_command_behind(skills, tmp_path, sent):
    pid_file = tmp_path / "pid"
    text = f"echo $$ > {pid_file}; sleep 300"
    process = start(
        *("--root", skills, "--executor", "local", "python-math", "--", "bash", "-c", text),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        deadline = time.monotonic() + 120
        while not (pid_file.exists() and pid_file.read_text().endswith("\n")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(sent)
        _, stderr = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate(timeout=120)
    assert process.returncode == (130 if sent == signal.SIGINT else -sent)
    assert ("Interrupted; the command was stopped." in stderr) == (sent == signal.SIGINT)
    pid = int(pid_file.read_text())
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_report_fits_a_terminal(on_terminal, index, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(skillsearch.__file__).parents[1]))
    options = ("run", "--index-dir", index, "--executor", "local")
    ended, sent = on_terminal(*options, "python-math", "--", "bash", "-c", "printf abc; exit 7")
    assert ended == 7
    lines = sent.splitlines()
    assert lines[0] == "abc"
    assert lines[1].startswith("exit code 7 after ")
    assert max(map(len, lines)) <= 80
