"""``skillsearch prompt``, and the full command line of ``skillsearch hook``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skillsearch.agents.prompt import (
    OVERVIEW_FORMATS,
    PromptSkill,
    render_body,
    render_chunks,
    render_overview,
)
from skillsearch.cli import hook, options
from skillsearch.cli.output import emit_json, say
from skillsearch.index.opening import answer_queries, open_index

if TYPE_CHECKING:
    from skillsearch.index.documents import Document
    from skillsearch.library.skill_library import SkillLibrary
    from skillsearch.types import Hit


@options.command("prompt")
@click.argument("words", nargs=-1, metavar="TEXT|-")
@options.n
@options.threshold
@options.flag("--all everything", "List every skill, whatever the request.")
@options.repeatable("--load names NAME", "Add the body of a skill. Repeatable.")
@options.flag("--required", "With --load: add the skills they require, before them.")
@options.option(
    "--format form", "Format of the overview.", type=click.Choice(OVERVIEW_FORMATS), default="xml"
)
@options.index_dir
@options.no_refresh
@options.as_json
def prompt_command(asked: options.Asked) -> None:
    """Print the fitting skills as part of a prompt.

    It offers the skills that fit TEXT. It has their names, descriptions and locations; if none
    fits, it is empty. With --load it also has the bodies of the loaded skills. All of it is safe to
    put into a prompt: nothing in a skill can hide in it or close its element.
    """
    from skillsearch.library.skill_library import SkillLibrary

    if (asked.everything and asked.words) or not (asked.words or asked.everything or asked.names):
        raise click.UsageError(
            'Say what to do: skillsearch prompt "fill in a PDF form", or use --all, or --load NAME.'
        )
    settings = asked.settings
    index = open_index(settings)
    text = options.request_text(asked.words)
    results = answer_queries(
        index,
        [text] if asked.words else [],
        say,
        refresh=settings.refresh,
        n=settings.n,
        threshold=settings.threshold,
        include_hidden=False,
    )
    hits = [hit for result in results for hit in result]
    library = SkillLibrary.of_index(index)
    found: Sequence[Document | Hit] = library.list() if asked.everything else hits
    skills = [PromptSkill(library.handle(d), d.description, d.path) for d in found]
    loaded = _with_required(library, asked.names) if asked.required else asked.names
    parts = [render_overview(skills, asked.form)] if skills or not asked.names else []
    parts += [_body(library, name) for name in loaded]
    prompt = "\n\n".join(filter(None, parts))
    if asked.as_json:
        emit_json({"query": text, "skills": [skill.name for skill in skills], "prompt": prompt})
    elif prompt:
        click.echo(prompt)
    if text and not skills:
        say("No skill reaches the threshold, so none is offered. See: skillsearch query")


def _with_required(library: SkillLibrary, names: Sequence[str]) -> Sequence[str]:
    """Return skills and those they require in load order; warn of missing ones and cycles."""
    order = library.load_order([library.find(name).doc_id for name in names])
    for missing in order.missing:
        say(f"warning: {missing.needed_by} requires {missing.requirement}, which is not there")
    for cycle in order.cycles:
        say(f"warning: these require each other: {' -> '.join((*cycle, cycle[0]))}")
    return [document.doc_id for document in order.order]


def _body(library: SkillLibrary, name: str) -> str:
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


class NeverBlocking(click.Command):
    """A command that exits with 1 on wrong usage: hosts take 2 for "block the prompt"."""

    def make_context(self, *args: Any, **given: Any) -> click.Context:
        """Read the arguments."""
        try:
            return super().make_context(*args, **given)
        except click.UsageError as exc:
            exc.exit_code = 1  # type: ignore[misc]  # click declares it for the class
            raise


@options.command("hook", NeverBlocking)
@options.option(
    "--client",
    "The host to answer. [default: by the name of its event]",
    type=click.Choice(hook.CLIENTS),
)
@options.index_dir
def hook_command(asked: options.Asked) -> None:
    """Answer a host's prompt hook with fitting skills.

    Reads the host's event from stdin, JSON with a "prompt", and prints up to three skills in the
    form that the host adds to the prompt; nothing if none fits. Errors are a line on stderr: a
    prompt waits two seconds at most and is never blocked. Starts the daemon, so that the next
    prompt waits only a tenth of a second.
    """
    folder: Path | None = asked.flags["index_dir"]
    hook.run(asked.client, str(folder) if folder else None)
