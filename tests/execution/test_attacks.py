"""Attacks on a run, from the request to the result: each is stopped or bounded, and told of."""

import fcntl
import io
import json
import os
import platform
import pty
import re
import resource
import socket
import stat
import subprocess
import sys
import tarfile
import time
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import skillsearch
from skillsearch.agents.toolsets.workspace import WorkspaceToolset
from skillsearch.errors import ExecutionError
from skillsearch.execution.artifacts import FolderArtifacts
from skillsearch.execution.local import LocalExecutor
from skillsearch.execution.namespace import BACKENDS, NamespaceExecutor
from skillsearch.execution.outputs import MAX_ENTRIES
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.types import InputSpec, Limits, OutputSpec, RunRequest
from skillsearch.execution.workspace import Workspaces
from skillsearch.library.skill_library import SkillLibrary

SECRET = "hunter2-of-the-user"
PLANTED = "planted-code-ran"
PACKAGE = str(Path(skillsearch.__file__).parents[1])

with_one_executor = pytest.mark.parametrize("executor", ["local"], indirect=True)
"""For what is decided before any executor runs."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="programs are supervised on Linux"),
]


@pytest.fixture(params=["local", *BACKENDS])
def executor(request):
    """Return each executor that this machine has; a namespace by each that can make one."""
    if request.param == "local":
        return LocalExecutor()
    found = NamespaceExecutor(backend=request.param)
    if found.reason():
        pytest.skip(found.reason())
    return found


@pytest.fixture
def base(tmp_path):
    """Name the folder of the workspaces, of which none may be left in the end."""
    folder = tmp_path / "workspaces"
    yield folder
    assert sorted(path.name for path in folder.glob("ws_*")) == []


@pytest.fixture
def skill(tmp_path, make_skill):
    """Make a skill with a script."""
    folder = make_skill(tmp_path / "skills", "tea").parent
    (folder / "scripts").mkdir()
    (folder / "scripts" / "brew.sh").write_text("echo brewing\n")
    return folder


@pytest.fixture
def outside(tmp_path):
    """Make a folder of the user beside the workspaces, with a secret in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture
def make_runner(tmp_path, base, executor):
    """Make runners, and close them in the end."""
    runners = []

    def make(host_folders=(), **limits):
        runners.append(
            SkillRunner(
                executor,
                workspaces=Workspaces(base),
                artifacts=FolderArtifacts(tmp_path / "artifacts"),
                host_folders=host_folders,
                limits=Limits(**{"timeout": 30.0, **limits}),
            )
        )
        return runners[-1]

    yield make
    for runner in runners:
        runner.close()


@pytest.fixture
def make_run(make_runner, skill):
    """Make functions that run commands of the skill, each with a runner of its own."""

    def make(**options):
        runner = make_runner(**options)
        return lambda command, **request: runner.run(RunRequest("tea", skill, command, **request))

    return make


@pytest.fixture
def run(make_run):
    """Run commands of the skill in one session."""
    return make_run()


@pytest.fixture
def workspace(base):
    """Return the folder of the session, once there is one."""
    return lambda: next(path for path in base.glob("ws_*") if path.is_dir())


@pytest.fixture
def mark():
    """Return a number of seconds to know the processes of one test by."""
    return f"9{os.getpid()}.{time.monotonic_ns() % 10**6}"


def python(text, *words):
    """Return the command that runs Python text."""
    return ("python3", "-I", "-S", "-c", text, *words)


def is_running(mark):
    """Return whether a process of this machine has a mark on its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if mark.encode() in path.read_bytes():
                return True
    return False


def gone(mark, seconds=120):
    """Wait until no process has the mark, and return whether that happened."""
    deadline = time.monotonic() + seconds
    while (is_left := is_running(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_left


def told(result):
    """Return the warnings as one text."""
    return "\n".join(result.warnings)


def everything(result):
    """Return all that a caller, and through it a model, gets to see."""
    return json.dumps(result.to_dict())


def contents(folder):
    """Return what lies in a folder: of files the text, of all else the kind."""
    return {
        path.name: path.read_text() if path.is_file() else stat.S_IFMT(path.lstat().st_mode)
        for path in folder.iterdir()
    }


# Processes, time and output.

BOMB = """if True:
    import os, time
    for _ in range(8):
        os.fork()
    time.sleep(6)
"""
"""256 processes and no more, which end by themselves."""


def test_a_fork_bomb_is_ended_or_cannot_grow(make_run, mark):
    result = make_run(processes=32)(python(BOMB, mark))
    is_ended = bool(re.search("It had more than 3[24] processes at once", told(result)))
    assert is_ended or "BlockingIOError" in result.stderr, result
    assert result.exit_code != 0
    assert gone(mark)


@pytest.mark.slow
def test_a_gigabyte_on_stdout_is_cut_and_takes_no_memory(run):
    """Beginning and end are kept, and what is missing is counted."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = run("echo first; yes tea | head -c 1000000000; echo; echo last", timeout=90)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB
    assert (result.stdout[:6], result.stdout[-5:]) == ("first\n", "last\n")
    assert re.search(r"\[\.\.\. 999,9\d\d,\d{3} bytes left out \.\.\.\]", result.stdout)
    assert len(result.stdout) < 20_000
    assert result.warnings == ("stdout truncated",)


