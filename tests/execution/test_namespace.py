"""Programs in namespaces, made by bubblewrap and by our own script: what they can and cannot."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import skillsearch
from skillsearch.execution.isolation.container import NOBODY, TMP_BYTES, memory_file
from skillsearch.execution.isolation.namespace import BACKENDS, NamespaceExecutor, enclosed
from skillsearch.execution.isolation.syscall_filter import syscall_filter
from skillsearch.execution.types import Program, RunLimits

PACKAGE = str(Path(skillsearch.__file__).parents[1])
PATH = "/usr/local/bin:/usr/bin:/bin"
CONNECT = """if True:
    import socket, sys
    for host in ("127.0.0.1", "192.0.2.1", "example.org"):
        try:
            socket.create_connection((host, int(sys.argv[1])), 5)
        except OSError as error:
            print(type(error).__name__, error.strerror)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")


@pytest.fixture(scope="module", params=BACKENDS)
def executor(request):
    namespace = NamespaceExecutor(backend=request.param)
    if namespace.reason():
        pytest.skip(namespace.reason())
    return namespace


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def run(executor, workspace):
    """Run shell text, or a program with its arguments, enclosed."""

    def run(*argv, env=None, stdin=b"", **limits):
        argv = argv if len(argv) > 1 else ("sh", "-c", *argv)
        env = {"PATH": PATH, **(env or {})}
        limits = RunLimits(**{"timeout": 30.0, **limits})
        program = Program(argv, workspace, workspace, env, stdin, limits)
        return executor.run(program)

    return run


LOOKS = {
    "root": "ls -A /",
    "etc": "cd /etc; ls -A . ssl",
    "devices": "ls -A /dev",
    "mounts": "cat /proc/mounts",
    "status": "cat /proc/self/status",
    "processes": "cat /proc/[0-9]*/comm; echo; cat /proc/[0-9]*/cmdline",
    "files": "ls -l /proc/[0-9]*/fd",
    "of init": "cat /proc/1/environ",
    "name": "uname -n",
    "user": "id -u",
}


@pytest.fixture(scope="module")
def seen(executor, tmp_path_factory):
    """Return what one program saw inside while a file and a process were open outside."""
    folder = tmp_path_factory.mktemp("seen")
    text = "\n".join(f"({look}) 2>/dev/null; printf '=next='" for look in LOOKS.values())
    (folder / "look.sh").write_text(text)
    program = Program(("sh", "look.sh"), folder, folder, {"PATH": PATH})
    with (
        (folder.parent / "secret").open("w") as file,
        subprocess.Popen(["sleep", "61.75"]) as other,
    ):
        os.set_inheritable(file.fileno(), True)
        try:
            answers = executor.run(program).stdout.decode().split("=next=")
        finally:
            other.kill()
    return dict(zip(LOOKS, answers, strict=False))


def allowed(run, commands):
    """Return which of some commands an enclosed shell, which runs them all, may do."""
    lines = [f"({each}) >/dev/null 2>&1 && echo {shlex.quote(each)}" for each in commands]
    *done, last = run("\n".join([*lines, "echo end"])).stdout.decode().splitlines()
    assert last == "end"
    return done


@pytest.fixture
def python(run):
    return lambda text, *words, **options: run(sys.executable, "-c", text, *words, **options)


def test_where_a_user_can_make_namespaces_our_own_backend_works():
    """A backend that is broken would else only be left out of all tests."""
    unshare = "unshare --map-root-user --mount --pid --net --ipc --uts --fork true".split()
    try:
        subprocess.run(unshare, capture_output=True, timeout=120, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"namespaces are not allowed here: {error}")
    assert NamespaceExecutor(backend="enclose").reason() == ""


def test_output_input_and_exit_code_pass_through(run):
    finished = run("cat; echo oops >&2; kill -SEGV $$", stdin=b"tea\n")
    assert (finished.stdout, finished.stderr) == (b"tea\n", b"oops\n")
    assert finished.exit_code == 128 + signal.SIGSEGV


