"""Runs one program under limits, and ends it with everything it started. Linux only.

A script, started by `capture` with the streams of the program. A socket brings the orders and takes
the report; when its other end closes, the run is cancelled. An inner process starts and watches the
program, and the outer one watches the inner: whatever a program daemonises becomes a child of one
of them, and a program that kills or stops one is ended by the other.

Starting Python is most of the cost of a run; `signal`, `typing`, `contextlib`, `pathlib` and `json`
would each add half of that again.
"""

import ctypes
import os
import resource
import select
import sys
import time

TYPE_CHECKING = False  # `collections.abc` and `typing` would cost every run some milliseconds
if TYPE_CHECKING:
    from collections.abc import Iterator

THREADS = 256
"""Threads allowed beyond the processes; the kernel stops a fork bomb there, except for root's."""
GRACE = 0.2
"""Seconds that other processes have once the program has ended: a ``tee`` may still write."""
TICK = 0.02  # longest pause between two checks, in seconds
ENOENT, ENOMEM = 2, 12
SIGKILL, SIGCONT, LAST_SIGNAL, SIG_SETMASK = 9, 18, 64, 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
OWN_GROUP = "skillsearch-"
"""What the names of our control groups begin with; the process id of a supervisor follows."""
KEYCTL, JOIN_SESSION_KEYRING = {"x86_64": 250, "aarch64": 219, "riscv64": 219}, 1
"""A system call for which libc has no function: its number by type of machine, and operation."""

HAS_LISTS = os.access(f"/proc/{os.getpid()}/task/{os.getpid()}/children", os.R_OK)

libc = ctypes.CDLL(None, use_errno=True)


class Orders:
    """The command, its folder, and `Limits` by their names: all of them 0 for a client."""

    def __init__(self, control: int, words: list[str]) -> None:
        """Read folder, arguments and ``NAME=value`` variables, separated by NUL, from a socket."""
        size, count = int(words[0]), int(words[1])  # bytes, and arguments among the fields
        data = b""
        while len(data) < size:
            data += os.read(control, size - len(data)) or sys.exit(1)
        self.folder, *fields = data.split(b"\0")
        self.argv, variables = fields[:count], fields[count:]
        self.env = dict(variable.split(b"=", 1) for variable in variables)
        self.seconds = float(words[2])
        self.processes, self.open_files, self.file_bytes, self.memory_bytes = map(int, words[3:])


class Children:
    """The children of this process: a program, and orphans."""

    def __init__(self, program: int) -> None:
        self.program = program
        self.code: int | None = None

    def is_any_left(self) -> bool:
        """Reap the dead, and return whether any child lives; none means no descendant either."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self.program:
                    self.code = os.waitstatus_to_exitcode(ended[1])
        except ChildProcessError:
            return False
        return True

    def end_all(self) -> int:
        """Kill them and all their descendants until none is left, and return how many there were.

        The dead are reaped last: until then they occupy the slots that a fork bomb needs.
        """
        killed, pause = 0, 0.001
        while self.is_any_left():
            hit: set[int] = set()
            while kill_new(hit):
                continue
            killed += len(hit)
            time.sleep(pause)
            pause = min(2 * pause, TICK)
        return killed


def make_groups(memory_bytes: int, processes: int) -> list[str]:
    """Make what control groups this user may make for a run; none for a client, of 0 bytes.

    They limit the memory and the number of all its processes together. Those that supervisors left
    behind when they were killed are removed.
    """
    groups: list[str] = []
    limits = dict.fromkeys(("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"), memory_bytes)
    limits |= {"memory.max": memory_bytes, "memory.swap.max": 0, "pids.max": processes + THREADS}
    for parent in group_parents() if memory_bytes else []:
        ours = [name for name in names(parent) if name.startswith(OWN_GROUP)]
        left = [name for name in ours if not names(f"/proc/{name.split('-')[1]}")]
        remove_groups([f"{parent}/{name}" for name in left])
        group = f"{parent}/{OWN_GROUP}{os.getpid()}-{os.urandom(4).hex()}"
        try:
            os.mkdir(group)  # noqa: PTH102
            for name in filter(names(group).__contains__, limits):
                write(f"{group}/{name}", limits[name])
            groups.append(group)
        except OSError:
            remove_groups([group])
    return groups


def group_parents(root: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> list[str]:
    """Return the folders in which this user can make groups that limit memory or number.

    In version 2 a group with processes, such as our own, can limit none below it. So ours are made
    beside it: by a user to whom that folder is delegated, and unless our own limits were evaded.
    """
    parents = []
    for line in os.fsdecode(read(own)).splitlines():
        controllers, path = line.split(":", 2)[1:]
        folder = f"{root}/{controllers}{path}".rstrip("/")
        limits = [read(f"{folder}/{name}") for name in ("memory.max", "memory.high", "cpu.max")]
        is_free = not controllers and os.geteuid() and all(x[:3] == b"max" for x in limits if x)
        usable = [folder, os.path.dirname(folder)] if is_free else [folder]  # noqa: PTH120
        is_old = controllers in ("memory", "pids")
        parents += [p for p in usable if is_old or read(f"{p}/cgroup.subtree_control").split()]
    return parents


def memory_events(groups: list[str]) -> bytes:
    """Return the kernel's account of the memory of groups; nothing if none limits it."""
    files = ("memory.events", "memory.oom_control")  # of version 2, and of 1
    return b"".join(read(f"{group}/{name}") for group in groups for name in files)


def remove_groups(groups: list[str]) -> None:
    """Remove groups, except for those that are gone or have processes."""
    for group in groups:
        libc.rmdir(os.fsencode(group))


def main(control: int, words: list[str]) -> None:
    """Follow `Orders`; report ``ended CODE REASON KILLED MILLISECONDS``, or ``failed ...``."""
    os.set_inheritable(control, False)
    orders = Orders(control, words)
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    outer = os.getpid()
    groups = make_groups(orders.memory_bytes, orders.processes)
    inner = os.fork()
    if inner:
        let_go_of_streams()
        os.waitpid(inner, os.WUNTRACED)
        Children(inner).end_all()
        remove_groups(groups)
        return
    os.setsid()  # signals to the group of the outer one must not reach this one
    prctl(PR_SET_PDEATHSIG, SIGCONT)  # wakes it if the outer one is gone
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    come_first()
    program = os.fork()
    if program == 0:
        become(orders, control, groups)
    let_go_of_streams()
    os.write(control, look_after(program, orders, outer, control, groups))


def come_first() -> None:
    """Take precedence over all processes, if allowed: a fork bomb would leave us no time."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError:
        return


def let_go_of_streams() -> None:
    """Release the streams, so that they end when the program's copies do."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.close(null)


def become(orders: Orders, control: int, groups: list[str]) -> None:
    """Turn this process into the program, or report why that fails, and exit."""
    what = b"folder"
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, SIGKILL)
        for number in range(1, LAST_SIGNAL + 1):
            libc.signal(number, None)  # our caller may have ignored some
        libc.sigprocmask(SIG_SETMASK, bytes(128), None)
        os.chdir(orders.folder)
        what = b"program"
        for group in groups:
            write(f"{group}/cgroup.procs", 0)
        set_limits(orders)
        execute(orders.argv, orders.env)
    except (OSError, MemoryError) as error:
        os.write(control, b"failed %s %d\n" % (what, getattr(error, "errno", ENOMEM)))
    finally:
        os._exit(127)


def set_limits(orders: Orders) -> None:
    """Set the limits, which all descendants inherit, and take away the session's keys."""
    if not orders.memory_bytes:
        return
    # No namespace hides the keys of a session. A container may forbid this, and has none of them.
    libc.syscall(KEYCTL.get(os.uname().machine, -1), JOIN_SESSION_KEYRING, None)
    limits = {
        resource.RLIMIT_NOFILE: orders.open_files,
        resource.RLIMIT_FSIZE: orders.file_bytes,
        resource.RLIMIT_NPROC: threads_of_all() + orders.processes + THREADS,
        resource.RLIMIT_AS: orders.memory_bytes,
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind, wanted in limits.items():
        hard = resource.getrlimit(kind)[1]
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (limit, limit))


