"""The Skills extension of MCP (SEP-2640): skills to list, to describe, and to look into."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams, RequestParams

from skillsearch.errors import SkillError
from skillsearch.library.publication import Child, Publisher
from skillsearch.library.skill_uris import MAX_URI_CHARS, SCHEME
from skillsearch.text.safe_text import one_line

IDENTIFIER = "io.modelcontextprotocol/skills"
PAGE_SIZE = 100
DIRECTORY_TYPE = "inode/directory"

_TYPES = {
    "css": "text/css",
    "csv": "text/csv",
    "gif": "image/gif",
    "htm": "text/html",
    "html": "text/html",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "js": "text/javascript",
    "json": "application/json",
    "md": "text/markdown",
    "pdf": "application/pdf",
    "png": "image/png",
    "py": "text/x-python",
    "sh": "text/x-shellscript",
    "svg": "image/svg+xml",
    "toml": "application/toml",
    "txt": "text/plain",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "zip": "application/zip",
}
"""Media types by ending; the module of Python knows others on every system."""

_T = TypeVar("_T")
_Context = ServerRequestContext[Any, Any]
_Record = dict[str, Any]


class AsksPublisher(Protocol):
    """Puts questions to the publisher of a library, in the thread of that library."""

    async def ask(self, function: Callable[[Publisher], _T]) -> _T:
        """Return the answer of a publisher that is up to date with its library."""


class GetSkillParams(RequestParams):
    """What ``skills/get`` is asked with."""

    uri: str


class ReadDirectoryParams(PaginatedRequestParams):
    """What ``resources/directory/read`` is asked with."""

    uri: str


def skills_extension(publisher: AsksPublisher, *, ttl_ms: int = 0) -> Extension:
    """Make the extension.

    Args:
        publisher: Says which skills there are.
        ttl_ms: How long a client may take an answer for true, in milliseconds.

    Returns:
        The extension, with all its methods.
    """
    return _SkillsExtension(publisher, ttl_ms)


class _SkillsExtension(Extension):
    """Serves the methods of the extension."""

    identifier = IDENTIFIER

    def __init__(self, publisher: AsksPublisher, ttl_ms: int) -> None:
        self._publisher = publisher
        self._envelope = {"resultType": "complete", "ttlMs": ttl_ms, "cacheScope": "private"}

    def settings(self) -> _Record:
        """Declare that directories can be read."""
        return {"directoryRead": True}

    def methods(self) -> Sequence[MethodBinding]:
        """Name the methods and what each is asked with."""
        return (
            MethodBinding("skills/list", PaginatedRequestParams, self._list),
            MethodBinding("skills/get", GetSkillParams, self._get),
            MethodBinding("resources/directory/read", ReadDirectoryParams, self._read_directory),
        )

    async def _list(self, ctx: _Context, params: PaginatedRequestParams) -> _Record:
        """Answer ``skills/list``."""
        after = read_cursor(params.cursor)
        manifests, last = await ask(self._publisher, lambda p: p.page(after, PAGE_SIZE))
        skills = [manifest.to_dict() for manifest in manifests]
        return {**self._envelope, "skills": skills, **next_cursor(last)}

    async def _get(self, ctx: _Context, params: GetSkillParams) -> _Record:
        """Answer ``skills/get``."""
        manifest = await ask(self._publisher, lambda p: p.manifest(params.uri))
        return {**self._envelope, "skill": manifest.to_dict()}

    async def _read_directory(self, ctx: _Context, params: ReadDirectoryParams) -> _Record:
        """Answer ``resources/directory/read``."""
        after = read_cursor(params.cursor, f"{params.uri}/")
        children = await ask(self._publisher, lambda p: p.children(params.uri))
        left = [child for child in children if after is None or child.uri > after]
        page = left[:PAGE_SIZE]
        last = page[-1].uri if len(left) > len(page) else None
        return {**self._envelope, "resources": list(map(_resource, page)), **next_cursor(last)}


async def ask(publisher: AsksPublisher, question: Callable[[Publisher], _T]) -> _T:
    """Ask a publisher; what it refuses is the fault of the parameters.

    Args:
        publisher: The publisher.
        question: What to ask it.

    Returns:
        Its answer.

    Raises:
        MCPError: When there is no such skill or file.
    """

    def answer(asked: Publisher) -> _T:
        try:
            return question(asked)
        except SkillError as exc:
            raise MCPError(INVALID_PARAMS, one_line(str(exc))) from exc

    return await publisher.ask(answer)


def next_cursor(last: str | None) -> _Record:
    """Return the cursor of the page behind a URI, as the part of a result; empty at the end."""
    if last is None:
        return {}
    return {"nextCursor": base64.urlsafe_b64encode(last.encode()).decode("ascii")}


def read_cursor(cursor: str | None, start: str = SCHEME) -> str | None:
    """Take a cursor apart.

    Args:
        cursor: The cursor, not trusted.
        start: What its URI must begin with.

    Returns:
        The URI behind which the page begins; None without a cursor.

    Raises:
        MCPError: When it is not one of ours.
    """
    if cursor is None:
        return None
    try:
        uri = base64.b64decode(cursor, b"-_", validate=True).decode("utf-8")
    except ValueError:
        uri = ""
    if not uri.startswith(start) or len(uri) > MAX_URI_CHARS:
        message = "The cursor is unknown; use the nextCursor of the page before, or none."
        raise MCPError(INVALID_PARAMS, message)
    return uri


def type_of(uri: str) -> str | None:
    """Tell the media type of a file by the end of its name; None where that says nothing."""
    return _TYPES.get(uri.rpartition(".")[2].lower())


def _resource(child: Child) -> _Record:
    """Return a child as an MCP resource."""
    record: _Record = {"uri": child.uri, "name": child.name}
    if child.size is None:
        return {**record, "mimeType": DIRECTORY_TYPE}
    media_type = type_of(child.uri)
    return {**record, "size": child.size, **({"mimeType": media_type} if media_type else {})}