GRANDCHILDREN = {
    "background": "sleep {mark} &",
    "session": "setsid sleep {mark} &",
    "double-fork": "(setsid nohup sh -c 'sleep {mark} & sleep {mark}' >/dev/null 2>&1 &);",
    "deaf": "(trap '' HUP TERM INT; setsid sleep {mark}) &",
}


@pytest.mark.parametrize("how", GRANDCHILDREN)
def test_grandchildren_end_when_the_time_is_over(run, mark, how):
    result = run(f"{GRANDCHILDREN[how].format(mark=mark)} sleep {mark}", timeout=0.5)
    assert (result.timed_out, result.exit_code) == (True, 137)
    assert "It timed out after 0.5 s; everything it had started was ended." in result.warnings
    assert gone(mark)


@pytest.mark.parametrize("how", GRANDCHILDREN)
def test_grandchildren_end_with_the_command(run, executor, mark, how):
    """They are counted, but where their namespace ends with them in it."""
    result = run(f"{GRANDCHILDREN[how].format(mark=mark)} echo done")
    assert (result.stdout, result.exit_code) == ("done\n", 0)
    assert gone(mark)
    if executor.capabilities().isolation == "none":
        assert "Processes that it left running were ended: " in told(result)


def test_a_writer_that_stays_is_ended_before_its_file_is_collected(run, workspace):
    writer = "(setsid sh -c 'while :; do echo x >> out/log; done' >/dev/null 2>&1 &);"
    result = run(f"{writer} sleep 2", output_files=("out/*",))
    log = workspace() / "out" / "log"
    size = log.stat().st_size
    assert size > 0
    time.sleep(0.1)
    assert [file.size_bytes for file in result.output_files] == [size] == [log.stat().st_size]


def test_a_command_that_kills_its_parent_takes_nothing_with_it(run, executor, mark):
    result = run(f"setsid sleep {mark} & kill -9 $PPID; sleep 0.5; echo alive")
    assert gone(mark)
    is_told = result.exit_code == 137 and "supervisor was killed" in told(result)
    assert is_told == (result.stdout != "alive\n")
    assert is_told == (executor.capabilities().isolation == "none")


# What lies outside of the workspace.


@pytest.mark.parametrize(
    "command",
    ["echo more >> {0}/secret.txt", "mkdir -p {0}; echo x > {0}/new", "rm -rf {0}/secret.txt"],
)
def test_writing_outside_is_stopped_or_admitted(run, executor, outside, command):
    """The program can do exactly what the capabilities say."""
    assert run(f"{command.format(outside)}; echo done").stdout == "done\n"
    is_changed = contents(outside) != {"secret.txt": SECRET}
    assert is_changed == executor.capabilities().writes_outside


@pytest.mark.parametrize("link", ["", "ln -s {} work/link; cd work; "])
def test_reading_outside_is_stopped_or_admitted(run, executor, outside, link):
    path = outside / "secret.txt"
    result = run(f"{link.format(path)}cat {'link' if link else path}")
    assert (SECRET in everything(result)) == executor.capabilities().reads_outside
    assert (result.exit_code == 0) == executor.capabilities().reads_outside


def test_another_session_is_out_of_sight_or_that_is_admitted(make_runner, skill, executor):
    runner = make_runner()
    for session in ("other", "mine"):
        request = RunRequest("tea", skill, "ls -d ../../../ws_* | grep -vc lock")
        result = runner.run(request, session)
    assert result.stdout == ("2\n" if executor.capabilities().reads_outside else "1\n")


CALLER = """if True:
    import ctypes, json, os, sys
    from pathlib import Path
    from skillsearch.execution.local import LocalExecutor
    from skillsearch.execution.namespace import NamespaceExecutor
    from skillsearch.execution.types import RunRequest
    from skillsearch.execution.runner import SkillRunner
    from skillsearch.execution.workspace import Workspaces
    name, base, skill, command, before = sys.argv[1:]
    exec(before)
    executor = LocalExecutor() if name == "local" else NamespaceExecutor(backend=name)
    with SkillRunner(executor, workspaces=Workspaces(Path(base))) as runner:
        request = RunRequest("tea", Path(skill), command, timeout=20)
        print(json.dumps(runner.run(request).to_dict()))
"""


@pytest.fixture
def run_for(request, base, skill):
    """Run a command for another process, whose environment, files and keys are a test's own."""

    def run(command, before="", *, env=None, **options):
        name = request.node.callspec.params["executor"]
        argv = [sys.executable, "-c", CALLER, name, str(base), str(skill), command, before]
        env = {**os.environ, "PYTHONPATH": PACKAGE, **(env or {})}
        ran = subprocess.run(
            argv, env=env, capture_output=True, text=True, timeout=120, check=False, **options
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout.splitlines()[-1])

    return run


@pytest.mark.parametrize(
    "command", ["env; set", "tr '\\0' '\\n' < /proc/$PPID/environ", "cat /proc/self/environ"]
)
def test_a_secret_of_the_callers_environment_is_not_handed_down(run_for, executor, command):
    told = run_for(command, env={"SKILL_SECRET": SECRET})
    assert "supervisor" not in told["stderr"]
    assert SECRET not in json.dumps(told)


