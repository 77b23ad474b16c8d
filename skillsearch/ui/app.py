"""The pages over HTTP: routes, headers, errors and templates.

Everything lies below a secret path. Whoever does not know it gets nothing, so that no other page
can ask for anything, and no cookie is needed. Pages load and send nothing beyond this server.
"""

from __future__ import annotations

import hmac
import logging
import queue
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skillsearch.errors import QueryError, SkillError, SkillSearchError
from skillsearch.rendering.html_page import STYLE, load_templates
from skillsearch.skills.folders import repository_of
from skillsearch.system_errors import unexpected
from skillsearch.text.provenance import shown_name, source_tag
from skillsearch.ui.pages import WINDOW, Pages

logger = logging.getLogger(__name__)

_HERE = Path(__file__).parent
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # it would tell the secret
    "X-Content-Type-Options": "nosniff",
}
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
"""For saved pages: they bring their styles, and can do nothing."""
_OUTSIDE = "Open the address that skillsearch ui has printed; it is a new one each time.\n"
_BUSY = "Earlier requests still take all the time; reload the page in a moment."


View: TypeAlias = Callable[[Mapping[str, str]], Awaitable[Mapping[str, object]]]
"""A page, by the parameters of its address, which are empty if they are not there."""
Respond: TypeAlias = Callable[[Request], Awaitable[Response]]


def make_app(pages: Pages, secret: str) -> ASGIApp:
    """Return the app that shows pages below the path of a secret."""
    site = _Site(pages)
    below = Mount(f"/{secret}", routes=site.routes())
    return _Hidden(Starlette(routes=[below], exception_handlers={HTTPException: site.fail}), secret)


class _Site:
    """The routes of the pages and their templates."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._templates = load_templates(
            _HERE / "templates",
            {"tag": source_tag, "shown": shown_name, "repository": repository_of},
        )

    def routes(self) -> list[BaseRoute]:
        """Return all routes, relative to the secret."""
        pages, run = self._pages, self._pages.searching.run
        views: dict[str, View] = {
            "search": lambda parameters: run(
                pages.search, parameters["q"], parameters["from"], refresh=True, submitted=True
            ),
            "results": lambda parameters: run(
                pages.search,
                parameters["q"],
                parameters["from"],
                read=parameters["read"] == "1",
                submitted=parameters["submitted"] == "1",
            ),
            "skill": lambda parameters: run(
                pages.skill, parameters["id"], answers=parameters["answers"] == "1"
            ),
            "file": lambda parameters: run(
                pages.file, parameters["id"], parameters["path"], _whole(parameters["offset"])
            ),
            "families": lambda _: run(pages.families),
            "map": lambda _: run(pages.map),
            "hosts": lambda parameters: pages.hosts(_whole(parameters["window"], WINDOW)),
            "health": lambda _: pages.health(),
            "audit": lambda _: pages.audit(),
            "reports": lambda _: run(pages.report_list),
        }
        answers: dict[str, Respond] = {
            name: partial(self._answer, name, view) for name, view in views.items()
        }
        answers |= {"report": self._report, "map.json": self._map, "page.css": _page_css}
        static = Mount("/static", StaticFiles(directory=_HERE / "static"))
        paths = {name: f"/{name}" for name in answers} | {"search": "/"}
        routes = (Route(paths[name], self._guarded(answer)) for name, answer in answers.items())
        return [*routes, static]

    def _guarded(self, answer: Respond) -> Respond:
        async def guarded(request: Request) -> Response:
            try:
                return await answer(request)
            except Exception as exc:  # noqa: BLE001 - the last line of defence: a page
                return await self.fail(request, exc)

        return guarded

    async def _answer(self, name: str, view: View, request: Request) -> Response:
        return self._render(name, await view(defaultdict(str, request.query_params)))

    async def _report(self, request: Request) -> Response:
        name = request.query_params.get("name", "")
        content = await self._pages.aside.run(self._pages.report, name)
        return HTMLResponse(content, headers={"Content-Security-Policy": _REPORT_POLICY})

    async def _map(self, _request: Request) -> Response:
        record = await self._pages.map_record()
        status = 202 if record is None else 200
        return Response(record or b"{}", status, media_type="application/json")

    async def fail(self, _request: Request, error: Exception) -> Response:
        """Return a page that says what went wrong."""
        status, message = 500, str(error)
        if isinstance(error, HTTPException):
            status, message = error.status_code, "There is no such page."
        elif isinstance(error, TimeoutError | queue.Full):
            status, message = 503, _BUSY
        elif isinstance(error, SkillError | QueryError):
            status = 404 if isinstance(error, SkillError) else 400
        elif not isinstance(error, SkillSearchError):
            logger.debug("A page failed", exc_info=error)
            message = unexpected(error)
        return self._render("error", {"message": message}, status)

    def _render(self, name: str, shown: Mapping[str, object], status: int = 200) -> Response:
        template = self._templates.get_template(f"{name}.html")
        return HTMLResponse(template.render(shown, page=name), status)


async def _page_css(_request: Request) -> Response:
    return FileResponse(STYLE)


def _whole(text: str, default: int = 0) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default


class _Hidden:
    """Passes on what knows the secret, and adds our headers to every answer."""

    def __init__(self, app: ASGIApp, secret: str) -> None:
        self._app = app
        self._secret = secret.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        secret = scope["path"].split("/")[1].encode("utf-8", "replace")
        # Compared in constant time.
        is_known = hmac.compare_digest(secret, self._secret)
        app = self._app if is_known else PlainTextResponse(_OUTSIDE, 404)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await app(scope, receive, send_with_headers)
