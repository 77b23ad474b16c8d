"""Where an HTTP server listens, and who may reach it there."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass

from skillsearch.errors import ConfigError

PATH = "/mcp"
MIN_TOKEN_CHARS = 16
_FORM = "write it as HOST:PORT, such as 127.0.0.1:8765"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server listens.

    Attributes:
        host: Name or address, as the user wrote it, without brackets.
        port: Port; 0 for any that is free.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``HOST:PORT``.

        Args:
            text: What the user wrote; an IPv6 address stands in brackets.

        Returns:
            The address.

        Raises:
            ConfigError: When it is written otherwise.
        """
        host, _, port = text.rpartition(":")
        is_bracketed = host.startswith("[") and host.endswith("]")
        host = host[1:-1] if is_bracketed else host
        if not host or (":" in host) != is_bracketed or not host.isprintable():
            raise ConfigError(f"--http {text!r} is no address; {_FORM}")
        if not (port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 1 << 16):
            raise ConfigError(f"--http {text!r} has no port from 0 to 65535; {_FORM}")
        return cls(host, int(port))


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that listens, and who may come to it.

    Attributes:
        socket: The socket.
        host: The host of its URL.
        token: What clients have to show; empty for nothing.
        is_local: Whether only this machine reaches it.
    """

    socket: socket.socket
    host: str
    token: str
    is_local: bool

    @property
    def url(self) -> str:
        """Where clients find the server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.socket.getsockname()[1]}{PATH}"

    @property
    def authority(self) -> str | None:
        """The names by which clients may ask for the server, with or without a port: a pattern.

        A web page can make a browser send requests here, by a name that its owner points to this
        machine. The names of a server that listens on all addresses are not known, so there it is
        None: the token, which no page knows, keeps pages out.
        """
        if self.host in ("0.0.0.0", "::"):
            return None
        names = {self.host} | ({"127.0.0.1", "localhost", "::1"} if self.is_local else set())
        written = sorted(re.escape(f"[{name}]" if ":" in name else name) for name in names)
        return f"(?:{'|'.join(written)})(?::[0-9]{{1,5}})?"


def listen(address: Address, *, token: str = "", allow_remote: bool = False) -> Listener:
    """Listen on an address.

    Args:
        address: The address; of a name with several the first.
        token: What clients have to show; empty for nothing.
        allow_remote: Whether other machines may reach it, for which a token is needed.

    Returns:
        The listener, to be closed by who serves it.

    Raises:
        ConfigError: When the token is too short, the address cannot be used, or other machines
            would reach it and may not.
    """
    if token and (len(token) < MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable()):
        raise ConfigError(
            f"The token must have at least {MIN_TOKEN_CHARS} characters, all of them ASCII; make"
            " one: python3 -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, place = found[0]
        is_local = ipaddress.ip_address(str(place[0]).partition("%")[0]).is_loopback
        _check_reach(address, is_local=is_local, token=token, allow_remote=allow_remote)
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(place)
            made.listen()
        except OSError:
            made.close()
            raise
    except (OSError, UnicodeError) as exc:
        raise ConfigError(
            f"Nothing can listen on {address.host}, port {address.port}: {exc}; choose another"
            " address, or port 0 for any that is free"
        ) from exc
    return Listener(made, address.host, token, is_local)


def _check_reach(address: Address, *, is_local: bool, token: str, allow_remote: bool) -> None:
    """Refuse what would let other machines in by mistake."""
    if is_local:
        return
    if not allow_remote:
        raise ConfigError(
            f"Other machines reach {address.host}; listen on 127.0.0.1, or allow it: --allow-remote"
        )
    if not token:
        raise ConfigError(
            f"Other machines reach {address.host}, so clients need a token: name a file that"
            " holds it by --token-file, or set SKILLSEARCH_MCP_TOKEN"
        )