def test_the_callers_own_environment_is_out_of_sight_or_that_is_admitted(run_for, executor):
    look = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep ^SKILL_SECRET="
    told = run_for(look, env={"SKILL_SECRET": SECRET})
    capabilities = executor.capabilities()
    assert (SECRET in told["stdout"]) == capabilities.sees_processes
    admitted = any("secrets in their environment" in text for text in capabilities.not_isolated)
    assert admitted == capabilities.sees_processes


def test_open_files_of_the_caller_are_not_handed_down(run_for, executor, outside):
    with (outside / "secret.txt").open() as file:
        told = run_for("ls -l /proc/self/fd /proc/$PPID/fd", pass_fds=[file.fileno()])
    assert "pipe:" in told["stdout"]
    assert "secret.txt" not in told["stdout"]


ADD_KEY = """if True:
    libc = ctypes.CDLL(None)
    libc.syscall({keyctl}, 1, None)
    if libc.syscall({add_key}, b"user", b"skill", {secret!r}, {size}, -3) == -1:
        print(json.dumps({{"stdout": "no keys here"}})); sys.exit()
"""
FIND_KEY = """if True:
    import ctypes
    libc, text = ctypes.CDLL(None), ctypes.create_string_buffer(99)
    key = libc.syscall({keyctl}, 10, -3, b"user", b"skill", 0)
    print("key", libc.syscall({keyctl}, 11, key, text, 99) > 0, text.value.decode())
"""


def test_keys_of_the_callers_session_are_not_handed_down(run_for, executor):
    calls = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(platform.machine())
    if calls is None:
        pytest.skip("the numbers of the calls are not known")
    numbers = {"add_key": calls[0], "keyctl": calls[1]}
    before = ADD_KEY.format(secret=SECRET.encode(), size=len(SECRET), **numbers)
    told = run_for(f"python3 -c '{FIND_KEY.format(**numbers)}'", before)
    if told["stdout"] == "no keys here":
        pytest.skip("keys are not allowed here")
    assert told["stdout"] == "key False \n"


STEAL_KEYS = """if True:
    import ctypes, json
    libc, text = ctypes.CDLL(None), ctypes.create_string_buffer(99)
    numbers = {{{numbers}, *range(-8, 0)}}
    try:
        numbers |= {{int(line.split()[0], 16) for line in open("/proc/keys")}}
    except OSError:
        pass
    libc.syscall({keyctl}, 1, None)
    for number in numbers:
        libc.syscall({keyctl}, 8, number, -3)
        libc.syscall({add_key}, b"user", b"planted", b"x", 1, number)
        libc.syscall({keyctl}, 2, number, b"changed", 7)
    numbers |= {{libc.syscall({keyctl}, 10, -3, b"user", b"skill", 0)}}
    numbers |= {{libc.syscall({request_key}, b"user", b"skill", None, -3)}}
    print([n for n in numbers if libc.syscall({keyctl}, 11, n, text, 99) > 0], text.raw[:7])
"""
"""Links, plants, changes, and reads: by number, by name, and in every special keyring."""
HOLD_KEYS = """if True:
    libc, held = ctypes.CDLL(None), {secret!r}
    libc.syscall({keyctl}, 1, None)
    libc.syscall({keyctl}, 8, -4, -3)
    user, session = (
        libc.syscall({add_key}, b"user", b"skill", held, len(held), ring) for ring in (-4, -3)
    )
    if user == -1:
        print(json.dumps({{"stdout": "no keys here"}})); sys.exit()
    command = command.replace("KEYS", f"{{user}}, {{session}}")
    import atexit
    def tell():
        text, size = ctypes.create_string_buffer(99), 0
        planted = [libc.syscall({keyctl}, 10, ring, b"user", b"planted", 0) for ring in (-4, -3)]
        for key in (user, session):
            size = libc.syscall({keyctl}, 11, key, text, 99)
            print(json.dumps([text.raw[:size].decode(), [key for key in planted if key != -1]]))
        for key in (user, *planted):
            libc.syscall({keyctl}, 9, key, -4)
    atexit.register(tell)
"""


@pytest.mark.parametrize("executor", BACKENDS, indirect=True)
def test_keys_of_the_user_are_neither_read_nor_changed(request, base, skill, executor):
    """The user's own keyring has a number, by which every process of the user reaches it."""
    calls = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}.get(platform.machine())
    if calls is None:
        pytest.skip("the numbers of the calls are not known")
    numbers = dict(zip(("add_key", "request_key", "keyctl"), calls, strict=True))
    command = f"python3 -c '{STEAL_KEYS.format(numbers='KEYS', **numbers)}'"
    before = HOLD_KEYS.format(secret=SECRET.encode(), **numbers)
    name = request.node.callspec.params["executor"]
    argv = [sys.executable, "-c", CALLER, name, str(base), str(skill), command, before]
    env = {**os.environ, "PYTHONPATH": PACKAGE}
    ran = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    told, *outside = map(json.loads, ran.stdout.splitlines())
    if told["stdout"] == "no keys here":
        pytest.skip("keys are not allowed here")
    assert told["stdout"] == f"[] {bytes(7)}\n", told
    assert outside == [[SECRET, []]] * 2


