"""The executor ``namespace``: gives each program a private root folder, processes and network.

Linux only. Done by bubblewrap if that is installed and works, else by our own
`skillsearch.execution.enclose`. Both get the same options, so a program sees the same.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from skillsearch.errors import ExecutorError
from skillsearch.execution.capture import run_supervised
from skillsearch.execution.types import Capabilities, Finished, Program
from skillsearch.text.safe_text import one_line

Backend = Literal["bwrap", "enclose"]
BACKENDS: tuple[Backend, ...] = ("bwrap", "enclose")
"""The first that works is used; for root the last, if only `enclose` can limit the number of root's
processes on this kernel."""

NOBODY = 65534
"""The user that root becomes inside: a program that is root may try what it is not allowed."""
TMP_BYTES = 256 << 20
SHM_BYTES = 64 << 20

_ENCLOSE = Path(__file__).with_name("enclose.py")
_BWRAP_ALWAYS = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
    *("--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session"),
    *("--cap-drop", "ALL", "--as-pid-1"),
)
"""What `enclose` always does. It is the init of both, because bubblewrap's own can be stopped."""
_INIT = "/etc/skillsearch-init.py"
"""The place of `enclose` inside bubblewrap's namespaces."""
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"),
    *("/nix/store", "/gnu/store"),
)
_ETC = (
    "alternatives bash.bashrc bashrc ca-certificates ca-certificates.conf crypto-policies "
    "debian_version fonts gai.conf group host.conf hosts ImageMagick-6 ImageMagick-7 inputrc java "
    "ld.so.cache ld.so.conf ld.so.conf.d libreoffice locale.alias locale.conf localtime "
    "lsb-release magic mime.types nsswitch.conf os-release papersize passwd pki/ca-trust pki/java "
    "pki/tls/certs pki/tls/openssl.cnf profile profile.d protocols R redhat-release services "
    "shells ssl/cert.pem ssl/certs ssl/openssl.cnf terminfo texmf timezone vimrc"
).split()
"""The readable part of ``/etc``; anything else there may be a secret of this machine."""
_PREFIX_PARTS = ("bin", "lib", "lib64", "libexec", "ssl", "pyvenv.cfg")
"""The parts of a Python below its prefix, which may be a folder full of other things."""
_MAX_LINKS = 40
_STEERS_LIBC = ("LD_", "GLIBC_", "GCONV_", "LOCPATH", "MALLOC_", "NLSPATH")
"""Prefixes of variables that would load code into the enclosing program, outside of it."""
_OWN_PROCESSES = 2
"""Processes of either backend: one outside, and the init."""
_PROBE_SECONDS = 10.0
_UNSTARTED = re.compile(rb"bwrap: |enclose: ")


class NamespaceExecutor:
    """Runs programs that see the system, their workspace and nothing else of this machine."""

    name = "namespace"

    def __init__(self, readable: Sequence[Path] = (), *, backend: Backend | None = None) -> None:
        """Choose the backend, by default the first that works.

        Absolute paths in `readable` are visible to programs too.
        """
        self._readable = tuple(readable)
        self._backends = _in_order() if backend is None else (backend,)

    def is_available(self) -> bool:
        """Return whether programs can be enclosed here; tried once per process."""
        return self._working() is not None

    def reason(self) -> str:
        """Return why programs cannot be enclosed, and what to do; empty if they can."""
        if self.is_available():
            return ""
        tried = "; ".join(_problem(backend) for backend in self._backends)
        return (
            f"Programs cannot be enclosed here: {tried}. Install bubblewrap and let users make "
            "namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu, a "
            "seccomp profile that allows them in a container), or choose another executor."
        )

    def capabilities(self) -> Capabilities:
        """Return what a program can reach; the same for both backends."""
        root = ("It is enclosed by root: it can read root's own files in /usr and /opt.",)
        return Capabilities(
            isolation="namespaces",
            network=False,
            reads_outside=False,
            writes_outside=False,
            sees_processes=False,
            not_isolated=(
                "System calls are not filtered: a fault in the kernel may be a way out, and in a "
                "virtual machine so may sockets to its host (vsock).",
                "CPU time, disk space, and the memory of all processes together are not limited.",
                "It can read /usr, /opt, the Python installation and a part of /etc.",
                *(root if os.getuid() == 0 else ()),
            ),
        )

    def run(self, program: Program) -> Finished:
        """Run a program enclosed; see `Executor`."""
        backend = self._working()
        if backend is None:
            raise ExecutorError(self.reason())
        steering = {name for name in program.env if name.startswith(_STEERS_LIBC)}
        inherited = {name: program.env[name] for name in program.env.keys() - steering}
        argv = enclosed(program, backend, self._readable)
        most = program.limits.processes + _OWN_PROCESSES
        limits = replace(program.limits, processes=most)
        finished = run_supervised(argv, replace(program, env=inherited, limits=limits))
        if finished.exit_code in (1, 126, 127) and _UNSTARTED.match(finished.stderr):
            return replace(finished, exit_code=-1)
        return finished

    def _working(self) -> Backend | None:
        return next((backend for backend in self._backends if not _problem(backend)), None)


