"""``skillsearch query``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

import click

from skillsearch.cli.options import (
    LOGGER,
    Flags,
    backend_options,
    command,
    index_dir_option,
    json_option,
    n_option,
    no_refresh_option,
    request_text,
    setting,
    threshold_option,
)
from skillsearch.cli.output import emit_json, emit_rows, is_terminal, say, show_rows
from skillsearch.config import MAX_QUERY_CHARS, load_settings
from skillsearch.daemon import client
from skillsearch.daemon.client import read_search
from skillsearch.errors import DaemonError
from skillsearch.index.opening import bring_up_to_date, open_index
from skillsearch.types import SYSTEMS, JsonValue

if TYPE_CHECKING:
    from skillsearch.config import Settings
    from skillsearch.types import SearchResult, System

Query = tuple[str | int | None, str]
"""Id and text of a query."""
_NEAR_CUTOFF = 0.75
"""Minimum similarity of a name that a misspelt one is taken for; two letters of ten may differ."""
_TOGETHER = 64
"""Queries of a batch that are embedded together."""
_SHOWN_PROBLEMS = 10
_FORM = '{"_id": "1", "text": "what is to be done"}'


@command("query")
@click.argument("words", nargs=-1, metavar="TEXT|-")
@n_option
@threshold_option
@click.option(
    "--explain",
    is_flag=True,
    help="Show which channels had a vote, and why each hit has its score.",
)
@index_dir_option
@click.option("--system", type=click.Choice(SYSTEMS), default="hybrid", help="How to rank.")
@click.option(
    "--batch",
    type=click.File("rb"),
    metavar="FILE|-",
    help='Ask many queries: JSON lines with "_id" and "text" in, one JSON object a line out.',
)
@no_refresh_option
@backend_options
@setting(
    "--no-daemon",
    "daemon",
    is_flag=True,
    callback=lambda _context, _option, value: "off" if value else None,
    help="Search in this process, even if the daemon runs.",
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 if nothing was found.")
@json_option
@click.pass_context
def query_command(
    context: click.Context,
    flags: Flags,
    words: tuple[str, ...],
    explain: bool,
    system: System,
    batch: BinaryIO | None,
    exit_code: bool,
    as_json: bool,
) -> None:
    """Find the skills that fit TEXT; "-" reads it from stdin.

    The score is the probability that a skill fits. If none reaches the threshold, the answer is
    that none fits. A few changed files are indexed first, with a note on stderr. If the daemon
    runs, it does the search.
    """
    settings = load_settings(**flags)
    if bool(words) == bool(batch):
        raise click.UsageError(
            'Say what to do: skillsearch query "fill in a PDF form", or use --batch FILE, not both.'
        )
    queries: list[Query] = [] if batch else [(None, request_text(words))]
    problems = _read_batch(batch, queries) if batch else []
    found = False
    results = _answers(queries, settings, system, explain=explain, is_batch=bool(batch))
    for (key, _), result in zip(queries, results, strict=True):
        found = found or bool(result)
        if batch:
            emit_json({"_id": key, **result.to_dict()})
        else:
            near = () if result else _near_names(result.query, settings)
            _show(result, near, as_json=as_json)
    if problems or (exit_code and not found):
        context.exit(1)


def _read_batch(file: BinaryIO, queries: list[Query]) -> list[str]:
    """Add the queries of a file, all checked before the first is asked; return what is wrong."""
    name = str(getattr(file, "name", "<stdin>"))
    problems = []
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
    if len(problems) > _SHOWN_PROBLEMS:
        say(f"warning: {len(problems) - _SHOWN_PROBLEMS:,} more lines were not asked")
    return problems


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


def _answers(
    queries: Sequence[Query], settings: Settings, system: System, *, explain: bool, is_batch: bool
) -> Iterator[SearchResult]:
    """Search in Milvus, by the daemon or in this process; a batch is never for the daemon."""
    options: dict[str, JsonValue] = {"n": settings.n, "threshold": settings.threshold}
    options |= {"system": system, "explain": explain}
    if settings.backend == "milvus":
        from skillsearch.cli.index import open_in_milvus

        with open_in_milvus(settings) as index:
            for _, text in queries:
                yield index.search(text, **options)
        return
    warm = None if is_batch else _ask_daemon(queries[0][1], settings, options)
    if warm is None:
        yield from _search([text for _, text in queries], settings, options)
    else:
        yield warm


def _ask_daemon(
    query: str, settings: Settings, options: dict[str, JsonValue]
) -> SearchResult | None:
    """Have the daemon search; None if none runs, or it cannot."""
    if settings.daemon == "off":
        return None
    place = str(settings.index_dir)
    asked = {"index_dir": place, "query": query, "refresh": settings.refresh, **options}
    try:
        answer = client.ask("search", seconds=client.QUERY_SECONDS, **asked)
        if answer is None:
            return None
        result, notes = read_search(answer)
    except DaemonError as exc:
        LOGGER.info("searching without the daemon: %s", exc)
        return None
    for note in notes:
        say(note)
    return result


def _search(
    texts: Sequence[str], settings: Settings, options: dict[str, JsonValue]
) -> Iterator[SearchResult]:
    """Search in this process."""
    from skillsearch.reports.languages import tell_query_notice

    index = open_index(settings)
    if settings.refresh:
        say(bring_up_to_date(index))
    for begin in range(0, len(texts), _TOGETHER):
        some = texts[begin : begin + _TOGETHER]
        for text in some:
            say(tell_query_notice(index, text))
        yield from index.search_many(some, **options)


def _near_names(query: str, settings: Settings) -> tuple[str, ...]:
    """Return names that a query of one word may be a misspelling of; none in a large index."""
    from skillsearch.index.names import nearest_names
    from skillsearch.index.opening import MAX_CHECKED_SKILLS

    if len(query.split()) > 1 or settings.backend == "milvus":
        return ()
    index = open_index(settings)
    if len(index) > MAX_CHECKED_SKILLS:
        return ()
    return nearest_names(query, index.documents(), cutoff=_NEAR_CUTOFF)


def _show(result: SearchResult, near: Sequence[str], *, as_json: bool) -> None:
    """Print the answer to one query, and the names that may have been meant."""
    if as_json:
        emit_json({**result.to_dict(), **({"nearest": list(near)} if near else {})})
        return
    _show_channels(result)
    if not result:
        say(
            f"No skill reaches the threshold {result.threshold:.2f}. Rephrase the request, lower "
            "the threshold (--threshold 0.1), or look at what there is: skillsearch list"
        )
        if near:
            say(f"Skills with a similar name: {', '.join(near)} (skillsearch show NAME)")
    elif is_terminal():
        from skillsearch.cli.tables import print_hits

        print_hits(result)
    else:
        _emit_plain(result)


def _show_channels(result: SearchResult) -> None:
    """Print how far each channel is trusted, and why."""
    votes = [
        ("channel", f"{vote.channel} {vote.trust:.2f}: {vote.reason}") for vote in result.channels
    ]
    if not is_terminal():
        emit_rows(("", *vote) for vote in votes)
    elif votes:
        show_rows(votes)
        click.echo()


def _emit_plain(result: SearchResult) -> None:
    """Print one hit a line: rank, score, name, description, path, and its chunk if there is one.

    Explanations follow, in rows whose first column is empty.
    """
    for hit in result:
        chunk = [hit.chunk] if hit.chunk else []
        emit_rows([(hit.rank, f"{hit.score:.4f}", hit.name, hit.description, hit.path, *chunk)])
        if hit.explain:
            from skillsearch.cli.tables import explanation

            emit_rows(("", *pair) for pair in explanation(hit.explain))
