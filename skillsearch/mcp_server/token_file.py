"""The token that clients of the MCP server must send."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from skillsearch.errors import ConfigError
from skillsearch.settings.environ import PREFIX
from skillsearch.system_errors import reason_of

_MAX_TOKEN_BYTES = 4096


def mcp_token(file: Path | None = None) -> str:
    """Return the token that clients of the MCP server must send, from a file or else a variable.

    A ConfigError if the file is empty, unreadable, or open to other users.
    """
    if file is None:
        return os.environ.get(f"{PREFIX}MCP_TOKEN", "").strip()
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            token = opened.read(_MAX_TOKEN_BYTES).decode().strip()
    except (OSError, ValueError) as exc:
        raise ConfigError(
            f"The token file {file} cannot be read: {reason_of(exc)}; correct it or name another"
        ) from exc
    if os.name == "posix" and stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(
            f"The token file {file} is open to other users (mode {stat.S_IMODE(mode):04o});"
            f" run: chmod 600 {shlex.quote(str(file))}"
        )
    if not token:
        raise ConfigError(f"The token file {file} is empty; write the token into it.")
    return token
