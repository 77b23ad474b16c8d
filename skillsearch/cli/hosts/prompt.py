"""``skillsearch prompt``, and the full command line of ``skillsearch hook``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from skillsearch.cli import options
from skillsearch.cli.app import refuse, request_text
from skillsearch.cli.hosts import hook
from skillsearch.cli.options import read_flags, read_settings
from skillsearch.cli.output import emit_json, say
from skillsearch.index.next_steps import index_option
from skillsearch.index.opening import open_fresh
from skillsearch.settings.table import Settings
from skillsearch.text.provenance import body_warning, left_out
from skillsearch.types.skills import OVERVIEW_FORMATS, OverviewFormat
from skillsearch.usage.recording import log_of, record_load

if TYPE_CHECKING:
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.library.skill_library import SkillLibrary

_NONE_OFFERED = "No skill fits, so none is offered. See: skillsearch query{}"
_WHAT_TO_PROMPT = (
    'Say what to do: skillsearch prompt "fill in a PDF form", or use --all, or --load NAME.'
)


@click.command("prompt")
@click.argument("words", nargs=-1, metavar="TEXT|-")
@options.n
@options.threshold
@options.reader
@options.include_unvetted
@click.option("--all", "every_skill", is_flag=True, help="List every skill, whatever the request.")
@click.option(
    "--load", "names", multiple=True, metavar="NAME", help="Add the body of a skill. Repeatable."
)
@click.option(
    "--required", is_flag=True, help="With --load: add the skills they require, before them."
)
@options.selecting
@click.option(
    "--format",
    "overview_format",
    type=click.Choice(OVERVIEW_FORMATS),
    default="xml",
    help="Format of the overview.",
)
@options.index_dir
@options.no_refresh
@click.option(
    "--hook-states",
    "states",
    hidden=True,
    type=lambda text: text.split(","),
    help="Answer the hook; keep such answers as usage.",
)
@options.as_json(lambda: options.models.PROMPT)
def prompt_command(
    words: tuple[str, ...],
    include_unvetted: bool,
    every_skill: bool,
    names: tuple[str, ...],
    required: bool,
    overview_format: OverviewFormat,
    states: list[str] | None,
    as_json: bool,
) -> None:
    """Print the skills for a request as part of a prompt.

    It offers the skills of vetted roots that fit TEXT, and those that may. It has their names,
    descriptions and locations; if none does, it is empty. With --load it also has the bodies of the
    loaded skills, whatever their root. All of it is safe to put into a prompt: nothing in a skill
    can hide in it or close its element.
    """
    from skillsearch.agents import prompt as prompts
    from skillsearch.agents.offer import Offer
    from skillsearch.library.skill_library import SkillLibrary

    _check_prompt(words, names, every_skill=every_skill, required=required)
    settings = read_settings()
    index, text = open_fresh(settings, say), request_text(words)
    library = SkillLibrary.of_index(index, settings.selection)
    offer, vetted_only = Offer(), not include_unvetted
    if every_skill:
        offer = Offer.of_all(library, vetted_only=vetted_only)
    elif words:
        offer = Offer.of_request(index, text, settings, say, states, vetted_only=vetted_only)
    skills = [prompts.offered(library, skill) for skill in offer.skills]
    bodies = _load(settings, index, library, names, required=required)
    overview = prompts.render_overview(skills, overview_format) if skills or not bodies else ""
    prompt = "\n\n".join(filter(None, [overview, *bodies]))
    if as_json:
        head = {"query": text, "skills": [skill.name for skill in skills], "prompt": prompt}
        emit_json({**head, **offer.to_dict(library)})
    elif prompt:
        click.echo(prompt)
    if text and not skills:
        say(_NONE_OFFERED.format(index_option(index.folder, settings)))
    say("" if as_json else left_out(offer.unvetted, index_option(index.folder, settings)))


def _check_prompt(
    words: Sequence[str], names: Sequence[str], *, every_skill: bool, required: bool
) -> None:
    """Refuse options that ask for nothing, or for two things."""
    refuse((every_skill and words) or not any((words, every_skill, names)), _WHAT_TO_PROMPT)
    refuse(required and not names, "--required is for the skills of --load NAME.")


def _load(
    settings: Settings,
    index: SkillIndex,
    library: SkillLibrary,
    names: Sequence[str],
    *,
    required: bool,
) -> list[str]:
    """Return the bodies of skills, and before them of those they require; keep that as usage."""
    loaded = _required_before(library, names) if required else names
    bodies = [_body(library, name) for name in loaded]
    for name in names:
        skill = library.find(name).doc_id
        record_load(log_of(settings, "prompt"), index, skill, settings.selection)
    return bodies


def _required_before(library: SkillLibrary, names: Sequence[str]) -> list[str]:
    """Return the ids of the named skills, each behind those that it requires."""
    order = library.load_order([library.find(name).doc_id for name in names])
    for missing in order.missing:
        say(f"warning: {missing.needed_by} requires {missing.requirement}, which is not there")
    for cycle in order.cycles:
        say(f"warning: these require each other: {' -> '.join((*cycle, cycle[0]))}")
    return [document.doc_id for document in order.order]


def _body(library: SkillLibrary, name: str) -> str:
    from skillsearch.agents import bounds
    from skillsearch.agents import prompt as prompts
    from skillsearch.skills.chunks import parse_chunks

    loaded = library.load(name)
    body = parse_chunks(loaded.skill.body)
    root, in_file = library.root_of(loaded.skill), f"the rest is in {loaded.skill.path.name}"
    text = prompts.render_body(
        loaded.skill.name,
        bounds.page(body.core, then=in_file),
        directory=str(loaded.folder),
        files=loaded.files,
        files_truncated=loaded.files_truncated,
        note=body_warning(root.trust, root.origin),
    )
    chunks = [(chunk.id, chunk.description) for chunk in body.chunks]
    chunks, left_out = bounds.first(chunks, "chunk", in_file)
    return "\n".join(filter(None, [text, prompts.render_chunks(chunks), *left_out]))


@click.command("hook")
@click.option(
    "--client",
    "host",
    type=options.Choice(hook.HOSTS),
    help="The host to answer. [default: by the name of its event]",
)
@options.index_dir
@options.include_unvetted
def hook_command(host: str | None, include_unvetted: bool) -> None:
    """Answer a host's prompt hook with fitting skills.

    Reads the host's event from stdin, JSON with a "prompt", or with --client text the mere prompt,
    and prints up to three skills in the form that the host adds to the prompt; nothing if none
    fits. It offers those of vetted roots, and says how many others fit. Errors are a line on
    stderr: a prompt waits two seconds at most and is never blocked. Starts the daemon, so that the
    next prompt waits less.
    """
    index_dir = read_flags()["index_dir"]
    # A caller that runs us in its own process may grant more time, or less.
    seconds: float = click.get_current_context().obj or hook.SECONDS
    folder = str(index_dir) if index_dir else None
    hook.run(host, folder, seconds, include_unvetted=include_unvetted)
