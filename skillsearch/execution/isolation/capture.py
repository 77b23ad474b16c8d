"""Runs one program to its end under supervision, and captures its bounded output as text."""

from __future__ import annotations

import codecs
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import IO, cast

from skillsearch.errors import ExecutorError, explained
from skillsearch.execution.types import Finished, Program
from skillsearch.text.safe_text import counted, visible

SUPERVISOR = Path(__file__).with_name("supervise.py")
CHUNK = 64 << 10
LATE = 10.0  # seconds that the supervisor has to start and, after a timeout, to end everything
LAST_STEPS = 64
"""Reads of what is left in the pipes when all has ended: a stranger may hold them open."""

_FAILED = {
    "folder": "The folder {folder} cannot be entered",
    "program": "The program {name!r} cannot be started",
    "supervisor": "The program {name!r} cannot be supervised",
}
_REASONS = {
    "time": "It timed out after {limits.timeout:g} s; everything it had started was ended.",
    "processes": "It had more than {limits.processes} processes at once; all were ended.",
    "memory": "It had more than {limits.memory_bytes:,} bytes of memory; parts of it were ended.",
    "outer": "One of its two supervisors was killed; everything it had started was ended.",
    "lost": "Its supervisor was killed or stopped; how the program itself ended is unknown.",
}
_LEFT = "Processes that it left running were ended: {killed}."
_CONTINUATION = bytes(range(0x80, 0xC0))
STOP: ContextVar[threading.Event | None] = ContextVar("stop", default=None)
"""Set to cancel the runs in this context."""
_STOP_SECONDS = 0.1  # between two looks at it


class Kept:
    """The beginning and the end of a stream of bytes, in bounded memory."""

    def __init__(self, limit: int) -> None:
        """Keep at most `limit` bytes: half of them from the beginning, the rest from the end."""
        self._limit = limit
        self._data = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self._data += data
        if len(self._data) > 2 * self._limit + CHUNK:
            self.result()

    def result(self) -> tuple[bytes, int]:
        """Return the bytes to keep, and how many were dropped from their middle."""
        surplus, middle = max(len(self._data) - self._limit, 0), self._limit // 2
        del self._data[middle : middle + surplus]
        self._dropped += surplus
        return bytes(self._data), self._dropped


def stream_text(data: bytes, dropped: int) -> str:
    """Return output from `Kept` as text that is safe to show; a line counts the missing bytes."""
    if not dropped:
        return visible_text(data)
    middle = len(data) // 2
    head, tail = whole_characters(data[:middle]), data[middle:]
    tail = tail[:3].lstrip(_CONTINUATION) + tail[3:]  # from the first whole character on
    left_out = dropped + len(data) - len(head) - len(tail)
    gap = f"[... {counted(left_out, 'byte')} left out ...]"
    return f"{visible_text(head)}\n{gap}\n{visible_text(tail)}"


def visible_text(data: bytes) -> str:
    """Return bytes as text without what a terminal would obey or a reader not see."""
    return visible(data.decode("utf-8", "replace"))


def whole_characters(data: bytes) -> bytes:
    """Return the beginning of a UTF-8 text without a character that was cut at its end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return data.removesuffix(decoder.getstate()[0])


def unsupervised_reason() -> str:
    """Return why no program can be supervised on this system; empty if one can."""
    on_linux = sys.platform == "linux"
    return "" if on_linux else "Commands of skills run on Linux only; use a Linux machine."


def run_supervised(
    argv: Sequence[str], program: Program, *, limited: bool = True, descriptors: Sequence[int] = ()
) -> Finished:
    """Run a program to its end, leaving nothing that it started; see `Kept` for its output.

    `argv` is started for it, such as a command that encloses it; it inherits `descriptors` besides
    its streams. If it has the program run elsewhere and is not `limited`, only time and output are.
    Raises an `ExecutorError` if no supervisor can be started. `LATE` bounds how long it may take.
    """
    if reason := unsupervised_reason():
        raise ExecutorError(reason)
    limits = program.limits
    sizes = (limits.processes, limits.open_files, limits.file_bytes, limits.memory_bytes)
    streams = (Kept(limits.output_bytes), Kept(limits.output_bytes))
    try:
        orders = _orders(argv, program)
        limited_to = (limits.timeout, *(size if limited else 0 for size in sizes))
        control, theirs = socket.socketpair()
        with control:
            with theirs:
                numbers = (theirs.fileno(), len(orders), len(argv), *limited_to)
                process = _start(numbers, descriptors, has_input=bool(program.stdin))
            with process:  # closes the pipes that are left
                try:
                    control.settimeout(LATE)
                    with suppress(OSError):  # it has ended already, and its report tells why
                        control.sendall(orders)
                    report = _exchange(process, control, program, streams)
                finally:
                    control.close()  # ends whatever still runs
                    try:
                        process.wait(LATE)
                    except subprocess.TimeoutExpired:
                        process.kill()
        return _finished(argv[0], program, report.decode(), streams)
    except ValueError as error:
        return _not_started(f"The program cannot be started: {error}.")


def _orders(argv: Sequence[str], program: Program) -> bytes:
    """Return the supervisor's orders, or raise ValueError if no program can get these."""
    if not argv or not argv[0]:
        raise ValueError("it has no name")
    if unusable := [name for name in program.env if not name or "=" in name]:
        raise ValueError(f"no variable can be named {unusable[0]!r}")
    variables = [f"{name}={value}" for name, value in program.env.items()]
    fields = [os.fsencode(field) for field in (str(program.cwd), *argv, *variables)]
    if any(b"\0" in field for field in fields):
        raise ValueError("an argument or a variable holds a NUL")
    return b"\0".join(fields)


