"""``skillsearch find``: pick a skill on the terminal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli import options
from skillsearch.cli.app import refuse, request_text
from skillsearch.cli.options import read_settings
from skillsearch.cli.output import is_terminal, say
from skillsearch.errors import SkillSearchError, require_installed
from skillsearch.index.opening import open_fresh
from skillsearch.settings.environ import INTERRUPTED
from skillsearch.settings.table import Settings
from skillsearch.text.safe_text import counted, visible
from skillsearch.types.answers import Hit, SearchResult
from skillsearch.usage.recording import learn, log_of, record, record_load

if TYPE_CHECKING:
    from skillsearch.index.skill_index import SkillIndex

_PRINTED: dict[str, Callable[[SkillIndex, Hit], str]] = {
    "folder": lambda _index, hit: str(Path(hit.path).parent),
    "path": lambda _index, hit: hit.path,
    "name": lambda _index, hit: hit.handle or visible(hit.name),
    "body": lambda index, hit: visible(index.get(hit.doc_id).body),
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
    from skillsearch.cli.interactive import picker

    settings = read_settings()
    refuse(settings.is_remote, "find needs an index on this machine; use query.")
    index, log = open_fresh(settings, say), log_of(settings, "find")
    learn(index, log)
    head = f"{counted(len(index), 'skill')}."
    chooser = picker.Picker(_searches(index, settings), partial(_read_body, index), head)
    try:
        with picker.terminal() as (keys, screen):
            hit = chooser.pick(request_text(words), keys, screen)
    except OSError as exc:
        advice = "find needs a terminal; in scripts, use: skillsearch query TEXT"
        raise click.UsageError(advice) from exc
    if chooser.standing is not None:
        record(log, index, chooser.standing, settings.selection)
    if hit is None:
        return INTERRUPTED
    record_load(log, index, hit.doc_id, settings.selection)
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