def test_the_terminal_of_the_caller_is_out_of_reach(run_for, executor):
    """Characters pushed into it would count as typed."""
    typing = "import fcntl, os; fcntl.ioctl(os.open('/dev/tty', os.O_RDWR), 0x5412, b'x')"
    master, slave = pty.openpty()
    try:
        take = f"os.open({os.ttyname(slave)!r}, os.O_RDWR); os.open('/dev/tty', os.O_RDWR)"
        told = run_for(f'python3 -c "{typing}"', take, start_new_session=True)
        waiting = fcntl.ioctl(slave, 0x541B, b"\0" * 4)  # FIONREAD: how much was typed
    finally:
        os.close(master)
        os.close(slave)
    assert (told["exit_code"], waiting) == (1, b"\0" * 4)
    assert "No such device or address: '/dev/tty'" in told["stderr"]


CONNECT = """if True:
    import socket, sys
    family, address = int(sys.argv[1]), sys.argv[2].replace("@", "\\0")
    host, _, port = address.rpartition("|")
    with socket.socket(family) as client:
        client.settimeout(120)
        client.connect((host, int(port)) if port.isdigit() else port)
"""


@pytest.mark.parametrize("kind", ["ipv4", "ipv6", "abstract", "path"])
def test_a_server_of_this_machine_is_out_of_reach_or_that_is_admitted(
    run, executor, tmp_path, kind
):
    family, address = {
        "ipv4": (socket.AF_INET, ("127.0.0.1", 0)),
        "ipv6": (socket.AF_INET6, ("::1", 0)),
        "abstract": (socket.AF_UNIX, f"\0tea-{os.getpid()}"),
        "path": (socket.AF_UNIX, os.path.relpath(tmp_path / "s")),
    }[kind]
    with socket.socket(family) as server:
        try:
            server.bind(address)
        except OSError as exc:
            pytest.skip(str(exc))
        server.listen()
        server.setblocking(False)
        host, port = (*server.getsockname()[:2],) if kind.startswith("ip") else ("", address)
        where = f"{host}|{tmp_path / 's' if kind == 'path' else port}".replace("\0", "@")
        result = run(python(CONNECT, str(int(family)), where))
        try:
            server.accept()[0].close()
            is_reached = True
        except BlockingIOError:
            is_reached = False
    assert is_reached == executor.capabilities().network
    assert (result.exit_code == 0) == is_reached


# Links, special files, hostile names and too many of them, where outputs should be.

LINKS = {
    "file": "ln -s {0}/secret.txt out/link",
    "folder": "ln -s {0} out/link",
    "chain": "ln -s {0} work/a; ln -s ../work/a out/b; ln -s b/secret.txt out/link",
    "relative": "ln -s ../../../outside/secret.txt out/link",
    "below": "mkdir out/deep; ln -s {0} out/deep/link",
    "process": "ln -s /proc/self/root{0}/secret.txt out/link",
}


@pytest.mark.parametrize("how", LINKS)
def test_a_link_planted_in_out_brings_nothing_and_is_told(run, outside, tmp_path, how):
    globs = ("out/**", "out/link", "out/link/secret.txt", "out/deep/link/*")
    result = run(
        LINKS[how].format(outside),
        output_files=globs,
        save_as_artifacts=True,
        outputs=OutputSpec(globs, inline=True, save=True),
    )
    assert (result.output_files, result.artifact_files) == ((), ())
    assert not (tmp_path / "artifacts").exists()
    place = "out/deep/link" if how == "below" else "out/link"
    assert f"'{place}' was not collected: it is a link." in result.warnings
    with pytest.raises(ExecutionError, match="cannot be read"):
        run("cat inputs/*", inputs=(InputSpec(f"workspace://{place}"),))


def test_special_files_are_told_and_hold_nothing_up(run):
    """A FIFO that nobody writes to, a socket, and where it can be made a device."""
    bind = "import socket; socket.socket(socket.AF_UNIX).bind('out/socket')"
    result = run(
        f'mkfifo out/fifo; python3 -c "{bind}"; mknod out/device c 1 5 2>/dev/null && echo device;'
        " echo x > out/plain",
        output_files=("out/*",),
    )
    assert [file.name for file in result.output_files] == ["out/plain"]
    for name in ("fifo", "socket", *result.stdout.split()):
        assert f"'out/{name}' was not collected: it is not a plain file." in result.warnings


@pytest.mark.parametrize(
    "plant", ["mkfifo {0}", "ln -s {1}/secret.txt {0}", "mkdir -p {0}/x", "ln {1}/secret.txt {0}"]
)
def test_whatever_takes_the_place_of_the_metadata_is_replaced(run, outside, workspace, plant):
    """It is never read, nothing waits for it, and nothing is written through it."""
    run(f"cd ../..; rm -f metadata.json; {plant.format('metadata.json', outside)}")
    assert run("echo again").stdout == "again\n"
    path = workspace() / "metadata.json"
    assert stat.S_ISREG(path.lstat().st_mode)
    assert list(json.loads(path.read_text())["skills"]) == ["tea"]
    assert contents(outside) == {"secret.txt": SECRET}