def _start(
    numbers: tuple[float, ...], descriptors: Sequence[int], *, has_input: bool
) -> subprocess.Popen[bytes]:
    """Start the supervisor without our environment, controlled by the first number's descriptor."""
    with explained(ExecutorError, f"No supervisor can be started by {sys.executable!r}: %s."):
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(SUPERVISOR), *map(str, numbers)],
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd="/",
            env={},
            pass_fds=(int(numbers[0]), *descriptors),
            start_new_session=True,
        )


def _exchange(
    process: subprocess.Popen[bytes],
    control: socket.socket,
    program: Program,
    streams: tuple[Kept, Kept],
) -> bytes:
    """Give the program its input and take its output until the supervisor reports, or is gone."""
    report = bytearray()
    stop = STOP.get() or threading.Event()
    sources = cast("tuple[IO[bytes], ...]", (process.stdout, process.stderr, control))
    takers = (streams[0].add, streams[1].add, report.extend)
    with selectors.PollSelector() as selector:

        def is_over(seconds: float) -> bool:
            """Read and write until it is over, timed out or stopped."""
            deadline = time.monotonic() + seconds
            while True:
                done = b"ended" in report or control.fileno() < 0
                left = deadline - time.monotonic()
                if done or left <= 0 or stop.is_set():
                    return done
                _step(selector, min(left, _STOP_SECONDS))

        for source, take in zip(sources, takers, strict=True):
            os.set_blocking(source.fileno(), False)
            selector.register(source, selectors.EVENT_READ, partial(_read, take=take))
        if process.stdin:
            os.set_blocking(process.stdin.fileno(), False)
            write = partial(_write, rest=bytearray(program.stdin))
            selector.register(process.stdin, selectors.EVENT_WRITE, write)
        if not is_over(program.limits.timeout + LATE) and not stop.is_set():
            process.kill()  # the outer one; the inner one then wakes and ends everything
            is_over(LATE)
        for _ in range(LAST_STEPS):
            if not _step(selector, 0):
                break
    return bytes(report)


def _step(selector: selectors.BaseSelector, seconds: float) -> bool:
    """Wait until something can be read or written, do so, and return whether there was any."""
    ready = selector.select(seconds)
    for key, _ in ready:
        try:
            goes_on = key.data(key.fd)
        except BlockingIOError:  # a program can read the pipe that it writes to
            continue
        except (BrokenPipeError, ConnectionResetError):  # nobody reads, or has read the orders
            goes_on = False
        if not goes_on:
            selector.unregister(key.fileobj)
            cast("IO[bytes]", key.fileobj).close()
    return bool(ready)


def _read(fd: int, take: Callable[[bytes], None]) -> bool:
    data = os.read(fd, CHUNK)
    take(data)
    return bool(data)


def _write(fd: int, rest: bytearray) -> bool:
    del rest[: os.write(fd, rest[:CHUNK])]
    return bool(rest)


def _finished(name: str, program: Program, report: str, streams: tuple[Kept, Kept]) -> Finished:
    lines = {words[0]: words[1:] for words in map(str.split, report.splitlines())}
    if "failed" in lines:
        what, number = lines["failed"]
        text = _FAILED[what].format(name=name, folder=str(program.cwd))
        return _not_started(f"{text}: {os.strerror(int(number))}.")
    word, reason, killed, milliseconds = lines.get("ended", ("-9", "lost", "0", "0"))
    code = int(word)
    (stdout, stdout_dropped), (stderr, stderr_dropped) = (stream.result() for stream in streams)
    problem = _REASONS.get(reason) or (_LEFT if int(killed) else "")
    return Finished(
        stdout,
        stderr,
        stdout_dropped,
        stderr_dropped,
        exit_code=code if code >= 0 else 128 - code,
        timed_out=reason == "time",
        duration_ms=int(milliseconds),
        problems=(problem.format(limits=program.limits, killed=killed),) if problem else (),
    )


def _not_started(why: str) -> Finished:
    return Finished(
        stdout=b"",
        stderr=f"{why}\n".encode(errors="replace"),
        stdout_dropped=0,
        stderr_dropped=0,
        exit_code=-1,
        timed_out=False,
        duration_ms=0,
    )
