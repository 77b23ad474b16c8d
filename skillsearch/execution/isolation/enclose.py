"""Runs a command in new namespaces, as bubblewrap does; or serves as init in bubblewrap's.

A standalone script, started as ``python -I -S enclose.py PROCESSES OPTION... -- COMMAND...``. It
runs before every command, so it imports next to nothing. Its options are ``bwrap``'s that
make up a view of the file system, in the order in which they are applied. Always done: new
namespaces of every kind, a new session, no capabilities, no new privileges, no user namespaces
inside (if the kernel lets us forbid them), no file descriptors beyond 0 to 2, no network but a
loopback device, and an end with the parent. A ``/proc`` that may not be mounted stays empty.

Without ``--uid`` it makes no namespaces, because bubblewrap did, and is the first process of
bubblewrap's pid namespace. No program inside can trace or change that process, so none can keep
the run from ending with its command, as it could by stopping bubblewrap's own init.

The exit status is the command's own, or 128 plus the number of the signal that ended it; 1, with
a line on stderr that begins with ``enclose:``, if it could not be started. Needs Linux 5.12.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

TYPE_CHECKING = False  # `collections.abc` and `typing` would cost every run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

_LIBC = ctypes.CDLL(None, use_errno=True)

_NAMESPACES = 0x10000000 | 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000
"""CLONE_NEWUSER, _NEWNS, _NEWPID, _NEWNET, _NEWIPC and _NEWUTS."""
_CLONE_NEWCGROUP = 0x02000000
_MS_BIND, _MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x1000, 0x4000, 0x40000, 2
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_RDONLY, _NOSUID, _NODEV = 1, 2, 4  # MOUNT_ATTR_..., for mount_setattr
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_SYS_CLOSE_RANGE, _SYS_MOUNT_SETATTR = 436, 442
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41}  # libc has no function for it
_CAPABILITY_VERSION_3 = 0x20080522
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _MOST_BYTES = 22, 2, 8 * 4096
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_SIGKILL, _SIGPIPE, _SIGXFSZ = 9, 13, 25
_RESERVED_PIDS = 300  # ids below are not reused
_OLD, _NEW = "/old", "/new"  # the roots while the new one is made
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_STREAMS = {"stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_LINKS = {"fd": "/proc/self/fd", **_STREAMS, "ptmx": "pts/ptmx"}
_WITH_TWO_OPERANDS = frozenset(("--ro-bind", "--bind", "--symlink", "--setenv"))
"""All other options have one."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Run a command enclosed, and end as it ends; `arguments` are as in the module's text."""
    processes, at = int(arguments[0]), 1
    options: list[Sequence[str]] = []
    while arguments[at] != "--":
        end = at + (3 if arguments[at] in _WITH_TWO_OPERANDS else 2)
        options.append(arguments[at:end])
        at = end
    flags = {option[0]: option[-1] for option in options}
    syscall_filter = os.read(int(flags["--seccomp"]), _MOST_BYTES) if "--seccomp" in flags else b""
    if "--uid" in flags:
        _enclose(options, flags["--uid"], flags["--gid"], processes)
    for name, *operands in options:
        if name == "--setenv":
            os.putenv(*operands)
        elif name == "--unsetenv":
            os.unsetenv(operands[0])
    _give_up_privileges(processes)
    if syscall_filter:
        _filter_syscalls(syscall_filter)
    _be_init(arguments[at + 1 :], flags["--chdir"])


def _enclose(options: Sequence[Sequence[str]], uid: str, gid: str, processes: int) -> None:
    """Continue as the first process of new namespaces, while this one waits for its end."""
    _call("syscall", _SYS_CLOSE_RANGE, 3, 0xFFFFFFFF, 0, about="close_range")
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    _call("unshare", _NAMESPACES)
    _LIBC.unshare(_CLONE_NEWCGROUP)  # hides the names of control groups, nothing more
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {outer_uid} 1")
    _write("/proc/self/gid_map", f"{gid} {outer_gid} 1")
    _die_with_parent()
    receiver, sender = os.pipe()
    init = os.fork()
    if init:
        os.close(receiver)
        os.write(sender, b".")
        os._exit(_exit_code(os.waitpid(init, 0)[1]))
    os.close(sender)
    _die_with_parent()
    if not os.read(receiver, 1):  # the parent ended before it could be noticed
        os._exit(1)
    os.close(receiver)
    socket = _LIBC.socket(2, 2, 0)  # AF_INET, SOCK_DGRAM
    request = b"lo".ljust(16, b"\0") + _IFF_UP.to_bytes(2, sys.byteorder)
    _call("ioctl", socket, _SIOCSIFFLAGS, request.ljust(40, b"\0"))  # 127.0.0.1 works inside
    os.close(socket)
    _make_root(options, processes)


