"""Where the daemon and its clients meet: a folder and a socket that belong to one user alone.

Both sides check both, and ask the system who is at the other end: neither a link nor a folder or
socket that somebody else made beforehand is used.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from skillsearch.environ import runtime_dir
from skillsearch.errors import DaemonError

TYPE_CHECKING = False  # `typing` would cost every prompt some milliseconds
if TYPE_CHECKING:
    from socket import socket

SUPPORTED = hasattr(os, "fork") and hasattr(os, "getuid")
"""Whether this system has what a daemon needs: Windows has not."""
MAX_PATH_BYTES = 103
"""What the address of a Unix socket can hold: 104 bytes on macOS, 108 on Linux, one for a NUL."""


def socket_path() -> str:
    """Return the path of the daemon's socket, whether or not it exists."""
    return f"{runtime_dir()}/daemon.sock"


def check_folder(path: str) -> None:
    """Make sure that a folder is ours, and that nobody else can enter it.

    Args:
        path: The folder.

    Raises:
        DaemonError: When it is not, or is no folder.
        OSError: When it cannot be looked at.
    """
    _check(path, stat.S_ISDIR)


def check_socket(path: str) -> None:
    """Make sure that a socket is ours, and that nobody else can connect to it.

    Args:
        path: The socket.

    Raises:
        DaemonError: When it is not, or is no socket.
        OSError: When it cannot be looked at.
    """
    _check(path, stat.S_ISSOCK)


def peer_of(connection: socket) -> int | None:
    """Make sure that the process at the other end of a connection is of our user.

    Args:
        connection: A connected Unix socket.

    Returns:
        The id of that process; None where the system does not tell.

    Raises:
        DaemonError: When it is of another user.
        OSError: When the connection is broken.
    """
    import socket
    import struct

    if not hasattr(socket, "SO_PEERCRED"):
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    process, user, _ = struct.unpack("3i", credentials)
    if user != os.geteuid():
        raise DaemonError(f"The process {process} at the daemon's socket is of user {user}.")
    return int(process)


def _check(path: str, is_kind: Callable[[int], bool]) -> None:
    """Refuse what is of another kind, another user's, or open to others; links included."""
    found = os.lstat(path)
    if not is_kind(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise DaemonError(
            f"{path} is {stat.filemode(found.st_mode)} of user {found.st_uid}, not for us alone; "
            "remove it, or turn the daemon off: SKILLSEARCH_DAEMON=off"
        )