@pytest.mark.slow
def test_a_hundred_thousand_outputs_are_bounded_and_removed(run):
    many = "for number in range(100_000): open(f'out/{number}', 'w').close()"
    result = run(python(many), timeout=120, outputs=OutputSpec(("out/**",), inline=True))
    assert len(result.output_files) == 100
    assert f"Only {MAX_ENTRIES:,} files and folders were looked at" in told(result)


NAMES = [
    *("line\nbreak", "\x1b[31mred\x1b]0;title\x07", "\u202eright", "x" * 255, "-rf", "a'b$(id)`;"),
    *("no-utf8-\udcff", "warning: all is well", " ", "..."),
]
MAKE_NAMES = """if True:
    import json, sys
    for name in json.loads(sys.argv[1]):
        with open("out/" + name, "w") as file:
            file.write("tea")
"""


def test_hostile_names_are_told_and_mislead_nobody(run):
    result = run(
        python(MAKE_NAMES, json.dumps(NAMES)), output_files=("out/*",), save_as_artifacts=True
    )
    assert result.stderr == ""
    good = sorted(f"out/{name}" for name in NAMES if "\udcff" not in name)
    assert [(file.name, file.content) for file in result.output_files] == [(n, "tea") for n in good]
    assert "'out/no-utf8-\\udcff' was not collected: its name is not UTF-8." in result.warnings
    assert all(warning.isprintable() for warning in result.warnings)
    json.dumps(result.to_dict()).encode()
    kept = {ref.name for ref in result.artifact_files}
    assert kept <= set(good)
    assert not any(char in name for name in kept for char in "\n\x1b\x07")


@pytest.fixture
def cli_run(cli, executor, skill):
    """Run a command of the skill by ``skillsearch run``."""
    if executor.name != "local" and NamespaceExecutor().reason():
        pytest.skip("namespaces do not work here")

    def run(*args):
        options = ("--executor", executor.name, "--root", skill.parent)
        return cli("run", *options, *args)

    return run


def test_hostile_names_are_kept_and_printed_safely(cli_run):
    names = json.dumps(NAMES)
    result = cli_run("--output", "out/*", "tea", "--", *python(MAKE_NAMES, names))
    assert not set("\x1b\x07\u202e") & set(result.stdout + result.stderr)
    assert "\nbreak" not in result.stderr
    assert "\nwarning: all is well" not in result.stderr
    kept = {name for name in NAMES if "\udcff" not in name and not name.startswith(".")}
    assert {path.name for path in Path("out").iterdir()} == kept


def test_a_file_with_rights_of_its_user_has_none_where_it_is_kept(cli_run):
    result = cli_run(
        "--output", "out/*", "tea", "--", "sh", "-c", "echo x > out/t; chmod 6777 out/t"
    )
    assert result.exit_code == 0, result.stderr
    assert Path("out/t").stat().st_mode & 0o6111 == 0


def test_a_file_with_rights_of_its_user_is_where_nobody_else_comes(run, base, workspace):
    run("echo x > work/t; chmod 6777 work/t; chmod 777 ../.. ../../work")
    result = run("stat -c %a inputs/t", inputs=(InputSpec("workspace://work/t"),))
    assert result.stdout == "755\n"
    assert [path.stat().st_mode & 0o777 for path in (base, workspace())] == [0o700, 0o700]


# Paths that lead out.

CLIMBING = {
    "workspace": {"inputs": (InputSpec("workspace://../../outside/secret.txt"),)},
    "encoded": {"inputs": (InputSpec("workspace://%2e%2e/%2e%2e/outside/secret.txt"),)},
    "backslash": {"inputs": (InputSpec("workspace://..\\..\\outside\\secret.txt"),)},
    "host": {"inputs": (InputSpec("host://{tmp}/host/../outside/secret.txt"),)},
    "not allowed": {"inputs": (InputSpec("host://{tmp}/outside/secret.txt"),)},
    "beginning alike": {"inputs": (InputSpec("host://{tmp}/host-other/secret.txt"),)},
    "skill": {"inputs": (InputSpec("skill://tea/../../outside/secret.txt"),)},
    "skill name": {"inputs": (InputSpec("skill://../../outside/secret.txt"),)},
    "artifact": {"inputs": (InputSpec("artifact://../outside/secret.txt"),)},
    "to": {"inputs": (InputSpec("skill://tea/SKILL.md", to="work/../../../outside/x"),)},
    "to, linked": {"inputs": (InputSpec("workspace://work", to="../outside/x", mode="link"),)},
    "to, absolute": {"inputs": (InputSpec("skill://tea/SKILL.md", to="{tmp}/outside/x"),)},
    "to, variable": {"inputs": (InputSpec("skill://tea/SKILL.md", to="$WORK_DIR/../../../x"),)},
    "output_files": {"output_files": ("../../outside/*",)},
    "inside first": {"output_files": ("out/../../../outside/**",)},
    "variable": {"output_files": ("$OUTPUT_DIR/../../../outside/*",)},
    "absolute": {"outputs": OutputSpec(("{tmp}/outside/*",), inline=True)},
    "braces": {"output_files": ("{out,../../outside}/*",)},
}


def _placed(value, tmp_path):
    """Return a part of a request with the folder of the test in it."""
    text = {"tmp": str(tmp_path)}
    if isinstance(value, InputSpec):
        return InputSpec(value.source.format(**text), value.to.format(**text), value.mode)
    if isinstance(value, OutputSpec):
        return OutputSpec(tuple(glob.format(**text) for glob in value.globs), inline=True)
    return value


@with_one_executor
@pytest.mark.parametrize("how", CLIMBING)
def test_a_path_that_climbs_brings_and_takes_nothing(make_run, outside, tmp_path, how):
    """It is refused before anything runs, or means a file that is not there."""
    for name in ("host", "host-other"):
        (tmp_path / name).mkdir()
    (tmp_path / "host-other" / "secret.txt").write_text(SECRET)
    part = {
        name: tuple(_placed(one, tmp_path) for one in value)
        if isinstance(value, tuple)
        else _placed(value, tmp_path)
        for name, value in CLIMBING[how].items()
    }
    run = make_run(host_folders=(tmp_path / "host",))
    with pytest.raises(ExecutionError) as caught:
        run("echo ran > $OUTPUT_DIR/ran", **part)
    assert SECRET not in str(caught.value)
    assert run("ls $OUTPUT_DIR").stdout == ""
    assert contents(outside) == {"secret.txt": SECRET}


@pytest.mark.parametrize(
    "cwd", ["..", "../../..", "/etc", "/", "$WORK_DIR/../..", "$WORK_DIR/link"]
)
def test_a_cwd_that_climbs_is_not_entered(run, outside, cwd):
    """The command runs in the skill's folder, with a warning; nor is a planted link entered."""
    run(f"ln -s {outside} $WORK_DIR/link")
    result = run("ls -d SKILL.md", cwd=cwd)
    assert result.stdout == "SKILL.md\n"
    assert "is not a folder of the workspace; the command ran in skills/tea." in told(result)


@pytest.mark.parametrize("prefix", ["../", "../../outside/", "/etc/", "a/../../"])
def test_a_prefix_that_climbs_keeps_nothing(run, outside, tmp_path, prefix):
    result = run(
        "echo x > out/x",
        output_files=("out/*",),
        save_as_artifacts=True,
        artifact_prefix=prefix,
        outputs=OutputSpec(("out/*",), save=True, name_template=prefix),
    )
    assert (result.exit_code, result.artifact_files) == (0, ())
    assert told(result).count("'out/x' is not kept: ") == 2
    assert not (tmp_path / "artifacts").exists()
    assert contents(outside) == {"secret.txt": SECRET}


@with_one_executor
@pytest.mark.parametrize(
    "arguments",
    [
        {"inputs": [{"from": "workspace://../../outside/secret.txt"}]},
        {"inputs": [{"from": "skill://tea/SKILL.md", "to": "../outside/x"}]},
        {"output_files": ["../../outside/*"]},
        {"outputs": {"globs": ["/etc/passwd"], "inline": True}},
        {"env": {"LD_PRELOAD": "/tmp/x.so"}},
    ],
    ids=["input", "to", "output_files", "outputs", "env"],
)
def test_the_tool_answers_a_climbing_argument_with_an_error(make_runner, skill, outside, arguments):
    workspace = WorkspaceToolset(SkillLibrary.from_roots(skill.parent), runner=make_runner())
    workspace.session.load("tea")
    asked = {"skill": "tea", "command": "echo ran", **arguments}
    answer = workspace.toolset().call("skill_run", asked)
    assert set(answer) == {"error"}
    assert "Traceback" not in json.dumps(answer)
    assert SECRET not in json.dumps(answer)
    assert contents(outside) == {"secret.txt": SECRET}


# Files that are swapped while they are read.

CUPS = 12
ROUNDS = 8

SWAP = """if True:
    import ctypes, os, sys
    libc, names = ctypes.CDLL(None), [os.fsencode(name) for name in sys.argv[1:]]
    pairs = list(zip(names[::2], names[1::2]))
    print(any(libc.renameat2(-100, one, -100, other, 2) for one, other in pairs), flush=True)
    while True:
        for one, other in pairs:
            libc.renameat2(-100, one, -100, other, 2)
"""


