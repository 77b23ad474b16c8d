"""The executor ``container``: a container of docker or podman for every program.

Everything is done through the engine's command line. The client of a daemon may end, or be killed,
while the container goes on; so a shell waits beside each run for the end of this process, however
that ends, and then removes the container.
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

from skillsearch.environ import engine_variables, skills_root
from skillsearch.errors import ExecutorError
from skillsearch.execution.capture import run_supervised
from skillsearch.execution.supervise import THREADS, threads_of_all
from skillsearch.execution.types import Capabilities, Finished, Limits, Program
from skillsearch.text.safe_text import one_line

ENGINES = ("docker", "podman")
"""The first that answers and has the image is used."""
IMAGE = "python:3.11-slim"
NOBODY = 65534
"""The user that programs of root run as."""
CPUS = 2
TMP_BYTES = 256 << 20
WORKSPACE = "/skill-run"
"""The workspace inside a container: the image may deny access to any folder above ours."""
SKILLS_ROOT = "/skill-root"
"""The folder of skills inside, and the value of ``SKILLS_ROOT`` there."""

_ASK_SECONDS = 10.0
_REMOVE_SECONDS = 15.0
_MAX_DEPTH = 100
_CONTROLS = {"cpu": "CpuCfsQuota", "memory": "MemoryLimit", "pids": "PidsLimit"}
"""The control groups of our limits, and their names in docker's ``info``."""
_REMOVE = 'cat >/dev/null; "$@"; sleep 1; exec "$@"'
"""For ``sh``; the second try removes a container that was still being made at the first."""
_VARIABLE = re.compile(r"[^\s=#\0][^\s=\0]*")
_ENGINE_FAILED = 125
_ENGINE_SAYS = re.compile(rb"((time=|WARN).*\n)*(docker: |Error|Unable to find|Cannot connect)")
_UNSTARTED = re.compile(rb"12[67] (docker: |Error|\[FATAL tini)|1 ERROR \(catatonit")
"""Exit code and message of the engine or its init if it cannot start a program."""


class _Engine(NamedTuple):
    """Facts about a container engine.

    Attributes:
        problem: Why it does not answer; empty if it does.
        is_podman: Whether it is podman, under whatever name.
        controls: The `_CONTROLS` that it can use.
    """

    problem: str = ""
    is_podman: bool = False
    is_rootless: bool = False
    controls: frozenset[str] = frozenset(_CONTROLS)


