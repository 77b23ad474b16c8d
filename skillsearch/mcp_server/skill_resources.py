"""Published skills as MCP resources, and the Skills extension of MCP (SEP-2640)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

import mcp_types as mt
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from skillsearch.errors import SkillError
from skillsearch.files.media_types import BINARY, PLAIN, is_text, type_of_name
from skillsearch.library.thread import LibraryThread
from skillsearch.mcp_server.calls import Context, in_thread
from skillsearch.mcp_server.publication import Manifest, Publisher
from skillsearch.mcp_server.served_library import ServedLibrary
from skillsearch.mcp_server.skill_uris import MAX_URI_CHARS, SCHEME
from skillsearch.roots.well_known import SCHEMA
from skillsearch.text.safe_text import one_line
from skillsearch.types.json_values import JsonObject, text_of

IDENTIFIER = "io.modelcontextprotocol/skills"
PAGE_SIZE = 100
MAX_INDEX_CHARS = 1_000_000  # after which the index takes no other page
INDEX_URI = "skill://index.json"
"""Read by older hosts instead of ``skills/list``; no root has this authority."""

_INDEX = mt.Resource(
    uri=INDEX_URI,
    name="index.json",
    description="All skills with their descriptions.",
    mime_type="application/json",
)
TEMPLATE = mt.ResourceTemplate(
    uri_template=f"{SCHEME}{{+path}}",
    name="skill-file",
    title="File of a skill",
    description="A file of a skill: <root>/<folder>/SKILL.md and the other files of its folder.",
)

_T = TypeVar("_T")
_Page = mt.PaginatedRequestParams


class ReadDirectoryParams(mt.PaginatedRequestParams):
    """The parameters of ``resources/directory/read``."""

    uri: str


class SkillResources:
    """Lists and reads the published skills, with and without the extension of the protocol."""

    def __init__(self, thread: LibraryThread, served: ServedLibrary, *, ttl_ms: int) -> None:
        """Publish a library; clients may keep an answer for `ttl_ms` milliseconds."""
        self._thread = thread
        self._served = served
        self._ttl_ms = ttl_ms
        envelope: JsonObject = {"resultType": "complete", "ttlMs": ttl_ms, "cacheScope": "private"}
        self._envelope = envelope

    def add_to(self, server: Server[Any]) -> None:
        """Make a server answer requests for resources and skills."""
        add = server.add_request_handler
        add("resources/list", _Page, self._list_resources)
        add("resources/templates/list", _Page, self._list_templates)
        add("resources/read", mt.ReadResourceRequestParams, self._read_resource)
        add("resources/directory/read", ReadDirectoryParams, self._read_directory)
        add("skills/list", _Page, self._list_skills)
        add("skills/get", mt.ReadResourceRequestParams, self._get_skill)
        server.extensions[IDENTIFIER] = {"directoryRead": True}

    async def ask(self, question: Callable[[Publisher], _T], uri: str = "") -> _T:
        """Ask the publisher, in the library's thread; if it refuses, the parameters were wrong."""

        def answer() -> _T:
            publisher = self._served.publisher()
            try:
                return question(publisher)
            except SkillError as exc:
                data = {"uri": uri} if uri else None
                raise MCPError(INVALID_PARAMS, one_line(str(exc)), data) from exc

        return await in_thread(self._thread, answer)

    async def _list_resources(self, ctx: Context, params: _Page) -> mt.ListResourcesResult:
        after = read_cursor(params.cursor)
        manifests, last = await self.ask(lambda p: p.page(after, PAGE_SIZE))
        listed = [
            mt.Resource(
                uri=manifest.uri,
                name=text_of(manifest.frontmatter["name"]),
                description=text_of(manifest.frontmatter["description"]),
                mime_type="text/markdown",
                size=manifest.resources[0].size,
            )
            for manifest in manifests
        ]
        return mt.ListResourcesResult(
            resources=listed if params.cursor else [_INDEX, *listed],
            next_cursor=next_cursor(last).get("nextCursor"),
            ttl_ms=self._ttl_ms,
        )

    async def _list_templates(self, ctx: Context, params: _Page) -> mt.ListResourceTemplatesResult:
        return mt.ListResourceTemplatesResult(resource_templates=[TEMPLATE], ttl_ms=self._ttl_ms)

    async def _read_resource(
        self, ctx: Context, params: mt.ReadResourceRequestParams
    ) -> mt.ReadResourceResult:
        """Return bytes as text if that loses none of them, else as they are."""
        uri = params.uri
        data = await self.ask(_index if uri == INDEX_URI else lambda p: p.read(uri), uri)
        named_type = type_of_name(uri)
        contents: mt.TextResourceContents | mt.BlobResourceContents
        if is_text(PLAIN, data):
            text, mime_type = data.decode(), named_type or PLAIN
            contents = mt.TextResourceContents(uri=uri, text=text, mime_type=mime_type)
        else:
            blob, mime_type = base64.b64encode(data).decode(), named_type or BINARY
            contents = mt.BlobResourceContents(uri=uri, blob=blob, mime_type=mime_type)
        return mt.ReadResourceResult(contents=[contents], ttl_ms=self._ttl_ms)

    async def _list_skills(self, ctx: Context, params: _Page) -> JsonObject:
        after = read_cursor(params.cursor)
        manifests, last = await self.ask(lambda p: p.page(after, PAGE_SIZE))
        return {**self._envelope, "skills": list(map(_record, manifests)), **next_cursor(last)}

    async def _get_skill(self, ctx: Context, params: mt.ReadResourceRequestParams) -> JsonObject:
        manifest = await self.ask(lambda p: p.manifest(params.uri), params.uri)
        return {**self._envelope, "skill": _record(manifest)}

    async def _read_directory(self, ctx: Context, params: ReadDirectoryParams) -> JsonObject:
        after = read_cursor(params.cursor, f"{params.uri}/")
        children = await self.ask(lambda p: p.children(params.uri), params.uri)
        left = [child for child in children if after is None or child[0] > after]
        records: list[JsonObject] = []
        for uri, name, size in left[:PAGE_SIZE]:
            kind = "inode/directory" if size is None else type_of_name(uri)
            record = {"uri": uri, "name": name, "size": size, "mimeType": kind}
            records.append({key: value for key, value in record.items() if value is not None})
        last = left[PAGE_SIZE - 1][0] if len(left) > PAGE_SIZE else None
        return {**self._envelope, "resources": records, **next_cursor(last)}


