"""Programs in containers: what an engine is asked for, by one that writes it down; real ones."""

import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from skillsearch.errors import ExecutorError
from skillsearch.execution.isolation.container import (
    IMAGE,
    NOBODY,
    WORKSPACE,
    ContainerExecutor,
    _info,
)
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.types import Program, RunLimits, RunRequest
from skillsearch.execution.workspaces.workspace import Workspaces

PATH = "/usr/local/bin:/usr/bin:/bin"
DOCKER = {"SecurityOptions": ["name=seccomp,profile=builtin"], "ServerVersion": "28"}
ROOTLESS_DOCKER = {**DOCKER, "SecurityOptions": ["name=rootless"]}
PODMAN = {"host": {"security": {"rootless": False}, "cgroupControllers": ["cpu"]}}
ROOTLESS_PODMAN = {"host": {"security": {"rootless": True}, "cgroupControllers": ["pids"]}}
ENGINE = """#!{python} -IS
import json, os, sys

words = sys.argv[1:]
call = {{"argv": words, "env": dict(os.environ), "cwd": os.getcwd()}}
if words[0] == "run":
    with open(words[words.index("--env-file") + 1], errors="surrogateescape") as file:
        variables = call["variables"] = file.read()
with open({log!r}, "a") as file:
    file.write(json.dumps(call) + "\\n")
if words[0] == "info":
    print({info!r})
    sys.exit(0)
if words[0] == "image":
    sys.exit(0 if words[-1] == {image!r} else 1)
if words[0] == "run":
    {run}
    import csv
    mount = next(csv.reader([words[words.index("--mount") + 1]]))
    source, target = [field.partition("=")[2] for field in mount[1:]]
    program = [words[words.index("--entrypoint") + 1], *words[words.index({image!r}) + 1:]]
    env = dict(line.replace(target, source).split("=", 1) for line in variables.splitlines())
    os.chdir(words[words.index("--workdir") + 1].replace(target, source))
    program = [word.replace(target, source) for word in program]
    os.execvpe(program[0], program, {{**env, "PATH": {path!r}}})
"""


@pytest.fixture
def engine(tmp_path):
    """Make a command that takes the place of an engine; it runs programs, uncontained."""

    def make(name="docker", info=DOCKER, run="pass"):
        folder = tmp_path / f"engine-{len(list(tmp_path.glob('engine-*')))}"
        folder.mkdir()
        text = ENGINE.format(
            python=sys.executable,
            log=str(folder / "log"),
            info=json.dumps(info),
            run=run,
            image=IMAGE,
            path=PATH,
        )
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
        return folder / name

    return make


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def program(workspace):
    def make(script="true", *, env=None, stdin=b"", **limits):
        limits = RunLimits(**{"timeout": 30.0, **limits})
        return Program(("sh", "-c", script), workspace, workspace, env or {}, stdin, limits)

    return make


@pytest.fixture
def skill(tmp_path, make_skill):
    folder = make_skill(tmp_path / "skills", "tea").parent
    (folder / "scripts").mkdir()
    (folder / "scripts" / "say.py").write_text("print('tea')\n")
    return folder


def calls(engine, kind):
    log = engine.parent / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [call for call in map(json.loads, lines) if call["argv"][0] == kind]


def call_of(engine, program, **options):
    finished = ContainerExecutor(str(engine), **options).run(program)
    assert finished.exit_code == 0, finished
    return calls(engine, "run")[0]


def values(call, option):
    words = call["argv"]
    return [words[at + 1] for at, word in enumerate(words) if word == option]


def command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes().replace(b"\0", b" ").decode(errors="replace")


