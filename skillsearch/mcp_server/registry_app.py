"""A registry of Agentic Resource Discovery over HTTP, next to the MCP server, within its limits.

It tells of the skills that the server publishes, and serves their files, so that every URL that it
tells leads somewhere.
"""

from __future__ import annotations

import queue
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias, TypeVar

import anyio
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from skillsearch.agents.failures import message_of
from skillsearch.ard import registry
from skillsearch.ard.catalog import CATALOGS, SPEC_VERSION
from skillsearch.ard.entries import (
    MARKDOWN,
    PublishedSkill,
    entry_of,
    identifier_of,
    is_identifier,
    publisher_of,
    registry_entry,
)
from skillsearch.errors import IndexingError, QueryError, SkillError, SkillSearchError
from skillsearch.index.documents.document import Document
from skillsearch.library.thread import LibraryThread
from skillsearch.mcp_server.calls import INDEXING_SECONDS, MAX_QUERY_BYTES, PATIENCE
from skillsearch.mcp_server.listening import Listener
from skillsearch.mcp_server.publication import Frontmatter, Published, Publisher
from skillsearch.mcp_server.served_library import ServedLibrary
from skillsearch.mcp_server.skill_uris import SCHEME
from skillsearch.settings.values import is_url
from skillsearch.skills.example_requests import EvalFiles, ExampleBook
from skillsearch.skills.findings import Finding
from skillsearch.skills.metadata import regular_metadata
from skillsearch.system_errors import BUG
from skillsearch.text.safe_text import shorten
from skillsearch.types.json_values import JsonObject, text_of
from skillsearch.types.skills import SKILL_MD

_FILES = "/skills/"
_HOST = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_HEADERS = {"Cache-Control": "private, no-cache", "X-Content-Type-Options": "nosniff"}
_AS_A_FILE = {
    **_HEADERS,
    "Content-Disposition": "attachment",
    "Content-Security-Policy": "default-src 'none'; sandbox",
}
"""For files of skills, which a browser shall never show as a page of this server."""
_CODES = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 405: "INVALID_ARGUMENT"}
_CODES |= {429: "RATE_LIMIT_EXCEEDED", 501: "NOT_IMPLEMENTED"}
"""The draft's word for a status; for all others, an internal error."""

_T = TypeVar("_T")
_Answer: TypeAlias = Callable[[Request], Awaitable[Response]]


def registry_app(thread: LibraryThread, served: ServedLibrary, listener: Listener) -> ASGIApp:
    """Return the app that answers for a server; it uses its library in the thread alone."""
    site = _Registry(thread, served, listener)
    rows: list[tuple[str, str, _Answer]] = [
        ("/search", "POST", site.search),
        ("/explore", "POST", _explore),
        ("/agents", "GET", site.list),
        ("/agents/{identifier:path}", "GET", site.entry),
        (f"{_FILES}{{path:path}}", "GET", site.file),
        *((path, "GET", site.catalog) for path in CATALOGS),
    ]
    routes = [Route(path, _guarded(answer), methods=[verb]) for path, verb, answer in rows]
    return Starlette(routes=routes, exception_handlers={HTTPException: _refuse, Exception: _fail})


