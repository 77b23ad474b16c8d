"""``skillsearch query`` and ``prompt``, and the full command line of ``skillsearch hook``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import click

from skillsearch.cli import options
from skillsearch.cli.app import refuse, request_text
from skillsearch.cli.hosts import hook
from skillsearch.cli.options import LOGGER, Setting, read_flags, read_settings
from skillsearch.cli.output import emit_json, emit_rows, is_terminal, say, with_header
from skillsearch.config import MAX_QUERY_CHARS, Settings
from skillsearch.daemon import client
from skillsearch.errors import DaemonError
from skillsearch.index.next_steps import index_option
from skillsearch.index.opening import answer_queries, near_names, open_fresh
from skillsearch.index.search.options import SearchOptions
from skillsearch.text.provenance import body_warning, left_out, shown_name, source_tag
from skillsearch.text.safe_text import counted, one_line
from skillsearch.text.states import MAY_FIT, ONLY_MAY_FIT
from skillsearch.types import (
    OVERVIEW_FORMATS,
    SYSTEMS,
    Hit,
    JsonObject,
    OverviewFormat,
    SearchResult,
    System,
)
from skillsearch.usage.recording import learn, log_of, record, record_load

if TYPE_CHECKING:
    from skillsearch.index.documents import Document
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.library.skill_library import SkillLibrary

Query = tuple[str | int | None, str]
"""Id and text of a query."""
Answer = tuple[SearchResult, tuple[str, ...], tuple[str, ...]]
"""A result, names that the query may misspell, and notes on the index for the user."""
_SHOWN_PROBLEMS = 10
_LINE_CHARS = 100  # of a skill that may fit, if no terminal says how wide a line is
_LOW_THRESHOLD = 0.1
_COLUMNS = ("rank", "score", "name", "description", "path", "chunk", "source")
_WHAT_TO_PROMPT = (
    'Say what to do: skillsearch prompt "fill in a PDF form", or use --all, or --load NAME.'
)
_NONE_OFFERED = "No skill fits, so none is offered. See: skillsearch query{}"
_FORM = '{"_id": "1", "text": "what is to be done"}'


@click.command("query")
@click.argument("words", nargs=-1, metavar="TEXT|-")
@options.n
@options.threshold
@options.reader
@click.option(
    "--explain",
    is_flag=True,
    help="Show why each hit has its score.",
)
@options.selecting
@options.index_dir
@click.option("--system", type=click.Choice(SYSTEMS), default="hybrid", help="How to rank.")
@click.option(
    "--batch",
    type=click.File("rb"),
    metavar="FILE|-",
    help='Ask many queries: JSON lines with "_id" and "text" in, one JSON object a line out.',
)
@options.no_refresh
@options.backend
@click.option(
    "--no-daemon",
    "daemon",
    cls=Setting,
    flag_value="off",
    help="Search in this process, even if the daemon runs.",
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 if nothing was found.")
@options.header
@options.as_json(lambda m: m.QUERY)
def query_command(
    words: tuple[str, ...],
    explain: bool,
    system: System,
    batch: BinaryIO | None,
    exit_code: bool,
    as_json: bool,
) -> int:
    """Find the skills that fit TEXT; "-" reads it from stdin.

    The score is the probability that a skill fits. Those below the threshold that may fit come
    last, a line each; if there is neither, the answer is that none fits. A few changed files are
    indexed first, with a note on stderr. If the daemon runs, it does the search.
    """
    settings = read_settings()
    refuse(
        bool(words) == bool(batch),
        'Say what to do: skillsearch query "fill in a PDF form", or use --batch FILE, not both.',
    )
    refuse(with_header() and batch, "--batch prints JSON, which has no --header.")
    how = replace(SearchOptions.of(settings), system=system, explain=explain, face="terminal")
    if batch:
        return _answer_batch(batch, settings, how, exit_code=exit_code)
    text = request_text(words)
    result, near, notes = ask_daemon(text, settings, how) or _search_one(text, settings, how)
    notes = (*notes, *([f"note: {settings.limits}"] if settings.limits else ()))
    for note in notes:
        say(note)
    _show((result, near, notes), settings, as_json=as_json)
    return int(exit_code and not result)


def _answer_batch(
    file: BinaryIO, settings: Settings, how: SearchOptions, *, exit_code: bool
) -> int:
    queries, problems = _read_batch(file)
    has_hits = False
    results = _search([text for _, text in queries], settings, how)
    for (key, _), result in zip(queries, results, strict=True):
        has_hits = has_hits or bool(result)
        emit_json({"_id": key, **result.to_dict()})
    return int(bool(problems) or (exit_code and not has_hits))


def _read_batch(file: BinaryIO) -> tuple[list[Query], int]:
    """Read the queries of a file, all before the first is asked; count the lines that are none."""
    name = str(getattr(file, "name", "<stdin>"))
    queries, problems = [], []
    for number, line in enumerate(file, start=1):
        if line.strip():
            try:
                queries.append(_parse_query(line))
            except ValueError as exc:
                problems.append(f"{name}:{number}: {exc}")
    if problems and not queries:
        raise click.UsageError(f"{problems[0]}. Each line has to be an object like {_FORM}")
    for problem in problems[:_SHOWN_PROBLEMS]:
        say(f"warning: not asked: {problem}")
    if not queries:
        say(f"warning: {name} holds no queries")
    if len(problems) > _SHOWN_PROBLEMS:
        say(f"warning: and {counted(len(problems) - _SHOWN_PROBLEMS, 'more line')}")
    return queries, len(problems)


def _parse_query(line: bytes) -> Query:
    """Read one line of a batch; raise ValueError if it is not a query."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"this is not JSON ({str(exc)[:80]})") from exc
    if not isinstance(record, dict):
        raise ValueError(f"this is not an object like {_FORM}")
    key, text = record.get("_id"), record.get("text")
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise ValueError('"_id" must be a text or a whole number')
    if not isinstance(text, str) or not text.strip():
        raise ValueError('"text" must be a text that is not empty')
    if len(text) > MAX_QUERY_CHARS:
        raise ValueError(f'"text" has {len(text):,} characters, more than {MAX_QUERY_CHARS:,}')
    return key, text