def test_the_container_is_confined(engine, program):
    limits = {"memory_bytes": 64 << 20, "file_bytes": 5000, "processes": 7, "open_files": 33}
    script = "cat; echo oops --privileged >&2; exit 125"
    executor = ContainerExecutor(str(fake := engine()))
    finished = executor.run(program(script, stdin=b"tea\n", **limits))
    assert (finished.stdout, finished.stderr) == (b"tea\n", b"oops --privileged\n")
    assert finished.exit_code == 125  # which may be that of the engine as well
    executor.run(program())
    assert len({values(call, "--name")[0] for call in calls(fake, "run")}) == 2
    assert calls(fake, "rm") == []
    call = calls(fake, "run")[0]
    assert calls(fake, "info")
    assert call["argv"][-3:] == [IMAGE, "-c", script]
    assert {"--rm", "--interactive", "--init", "--read-only"} <= set(call["argv"])
    expected = {
        "--network": ["none"],
        "--pull": ["never"],
        "--cap-drop": ["ALL"],
        "--security-opt": ["no-new-privileges"],
        "--ipc": ["private"],
        "--pids-limit": ["8"],
        "--memory": [str(64 << 20)],
        "--memory-swap": [str(64 << 20)],
        "--cpus": [str(min(2, os.cpu_count() or 1))],
        "--ulimit": [values(call, "--ulimit")[0], "nofile=33:33", "fsize=5000:5000", "core=0:0"],
        "--tmpfs": [f"/tmp:rw,exec,nosuid,nodev,mode=1777,size={256 << 20}"],
        "--entrypoint": ["sh"],
    }
    assert {option: values(call, option) for option in expected} == expected
    assert not {"--privileged", "--env", "-e", "--volume", "-v"} & set(call["argv"])
    name, soft, hard = re.fullmatch(r"(\w+)=(\d+):(\d+)", values(call, "--ulimit")[0]).groups()
    assert (name, soft) == ("nproc", hard)
    assert 7 < int(soft) < 100_000


USER = f"{os.getuid() or NOBODY}:{os.getgid() or NOBODY}"
SAME_USER = f"{os.getuid()}:{os.getgid()}"


@pytest.mark.parametrize(
    ("name", "info", "user", "controls"),
    [
        ("docker", DOCKER, USER, {"cpu", "memory", "pids"}),
        ("docker", {**DOCKER, "PidsLimit": False, "CpuCfsQuota": False}, USER, {"memory"}),
        ("docker", ROOTLESS_DOCKER, "0:0", {"cpu", "memory", "pids"}),
        ("docker", ROOTLESS_PODMAN, SAME_USER, {"pids"}),
        ("podman", PODMAN, USER, {"cpu", "memory", "pids"}),
        ("podman", {"host": {"security": {"rootless": True}}}, SAME_USER, set()),
    ],
)
def test_an_engine_gets_its_user_and_the_limits_that_it_can_hold(
    engine, program, name, info, user, controls
):
    """The program is whom the workspace belongs to."""
    call = call_of(fake := engine(name, info), program())
    assert values(call, "--user") == [user]
    is_kept = info.get("host", PODMAN["host"])["security"]["rootless"]
    assert values(call, "--userns") == ["keep-id"] * is_kept
    options = {"cpu": "--cpus", "memory": "--memory", "pids": "--pids-limit"}
    assert {control for control, option in options.items() if values(call, option)} == controls
    assert bool(values(call, "--memory-swap")) == ("memory" in controls)
    capabilities = ContainerExecutor(str(fake)).capabilities()
    assert ("memory_bytes" in capabilities.limits) == ("memory" in controls)
    assert ("processes" in capabilities.limits) == ("pids" in controls)
    lacking = ", ".join(sorted(options.keys() - controls))
    assert (f"that limit {lacking}." in capabilities.not_isolated[-1]) == bool(lacking)


def test_the_workspace_is_mounted_below_no_folder_of_the_image(engine, program, workspace):
    """Such as ``/root``, which nobody but root may enter; what names it names the new place."""
    (workspace / "work").mkdir()
    made = program(f"ls {workspace}/work", env={"WORK_DIR": f"{workspace}/work", "HOME": "/h"})
    call = call_of(engine(), replace(made, cwd=workspace / "work"))
    assert values(call, "--mount") == [f"type=bind,source={workspace},target={WORKSPACE}"]
    assert values(call, "--workdir") == [f"{WORKSPACE}/work"]
    assert call["argv"][-1] == f"ls {WORKSPACE}/work"
    assert call["variables"] == f"WORK_DIR={WORKSPACE}/work\nHOME=/h\n"


