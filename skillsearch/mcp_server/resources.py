"""The files of published skills as MCP resources, for clients that know no extension too."""

from __future__ import annotations

import base64
import json
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    BlobResourceContents,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from skillsearch.library.manifest import Manifest
from skillsearch.library.publication import Publisher
from skillsearch.library.skill_uris import SCHEME
from skillsearch.mcp_server.skills_extension import (
    PAGE_SIZE,
    AsksPublisher,
    ask,
    next_cursor,
    read_cursor,
    type_of,
)

INDEX_URI = "skill://index.json"
"""What older hosts read in place of ``skills/list``; no authority of a root is called so."""

MARKDOWN_TYPE = "text/markdown"

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
    description="A file of a skill: <root>/<folder>/SKILL.md and what is beside it.",
)

_Context = ServerRequestContext[Any, Any]


def add_resources(server: Server[Any], publisher: AsksPublisher, *, ttl_ms: int = 0) -> None:
    """Let a server list and read the files of skills.

    Listed is the SKILL.md of each skill; the other files are read by the URIs that it, or the
    Skills extension, names.

    Args:
        server: The server.
        publisher: Says which skills there are.
        ttl_ms: How long a client may take an answer for true, in milliseconds.
    """

    async def list_resources(ctx: _Context, params: PaginatedRequestParams) -> ListResourcesResult:
        after = read_cursor(params.cursor)
        manifests, last = await ask(publisher, lambda p: p.page(after, PAGE_SIZE))
        first = [] if params.cursor else [_INDEX]
        return ListResourcesResult(
            resources=[*first, *map(_resource, manifests)],
            next_cursor=next_cursor(last).get("nextCursor"),
            ttl_ms=ttl_ms,
        )

    async def list_templates(
        ctx: _Context, params: PaginatedRequestParams
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=[TEMPLATE], ttl_ms=ttl_ms)

    async def read(ctx: _Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        uri = str(params.uri)
        question = _index if uri == INDEX_URI else lambda p: p.read(uri)
        contents = _contents(uri, await ask(publisher, question))
        return ReadResourceResult(contents=[contents], ttl_ms=ttl_ms)

    server.add_request_handler("resources/list", PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", ReadResourceRequestParams, read)


def _resource(manifest: Manifest) -> Resource:
    """Return the SKILL.md of a skill as a resource."""
    return Resource(
        uri=manifest.uri,
        name=manifest.frontmatter["name"],
        description=manifest.frontmatter["description"],
        mime_type=MARKDOWN_TYPE,
        size=manifest.resources[0].size,
    )


def _contents(uri: str, data: bytes) -> TextResourceContents | BlobResourceContents:
    """Return bytes as text where that loses none of them, and else as they are."""
    known = type_of(uri)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is None or "\0" in text:
        blob = base64.b64encode(data).decode("ascii")
        return BlobResourceContents(
            uri=uri, blob=blob, mime_type=known or "application/octet-stream"
        )
    return TextResourceContents(uri=uri, text=text, mime_type=known or "text/plain")


def _index(publisher: Publisher) -> bytes:
    """Write the index of all skills."""
    skills: list[dict[str, str]] = []
    after: str | None = None
    while True:
        manifests, after = publisher.page(after, PAGE_SIZE)
        skills += map(_entry, manifests)
        if after is None:
            return json.dumps({"$schema": _INDEX_SCHEMA, "skills": skills}).encode()


def _entry(manifest: Manifest) -> dict[str, str]:
    """Return what the index says of a skill."""
    return {
        "name": manifest.frontmatter["name"],
        "type": "skill-md",
        "description": manifest.frontmatter["description"],
        "url": manifest.uri,
        "digest": manifest.resources[0].digest,
    }
