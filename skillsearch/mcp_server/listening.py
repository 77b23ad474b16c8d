"""Where a server listens, its own streams or an address; who may reach it there; and until when."""

from __future__ import annotations

import ipaddress
import re
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import anyio

from skillsearch.errors import ConfigError
from skillsearch.settings.environ import INTERRUPTED
from skillsearch.system_errors import reason_of

PATH = "/mcp"
MIN_TOKEN_CHARS = 16
_FORM = "write it as HOST:PORT, such as 127.0.0.1:8765"


class Listener(NamedTuple):
    """A listening socket, the host in its URL, and the token that clients have to show, if any."""

    socket: socket.socket
    host: str
    token: str
    is_local: bool

    @property
    def origin(self) -> str:
        """The URL without a path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.socket.getsockname()[1]}"

    @property
    def url(self) -> str:
        """The URL of the MCP server."""
        return self.origin + PATH

    @property
    def authority(self) -> str | None:
        """A pattern of the server's names, with or without a port; None if they are unknown.

        A web page can make a browser send requests here under a name that its owner points to this
        machine. A server on all addresses has a token that keeps pages out.
        """
        if self.host in ("0.0.0.0", "::"):
            return None
        names = {self.host} | ({"127.0.0.1", "localhost", "::1"} if self.is_local else set())
        written = sorted(re.escape(f"[{name}]" if ":" in name else name) for name in names)
        return f"(?:{'|'.join(written)})(?::[0-9]{{1,5}})?"


def parse_address(text: str) -> tuple[str, int]:
    """Read ``HOST:PORT``, with an IPv6 address in brackets; else raise `ConfigError`."""
    host, _, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if is_bracketed else host
    if not host or (":" in host) != is_bracketed or not host.isprintable():
        raise ConfigError(f"--http {text!r} is not an address; {_FORM}")
    if not (port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 1 << 16):
        raise ConfigError(f"--http {text!r} has no port from 0 to 65535; {_FORM}")
    return host, int(port)


def listen(host: str, port: int = 0, *, token: str = "", allow_remote: bool = False) -> Listener:
    """Listen on the first address of a host; port 0 means any. The caller closes the listener.

    Raises `ConfigError` for an unusable token or address, or if other machines could reach it
    without `allow_remote` and a token.
    """
    if token and (len(token) < MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable()):
        raise ConfigError(
            f"The token must have at least {MIN_TOKEN_CHARS} characters, all of them ASCII; make"
            " one: python3 -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        is_local = ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback
        reach = f"Other machines can reach {host}"
        if not is_local and not allow_remote:
            raise ConfigError(f"{reach}; listen on 127.0.0.1, or allow it: --allow-remote")
        if not is_local and not token:
            raise ConfigError(
                f"{reach}, so clients need a token: name a file that holds it by --token-file, or"
                " set SKILLSEARCH_MCP_TOKEN"
            )
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        made = socket.create_server(address, family=family, dualstack_ipv6=both)
    except (OSError, UnicodeError) as exc:
        reason = reason_of(exc).partition(" (while ")[0]  # which repeats the address
        raise ConfigError(
            f"Cannot listen on {host}, port {port}: {reason}; choose another"
            " address, or port 0 for any that is free"
        ) from exc
    return Listener(made, host, token, is_local)


def run_server(serve: Callable[[anyio.Event], Awaitable[None]]) -> int:
    """Serve until the client leaves or a signal sets the event; return 0, or 130 after Ctrl-C."""
    codes = [0]

    async def heed(signals: AsyncIterator[signal.Signals], stop: anyio.Event) -> None:
        async for number in signals:
            codes.append(INTERRUPTED if number == signal.SIGINT else 0)
            stop.set()

    async def run() -> None:
        stop = anyio.Event()
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(heed, signals, stop)
                await serve(stop)
                tasks.cancel_scope.cancel()

    anyio.run(run)
    return codes[-1]
