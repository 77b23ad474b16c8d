"""Published skills as MCP resources, and the Skills extension of MCP (SEP-2640)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, TypeVar

from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from skillsearch.errors import SkillError
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.mcp_server.calls import Context, in_thread
from skillsearch.mcp_server.manifest import Manifest
from skillsearch.mcp_server.publication import Child, Publisher
from skillsearch.mcp_server.served_library import LibraryThread, ServedLibrary
from skillsearch.mcp_server.skill_uris import MAX_URI_CHARS, SCHEME
from skillsearch.text.safe_text import one_line

IDENTIFIER = "io.modelcontextprotocol/skills"
PAGE_SIZE = 100
INDEX_URI = "skill://index.json"
"""Read by older hosts instead of ``skills/list``; no root has this authority."""

_INDEX_SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_INDEX = Resource(
    uri=INDEX_URI,
    name="index.json",
    description="All skills with their descriptions.",
    mime_type="application/json",
)
TEMPLATE = ResourceTemplate(
    uri_template=f"{SCHEME}{{+path}}",
    name="skill-file",
    title="File of a skill",
    description="A file of a skill: <root>/<folder>/SKILL.md and the files beside it.",
)
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
"""Media types by file extension; Python's module knows others on every system."""

_T = TypeVar("_T")
_Record = dict[str, Any]


class GetSkillParams(RequestParams):
    """The parameters of ``skills/get``."""

    uri: str


class ReadDirectoryParams(PaginatedRequestParams):
    """The parameters of ``resources/directory/read``."""

    uri: str


