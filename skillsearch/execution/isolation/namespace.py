"""The executor ``namespace``: a private root folder, processes and network for each program.

They are made by bubblewrap if that works, else by our own
`skillsearch.execution.isolation.enclose`. Both get the same options.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
from dataclasses import replace
from itertools import chain, product, starmap
from pathlib import Path
from typing import Literal

from skillsearch.errors import ExecutorError
from skillsearch.execution.isolation.capture import run_supervised
from skillsearch.execution.isolation.container import NOBODY, TMP_BYTES, ask, memory_file
from skillsearch.execution.isolation.local import size_limits
from skillsearch.execution.isolation.syscall_filter import syscall_filter
from skillsearch.execution.types import Capabilities, Finished, Program
from skillsearch.text.tables import read_tables

Backend = Literal["bwrap", "enclose"]
BACKENDS: tuple[Backend, ...] = ("bwrap", "enclose")
"""The first that works is used; for root the last, if only `enclose` can limit the number of root's
processes on this kernel."""

SHM_BYTES = 64 << 20

_ENCLOSE = Path(__file__).with_name("enclose.py")
_BWRAP_ALWAYS = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
    *("--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session"),
    *("--cap-drop", "ALL", "--as-pid-1"),
)
"""`enclose` always gives this isolation. It is the init of both: bubblewrap's can be stopped."""
_INIT = "/etc/skillsearch-init.py"  # `enclose` inside bubblewrap's namespaces
_SYSTEM, _ETC, _PREFIX, _HIDDEN = read_tables(Path(__file__).with_suffix(".txt"))["view"].values()
_STEERS_LIBC = ("LD_", "GLIBC_", "GCONV_", "LOCPATH", "MALLOC_", "NLSPATH")
"""Prefixes of variables that would load code into the enclosing program, outside of it."""
_OWN_PROCESSES = 2  # of either backend: one outside, and the init
_UNSTARTED = re.compile(rb"bwrap: |enclose: ")

_UNFILTERED = "System calls, those for keys and vsock among them, are not filtered on this machine."


class NamespaceExecutor:
    """Runs programs that see the system, their workspace and nothing else of this machine."""

    name = "namespace"

    def __init__(self, *, backend: Backend | None = None) -> None:
        release = [int(number) for number in re.findall(r"\d+", os.uname().release)[:2]]
        in_order = BACKENDS[::-1] if os.getuid() == 0 and release >= [6, 14] else BACKENDS
        self._backends = in_order if backend is None else (backend,)

    def reason(self) -> str:
        """Return why programs cannot be enclosed, tried once per process; empty if they can."""
        if self._working() is not None:
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
            not_isolated=(
                "It shares the kernel of this machine: a fault in that may be a way out.",
                *(() if syscall_filter(os.uname().machine) else (_UNFILTERED,)),
                size_limits(),
                "It can read /usr, /opt, the Python installation and a part of /etc.",
                *(root if os.getuid() == 0 else ()),
            ),
        )

    def run(self, program: Program) -> Finished:
        """Run a program enclosed; see `Executor`.

        An ExecutorError if this machine cannot enclose programs.
        """
        if (backend := self._working()) is None:
            raise ExecutorError(self.reason())
        steering = {name for name in program.env if name.startswith(_STEERS_LIBC)}
        inherited = {name: program.env[name] for name in program.env.keys() - steering}
        limits = replace(program.limits, processes=program.limits.processes + _OWN_PROCESSES)
        enclosing = replace(program, env=inherited, limits=limits)
        with memory_file(syscall_filter(os.uname().machine)) as file:
            command = enclosed(program, backend, file)
            finished = run_supervised(command, enclosing, descriptors=(file,))
        if finished.exit_code in (1, 126, 127) and _UNSTARTED.match(finished.stderr):
            return replace(finished, exit_code=-1)
        return finished

    def _working(self) -> Backend | None:
        return next((backend for backend in self._backends if not _problem(backend)), None)


def enclosed(program: Program, backend: Backend, filter_file: int) -> tuple[str, ...]:
    """Return the command that encloses a program, with its view in the order of the mounts.

    It inherits the descriptor of a file with the `syscall_filter` of this machine.
    """
    # It inherits the program's environment, except for variables that would affect it itself.
    own = [item for item in program.env.items() if item[0].startswith(_STEERS_LIBC)]
    variables = list(chain.from_iterable(("--setenv", *item) for item in own))
    if "LC_CTYPE" not in program.env:  # which Python sets if it finds no locale
        variables += ("--unsetenv", "LC_CTYPE")
    is_bwrap = backend == "bwrap"
    enclose = _INIT if is_bwrap else str(_ENCLOSE)
    init = (sys.executable, "-I", "-S", enclose, str(program.limits.processes + _OWN_PROCESSES))
    hidden = [("--ro-bind", "/dev/null", path) for path in _HIDDEN if Path(path).exists()]
    view = (
        *("--uid", str(os.getuid() or NOBODY), "--gid", str(os.getgid() or NOBODY)),
        *("--hostname", "skill"),
        *(("--seccomp", str(filter_file)) if syscall_filter(os.uname().machine) else ()),
        *("--size", str(TMP_BYTES), "--tmpfs", "/tmp"),
        *_system_view(),
        *(("--ro-bind", str(_ENCLOSE), _INIT) if is_bwrap else ()),
        # Root outside may write to much of /proc without any capability.
        *("--proc", "/proc", *chain(*hidden), "--remount-ro", "/proc", "--dev", "/dev"),
        *("--size", str(SHM_BYTES), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),
        *("--bind", str(program.workspace), str(program.workspace)),
        *("--remount-ro", "/"),
    )
    command = (*variables, "--chdir", str(program.cwd), "--", *program.argv)
    if is_bwrap:
        return (shutil.which("bwrap") or "bwrap", *_BWRAP_ALWAYS, *view, *init, *command)
    return (*init, *view, *command)


@functools.cache
def _system_view() -> tuple[str, ...]:
    """Return the options that show the system and the Python that runs us."""
    prefixes = dict.fromkeys((sys.prefix, sys.base_prefix))
    paths = [*map(Path, _SYSTEM), *starmap(Path, product(prefixes, _PREFIX))]
    path = Path(sys.executable)
    while path not in paths and path.is_symlink():  # each link by which this Python is called
        paths.append(path)
        path = Path(os.path.normpath(path.parent / path.readlink()))
    paths.append(path)
    options: list[str] = []
    shown: list[Path] = []
    for path in paths:
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


@functools.cache
def _problem(backend: Backend) -> str:
    """Return why a backend does not work here, found by using it; empty if it does."""
    if sys.platform != "linux":
        return f"{backend}: this is not Linux"
    if backend == "bwrap" and not shutil.which("bwrap"):
        return "bwrap: not installed"
    folder = Path("/tmp")  # a new folder would be left behind if this process is killed
    program = Program(("/bin/sh", "-c", "true"), folder, folder, {})
    with memory_file(syscall_filter(os.uname().machine)) as file:
        problem = ask(*enclosed(program, backend, file), env={}, fds=[file])[1]
    return f"{backend}: {problem.removeprefix(f'{backend}: ')}" if problem else ""