def enclosed(program: Program, backend: Backend, readable: Sequence[Path] = ()) -> tuple[str, ...]:
    """Return the command that encloses a program.

    It must inherit the program's environment, except for variables that would affect the command
    itself.
    """
    variables, chdir = tuple(_variables(program)), ("--chdir", str(program.cwd))
    enclose = (sys.executable, "-I", "-S", str(_ENCLOSE) if backend == "enclose" else _INIT)
    most = str(program.limits.processes + _OWN_PROCESSES)
    inner = (*variables, *chdir, "--", *program.argv)
    shown = [(str(path), str(path)) for path in readable]
    if backend == "enclose":
        return (*enclose, most, *_view(program, shown), *inner)
    bwrap = (shutil.which("bwrap") or "bwrap", *_BWRAP_ALWAYS)
    return (*bwrap, *_view(program, [*shown, (str(_ENCLOSE), _INIT)]), *enclose, most, *inner)


def _in_order() -> tuple[Backend, ...]:
    """Return the backends to try."""
    release = [int(number) for number in re.findall(r"\d+", os.uname().release)[:2]]
    return BACKENDS[::-1] if os.getuid() == 0 and release >= [6, 14] else BACKENDS


def _variables(program: Program) -> Iterator[str]:
    """Yield the options for variables that the enclosing command itself must not have."""
    for name, value in program.env.items():
        if name.startswith(_STEERS_LIBC):
            yield from ("--setenv", name, value)
    if "LC_CTYPE" not in program.env:  # which Python sets if it finds no locale
        yield from ("--unsetenv", "LC_CTYPE")


def _view(program: Program, shown: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield the options that make up a program's view, in the order in which they are applied."""
    yield from ("--uid", str(os.getuid() or NOBODY), "--gid", str(os.getgid() or NOBODY))
    yield from ("--hostname", "skill")
    yield from ("--size", str(TMP_BYTES), "--tmpfs", "/tmp")
    yield from _system_view()
    for source, target in shown:
        yield from ("--ro-bind", source, target)
    # Root outside may write to much of /proc without any capability.
    yield from ("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev")
    yield from ("--size", str(SHM_BYTES), "--tmpfs", "/dev/shm", "--remount-ro", "/dev")
    yield from ("--bind", str(program.workspace), str(program.workspace))
    yield from ("--remount-ro", "/")


@functools.cache
def _system_view() -> tuple[str, ...]:
    """Return the options that show the system and the Python that runs us."""
    options: list[str] = []
    shown: list[Path] = []
    for path in (*map(Path, _SYSTEM), *_python_paths()):
        if any(path.is_relative_to(other) for other in shown):
            continue
        if path.is_symlink():
            options += ("--symlink", str(path.readlink()), str(path))
        elif path.exists():
            options += ("--ro-bind", str(path), str(path))
        else:
            continue
        shown.append(path)
    for path in (Path("/etc", name) for name in _ETC):
        if path.exists():
            options += ("--ro-bind", str(path), str(path))
    return tuple(options)


def _python_paths() -> Iterator[Path]:
    """Yield the folders of this Python, and the links by which it is called."""
    for prefix in dict.fromkeys((sys.prefix, sys.base_prefix)):
        for part in _PREFIX_PARTS:
            yield Path(prefix, part)
    path = Path(sys.executable)
    for _ in range(_MAX_LINKS):
        yield path
        if not path.is_symlink():
            break
        path = Path(os.path.normpath(path.parent / path.readlink()))


@functools.cache
def _problem(backend: Backend) -> str:
    """Return why a backend does not work here, found by using it; empty if it does."""
    if sys.platform != "linux":
        return f"{backend}: this is not Linux"
    if backend == "bwrap" and not shutil.which("bwrap"):
        return "bwrap: not installed"
    folder = Path("/tmp")  # a new folder would be left behind if this process is killed
    program = Program(("/bin/sh", "-c", "true"), folder, folder, {})
    try:
        run = subprocess.run(
            enclosed(program, backend),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={},
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        return f"{backend}: {one_line(str(exc), 200)}"
    said = one_line(run.stderr.decode(errors="replace"), 200)
    return "" if run.returncode == 0 else said or f"{backend}: exit code {run.returncode}"
