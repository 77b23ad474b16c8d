"""The filter of system calls: judged by an interpreter of its language, and tried in a sandbox."""

import ctypes
import ctypes.util
import errno
import itertools
import json
import os
import random
import struct
import sys
from pathlib import Path

import pytest

from skillsearch.execution.isolation import syscall_filter as module
from skillsearch.execution.isolation.namespace import BACKENDS, NamespaceExecutor
from skillsearch.execution.isolation.syscall_filter import syscall_filter
from skillsearch.execution.types import Program, RunLimits
from skillsearch.text.tables import read_tables

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "riscv64": 0xC00000F3}
FOREIGN = {"i386": 0x40000003, "arm": 0x40000028, "aarch64_be": 0x800000B7, "none": 0}
COLUMN = {"x86_64": 0, "aarch64": 1, "riscv64": 1}
TABLE = Path(module.__file__).with_suffix(".txt")
ALLOW, KILL = "allow", "kill"
X32, LATER = 0x40000000, 470

NEVER = {
    "keys": "add_key keyctl request_key",
    "rings": "io_uring_setup io_uring_enter io_uring_register",
    "handles": "name_to_handle_at open_by_handle_at fanotify_init",
    "observers": "bpf perf_event_open userfaultfd lookup_dcookie syslog",
    "mounts": "mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick move_mount open_tree "
    "mount_setattr swapon swapoff quotactl quotactl_fd",
    "namespaces": "setns clone3",
    "others": "pidfd_getfd kcmp process_madvise",
    "placement": "mbind set_mempolicy get_mempolicy migrate_pages move_pages",
    "machine": "reboot kexec_load kexec_file_load init_module finit_module delete_module acct "
    "settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname vhangup",
}
"""By family, what no arguments make harmless; written down here, and not read from the table."""
ALWAYS = """
    read write openat close mmap mprotect munmap brk rt_sigaction rt_sigprocmask ioctl pread64
    writev madvise nanosleep getpid socket connect accept4 sendto recvfrom socketpair clone execve
    exit wait4 kill uname fcntl flock fsync truncate getdents64 getcwd chdir mkdirat unlinkat
    renameat2 linkat
    symlinkat fchmodat umask getrlimit prlimit64 getrusage sysinfo ptrace process_vm_readv capget
    personality prctl setrlimit sync gettid futex sched_setaffinity epoll_create1 epoll_ctl
    inotify_init1 inotify_add_watch unshare splice vmsplice utimensat eventfd2 signalfd4
    timerfd_create pipe2 dup3 preadv2 memfd_create seccomp getrandom execveat membarrier
    copy_file_range statx rseq pidfd_open pidfd_send_signal close_range openat2 faccessat2
    epoll_pwait2 landlock_create_ruleset memfd_secret futex_waitv shmget msgget semget mq_open
    fchmodat2 io_setup setsid setpriority
""".split()
"""What ordinary programs need, and what is harmless in a namespace of one's own."""


def judge(code, number, arguments=(), machine="x86_64", architecture=None):
    """Interpret a filter as the kernel does, and name what becomes of a call."""
    architecture = ARCHITECTURES[machine] if architecture is None else architecture
    words = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, architecture, 0, *words)
    steps = list(struct.iter_unpack("=HBBI", code))
    at, value = 0, None
    while True:
        operation, if_true, if_false, operand = steps[at]
        at += 1
        if operation == 0x20:
            (value,) = struct.unpack_from("=I", data, operand)
        elif operation == 0x06:
            action, detail = operand & 0xFFFF0000, operand & 0xFFFF
            if action == 0x00050000:
                return errno.errorcode[detail]
            return {0x7FFF0000: ALLOW, 0x80000000: KILL}[action]
        else:
            is_true = {0x15: value == operand, 0x35: value >= operand, 0x45: value & operand != 0}[
                operation
            ]
            at += if_true if is_true else if_false


