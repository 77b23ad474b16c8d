"""Skills of an MCP server that offers them (the extension SEP-2640), as files in a folder.

``skills/list`` names all files of each skill with their digests; they are read as resources.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from skillsearch.errors import RootError, UnreachableError, require_installed, translated
from skillsearch.files.paths import is_plain
from skillsearch.roots.sources import Downloaded, shown
from skillsearch.roots.unpacking import reserve_all
from skillsearch.roots.well_known import MAX_BYTES, MAX_SKILLS
from skillsearch.text.safe_text import counted, one_line
from skillsearch.types.json_values import JsonObject, objects_of, text_of
from skillsearch.types.skills import SKILL_MD

SECONDS = 120.0
MAX_FILES, MAX_FILE_BYTES = 512, 16 << 20
MAX_ANSWER, MAX_ANSWERS = 64 << 20, 512 << 20
"""How many bytes one answer may have, and all of a server together; files come in base64."""
if TYPE_CHECKING:
    import httpx2
    from mcp import Client

_REFUSED = "Nothing was added; tell its author."
_SCHEME, _SKILL_MD = "skill://", f"/{SKILL_MD}"
_LIBRARIES = ("mcp", "httpx2", "httpcore2", "client")

logger = logging.getLogger(__name__)


def fetch_served(url: str, folder: Path) -> Downloaded:
    """Read the skills of a server into a new folder, each below the path that it has there.

    RootError if a file does not have the digest that the server states, or without any skills.
    """
    require_installed("mcp", "A server of skills", "mcp")
    import anyio

    for library in _LIBRARIES:  # else what they log of an odd server goes to stderr
        logging.getLogger(library).addHandler(logging.NullHandler())
    bound = _Bound(url)

    def failure(error: Exception) -> RootError:
        cause = bound.error or _cause(error)
        if isinstance(cause, RootError):
            return cause
        reason = f"it takes more than {SECONDS:g} s" if isinstance(cause, TimeoutError) else ""
        reason = reason or one_line(str(cause) or type(cause).__name__, 200)
        return UnreachableError(f"{shown(url)} does not serve skills: {reason}.")

    with translated(failure):  # the library raises groups of many kinds of errors
        files = anyio.run(_read_all, url, bound)
    digest = hashlib.sha256()
    folder.mkdir()
    for parts, data in sorted(files.items()):
        path = folder.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        digest.update("/".join(parts).encode() + b"\0" + hashlib.sha256(data).digest())
    return Downloaded(digest.hexdigest())


class _Bound:
    """Ends answers that are too long, whatever their headers say; `error` is why."""

    def __init__(self, url: str) -> None:
        self.error: RootError | None = None
        self._url, self._left = url, MAX_ANSWERS

    async def __call__(self, response: httpx2.Response) -> None:
        """Bound a response before it is read."""
        from httpx2 import AsyncByteStream

        bound = self
        stream: Any = response.stream

        class Stream(AsyncByteStream):
            async def __aiter__(self) -> AsyncIterator[bytes]:
                size = 0
                async for block in stream:
                    size += len(block)
                    bound.count(len(block), size)
                    yield block

            async def aclose(self) -> None:
                await stream.aclose()

        packed = response.headers.get("content-encoding", "identity")
        self._refuse_if(packed != "identity", f"packs its answers ({one_line(packed, 40)})")
        response.stream = Stream()

    def count(self, more: int, size: int) -> None:
        """Count some more bytes of an answer that has a size by now, or raise `RootError`."""
        self._left -= more
        most = f"{MAX_ANSWER:,} bytes, or {MAX_ANSWERS:,} in all"
        self._refuse_if(size > MAX_ANSWER or self._left < 0, f"answers with more than {most}")

    def _refuse_if(self, is_wrong: bool, what: str) -> None:
        if is_wrong:
            self.error = RootError(f"{shown(self._url)} {what}. Nothing was added.")
            raise self.error


async def _read_all(url: str, bound: _Bound) -> dict[tuple[str, ...], bytes]:
    """Return the bytes of all files of all skills, by their paths."""
    import anyio
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    files: dict[tuple[str, ...], bytes] = {}
    remaining = MAX_BYTES
    http = httpx2.AsyncClient(
        timeout=SECONDS,
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [bound]},
    )
    connection = streamable_http_client(url, http_client=http, max_sse_event_size=MAX_ANSWER)
    with anyio.fail_after(SECONDS):
        async with http, Client(connection) as client:
            for file in await _list_files(client, url):
                data = _bytes_of(await client.read_resource(file.uri))
                if f"sha256:{hashlib.sha256(data).hexdigest()}" != file.digest:
                    problem = "has another digest than its server says"
                    raise RootError(f"{one_line(file.uri, 200)} {problem}. {_REFUSED}")
                files[file.parts] = data
                remaining = remaining - len(data)
                if remaining < 0:
                    raise RootError(
                        f"{shown(url)} serves more than {MAX_BYTES:,} bytes, the most that is "
                        "taken. Nothing was added; ask for a source of fewer skills."
                    )
    return files


class _ServedFile(NamedTuple):
    """A file of a skill, and where it belongs."""

    uri: str
    parts: tuple[str, ...]
    digest: str


async def _list_files(client: Client, url: str) -> list[_ServedFile]:
    """Return the files of all skills that can be used; the rest is logged."""
    import mcp_types as mt
    from pydantic import ConfigDict

    class Page(mt.Result):
        model_config = ConfigDict(extra="allow")

    skills: list[JsonObject] = []
    cursor: str | None = ""
    while cursor is not None and len(skills) < MAX_SKILLS:
        params = {"cursor": cursor} if cursor else {}
        request = mt.Request[dict[str, str], str](method="skills/list", params=params)
        page = (await client.session.send_request(request, Page)).model_dump()
        skills += (listed := objects_of(page["skills"]))
        cursor = page.get("nextCursor") if listed else None
    if len(skills) > MAX_SKILLS or cursor:
        logger.warning("%s serves more than %d skills; the first count", shown(url), MAX_SKILLS)
    usable: list[_ServedFile] = []
    made: dict[str, tuple[str, bool]] = {}
    for skill in skills[:MAX_SKILLS]:
        files = _files_of(skill, made)
        if isinstance(files, str):
            name = one_line(text_of(skill["uri"]), 200)
            logger.warning("Left out of %s: %s %s", shown(url), name, files)
        else:
            usable += files
    if not usable:
        raise RootError(
            f"{shown(url)} serves no skills that can be used; see its page for another address."
        )
    return usable


def _bytes_of(result: Any) -> bytes:
    (content,) = result.contents
    text = getattr(content, "text", None)
    data = text.encode() if text is not None else base64.b64decode(content.blob)
    if len(data) > MAX_FILE_BYTES:
        raise RootError(
            f"{one_line(str(content.uri), 200)} is larger than {MAX_FILE_BYTES:,} bytes. {_REFUSED}"
        )
    return data


def _files_of(skill: JsonObject, made: dict[str, tuple[str, bool]]) -> list[_ServedFile] | str:
    """Return the files of a skill, beside those that are made of others, or why it is left out."""
    files, listed = [], objects_of(skill["resources"])
    if len(listed) > MAX_FILES:
        return f"has {counted(len(listed), 'file')}, more than {MAX_FILES}"
    own = text_of(skill["uri"])
    base = own.removesuffix(_SKILL_MD)
    for resource in listed:
        uri = text_of(resource["uri"])
        parts = tuple(unquote(uri.removeprefix(_SCHEME)).split("/"))
        is_inside = own.endswith(_SKILL_MD) and uri.startswith((f"{base}/", own))
        if not (is_inside and uri.startswith(_SCHEME)) or not all(map(_is_name, parts)):
            return f"names {one_line(uri, 200)}, which is not one of its files"
        files.append(_ServedFile(uri, parts, text_of(resource["digest"])))
    fault = reserve_all(made, (file.parts for file in files))
    return f"cannot be written: {fault}" if fault else files


def _is_name(part: str) -> bool:
    return part not in ("", ".", "..") and is_plain(part) and "/" not in part


def _cause(error: BaseException) -> BaseException:
    with suppress(AttributeError, IndexError):
        return _cause(error.exceptions[0])  # type: ignore[attr-defined]  # of a group
    return error
