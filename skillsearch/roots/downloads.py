"""Download files over http and https, with limits on size, time and redirects.

No password, cookie or token is ever sent.
"""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import logging
import re
import socket
import string
import threading
import urllib.request
from contextlib import suppress
from typing import BinaryIO
from urllib.parse import SplitResult, quote, urljoin, urlsplit, urlunsplit

from skillsearch._version import __version__
from skillsearch.errors import RootError, UnreachableError
from skillsearch.roots.sources import Downloaded, shown
from skillsearch.system_errors import DISK_FULL, reason_of
from skillsearch.text.safe_text import one_line

MAX_REDIRECTS = 5
MAX_URL_CHARS = 4096
READ_SECONDS = 15.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_READ = 1 << 16
_VALIDATOR = re.compile(r"[\x21-\x7e ]{1,512}")
_UNPRINTED = re.compile(r"[^\x21-\x7e]")

logger = logging.getLogger(__name__)


def fetch(
    url: str,
    into: BinaryIO,
    *,
    cached: Downloaded | None = None,
    max_bytes: int = 64 << 20,
    seconds: float = 60.0,
    around: str = "",
) -> Downloaded | None:
    """Download a file in some `seconds`; None if the server says that it is still the known one.

    The host of the URL, or of the URL `around` it that named it, may be on the local network; a
    host that another server redirects to may not. A server that fails raises `UnreachableError`; an
    unusable URL or too large a file `RootError`.
    """
    headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
    headers["User-Agent"] = f"skillsearch/{__version__}"
    headers |= cached.condition if cached else {}
    proxies = urllib.request.getproxies().values()
    named = {urlsplit(address).hostname or "" for address in (around or url, *proxies)}
    with (
        _Deadline(url, seconds, named) as deadline,
        follow(_opener(deadline), url, headers, READ_SECONDS) as response,
    ):
        if response.status == http.client.NOT_MODIFIED and cached:
            return None
        _check_status(url, response.status)
        digest, size = hashlib.sha256(), 0
        while block := response.read1(_READ):  # the length in the headers is not trusted
            size += len(block)
            if size > max_bytes:
                message = f"{shown(url)} is larger than {max_bytes:,} bytes; use a smaller archive."
                raise RootError(message)
            digest.update(block)
            into.write(block)
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        # To be sent back later, unless missing or odd.
        validators = map(response.headers.get, ("ETag", "Last-Modified"), ("", ""))
        etag, modified = (value if _VALIDATOR.fullmatch(value) else "" for value in validators)
        return Downloaded(digest.hexdigest(), etag, modified)


def check_url(url: str) -> SplitResult:
    """Return the parts of a URL; raise `RootError` unless it is safe to request."""
    try:
        parts = urlsplit(url)
        has_host, port = bool(parts.hostname), parts.port
    except ValueError:
        has_host = False
    if not has_host or port == 0 or len(url) > MAX_URL_CHARS or _UNPRINTED.search(url):
        reason = "is not a usable URL; write it as https://HOST/PATH, percent-encoded"
    elif parts.scheme not in {"https", "http"}:
        reason = f"has the scheme {parts.scheme!r}; only https and http are supported"
    elif "@" in parts.netloc:
        reason = "contains a user name or password, which would be sent and stored; leave it out"
    else:
        return parts
    raise RootError(f"{shown(url)} {reason}.")


