"""``skillsearch ui``: the pages in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli import options
from skillsearch.cli.options import read_settings
from skillsearch.cli.output import say
from skillsearch.errors import require_installed
from skillsearch.index.opening import open_index
from skillsearch.text.safe_text import counted

if TYPE_CHECKING:
    import anyio


@click.command("ui")
@options.index_dir
@options.threshold
@options.reader
@options.no_refresh
@options.selecting
@click.option(
    "--port",
    type=options.Count(0, 65535),
    default=0,
    help="Port to listen on; 0 for any that is free.",
)
@click.option(
    "--reports",
    type=options.NamedPath(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Show the pages that skillsearch eval --html has saved there.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
def ui_command(port: int, reports: Path | None, opens: bool) -> int:
    """Look at the skills in the browser.

    Pages to search as you type, for each skill, for families of near-copies, what hosts would cut,
    health and evaluation reports. They are served to this machine alone, at an address that nobody
    can guess and that is new each time. They load nothing from elsewhere; Ctrl-C ends it.
    """
    require_installed("ui", "The page", "starlette", "uvicorn", "jinja2")
    settings = read_settings()
    count = len(open_index(settings))
    import secrets

    from skillsearch.mcp_server.connections import serve_app
    from skillsearch.mcp_server.listening import listen, run_server
    from skillsearch.ui.app import make_app
    from skillsearch.ui.pages import Pages

    listener = listen("127.0.0.1", port)
    secret = secrets.token_urlsafe()
    pages = Pages(settings, reports)
    url = f"{listener.origin}/{secret}/"

    async def serve(stop: anyio.Event) -> None:
        with _opened(url) if opens else nullcontext():
            await serve_app(make_app(pages, secret), listener, stop)

    say(f"{counted(count, 'skill')} at {url}")
    return run_server(serve)


@contextmanager
def _opened(url: str) -> Iterator[None]:
    """Open a secret address in the browser, by a file that is there as long as it is served.

    What a browser is started with is there for all users to read; the file is not.
    """
    import tempfile
    import webbrowser

    with tempfile.NamedTemporaryFile("w", prefix="skillsearch-", suffix=".html") as page:
        page.write(f'<meta http-equiv="refresh" content="0; url={url}">')
        page.flush()
        webbrowser.open(Path(page.name).as_uri())
        yield
