"""How to ask the daemon and start it: where both sides meet, whom they trust, and their messages.

They meet at a socket in a folder, both of which must belong to the user alone. Both sides check
both and ask the system who is at the other end, so links and anything another user put there
beforehand are refused.

A message is one JSON object on one line, a connection one question. A request is ``{"protocol",
"version", "method", "arguments"}``, a response ``{"protocol", "version"}`` with either ``"result"``
or ``"error": {"message", "final"}``. JSON escapes keep every message ASCII.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time

from skillsearch._version import __version__
from skillsearch.errors import DaemonError
from skillsearch.settings.environ import runtime_dir
from skillsearch.system_errors import reason_of

TYPE_CHECKING = False  # importing `typing` would cost every prompt some milliseconds
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from socket import socket
    from typing import Any

    from skillsearch.daemon.questions import Method, OverviewQuestion, SearchQuestion
    from skillsearch.index.search.options import SearchOptions
    from skillsearch.types.answers import Hit, QueryAnswer
    from skillsearch.types.json_values import JsonObject

QUERY_SECONDS = 5.0
"""How long ``query`` waits: about as long as the daemon may spend on indexing a few files."""
START_SECONDS = 10.0
SUPPORTED = hasattr(os, "fork") and hasattr(os, "getuid")
"""Whether this system can run a daemon; Windows cannot."""
MAX_PATH_BYTES = 103
"""The longest address of a Unix socket: 104 bytes on macOS, 108 on Linux, one of them a NUL."""
PROTOCOL = 7
"""Bump when the form of a message changes, so that releases do not misunderstand each other."""
IDLE_SECONDS = 900.0  # the daemon ends after this long without a question
MAX_REQUEST_BYTES = 1 << 20  # the longest query has 65,536 characters, each up to 12 bytes as JSON
MAX_RESPONSE_BYTES = 64 << 20  # a thousand explained hits stay far below it
_BLOCK = 1 << 16
TO_STOP = "to stop it: skillsearch daemon stop"
_TURN_OFF = "to do without it: SKILLSEARCH_DAEMON=off"


def ask(
    method: Method, question: SearchQuestion | OverviewQuestion | None = None, *, seconds: float
) -> JsonObject | None:
    """Ask the running daemon and return its answer; None if none runs.

    ``search`` and ``overview`` take a question of their own type, the other methods none. A daemon
    that cannot be trusted, cannot answer or does not answer within `seconds` raises
    `DaemonError`.
    """
    deadline = time.monotonic() + seconds
    path, process = socket_path(), None
    try:
        check_private(path, is_folder=False)
        check_private(path.rpartition("/")[0], is_folder=True)
        import socket

        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(max(seconds, 0.001))  # 0 would make it non-blocking
            connection.connect(path)
            process = peer_of(connection)
            connection.sendall(message({"method": method, "arguments": question}))
            response = receive(connection, MAX_RESPONSE_BYTES, deadline, _to_end(process))
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        return None  # no daemon, or only the remains of one
    except OSError as exc:
        raise DaemonError(f"The daemon does not answer: {exc}; {_to_end(process)}") from exc
    return result_of(response, _to_end(process))


def open_indexes() -> list[str]:
    """Return the folders of the indexes that the daemon has open; none if it does not answer."""
    from skillsearch.types.json_values import objects_of, text_of

    try:
        status = ask("status", seconds=QUERY_SECONDS)
    except DaemonError:
        return []  # it is shutting down, or has another version
    return (
        [text_of(index["index_dir"]) for index in objects_of(status["indexes"])] if status else []
    )


def _to_end(process: int | None) -> str:
    """Say how to do without a daemon that does not understand us, not even when told to stop.

    A process that was halted heeds no other signal.
    """
    return f"to end it: kill -9 {process}" if process else _TURN_OFF


def search_question(
    query: str, index_dir: Path, options: SearchOptions, *, refresh: bool = False, usage: str = ""
) -> SearchQuestion:
    """Return the question of ``search``, as JSON has it."""
    from dataclasses import asdict

    return {
        "query": query,
        "index_dir": str(index_dir),
        "refresh": refresh,
        "usage": usage,
        "options": json.loads(json.dumps(asdict(options))),
    }


def read_search(answer: Mapping[str, Any]) -> QueryAnswer:
    """Read an answer to ``search``; a DaemonError if it has an unknown form."""
    from skillsearch.types.answers import QueryAnswer, SearchResult

    try:
        record = dict(answer["result"])
        hits, perhaps = (tuple(map(_read_hit, record.pop(key))) for key in ("hits", "perhaps"))
        result = SearchResult(hits=hits, perhaps=perhaps, **record)
        nearest, notes = (tuple(map(str, answer[key])) for key in ("nearest", "notes"))
        return QueryAnswer(result, nearest, notes)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise DaemonError(f"The daemon's answer has an unknown form: {exc}; {TO_STOP}") from exc


def _read_hit(values: Mapping[str, Any]) -> Hit:
    from skillsearch.types.answers import Explanation, Family, Hit, Relative

    explain = values.get("explain")
    if explain is not None:
        terms = {field: tuple(some) for field, some in explain["matched_terms"].items()}
        explain = Explanation(**{**explain, "matched_terms": terms})
    family = values.get("family")
    if family is not None:
        members = ({**member, "differs": tuple(member["differs"])} for member in family["members"])
        family = Family(**{**family, "members": tuple(Relative(**member) for member in members)})
    more = {"duplicates": tuple(values["duplicates"]), "explain": explain, "family": family}
    return Hit(**{**values, **more})


def start(*, idle: float = IDLE_SECONDS, seconds: float = START_SECONDS) -> None:
    """Start a daemon unless one runs; it can be asked as soon as this returns.

    It ends after `idle` seconds without a question. If it does not start within `seconds`,
    `DaemonError` is raised.
    """
    import subprocess

    if not SUPPORTED:
        raise DaemonError(
            "This system has no Unix sockets, so no daemon; commands answer by themselves."
        )
    try:
        # -P and the root folder: nothing in the working folder may be imported instead of us.
        run = subprocess.run(
            [sys.executable, "-P", "-m", "skillsearch.daemon.server", str(idle)],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise DaemonError(f"The daemon cannot be started: {reason_of(exc)}; {_TURN_OFF}") from exc
    if run.returncode:
        lines = run.stderr.decode(errors="replace").split("\n")
        reason = next((line for line in reversed(lines) if line.strip()), "it said nothing")
        raise DaemonError(f"The daemon cannot be started: {reason}; {_TURN_OFF}")


def socket_path() -> str:
    """Return the path of the daemon's socket, whether or not it exists."""
    return f"{runtime_dir()}/daemon.sock"