def follow(
    opener: urllib.request.OpenerDirector, url: str, headers: dict[str, str], seconds: float
) -> http.client.HTTPResponse:
    """Request a URL and follow its redirects, never from https to http; or raise `RootError`."""
    here = url
    for _ in range(MAX_REDIRECTS + 1):
        parts = check_url(here)
        bare = urlunsplit(parts._replace(fragment=""))
        request = urllib.request.Request(bare, headers=headers)
        response: http.client.HTTPResponse = opener.open(request, timeout=seconds)
        target = response.headers.get("Location")
        if response.status not in _REDIRECTS or target is None:
            return response
        response.close()
        # Some servers send paths without encoding them.
        there = quote(target, safe=string.punctuation, encoding="latin-1")
        with suppress(ValueError):
            there = urljoin(bare, there)
        if parts.scheme == "https" and check_url(there).scheme != "https":
            raise RootError(
                f"{shown(url)} redirects from https to {shown(there)}, which anyone on the network "
                "could tamper with; use a URL that stays on https."
            )
        logger.info("%s redirects to %s", shown(here), shown(there))
        here = there
    raise RootError(f"{shown(url)} redirects more than {MAX_REDIRECTS} times; use the final URL.")


class _Deadline:
    """Makes connections, and shuts all of them down when the time is up; a context manager.

    A socket's own timeout starts again with every byte, so a server that drips never reaches it. On
    exit, the errors of the libraries become ours.
    """

    def __init__(self, url: str, seconds: float, named: set[str]) -> None:
        self.has_passed = False
        self._named = named
        self._url, self._seconds = url, seconds
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._shut_down)
        self._timer.daemon = True

    def __enter__(self) -> _Deadline:
        self._timer.start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        # Without a Content-Length, a connection that was shut down looks like the end of the file.
        has_passed = self.has_passed
        self._timer.cancel()
        self._timer.join()
        for watched in self._sockets:
            watched.close()
        is_ours = isinstance(error, (OSError, http.client.HTTPException, ValueError))
        is_ours = is_ours and getattr(error, "errno", None) not in DISK_FULL
        if has_passed and (error is None or is_ours):
            reason = f"it took more than {self._seconds:g} s"
        elif is_ours:
            reason = reason_of(getattr(error, "reason", error)) or type(error).__name__
        else:
            return
        raise UnreachableError(
            f"{shown(self._url)} cannot be downloaded: {one_line(reason, 200)}. Check the URL and "
            "the network, or download it yourself and name the file."
        ) from error

    def watch(self, connected: socket.socket, host: str) -> None:
        """Shut this socket down too; a duplicate is kept because TLS takes over the socket.

        A RootError if it leads into the local network and the user did not name its host.
        """
        address = ipaddress.ip_address(str(connected.getpeername()[0]).partition("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        if host.strip("[]") not in self._named and not address.is_global:
            raise RootError(
                f"{shown(self._url)} sends us to {one_line(host, 100)} ({address}), which lies on "
                "this machine or its network; if that is meant, name that URL yourself."
            )
        with self._lock:
            self._sockets.append(connected.dup())
        if self.has_passed:
            self._shut_down()

    def _shut_down(self) -> None:
        self.has_passed = True
        with self._lock:
            for watched in self._sockets:
                with suppress(OSError):
                    watched.shutdown(socket.SHUT_RDWR)


def _opener(deadline: _Deadline) -> urllib.request.OpenerDirector:
    """Return an opener for http and https alone, through the user's proxies."""

    class Connection(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            deadline.watch(self.sock, self.host)

    class SecureConnection(http.client.HTTPSConnection, Connection):
        """Adds TLS; `super().connect()` there calls `Connection.connect`, so that it is watched."""

    class Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
        def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Connection, req)

        def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(SecureConnection, req)

    opener = urllib.request.OpenerDirector()
    opener.addheaders = []
    for handler in (urllib.request.ProxyHandler, urllib.request.UnknownHandler, Handler):
        opener.add_handler(handler())
    return opener


def _check_status(url: str, status: int) -> None:
    if status >= http.client.INTERNAL_SERVER_ERROR or status == http.client.TOO_MANY_REQUESTS:
        raise UnreachableError(f"{shown(url)}: the server is failing ({status}); try again later.")
    if status != http.client.OK:
        raise RootError(
            f"{shown(url)}: the server answered {status} instead of the file; check the URL. "
            "Servers that require a login are not supported: download the file yourself and name "
            "it."
        )