def rules(machine):
    """Yield name, number, error and conditions of the table, read another way than by the code."""
    for name, *words in map(str.split, filter(None, TABLE.read_text().splitlines())):
        if name.startswith(("#", "[")) or words[COLUMN[machine]] == "-":
            continue
        conditions = [condition.split(".") for condition in words[3:]]
        yield name, int(words[COLUMN[machine]]), words[2], conditions


def applies(conditions, arguments):
    """Return whether arguments are as a line of the table says."""
    for position, operator, numbers in conditions:
        value = arguments[int(position)] & 0xFFFFFFFF
        values = [int(number, 0) for number in numbers.split(",")]
        is_met = {
            "is": value in values,
            "not": value not in values,
            "any": any(value & number for number in values),
        }[operator]
        if not is_met:
            return False
    return True


def numbers(machine):
    """Return the numbers of calls by name, as libseccomp knows them."""
    library = ctypes.util.find_library("seccomp")
    if library is None:
        pytest.skip("needs libseccomp, which knows the numbers of system calls")
    resolve = ctypes.CDLL(library).seccomp_syscall_resolve_name_arch

    def number(name):
        return resolve(ARCHITECTURES[machine], name.encode())

    return number


with_machines = pytest.mark.parametrize("machine", ARCHITECTURES)


@with_machines
def test_it_says_what_its_table_says(machine):
    code, chance = syscall_filter(machine), random.Random(7)
    for number in range(LATER + 50):
        lines = [(error, terms) for _, n, error, terms in rules(machine) if n == number]
        named = [int(n, 0) for _, terms in lines for *_, ns in terms for n in ns.split(",")]
        values = sorted({near & 0xFFFFFFFF for n in [0, *named] for near in (n - 1, n, n + 1)})
        tries = [[chance.getrandbits(64) for _ in range(6)] for _ in range(2)]
        if named:
            near = [[*words, 0, 0, 0] for words in itertools.product(values, repeat=3)]
            tries += chance.sample(near, min(100, len(near)))
        for arguments in tries:
            hits = [error for error, terms in lines if applies(terms, arguments)]
            expected = "ENOSYS" if number >= LATER else hits[0] if hits else ALLOW
            assert judge(code, number, arguments, machine) == expected, (number, arguments)


@with_machines
def test_families_of_calls_are_refused_whatever_their_arguments(machine):
    number, code = numbers(machine), syscall_filter(machine)
    for name in " ".join(NEVER.values()).split():
        for argument in (0, 1, 2**32 - 1, 2**64 - 1):
            verdict = judge(code, number(name), [argument] * 6, machine)
            assert verdict == ("ENOSYS" if name == "clone3" else "EPERM"), name


@with_machines
def test_each_line_has_the_numbers_of_its_call(machine):
    number = numbers(machine)
    wrong = {
        name: (ours, number(name.partition(".")[0]))
        for name, ours, *_ in rules(machine)
        if number(name.partition(".")[0]) not in {ours, -1}
    }
    assert wrong == {}


@with_machines
def test_what_programs_need_is_allowed(machine):
    number, code = numbers(machine), syscall_filter(machine)
    calls = {name: number(name) for name in ALWAYS}
    of_socket = {"socket": [1], "socketpair": [1]}
    verdicts = {
        name: judge(code, n, of_socket.get(name, ()), machine)
        for name, n in calls.items()
        if n >= 0
    }
    assert len(verdicts) > len(ALWAYS) / 2  # one machine lacks what another has
    assert set(verdicts.values()) == {ALLOW}, verdicts


@with_machines
def test_another_architecture_ends_the_program(machine):
    """The same numbers mean other calls there: 32 bits by ``int 0x80``, the other byte order."""
    code = syscall_filter(machine)
    others = {value for name, value in ARCHITECTURES.items() if name != machine}
    for architecture in {*FOREIGN.values(), *others}:
        for number in (0, 1, 248, 250, 425, X32):
            assert judge(code, number, architecture=architecture) == KILL


