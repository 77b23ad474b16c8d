"""Real processes under supervision. Whatever multiplies here ends by itself, supervised or not."""

import hashlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skillsearch
from skillsearch.errors import ExecutorError
from skillsearch.execution.isolation import capture, supervise
from skillsearch.execution.isolation.capture import (
    Kept,
    run_supervised,
    stream_text,
    whole_characters,
)
from skillsearch.execution.types import Program, RunLimits

PATH = "/usr/local/bin:/usr/bin:/bin"
DAEMON = "setsid setsid sleep 3600 >/dev/null 2>&1 & "
"""Shell text that starts what no group, session or parent leads to any more."""
TREE = f"({DAEMON}) & (sleep 3600 &) & sleep 3600 & "


def alive(marker):
    command_lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if marker.encode() in (folder / "environ").read_bytes():
                command_lines.append((folder / "cmdline").read_bytes())
    return command_lines


@pytest.fixture
def is_gone(wait_for):
    """Wait until no process has a marker, and return whether it stays so.

    A process that is just becoming another program has no environment to read.
    """
    return lambda marker: wait_for(lambda: alive(marker) == []) and alive(marker) == []


@pytest.fixture
def marker():
    name = f"MARK_{uuid.uuid4().hex}"
    yield name
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if name.encode() in (folder / "environ").read_bytes():
                os.kill(int(folder.name), signal.SIGKILL)


@pytest.fixture
def run(tmp_path, marker):
    """Run a program in an empty folder, with the marker in its environment."""

    def run(*argv, env=(), stdin=b"", cwd=tmp_path, limited=True, **limits):
        variables = {"PATH": PATH, "MARKER": marker, **dict(env)}
        bounds = RunLimits(**{"timeout": 20, **limits})
        program = Program(argv, cwd, tmp_path, variables, stdin, bounds)
        return run_supervised(argv, program, limited=limited)

    return run


def python(text):
    return (sys.executable, "-I", "-S", "-c", text)


@pytest.mark.parametrize("code", [0, 255])
def test_a_program_that_ends_gives_its_output_and_exit_code(run, code):
    captured = run("sh", "-c", f"echo tea; exit {code}")
    assert (captured.stdout, captured.stderr, captured.exit_code) == (b"tea\n", b"", code)
    assert (captured.timed_out, captured.problems) == (False, ())
    assert (captured.stdout_dropped, captured.stderr_dropped) == (0, 0)
    assert 0 <= captured.duration_ms < 10_000
    for name in ("KILL", "PIPE"):  # a signal is told as a shell tells it
        expected = 128 + signal.Signals[f"SIG{name}"]
        assert run("sh", "-c", f"kill -{name} $$").exit_code == expected


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("no-such-program",), "No such file or directory"),
        (("./plain.txt",), "Permission denied"),
        (("./no-format",), "Exec format error"),
        ((), "it has no name"),
        (("",), "it has no name"),
        (("echo", "a\0b"), "holds a NUL"),
        (("echo", "\ud800"), "surrogates not allowed"),
        (("echo", "x" * (4 << 20)), "Argument list too long"),
    ],
)
def test_a_program_that_cannot_be_started(run, tmp_path, argv, reason):
    (tmp_path / "plain.txt").write_text("plain")
    (tmp_path / "no-format").write_text("plain")
    (tmp_path / "no-format").chmod(0o755)
    captured = run(*argv)
    assert (captured.exit_code, captured.stdout, captured.timed_out) == (-1, b"", False)
    assert reason in captured.stderr.decode()
    assert captured.stderr.startswith(b"The program ")


def test_surroundings_that_no_program_can_have(run, tmp_path):
    (tmp_path / "file").write_text("")
    for name in ("A=B", "A\0"):
        assert run("true", env={name: "1"}).exit_code == -1
    for name in ("missing", "file"):
        captured = run("true", cwd=tmp_path / name)
        assert captured.exit_code == -1
        message = f"The folder {tmp_path / name} cannot be entered: "
        assert captured.stderr.decode().startswith(message)


def test_memory_that_is_too_little_to_start_in_ends_the_program(run):
    assert run("true", memory_bytes=1 << 16).exit_code not in {0, None}