class ContainerExecutor:
    """Runs each program in a container without a network, which is removed when it ends."""

    name = "container"

    def __init__(
        self,
        engine: str | None = None,
        image: str = IMAGE,
        skills_root: Path | None = None,
    ) -> None:
        """Choose an engine and an image, which is never pulled.

        The engine is ``docker`` or ``podman``, or the path of one of them; by default the first of
        them that answers and has the image. Programs may read the folder ``skills_root``, by
        default ``SKILLS_ROOT``, if it exists.
        """
        if engine is not None and Path(engine).name not in ENGINES:
            raise ExecutorError(f"The engine {engine!r} is not one of: {', '.join(ENGINES)}.")
        if re.fullmatch(r"[A-Za-z0-9][^\s\0]*", image) is None:
            raise ExecutorError(f"{image!r} is not an image; name one such as {IMAGE!r}.")
        self._engines = ENGINES if engine is None else (engine,)
        self._image = image
        self._skills_root = skills_root
        self._found: str | None = None

    def is_available(self) -> bool:
        """Return whether an engine answers and has the image."""
        return self._engine() is not None

    def reason(self) -> str:
        """Return why no program can be run, and what to do; empty if one can."""
        if self.is_available():
            return ""
        for engine in self._engines:
            if not _info(engine).problem:
                return self._lacks_image(engine)
        asked = "; ".join(_info(engine).problem for engine in self._engines)
        return f"No container engine answers: {asked}. Start its daemon, or install one."

    def capabilities(self) -> Capabilities:
        """Return what a program can reach in a container."""
        lacking = sorted(_CONTROLS.keys() - _info(self._engine() or self._engines[0]).controls)
        unlimited = {"memory_bytes": "memory", "processes": "pids"}
        names = [limit.name for limit in fields(Limits)]
        unbounded = f"The engine has no control groups here that limit {', '.join(lacking)}."
        return Capabilities(
            isolation="container",
            network=False,
            reads_outside=False,
            writes_outside=False,
            sees_processes=False,
            not_isolated=(
                "It shares the kernel of the engine's machine: a fault in that may be a way out.",
                f"CPU time and disk space are not limited; it uses {CPUS} CPUs at most.",
                f"It can read the folder SKILLS_ROOT, if there is one, at {SKILLS_ROOT}.",
                *((unbounded,) if lacking else ()),
            ),
            limits=tuple(name for name in names if unlimited.get(name) not in lacking),
        )

    def run(self, program: Program) -> Finished:
        """Run a program in a container.

        Its workspace is mounted at `WORKSPACE`, also in its arguments and variables. The image's
        ``PATH`` replaces that of the program, and ``memory_bytes`` limits all its processes
        together. Raises an `ExecutorError` if no engine answers, the image is missing, or a
        variable or path cannot be passed to the engine.
        """
        engine = self._engine()
        if engine is None:
            raise ExecutorError(self.reason())
        info = _info(engine)
        if os.getuid() == 0 and not info.is_rootless:
            _hand_over(program.workspace)
        shown = self._shown()
        mounts = tuple(_mounts(program.workspace, shown))
        command, *arguments = (_inside(word, program.workspace) for word in program.argv)
        env = {name: _inside(value, program.workspace) for name, value in program.env.items()}
        if shown is not None:
            env = {"SKILLS_ROOT": SKILLS_ROOT, **env}
        name = f"skillsearch-{secrets.token_hex(8)}"
        with _env_file(env) as env_file, _removed(engine, name) as remover:
            argv = (
                *(engine, "run", "--name", name, "--env-file", f"/proc/self/fd/{env_file}"),
                *_user(info),
                *_confinement(program.limits, info),
                *mounts,
                *("--workdir", _inside(str(program.cwd), program.workspace)),
                *("--entrypoint", command, self._image, *arguments),
            )
            client = replace(program, cwd=Path("/"), env=engine_variables())
            finished = run_supervised(argv, client, limited=False, descriptors=(env_file,))
            if not finished.timed_out and not finished.problems and finished.exit_code >= 0:
                remover.kill()  # the engine itself has removed the container
        return self._checked(engine, finished)

    def _engine(self) -> str | None:
        """Return the engine to use; once found, it is remembered."""
        self._found = self._found or next(filter(self._can_run, self._engines), None)
        return self._found

    def _can_run(self, engine: str) -> bool:
        """Return whether an engine answers and has the image."""
        if _info(engine).problem:
            return False
        return not _ask(engine, "image", "inspect", "--format", "{{.Id}}", self._image)[1]

    def _lacks_image(self, engine: str) -> str:
        """Return why an engine that answers but lacks the image cannot be used."""
        return (
            f"{Path(engine).name} has no image {self._image!r}, and none is pulled unasked."
            f" To fix: run `{Path(engine).name} pull {self._image}`."
        )

    def _shown(self) -> Path | None:
        """Return the folder of skills to show."""
        folder = self._skills_root or skills_root()
        return Path(folder).absolute() if folder and Path(folder).is_dir() else None

    def _checked(self, engine: str, finished: Finished) -> Finished:
        """Tell a failure of the engine from a failure of the program."""
        code, said = finished.exit_code, finished.stderr
        if code == _ENGINE_FAILED and _ENGINE_SAYS.match(said):
            if not self._can_run(engine):  # it was removed meanwhile
                raise ExecutorError(self._lacks_image(engine))
            why = one_line(said.decode(errors="replace"), 300)
            raise ExecutorError(f"{engine} cannot run {self._image}: {why}")
        if _UNSTARTED.match(b"%d %s" % (code, said)):
            return replace(finished, exit_code=-1)
        return finished


def _confinement(limits: Limits, info: _Engine) -> Iterator[str]:
    """Yield the options that confine a program."""
    yield from ("--rm", "--interactive", "--init", "--pull", "never", "--network", "none")
    yield from ("--read-only", "--tmpfs", f"/tmp:rw,exec,nosuid,nodev,mode=1777,size={TMP_BYTES}")
    yield from ("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--ipc", "private")
    memory = str(limits.memory_bytes)
    controls = {
        "pids": ("--pids-limit", str(limits.processes + 1)),  # the init is one of them
        "memory": ("--memory", memory, "--memory-swap", memory),
        "cpu": ("--cpus", str(min(CPUS, os.cpu_count() or 1))),
    }
    for control in sorted(info.controls):
        yield from controls[control]
    # Before Linux 5.14, or without a user namespace, this counts the user's other processes too.
    most_threads = threads_of_all() + limits.processes + THREADS
    yield from ("--ulimit", _ulimit("nproc", most_threads))
    yield from ("--ulimit", _ulimit("nofile", limits.open_files))
    yield from ("--ulimit", _ulimit("fsize", limits.file_bytes))
    yield from ("--ulimit", _ulimit("core", 0), "--hostname", "skill", "--log-driver", "none")