@with_machines
def test_calls_of_later_kernels_and_of_x32_seem_to_be_missing(machine):
    """A list of what is refused could not know them."""
    code = syscall_filter(machine)
    for number in (LATER, 511, 1000, X32, X32 | 1, X32 | 250, 2**31, -1):
        assert judge(code, number, [0] * 6, machine) == "ENOSYS", number


def test_the_kernel_takes_it_and_on_another_type_of_machine_there_is_none():
    """It has a limit of 4,096 instructions, and jumps reach 255 at most."""
    for machine in ARCHITECTURES:
        steps = list(struct.iter_unpack("=HBBI", syscall_filter(machine)))
        assert 100 < len(steps) < 4096
        for at, (operation, if_true, if_false, _) in enumerate(steps):
            assert at + 1 + max(if_true, if_false) < len(steps) or operation == 0x06
    for machine in ("i686", "armv7l", "ppc64le", "s390x", "aarch64_be", ""):
        assert syscall_filter(machine) == b""


SOCKETS = {
    "unix": (1, 1, 0, ALLOW),
    "tcp": (2, 1, 6, ALLOW),
    "udp": (2, 0x80802, 17, ALLOW),
    "any": (10, 1, 0, ALLOW),
    "ping": (10, 2, 58, ALLOW),
    "routes": (16, 3, 0, ALLOW),
    "vsock": (40, 1, 0, "EAFNOSUPPORT"),
    "alg": (38, 5, 0, "EAFNOSUPPORT"),
    "packet": (17, 3, 0, "EAFNOSUPPORT"),
    "bluetooth": (31, 3, 1, "EAFNOSUPPORT"),
    "xdp": (44, 3, 0, "EAFNOSUPPORT"),
    "tipc": (30, 5, 0, "EAFNOSUPPORT"),
    "sctp": (2, 1, 132, "EPROTONOSUPPORT"),
    "mptcp": (10, 1, 262, "EPROTONOSUPPORT"),
    "sctp by type": (2, 0x80005, 0, "ESOCKTNOSUPPORT"),
    "dccp by type": (10, 6, 0, "ESOCKTNOSUPPORT"),
    "crypto": (16, 3, 21, "EPROTONOSUPPORT"),
    "netfilter": (16, 3, 12, "EPROTONOSUPPORT"),
}


@with_machines
def test_sockets_are_told_apart_by_what_the_kernel_reads(machine):
    """It reads 32 bits: the others hide nothing."""
    code, number = syscall_filter(machine), {"x86_64": 41}.get(machine, 198)
    for kind, (*words, expected) in SOCKETS.items():
        for high in (0, 1 << 32, 0xFFFFFFFF << 32):
            arguments = [high | word for word in words]
            assert judge(code, number, arguments, machine) == expected, kind


NAMESPACES = {
    "mount": 0x20000,
    "cgroup": 0x2000000,
    "uts": 0x4000000,
    "ipc": 0x8000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "time": 0x80,
}


@with_machines
def test_no_call_makes_a_new_namespace(machine):
    clone, unshare = {"x86_64": (56, 272)}.get(machine, (220, 97))
    code, thread, process = syscall_filter(machine), 0x3D0F00, 0x1200011
    assert judge(code, unshare, [0x400], machine) == ALLOW
    assert {judge(code, clone, [flags], machine) for flags in (thread, process)} == {ALLOW}
    for kind, bit in NAMESPACES.items():
        assert judge(code, unshare, [bit | 0x400], machine) == "EPERM", kind
        for flags in (thread, process):
            if kind != "time":
                assert judge(code, clone, [flags | bit], machine) == "EPERM", kind


@pytest.fixture(params=BACKENDS)
def run(request, tmp_path):
    """Run Python text in a sandbox, and return what it prints."""
    executor = NamespaceExecutor(backend=request.param)
    if executor.reason():
        pytest.skip(executor.reason())
    if not syscall_filter(os.uname().machine):
        pytest.skip("the numbers of the calls are not known")

    def run(text, *words, code=0):
        argv = (sys.executable, "-I", "-S", "-c", text, *words)
        env = {"PATH": os.defpath}
        program = Program(argv, tmp_path, tmp_path, env, b"", RunLimits(timeout=120.0))
        finished = executor.run(program)
        assert finished.exit_code == code, finished
        return finished.stdout.decode()

    return run