def lock_path() -> str:
    """Return the path of the file that a daemon has locked until its process is gone."""
    return f"{runtime_dir()}/daemon.lock"


def check_private(path: str, *, is_folder: bool) -> None:
    """Raise `DaemonError` unless a path is a folder, or a socket, that only this user can enter."""
    status = os.lstat(path)
    is_kind = stat.S_ISDIR if is_folder else stat.S_ISSOCK
    if not is_kind(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise DaemonError(
            f"{path} is {stat.filemode(status.st_mode)} of user {status.st_uid}, not private to "
            "you; remove it, or turn the daemon off: SKILLSEARCH_DAEMON=off"
        )


def peer_of(connection: socket) -> int | None:
    """Return the process at the other end, if the system tells.

    A DaemonError if the process belongs to another user.
    """
    import socket
    import struct

    if not hasattr(socket, "SO_PEERCRED"):
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    process, user, _ = struct.unpack("3i", credentials)
    if user != os.geteuid():
        raise DaemonError(
            f"Process {process} at the daemon's socket belongs to user {user}; {_TURN_OFF}"
        )
    return int(process)


def message(content: Mapping[str, object]) -> bytes:
    """Encode a message of this version."""
    record = {"protocol": PROTOCOL, "version": __version__, **content}
    return json.dumps(record).encode("ascii") + b"\n"


def receive(connection: socket, limit: int, deadline: float, step: str = _TURN_OFF) -> JsonObject:
    """Read one message of at most `limit` bytes; its content is not checked.

    The deadline is a time of the monotonic clock. An `OSError` means that the connection broke or
    the deadline passed, a `DaemonError` that the message is too long or not one of ours; `step` is
    what to do about that.
    """
    data = bytearray()
    while b"\n" not in data[-_BLOCK:]:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("timed out waiting for a whole message")
        connection.settimeout(remaining)
        block = connection.recv(_BLOCK)
        if not block:
            raise DaemonError("The connection ended in the middle of a message; ask again.")
        data += block
        if len(data) > limit:
            raise DaemonError(f"A message is longer than {limit:,} bytes; ask for less.")
    try:
        content = json.loads(data.partition(b"\n")[0])
    except (ValueError, RecursionError) as exc:
        raise DaemonError(f"A message is not JSON: {str(exc)[:200]}; {step}") from exc
    if not isinstance(content, dict) or content.get("protocol") != PROTOCOL:
        raise DaemonError(
            f"A message is not of protocol {PROTOCOL}, but of another release; {step}"
        )
    return content


def result_of(response: JsonObject, step: str = _TURN_OFF) -> JsonObject:
    """Return the result in a response; raise the `DaemonError` that it holds instead.

    If it holds neither, `step` is what to do about that.
    """
    result, error = response.get("result"), response.get("error")
    if isinstance(result, dict):
        return result
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        raise DaemonError(error["message"], is_final=error.get("final") is True)
    raise DaemonError(f"The daemon's answer cannot be read; {step}")