def test_a_path_with_commas_and_quotes_stays_one_field_and_one_of_two_lines_is_refused(
    engine, tmp_path
):
    """``--mount`` takes a line of CSV, in which a path could add options."""
    folder = tmp_path / 'a,readonly,"b"'
    folder.mkdir()
    call = call_of(engine(), Program(("true",), folder, folder, {}))
    doubled = str(folder).replace('"', '""')
    assert values(call, "--mount") == [f'type=bind,"source={doubled}",target={WORKSPACE}']
    folder = folder.rename(tmp_path / "a\nb")
    with pytest.raises(ExecutorError, match="cannot be passed to a container engine"):
        ContainerExecutor(str(engine())).run(Program(("true",), folder, folder, {}))


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_the_folder_of_skills_is_mounted_read_only(engine, program, tmp_path, monkeypatch, by):
    skills = tmp_path / "skills"
    skills.mkdir()
    monkeypatch.setenv("SKILLS_ROOT", str(tmp_path if by == "argument" else skills))
    options = {"skills_root": skills} if by == "argument" else {}
    call = call_of(engine(), program(), **options)
    assert values(call, "--mount")[1:] == [f"type=bind,source={skills},target=/skill-root,readonly"]
    assert call["variables"] == "SKILLS_ROOT=/skill-root\n"
    monkeypatch.setenv("SKILLS_ROOT", "https://example.org/skills.zip")
    assert len(values(call_of(engine(), program()), "--mount")) == 1


def test_variables_reach_the_program_alone(engine, program, monkeypatch):
    monkeypatch.setenv("API_KEY", "of the host")
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/of-the-host.sock")
    env = {"TOKEN": 'hunter2 "=# ', "DOCKER_HOST": "tcp://elsewhere", "LD_PRELOAD": "evil.so"}
    made = program("test ${#TOKEN} -eq 12", env={**env, "PATH": "/of/this/machine"})
    call = call_of(engine(), made)
    assert set(call["variables"].splitlines()) == {f"{name}={env[name]}" for name in env}
    assert call["env"]["PATH"] == os.environ["PATH"]  # inside it is that of the image
    assert call["env"]["DOCKER_HOST"] == "unix:///run/of-the-host.sock"
    assert not {"TOKEN", "LD_PRELOAD", "API_KEY"} & set(call["env"])
    assert "hunter2" not in " ".join(call["argv"])


def test_a_variable_that_would_be_read_as_another_is_refused(engine, program):
    """The file has a line for each, and nothing is escaped in it."""
    executor = ContainerExecutor(str(engine()))
    for name, value in (("A", "a\nB=b"), ("A", "a\r"), ("A B", "a"), ("#A", "a")):
        with pytest.raises(ExecutorError, match="put the value into a file instead"):
            executor.run(program(env={name: value}))


