"""The executor ``container``: a container of docker or podman for every program.

All is done by the command line of the engine. The client of a daemon may end, or be killed, while
the container goes on; so a shell waits beside each run for the end of this process, whatever ends
it, and removes the container then.
"""

from __future__ import annotations

import functools
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from skillsearch.errors import ExecutorError
from skillsearch.execution.capture import run_supervised
from skillsearch.execution.program import Capabilities, Finished, Limits, Program
from skillsearch.safe_text import one_line
from skillsearch.surroundings import engine_variables, skills_root

ENGINES = ("docker", "podman")
"""The first that answers is used."""
IMAGE = "python:3.11-slim"
NOBODY = 65534
"""Whom programs of root run as."""
CPUS = 2
TMP_BYTES = 256 << 20

_ASK_SECONDS = 10.0
_REMOVE_SECONDS = 15.0
_MAX_DEPTH = 100
_ROOTLESS = {
    "docker": ("{{json .SecurityOptions}}", "name=rootless"),
    "podman": ("{{.Host.Security.Rootless}}", "true"),
}
"""For ``info``: what to ask, and what in the answer says that the engine is not run by root."""
_REMOVE = 'cat >/dev/null; "$@"; sleep 1; exec "$@"'
"""For ``sh``; a container that was being made at first is there at the second."""
_VARIABLE = re.compile(r"[^\s=#\0][^\s=\0]*")
_ENGINE_FAILED = 125
_ENGINE_SAYS = (b"docker: ", b"Error", b"Unable to find image", b"Cannot connect")
_UNSTARTED = {126, 127}
_INIT_SAYS = (b"docker: ", b"Error", b"[FATAL tini", b"ERROR (catatonit")


class ContainerExecutor:
    """Runs each program in a container without a network, which is removed when it ends.

    Attributes:
        name: The word that chooses it.
    """

    name = "container"

    def __init__(
        self,
        engine: str | None = None,
        image: str = IMAGE,
        skills_root: Path | None = None,
    ) -> None:
        """Choose an engine and an image.

        Args:
            engine: ``docker`` or ``podman``, or the path of one of them; None for the first of
                them that answers.
            image: What the container is made of. It is not pulled.
            skills_root: A folder that programs may read; None for ``SKILLS_ROOT``. It is left out
                where there is none.

        Raises:
            ExecutorError: When the engine or the image has a name that cannot be one.
        """
        if engine is not None and Path(engine).name not in ENGINES:
            raise ExecutorError(f"The engine {engine!r} is none of: {', '.join(ENGINES)}.")
        if re.fullmatch(r"[A-Za-z0-9][^\s\0]*", image) is None:
            raise ExecutorError(f"{image!r} is no image; name one such as {IMAGE!r}.")
        self._engines = ENGINES if engine is None else (engine,)
        self._image = image
        self._skills_root = skills_root

    def is_available(self) -> bool:
        """Tell whether an engine answers; asked once per process. The image may be missing."""
        return self._answering() is not None

    def reason(self) -> str:
        """Return why none answers, and what to do; empty where one does."""
        if self.is_available():
            return ""
        asked = "; ".join(_info(engine)[1] for engine in self._engines)
        return f"No container engine answers: {asked}. Start its daemon, or install one."

    def capabilities(self) -> Capabilities:
        """Say what it keeps programs from."""
        return Capabilities(
            isolation="container",
            network=False,
            reads_outside=False,
            writes_outside=False,
            sees_processes=False,
            not_isolated=(
                "It shares the kernel of the engine's machine: a fault in that may be a way out.",
                f"CPU time and disk space are not limited; it uses {CPUS} CPUs at most.",
                "It can read the folder SKILLS_ROOT, where there is one.",
            ),
        )

    def run(self, program: Program) -> Finished:
        """Run a program in a container.

        Args:
            program: The program. Its ``PATH`` is not taken over: that of the image counts.

        Returns:
            How it ended; ``memory_bytes`` is what all its processes have together.

        Raises:
            ExecutorError: When no engine answers, the image is missing, or a variable or a path
                cannot be handed to the engine.
        """
        engine = self._answering()
        if engine is None:
            raise ExecutorError(self.reason())
        is_rootless = _info(engine)[0] == "rootless"
        if os.getuid() == 0 and not is_rootless:
            _hand_over(program.workspace)
        mounts = tuple(_mounts(program.workspace, self._shown()))
        name = f"skillsearch-{secrets.token_hex(8)}"
        with _env_file(program.env) as env_file, _removed(engine, name) as remover:
            argv = (
                *(engine, "run", "--name", name, "--env-file", env_file),
                *_user(engine, is_rootless),
                *_confinement(program.limits),
                *mounts,
                *("--workdir", str(program.cwd), "--entrypoint", program.argv[0]),
                *(self._image, *program.argv[1:]),
            )
            client = replace(program, cwd=Path("/"), env=engine_variables())
            finished = run_supervised(argv, client, limited=False)
            if not finished.timed_out and not finished.problems and finished.exit_code >= 0:
                remover.kill()  # the engine itself has removed the container
        return self._told(engine, finished)

    def _answering(self) -> str | None:
        """Return the engine to use."""
        return next((engine for engine in self._engines if _info(engine)[0]), None)

    def _shown(self) -> Path | None:
        """Return the folder of skills to show."""
        folder = self._skills_root or skills_root()
        return Path(folder).absolute() if folder and Path(folder).is_dir() else None

    def _told(self, engine: str, finished: Finished) -> Finished:
        """Tell what the engine could not do from what the program did."""
        code, said = finished.exit_code, finished.stderr
        if code == _ENGINE_FAILED and said.startswith(_ENGINE_SAYS):
            raise ExecutorError(
                f"{engine} cannot run {self._image}: "
                f"{one_line(said.decode(errors='replace'), 300)} "
                f"If the image is missing: {Path(engine).name} pull {self._image}"
            )
        if code in _UNSTARTED and said.startswith(_INIT_SAYS):
            return replace(finished, exit_code=-1)
        return finished


