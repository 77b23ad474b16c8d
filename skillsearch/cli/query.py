"""``skillsearch query``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

import click

from skillsearch.cli import options
from skillsearch.cli.output import emit_json, emit_rows, is_terminal, say, show_rows
from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.daemon import client
from skillsearch.errors import DaemonError
from skillsearch.index.opening import MAX_CHECKED_SKILLS, answer_queries, open_index
from skillsearch.types import SYSTEMS, JsonValue

if TYPE_CHECKING:
    from skillsearch.config import Settings
    from skillsearch.types import SearchResult

Query = tuple[str | int | None, str]
"""Id and text of a query."""
_NEAR_CUTOFF = 0.75
"""Minimum similarity of a name that a misspelt one is taken for; two letters of ten may differ."""
_SHOWN_PROBLEMS = 10
_FORM = '{"_id": "1", "text": "what is to be done"}'


@options.command("query")
@click.argument("words", nargs=-1, metavar="TEXT|-")
@options.n
@options.threshold
@options.flag("--explain", "Show which channels had a vote, and why each hit has its score.")
@options.index_dir
@options.option("--system", "How to rank.", type=click.Choice(SYSTEMS), default="hybrid")
@options.option(
    "--batch FILE|-",
    'Ask many queries: JSON lines with "_id" and "text" in, one JSON object a line out.',
    type=click.File("rb"),
)
@options.no_refresh
@options.backend
@options.setting_flag(
    "--no-daemon daemon", "off", "Search in this process, even if the daemon runs."
)
@options.flag("--exit-code", "Exit with 1 if nothing was found.")
@options.as_json
def query_command(asked: options.Asked) -> int:
    """Find the skills that fit TEXT; "-" reads it from stdin.

    The score is the probability that a skill fits. If none reaches the threshold, the answer is
    that none fits. A few changed files are indexed first, with a note on stderr. If the daemon
    runs, it does the search.
    """
    settings = asked.settings
    if bool(asked.words) == bool(asked.batch):
        raise click.UsageError(
            'Say what to do: skillsearch query "fill in a PDF form", or use --batch FILE, not both.'
        )
    queries: list[Query] = [] if asked.batch else [(None, options.request_text(asked.words))]
    problems = _read_batch(asked.batch, queries) if asked.batch else []
    how = {"n": settings.n, "threshold": settings.threshold}
    how |= {"system": asked.system, "explain": asked.explain}
    texts = [text for _, text in queries]
    warm = None if asked.batch else ask_daemon(texts[0], settings, how)
    found = False
    results = _search(texts, settings, how) if warm is None else iter([warm])
    for (key, _), result in zip(queries, results, strict=True):
        found = found or bool(result)
        if asked.batch:
            emit_json({"_id": key, **result.to_dict()})
        else:
            near = () if result else _near_names(result.query, settings)
            _show(result, near, as_json=asked.as_json)
    return 1 if problems or (asked.exit_code and not found) else 0


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


def ask_daemon(
    query: str,
    settings: Settings,
    how: dict[str, JsonValue],
    *,
    seconds: float = client.QUERY_SECONDS,
) -> SearchResult | None:
    """Have the daemon search; None if none runs, or it cannot."""
    if settings.daemon == "off" or settings.backend == "milvus":
        return None
    place = {"index_dir": str(settings.index_dir), "refresh": settings.refresh}
    try:
        answer = client.ask("search", seconds=seconds, query=query, **place, **how)
        if answer is None:
            return None
        result, notes = client.read_search(answer)
    except DaemonError as exc:
        options.LOGGER.info("searching without the daemon: %s", exc)
        return None
    for note in notes:
        say(note)
    return result


def _search(
    texts: Sequence[str], settings: Settings, how: dict[str, JsonValue]
) -> Iterator[SearchResult]:
    """Search in Milvus or in this process."""
    if settings.backend == "milvus":
        from skillsearch.cli.index import open_in_milvus

        with open_in_milvus(settings) as remote:
            yield from (remote.search(text, **how) for text in texts)
        return
    index = open_index(settings)
    yield from answer_queries(index, texts, say, refresh=settings.refresh, **how)


def _near_names(query: str, settings: Settings) -> tuple[str, ...]:
    """Return names that a query of one word may be a misspelling of; none in a large index."""
    from skillsearch.index.names import nearest_names

    if len(query.split()) > 1 or settings.backend == "milvus":
        return ()
    index = open_index(settings)
    if len(index) > MAX_CHECKED_SKILLS:
        return ()
    return nearest_names(query, index.documents(), cutoff=_NEAR_CUTOFF)


def _show(result: SearchResult, near: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        emit_json({**result.to_dict(), **({"nearest": list(near)} if near else {})})
        return
    votes = [
        ("channel", f"{vote.channel} {vote.trust:.2f}: {vote.reason}") for vote in result.channels
    ]
    if not is_terminal():
        emit_rows(("", *vote) for vote in votes)
    elif votes:
        show_rows(votes)
        click.echo()
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
        # Rank, score, name, description, path, and a chunk if there is one; explanations follow,
        # in rows whose first column is empty.
        for hit in result:
            chunk = [hit.chunk] if hit.chunk else []
            emit_rows([(hit.rank, f"{hit.score:.4f}", hit.name, hit.description, hit.path, *chunk)])
            if hit.explain:
                from skillsearch.cli.tables import explanation

                emit_rows(("", *pair) for pair in explanation(hit.explain))
