"""``skillsearch find``, ``ui`` and ``completion``: for a person who types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from skillsearch.cli import options
from skillsearch.cli.app import refuse, request_text
from skillsearch.cli.options import read_settings
from skillsearch.cli.output import is_terminal, say
from skillsearch.errors import SkillSearchError, require_installed
from skillsearch.index.opening import open_fresh, open_index
from skillsearch.settings.config import Settings
from skillsearch.settings.environ import INTERRUPTED
from skillsearch.text.safe_text import counted, visible
from skillsearch.types.answers import Hit, SearchResult

if TYPE_CHECKING:
    import anyio

    from skillsearch.index.skill_index import SkillIndex

_PRINTED: dict[str, Callable[[SkillIndex, Hit], str]] = {
    "folder": lambda _index, hit: str(Path(hit.path).parent),
    "path": lambda _index, hit: hit.path,
    "name": lambda _index, hit: hit.handle or visible(hit.name),
    "body": lambda index, hit: visible(index.get(hit.doc_id).body),
}
_COMPLETION: dict[str, tuple[type[ShellComplete], str]] = {
    "bash": (BashComplete, '~/.bashrc: eval "$(skillsearch completion bash)"'),
    "zsh": (ZshComplete, '~/.zshrc: eval "$(skillsearch completion zsh)"'),
    "fish": (FishComplete, "~/.config/fish/config.fish: skillsearch completion fish | source"),
}


@click.command("find")
@click.argument("words", nargs=-1, metavar="[TEXT]")
@click.option(
    "--print",
    "printed",
    type=click.Choice(tuple(_PRINTED)),
    default="folder",
    help="What Enter prints: the skill's folder (default), path of SKILL.md, name or body.",
)
@options.n
@options.threshold
@options.reader
@options.selecting
@options.index_dir
@options.no_refresh
def find_command(words: tuple[str, ...], printed: str) -> int:
    """Pick a skill on the terminal.

    As you type, it lists the skills that fit, then those that may, and shows the chosen one. Enter
    prints its folder on stdout, and nothing else goes there: cd "$(skillsearch find)". Esc and
    Ctrl-C leave with 130. In scripts, use "skillsearch query".
    """
    require_installed("find", "A picker", "prompt_toolkit")
    from skillsearch.cli import picker

    settings = read_settings()
    refuse(settings.backend == "milvus", "find needs an index on this machine; use query.")
    index = open_fresh(settings, say)
    head = f"{counted(len(index), 'skill')}."
    chooser = picker.Picker(_searches(index, settings), partial(_read_body, index), head)
    try:
        with picker.terminal() as (keys, screen):
            hit = chooser.pick(request_text(words), keys, screen)
    except OSError as exc:
        advice = "find needs a terminal; in scripts, use: skillsearch query TEXT"
        raise click.UsageError(advice) from exc
    if hit is None:
        return INTERRUPTED
    text = _PRINTED[printed](index, hit)
    click.echo(visible(text) if is_terminal() else text)
    return 0


def _searches(index: SkillIndex, settings: Settings) -> list[Callable[[str], SearchResult]]:
    """Return the searches as somebody types: without a reader first, then with the one wanted."""
    return [
        partial(
            index.search,
            n=settings.n,
            threshold=settings.threshold,
            selection=settings.selection,
            explain=True,
            face="terminal",
            reader=reader,
        )
        for reader in dict.fromkeys(("off", settings.reader))
    ]


def _read_body(index: SkillIndex, doc_id: str) -> str:
    try:
        return index.get(doc_id).body
    except (SkillSearchError, OSError) as exc:
        return f"(cannot be read: {exc})"


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
    type=click.Path(exists=True, file_okay=False, path_type=Path),
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

    listener, secret = listen("127.0.0.1", port), secrets.token_urlsafe()
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


@click.command("completion")
@click.argument("shell", type=click.Choice(tuple(_COMPLETION)))
def completion_command(shell: str) -> None:
    """Print the completion script for a shell.

    It completes commands, options and skill names.

    \b
    bash, in ~/.bashrc:    eval "$(skillsearch completion bash)"
    zsh, in ~/.zshrc:      eval "$(skillsearch completion zsh)"
    fish, in config.fish:  skillsearch completion fish | source
    """  # noqa: D301 - click reads the control character, not its escape
    kind, line = _COMPLETION[shell]
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "skillsearch", "_SKILLSEARCH_COMPLETE").source())
    if is_terminal():
        say(f"Add to {line}")