CALL = """if True:
    import ctypes, errno, json, os, sys
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    results = []
    for number, words in json.loads(sys.argv[1]):
        here = os.getpid()
        result = libc.syscall(*map(ctypes.c_long, (number, *words)))
        if os.getpid() != here:
            os._exit(0)
        results.append(errno.errorcode[ctypes.get_errno()] if result == -1 else "allow")
    print(json.dumps(results))
"""


def example(conditions):
    """Return arguments for which a line of the table holds."""
    words = [0] * 6
    for position, operator, values in conditions:
        first = int(values.split(",")[0], 0)
        words[int(position)] = (
            0x7FFF if operator == "not" else first & -first if operator == "any" else first
        )
    assert applies(conditions, words)
    return words


def test_the_kernel_refuses_each_line_of_the_table(run):
    lines = list(rules(os.uname().machine))
    calls = [(number, example(conditions)) for _, number, _, conditions in lines]
    results = json.loads(run(CALL, json.dumps(calls)))
    expected = [error for _, _, error, _ in lines]
    wrong = {
        line[0]: got
        for line, got, error in zip(lines, results, expected, strict=True)
        if got != error
    }
    assert wrong == {}
    later = [(number, [0] * 6) for number in (LATER, 600, X32 | 39, X32 | 250)]
    assert set(json.loads(run(CALL, json.dumps(later)))) == {"ENOSYS"}


def test_all_processes_of_a_run_are_filtered(run):
    text = """if True:
        import subprocess
        print(*(open(f"/proc/{pid}/status").read() for pid in ("1", "self")), flush=True)
        subprocess.run(["grep", "Seccomp:", "/proc/self/status"])
    """
    assert run(text).count("Seccomp:\t2\n") == 3


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="needs its older calls")
def test_calls_of_32_bits_end_the_program(run):
    """``int 0x80`` reaches the older table, where 250 and 288 mean something else."""
    text = """if True:
        import ctypes, mmap
        code = bytes.fromhex("b820010000cd80c3")  # mov eax, 288 (keyctl); int 0x80; ret
        page = mmap.mmap(-1, 4096, prot=7)
        page.write(code)
        print("before", flush=True)
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
        print("after")
    """
    assert run(text, code=128 + 31) == "before\n"


def test_what_tells_of_the_whole_machine_is_hidden(run):
    text = """if True:
        import json, sys
        def can_read(path):
            try:
                return len(open(path, "rb").read(1)) > 0
            except OSError:
                return False
        print(json.dumps([path for path in json.loads(sys.argv[1]) if can_read(path)]))
    """
    hidden = [
        f"/proc/{name}" for name in ("keys", "key-users", "kallsyms", "timer_list", "kpageflags")
    ]
    assert run(text, json.dumps(hidden)) == "[]\n"
    assert run(text, '["/proc/meminfo", "/proc/self/status"]').count("/") == 5


def test_where_there_is_no_filter_it_is_told_and_all_else_enclosed(monkeypatch, tmp_path):

    def is_admitted():
        return any(
            "not filtered" in text for text in NamespaceExecutor().capabilities().not_isolated
        )

    assert is_admitted() == (not syscall_filter(os.uname().machine))
    *rest, _ = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((*rest, "vax")))
    assert is_admitted()
    if reason := NamespaceExecutor().reason():
        pytest.skip(reason)
    program = Program(
        ("grep", "Seccomp:", "/proc/self/status"), tmp_path, tmp_path, {"PATH": os.defpath}
    )
    assert NamespaceExecutor().run(program).stdout == b"Seccomp:\t0\n"


def test_the_table_can_be_read():
    tables = read_tables(TABLE)
    lines = [line for line in TABLE.read_text().splitlines() if line and line[0] not in "#["]
    assert len(lines) == sum(map(len, tables.values())) == len({line.split()[0] for line in lines})
    assert all(tables.values())
