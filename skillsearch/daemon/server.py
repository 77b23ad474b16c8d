"""The daemon as a process: its lock, socket, connections and end.

``python -P -m skillsearch.daemon.server SECONDS`` detaches itself once it can answer. It
ends after SECONDS without a question, when asked to, on SIGTERM, when its socket is no longer its
own, and when the package is replaced.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import skillsearch
from skillsearch import errors
from skillsearch.daemon import client
from skillsearch.errors import DaemonError, SkillSearchError, answered
from skillsearch.files.private import make_private
from skillsearch.settings.environ import settle, use_one_blas_thread
from skillsearch.system_errors import machine_problem
from skillsearch.text.safe_text import one_line

if TYPE_CHECKING:
    from skillsearch.daemon.answers import Answers
    from skillsearch.types.json_values import JsonObject

MAX_CONNECTIONS = 64
MAX_LOG_BYTES = 1 << 16
FINAL = (errors.QueryError, errors.ConfigError, errors.IndexNotFoundError)
"""Errors that a client would meet without the daemon as well."""
PACKAGE = Path(skillsearch.__file__)
_SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
"""Errors of `accept` that leave the client waiting, so that trying again at once would spin."""

logger = logging.getLogger("skillsearch.daemon")


@dataclass(frozen=True, slots=True)
class DaemonLimits:
    """How much of a daemon its clients may hold, and how long."""

    connections: int = MAX_CONNECTIONS  # served side by side; more clients are turned away
    read_seconds: float = 2.0
    write_seconds: float = 5.0
    response_bytes: int = client.MAX_RESPONSE_BYTES
    tick_seconds: float = 1.0  # how often to look for a reason to end
    end_seconds: float = 5.0  # how long questions still being answered may delay the end


LIMITS = DaemonLimits()


class Daemon:
    """Serves a listening socket until there is a reason to end."""

    def __init__(
        self,
        listener: socket.socket,
        path: Path,
        idle: float,
        answers: Answers,
        package: Path = PACKAGE,
        limits: DaemonLimits = LIMITS,
    ) -> None:
        """Take a socket and its path, and after how many seconds without a question to end."""
        self.listener, self.path, self.idle, self.answers = listener, path, idle, answers
        self.package, self.limits = package, limits
        self._identities = _identity(path), _identity(package)
        self._free = threading.BoundedSemaphore(limits.connections)
        self._last_used = time.monotonic()
        self._woken, self._waker = socket.socketpair()
        self._asked_to_end = ""

    def close(self) -> None:
        """Close what `run` leaves open for late calls of `end`."""
        self._woken.close()
        self._waker.close()

    def end(self, reason: str) -> None:
        """Make `run` return soon; may be called from any thread or signal handler."""
        self._asked_to_end = reason
        self._waker.send(b"!")

    def run(self) -> str:
        """Serve, and return the reason for the end."""
        reason = ""
        while not reason:
            seconds_left = self._last_used + self.idle - time.monotonic()
            wait = min(self.limits.tick_seconds, max(0.0, seconds_left))
            if self.listener.fileno() in _readable([self.listener, self._woken], wait):
                self._accept()
            reason = self._reason_to_end()
        self.listener.close()
        if _identity(self.path) == self._identities[0]:
            self.path.unlink()
        deadline = time.monotonic() + self.limits.end_seconds
        for _ in range(self.limits.connections):  # until every connection is done
            self._free.acquire(timeout=max(0.0, deadline - time.monotonic()))
        return reason

    def _accept(self) -> None:
        """Begin to serve the next client; it is turned away if there is no room for it."""
        try:
            connection, _ = self.listener.accept()
        except OSError as exc:
            # The client is gone already; or files or memory are short, and it goes on waiting.
            if exc.errno in _SHORTAGES:
                logger.warning("no client can be served for now: %s", exc)
                _readable([self._woken], self.limits.tick_seconds)
            return
        if not self._free.acquire(blocking=False):
            connection.close()
            return
        try:
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()
        except RuntimeError as exc:  # There are no more threads, or no memory for one.
            logger.warning("the others wait for this answer: %s", exc)
            self._serve(connection)

    def _reason_to_end(self) -> str:
        socket_file, package = self._identities
        if self._asked_to_end:
            return self._asked_to_end
        if _identity(self.path) != socket_file:
            return "the socket was replaced"
        if _identity(self.package) != package:
            return "the package was replaced"
        return "idle" if time.monotonic() - self._last_used >= self.idle else ""

    def _serve(self, connection: socket.socket) -> None:
        """Answer one client; whatever it does, others are served."""
        try:
            with connection:
                client.peer_of(connection)
                response = self._response(connection)
                connection.settimeout(self.limits.write_seconds)
                connection.sendall(response)
        except (OSError, DaemonError) as exc:
            logger.info("a client was dropped: %s", exc)
        finally:
            self._free.release()

    def _response(self, connection: socket.socket) -> bytes:
        deadline = time.monotonic() + self.limits.read_seconds

        def answer() -> bytes:
            request = client.receive(connection, client.MAX_REQUEST_BYTES, deadline)
            response = client.message({"result": self._result(request)})
            most = self.limits.response_bytes
            if len(response) > most:
                raise DaemonError(f"The answer is longer than {most:,} bytes; ask for fewer hits.")
            return response

        return answered(answer, _failure)

    def _result(self, request: JsonObject) -> Mapping[str, object]:
        method, arguments = request.get("method"), request.get("arguments")
        if method == "status":
            return self.answers.status()
        if method == "stop":
            self.end("it was asked to")
            return {"pid": os.getpid()}
        if request.get("version") != self.answers.version:
            raise DaemonError(f"The daemon has version {self.answers.version}; {client.TO_STOP}")
        if method not in ("search", "overview") or not isinstance(arguments, dict):
            raise DaemonError(
                f"There is no method {str(method)[:80]!r} of such arguments; there are search, "
                "overview, status and stop."
            )
        self._last_used = time.monotonic()
        answer = self.answers.search if method == "search" else self.answers.overview
        try:
            return answer(arguments)
        finally:
            self._last_used = time.monotonic()


def _failure(error: Exception) -> bytes:
    """Return the answer about what went wrong: one bad answer must not end the daemon."""
    if isinstance(error, OSError):
        raise error
    text, is_final = str(error), isinstance(error, FINAL)
    if not isinstance(error, SkillSearchError):
        logger.exception("an answer failed")
        text = f"{type(error).__name__}: {error}"
    return client.message({"error": {"message": text, "final": is_final}})


def listen(folder: Path) -> tuple[socket.socket, int] | None:
    """Return a listening socket and a lock to keep open as long; None if there is a daemon.

    A DaemonError if the path of the socket is too long.
    """
    path = client.socket_path()
    if len(os.fsencode(path)) > client.MAX_PATH_BYTES:
        raise DaemonError(
            f"{path} is too long for a socket ({client.MAX_PATH_BYTES} bytes); "
            "set XDG_RUNTIME_DIR to a folder of yours with a shorter path."
        )
    make_private(folder)
    client.check_private(str(folder), is_folder=True)
    lock = os.open(client.lock_path(), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    # We hold the lock, so any socket here was left by a daemon that was killed.
    Path(path).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    Path(path).chmod(0o600)
    listener.listen(MAX_CONNECTIONS)
    listener.setblocking(False)
    return listener, lock


def main() -> None:
    """Start the daemon in the background unless one runs; exit once it can answer."""
    settle()
    os.umask(0o077)
    folder = Path(client.socket_path()).parent
    try:
        taken = listen(folder)
    except DaemonError as exc:
        sys.exit(one_line(str(exc)))
    except OSError as exc:
        sys.exit(one_line(machine_problem(exc)))
    if taken is None:
        os._exit(0)
    ready, told = os.pipe()
    if os.fork():
        os.close(told)
        os._exit(not os.read(ready, 1))  # nothing: it has ended, and said why
    daemon = answered(partial(_prepare, taken[0], folder), _give_up)
    os.dup2(1, 2)
    with suppress(OSError):  # whoever waited for it may be gone
        os.write(told, b"!")
    logger.info("serving version %s, until idle for %g s", skillsearch.__version__, daemon.idle)
    logger.info("ending: %s", daemon.run())
    os._exit(0)  # without waiting for what is being indexed


def _give_up(error: Exception) -> NoReturn:
    """End, and say why nothing can be answered."""
    Path(client.socket_path()).unlink(missing_ok=True)
    reason = machine_problem(error) or f"{type(error).__name__}: {error}"
    with suppress(MemoryError):  # even for this it may be too short
        logger.critical("the daemon cannot start", exc_info=error)
        reason = one_line(reason)
    sys.exit(reason)


def _prepare(listener: socket.socket, folder: Path) -> Daemon:
    """Leave all of our parent but stderr, and load what answers."""
    # The system names whoever listened last to clients: not our parent, which is gone.
    listener.listen(MAX_CONNECTIONS)
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(2):
        os.dup2(null, stream)
    handler = RotatingFileHandler(
        folder / "daemon.log", maxBytes=MAX_LOG_BYTES, backupCount=1, encoding="utf-8"
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(message)s"))
    package_logger = logging.getLogger("skillsearch")
    package_logger.addHandler(handler)
    package_logger.setLevel(logging.INFO)
    sys.excepthook = lambda *error: logger.critical("the daemon failed", exc_info=error)
    use_one_blas_thread()
    # Clients may already be waiting while we import.
    from skillsearch.daemon.answers import Answers

    daemon = Daemon(listener, Path(client.socket_path()), float(sys.argv[1]), Answers())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: daemon.end(signal.Signals(number).name))
    return daemon


def _readable(sockets: Iterable[socket.socket], seconds: float) -> set[int]:
    """Wait for some time, and return the file descriptors of the sockets that can be read.

    ``select.select`` takes no descriptor from 1,024 on, which a process with many indexes has.
    """
    poll = select.poll()
    for each in sockets:
        poll.register(each, select.POLLIN)
    return {handle for handle, _ in poll.poll(seconds * 1000)}


def _identity(path: Path) -> tuple[int, int, int] | None:
    """Return the identity of a file, which a replacement changes; None if there is none."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


if __name__ == "__main__":
    main()