class _Registry:
    """The answers, by the skills that are published when they are asked for."""

    def __init__(self, thread: LibraryThread, served: ServedLibrary, listener: Listener) -> None:
        self._thread = thread
        self._served = served
        self._listener = listener
        self._publisher = publisher_of(listener.host)

    async def search(self, request: Request) -> Response:
        """Answer ``POST /search``: entries by how likely they are to help.

        While the first index is made, it waits for words at least, as the tools do.
        """
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise QueryError("The body has another Content-Type than application/json; send JSON.")
        wanted = registry.read_search(await request.body())
        if len(wanted.text.encode("utf-8", "replace")) > MAX_QUERY_BYTES:
            raise QueryError(
                f"query.text is longer than {MAX_QUERY_BYTES:,} bytes; say in a sentence what is "
                "to be done."
            )
        base = self._base(request.headers)

        def find(publisher: Publisher) -> JsonObject:
            skills = {skill.document.doc_id: skill for skill in publisher.skills}
            result = publisher.library.search(wanted.text, n=registry.MAX_HITS)
            results = (
                registry.result_of(entry, hit.score, state, base)
                for state, hits in (("fits", result.hits), ("perhaps", result.perhaps))
                for hit in hits
                if (skill := skills.get(hit.doc_id))
                and (entry := self._entry(publisher, skill, base))
            )
            return registry.search_answer(wanted, results)

        begun = anyio.current_time()
        while True:
            try:
                return _json(await self._ask(find))
            except IndexingError:
                if anyio.current_time() - begun > PATIENCE.most:
                    raise
            await anyio.sleep(INDEXING_SECONDS)

    async def list(self, request: Request) -> Response:
        """Answer ``GET /agents``: all entries, in pages."""
        wanted = registry.read_list(request.query_params.multi_items())
        base = self._base(request.headers)

        def page(publisher: Publisher) -> JsonObject:
            skills = self._by_identifier(publisher)
            listed = (
                registry.Listed(identifier, skill.document.name, MARKDOWN)
                for identifier, skill in skills.items()
            )

            def made(identifier: str) -> JsonObject | None:
                return self._entry(publisher, skills[identifier], base)

            return registry.list_answer(wanted, listed, made)

        return _json(await self._ask(page))

    async def entry(self, request: Request) -> Response:
        """Answer ``GET /agents/IDENTIFIER``: one entry whole."""
        identifier = request.path_params["identifier"]
        if not is_identifier(identifier):
            raise QueryError(
                f"{shorten(repr(identifier), 200)} is not an identifier; use the whole of one that "
                "a search tells, percent-encoded."
            )
        base = self._base(request.headers)

        def look(publisher: Publisher) -> JsonObject:
            skill = self._by_identifier(publisher).get(identifier)
            entry = skill and self._entry(publisher, skill, base)
            if not entry:
                raise SkillError(f"There is no {shorten(identifier, 200)}; list what there is.")
            return entry

        return _json(await self._ask(look))

    async def file(self, request: Request) -> Response:
        """Answer with a file of a skill."""
        # As it was sent: a path is decoded part by part.
        path = request.scope["raw_path"].decode("latin-1").removeprefix(_FILES)
        data = await self._ask(lambda publisher: publisher.read(SCHEME + path))
        is_skill_md = path.rpartition("/")[2] == SKILL_MD
        kind = "text/markdown; charset=utf-8" if is_skill_md else "application/octet-stream"
        return Response(data, headers=_AS_A_FILE, media_type=kind)

    async def catalog(self, request: Request) -> Response:
        """Answer with a catalog that tells of this registry."""
        entry = registry_entry(self._publisher, self._base(request.headers))
        return _json({"specVersion": SPEC_VERSION, "entries": [entry]})

    async def _ask(self, question: Callable[[Publisher], _T]) -> _T:
        return await self._thread.run(lambda: question(self._served.publisher()))

    def _base(self, headers: Headers) -> str:
        """Return the URL of this registry, as its client reaches it."""
        host = headers.get("host", "")
        is_anywhere = self._listener.authority is None and _HOST.fullmatch(host)
        return f"http://{host}/" if is_anywhere else f"{self._listener.origin}/"

    def _by_identifier(self, publisher: Publisher) -> dict[str, Published]:
        return {identifier_of(self._publisher, skill.path): skill for skill in publisher.skills}

    def _entry(self, publisher: Publisher, skill: Published, base: str) -> JsonObject | None:
        """Return the entry of a skill, or None if it cannot be published."""
        looked = publisher.look(skill)
        if isinstance(looked, Finding):
            return None
        root = publisher.library.root_of(skill.document)
        facts = {"skillUri": skill.uri, "trust": root.trust}
        published = PublishedSkill(
            path=skill.path,
            document=_with_examples(skill.document, looked.frontmatter),
            description=text_of(looked.frontmatter["description"]),
            url=base.rstrip("/") + _FILES + skill.uri.removeprefix(SCHEME),
            digest=looked.skill_md.digest,
            changed_ns=looked.skill_md.state.mtime_ns,
            facts=facts | ({"origin": root.origin} if is_url(root.origin) else {}),
        )
        return entry_of(published, self._publisher)


def _with_examples(document: Document, frontmatter: Frontmatter) -> Document:
    """Return a document with its example requests; a server of folders has read none."""
    if document.examples:
        return document
    metadata, _ = regular_metadata(dict(frontmatter), document.name, "")
    return replace(document, examples=ExampleBook().with_own(metadata, EvalFiles()))


async def _explore(_request: Request) -> Response:
    return _error(501, "This registry counts nothing; list its entries: GET /agents")


def _guarded(answer: _Answer) -> _Answer:
    """Return an answer whose known failures are those of the draft."""

    async def guarded(request: Request) -> Response:
        try:
            return await answer(request)
        except SkillSearchError as exc:
            status = 404 if isinstance(exc, SkillError) else 500
            return _error(400 if isinstance(exc, QueryError) else status, message_of(exc))
        except queue.Full:
            return _error(429, "Too many requests wait; ask again later.")
        except TimeoutError:
            return _error(500, "The answer took too long; ask again later.")

    return guarded


async def _refuse(_request: Request, exc: Exception) -> Response:
    status = exc.status_code if isinstance(exc, HTTPException) else 500
    return _error(
        status, "There is nothing here; ask POST /search or GET /agents, as the draft says."
    )


async def _fail(_request: Request, _exc: Exception) -> Response:
    return _error(500, f"{BUG}; its log says more.")


def _json(record: JsonObject) -> Response:
    return JSONResponse(record, headers=_HEADERS)


def _error(status: int, message: str) -> Response:
    record = registry.error_record(_CODES.get(status, "INTERNAL_ERROR"), message)
    return JSONResponse(record, status, headers=_HEADERS)