class SkillResources:
    """Lists and reads the published skills of a served library.

    The SKILL.md of each skill is listed as a resource, for clients that know no extension; the
    other files are read by the URIs that it, or the extension, names.
    """

    def __init__(self, thread: LibraryThread, served: ServedLibrary, *, ttl_ms: int) -> None:
        """Publish a library; clients may keep an answer for `ttl_ms` milliseconds."""
        self._thread = thread
        self._served = served
        self._ttl_ms = ttl_ms
        self._envelope = {"resultType": "complete", "ttlMs": ttl_ms, "cacheScope": "private"}
        self._library: SkillLibrary | None = None
        self._publisher: Publisher | None = None

    def add_to(self, server: Server[Any]) -> None:
        """Make a server answer requests for resources and skills."""
        add = server.add_request_handler
        add("resources/list", PaginatedRequestParams, self._list_resources)
        add("resources/templates/list", PaginatedRequestParams, self._list_templates)
        add("resources/read", ReadResourceRequestParams, self._read_resource)
        add("resources/directory/read", ReadDirectoryParams, self._read_directory)
        add("skills/list", PaginatedRequestParams, self._list_skills)
        add("skills/get", GetSkillParams, self._get_skill)
        server.extensions[IDENTIFIER] = {"directoryRead": True}

    async def ask(self, question: Callable[[Publisher], _T]) -> _T:
        """Put a question to the publisher of the current library, in the library's thread.

        Raises `MCPError`: if the publisher refuses, the parameters were wrong.
        """
        return await in_thread(self._thread, self._answer, question)

    def _answer(self, question: Callable[[Publisher], _T]) -> _T:
        library = self._served.get()
        if self._publisher is None or library is not self._library:
            self._library, self._publisher = library, Publisher(library)
        self._publisher.refresh()
        try:
            return question(self._publisher)
        except SkillError as exc:
            raise MCPError(INVALID_PARAMS, one_line(str(exc))) from exc

    async def _list_resources(
        self, ctx: Context, params: PaginatedRequestParams
    ) -> ListResourcesResult:
        after = read_cursor(params.cursor)
        manifests, last = await self.ask(lambda p: p.page(after, PAGE_SIZE))
        first = [] if params.cursor else [_INDEX]
        return ListResourcesResult(
            resources=[*first, *map(_resource, manifests)],
            next_cursor=next_cursor(last).get("nextCursor"),
            ttl_ms=self._ttl_ms,
        )

    async def _list_templates(
        self, ctx: Context, params: PaginatedRequestParams
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=[TEMPLATE], ttl_ms=self._ttl_ms)

    async def _read_resource(
        self, ctx: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        uri = str(params.uri)
        data = await self.ask(_index if uri == INDEX_URI else lambda p: p.read(uri))
        return ReadResourceResult(contents=[_contents(uri, data)], ttl_ms=self._ttl_ms)

    async def _list_skills(self, ctx: Context, params: PaginatedRequestParams) -> _Record:
        after = read_cursor(params.cursor)
        manifests, last = await self.ask(lambda p: p.page(after, PAGE_SIZE))
        skills = [manifest.to_dict() for manifest in manifests]
        return {**self._envelope, "skills": skills, **next_cursor(last)}

    async def _get_skill(self, ctx: Context, params: GetSkillParams) -> _Record:
        manifest = await self.ask(lambda p: p.manifest(params.uri))
        return {**self._envelope, "skill": manifest.to_dict()}

    async def _read_directory(self, ctx: Context, params: ReadDirectoryParams) -> _Record:
        after = read_cursor(params.cursor, f"{params.uri}/")
        children = await self.ask(lambda p: p.children(params.uri))
        left = [child for child in children if after is None or child.uri > after]
        page = left[:PAGE_SIZE]
        last = page[-1].uri if len(left) > len(page) else None
        return {**self._envelope, "resources": list(map(_child, page)), **next_cursor(last)}


def next_cursor(last: str | None) -> _Record:
    """Return the cursor of the page after a URI, as part of a result; empty at the end."""
    if last is None:
        return {}
    return {"nextCursor": base64.urlsafe_b64encode(last.encode()).decode("ascii")}


def read_cursor(cursor: str | None, start: str = SCHEME) -> str | None:
    """Return the URI after which a page begins; None without a cursor.

    The cursor is not trusted: it must hold a URI that begins with `start`.
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


def _type_of(uri: str) -> str | None:
    """Return the media type of a file by its extension, None if that says nothing."""
    return _TYPES.get(uri.rpartition(".")[2].lower())


def _resource(manifest: Manifest) -> Resource:
    """Return the SKILL.md of a skill as a resource."""
    return Resource(
        uri=manifest.uri,
        name=manifest.frontmatter["name"],
        description=manifest.frontmatter["description"],
        mime_type="text/markdown",
        size=manifest.resources[0].size,
    )


def _child(child: Child) -> _Record:
    """Return a file or folder as a resource."""
    record: _Record = {"uri": child.uri, "name": child.name}
    if child.size is None:
        return {**record, "mimeType": "inode/directory"}
    media_type = _type_of(child.uri)
    return {**record, "size": child.size, **({"mimeType": media_type} if media_type else {})}


def _contents(uri: str, data: bytes) -> TextResourceContents | BlobResourceContents:
    """Return bytes as text if that loses none of them, else as they are."""
    known = _type_of(uri)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" not in text:
        return TextResourceContents(uri=uri, text=text, mime_type=known or "text/plain")
    blob = base64.b64encode(data).decode("ascii")
    return BlobResourceContents(uri=uri, blob=blob, mime_type=known or "application/octet-stream")


def _index(publisher: Publisher) -> bytes:
    """Write the index of all skills."""
    skills: list[dict[str, str]] = []
    after: str | None = None
    while True:
        manifests, after = publisher.page(after, PAGE_SIZE)
        skills += (
            {
                "name": manifest.frontmatter["name"],
                "type": "skill-md",
                "description": manifest.frontmatter["description"],
                "url": manifest.uri,
                "digest": manifest.resources[0].digest,
            }
            for manifest in manifests
        )
        if after is None:
            return json.dumps({"$schema": _INDEX_SCHEMA, "skills": skills}).encode()
