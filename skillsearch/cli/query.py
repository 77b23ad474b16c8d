"""``skillsearch query``: find the skills that fit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import BinaryIO

import click

from skillsearch.cli import options
from skillsearch.cli.app import refuse, request_text
from skillsearch.cli.options import SettingOption, read_settings
from skillsearch.cli.output import emit_json, emit_rows, is_terminal, say, with_header
from skillsearch.daemon.searching import search, search_many
from skillsearch.errors import UnusableError
from skillsearch.index.next_steps import index_option
from skillsearch.index.search.options import SearchOptions
from skillsearch.settings.config import limits_of
from skillsearch.settings.table import Settings
from skillsearch.settings.values import MAX_QUERY_CHARS
from skillsearch.text.provenance import shown_name, source_tag
from skillsearch.text.safe_text import counted, one_line
from skillsearch.text.states import MAY_FIT, ONLY_MAY_FIT
from skillsearch.types.answers import SYSTEMS, QueryAnswer, SearchResult, System

Query = tuple[str | int | None, str]
"""Id and text of a query."""
_SHOWN_PROBLEMS = 10
_LINE_CHARS = 100  # of a skill that may fit, if no terminal says how wide a line is
_LOW_THRESHOLD = 0.1
_COLUMNS = ("rank", "score", "name", "description", "path", "chunk", "source")
_FORM = '{"_id": "1", "text": "what is to be done"}'


@click.command("query")
@click.argument("words", nargs=-1, metavar="TEXT|-")
@options.n
@options.threshold
@options.reader
@click.option("--explain", is_flag=True, help="Show why each hit has its score.")
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
    cls=SettingOption,
    flag_value="off",
    help="Search in this process, even if the daemon runs.",
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 if nothing was found.")
@options.header
@options.as_json(lambda: options.models.QUERY)
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
    answer = search(text, settings, how)
    if limits := limits_of(settings):
        answer = answer._replace(notes=(*answer.notes, f"note: {limits}"))
    for note in answer.notes:
        say(note)
    _show(answer, settings, as_json=as_json)
    return int(exit_code and not answer.result)


def _answer_batch(
    file: BinaryIO, settings: Settings, how: SearchOptions, *, exit_code: bool
) -> int:
    queries, problems = _read_batch(file)
    has_hits = False
    results = search_many([text for _, text in queries], settings, how, say)
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
    """Read one line of a batch; an UnusableError if it is not a query."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise UnusableError(f"this is not JSON ({str(exc)[:80]})") from exc
    if not isinstance(record, dict):
        raise UnusableError(f"this is not an object like {_FORM}")
    key, text = record.get("_id"), record.get("text")
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise UnusableError('"_id" must be a text or a whole number')
    if not isinstance(text, str) or not text.strip():
        raise UnusableError('"text" must be a text that is not empty')
    if len(text) > MAX_QUERY_CHARS:
        raise UnusableError(f'"text" has {len(text):,} characters, more than {MAX_QUERY_CHARS:,}')
    return key, text


def _nothing_fits(result: SearchResult, option: str) -> str:
    from skillsearch.text.exclusions import split_request  # reads tables
    from skillsearch.text.languages import language_of

    if not split_request(result.query, language_of(result.query)).wanted:
        return "The request says only what not to use. Say what it is for."
    is_low = result.threshold <= _LOW_THRESHOLD
    lower = "" if is_low else f", lower the threshold (--threshold {_LOW_THRESHOLD})"
    return (
        f"No skill reaches the threshold {result.threshold:.2f}. Rephrase the request{lower}, "
        f"or look at what there is: skillsearch list{option}"
    )


def _show(answer: QueryAnswer, settings: Settings, *, as_json: bool) -> None:
    result, nearest, notes = answer
    option = index_option(settings.index_dir.absolute(), settings)
    if as_json:
        more = {"nearest": list(nearest), "notes": list(notes)}
        emit_json({**result.to_dict(), **{key: texts for key, texts in more.items() if texts}})
        return
    if not is_terminal():
        emit_rows(_hit_rows(result), _COLUMNS)
    if result.state == "none":
        say(_nothing_fits(result, option))
    elif is_terminal():
        from skillsearch.cli.tables import print_hits, print_perhaps

        print_hits(result)
        print_perhaps(result)
    else:
        _say_perhaps(result)
    if nearest:
        say(f"Skills with a similar name: {', '.join(nearest)} (skillsearch show NAME{option})")


def _say_perhaps(result: SearchResult) -> None:
    """Print skills that may fit on stderr, so that programs read on stdout only those that fit."""
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
