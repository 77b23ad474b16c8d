"""Tests of the program as a process: signals, pipes, terminals, and what it imports."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skillsearch.files.locks import locked

PROGRAM = [sys.executable, "-m", "skillsearch"]
PATIENT = (
    "from skillsearch.cli import main; from skillsearch.cli.hosts import hook\n"
    "hook.run.__defaults__ = (120,); main()"
)
"""The program whose hook may take longer than two seconds, as on a busy machine."""
HEAVY = {"numpy", "faiss", "onnxruntime", "tokenizers", "rich", "pydantic", "yaml", "rank_bm25"}


@pytest.fixture
def start(environment, tmp_path):
    def run(*args, program=PROGRAM, **options):
        command = [*program, *map(str, args)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(command, cwd=tmp_path, env=environment, text=True, **pipes)

    return run


def finish(process):
    with process:
        try:
            stdout, stderr = process.communicate(timeout=300)
        finally:
            process.kill()
    return process.returncode, stdout, stderr


@pytest.mark.parametrize("thread", [False, True])
def test_a_process_ends_at_once_and_as_any_other(environment, tmp_path, thread):
    code = (
        "import atexit, sys, threading, time\n"
        "from skillsearch import cli\n"
        "atexit.register(print, 'at exit')\n"
        "def work():\n    time.sleep(0.2)\n    print('worked')\n"
        "def main():\n"
        f"    {thread} and threading.Thread(target=work).start()\n"
        "    print('x' * 200_000)\n    sys.exit(3)\n"
        "cli.main = main\ncli.run_process()"
    )
    program = [sys.executable, "-c", code]
    done = subprocess.run(program, capture_output=True, text=True, env=environment, cwd=tmp_path)
    expected = ["x" * 200_000, *(["worked"] if thread else []), "at exit"]
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (3, expected, "")


def modules_after(environment, *args):
    code = (
        "import sys\nfrom skillsearch.cli.app import app\n"
        f"try: app({list(map(str, args))!r}, prog_name='skillsearch')\n"
        "except SystemExit: pass\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    return set(run.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("args", [["--help"], ["query", "--help"], ["nonsense"]])
def test_help_and_version_import_nothing_heavy(environment, args):
    assert not HEAVY & modules_after(environment, *args)


def test_a_query_in_json_imports_neither_rich_nor_pydantic(environment, indexed, index_dir, drinks):
    """Every import counts against the half second that a cold query may take.

    Whoever has skills read needs YAML, for their bodies.
    """
    for path in (*drinks.rglob("*"), drinks):
        os.utime(path, (1e9, 1e9))
    indexed("query", "tea")  # Records the times just set.
    args = ("query", "tea", "--json", "--reader", "off", "--index-dir", index_dir)
    imported = modules_after(environment, *args)
    assert not {"rich", "pydantic", "yaml", "rank_bm25", "sentence_transformers"} & imported


@pytest.mark.slow
def test_ctrl_c_exits_with_130_and_keeps_what_was_embedded(
    start, tmp_path, make_skill, count_saved
):
    """The next run takes the vectors that are there; no index is half made."""
    for number in range(100):
        make_skill(tmp_path / "many", f"skill-{number}", f"Does {number} things. " * 40)
    process = start("index", "many", "--index-dir", "i")
    deadline = time.monotonic() + 120
    while not count_saved():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    code, stdout, stderr = finish(process)
    assert (code, stdout, stderr) == (130, "", "Interrupted; embedded texts are kept.\n")
    assert not (tmp_path / "i" / "CURRENT").exists()
    report = json.loads(finish(start("index", "many", "--index-dir", "i", "--json"))[1])
    assert report["indexed"] == 100
    assert report["embedded"] < 100


def test_an_interrupt_that_a_callback_swallows_comes_again():
    """Python prints and drops what a destructor raises; nothing of that is seen."""
    code = """if True:
        import signal, time
        from skillsearch.cli.interrupts import leave_on_interrupt, raise_on_interrupt
        class Swallowing:
            def __del__(self):
                signal.raise_signal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        leave_on_interrupt()
        raise_on_interrupt()
        try:
            Swallowing()
            time.sleep(30)
        except KeyboardInterrupt:
            print("interrupted")
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_an_interrupt_within_an_import_comes_after_it(tmp_path):
    """Numpy makes an ImportError of it, which was told as a bug of ours."""
    (tmp_path / "library.py").write_text(
        "import signal, time\nsignal.raise_signal(signal.SIGINT)\ntime.sleep(0.1)\nwhole = 1\n"
    )
    code = """if True:
        import signal, time
        from skillsearch.cli.interrupts import leave_on_interrupt, raise_on_interrupt
        signal.signal(signal.SIGINT, signal.default_int_handler)
        leave_on_interrupt()
        raise_on_interrupt()
        try:
            import library
            time.sleep(30)
        except KeyboardInterrupt:
            print("interrupted", library.whole)
    """
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("interrupted 1\n", "")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "times", [pytest.param(4, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.night)]
)
@pytest.mark.parametrize(
    ("args", "note"),
    [
        (["--help"], ""),
        (["list", "--json"], ""),
        (["query", "-"], ""),
        (["index", "drinks", "--verify"], "; embedded texts are kept"),
        (["run", "steep-tea", "--", "sleep", "0.3"], "; the command was stopped"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_ctrl_c_at_any_time_is_one_line_in_the_right_words(
    indexed, index_dir, environment, args, note, times
):
    code = (
        "import skillsearch.cli as cli, sys; sys.argv[0] = 'skillsearch'\n"
        "print('begun', file=sys.stderr, flush=True); cli.main()"
    )
    settings = {"SKILLSEARCH_INDEX_DIR": str(index_dir), "SKILLSEARCH_DAEMON": "off"}

    def run(seconds):
        """Interrupt a run after some time; return how it ended and how long it took."""
        process = subprocess.Popen(
            [sys.executable, "-c", code, *args],
            env={**environment, **settings},
            cwd=index_dir.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr.readline() == "begun\n"
        started = time.monotonic()
        time.sleep(0.002)
        if seconds is None:
            process.communicate("steep tea", timeout=120)
            return process.returncode, "", time.monotonic() - started
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        ended, _, stderr = finish(process)
        return ended, stderr, time.monotonic() - started

    usual, _, whole = run(None)
    chosen = random.Random(7)
    ends = [run(chosen.uniform(0, whole))[:2] for _ in range(times)]
    for ended, stderr in ends:
        assert "Traceback" not in stderr
        assert "ignored" not in stderr
        assert ended in (130, usual, -signal.SIGINT)  # the last after Python gave up its signals
        if ended == 130:
            assert stderr.splitlines()[-1] in ("Interrupted.", f"Interrupted{note}.")
    assert (130, "Interrupted.\n") in ends or (130, f"Interrupted{note}.\n") in ends


def test_a_reader_that_stops_reading_is_no_error(start, indexed, index_dir):
    """``skillsearch list | head -0`` prints nothing on stderr."""
    read, write = os.pipe()
    os.close(read)
    process = start("list", "--index-dir", index_dir, stdout=write)
    os.close(write)
    assert finish(process)[2] == ""


@pytest.mark.parametrize("args", [["list"], ["--help"]])
def test_a_full_disk_behind_stdout_is_one_line(start, indexed, index_dir, args):
    """The fault of the system is told as such, before a command runs too."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    options = ["--index-dir", index_dir] if args == ["list"] else []
    with Path("/dev/full").open("w") as full:
        done = finish(start(*args, *options, stdout=full))
    line = "Error: Output stopped: No space left on device\n"
    assert done == (1, None, line)


def test_a_closed_stdout_is_no_success(start, indexed, index_dir):
    """Output that nobody can have read is a failure."""
    args = ("list", "--index-dir", index_dir)
    process = start(*args, stdout=None, preexec_fn=lambda: os.close(1))
    assert finish(process) == (1, None, "Error: Output stopped: stdout is closed\n")


def test_a_closed_stdin_is_wrong_usage_only_where_it_is_to_be_read(start, indexed, index_dir):
    process = start("query", "-", "--index-dir", index_dir, preexec_fn=lambda: os.close(0))
    code, stdout, stderr = finish(process)
    assert (code, stdout) == (2, "")
    assert stderr.endswith("Error: stdin is closed; connect it to a file or a pipe.\n")
    process = start("list", "--index-dir", index_dir, preexec_fn=lambda: os.close(0))
    code, stdout, stderr = finish(process)
    assert (code, stderr) == (0, "")
    assert len(stdout.splitlines()) == 3


@pytest.mark.parametrize(("number", "name"), [(0, "stdin"), (1, "stdout")])
def test_a_hook_without_its_streams_says_so_and_blocks_no_prompt(
    environment, start, indexed, index_dir, number, name
):
    environment["SKILLSEARCH_DAEMON"] = "off"
    read, write = os.pipe()
    os.write(write, b'{"prompt": "steep green tea"}')
    os.close(write)
    args = ("hook", "--client", "text", "--index-dir", index_dir)
    process = start(
        *args,
        program=[sys.executable, "-c", PATIENT],
        stdin=read,
        stdout=None,
        preexec_fn=lambda: os.close(number),
    )
    os.close(read)
    code, _, stderr = finish(process)
    assert code == 0
    assert stderr.startswith(f"skillsearch hook: {name} is closed; ")


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-"])
@pytest.mark.parametrize("event", ['{"prompt": "why?"}', "{"], ids=["a prompt", "no event"])
def test_the_program_of_a_hook_exits_with_0_whatever_is_closed(environment, event, closed):
    shell = ["bash", "-c", f'"$@" {closed}', "bash", *PROGRAM, "hook"]
    done = subprocess.run(
        shell, input=event, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_who_waits_for_another_writer_is_told(start, drinks, indexed, index_dir, make_skill):
    make_skill(drinks, "mix-cocktails", "Mix cocktails with a shaker.")
    with locked(index_dir / "lock", 60):
        process = start("index", "--index-dir", index_dir)
        line = process.stderr.readline()
    assert "another process is writing the index in" in line
    assert "waiting for it, 600 s at most" in line
    assert finish(process)[0] == 0


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.slow
def test_any_encoding_of_stdout_will_do(environment, cli, tmp_path, make_skill, encoding):
    make_skill(tmp_path / "r", "주간-보고", "주간 보고 café 👍")
    cli("index", tmp_path / "r", "--index-dir", tmp_path / "i", "--model", "hashing")
    env = {
        **environment,
        "PYTHONIOENCODING": encoding,
        "SKILLSEARCH_INDEX_DIR": str(tmp_path / "i"),
    }
    as_json = subprocess.run([*PROGRAM, "list", "--json"], capture_output=True, env=env, check=True)
    record = json.loads(as_json.stdout.decode(encoding))
    assert record["skills"][0]["description"] == "주간 보고 café 👍"
    subprocess.run([*PROGRAM, "list"], capture_output=True, env=env, check=True)


@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_gets_a_table_with_colours_unless_no_color(
    on_terminal, environment, indexed, index_dir, tmp_path, no_color
):
    env = {**environment, "TERM": "xterm-256color", "COLUMNS": "80", "NO_COLOR": no_color}
    args = ["query", "brew filter coffee", "-n", "1", "--index-dir", index_dir]
    code, sent = on_terminal(*args, env=env, cwd=tmp_path)
    assert code == 0
    assert "brew-coffee" in sent
    assert "\t" not in sent
    assert ("\x1b[36m" in sent) is (not no_color)


def test_a_terminal_sees_progress_while_indexing(on_terminal, environment, drinks, tmp_path):
    env = {**environment, "TERM": "xterm-256color", "COLUMNS": "80"}
    args = ["index", drinks, "--index-dir", "i", "--model", "hashing"]
    code, sent = on_terminal(*args, env=env, cwd=tmp_path)
    assert code == 0
    assert "Embedding texts" in sent
    assert "3 skills in the index" in sent


@pytest.mark.slow
@pytest.mark.parametrize("command", [["status"], ["nothing"]])
def test_a_stream_that_is_closed_is_no_bug(environment, tmp_path, command):
    options = {"cwd": tmp_path, "env": environment, "capture_output": True, "timeout": 60}
    plain = subprocess.run([*PROGRAM, *command], text=True, check=False, **options)
    for closed in ("1>&-", "2>&-", "1>&- 2>&-", "0<&-"):
        shell = ["bash", "-c", f'"$@" {closed}', "bash", *PROGRAM, *command]
        process = subprocess.run(shell, text=True, check=False, **options)
        assert process.returncode == plain.returncode, closed
        assert "bug" not in process.stderr
        assert "Traceback" not in process.stderr


@pytest.mark.parametrize("command", [["list"], ["index", "rel"], ["add", "rel"]], ids=" ".join)
def test_a_folder_that_is_gone_is_named(environment, tmp_path, command):
    shell = f'cd {tmp_path} && mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    process = subprocess.run(
        ["bash", "-c", shell, "bash", *PROGRAM, *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode in (1, 2)
    assert "the folder that this runs in is gone" in process.stderr.lower()
    assert "change to another one" in process.stderr
