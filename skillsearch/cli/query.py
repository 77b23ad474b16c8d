"""``skillsearch query`` and ``prompt``, and the full command line of ``skillsearch hook``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING, BinaryIO

import click

from skillsearch.cli import app, hook
from skillsearch.cli.app import Asked, command, flag, option, refuse, repeatable, setting_flag
from skillsearch.cli.output import emit_json, emit_rows, is_terminal, say, show_rows, with_header
from skillsearch.cli.selecting import selecting
from skillsearch.config import MAX_QUERY_CHARS, Settings
from skillsearch.daemon import client
from skillsearch.errors import DaemonError
from skillsearch.index.opening import answer_queries, near_names, open_fresh, open_index
from skillsearch.text.provenance import body_warning, left_out, shown_name, source_tag
from skillsearch.text.safe_text import counted, one_line
from skillsearch.text.states import MAY_FIT, ONLY_MAY_FIT
from skillsearch.types import SYSTEMS, Hit, JsonValue, SearchResult

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
FORMATS = ("xml", "markdown", "json")
"""Of an overview; repeated here, so that ``query`` does not import what renders them."""
_LOW_THRESHOLD = 0.1
_COLUMNS = ("rank", "score", "name", "description", "path", "chunk", "source")
_FORM = '{"_id": "1", "text": "what is to be done"}'


@command("query")
@click.argument("words", nargs=-1, metavar="TEXT|-")
@app.n
@app.threshold
@app.reader
@flag("--explain", "Show which channels had a vote, and why each hit has its score.")
@selecting
@app.index_dir
@option("--system", "How to rank.", type=click.Choice(SYSTEMS), default="hybrid")
@option(
    "--batch FILE|-",
    'Ask many queries: JSON lines with "_id" and "text" in, one JSON object a line out.',
    type=click.File("rb"),
)
@app.no_refresh
@app.backend
@setting_flag("--no-daemon daemon", "off", "Search in this process, even if the daemon runs.")
@flag("--exit-code", "Exit with 1 if nothing was found.")
@app.header
@app.as_json
def query_command(asked: Asked) -> int:
    """Find the skills that fit TEXT; "-" reads it from stdin.

    The score is the probability that a skill fits. Those below the threshold that may fit come
    last, a line each; if there is neither, the answer is that none fits. A few changed files are
    indexed first, with a note on stderr. If the daemon runs, it does the search.
    """
    settings = asked.settings
    refuse(
        bool(asked.words) == bool(asked.batch),
        'Say what to do: skillsearch query "fill in a PDF form", or use --batch FILE, not both.',
    )
    refuse(asked.header and asked.batch, "--batch prints JSON, which has no --header.")
    how: dict[str, JsonValue] = {"n": settings.n, "threshold": settings.threshold}
    how |= {"system": asked.system, "explain": asked.explain, "reader": settings.reader}
    how |= {"selection": settings.selection, "face": "terminal"}
    if asked.batch:
        queries, problems = _read_batch(asked.batch)
        found = False
        results = _search([text for _, text in queries], settings, how)
        for (key, _), answer in zip(queries, results, strict=True):
            found = found or bool(answer)
            emit_json({"_id": key, **answer.to_dict()})
        return 1 if problems or (asked.exit_code and not found) else 0
    text = app.request_text(asked.words)
    result, near, notes = ask_daemon(text, settings, how) or _search_one(text, settings, how)
    notes = (*notes, *([f"note: {settings.limits}"] if settings.limits else ()))
    for note in notes:
        say(note)
    _show((result, near, notes), as_json=asked.as_json)
    return 1 if asked.exit_code and not result else 0


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
        record: JsonValue = json.loads(line)
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


def ask_daemon(query: str, settings: Settings, how: dict[str, JsonValue]) -> Answer | None:
    """Have the daemon search; None if none runs, or it cannot."""
    if settings.daemon == "off" or settings.backend == "milvus":
        return None
    place = {"index_dir": str(settings.index_dir), "refresh": settings.refresh}
    try:
        answer = client.ask("search", seconds=client.QUERY_SECONDS, query=query, **place, **how)
        return None if answer is None else client.read_search(answer)
    except DaemonError as exc:
        app.LOGGER.info("searching without the daemon: %s", exc)
        return None


def _search_one(text: str, settings: Settings, how: dict[str, JsonValue]) -> Answer:
    notes: list[str] = []
    (result,) = _search([text], settings, how, notes.append)
    is_lost = not result and settings.backend != "milvus"
    near = near_names(open_index(settings), text, settings.selection) if is_lost else ()
    return result, near, tuple(notes)


def _search(
    texts: Sequence[str],
    settings: Settings,
    how: dict[str, JsonValue],
    tell: Callable[[str], object] = say,
) -> Iterator[SearchResult]:
    if settings.backend == "milvus":
        from skillsearch.cli.index import open_in_milvus

        with open_in_milvus(settings) as remote:
            yield from (remote.search(text, **how) for text in texts)
        return
    yield from answer_queries(open_fresh(settings, tell), texts, tell, **how)


def _show(answer: Answer, *, as_json: bool) -> None:
    result, near, notes = answer
    if as_json:
        more = {"nearest": list(near), "notes": list(notes)}
        emit_json({**result.to_dict(), **{key: texts for key, texts in more.items() if texts}})
        return
    votes = [("channel", f"{one.channel} {one.trust:.2f}: {one.reason}") for one in result.channels]
    if not is_terminal():
        emit_rows([*(("", *vote) for vote in votes), *_hit_rows(result)], _COLUMNS)
    elif votes:
        show_rows(votes)
        click.echo()
    if result.state == "none":
        is_low = result.threshold <= _LOW_THRESHOLD
        lower = "" if is_low else f", lower the threshold (--threshold {_LOW_THRESHOLD})"
        say(
            f"No skill reaches the threshold {result.threshold:.2f}. Rephrase the request{lower}, "
            "or look at what there is: skillsearch list"
        )
    elif is_terminal():
        from skillsearch.cli.tables import print_hits, print_perhaps

        print_hits(result)
        print_perhaps(result)
    else:
        _say_perhaps(result)
    if near:
        say(f"Skills with a similar name: {', '.join(near)} (skillsearch show NAME)")


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
            yield from (("", *pair) for pair in hit.explain.told)


@command("prompt")
@click.argument("words", nargs=-1, metavar="TEXT|-")
@app.n
@app.threshold
@app.reader
@flag("--include-unvetted", "Offer skills of roots that nobody has vouched for, too.")
@flag("--all everything", "List every skill, whatever the request.")
@repeatable("--load names NAME", "Add the body of a skill. Repeatable.")
@flag("--required", "With --load: add the skills they require, before them.")
@selecting
@option("--format form", "Format of the overview.", type=click.Choice(FORMATS), default="xml")
@app.index_dir
@app.no_refresh
@app.as_json
def prompt_command(asked: Asked) -> None:
    """Print the skills for a request as part of a prompt.

    It offers the skills of vetted roots that fit TEXT, and those that may. It has their names,
    descriptions and locations; if none does, it is empty. With --load it also has the bodies of the
    loaded skills, whatever their root. All of it is safe to put into a prompt: nothing in a skill
    can hide in it or close its element.
    """
    from skillsearch.agents import prompt as prompts

    refuse(
        (asked.everything and asked.words) or not any((asked.words, asked.everything, asked.names)),
        'Say what to do: skillsearch prompt "fill in a PDF form", or use --all, or --load NAME.',
    )
    index = open_fresh(asked.settings, say)
    text = app.request_text(asked.words)
    library, found, fits, unvetted = _offer(index, asked, text)
    skills = [prompts.offered(library, one) for one in found]
    bodies = [_body(library, name) for name in _names(library, asked)]
    overview = prompts.render_overview(skills, asked.form) if skills or not bodies else ""
    prompt = "\n\n".join(filter(None, [overview, *bodies]))
    if asked.as_json:
        record = {"query": text, "skills": [skill.name for skill in skills], "prompt": prompt}
        offers = prompts.render_offers(library, found)
        emit_json({**record, "offers": offers, "fits": fits, "unvetted": unvetted})
    elif prompt:
        click.echo(prompt)
    if text and not skills:
        say("No skill fits, so none is offered. See: skillsearch query")
    if not asked.as_json:
        say(left_out(unvetted))


def _offer(
    index: SkillIndex, asked: Asked, text: str
) -> tuple[SkillLibrary, Sequence[Document | Hit], int, int]:
    """Return the skills to offer, how many fit, and how many were left out as not vouched for."""
    from skillsearch.library.skill_library import SkillLibrary

    keys = ("n", "threshold", "reader", "selection")
    how = {key: getattr(asked.settings, key) for key in keys}
    how |= {"include_hidden": False, "vetted_only": not asked.include_unvetted, "face": "prompt"}
    answers = list(answer_queries(index, [text] if asked.words else [], say, **how))
    unvetted = sum(answer.unvetted for answer in answers)
    library = SkillLibrary.of_index(index)
    library.selection = asked.settings.selection
    found: Sequence[Document | Hit] = [hit for answer in answers for hit in answer.shown]
    if asked.everything:
        everything = library.list()
        is_vetted = (library.root_of(one).trust == "vetted" for one in everything)
        is_offered = [asked.include_unvetted or vetted for vetted in is_vetted]
        found, unvetted = list(compress(everything, is_offered)), is_offered.count(False)
    return library, found, sum(len(answer.hits) for answer in answers), unvetted


def _names(library: SkillLibrary, asked: Asked) -> Sequence[str]:
    """Return the names of the skills to load, with --required behind those they require."""
    if not asked.required:
        return tuple(asked.names)
    order = library.load_order([library.find(name).doc_id for name in asked.names])
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


@command("hook")
@option(
    "--client",
    "The host to answer. [default: by the name of its event]",
    type=app.Choice(hook.CLIENTS),
)
@app.index_dir
@flag("--include-unvetted", "Offer skills of roots that nobody has vouched for, too.")
def hook_command(asked: Asked) -> None:
    """Answer a host's prompt hook with fitting skills.

    Reads the host's event from stdin, JSON with a "prompt", or for the client text the mere prompt,
    and prints up to three skills in the form that the host adds to the prompt; nothing if none
    fits. It offers those of vetted roots, and says how many others fit. Errors are a line on
    stderr: a prompt waits two seconds at most and is never blocked. Starts the daemon, so that the
    next prompt waits less.
    """
    folder = asked.flags["index_dir"]
    # A caller that runs us in its own process may grant more time, or less.
    seconds = click.get_current_context().obj or hook.SECONDS
    place, include = str(folder) if folder else None, asked.include_unvetted
    hook.run(asked.client, place, seconds, include_unvetted=include)
