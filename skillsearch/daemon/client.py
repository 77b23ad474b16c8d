"""Ask the daemon, and start it. Imports little but the standard library, and not much of that."""

from __future__ import annotations

import sys
import time

from skillsearch.daemon import protocol
from skillsearch.errors import DaemonError

TYPE_CHECKING = False  # importing `typing` would cost every prompt some milliseconds
if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillsearch.types import JsonValue, SearchResult

QUERY_SECONDS = 5.0
"""How long ``query`` waits: about as long as the daemon may spend on indexing a few files."""
START_SECONDS = 5.0


def ask(method: str, *, seconds: float, **arguments: JsonValue) -> dict[str, JsonValue] | None:
    """Ask the running daemon and return its answer; None if none runs.

    The methods are ``search``, ``overview``, ``status`` and ``stop``, with the arguments of
    `skillsearch.daemon.answers.Answers`. A daemon that cannot be trusted, cannot answer or does
    not answer within so many seconds raises `DaemonError`.
    """
    deadline = time.monotonic() + seconds
    path = protocol.socket_path()
    try:
        protocol.check_private(path, is_folder=False)
        protocol.check_private(path.rpartition("/")[0], is_folder=True)
        import socket

        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(max(seconds, 0.001))  # 0 would make it non-blocking
            connection.connect(path)
            protocol.peer_of(connection)
            connection.sendall(protocol.message(method=method, arguments=arguments))
            response = protocol.receive(connection, protocol.MAX_RESPONSE_BYTES, deadline)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        return None  # no daemon, or only the remains of one
    except OSError as exc:
        raise DaemonError(f"The daemon does not answer: {exc}") from exc
    return protocol.result_of(response)


def read_search(answer: Mapping[str, JsonValue]) -> tuple[SearchResult, tuple[str, ...]]:
    """Return the result and the notes for the user in an answer to ``search``."""
    from skillsearch.types import ChannelVote, Explanation, Hit, SearchResult

    try:
        record = dict(answer["result"])
        hits = []
        for values in record.pop("hits"):
            explain = values.get("explain")
            if explain is not None:
                terms = {field: tuple(some) for field, some in explain["matched_terms"].items()}
                explain = Explanation(**{**explain, "matched_terms": terms})
            more = {"duplicates": tuple(values["duplicates"]), "explain": explain}
            hits.append(Hit(**{**values, **more}))
        votes = tuple(ChannelVote(**vote) for vote in record.pop("channels", ()))
        result = SearchResult(hits=tuple(hits), channels=votes, **record)
        return result, tuple(map(str, answer["notes"]))
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise DaemonError(f"The daemon's answer has an unknown form: {exc}") from exc


def start(*, idle: float = protocol.IDLE_SECONDS, seconds: float = START_SECONDS) -> None:
    """Start a daemon unless one runs; it can be asked as soon as this returns.

    It ends after `idle` seconds without a question. If it does not start within `seconds`,
    `DaemonError` is raised.
    """
    import subprocess

    if not protocol.SUPPORTED:
        raise DaemonError("This system has no Unix sockets, so there is no daemon.")
    try:
        # -P and the root folder: nothing in the working folder may be imported instead of us.
        run = subprocess.run(
            [sys.executable, "-P", "-m", "skillsearch.daemon", str(idle)],
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
        reason = next((line for line in reversed(lines) if line.strip()), "no reason given")
        raise DaemonError(f"The daemon cannot be started: {reason}")