def ask_daemon(query: str, settings: Settings, how: SearchOptions) -> Answer | None:
    """Have the daemon search; None if none runs, or it cannot."""
    if settings.daemon == "off" or settings.backend == "milvus":
        return None
    try:
        question = client.search_question(
            query, settings.index_dir, how, refresh=settings.refresh, usage=_described(settings)
        )
        answer = client.ask("search", question, seconds=client.QUERY_SECONDS)
        return None if answer is None else client.read_search(answer)
    except DaemonError as exc:
        LOGGER.info("searching without the daemon: %s", exc)
        return None


def _described(settings: Settings) -> str:
    """Return the log that the settings ask for, as the daemon reads it."""
    log = log_of(settings)
    return str(log) if log else ""


def _search_one(text: str, settings: Settings, how: SearchOptions) -> Answer:
    notes: list[str] = []
    if settings.backend == "milvus":
        (result,) = _search([text], settings, how, notes.append)
        return result, (), tuple(notes)
    index, log = open_fresh(settings, notes.append), log_of(settings)
    learn(index, log)
    (result,) = answer_queries(index, [text], notes.append, how)
    record(log, index, result, "query", settings.selection)
    near = () if result else near_names(index, text, settings.selection)
    return result, near, tuple(notes)


def _search(
    texts: Sequence[str],
    settings: Settings,
    how: SearchOptions,
    tell: Callable[[str], object] = say,
) -> Iterator[SearchResult]:
    if settings.backend == "milvus":
        from skillsearch.cli.index import open_in_milvus

        with open_in_milvus(settings) as remote:
            yield from (remote.answer([text], how)[0] for text in texts)
        return
    yield from answer_queries(open_fresh(settings, tell), texts, tell, how)


