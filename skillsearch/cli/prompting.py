"""``skillsearch prompt``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.agents.prompt import (
    OVERVIEW_FORMATS,
    OverviewFormat,
    PromptSkill,
    render_body,
    render_chunks,
    render_overview,
)
from skillsearch.cli.asking import text_of
from skillsearch.cli.opening import bring_up_to_date, open_index
from skillsearch.cli.options import Count, command, index_dir_option, json_option
from skillsearch.cli.output import emit_json, say
from skillsearch.config import load_settings
from skillsearch.setting_values import MAX_N

if TYPE_CHECKING:
    from skillsearch.index.documents import Document
    from skillsearch.library.skill_library import SkillLibrary
    from skillsearch.types import Hit


@command("prompt")
@click.argument("words", nargs=-1, metavar="TEXT|-")
@click.option("-n", "n", type=Count(1, MAX_N), help="Skills at most. [default: 5]")
@click.option("--threshold", type=float, metavar="T", help="Lowest score, 0 to 1. [default: 0.3]")
@click.option("--all", "everything", is_flag=True, help="List every skill, whatever the request.")
@click.option(
    "--load", "names", multiple=True, metavar="NAME", help="Add the body of a skill. Repeatable."
)
@click.option("--required", is_flag=True, help="With --load: also what those skills need, first.")
@click.option(
    "--format", "form", type=click.Choice(OVERVIEW_FORMATS), default="xml", help="Of the overview."
)
@index_dir_option
@click.option("--no-refresh", is_flag=True, help="Use the index as it is, changed or not.")
@json_option
def prompt_command(
    words: tuple[str, ...],
    n: int | None,
    threshold: float | None,
    everything: bool,
    names: tuple[str, ...],
    required: bool,
    form: OverviewFormat,
    index_dir: Path | None,
    no_refresh: bool,
    as_json: bool,
) -> None:
    """Print the part of a system prompt that offers the skills that fit TEXT.

    That is their names, descriptions and places; where none fits, nothing. With --load also what
    loaded skills say. All of it is safe to put into a prompt: nothing in a skill can hide in it or
    close its element.
    """
    from skillsearch.library.skill_library import SkillLibrary

    if (everything and words) or not (words or everything or names):
        raise click.UsageError(
            'Say what is to be done: skillsearch prompt "fill in a PDF form", or use --all, or '
            "--load NAME."
        )
    refresh = False if no_refresh else None
    settings = load_settings(n=n, threshold=threshold, index_dir=index_dir, refresh=refresh)
    index = open_index(settings)
    if settings.refresh:
        bring_up_to_date(index)
    library = SkillLibrary.of_index(index)
    text = text_of(words)
    found: Sequence[Document | Hit] = library.list() if everything else ()
    if words:
        found = library.search(text, settings.n, settings.threshold)
    skills = [PromptSkill(library.handle(d), d.description, d.path) for d in found]
    loaded = _with_required(library, names) if required else names
    parts = [render_overview(skills, form)] if skills or not names else []
    parts += [_body(library, name) for name in loaded]
    _show(text, skills, "\n\n".join(filter(None, parts)), as_json=as_json)


def _show(text: str, skills: Sequence[PromptSkill], prompt: str, *, as_json: bool) -> None:
    """Print the prompt; where a request found nothing, say so."""
    if as_json:
        emit_json({"query": text, "skills": [skill.name for skill in skills], "prompt": prompt})
    elif prompt:
        click.echo(prompt)
    if text and not skills:
        say("No skill reaches the threshold, so none is offered; look with: skillsearch query")


def _with_required(library: SkillLibrary, names: Sequence[str]) -> Sequence[str]:
    """Return skills and what they need in the order to load them in; tell what is amiss."""
    order = library.load_order([library.find(name).doc_id for name in names])
    for missing in order.missing:
        say(f"warning: {missing.needed_by} needs {missing.requirement}, which is not there")
    for cycle in order.cycles:
        say(f"warning: these need each other: {' -> '.join((*cycle, cycle[0]))}")
    return [document.doc_id for document in order.order]


def _body(library: SkillLibrary, name: str) -> str:
    """Render the body of a skill that was asked for by name, and which chunks it leaves out."""
    from skillsearch.skills.chunks import parse_chunks

    loaded = library.load(name)
    body = parse_chunks(loaded.skill.body)
    text = render_body(
        loaded.skill.name,
        body.core,
        directory=str(loaded.folder),
        files=loaded.files,
        files_truncated=loaded.files_truncated,
    )
    chunks = render_chunks([(chunk.id, chunk.description) for chunk in body.chunks])
    return f"{text}\n{chunks}" if chunks else text