def test_what_is_missing_was_not_started(run, workspace):
    finished = run("no-such-program", "x")
    assert finished.exit_code == -1
    assert b"no-such-program" in finished.stderr
    workspace.rmdir()
    finished = run("pwd")
    assert finished.exit_code == -1
    assert finished.stdout == b""


def test_what_is_written_to_the_workspace_stays_and_is_ours(run, workspace):
    assert run("echo fib > out.txt; mkdir deep; pwd").stdout == os.fsencode(workspace) + b"\n"
    assert (workspace / "out.txt").read_text() == "fib\n"
    assert (workspace / "deep").stat().st_uid == os.getuid()


@pytest.mark.parametrize("name", ["a'b\"$(id)` ,:;&工作", os.fsdecode(b"no-utf8-\xff")])
def test_a_workspace_may_have_any_name(executor, tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    program = Program(("sh", "-c", "echo x > file"), folder, folder, {"PATH": PATH})
    assert executor.run(program).exit_code == 0
    assert (folder / "file").read_text() == "x\n"


def test_the_system_cannot_be_written_to(run):
    folders = ("/usr", "/etc", "/", "/dev", "/opt")
    paths = [f"{folder}/planted" for folder in folders]
    assert allowed(run, [f"echo x >> {path}" for path in (*paths, "/etc/passwd")]) == []
    assert not any(Path(path).exists() for path in paths)


def test_nothing_outside_the_workspace_changes(run, workspace, home):
    folders, name = (home, workspace.parent, "/tmp"), f"planted-{os.getpid()}"
    plant = "".join(f"mkdir -p {folder}; echo x > {folder}/{name}; " for folder in folders)
    assert run(f"{plant}rm -rf {workspace}/../*; echo done").stdout == b"done\n"
    assert not any(Path(folder, name).exists() for folder in folders)
    assert workspace.exists()


def test_a_secret_of_the_host_cannot_be_read(run, workspace, home):
    secrets = [home / "secret", workspace.parent / "secret"]
    for secret in secrets:
        secret.write_text("hunter2")
    (workspace / "link").symlink_to(secrets[0])
    finished = run(f"cat {secrets[0]} {secrets[1]} link; echo end")
    assert finished.stdout == b"end\n"
    assert finished.stderr.count(b"No such file") == 3


def test_the_root_folder_holds_the_system_without_its_secrets_and_no_home(seen):
    there = set(seen["root"].split())
    needed = {Path(path).parts[1] for path in (sys.prefix, sys.base_prefix)}
    assert not there & {"boot", "media", "mnt", "run", "srv", "sys", "var", "home", "root"} - needed
    assert {"usr", "etc", "proc", "dev", "tmp"} <= there
    of_etc = set(seen["etc"].split())
    assert not of_etc & {"shadow", "gshadow", "sudoers", "ssh", "machine-id", "private", "security"}
    assert "passwd" in of_etc


def test_neither_this_machine_nor_a_network_can_be_reached(python):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        own, other, named = python(CONNECT, str(server.getsockname()[1])).stdout.splitlines()
        with pytest.raises(TimeoutError):
            server.accept()
    assert own.startswith(b"ConnectionRefusedError")
    assert other == b"OSError Network is unreachable"
    assert named.startswith(b"gaierror")


def test_processes_and_open_files_of_the_machine_are_not_there(seen):
    assert "61.75" not in seen["processes"]
    assert 0 < len(seen["processes"].split("\n\n")[0].split()) <= 4
    assert "pipe:" in seen["files"]
    assert "secret" not in seen["files"]
    assert "memfd:" not in seen["files"]


def test_processes_of_the_machine_cannot_be_killed(run):
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            finished = run(f"kill -9 {process.pid} {os.getpid()} 1; kill -9 -1; echo alive")
            assert process.poll() is None
        finally:
            process.kill()
    assert finished.stdout == b"alive\n"


@pytest.mark.parametrize(
    ("end", "timeout"), [("exit 0", 60.0), ("exec sleep 3600", 3.0)], ids=["ended", "timed-out"]
)
def test_whatever_a_program_leaves_running_is_ended(run, gone, end, timeout):
    mark = f"7{os.getpid()}.25"
    finished = run(
        f"for i in 1 2 3; do (setsid nohup sleep {mark} &) ; done; {end}", timeout=timeout
    )
    assert finished.timed_out == (end != "exit 0")
    assert gone(mark)


@pytest.mark.parametrize("executor", ["local", *BACKENDS])
def test_all_ends_with_the_process_that_runs_it(killed_caller, workspace, gone, executor):
    mark = f"8{os.getpid()}.25"
    enclosing = f"NamespaceExecutor(backend={executor!r})"
    if executor != "local" and (reason := NamespaceExecutor(backend=executor).reason()):
        pytest.skip(reason)
    start = f"setsid setsid sleep {mark} >/dev/null 2>&1 & (sleep {mark} &) & sleep {mark} &"
    script = f"{start} until pgrep -c -f {mark} >/dev/null; do :; done; touch started; wait"
    killed_caller("LocalExecutor()" if executor == "local" else enclosing, workspace, script)
    assert gone(mark)


def test_no_program_holds_a_run_by_stopping_its_first_process(python):
    text = """if True:
        import ctypes, os, time
        libc = ctypes.CDLL(None, use_errno=True)
        receiver, sender = os.pipe()
        if os.fork() == 0:
            os.setsid()
            results = [libc.ptrace(request, 1, 0, 0) for request in (16, 0x4206)]
            os.write(sender, repr((results, os.access("/proc/1/mem", os.W_OK))).encode())
            for stream in range(3):
                os.close(stream)
            time.sleep(3600)
        print(os.read(receiver, 100).decode())
    """
    finished = python(text, timeout=60.0)
    assert (finished.stdout, finished.exit_code) == (b"([-1, -1], False)\n", 0), finished
    assert not finished.timed_out


WORK = {
    "processes": """if True:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        with multiprocessing.get_context("fork").Pool(2) as pool:
            forked = sum(pool.map(len, ["tea"] * 100))
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            print(min(forked, sum(pool.map(len, ["tea"] * 100))))
    """,
    "shared memory": """if True:
        from multiprocessing import shared_memory
        memory = shared_memory.SharedMemory(create=True, size=4096)
        memory.buf[:3] = b"300"
        same = shared_memory.SharedMemory(memory.name)
        print(bytes(same.buf[:3]).decode())
        same.close()
        memory.close()
        memory.unlink()
    """,
    "programs": """if True:
        import asyncio, os, pty, subprocess
        async def main():
            process = await asyncio.create_subprocess_exec("true")
            return 300 + await process.wait()
        subprocess.run("true | true", shell=True, check=True, start_new_session=True)
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
        assert pty.spawn(["tty", "-s"]) == 0
        print(asyncio.run(main()))
    """,
    "database": """if True:
        import sqlite3
        base = sqlite3.connect("base.db")
        base.execute("pragma journal_mode = wal")
        base.execute("create table tea (n)")
        base.executemany("insert into tea values (?)", [(1,)] * 300)
        base.commit()
        print(*base.execute("select sum(n) from tea").fetchone())
    """,
    "sockets": """if True:
        import asyncio, os, socket
        async def serve(reader, writer):
            writer.write(await reader.readexactly(3))
            writer.close()
        async def main(start, connect, *address):
            async with await start(serve, *address):
                reader, writer = await connect(*address)
                writer.write(b"300")
                return await reader.read()
        inet = asyncio.start_server, asyncio.open_connection
        unix = asyncio.start_unix_server, asyncio.open_unix_connection
        ways = [(*inet, "127.0.0.1", 7000), (*unix, "tea.sock")]
        ways += [(*inet, "::1", 7001)] if os.path.exists("/proc/net/if_inet6") else []
        (answer,) = {asyncio.run(main(*way)) for way in ways}
        assert socket.if_nameindex() == [(1, "lo")]
        assert socket.getaddrinfo("localhost", 80)
        left, right = socket.socketpair()
        left.sendall(answer)
        print(right.recv(3).decode())
    """,
    "files": """if True:
        import fcntl, mmap, os, shutil, tempfile, zipfile
        with tempfile.TemporaryFile() as file:
            file.truncate(300)
            fcntl.flock(file, fcntl.LOCK_EX)
            size = len(mmap.mmap(file.fileno(), 300))
        open("a", "w").write("tea")
        os.chmod("a", 0o640), os.link("a", "b"), os.symlink("a", "c"), os.utime("a", (1e9, 1e9))
        os.mkfifo("pipe")
        shutil.copyfile("a", "d"), os.replace("d", "e")
        zipfile.ZipFile("z.zip", "w").write("a")
        print(size)
    """,
}
"""What ordinary programs do; each prints 300."""


@pytest.mark.parametrize("executor", ["enclose"], indirect=True)
@pytest.mark.parametrize("kind", WORK)
def test_ordinary_work_goes_on(run, workspace, kind):
    (workspace / "work.py").write_text(f"if __name__ == '__main__':\n  {WORK[kind]}")
    finished = run(sys.executable, "work.py", timeout=120.0)
    last = finished.stdout.split()[-1:]
    assert (last, finished.stderr, finished.exit_code) == ([b"300"], b"", 0), finished


TOOLS = {
    "git": "git init -q && git -c user.name=t -c user.email=t@t commit -q --allow-empty -m tea"
    " && git gc -q && git log --format=%s",
    "node": "cat > tea.mjs; node tea.mjs",
    "perl": "perl -e 'if (fork) { wait } else { exec \"echo tea\" }'",
    "tar": "echo tea > file; tar czf file.tgz file; rm file; tar xzf file.tgz; cat file",
    "bash": "bash -c 'coproc cat; echo tea >&${COPROC[1]}; read -u ${COPROC[0]} x; echo $x'",
    "strace": "strace -f -o trace echo tea; test -s trace",
    "gcc": "echo 'int puts(); int main() { puts(\"tea\"); }' > a.c; gcc -w a.c && ./a.out",
}
SCRIPT = b"""
import { Worker } from "node:worker_threads";
import { readFile } from "node:fs/promises";
import { createServer, get } from "node:http";
import { execFileSync } from "node:child_process";
await readFile("/etc/passwd");
const server = createServer((_, answer) => answer.end("tea\\n"));
await new Promise(resolve => server.listen(7000, "127.0.0.1", resolve));
const answer = await new Promise(resolve =>
  get("http://127.0.0.1:7000", message => message.on("data", resolve)));
server.close();
server.closeAllConnections();
new Worker("require('child_process').execFileSync('true')", { eval: true });
process.stdout.write(answer);
"""


@pytest.mark.parametrize("executor", [None], indirect=True, ids=["the first that works"])
@pytest.mark.parametrize("name", TOOLS)
def test_tools_work(run, name):
    if not shutil.which(name, path=PATH):
        pytest.skip(f"{name} is not installed")
    finished = run(TOOLS[name], stdin=SCRIPT, env={"HOME": "/tmp"}, timeout=120.0)
    assert (finished.stdout, finished.exit_code) == (b"tea\n", 0), finished


def test_no_capability_is_left_and_none_can_be_had(seen):
    fields = dict(line.split(":\t", 1) for line in seen["status"].splitlines())
    sets = [fields[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")]
    assert sets == ["0" * 16] * 5
    assert fields["NoNewPrivs"] == "1"


WAYS_OUT = """
mount -t tmpfs none /tmp
mount -o remount,rw /usr
umount /usr
umount -l /proc
unshare -r true
unshare -m true
nsenter -t 1 -m true
chroot / true
mknod device b 8 0
hostname other
echo x > /proc/sys/kernel/core_pattern
echo 9 > /proc/sys/user/max_user_namespaces
echo b > /proc/sysrq-trigger
"""


def test_there_is_no_way_out_of_the_namespaces(run):
    ways = WAYS_OUT.strip().splitlines()
    if not os.statvfs("/proc/sys").f_flag & os.ST_RDONLY:
        ways.append("unshare -U true")
    assert allowed(run, ways) == []


def test_there_are_few_devices(run, seen):
    there = set(seen["devices"].split())
    devices = {"full", "null", "random", "tty", "urandom", "zero", "ptmx", "pts", "shm"}
    assert there - {"core"} == devices | {"fd", "stdin", "stdout", "stderr"}
    assert run("echo x > /dev/null && head -c 3 /dev/zero | wc -c > /dev/stdout").stdout == b"3\n"


def mounts(seen):
    return [line.split() for line in seen["mounts"].splitlines()]


def test_no_mount_lets_a_program_become_another_user_and_what_is_temporary_is_bounded(seen):
    options_of = {target: options for _, target, _, options, *_ in mounts(seen)}
    assert f"size={TMP_BYTES >> 10}k" in options_of["/tmp"].split(",")
    mounted = [(target, options.split(",")) for _, target, _, options, *_ in mounts(seen)]
    assert all("nosuid" in options for _, options in mounted)
    without = [target for target, options in mounted if "nodev" not in options]
    assert all(target.startswith("/dev") for target in without)


def test_no_mount_is_left_on_the_machine(run):
    before = Path("/proc/self/mountinfo").read_text()
    assert run("mount -t tmpfs none /tmp; wc -l < /proc/mounts").stdout
    assert Path("/proc/self/mountinfo").read_text() == before


def test_the_environment_is_that_of_the_program_alone(run, seen, monkeypatch):
    monkeypatch.setenv("API_KEY", "hunter2")
    lines = run("env", "--null", env={"LINES": "a\nb"}).stdout.decode().split("\0")
    assert {line for line in lines if not line.startswith(("PWD=", "SHLVL=", "_="))} == {
        f"PATH={PATH}",
        "LINES=a\nb",
        "",
    }
    assert seen["of init"] == ""


def test_variables_of_the_loader_reach_the_program_and_nothing_before_it(run, workspace):
    if b"glibc" not in run("getconf", "GNU_LIBC_VERSION").stdout:
        pytest.skip("needs glibc, whose loader can tell what it loads")
    env = {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(workspace / "trace")}
    assert run("/bin/true", "x", env=env).exit_code == 0
    assert len(list(workspace.glob("trace.*"))) == 1


def run_enclosed(program, before=(), pass_fds=()):
    """Run a program as our own backend does, started by another command."""
    with memory_file(syscall_filter(os.uname().machine)) as file:
        argv, fds = [*before, *enclosed(program, "enclose", file)], [file, *pass_fds]
        return subprocess.run(argv, capture_output=True, timeout=120, pass_fds=fds, check=False)


def test_files_that_are_open_here_are_not_open_there(workspace, tmp_path):
    with (tmp_path / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        program = Program(("ls", "/proc/self/fd"), workspace, workspace, {})
        listed = run_enclosed(program, pass_fds=[file.fileno()])
    if listed.returncode:
        pytest.skip(listed.stderr.decode())
    assert listed.stdout.split() == [b"0", b"1", b"2", b"3"]  # the last is the folder that it lists


def test_a_pipe_that_nobody_reads_ends_who_writes(run):
    """The interpreter that encloses ignores that signal; programs do not."""
    assert run("bash", "-c", "yes | head -n 1; echo ${PIPESTATUS[0]}").stdout == b"y\n141\n"


def test_root_is_nobody_inside_and_the_machine_has_another_name(seen):
    """A program that believes to be root would try what it may not; others stay who they are."""
    assert int(seen["user"]) == (os.getuid() or NOBODY)
    assert seen["name"] == "skill\n"


def test_where_nothing_encloses_nothing_runs(tmp_path, workspace):
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: not today' >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    text = f"""if True:
        from pathlib import Path
        from skillsearch.errors import ExecutorError
        from skillsearch.execution.isolation.namespace import NamespaceExecutor
        from skillsearch.execution.types import Program
        folder = Path({str(workspace)!r})
        try:
            NamespaceExecutor(backend="bwrap").run(Program(("touch", "x"), folder, folder, {{}}))
        except ExecutorError as exc:
            print(exc)
    """
    env = {**os.environ, "PYTHONPATH": PACKAGE, "PATH": f"{tmp_path}:{PATH}"}
    argv = [sys.executable, "-c", text]  # a process that has not tried anything yet
    ran = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=True)
    assert "bwrap: not today" in ran.stdout
    assert list(workspace.iterdir()) == []


def test_where_proc_cannot_be_mounted_it_is_empty(workspace):
    """A container hides parts of /proc, and then the kernel allows no new one; the rest works."""
    program = Program(("sh", "-c", "ls /proc; echo works"), workspace, workspace, {"PATH": PATH})
    # All mounts of it: one that is whole, like that of a system being set up, would be enough.
    hide = r"""awk '$3 == "proc" { print $2 "/bus" }' /proc/mounts |
        while read -r bus; do mount -t tmpfs none "$bus"; done && exec "$@"
    """
    outer = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hide, "sh"]
    if subprocess.run([*outer, "true"], capture_output=True, timeout=120, check=False).returncode:
        pytest.skip("user namespaces are not allowed here")
    finished = run_enclosed(program, outer)
    assert finished.stdout == b"works\n", finished.stderr


@pytest.fixture(params=BACKENDS)
def as_nobody(request, tmp_path_factory, open_package):
    """Run shell text enclosed by a copy of our package, as a user without any rights."""
    system = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if os.getuid() != 0 or not system:
        pytest.skip("only root can become nobody, and nobody needs a Python")
    text = """if True:
        import sys
        from pathlib import Path
        from skillsearch.execution.isolation.namespace import NamespaceExecutor
        from skillsearch.execution.types import Program, RunLimits
        backend, folder, path, script = sys.argv[1:]
        folder, limits = Path(folder), RunLimits(timeout=20.0, processes=64)
        program = Program(("sh", "-c", script), folder, folder, {"PATH": path}, b"", limits)
        executor = NamespaceExecutor(backend=backend)
        if executor.reason():
            sys.exit(executor.reason())
        finished = executor.run(program)
        print(finished.stdout.decode(), finished.stderr.decode(), end="")
    """
    workspace = open_package / request.param
    workspace.mkdir(exist_ok=True)
    os.chown(workspace, NOBODY, NOBODY)

    def run(script):
        ran = subprocess.run(
            [system, "-B", "-c", text, request.param, str(workspace), PATH, script],
            cwd=open_package,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            env={"PATH": PATH},
        )
        if ran.returncode:
            is_old = "SyntaxError" in ran.stderr or "ImportError" in ran.stderr
            is_old &= "from 'skillsearch." not in ran.stderr
            assert is_old or "Traceback" not in ran.stderr, ran.stderr
            pytest.skip(ran.stderr)
        return ran.stdout

    return run


def test_a_user_without_rights_can_enclose_and_gets_none(as_nobody):
    said = as_nobody(
        "id -u; echo tea > cup; cat cup; unshare -r true || echo none;"
        " grep CapEff /proc/self/status; cat /etc/shadow"
    )
    assert said.startswith(f"{NOBODY}\ntea\nnone\nCapEff:\t{'0' * 16}\n")
    assert "cat: /etc/shadow: No such file" in said


@pytest.mark.slow
def test_a_fork_bomb_of_a_user_is_bounded(as_nobody, gone):
    mark = f"bomb{os.getpid()}"
    as_nobody(f"exec bash -c ': {mark}; b() {{ b | b & }}; b; sleep 5'")
    assert gone(mark)