@pytest.mark.skipif(os.getuid() != 0, reason="who is not root has nothing to hand over")
def test_a_workspace_of_root_is_handed_over_and_nothing_behind_links(
    engine, program, workspace, tmp_path
):
    """The program could not write to it; what a link leads to is not of the workspace."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (workspace / "work" / "inputs").mkdir(parents=True)
    (workspace / "work" / "inputs" / "a.txt").write_text("a")
    (workspace / "link").symlink_to(outside)
    call_of(engine(), program())
    owned = [workspace, *workspace.rglob("*")]
    assert {path.lstat().st_uid for path in owned} == {NOBODY}
    changed = {path: path.lstat().st_ctime_ns for path in owned[1:]}
    call_of(engine(), program())  # what is handed over stays as it was, so that it is not new
    assert {path: path.lstat().st_ctime_ns for path in owned[1:]} == changed
    assert outside.stat().st_uid == 0


@pytest.mark.skipif(os.getuid() != 0, reason="who is not root has nothing to hand over")
def test_a_very_deep_workspace_is_handed_over_as_far_as_it_matters(engine, program, workspace):
    here = Path.cwd()
    try:
        os.chdir(workspace)
        for _ in range(2000):
            Path("deep").mkdir()
            os.chdir("deep")
        os.chdir(here)
        call_of(engine(), program())
        assert (workspace / "deep" / "deep").stat().st_uid == NOBODY
    finally:
        os.chdir(here)
        subprocess.run(["rm", "-rf", workspace / "deep"], check=True, timeout=120)


def test_a_run_out_of_time_is_removed_by_name(engine, program):
    """The client is ended, which ends no container; so the engine is asked, twice."""
    finished = ContainerExecutor(str(fake := engine())).run(program("sleep 3600", timeout=5.0))
    name = values(calls(fake, "run")[0], "--name")[0]
    assert finished.timed_out
    assert name.startswith("skillsearch-")
    removals = [call["argv"] for call in calls(fake, "rm")]
    assert removals == [["rm", "--force", "--volumes", name]] * 2


def test_the_container_goes_where_this_process_is_killed(
    engine, workspace, killed_caller, wait_for
):
    fake = engine()
    killed_caller(f"ContainerExecutor({str(fake)!r})", workspace, "touch started; sleep 60")
    assert wait_for(lambda: len(calls(fake, "rm")) == 2)
    assert calls(fake, "rm")[0]["argv"][-1] == values(calls(fake, "run")[0], "--name")[0]


def test_an_engine_that_cannot_make_the_container_is_an_error(engine, program):
    said = "time=now level=warning msg=x\\ndocker: no more memory.\\n"
    failing = f"sys.stderr.write('{said}'); sys.exit(125)"
    with pytest.raises(ExecutorError, match=f"docker cannot run {IMAGE}: .*docker: no more memory"):
        ContainerExecutor(str(engine(run=failing))).run(program())


def test_an_image_that_is_missing_is_named_with_the_way_to_get_it(engine, program):
    executor = ContainerExecutor(str(fake := engine()), "alpine:3")
    assert executor.reason()
    assert executor.reason() == (
        "docker has no image 'alpine:3', and none is pulled unasked."
        " To fix: run `docker pull alpine:3`."
    )
    with pytest.raises(ExecutorError, match="docker has no image 'alpine:3'"):
        executor.run(program())
    assert calls(fake, "run") == []


def test_an_image_that_vanishes_is_named_too(engine, program):
    """A server may have looked for it days ago."""
    executor = ContainerExecutor(str(fake := engine()))
    assert not executor.reason()
    gone = "sys.stderr.write('docker: No such image.\\n'); sys.exit(125)"
    text = fake.read_text().replace("    pass\n", f"    {gone}\n")
    fake.write_text(text.replace(f"words[-1] == '{IMAGE}'", "False"))
    with pytest.raises(ExecutorError, match=f"run `docker pull {IMAGE}`"):
        executor.run(program())


def test_an_engine_with_the_image_goes_before_one_without(engine, monkeypatch, request):
    docker, podman = engine("docker"), engine("podman", PODMAN)
    docker.write_text(docker.read_text().replace(f"words[-1] == '{IMAGE}'", "False"))
    monkeypatch.setenv("PATH", f"{docker.parent}:{podman.parent}:{PATH}")
    _info.cache_clear()  # it may know other engines of these names
    request.addfinalizer(_info.cache_clear)
    assert ContainerExecutor()._choose()[0] == "podman"
    assert "run `docker pull none`" in ContainerExecutor(image="none").reason()


@pytest.mark.parametrize(
    ("said", "code"), [("[FATAL tini (7)] exec x failed", 127), ("ERROR (catatonit:2): failed", 1)]
)
def test_a_program_that_is_missing_was_not_started(engine, program, said, code):
    failing = f"sys.stderr.write('{said}\\n'); sys.exit({code})"
    assert ContainerExecutor(str(engine(run=failing))).run(program()).exit_code == -1


@pytest.mark.parametrize(
    "answer",
    [
        "echo 'Cannot connect to the daemon.' >&2; exit 1",
        """echo '{"ServerErrors": ["Cannot connect to the daemon."]}'""",
    ],
)
def test_a_client_without_a_daemon_is_no_engine(tmp_path, program, answer):
    client = tmp_path / "docker"
    client.write_text(f"#!/bin/sh\n{answer}\n")
    client.chmod(0o755)
    executor = ContainerExecutor(str(client))
    assert executor.reason()
    with pytest.raises(ExecutorError, match=r"Cannot connect to the daemon\.\. Start its daemon"):
        executor.run(program())


def test_an_engine_that_is_not_installed_is_named(tmp_path):
    reason = ContainerExecutor(str(tmp_path / "podman")).reason()
    assert reason == (
        f"No container engine answers: {tmp_path / 'podman'} is not installed. "
        "Start its daemon, or install one."
    )


@pytest.mark.parametrize("options", [{"engine": "rm"}, {"image": "--privileged"}, {"image": ""}])
def test_what_cannot_be_an_engine_or_an_image_is_refused(options):
    """An image must not be taken for an option."""
    with pytest.raises(ExecutorError, match=r"is not one of|is not an image"):
        ContainerExecutor(**options)


@pytest.fixture
def real():
    """Return an executor of a real engine that has the image."""
    executor = ContainerExecutor()
    if reason := executor.reason():
        pytest.skip(reason)
    return executor


@pytest.mark.requires_docker
def test_a_real_container_writes_to_the_workspace_and_nowhere_else(real, program, workspace):
    script = """id -u; echo tea > cup; cd /
    for place in /usr /etc /root /skill-root; do echo x > $place/x; done 2>/dev/null
    ls /usr/x /etc/x /root/x /skill-root/x 2>/dev/null; grep -c . /proc/net/route
    grep -E '^(CapEff|NoNewPrivs)' /proc/self/status"""
    finished = real.run(program(script))
    uid, *rest = finished.stdout.decode().split()
    assert rest == ["1", "CapEff:", "0" * 16, "NoNewPrivs:", "1"], finished
    assert int(uid) == (os.getuid() or NOBODY)
    assert (workspace / "cup").read_text() == "tea\n"


@pytest.mark.requires_docker
@pytest.mark.skipif(os.getuid() != 0, reason="only root has a home that is root's in the image too")
def test_a_real_container_reads_a_workspace_below_a_home_that_is_closed(real, skill):
    """The folder of workspaces of root lies below ``/root``, which the image has too."""
    command = "python3 scripts/say.py > out/said; cat $OUTPUT_DIR/said; pwd"
    with (
        TemporaryDirectory(dir="/root", prefix=".skillsearch-test-") as base,
        SkillRunner(real, workspaces=Workspaces(Path(base))) as runner,
    ):
        result = runner.run(RunRequest("tea", skill, command))
        idle = runner.run(RunRequest("tea", skill, "cat out/said"))
    assert result.stdout == f"tea\n{WORKSPACE}/skills/tea\n", result
    assert result.primary_output.content == "tea\n"
    assert (idle.stdout, idle.primary_output) == ("tea\n", None)


@pytest.mark.requires_docker
def test_variables_reach_the_program_in_a_real_container(real, program, monkeypatch):
    monkeypatch.setenv("API_KEY", "of the host")
    env = {"TOKEN": """ 'a' "b" $HOME #=\\ ü """, "EMPTY": "", "HOME": "/tmp/h", "PODMAN_X": "1"}
    made = program("env -0", env=env)
    lines = real.run(made).stdout.decode().split("\0")
    variables = dict(line.split("=", 1) for line in lines if line)
    assert {name: variables.get(name) for name in env} == env
    assert not {"API_KEY", "DOCKER_HOST"} & set(variables)


