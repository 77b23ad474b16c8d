"""``skillsearch query``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from skillsearch.cli.asking import text_of
from skillsearch.cli.batch import Query, read_queries
from skillsearch.cli.explaining import channel_lines, explanation
from skillsearch.cli.opening import bring_up_to_date, open_index
from skillsearch.cli.options import (
    LOGGER,
    Count,
    backend_options,
    command,
    index_dir_option,
    json_option,
)
from skillsearch.cli.output import emit_json, emit_rows, is_terminal, say
from skillsearch.config import load_settings
from skillsearch.daemon import client
from skillsearch.daemon.client import read_search
from skillsearch.errors import DaemonError
from skillsearch.setting_values import MAX_N
from skillsearch.types import SYSTEMS

if TYPE_CHECKING:
    from skillsearch.config import Settings
    from skillsearch.types import SearchResult, System

_NEAR_CUTOFF = 0.75
"""Least similarity of a name that a misspelt one is taken for; two letters of ten may differ."""
_TOGETHER = 64
"""Queries of a batch that are embedded together."""
_TOLD = 10
"""Bad lines of a batch that are told one by one."""


@command("query")
@click.argument("words", nargs=-1, metavar="TEXT|-")
@click.option("-n", "n", type=Count(1, MAX_N), help="Hits at most. [default: 5]")
@click.option("--threshold", type=float, metavar="T", help="Lowest score, 0 to 1. [default: 0.3]")
@click.option(
    "--explain", is_flag=True, help="Say which channels had a vote, and why each hit has its score."
)
@index_dir_option
@click.option("--system", type=click.Choice(SYSTEMS), default="hybrid", help="How to rank.")
@click.option(
    "--batch",
    type=click.File("rb"),
    metavar="FILE|-",
    help='Ask many: JSON lines with "_id" and "text" in, one JSON object a line out.',
)
@click.option("--no-refresh", is_flag=True, help="Search the index as it is, changed or not.")
@backend_options
@click.option("--no-daemon", is_flag=True, help="Search in this process, daemon or not.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if nothing was found.")
@json_option
@click.pass_context
def query_command(
    context: click.Context,
    words: tuple[str, ...],
    n: int | None,
    threshold: float | None,
    explain: bool,
    index_dir: Path | None,
    system: System,
    batch: BinaryIO | None,
    no_refresh: bool,
    backend: str | None,
    uri: str | None,
    collection: str | None,
    no_daemon: bool,
    exit_code: bool,
    as_json: bool,
) -> None:
    """Find the skills that fit TEXT; "-" reads it from stdin.

    The score is the probability that a skill fits. Where none reaches the threshold the answer is
    none: a good answer. A few changed files are indexed first, which is told on stderr. Where the
    daemon runs, it searches.
    """
    settings = load_settings(
        n=n,
        threshold=threshold,
        index_dir=index_dir,
        refresh=False if no_refresh else None,
        daemon="off" if no_daemon else None,
        backend=backend,
        uri=uri,
        collection=collection,
    )
    queries, problems = _queries(words, batch)
    if settings.backend == "milvus":
        results = _search_milvus(queries, settings, system, explain)
    else:
        warm = None if batch else _ask_daemon(queries[0][1], settings, system, explain)
        results = _search(queries, settings, system, explain) if warm is None else iter([warm])
    found = False
    for (key, _), result in zip(queries, results, strict=True):
        found = found or bool(result)
        if batch:
            emit_json({"_id": key, **result.to_dict()})
        else:
            near = () if result else _near_names(result.query, settings)
            _show(result, near, as_json=as_json)
    if problems or (exit_code and not found):
        context.exit(1)


def _queries(words: Sequence[str], batch: BinaryIO | None) -> tuple[list[Query], list[str]]:
    """Gather what is asked, from the arguments, stdin or a file; tell which lines cannot be."""
    if bool(words) == bool(batch):
        raise click.UsageError(
            'Say what is to be done: skillsearch query "fill in a PDF form", or use --batch FILE; '
            "one of the two."
        )
    if batch:
        queries, problems = read_queries(batch, str(getattr(batch, "name", "<stdin>")))
        for problem in problems[:_TOLD]:
            say(f"warning: not asked: {problem}")
        if len(problems) > _TOLD:
            say(f"warning: {len(problems) - _TOLD:,} more lines were not asked")
        return queries, problems
    return [(None, text_of(words))], []


def _ask_daemon(
    query: str, settings: Settings, system: System, explain: bool
) -> SearchResult | None:
    """Have the daemon search; None where none runs, or it cannot."""
    if settings.daemon == "off":
        return None
    try:
        answer = client.ask(
            "search",
            seconds=client.QUERY_SECONDS,
            index_dir=str(settings.index_dir),
            query=query,
            n=settings.n,
            threshold=settings.threshold,
            system=system,
            explain=explain,
            refresh=settings.refresh,
        )
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
    queries: Sequence[Query], settings: Settings, system: System, explain: bool
) -> Iterator[SearchResult]:
    """Search in this process."""
    from skillsearch.reports.languages import tell_query_notice

    index = open_index(settings)
    if settings.refresh:
        bring_up_to_date(index)
    for begin in range(0, len(queries), _TOGETHER):
        texts = [text for _, text in queries[begin : begin + _TOGETHER]]
        for text in texts:
            notice = tell_query_notice(index, text)
            if notice:
                say(notice)
        yield from index.search_many(
            texts, n=settings.n, threshold=settings.threshold, system=system, explain=explain
        )


def _search_milvus(
    queries: Sequence[Query], settings: Settings, system: System, explain: bool
) -> Iterator[SearchResult]:
    """Search the index on a server."""
    from skillsearch.cli.remote import open_in_milvus

    with open_in_milvus(settings) as index:
        for _, text in queries:
            yield index.search(text, settings.n, settings.threshold, system=system, explain=explain)


def _near_names(query: str, settings: Settings) -> tuple[str, ...]:
    """Return the names that a query of one word may be a slip of; none in a large index."""
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
    if result.channels:
        _print_channels(result)
    if not result:
        say(
            f"No skill reaches the threshold {result.threshold:.2f}. Say it in other words, lower "
            "it (--threshold 0.1), or look at what there is: skillsearch list"
        )
        if near:
            say(f"Skills of a similar name: {', '.join(near)} (skillsearch show NAME)")
    elif is_terminal():
        from skillsearch.cli.tables import print_hits

        print_hits(result)
    else:
        _emit_plain(result)


def _print_channels(result: SearchResult) -> None:
    """Print which channels had a vote, and why."""
    lines = channel_lines(result.channels)
    if is_terminal():
        from skillsearch.cli.tables import print_rows

        print_rows(lines)
        click.echo()
    else:
        emit_rows(("", *line) for line in lines)


def _emit_plain(result: SearchResult) -> None:
    """Print one hit a line: rank, score, name, description, path, and its chunk where there is one.

    Explanations stand below it, in rows whose first column is empty.
    """
    for hit in result:
        chunk = [hit.chunk] if hit.chunk else []
        emit_rows([(hit.rank, f"{hit.score:.4f}", hit.name, hit.description, hit.path, *chunk)])
        if hit.explain:
            emit_rows(("", *pair) for pair in explanation(hit.explain))