def test_a_name_is_looked_for_on_the_path_of_the_program(run, tmp_path):
    for folder, mode in (("first", 0o644), ("second", 0o755)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tea").write_text(f"#!/bin/sh\necho {folder}\n")
        (tmp_path / folder / "tea").chmod(mode)
    path = f"/nowhere::{tmp_path}/first:{tmp_path}/second"
    assert run("tea", env={"PATH": path}).stdout == b"second\n"
    assert run("tea", cwd=tmp_path / "second", env={"PATH": ":"}).exit_code == -1


def test_the_environment_is_the_one_given_and_no_supervisor_has_another(run, marker, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    lines = run("env", env={"A": "b=c\nd", "E": ""}).stdout
    assert lines == f"PATH={PATH}\nMARKER={marker}\nA=b=c\nd\nE=\n".encode()
    both = "cat /proc/$PPID/environ /proc/$(cut -d' ' -f4 /proc/$PPID/stat)/environ"
    assert b"hunter2" not in run("bash", "-c", both).stdout


def test_no_program_can_look_into_its_supervisors(open_package):
    """They belong to root although they run as somebody else, who can neither read nor trace them.

    Root can, so as root this runs a copy of the package as nobody.
    """
    text = """if True:
        import sys
        from pathlib import Path
        from skillsearch.execution.isolation.capture import run_supervised
        from skillsearch.execution.types import Program
        argv = ("bash", "-c", sys.argv[1])
        program = Program(argv, Path("/"), Path("/"), {"PATH": sys.argv[2]})
        print(run_supervised(argv, program).stdout.decode(), end="")
    """
    owner = os.getuid() or 65534
    system = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    nobody = {"user": owner, "group": owner, "extra_groups": []} if os.getuid() == 0 else {}
    files = f"stat -c %u /proc/self/environ /proc/$PPID/environ /proc/{OUTER}/environ"
    ran = subprocess.run(
        [system, "-B", "-c", text, files, PATH],
        cwd=open_package,
        env={"PATH": PATH},
        capture_output=True,
        text=True,
        timeout=120,
        **nobody,
    )
    if "SyntaxError" in ran.stderr or "ImportError" in ran.stderr:
        pytest.skip("the Python of the system is too old")
    assert (ran.stdout, ran.stderr) == (f"{owner}\n0\n0\n", "")


def test_a_program_begins_as_if_nobody_had_started_it(run):
    assert run("ls", "/proc/self/fd").stdout.split() == [b"0", b"1", b"2", b"3"]
    stat = run("cat", "/proc/self/stat").stdout.split()
    pid, group, session, policy = (stat[index] for index in (0, 4, 5, 40))
    assert (pid, pid, b"0") == (group, session, policy)
    lines = run("cat", "/proc/self/status").stdout.splitlines()
    status = dict(line.split(b":\t", 1) for line in lines)
    # glibc keeps 32 and 33 to itself: what starts our caller may have them ignored.
    of_libc = 0b11 << 31
    masks = (int(status[name], 16) for name in (b"SigIgn", b"SigBlk", b"SigCgt"))
    assert {mask & ~of_libc for mask in masks} == {0}
    assert status[b"NoNewPrivs"] == b"1"


def test_limits_are_set(run):
    bounds = {"memory_bytes": 1 << 30, "file_bytes": 1 << 20, "open_files": 99}
    lines = run("cat", "/proc/self/limits", **bounds).stdout.decode().splitlines()
    limits = {line[:26].strip(): line[26:].split()[:2] for line in lines}
    assert limits["Max address space"] == [str(1 << 30)] * 2
    assert limits["Max file size"] == [str(1 << 20)] * 2
    assert limits["Max open files"] == ["99"] * 2
    assert limits["Max core file size"] == ["0"] * 2
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert int(run("sh", "-c", "ulimit -n", open_files=hard + 1).stdout) == hard


def test_a_client_is_not_limited(run):
    look = "ulimit -n; ulimit -v; grep NoNewPrivs /proc/self/status"
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    captured = run("bash", "-c", look, limited=False, open_files=9, memory_bytes=1 << 30)
    assert captured.stdout == f"{soft}\nunlimited\nNoNewPrivs:\t0\n".encode()


def test_a_program_reads_its_input_or_none_of_it(run):
    data = os.urandom(3 << 20)
    captured = run("sha256sum", stdin=data)
    assert captured.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
    captured = run("sh", "-c", "exec 0<&-; echo done", stdin=bytes(10 << 20))
    assert (captured.stdout, captured.exit_code) == (b"done\n", 0)


def test_of_much_output_beginning_and_end_are_kept(run):
    captured = run("seq", "100000", output_bytes=1001)
    whole = "".join(f"{number}\n" for number in range(1, 100001)).encode()
    assert captured.stdout == whole[:500] + whole[-501:]
    assert captured.stdout_dropped == len(whole) - 1001


def test_both_streams_are_read_at_once(run):
    text = "import os\nfor _ in range(300): os.write(1, bytes(9999)); os.write(2, bytes(7777))"
    captured = run(*python(text))
    assert (len(captured.stdout), captured.stdout_dropped) == (16 << 10, 300 * 9999 - (16 << 10))
    assert (len(captured.stderr), captured.stderr_dropped) == (16 << 10, 300 * 7777 - (16 << 10))


def test_a_program_may_close_its_output_or_hand_it_to_one_that_ends_soon_after(run):
    captured = run("sh", "-c", "exec >&- 2>&-; sleep 0.3; exit 5")
    assert (captured.exit_code, captured.stdout, captured.stderr) == (5, b"", b"")
    assert captured.duration_ms >= 300
    captured = run("bash", "-c", "exec > >(sleep 0.05; cat); echo tea")
    assert (captured.stdout, captured.problems) == (b"tea\n", ())


def test_a_program_may_read_its_own_output(run):
    """The bytes it takes are gone, and nothing waits for them."""
    # It never blocks, as bash's read does if another takes the bytes that it was told of.
    text = """
import os
own = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
for _ in range(1000):
    os.write(1, b"tea")
    try:
        os.read(own, 3)
    except BlockingIOError:
        pass
os.write(1, b"end")
"""
    captured = run(*python(text))
    assert (captured.exit_code, captured.stderr) == (0, b"")
    assert captured.stdout.endswith(b"end")
    assert captured.stdout_dropped == 0


def test_nothing_is_dropped_of_what_just_fits():
    for limit in range(6):
        for size in range(9):
            stream = Kept(limit)
            data = bytes(range(size))
            for at in range(0, size, 2):
                stream.add(data[at : at + 2])
            expected = data
            if size > limit:
                expected = data[: limit // 2] + data[size - (limit - limit // 2) :]
            assert stream.result() == (expected, size - len(expected))


@pytest.mark.slow
def test_a_flood_of_output_takes_no_memory(tmp_path):
    text = f"""
import resource
from pathlib import Path
from skillsearch.execution.isolation.capture import run_supervised
from skillsearch.execution.types import Program
folder = Path({str(tmp_path)!r})
def run(size):
    argv = ("head", "-c", str(size), "/dev/zero")
    return run_supervised(argv, Program(argv, folder, folder, {{"PATH": {PATH!r}}}))
run(10 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = run(10 ** 9)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(found.exit_code, len(found.stdout) + found.stdout_dropped, (after - before) >> 10)
"""
    env = {"PYTHONPATH": str(Path(skillsearch.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", text], env=env, capture_output=True, timeout=120, check=True
    )
    code, size, growth = map(int, done.stdout.split())
    assert (code, size) == (0, 10**9)
    assert growth < 8


def test_time_is_over(run, marker):
    captured = run("bash", "-c", TREE + "echo started; wait", timeout=3)
    assert (captured.timed_out, captured.exit_code, captured.stdout) == (True, 137, b"started\n")
    assert captured.problems == ("It timed out after 3 s; everything it had started was ended.",)
    assert captured.duration_ms >= 3000
    assert alive(marker) == []


def test_what_a_program_leaves_running_is_ended(run, marker):
    captured = run("bash", "-c", "setsid sleep 3600 & " + DAEMON + "echo tea; exit 3")
    assert (captured.stdout, captured.exit_code, captured.timed_out) == (b"tea\n", 3, False)
    (problem,) = captured.problems
    assert problem.startswith("Processes that it left running were ended: ")
    assert alive(marker) == []


def test_a_chain_of_short_lives_is_ended(run, marker):
    text = "import os\nfor _ in range(3000):\n    if os.fork(): os._exit(0)\n    os.setsid()"
    run(*python(text), timeout=5)
    assert alive(marker) == []


def test_as_many_processes_as_allowed_may_live(run):
    fill = "for _ in {{1..9}}; do sleep {} & done; wait; echo all"
    assert run("bash", "-c", fill.format(0.3), processes=10).stdout == b"all\n"
    assert run("bash", "-c", fill.format(3600), processes=9).problems


OUTER = "$(cut -d' ' -f4 /proc/$PPID/stat)"


@pytest.mark.parametrize(
    ("attack", "problem"),
    [
        ("kill -9 $PPID", "lost"),
        ("kill -STOP $PPID", "lost"),
        (f"kill -9 {OUTER}", "outer"),
        (f"kill -9 -- -{OUTER}", "outer"),
        (f"kill -STOP {OUTER}; exit", None),
    ],
)
def test_a_program_does_not_outlive_its_supervisor(
    run, marker, is_gone, monkeypatch, attack, problem
):
    monkeypatch.setattr(capture, "LATE", 1.0)
    captured = run("bash", "-c", f"{TREE}{attack}; sleep 3600; echo survived")
    assert b"survived" not in captured.stdout
    if problem:
        assert captured.problems == (capture._REASONS[problem],)
        assert captured.exit_code == 137
    assert is_gone(marker)


def test_a_program_that_kills_both_its_supervisors_dies_with_them(run, marker, is_gone):
    """Its children may live on: without isolation nobody can prevent that.

    The second may notice that the first is gone before it is killed too.
    """
    find = "open(f'/proc/{inner}/stat').read().rpartition(')')[2].split()[1]"
    kills = f"inner = os.getppid(); outer = int({find}); os.kill(outer, 9); os.kill(inner, 9)"
    captured = run(*python(f"import os, time; {kills}; time.sleep(3600)"))
    assert captured.problems in {(capture._REASONS[reason],) for reason in ("lost", "outer")}
    assert is_gone(marker)


def test_supervisors_that_were_both_stopped_are_woken(run, marker, is_gone, monkeypatch):
    monkeypatch.setattr(capture, "LATE", 1.0)
    captured = run("bash", "-c", f"{TREE}kill -STOP {OUTER} $PPID; sleep 3600", timeout=1)
    assert captured.problems
    assert is_gone(marker)


def test_an_interrupt_ends_all_before_it_goes_on(run, marker, tmp_path, wait_for):
    def interrupt():
        wait_for((tmp_path / "started").exists)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    hand = threading.Thread(target=interrupt)
    # Workers that run tests side by side ignore the key.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    command = TREE + "touch started; wait"
    try:
        hand.start()
        with pytest.raises(KeyboardInterrupt):
            run("bash", "-c", command)
        assert alive(marker) == []
        hand.join(120)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_supervisor_that_ends_at_once_is_told(run, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    captured = run("true", env={"FILL": "x" * 100_000})
    assert captured.exit_code == 137
    assert captured.problems == (capture._REASONS["lost"],)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("executable", "/nowhere/python", "'/nowhere/python': No such file"),
        ("platform", "x", "Linux"),
    ],
)
def test_where_nothing_can_supervise_nothing_runs(run, monkeypatch, name, value, reason):
    monkeypatch.setattr(sys, name, value)
    with pytest.raises(ExecutorError, match=reason):
        run("true")


def test_calls_may_come_from_several_threads(run):
    def call(number):
        return run("sh", "-c", f"cat; echo {number}", stdin=b"%d " % number).stdout

    with ThreadPoolExecutor(8) as pool:
        outputs = list(pool.map(call, range(8)))
    assert outputs == [b"%d %d\n" % (number, number) for number in range(8)]


def test_no_descriptor_is_left_open(run):
    run("true")
    before = sorted(Path("/proc/self/fd").iterdir())
    for argv in (("true",), ("nowhere",), ("cat",)):
        run(*argv, stdin=b"tea")
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_children_are_found_where_the_kernel_does_not_list_them(monkeypatch):
    child = subprocess.Popen(["sleep", "60"])
    try:
        listed = supervise.children(os.getpid())
        assert child.pid in listed
        assert sorted(supervise.children(os.getpid(), has_lists=False)) == sorted(listed)
        assert supervise.children(child.pid, has_lists=False) == []
    finally:
        child.kill()
        child.wait(120)


def test_a_stream_is_text_that_moves_no_cursor_and_says_what_is_missing():
    assert stream_text("a\tb\nç\n".encode(), 0) == "a\tb\nç\n"
    assert stream_text(b"abcdef", 1234) == "abc\n[... 1,234 bytes left out ...]\ndef"
    assert stream_text(b"a\xff\xfeb", 0) == "a\ufffd\ufffdb"
    assert stream_text("50%\r100%\x1b[2J\u202eevil\0".encode(), 0) == "50%\n100%[2Jevil"


@given(st.text("a é한😀", min_size=1), st.integers(0, 40))
def test_a_cut_loses_whole_characters_and_counts_their_bytes(text, limit):
    stream = Kept(limit)
    stream.add(text.encode())
    data, dropped = stream.result()
    shown = stream_text(data, dropped)
    if not dropped:
        assert shown == text
        return
    head, count, tail = re.split(r"\n\[\.\.\. (\d+) bytes? left out \.\.\.\]\n", shown)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len((head + tail).encode()) + int(count) == len(text.encode())


@given(st.text(), st.integers(0, 200))
def test_a_beginning_ends_with_a_whole_character(text, length):
    data = text.encode("utf-8", "replace")
    whole = whole_characters(data[:length])
    whole.decode()
    assert 0 <= len(data[:length]) - len(whole) < 4