def _ulimit(name: str, wanted: int) -> str:
    """Return a limit capped at our own, which an engine that is not run by root cannot exceed."""
    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    return f"{name}={limit}:{limit}"


def _user(info: _Engine) -> tuple[str, ...]:
    """Return the options that run a program as the owner of the workspace, and never as root."""
    if not info.is_rootless:
        return ("--user", f"{os.getuid() or NOBODY}:{os.getgid() or NOBODY}")
    if info.is_podman:
        return ("--userns", "keep-id", "--user", f"{os.getuid()}:{os.getgid()}")
    return ("--user", "0:0")  # of a user namespace, in which that is this user


def _inside(text: str, workspace: Path) -> str:
    return text.replace(str(workspace), WORKSPACE)


def _mounts(workspace: Path, shown: Path | None) -> Iterator[str]:
    yield from ("--mount", f"type=bind,{_source(workspace)},target={WORKSPACE}")
    if shown is not None:
        yield from ("--mount", f"type=bind,{_source(shown)},target={SKILLS_ROOT},readonly")


def _source(path: Path) -> str:
    """Write the field ``source`` of ``--mount``, which is a line of CSV."""
    if not str(path).isprintable():
        raise ExecutorError(f"The path {str(path)!r} cannot be passed to a container engine.")
    field = f"source={path}"
    return '"' + field.replace('"', '""') + '"' if set(field) & set(',"') else field


@contextmanager
def _env_file(env: Mapping[str, str]) -> Iterator[int]:
    """Yield the descriptor of an in-memory file of variables, for the engine to inherit.

    On the command line every user of this machine could read them, and in the environment of the
    engine they would affect the engine. A path below our own ``/proc`` cannot be opened by a
    rootless engine, which moves into another user namespace first.
    """
    lines = []
    for name, value in env.items():
        if name == "PATH":
            continue
        if not _VARIABLE.fullmatch(name) or re.search(r"[\r\n\0]", value):
            raise ExecutorError(
                f"The variable {name!r} cannot be passed to a container engine, because of a line"
                " break or a blank in it; put the value into a file instead."
            )
        lines.append(f"{name}={value}\n")
    fd = os.memfd_create("variables", os.MFD_CLOEXEC)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(os.fsencode("".join(lines)))
        yield fd
    finally:
        os.close(fd)


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
        if remover.stdin:
            remover.stdin.close()
        try:
            remover.wait(_REMOVE_SECONDS)
        except subprocess.TimeoutExpired:
            remover.kill()
            remover.wait()


def _hand_over(workspace: Path) -> None:
    """Give a workspace of root to the user that its programs run as, without following links.

    What that user already owns is left alone: its ctime tells which run made it.
    """
    above = len(workspace.parts)
    os.chown(workspace, NOBODY, NOBODY, follow_symlinks=False)
    for path, folders, files, folder in os.fwalk(workspace):
        for name in (*folders, *files):
            with suppress(OSError):
                if os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid != NOBODY:
                    os.chown(name, NOBODY, NOBODY, dir_fd=folder, follow_symlinks=False)
        if len(Path(path).parts) - above >= _MAX_DEPTH:
            folders.clear()


@functools.cache
def _info(engine: str) -> _Engine:
    """Ask an engine about itself."""
    if shutil.which(engine) is None:
        return _Engine(f"{engine} is not installed")
    text, problem = _ask(engine, "info", "--format", "{{json .}}")
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
        return _Engine("", True, is_rootless, frozenset(usable))
    usable = {control for control, field in _CONTROLS.items() if answer.get(field, True)}
    is_rootless = "name=rootless" in (answer.get("SecurityOptions") or ())
    return _Engine("", False, is_rootless, frozenset(usable))


def _ask(engine: str, *words: str) -> tuple[str, str]:
    """Return the answer of an engine, and the problem if there is none."""
    try:
        run = subprocess.run(
            (engine, *words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        return "", one_line(str(exc), 200)
    if run.returncode != 0:
        said = one_line(run.stderr.decode(errors="replace"), 200)
        return "", said or f"exit code {run.returncode}"
    return run.stdout.decode(errors="replace"), ""