@contextmanager
def swapping(*paths):
    """Have another process give two paths each the name of the other, over and over."""
    argv = [sys.executable, "-I", "-S", "-c", SWAP, *map(str, paths)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout.readline() != "False\n":
                pytest.skip("names cannot be exchanged here")
            yield
        finally:
            process.kill()


@contextmanager
def swapped_for_links(folder, outside):
    """Swap files, and a folder with one, for links to secrets of the same form."""
    decoys = folder.parent / "decoys"
    for place in (folder / "cups", outside / "cups", decoys):
        place.mkdir(parents=True)
    (folder / "cups" / "0.txt").write_text("tea")
    (outside / "cups" / "0.txt").write_text(SECRET)
    (decoys / "cups").symlink_to(outside / "cups")
    names = [f"{number}.txt" for number in range(CUPS)]
    for name in names:
        (folder / name).write_text("tea")
        (decoys / name).symlink_to(outside / "secret.txt")
    with swapping(*(top / name for name in ("cups", *names) for top in (folder, decoys))):
        yield


def test_a_file_that_is_swapped_while_it_is_staged_brings_no_other(run, skill, outside):
    with swapped_for_links(skill, outside):
        for _ in range(ROUNDS):
            result = run("cat *.txt cups/*")
            assert SECRET not in everything(result)
            assert "tea" in result.stdout or "left out" in told(result)


def test_a_file_that_is_swapped_while_it_is_an_input_brings_no_other(make_run, outside, tmp_path):
    host = tmp_path / "host"
    run = make_run(host_folders=(host,))
    with swapped_for_links(host, outside):
        for _ in range(ROUNDS):
            result = run("cat inputs/host/*.txt", inputs=(InputSpec(f"host://{host}"),))
            assert SECRET not in everything(result)
            assert "tea" in result.stdout or "left out" in told(result)
            with suppress(ExecutionError):  # where it is a link at that moment
                result = run("cat inputs/cups/*", inputs=(InputSpec(f"host://{host}/cups"),))
                assert SECRET not in everything(result)


def test_a_file_that_is_swapped_while_it_is_collected_brings_no_other(run, workspace, outside):
    run("true")
    with swapped_for_links(workspace() / "out", outside):
        for _ in range(ROUNDS):
            result = run("true", output_files=("out/*.txt", "out/cups/*"))
            assert SECRET not in everything(result)
            assert result.output_files or "it is a link" in told(result)


# Archives as roots.


def _zip(path, members):
    """Write a zip; a member with a mode of its own is given as it is."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def _link():
    """Return a zip entry for a link."""
    info = zipfile.ZipInfo("tea/link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


HOSTILE_ZIPS = {
    "climbing": {"../evil.txt": PLANTED},
    "deep climbing": {"tea/../../evil.txt": PLANTED},
    "absolute": {"/tmp/evil.txt": PLANTED},
    "windows": {"tea\\..\\..\\evil.txt": PLANTED},
    "link": {_link(): "/etc/passwd"},
    "bomb": {"tea/bomb": bytes(65 << 20)},
    "many": {f"tea/{number}": "" for number in range(20_000)},
}


@pytest.mark.parametrize("how", HOSTILE_ZIPS)
def test_what_a_hostile_archive_plants_is_not_unpacked(cli, tmp_path, home, how):
    members = {"tea/SKILL.md": "---\nname: tea\ndescription: Tea.\n---\n", **HOSTILE_ZIPS[how]}
    path = _zip(tmp_path / "evil.zip", members)
    result = cli("run", "--root", path, "tea", "--", "echo", PLANTED)
    assert "evil.zip" in result.stderr
    left = {p.name for top in (tmp_path, home) for p in top.rglob("*") if p.is_file()}
    assert not {"evil.txt", "bomb", "link", "7"} & left
    assert not Path("/tmp/evil.txt").exists()
    if how in {"bomb", "many"}:
        assert (result.exit_code, result.stdout) == (125, ""), result
        assert "SKILL.md" not in left


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_of_a_tar_files_alone_are_unpacked(cli, tmp_path, home, kind):
    """Links lead out, and the rest is nothing for a skill; it is left out, and told."""
    text = b"---\nname: tea\ndescription: Tea.\n---\n"
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        info = tarfile.TarInfo("tea/SKILL.md")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
        info = tarfile.TarInfo("tea/other")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    result = cli("run", "--root", tmp_path / "evil.tar", "tea", "--", "echo", PLANTED)
    assert "tea/other" in result.stderr
    assert not [*home.rglob("other"), *tmp_path.rglob("other")]


# Code that is planted to be started by what looks harmless.


@with_one_executor
def test_a_variable_that_starts_code_is_refused(run):
    names = (
        "LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT PATH HOME BASH_ENV ENV PYTHONPATH PYTHONSTARTUP"
        " PYTHONHOME PERL5OPT NODE_OPTIONS GIT_SSH_COMMAND PROMPT_COMMAND IFS BASH_FUNC_ls%% a=b"
    )
    for name in names.split():
        with pytest.raises(ExecutionError, match=f"variable '{re.escape(name)}'"):
            run("echo ran", env={name: "/tmp/evil"})


USED = "ls >/dev/null; cat </dev/null; env >/dev/null; bash -c :; python3 -c pass; echo end"
PLANT = (
    f"for name in ls cat env bash sh python3 sleep; do echo '#!/bin/sh' > $name;"
    f" echo 'echo {PLANTED}' >> $name; chmod 755 $name; done"
)


@pytest.mark.parametrize("cwd", ["", "$WORK_DIR", "$OUTPUT_DIR", "scripts"])
def test_a_program_in_the_current_folder_is_not_the_one_of_the_system(run, skill, cwd):
    """It lies there from the beginning, or an earlier command put it there."""
    for folder in (skill, skill / "scripts"):
        subprocess.run(["sh", "-c", PLANT], cwd=folder, check=True, timeout=120)
    run(PLANT, cwd=cwd)
    result = run(USED, cwd=cwd)
    assert (result.stdout, result.exit_code) == ("end\n", 0)


STARTED_BY_SHELLS = (".bash_profile", ".bash_login", ".profile", ".bashrc", ".bash_logout")
PLANT_AT_HOME = f"""
for folder in "$HOME" "$WORK_DIR" "$OUTPUT_DIR" "$WORKSPACE_DIR" "$TMPDIR"; do
  cd "$folder"
  for name in {" ".join(STARTED_BY_SHELLS)}; do
    echo "echo {PLANTED}; export BASH_ENV=$folder/.bashrc PATH=$folder/bin:\\$PATH" > $name
  done
  mkdir -p bin .local/bin && cd bin && {PLANT} && cp * ../.local/bin && cd ..
  for python in python3 /usr/bin/python3; do
    version=$($python -I -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
    site=.local/lib/python$version/site-packages
    mkdir -p $site
    echo "print('{PLANTED}')" | tee sitecustomize.py $site/usercustomize.py > json.py
  done
done
"""


def test_what_an_earlier_command_planted_is_not_started_by_the_next(run):
    assert run(PLANT_AT_HOME).exit_code == 0
    result = run(
        "bash -lc :; bash -ic : 2>/dev/null; python3 -c 'import json';"
        f" [ ! -x /usr/bin/python3 ] || /usr/bin/python3 -c 'import json'; {USED}"
    )
    assert (result.stdout, result.exit_code) == ("end\n", 0)


TAMPERING = {
    "edited": "chmod -R u+w .; echo 'echo {0}' > scripts/brew.sh",
    "edited, with its old time": "cp -p scripts/brew.sh $WORK_DIR/old; chmod u+w scripts/brew.sh;"
    " echo 'echo {0}' > scripts/brew.sh; touch -r $WORK_DIR/old scripts/brew.sh",
    "through a hard link": "ln scripts/brew.sh $WORK_DIR/b; chmod u+w $WORK_DIR/b;"
    " echo 'echo {0}' > $WORK_DIR/b",
    "replaced": "cd ..; mv tea old; cp -r old tea; chmod -R u+w tea; echo 'echo {0}' >"
    " tea/scripts/brew.sh",
    "linked": "cd ..; mv tea old; cp -r old $WORK_DIR/tea; ln -s ../work/tea tea; chmod -R u+w"
    " $WORK_DIR/tea; echo 'echo {0}' > $WORK_DIR/tea/scripts/brew.sh",
    "added to": "chmod u+w . scripts; echo 'echo {0}' > scripts/more.sh",
    "emptied": "chmod -R u+w .; rm -rf ./*",
}


@pytest.mark.parametrize("how", TAMPERING)
def test_a_skill_that_a_command_changed_is_the_true_one_in_the_next_run(run, skill, how):
    """The copy is made anew; the skill itself was never in reach of it."""
    run(TAMPERING[how].format(PLANTED))
    result = run("sh scripts/brew.sh; ls scripts")
    assert (result.stdout, result.exit_code) == ("brewing\nbrew.sh\n", 0)
    assert contents(skill / "scripts") == {"brew.sh": "echo brewing\n"}


@pytest.mark.parametrize("name", ["work", "out", "runs", "skills", "work/inputs"])
def test_a_folder_of_the_workspace_that_became_a_link_leads_nowhere(run, skill, outside, name):
    globs = ("out/**", "work/**", "runs/**", "skills/**")
    result = run(
        f'cd "$WORKSPACE_DIR" && chmod -R u+w {name} && rm -rf {name} && ln -s {outside} {name}',
        output_files=globs,
    )
    assert result.exit_code == 0, result
    assert SECRET not in everything(result)
    assert f"'{name}' was not collected: it is a link." in result.warnings
    result = run(
        "for folder in $OUTPUT_DIR $WORK_DIR $RUN_DIR; do echo x > $folder/x; done;"
        " cat inputs/brew.sh",
        inputs=(InputSpec("skill://tea/scripts/brew.sh"),),
    )
    assert (result.stdout, result.stderr) == ("echo brewing\n", "")
    assert contents(outside) == {"secret.txt": SECRET}


@pytest.mark.parametrize(
    "mode", ["", "chmod 0 work out runs ../workspaces 2>/dev/null; chmod 0 .;"]
)
def test_a_command_that_destroys_its_workspace_harms_that_alone(run, outside, mode):
    """It has a result that says so, and the next one has all that it needs."""
    result = run(
        f'cd "$WORKSPACE_DIR"; chmod -R u+w .; {mode or "cd /; rm -rf $WORKSPACE_DIR;"} echo done',
        output_files=("out/**",),
    )
    assert (result.stdout, result.output_files) == ("done\n", ())
    if not mode:
        # What `rm` says of the folder itself depends on where the workspace lies.
        is_kept = re.search("busy|Read-only file system", result.stderr)
        assert "not collected" in told(result) or is_kept
    result = run("echo tea > out/x; sh scripts/brew.sh", output_files=("out/*",))
    assert (result.stdout, [file.content for file in result.output_files]) == (
        "brewing\n",
        ["tea\n"],
    )