def _show(answer: Answer, settings: Settings, *, as_json: bool) -> None:
    result, near, notes = answer
    option = index_option(settings.index_dir.absolute(), settings)
    if as_json:
        more = {"nearest": list(near), "notes": list(notes)}
        emit_json({**result.to_dict(), **{key: texts for key, texts in more.items() if texts}})
        return
    if not is_terminal():
        emit_rows(_hit_rows(result), _COLUMNS)
    if result.state == "none":
        is_low = result.threshold <= _LOW_THRESHOLD
        lower = "" if is_low else f", lower the threshold (--threshold {_LOW_THRESHOLD})"
        say(
            f"No skill reaches the threshold {result.threshold:.2f}. Rephrase the request{lower}, "
            f"or look at what there is: skillsearch list{option}"
        )
    elif is_terminal():
        from skillsearch.cli.tables import print_hits, print_perhaps

        print_hits(result)
        print_perhaps(result)
    else:
        _say_perhaps(result)
    if near:
        say(f"Skills with a similar name: {', '.join(near)} (skillsearch show NAME{option})")


def _say_perhaps(result: SearchResult) -> None:
    """Print what may fit on stderr, so that programs read on stdout only what fits."""
    if result.perhaps:
        say(f"{MAY_FIT if result else ONLY_MAY_FIT}:")
    for hit in result.perhaps:
        tag = f" {source_tag(hit)}" if source_tag(hit) else ""
        say(one_line(f"{shown_name(hit)} ({hit.score:.2f}){tag}: {hit.description}", _LINE_CHARS))


def _hit_rows(result: SearchResult) -> Iterator[tuple[object, ...]]:
    """Yield rank, score, name, description, path, any chunk and, in brackets, an unvetted source.

    Explanations have no rank. Below a header every column is there.
    """
    for hit in result:
        more: Iterable[str] = (hit.chunk, source_tag(hit))
        more = more if with_header() else filter(None, more)
        score, name = f"{hit.score:.4f}", shown_name(hit)
        yield hit.rank, score, name, hit.description, hit.path, *more
        if hit.explain:
            yield from (("", *pair) for pair in hit.explain.summary)


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
@click.option("--hook-states", hidden=True, help="Answer the hook; keep such answers as usage.")
@options.as_json(lambda m: m.each(str, "query prompt") | {"skills": [str], "fits": int} | m.OFFERED)
def prompt_command(
    words: tuple[str, ...],
    include_unvetted: bool,
    every_skill: bool,
    names: tuple[str, ...],
    required: bool,
    overview_format: OverviewFormat,
    hook_states: str | None,
    as_json: bool,
) -> None:
    """Print the skills for a request as part of a prompt.

    It offers the skills of vetted roots that fit TEXT, and those that may. It has their names,
    descriptions and locations; if none does, it is empty. With --load it also has the bodies of the
    loaded skills, whatever their root. All of it is safe to put into a prompt: nothing in a skill
    can hide in it or close its element.
    """
    from skillsearch.agents import prompt as prompts
    from skillsearch.library.skill_library import SkillLibrary

    _check_prompt(words, names, every_skill=every_skill, required=required)
    settings = read_settings()
    index, text = open_fresh(settings, say), request_text(words)
    library = SkillLibrary.of_index(index, settings.selection)
    offer = _Offer()
    if every_skill:
        offer = _Offer.of_all(library, include_unvetted=include_unvetted)
    elif words:
        offer = _offer(index, text, settings, hook_states, include_unvetted=include_unvetted)
    skills = [prompts.offered(library, skill) for skill in offer.skills]
    bodies = _bodies(library, names, required=required)
    _record_loads(settings, index, library, names)
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
    """Refuse what asks for nothing, or for two things."""
    refuse((every_skill and words) or not any((words, every_skill, names)), _WHAT_TO_PROMPT)
    refuse(required and not names, "--required is for the skills of --load NAME.")


class _Offer(NamedTuple):
    """The skills that a prompt offers, how many of them fit, and how many others are unvetted."""

    skills: Sequence[Document | Hit] = ()
    fits: int = 0
    unvetted: int = 0

    @classmethod
    def of_all(cls, library: SkillLibrary, *, include_unvetted: bool) -> _Offer:
        """Return the skills to offer whatever the request."""
        documents = library.list()
        if include_unvetted:
            return cls(documents)
        vetted = [each for each in documents if library.root_of(each).trust == "vetted"]
        return cls(vetted, unvetted=len(documents) - len(vetted))

    def to_dict(self, library: SkillLibrary) -> JsonObject:
        """Return the JSON form."""
        from skillsearch.agents import prompt as prompts

        offers = prompts.render_offers(library, self.skills)
        return {"offers": offers, "fits": self.fits, "unvetted": self.unvetted}