def _confinement(limits: Limits) -> Iterator[str]:
    """Yield the options that keep a program in."""
    yield from ("--rm", "--interactive", "--init", "--pull", "never", "--network", "none")
    yield from ("--read-only", "--tmpfs", f"/tmp:rw,exec,nosuid,nodev,mode=1777,size={TMP_BYTES}")
    yield from ("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--ipc", "private")
    yield from ("--pids-limit", str(limits.processes + 1))  # the init is one of them
    yield from ("--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes))
    yield from ("--cpus", str(min(CPUS, os.cpu_count() or 1)))
    yield from ("--ulimit", f"nofile={limits.open_files}:{limits.open_files}")
    yield from ("--ulimit", f"fsize={limits.file_bytes}:{limits.file_bytes}")
    yield from ("--ulimit", "core=0:0", "--hostname", "skill", "--log-driver", "none")


def _user(engine: str, is_rootless: bool) -> tuple[str, ...]:
    """Return the options that make a program whom the workspace belongs to, and never root."""
    if not is_rootless:
        return ("--user", f"{os.getuid() or NOBODY}:{os.getgid() or NOBODY}")
    if Path(engine).name == "podman":
        return ("--userns", "keep-id", "--user", f"{os.getuid()}:{os.getgid()}")
    return ("--user", "0:0")  # of a user namespace, in which that is we ourselves


def _mounts(workspace: Path, shown: Path | None) -> Iterator[str]:
    """Yield the options that show folders under their own names."""
    yield from ("--mount", f"type=bind,{_field('source', workspace)},{_field('target', workspace)}")
    if shown is not None:
        fields = f"{_field('source', shown)},{_field('target', shown)},readonly"
        yield from ("--mount", f"type=bind,{fields}")


def _field(name: str, path: Path) -> str:
    """Write a field of ``--mount``, which is a line of CSV."""
    if not str(path).isprintable():
        raise ExecutorError(f"The path {str(path)!r} cannot be handed to a container engine.")
    field = f"{name}={path}"
    return '"' + field.replace('"', '""') + '"' if set(field) & set(',"') else field


@contextmanager
def _env_file(env: Mapping[str, str]) -> Iterator[str]:
    """Yield the path of a file of variables that is in memory alone, and goes with this process.

    On the command line every user of this machine could read them, and in the environment of the
    engine they would steer the engine.
    """
    lines = []
    for name, value in env.items():
        if name == "PATH":
            continue
        if not _VARIABLE.fullmatch(name) or re.search(r"[\r\n\0]", value):
            raise ExecutorError(
                f"The variable {name!r} cannot be handed to a container engine, for a line break or"
                " a blank in it; put the value into a file instead."
            )
        lines.append(f"{name}={value}\n")
    fd = os.memfd_create("variables", os.MFD_CLOEXEC)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(os.fsencode("".join(lines)))
        yield f"/proc/{os.getpid()}/fd/{fd}"
    finally:
        os.close(fd)


@contextmanager
def _removed(engine: str, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Have a container removed at the end, or when this process is gone; unless that is killed."""
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
    """Give a workspace of root to the user that its programs run as, without following links."""
    above = len(workspace.parts)
    os.chown(workspace, NOBODY, NOBODY, follow_symlinks=False)
    for path, folders, files, folder in os.fwalk(workspace):
        for name in (*folders, *files):
            with suppress(OSError):
                os.chown(name, NOBODY, NOBODY, dir_fd=folder, follow_symlinks=False)
        if len(Path(path).parts) - above >= _MAX_DEPTH:
            folders.clear()


@functools.cache
def _info(engine: str) -> tuple[str, str]:
    """Ask an engine about itself: ``root`` or ``rootless``, and why it does not answer."""
    if shutil.which(engine) is None:
        return "", f"{engine} is not installed"
    template, mark = _ROOTLESS[Path(engine).name]
    try:
        run = subprocess.run(
            (engine, "info", "--format", template),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        return "", f"{engine}: {exc}"
    if run.returncode != 0:
        said = one_line(run.stderr.decode(errors="replace"), 200)
        return "", f"{engine}: {said or f'exit code {run.returncode}'}"
    return ("rootless" if mark in run.stdout.decode(errors="replace") else "root"), ""
