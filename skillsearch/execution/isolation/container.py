"""The executor ``container``: a container of docker or podman for every program.

The client of a daemon may end, or be killed, while the container goes on; so a shell waits beside
each run for the end of this process, however that ends, and then removes the container.
"""

from __future__ import annotations

import functools
import json
import os
import re
import resource
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

from skillsearch.errors import ExecutorError
from skillsearch.execution.isolation.capture import run_supervised, unsupervised_reason
from skillsearch.execution.isolation.supervise import THREADS, threads_of_all
from skillsearch.execution.types import Capabilities, Finished, Program, RunLimits
from skillsearch.settings.environ import engine_variables, skills_root
from skillsearch.text.safe_text import one_line

ENGINES = ("docker", "podman")
IMAGE = "python:3.11-slim"
NOBODY = 65534  # as whom programs of root run
CPUS = 2
TMP_BYTES = 256 << 20
WORKSPACE = "/skill-run"
"""The workspace inside a container: the image may deny access to any folder above ours."""
SKILLS_ROOT = "/skill-root"

_ASK_SECONDS = 10.0
_REMOVE_SECONDS = 15.0
_MAX_DEPTH = 100
_CONTROLS = {"cpu": "CpuCfsQuota", "memory": "MemoryLimit", "pids": "PidsLimit"}  # of docker's info
_REMOVE = 'cat >/dev/null; "$@"; sleep 1; exec "$@"'
"""For ``sh``; the second try removes a container that was still being made at the first."""
_VARIABLE = re.compile(r"[^\s=#\0][^\s=\0]*")
_ENGINE_FAILED = 125
_ENGINE_SAYS = re.compile(rb"((time=|WARN).*\n)*(docker: |Error|Unable to find|Cannot connect)")
_UNSTARTED = re.compile(rb"12[67] (docker: |Error|\[FATAL tini)|1 ERROR \(catatonit")
"""Exit code and message of the engine or its init if it cannot start a program."""


class _Engine(NamedTuple):
    """A container engine, why it does not answer, and which of the `_CONTROLS` it can use."""

    problem: str = ""
    is_podman: bool = False  # under whatever name
    is_rootless: bool = False
    controls: frozenset[str] = frozenset(_CONTROLS)


