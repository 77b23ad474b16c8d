"""The daemon as a process: its lock, socket, connections and end.

``python -P -m skillsearch.daemon SECONDS`` detaches itself once it can be connected to. It ends
after SECONDS without a question, when asked to, on SIGTERM, when its socket is no longer its own,
and when the package is replaced.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING

import skillsearch
from skillsearch.daemon import place, protocol
from skillsearch.environ import use_one_blas_thread
from skillsearch.errors import (
    ConfigError,
    DaemonError,
    IndexNotFoundError,
    QueryError,
    SkillSearchError,
)
from skillsearch.text.safe_text import one_line

if TYPE_CHECKING:
    from skillsearch.daemon.answers import Answers
    from skillsearch.types import JsonValue

READ_SECONDS = 2.0
"""How long a client may take for its request."""
WRITE_SECONDS = 5.0
"""How long a client may take to read the response."""
MAX_CONNECTIONS = 64
"""Clients served side by side; another one is turned away and does without."""
TICK_SECONDS = 1.0
END_SECONDS = 5.0
"""How long questions that are being answered may keep a daemon that ends."""
MAX_LOG_BYTES = 1 << 16
FINAL = (QueryError, ConfigError, IndexNotFoundError)
"""What would go wrong without the daemon as well."""

logger = logging.getLogger(__name__)


class Daemon:
    """Serves one socket until there is a reason to end."""

    def __init__(self, listener: socket.socket, path: Path, idle: float, answers: Answers) -> None:
        """Take a listening socket.

        Args:
            listener: The socket.
            path: Where it lies.
            idle: Seconds without a question after which to end.
            answers: What answers.
        """
        self._listener = listener
        self._path = path
        self._idle = idle
        self._answers = answers
        self._own = _identity(path)
        self._package = _identity(Path(skillsearch.__file__))
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._last_used = time.monotonic()
        self._woken, self._waker = socket.socketpair()
        self._asked_to_end = ""

    def close(self) -> None:
        """Close what `run` leaves open for those who still call `end`."""
        self._woken.close()
        self._waker.close()

    def end(self, reason: str) -> None:
        """Have `run` return soon; can be called by a thread or a signal handler."""
        self._asked_to_end = reason
        self._waker.send(b"!")

    def run(self) -> str:
        """Serve.

        Returns:
            Why it ends.
        """
        reason = ""
        while not reason:
            wait = min(TICK_SECONDS, max(0.0, self._last_used + self._idle - time.monotonic()))
            ready, _, _ = select.select([self._listener, self._woken], [], [], wait)
            if self._listener in ready:
                self._accept()
            reason = self._reason_to_end()
        self._listener.close()
        if _identity(self._path) == self._own:
            self._path.unlink()
        deadline = time.monotonic() + END_SECONDS
        for _ in range(MAX_CONNECTIONS):  # Until no connection holds its place any more.
            self._free.acquire(timeout=max(0.0, deadline - time.monotonic()))
        return reason

    def _reason_to_end(self) -> str:
        """Say why to end now; empty where there is no reason."""
        if self._asked_to_end:
            return self._asked_to_end
        if _identity(self._path) != self._own:
            return "the socket was replaced"
        if _identity(Path(skillsearch.__file__)) != self._package:
            return "the package was replaced"
        return "idle" if time.monotonic() - self._last_used >= self._idle else ""

    def _accept(self) -> None:
        """Give a client a thread, or turn it away."""
        with contextlib.suppress(OSError):  # It is gone already.
            connection, _ = self._listener.accept()
            if not self._free.acquire(blocking=False):
                connection.close()
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Answer one client; whatever it does, it hurts nobody else."""
        try:
            with connection:
                place.peer_of(connection)
                response = self._response(connection)
                connection.settimeout(WRITE_SECONDS)
                connection.sendall(response)
            self._answers.catch_up()
        except (OSError, DaemonError) as exc:
            logger.info("a client was left: %s", exc)
        finally:
            self._free.release()

    def _response(self, connection: socket.socket) -> bytes:
        """Read a request and answer it."""
        try:
            deadline = time.monotonic() + READ_SECONDS
            request = protocol.receive(connection, protocol.MAX_REQUEST_BYTES, deadline)
            response = protocol.message(result=self._result(request))
            if len(response) <= protocol.MAX_RESPONSE_BYTES:
                return response
            raise DaemonError(f"The answer is longer than {protocol.MAX_RESPONSE_BYTES:,} bytes.")
        except SkillSearchError as exc:
            is_final = isinstance(exc, FINAL)
            return protocol.message(error={"message": str(exc), "final": is_final})
        except OSError:
            raise
        except Exception as exc:  # One bad answer must not end the daemon.
            logger.exception("an answer failed")
            text = f"{type(exc).__name__}: {exc}"
            return protocol.message(error={"message": text, "final": False})

    def _result(self, request: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Answer a request."""
        method, arguments = request.get("method"), request.get("arguments")
        if method == "status":
            return self._answers.status()
        if method == "stop":
            self.end("it was asked to")
            return {"pid": os.getpid()}
        if request.get("version") != skillsearch.__version__:
            raise DaemonError(f"The daemon is of version {skillsearch.__version__}.")
        if method not in ("search", "overview") or not isinstance(arguments, dict):
            raise DaemonError("There is no such method.")
        self._last_used = time.monotonic()
        answer = self._answers.search if method == "search" else self._answers.overview
        try:
            return answer(arguments)
        finally:
            self._last_used = time.monotonic()


def listen(folder: Path) -> tuple[socket.socket, int] | None:
    """Become the daemon of a user.

    Args:
        folder: The folder for socket, lock and log; made where it is missing.

    Returns:
        The listening socket, and the lock that has to stay open as long as it; None where another
        daemon has the lock.

    Raises:
        DaemonError: When the folder is not for us alone, or the socket's path too long.
        OSError: When one of them cannot be made.
    """
    path = place.socket_path()
    if len(os.fsencode(path)) > place.MAX_PATH_BYTES:
        raise DaemonError(
            f"{path} is too long for a socket ({place.MAX_PATH_BYTES} bytes); "
            "set XDG_RUNTIME_DIR to a folder of your own with a shorter path."
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    place.check_folder(str(folder))
    lock = os.open(folder / "daemon.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    # With the lock in hand, a socket is what is left of a daemon that was killed.
    Path(path).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    Path(path).chmod(0o600)
    listener.listen(MAX_CONNECTIONS)
    listener.setblocking(False)
    return listener, lock


def main() -> None:
    """Start the daemon in the background, unless one runs; exit once it can be connected to."""
    os.umask(0o077)
    folder = Path(place.socket_path()).parent
    try:
        taken = listen(folder)
    except (DaemonError, OSError) as exc:
        sys.exit(one_line(str(exc)))
    if taken is None or os.fork():
        os._exit(0)
    _detach()
    _log_to(folder / "daemon.log")
    try:
        _run(taken[0], float(sys.argv[1]))
    except Exception:
        logger.exception("the daemon failed")
        raise


def _detach() -> None:
    """Leave the session, folder and streams of whoever started us."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)


def _log_to(path: Path) -> None:
    """Log into a file that stays small."""
    handler = RotatingFileHandler(path, maxBytes=MAX_LOG_BYTES, backupCount=1, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(message)s"))
    logging.getLogger("skillsearch").addHandler(handler)
    logging.getLogger("skillsearch").setLevel(logging.INFO)


def _run(listener: socket.socket, idle: float) -> None:
    """Serve until there is a reason to end; clients already wait while we import."""
    use_one_blas_thread()
    from skillsearch.daemon.answers import Answers

    daemon = Daemon(listener, Path(place.socket_path()), idle, Answers())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda given, _frame: daemon.end(signal.Signals(given).name))
    logger.info("version %s serves, ends when idle for %g s", skillsearch.__version__, idle)
    logger.info("ends: %s", daemon.run())


def _identity(path: Path) -> tuple[int, int, int] | None:
    """Return what tells a file from another of its name; None where there is none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns
