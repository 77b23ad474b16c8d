"""Files from http and https servers, with limits to size, time and redirects.

No password, cookie or token is ever sent.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import logging
import re
import string
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import SplitResult, quote, urljoin, urlsplit, urlunsplit

from skillsearch.errors import RootError
from skillsearch.roots.sources import shown
from skillsearch.roots.watchdog import Watchdog
from skillsearch.text.safe_text import one_line

MAX_REDIRECTS = 5
MAX_URL_CHARS = 4096

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BUSY = 429
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of where the bytes go, not of where they come from."""
_READ = 1 << 16
_VALIDATOR = re.compile(r"[\x21-\x7e ]{1,512}")
_UNPRINTED = re.compile(r"[^\x21-\x7e]")

logger = logging.getLogger(__name__)


class UnreachableError(RootError):
    """A server cannot be reached, or does not serve: another day it may."""


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """What a download may come to.

    Attributes:
        size: Bytes, counted as they come.
        seconds: Time for all of it, redirects included.
        read_seconds: Time for one sign of life.
    """

    size: int = 64 << 20
    seconds: float = 60.0
    read_seconds: float = 15.0


@dataclass(frozen=True, slots=True)
class Downloaded:
    """What was downloaded, and what to ask the server by whether it still is the same.

    Attributes:
        sha256: Digest of its bytes, hexadecimal.
        etag: The server's ``ETag``; empty for none.
        last_modified: The server's ``Last-Modified``; empty for none.
    """

    sha256: str
    etag: str = ""
    last_modified: str = ""


LIMITS = DownloadLimits()


def fetch(
    url: str,
    into: BinaryIO,
    limits: DownloadLimits = LIMITS,
    *,
    agent: str = "skillsearch",
    known: Downloaded | None = None,
) -> Downloaded | None:
    """Download a file.

    Args:
        url: Where from.
        into: Takes the bytes.
        limits: What the download may come to.
        agent: What the server is told that we are.
        known: What was downloaded before, to get nothing where it still is the same.

    Returns:
        What was downloaded; None where it is what is known.

    Raises:
        UnreachableError: When the server does not answer, or not in time, or is out of order.
        RootError: When the URL cannot be used, leads elsewhere, or to nothing or too much.
        OSError: When the disk is full.
    """
    headers = {"User-Agent": agent, "Accept": "*/*", "Accept-Encoding": "identity"}
    if known and known.etag:
        headers["If-None-Match"] = known.etag
    elif known and known.last_modified:
        headers["If-Modified-Since"] = known.last_modified
    with Watchdog(limits.seconds) as watchdog, _in_our_words(url, watchdog, limits):
        response = _open(url, headers, watchdog, limits)
        with response:
            if response.status == http.client.NOT_MODIFIED and known:
                return None
            if response.status != http.client.OK:
                raise _bad_status(url, response.status)
            sha256 = _copy(response, into, shown(url), limits.size)
        return Downloaded(
            sha256, _validator(response, "ETag"), _validator(response, "Last-Modified")
        )


def check_url(url: str) -> SplitResult:
    """Take a URL apart that is to be asked.

    Args:
        url: The URL.

    Returns:
        Its parts.

    Raises:
        RootError: When it is none that can be asked.
    """
    try:
        parts = urlsplit(url)
        has_host, port = bool(parts.hostname), parts.port
    except ValueError:
        has_host = False
    if not has_host or port == 0 or len(url) > MAX_URL_CHARS or _UNPRINTED.search(url):
        reason = "is no URL that can be asked; write it as https://HOST/PATH, percent-encoded"
    elif parts.scheme not in {"https", "http"}:
        reason = f"has the scheme {parts.scheme!r}; only https and http can be asked"
    elif "@" in parts.netloc:
        reason = "holds a user name or password, which would be sent and stored; leave it out"
    else:
        return parts
    raise RootError(f"{shown(url)} {reason}.")


