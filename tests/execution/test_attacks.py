"""Attacks on a run, from the request to the result: each is stopped or bounded, and told of."""

import fcntl
import json
import os
import platform
import pty
import re
import socket
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

import skillsearch
from skillsearch.execution.isolation.local import LocalExecutor
from skillsearch.execution.isolation.namespace import BACKENDS, NamespaceExecutor
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.types import InputSpec, RunLimits, RunRequest
from skillsearch.execution.workspaces.artifacts import FolderArtifacts
from skillsearch.execution.workspaces.workspace import Workspaces

SECRET = "hunter2-of-the-user"
PLANTED = "planted-code-ran"
PACKAGE = str(Path(skillsearch.__file__).parents[1])

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="programs are supervised on Linux"),
]


@pytest.fixture(params=["local", *BACKENDS])
def executor(request):
    """Return each executor that this machine has; a namespace by each that can make one."""
    if request.param == "local":
        return LocalExecutor()
    namespace = NamespaceExecutor(backend=request.param)
    if namespace.reason():
        pytest.skip(namespace.reason())
    return namespace


@pytest.fixture
def skill(tmp_path, make_skill):
    folder = make_skill(tmp_path / "skills", "tea").parent
    (folder / "scripts").mkdir()
    (folder / "scripts" / "brew.sh").write_text("echo brewing\n")
    return folder


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture
def make_runner(tmp_path, base, executor):
    runners = []

    def make(**limits):
        runners.append(
            SkillRunner(
                executor,
                workspaces=Workspaces(base),
                artifacts=FolderArtifacts(tmp_path / "artifacts"),
                limits=RunLimits(**{"timeout": 30.0, **limits}),
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
    return make_run()


@pytest.fixture
def workspace(base):
    return lambda: next(path for path in base.glob("ws_*") if path.is_dir())


@pytest.fixture
def mark():
    """Return a number of seconds to know the processes of one test by."""
    return f"9{os.getpid()}.{time.monotonic_ns() % 10**6}"


def python(text, *words):
    return ("python3", "-I", "-S", "-c", text, *words)


def warnings_of(result):
    return "\n".join(result.warnings)


def contents(folder):
    """Return what lies in a folder: of files the text, of all else the kind."""
    return {
        path.name: path.read_text() if path.is_file() else stat.S_IFMT(path.lstat().st_mode)
        for path in folder.iterdir()
    }


BOMB = """if True:
    import os, time
    for _ in range(8):
        if not os.fork():
            os.setsid()
    time.sleep(6)
"""
"""256 processes and no more, each in a session of its own, which end by themselves."""


def test_a_fork_bomb_is_ended_or_cannot_grow(make_run, mark, gone):
    result = make_run(processes=32)(python(BOMB, mark))
    is_ended = bool(re.search("It had more than 3[24] processes at once", warnings_of(result)))
    assert is_ended or "BlockingIOError" in result.stderr, result
    assert result.exit_code != 0
    assert gone(mark)


def test_a_writer_that_stays_is_ended_before_its_file_is_collected(run, workspace):
    writer = "(setsid sh -c 'while :; do echo x >> out/log; done' >/dev/null 2>&1 &);"
    result = run(f"{writer} sleep 2", output_files=("out/*",))
    log = workspace() / "out" / "log"
    size = log.stat().st_size
    assert size > 0
    time.sleep(0.1)
    assert [file.size_bytes for file in result.output_files] == [size] == [log.stat().st_size]


def test_a_command_that_kills_its_parent_takes_nothing_with_it(run, executor, mark, gone):
    result = run(f"setsid sleep {mark} & kill -9 $PPID; sleep 0.5; echo alive")
    assert gone(mark)
    is_told = result.exit_code == 137 and "supervisor was killed" in warnings_of(result)
    assert is_told == (result.stdout != "alive\n")
    assert is_told == (executor.capabilities().isolation == "none")


def test_another_session_is_out_of_sight_or_that_is_admitted(make_runner, skill, executor):
    runner = make_runner()
    for session in ("other", "mine"):
        request = RunRequest("tea", skill, "ls -d ../../../ws_* | grep -vc lock")
        result = runner.run(request, session)
    assert result.stdout == ("2\n" if executor.capabilities().reads_outside else "1\n")


CALLER = """if True:
    import ctypes, json, os, sys
    from pathlib import Path
    from skillsearch.execution.isolation.local import LocalExecutor
    from skillsearch.execution.isolation.namespace import NamespaceExecutor
    from skillsearch.execution.types import RunRequest
    from skillsearch.execution.runner import SkillRunner
    from skillsearch.execution.workspaces.workspace import Workspaces
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


def test_a_secret_of_the_callers_environment_is_not_handed_down(run_for, executor):
    looks = "env; set; tr '\\0' '\\n' < /proc/$PPID/environ; cat /proc/self/environ"
    result = run_for(looks, env={"SKILL_SECRET": SECRET})
    assert "supervisor" not in result["stderr"]
    assert SECRET not in json.dumps(result)


def test_the_callers_own_environment_is_out_of_sight_or_that_is_admitted(run_for, executor):
    look = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep ^SKILL_SECRET="
    result = run_for(look, env={"SKILL_SECRET": SECRET})
    capabilities = executor.capabilities()
    assert (SECRET in result["stdout"]) == capabilities.sees_processes
    admitted = any("secrets in their environment" in text for text in capabilities.not_isolated)
    assert admitted == capabilities.sees_processes


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
    result = run_for(f"python3 -c '{FIND_KEY.format(**numbers)}'", before)
    if result["stdout"] == "no keys here":
        pytest.skip("keys are not allowed here")
    assert result["stdout"] == "key False \n"


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
    result, *outside = map(json.loads, ran.stdout.splitlines())
    if result["stdout"] == "no keys here":
        pytest.skip("keys are not allowed here")
    assert result["stdout"] == f"[] {bytes(7)}\n", result
    assert outside == [[SECRET, []]] * 2


def test_the_terminal_of_the_caller_is_out_of_reach(run_for, executor):
    """Characters pushed into it would count as typed."""
    typing = "import fcntl, os; fcntl.ioctl(os.open('/dev/tty', os.O_RDWR), 0x5412, b'x')"
    master, slave = pty.openpty()
    try:
        take = f"os.open({os.ttyname(slave)!r}, os.O_RDWR); os.open('/dev/tty', os.O_RDWR)"
        result = run_for(f'python3 -c "{typing}"', take, start_new_session=True)
        waiting = fcntl.ioctl(slave, 0x541B, b"\0" * 4)  # FIONREAD: how much was typed
    finally:
        os.close(master)
        os.close(slave)
    assert (result["exit_code"], waiting) == (1, b"\0" * 4)
    assert "No such device or address: '/dev/tty'" in result["stderr"]


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


@pytest.fixture
def cli_run(cli, executor, skill):
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
    written_names = {name for name in NAMES if "\udcff" not in name and not name.startswith(".")}
    assert {path.name for path in Path("out").iterdir()} == written_names


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


@pytest.mark.parametrize(
    ("name", "data"), [("../evil.txt", b"x"), ("tea/bomb", bytes(65 << 20))], ids=["climbs", "bomb"]
)
def test_what_a_hostile_archive_plants_is_not_unpacked(cli, tmp_path, home, name, data):
    with zipfile.ZipFile(tmp_path / "evil.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tea/SKILL.md", "---\nname: tea\ndescription: Tea.\n---\n")
        archive.writestr(name, data)
    result = cli("run", "--root", tmp_path / "evil.zip", "tea", "--", "echo", PLANTED)
    assert "evil.zip" in result.stderr
    left = {p.name for top in (tmp_path, home) for p in top.rglob("*") if p.is_file()}
    assert not {"evil.txt", "bomb"} & left
    if name == "tea/bomb":
        assert (result.exit_code, result.stdout) == (2, ""), result
        assert "SKILL.md" not in left


USED = "ls >/dev/null; cat </dev/null; env >/dev/null; bash -c :; python3 -c pass; echo end"
PLANT = (
    f"for name in ls cat env bash sh python3 sleep; do echo '#!/bin/sh' > $name;"
    f" echo 'echo {PLANTED}' >> $name; chmod 755 $name; done"
)


@pytest.mark.parametrize("cwd", ["", "$WORK_DIR"])
def test_a_program_in_the_current_folder_is_not_the_one_of_the_system(run, skill, cwd):
    subprocess.run(["sh", "-c", PLANT], cwd=skill, check=True, timeout=120)
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


def test_a_skill_that_a_command_changed_is_the_true_one_in_the_next_run(run, skill):
    """The copy is made anew; the skill itself was never in reach of it."""
    run(
        "cp -p scripts/brew.sh $WORK_DIR/old; chmod u+w . scripts scripts/brew.sh;"
        f" echo 'echo {PLANTED}' | tee scripts/brew.sh > scripts/more.sh;"
        " touch -r $WORK_DIR/old scripts/brew.sh"
    )
    result = run("sh scripts/brew.sh; ls scripts")
    assert (result.stdout, result.exit_code) == ("brewing\nbrew.sh\n", 0)
    assert contents(skill / "scripts") == {"brew.sh": "echo brewing\n"}


@pytest.mark.parametrize(
    "mode", ["", "chmod 0 work out runs ../workspaces 2>/dev/null; chmod 0 .;"]
)
def test_a_command_that_destroys_its_workspace_harms_that_alone(run, outside, mode):
    result = run(
        f'cd "$WORKSPACE_DIR"; chmod -R u+w .; {mode or "cd /; rm -rf $WORKSPACE_DIR;"} echo done',
        output_files=("out/**",),
    )
    assert (result.stdout, result.output_files) == ("done\n", ())
    if not mode:
        # What `rm` says of the folder itself depends on where the workspace lies.
        is_kept = re.search("busy|Read-only file system", result.stderr)
        assert "not collected" in warnings_of(result) or is_kept
    result = run("echo tea > out/x; sh scripts/brew.sh", output_files=("out/*",))
    assert (result.stdout, [file.content for file in result.output_files]) == (
        "brewing\n",
        ["tea\n"],
    )