@pytest.mark.requires_docker
def test_no_value_of_a_variable_shows_on_a_command_line(real, program):
    """Every user of this machine can list those."""
    secret = f"hunter{time.time_ns()}"
    seen = []
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(real.run, program("sleep 1", env={"TOKEN": secret}))
        while not run.done():
            seen += [line for line in command_lines() if secret in line]
            time.sleep(0.01)
    assert run.result().exit_code == 0
    assert seen == []


@pytest.mark.requires_docker
def test_the_limits_of_a_real_container_hold(real, program):
    script = """ulimit -n; ulimit -c; head -c 2000000 /dev/zero > big 2>/dev/null; wc -c < big
    exec python3 -c 'if True:
        import os
        forked = 0
        try:
            while forked < 9999:
                if os.fork() == 0:
                    os.execlp("sleep", "sleep", "20")
                forked += 1
        except OSError:
            print(forked)'"""
    finished = real.run(program(script, processes=20, file_bytes=1 << 20, open_files=99))
    assert finished.stdout.split()[:3] == [b"99", b"0", b"1048576"], finished
    limits = real.capabilities().limits
    assert int(finished.stdout.split()[3]) < (20 if "processes" in limits else 9999)
    if "memory_bytes" in limits:
        hungry = ("python3", "-c", "x = b'x' * (200 << 20)")
        assert real.run(replace(program(memory_bytes=64 << 20), argv=hungry)).exit_code == 137


@pytest.mark.requires_docker
def test_a_real_engine_says_that_a_program_or_an_image_is_missing(real, program):
    finished = real.run(replace(program(), argv=("no-such-program", "x")))
    assert finished.exit_code == -1, finished
    assert b"no-such-program" in finished.stderr or b"No such file" in finished.stderr
    reason = ContainerExecutor(image="localhost/none:1").reason()
    assert re.search(r"has no image .* run `(docker|podman) pull localhost/none:1`", reason)


@pytest.mark.requires_docker
def test_a_real_container_is_gone_when_its_time_is_over(real, program):
    assert real.run(program("sleep 60", timeout=3.0)).timed_out
    listed = subprocess.run(
        [real._choose()[0], "ps", "--all", "--quiet", "--filter", "name=skillsearch-"],
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert listed.stdout == b""