def _open(
    url: str, headers: dict[str, str], watchdog: Watchdog, limits: DownloadLimits
) -> http.client.HTTPResponse:
    """Ask a server, and those that it sends us to."""
    opener = _opener(watchdog)
    here = url
    for _ in range(MAX_REDIRECTS + 1):
        parts = check_url(here)
        bare = urlunsplit(parts._replace(fragment=""))
        request = urllib.request.Request(bare, headers=headers)
        response: http.client.HTTPResponse = opener.open(request, timeout=limits.read_seconds)
        target = response.headers.get("Location")
        if response.status not in _REDIRECTS or target is None:
            return response
        response.close()
        there = _join(bare, target)
        if parts.scheme == "https" and check_url(there).scheme != "https":
            raise RootError(
                f"{shown(url)} leads from https to {shown(there)}, which anyone on the way could "
                "change; ask for a URL that stays with https."
            )
        logger.info("%s leads to %s", shown(here), shown(there))
        here = there
    raise RootError(
        f"{shown(url)} leads on more than {MAX_REDIRECTS} times; name the URL where it ends."
    )


def _join(base: str, target: str) -> str:
    """Return where a redirect leads; some servers send the bytes of a path as they are."""
    encoded = quote(target, safe=string.punctuation, encoding="latin-1")
    try:
        return urljoin(base, encoded)
    except ValueError:
        return encoded


def _opener(watchdog: Watchdog) -> urllib.request.OpenerDirector:
    """Return what speaks http and https, by the user's proxies, and nothing else."""

    class Http(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(watchdog.plain, req)

    class Https(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(watchdog.secure, req)

    opener = urllib.request.OpenerDirector()
    opener.addheaders = []
    others = (urllib.request.ProxyHandler(), urllib.request.UnknownHandler())
    for handler in (*others, Http(), Https()):
        opener.add_handler(handler)
    return opener


@contextmanager
def _in_our_words(url: str, watchdog: Watchdog, limits: DownloadLimits) -> Iterator[None]:
    """Translate what the libraries raise."""
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError) as exc:
        if isinstance(exc, OSError) and exc.errno in _FULL:
            raise
        if not watchdog.has_bitten:
            reason = one_line(str(getattr(exc, "reason", exc)) or type(exc).__name__, 200)
            raise _unreachable(url, reason) from exc
    # What was shut looks like an end, if no length was told.
    if watchdog.has_bitten:
        raise _unreachable(url, f"it took more than {limits.seconds:g} s")


def _unreachable(url: str, reason: str) -> UnreachableError:
    """Return the error for a server that cannot be reached."""
    return UnreachableError(
        f"{shown(url)} cannot be downloaded: {reason}. Check the URL and the network, or download "
        "it yourself and name the file."
    )


def _bad_status(url: str, status: int) -> RootError:
    """Return the error for an answer without a file."""
    if status >= http.client.INTERNAL_SERVER_ERROR or status == _BUSY:
        return UnreachableError(f"{shown(url)}: the server is out of order ({status}); try later.")
    return RootError(
        f"{shown(url)}: the server answers {status} and no file; check the URL. One that asks for "
        "a login cannot be used: download the file yourself and name it."
    )


def _copy(response: http.client.HTTPResponse, into: BinaryIO, name: str, limit: int) -> str:
    """Copy the body and return its digest; what the server says of its length is not believed."""
    digest, size = hashlib.sha256(), 0
    while block := response.read1(_READ):
        size += len(block)
        if size > limit:
            raise RootError(f"{name} is larger than {limit:,} bytes; name a smaller archive.")
        digest.update(block)
        into.write(block)
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return digest.hexdigest()


def _validator(response: http.client.HTTPResponse, name: str) -> str:
    """Return a header that can be sent back later; empty where it is missing or odd."""
    value = response.headers.get(name, "")
    return value if _VALIDATOR.fullmatch(value) else ""