class ContainerExecutor:
    """Runs each program in a container without a network, which is removed when it ends."""

    name = "container"

    def __init__(
        self, engine: str | None = None, image: str = IMAGE, skills_root: Path | None = None
    ) -> None:
        """Choose engine (the first with the image), image, and folder of skills (`SKILLS_ROOT`)."""
        if engine is not None and Path(engine).name not in ENGINES:
            known = ", ".join(ENGINES)
            raise ExecutorError(f"The engine {engine!r} is not one of: {known}; name one of them.")
        if re.fullmatch(r"[A-Za-z0-9][^\s\0]*", image) is None:
            raise ExecutorError(f"{image!r} is not an image; name one such as {IMAGE!r}.")
        self._engines = ENGINES if engine is None else (engine,)
        self._image = image
        self._skills_root = skills_root
        self._found = ""

    def reason(self) -> str:
        """Return why no program can be run, and the next step; empty if one can."""
        return self._choose()[1]

    def capabilities(self) -> Capabilities:
        """Return what a program can reach in a container."""
        lacking = sorted(_CONTROLS.keys() - _info(self._choose()[0] or self._engines[0]).controls)
        unlimited = {"memory_bytes": "memory", "processes": "pids"}
        unbounded = f"The engine has no control groups here that limit {', '.join(lacking)}."
        return Capabilities(
            isolation="container",
            not_isolated=(
                "It shares the kernel of the engine's machine: a fault in that may be a way out.",
                f"CPU time and disk space are not limited; it uses {CPUS} CPUs at most.",
                f"It can read the folder SKILLS_ROOT, if there is one, at {SKILLS_ROOT}.",
                *((unbounded,) if lacking else ()),
            ),
            limits=tuple(
                limit.name
                for limit in fields(RunLimits)
                if unlimited.get(limit.name) not in lacking
            ),
        )

    def run(self, program: Program) -> Finished:
        """Run a program in a container, its workspace at `WORKSPACE`, with the image's ``PATH``.

        An ExecutorError if the engine or the image cannot be used.
        """
        engine, problem = self._choose()
        if problem:
            raise ExecutorError(problem)
        info = _info(engine)
        _hand_over(program.workspace, info)

        def inside(text: str) -> str:
            return text.replace(str(program.workspace), WORKSPACE)

        mounts = _mount(program.workspace, WORKSPACE)
        command, *arguments = map(inside, program.argv)
        env = {name: inside(value) for name, value in program.env.items()}
        root = self._skills_root or skills_root()
        if root and Path(root).is_dir():
            mounts += _mount(Path(root).absolute(), f"{SKILLS_ROOT},readonly")
            env = {"SKILLS_ROOT": SKILLS_ROOT, **env}
        name = f"skillsearch-{secrets.token_hex(8)}"
        with _env_file(env) as env_file, _removed(engine, name) as remover:
            argv = (
                *(engine, "run", "--name", name, "--env-file", f"/proc/self/fd/{env_file}"),
                *_confinement(program.limits, info),
                *mounts,
                *("--workdir", inside(str(program.cwd))),
                *("--entrypoint", command, self._image, *arguments),
            )
            client = replace(program, cwd=Path("/"), env=engine_variables())
            finished = run_supervised(argv, client, limited=False, descriptors=(env_file,))
            if not finished.timed_out and not finished.problems and finished.exit_code >= 0:
                remover.kill()  # the engine itself has removed the container
        code, stderr = finished.exit_code, finished.stderr
        if code == _ENGINE_FAILED and _ENGINE_SAYS.match(stderr):
            if missing := self._lacks_image(engine):  # it was removed meanwhile
                raise ExecutorError(missing)
            why = one_line(stderr.decode(errors="replace"), 300)
            raise ExecutorError(f"{engine} cannot run {self._image}: {why}")
        if _UNSTARTED.match(b"%d %s" % (code, stderr)):
            return replace(finished, exit_code=-1)
        return finished

    def _choose(self) -> tuple[str, str]:
        """Return the engine to use, which is remembered, or why there is none."""
        if self._found:
            return self._found, ""
        if reason := unsupervised_reason():
            return "", reason
        down, lacking = [], []
        for engine in self._engines:
            if problem := _info(engine).problem:
                down.append(problem)
            elif missing := self._lacks_image(engine):
                lacking.append(missing)
            else:
                self._found = engine
                return engine, ""
        none = f"No container engine answers: {'; '.join(down)}. Start its daemon, or install one."
        return "", lacking[0] if lacking else none

    def _lacks_image(self, engine: str) -> str:
        if not ask(engine, "image", "inspect", "--format", "{{.Id}}", self._image)[1]:
            return ""
        name = Path(engine).name
        return (
            f"{name} has no image {self._image!r}, and none is pulled unasked."
            f" To fix: run `{name} pull {self._image}`."
        )


def _confinement(limits: RunLimits, info: _Engine) -> Iterator[str]:
    """Yield the options that confine a program, run as the workspace's owner and never as root."""
    if not info.is_rootless:
        yield from ("--user", f"{os.getuid() or NOBODY}:{os.getgid() or NOBODY}")
    elif info.is_podman:
        yield from ("--userns", "keep-id", "--user", f"{os.getuid()}:{os.getgid()}")
    else:
        yield from ("--user", "0:0")  # of a user namespace, in which that is this user
    yield from ("--rm", "--interactive", "--init", "--pull", "never", "--network", "none")
    yield from ("--read-only", "--tmpfs", f"/tmp:rw,exec,nosuid,nodev,mode=1777,size={TMP_BYTES}")
    yield from ("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--ipc", "private")
    memory = str(limits.memory_bytes)  # of all processes together
    controls = {
        "pids": ("--pids-limit", str(limits.processes + 1)),  # the init is one of them
        "memory": ("--memory", memory, "--memory-swap", memory),
        "cpu": ("--cpus", str(min(CPUS, os.cpu_count() or 1))),
    }
    for control in sorted(info.controls):
        yield from controls[control]
    # Before Linux 5.14, or without a user namespace, this counts the user's other processes too.
    most_threads = threads_of_all() + limits.processes + THREADS
    wanted = {"nproc": most_threads, "nofile": limits.open_files, "fsize": limits.file_bytes}
    for name, most in {**wanted, "core": 0}.items():
        # An engine that is not run by root cannot exceed our own limits.
        hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        yield from ("--ulimit", f"{name}={limit}:{limit}")
    yield from ("--hostname", "skill", "--log-driver", "none")


