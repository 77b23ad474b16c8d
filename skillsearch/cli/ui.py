"""``skillsearch ui``."""

from __future__ import annotations

import secrets
import webbrowser
from typing import TYPE_CHECKING

from skillsearch.cli import app
from skillsearch.cli.app import Asked, command, flag, option
from skillsearch.cli.output import say
from skillsearch.cli.selecting import selecting
from skillsearch.errors import require_installed
from skillsearch.index.opening import open_index

if TYPE_CHECKING:
    import anyio


@command("ui")
@app.index_dir
@app.threshold
@app.reader
@app.no_refresh
@selecting
@option("--port", "Port to listen on; 0 for any that is free.", type=app.Count(0, 65535), default=0)
@option("--reports FOLDER", "Show the pages that skillsearch eval --html has saved there.")
@flag("--open opens", "Open the page in the browser.")
def ui_command(asked: Asked) -> int:
    """Look at the skills in the browser.

    Pages to search as you type, for each skill, for families of near-copies, what hosts would cut,
    health and evaluation reports. They are served to this machine alone, at an address that nobody
    can guess and that is new each time. They load nothing from elsewhere; Ctrl-C ends it.
    """
    require_installed("ui", "The page", "starlette", "uvicorn", "jinja2")
    count = len(open_index(asked.settings))
    from skillsearch.mcp_server.connections import serve_app
    from skillsearch.mcp_server.listening import listen, run_server
    from skillsearch.ui.app import make_app
    from skillsearch.ui.pages import Pages

    listener, secret = listen("127.0.0.1", asked.port), secrets.token_urlsafe()
    pages = Pages(asked.settings, asked.reports)

    async def serve(stop: anyio.Event) -> None:
        await serve_app(make_app(pages, secret), listener, stop)

    url = f"{listener.origin}/{secret}/"
    say(f"{count:,} skills at {url}")
    if asked.opens:
        webbrowser.open(url)
    return run_server(serve)