def _record(manifest: Manifest) -> JsonObject:
    return asdict(manifest) | {"resources": list(map(asdict, manifest.resources))}


def next_cursor(last: str | None) -> dict[str, str]:
    """Return the cursor of the page after a URI, as part of a result; empty at the end."""
    if last is None:
        return {}
    return {"nextCursor": base64.urlsafe_b64encode(last.encode()).decode("ascii")}


def read_cursor(cursor: str | None, start: str = SCHEME) -> str | None:
    """Return the URI after which a page begins; the untrusted cursor must begin with `start`."""
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


def _index(publisher: Publisher) -> bytes:
    skills: list[dict[str, str]] = []
    after: str | None = ""
    chars = 0
    while after is not None and chars < MAX_INDEX_CHARS:
        manifests, after = publisher.page(after, PAGE_SIZE)
        rows = [
            {
                "name": text_of(manifest.frontmatter["name"]),
                "type": "skill-md",
                "description": text_of(manifest.frontmatter["description"]),
                "url": manifest.uri,
                "digest": manifest.resources[0].digest,
            }
            for manifest in manifests
        ]
        skills += rows
        chars += len(str(rows))
    record: JsonObject = {"$schema": SCHEMA, "skills": skills}
    if after:
        others = len(publisher.skills) - len(skills)
        record["leftOut"] = f"(not listed: {others:,}; resources/list has all, in pages)"
    return json.dumps(record).encode()