def _make_root(options: Sequence[Sequence[str]], processes: int) -> None:
    machine = os.uname().machine
    if machine not in _PIVOT_ROOT:
        raise OSError(f"{machine} is not supported; install bubblewrap")
    pivot_root = _PIVOT_ROOT[machine]
    # Links have to be followed before the root changes, while they still mean the same.
    real = [(name, os.path.realpath(rest[0]), *rest) for name, *rest in options]
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    _mount("tmpfs", "/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    os.chdir("/tmp")
    os.mkdir(f".{_OLD}")
    os.mkdir(f".{_NEW}")
    _call("syscall", pivot_root, b".", f".{_OLD}".encode(), about="pivot_root")
    os.chdir("/")
    _mount("tmpfs", _NEW, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    size = ""
    for name, source, *operands in real:
        _do(name, source, operands, size)
        size = f",size={operands[0]}" if name == "--size" else ""
        if name == "--proc":
            _limit_kernel(f"{_NEW}{operands[0]}/sys", processes)
    _call("umount2", _OLD.encode(), _MNT_DETACH)
    os.chdir(_NEW)
    _call("syscall", pivot_root, b".", b".", about="pivot_root")
    _call("umount2", b".", _MNT_DETACH)
    os.chdir("/")


def _do(name: str, source: str, operands: Sequence[str], size: str) -> None:
    target = _NEW + operands[-1]
    if source == "/dev/null" and not os.path.exists(target):
        return  # what it would hide is not there
    if name in {"--bind", "--ro-bind"}:
        _bind(_OLD + source, target, _NOSUID | _NODEV | (_RDONLY if name == "--ro-bind" else 0))
    elif name == "--symlink":
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(operands[0], target)
    elif name == "--tmpfs":
        os.makedirs(target, exist_ok=True)
        _mount("tmpfs", target, "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode=755{size}")
    elif name == "--dev":
        _make_devices(target)
    elif name == "--proc":
        os.makedirs(target, exist_ok=True)
        flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
        if _LIBC.mount(b"proc", os.fsencode(target), b"proc", flags, None) == -1:
            _mount("tmpfs", target, "tmpfs", flags, "mode=755")
    elif name == "--remount-ro":
        _restrict(target, _RDONLY, 0)
    elif name == "--hostname":
        _call("sethostname", operands[0].encode(), len(operands[0].encode()))


def _bind(source: str, target: str, attributes: int) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT, 0o444))
    _mount(source, target, None, _MS_BIND | _MS_REC)
    _restrict(target, attributes, _AT_RECURSIVE)


def _make_devices(dev: str) -> None:
    os.makedirs(dev, exist_ok=True)
    _mount("tmpfs", dev, "tmpfs", _MS_NOSUID | _MS_NOEXEC, "mode=755")
    for device in _DEVICES:
        _bind(f"{_OLD}/dev/{device}", f"{dev}/{device}", _NOSUID)
    for name, target in _LINKS.items():
        os.symlink(target, f"{dev}/{name}")
    os.mkdir(f"{dev}/pts")
    _mount("devpts", f"{dev}/pts", "devpts", _MS_NOSUID | _MS_NOEXEC, "newinstance,ptmxmode=0666")


def _limit_kernel(settings: str, processes: int) -> None:
    """Forbid user namespaces and bound root's processes, unless settings are read-only."""
    if not os.path.isdir(settings):
        settings = f"{_OLD}/proc/sys"
    release = os.uname().release.replace("-", ".").split(".")
    try:
        _write(f"{settings}/user/max_user_namespaces", "0")
        if list(map(int, release[:2])) >= [6, 14]:  # earlier kernels have one for the machine
            _write(f"{settings}/kernel/pid_max", str(_RESERVED_PIDS + processes))
    except OSError:
        return


def _give_up_privileges(processes: int) -> None:
    """Drop the rights of a new user namespace, and all that a program could gain by exec."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    most = processes if hard == resource.RLIM_INFINITY else min(processes, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    capability = 0
    while _LIBC.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) == 0:
        capability += 1
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    _call("capset", header, none)


def _filter_syscalls(code: bytes) -> None:
    """Have the kernel judge by a filter each call of this process and of all that it starts."""
    instructions = ctypes.create_string_buffer(code, len(code))
    # A ``sock_fprog``: the number of instructions in 16 bits, and, aligned, where they are.
    program = (ctypes.c_uint64 * 2)(len(code) // 8, ctypes.addressof(instructions))
    _call("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0)


def _be_init(command: Sequence[str], folder: str) -> NoReturn:
    """Start the command, reap whatever ends, and end as the command ends."""
    _call("prctl", _PR_SET_DUMPABLE, 0, 0, 0, 0)  # keeps out ptrace, and writers of /proc/1/mem
    started = os.fork()
    if started == 0:
        os.setsid()
        os.chdir(folder)
        for number in (_SIGPIPE, _SIGXFSZ):  # which the interpreter ignores
            _LIBC.signal(number, None)
        words = (ctypes.c_char_p * (len(command) + 1))(*map(os.fsencode, command), None)
        _call("execvp", os.fsencode(command[0]), words, about=command[0])
    while True:
        ended, status = os.wait()
        if ended == started:
            os._exit(_exit_code(status))


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _die_with_parent() -> None:
    """Ask to be killed with the parent; the end of an init ends its whole namespace."""
    _call("prctl", _PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, data: str | None = None
) -> None:
    texts = [text and os.fsencode(text) for text in (source, target, kind)]
    _call("mount", *texts, flags, data and data.encode(), about=f"{kind or source} on {target}")


def _restrict(target: str, attributes: int, flags: int) -> None:
    added = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    _call(
        "syscall",
        _SYS_MOUNT_SETATTR,
        _AT_FDCWD,
        os.fsencode(target),
        flags,
        added,
        ctypes.sizeof(added),
        about="mount_setattr",
    )


def _write(path: str, text: str) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(text.encode())


def _call(function: str, *arguments: object, about: str = "") -> None:
    """Call a function of libc that returns -1 and sets errno if it fails."""
    longs = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    if getattr(_LIBC, function)(*longs) == -1:
        error = ctypes.get_errno()
        raise OSError(error, f"{function}: {os.strerror(error)}", about or None)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as exc:
        os.write(2, os.fsencode(f"enclose: {exc}\n"))
        os._exit(1)