def _mount(source: Path, target: str) -> tuple[str, ...]:
    """Return the option that shows a folder; its value is a line of CSV."""
    if not str(source).isprintable():
        raise ExecutorError(
            f"The path {str(source)!r} cannot be passed to a container engine; give the folder a "
            "name that can be printed."
        )
    field = f"source={source}"
    if set(field) & set(',"'):
        field = '"' + field.replace('"', '""') + '"'
    return ("--mount", f"type=bind,{field},target={target}")


def _env_file(env: Mapping[str, str]) -> AbstractContextManager[int]:
    """Return a `memory_file` of variables.

    On the engine's command line every user of this machine could read them, and in its environment
    they would affect the engine.
    """
    passed = {name: value for name, value in env.items() if name != "PATH"}
    for name, value in passed.items():
        if not _VARIABLE.fullmatch(name) or re.search(r"[\r\n\0]", value):
            raise ExecutorError(
                f"The variable {name!r} cannot be passed to a container engine, because of a line"
                " break or a blank in it; put the value into a file instead."
            )
    return memory_file(os.fsencode("".join(f"{name}={passed[name]}\n" for name in passed)))


@contextmanager
def memory_file(data: bytes) -> Iterator[int]:
    """Yield the descriptor of an in-memory file, for one program to inherit and read."""
    with os.fdopen(os.memfd_create("skillsearch", os.MFD_CLOEXEC), "wb") as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


@contextmanager
def _removed(engine: str, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Remove a container at the end, or when this process is gone; killing the remover stops it."""
    remover = subprocess.Popen(
        ("sh", "-c", _REMOVE, "sh", engine, "rm", "--force", "--volumes", name),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield remover
    finally:
        try:
            remover.communicate(timeout=_REMOVE_SECONDS)  # closes its input, which makes it begin
        except subprocess.TimeoutExpired:
            remover.kill()
            remover.wait()


def _hand_over(workspace: Path, info: _Engine) -> None:
    """Give a workspace of root to the user that its programs run as, without following links."""
    if os.getuid() != 0 or info.is_rootless:
        return
    above = len(workspace.parts)
    os.chown(workspace, NOBODY, NOBODY, follow_symlinks=False)
    for path, folders, files, folder in os.fwalk(workspace):
        for name in (*folders, *files):
            with suppress(OSError):
                # A file already theirs keeps its ctime, which tells the run that made it.
                if os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid != NOBODY:
                    os.chown(name, NOBODY, NOBODY, dir_fd=folder, follow_symlinks=False)
        if len(Path(path).parts) - above >= _MAX_DEPTH:
            folders.clear()


@functools.cache
def _info(engine: str) -> _Engine:
    if shutil.which(engine) is None:
        return _Engine(f"{engine} is not installed")
    text, problem = ask(engine, "info", "--format", "{{json .}}")
    try:
        answer = json.loads(text) if not problem else {}
    except ValueError:
        problem = "its answer to info cannot be parsed"
    if not problem and answer.get("ServerErrors"):  # some clients report these with exit code 0
        problem = one_line(str(answer["ServerErrors"][0]), 200)
    if problem:
        return _Engine(f"{engine}: {problem}")
    if host := answer.get("host"):
        is_rootless = host["security"]["rootless"]
        controls = host.get("cgroupControllers") or ()
        usable = _CONTROLS.keys() & set(controls) if is_rootless else _CONTROLS
    else:
        is_rootless = "name=rootless" in (answer.get("SecurityOptions") or ())
        usable = {control for control, field in _CONTROLS.items() if answer.get(field, True)}
    return _Engine("", bool(host), is_rootless, frozenset(usable))


def ask(*argv: str, env: dict[str, str] | None = None, fds: Sequence[int] = ()) -> tuple[str, str]:
    """Return the output of a short command, and the problem if it fails."""
    try:
        run = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=env,
            pass_fds=fds,
            timeout=_ASK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        return "", one_line(str(exc), 200)
    if run.returncode != 0:
        stderr = one_line(run.stderr.decode(errors="replace"), 200)
        return "", stderr or f"exit code {run.returncode}"
    return run.stdout.decode(errors="replace"), ""