def execute(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """Become a program given by a path, or found on the ``PATH`` that it will have."""
    if b"/" in argv[0]:
        os.execve(argv[0], argv, env)
    folders = env.get(b"PATH", os.fsencode(os.defpath)).split(b":")
    for path in [folder + b"/" + argv[0] for folder in folders if folder]:
        try:
            os.execve(path, argv, env)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
    raise FileNotFoundError(ENOENT, "")


def look_after(program: int, orders: Orders, outer: int, control: int, groups: list[str]) -> bytes:
    """Wait for the end of a program or a reason to end it, end everything, return the report."""
    started = time.monotonic()
    deadline = started + orders.seconds
    poll = select.poll()
    poll.register(control, select.POLLIN)
    family = Children(program)
    reason, ended = b"done", 0.0
    while family.is_any_left():
        now = time.monotonic()
        if family.code is not None and not ended:
            ended = now
            deadline = min(deadline, now + GRACE)
        if now >= deadline:
            reason = b"done" if ended else b"time"
            break
        if broken := broken_rule(orders, outer):
            reason = broken
            break
        pause = min(deadline - now, TICK, 0.001 + (now - started) / 8)
        if poll.poll(1000 * pause):
            reason = b"caller"
            break
    ended = ended or time.monotonic()
    killed = family.end_all()
    events = memory_events(groups)
    if reason == b"done" and b"oom_kill " in events and b"oom_kill 0" not in events:
        reason = b"memory"
    remove_groups(groups)
    return b"ended %d %s %d %d\n" % (family.code or 0, reason, killed, 1000 * (ended - started))


def broken_rule(orders: Orders, outer: int) -> bytes:
    """Return why a program may not go on, whatever it does; empty if it may."""
    if orders.processes and any(n >= orders.processes for n, _ in enumerate(descendants())):
        return b"processes"
    return b"" if os.getppid() == outer else b"outer"


def descendants() -> "Iterator[int]":
    """Yield the descendants of this process; the children of each are listed at its turn."""
    waiting = [os.getpid()]
    for pid in waiting:
        offspring = children(pid)
        waiting += offspring
        yield from offspring


def children(pid: int, *, has_lists: bool = HAS_LISTS) -> list[int]:
    """Return the children of a process, from its lists if the kernel keeps them, else from all."""
    if has_lists:
        lists = (f"/proc/{pid}/task/{thread}/children" for thread in names(f"/proc/{pid}/task"))
        return [int(child) for path in lists for child in read(path).split()]
    return [int(name) for name in names("/proc") if name.isdigit() and parent(name) == pid]


def parent(name: str) -> int:
    """Return the parent of a process; 0 if it is gone."""
    return int((read(f"/proc/{name}/stat").rpartition(b")")[2].split() or [b"", b"0"])[1])


def threads_of_all() -> int:
    """Return the threads of the machine: more than the user's own, which the limit counts."""
    return int(read("/proc/loadavg").split()[3].split(b"/")[1])


def names(folder: str) -> list[str]:
    """List a folder; nothing if it is gone."""
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []


def read(path: str) -> bytes:
    """Read a file; nothing if it is gone."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""


def write(path: str, number: int) -> None:
    """Write a number to a file that is there."""
    with open(path, "wb", buffering=0) as file:  # noqa: PTH123
        file.write(b"%d" % number)


def kill_new(hit: set[int]) -> bool:
    """Kill the descendants that were not hit before, and return whether there were any."""
    before = len(hit)
    for pid in descendants():
        if pid not in hit:
            hit.add(pid)
            try:
                os.kill(pid, SIGKILL)
            except OSError:
                continue  # it has ended
    return len(hit) > before


def prctl(option: int, value: int) -> None:
    """Set a property of this process, or raise `OSError`."""
    if libc.prctl(option, *(ctypes.c_ulong(number) for number in (value, 0, 0, 0))):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), sys.argv[2:])
    except OSError as error:
        os.write(int(sys.argv[1]), b"failed supervisor %d\n" % (error.errno or 0))
    os._exit(0)