def _answer(
    index: SkillIndex, text: str, settings: Settings, *, include_unvetted: bool
) -> SearchResult:
    """Search for what a model may be offered."""
    vetted_only, how = not include_unvetted, SearchOptions.of(settings)
    how = replace(how, include_hidden=False, vetted_only=vetted_only, face="prompt")
    learn(index, log_of(settings))
    (answer,) = answer_queries(index, [text], say, how)
    return answer


def _offer(
    index: SkillIndex,
    text: str,
    settings: Settings,
    hook_states: str | None,
    *,
    include_unvetted: bool,
) -> _Offer:
    """Search for what a prompt may offer; keep the answer, one for the hook only in some states."""
    answer = _answer(index, text, settings, include_unvetted=include_unvetted)
    log, is_hook = log_of(settings), hook_states is not None
    is_shadow = is_hook and settings.hook_mode == "shadow"
    if hook_states is None or answer.state in hook_states.split(","):
        face = "hook" if is_hook else "prompt"
        record(log, index, answer, face, settings.selection, is_shadow=is_shadow)
    if is_shadow:
        return _Offer(fits=len(answer.hits))
    return _Offer(answer.shown, len(answer.hits), answer.unvetted)


def _record_loads(
    settings: Settings, index: SkillIndex, library: SkillLibrary, names: Sequence[str]
) -> None:
    for name in names:
        skill = library.find(name).doc_id
        record_load(log_of(settings), index, skill, "prompt", settings.selection)


def _bodies(library: SkillLibrary, names: Sequence[str], *, required: bool) -> list[str]:
    loaded = _required_before(library, names) if required else names
    return [_body(library, name) for name in loaded]


def _required_before(library: SkillLibrary, names: Sequence[str]) -> list[str]:
    """Return the ids of the named skills, each behind those that it requires."""
    order = library.load_order([library.find(name).doc_id for name in names])
    for missing in order.missing:
        say(f"warning: {missing.needed_by} requires {missing.requirement}, which is not there")
    for cycle in order.cycles:
        say(f"warning: these require each other: {' -> '.join((*cycle, cycle[0]))}")
    return [document.doc_id for document in order.order]


def _body(library: SkillLibrary, name: str) -> str:
    from skillsearch.agents import prompt as prompts
    from skillsearch.skills.chunks import parse_chunks

    loaded = library.load(name)
    body = parse_chunks(loaded.skill.body)
    root = library.root_of(loaded.skill)
    text = prompts.render_body(
        loaded.skill.name,
        body.core,
        directory=str(loaded.folder),
        files=loaded.files,
        files_truncated=loaded.files_truncated,
        note=body_warning(root.trust, root.origin),
    )
    chunks = prompts.render_chunks([(chunk.id, chunk.description) for chunk in body.chunks])
    return f"{text}\n{chunks}" if chunks else text


@click.command("hook")
@click.option(
    "--client",
    type=options.Choice(hook.CLIENTS),
    help="The host to answer. [default: by the name of its event]",
)
@options.index_dir
@options.include_unvetted
def hook_command(client: str | None, include_unvetted: bool) -> None:
    """Answer a host's prompt hook with fitting skills.

    Reads the host's event from stdin, JSON with a "prompt", or for the client text the mere prompt,
    and prints up to three skills in the form that the host adds to the prompt; nothing if none
    fits. It offers those of vetted roots, and says how many others fit. Errors are a line on
    stderr: a prompt waits two seconds at most and is never blocked. Starts the daemon, so that the
    next prompt waits less.
    """
    index_dir = read_flags()["index_dir"]
    # A caller that runs us in its own process may grant more time, or less.
    seconds = click.get_current_context().obj or hook.SECONDS
    folder = str(index_dir) if index_dir else None
    hook.run(client, folder, seconds, include_unvetted=include_unvetted)
