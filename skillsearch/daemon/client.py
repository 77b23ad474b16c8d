"""Ask the daemon, and start it. Imports the standard library only, and little of it."""

from __future__ import annotations

import sys
import time

from skillsearch.daemon import place, protocol
from skillsearch.errors import DaemonError

TYPE_CHECKING = False  # `typing` would cost every prompt some milliseconds
if TYPE_CHECKING:
    from socket import socket

    from skillsearch.types import JsonValue

QUERY_SECONDS = 5.0
"""How long ``query`` waits: about what it takes the daemon to index the few files it may."""
START_SECONDS = 5.0


def ask(method: str, *, seconds: float, **arguments: JsonValue) -> dict[str, JsonValue] | None:
    """Ask the daemon that runs.

    Args:
        method: What is asked: ``search``, ``overview``, ``status`` or ``stop``.
        seconds: How long to wait for the answer.
        **arguments: What `skillsearch.daemon.answers` takes for that method.

    Returns:
        The result; None where no daemon runs, which costs one look at the disk.

    Raises:
        DaemonError: When it does not answer in time, cannot answer, or is not to be trusted.
    """
    deadline = time.monotonic() + seconds
    try:
        connection = _connect(seconds)
        if connection is None:
            return None
        with connection:
            connection.sendall(protocol.message(method=method, arguments=arguments))
            response = protocol.receive(connection, protocol.MAX_RESPONSE_BYTES, deadline)
    except OSError as exc:
        raise DaemonError(f"The daemon does not answer: {exc}") from exc
    return protocol.result_of(response)


def start(*, idle: float = protocol.IDLE_SECONDS, seconds: float = START_SECONDS) -> None:
    """Start a daemon, unless one runs; it can be asked as soon as this returns.

    Args:
        idle: Seconds without a question after which it ends.
        seconds: How long to wait for it.

    Raises:
        DaemonError: When it cannot be started.
    """
    import subprocess

    if not place.SUPPORTED:
        raise DaemonError("This system has no Unix sockets, so there is no daemon.")
    # -P and the root folder: nothing in the working folder may be imported in our place.
    command = [sys.executable, "-P", "-m", "skillsearch.daemon", str(idle)]
    try:
        run = subprocess.run(
            command,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise DaemonError(f"The daemon cannot be started: {exc}") from exc
    if run.returncode:
        lines = run.stderr.decode(errors="replace").split("\n")
        reason = next((line for line in reversed(lines) if line.strip()), "it says nothing")
        raise DaemonError(f"The daemon cannot be started: {reason}")


def _connect(seconds: float) -> socket | None:
    """Connect to the daemon; None where there is none, or only what is left of one."""
    path = place.socket_path()
    try:
        place.check_socket(path)
        place.check_folder(path.rpartition("/")[0])
    except (FileNotFoundError, NotADirectoryError):
        return None
    import socket

    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(max(seconds, 0.001))  # 0 would mean not to wait at all
        connection.connect(path)
        place.peer_of(connection)
    except (ConnectionRefusedError, FileNotFoundError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection
