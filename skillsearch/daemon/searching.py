"""Searches where the settings say: by the daemon, in Milvus, or in this process."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from logging import INFO, WARNING

from skillsearch.daemon import client
from skillsearch.errors import DaemonError
from skillsearch.index.opening import Tell, answer_queries, answer_query, open_fresh
from skillsearch.index.search.options import SearchOptions
from skillsearch.settings.table import Settings
from skillsearch.types.answers import QueryAnswer, SearchResult
from skillsearch.usage.recording import learn, log_of, record

logger = logging.getLogger(__name__)


def search(query: str, settings: Settings, options: SearchOptions) -> QueryAnswer:
    """Search for one request and record it as usage; raises what opening the index does."""
    return ask_daemon(query, settings, options) or _search_here(query, settings, options)


def ask_daemon(query: str, settings: Settings, options: SearchOptions) -> QueryAnswer | None:
    """Have the daemon search; None if none runs, or it cannot."""
    if settings.daemon == "off" or settings.is_remote:
        return None
    try:
        question = client.search_question(
            query,
            settings.index_dir,
            options,
            refresh=settings.refresh,
            usage=str(log_of(settings, "query") or ""),
        )
        answer = client.ask("search", question, seconds=client.QUERY_SECONDS)
        return None if answer is None else client.read_search(answer)
    except DaemonError as exc:
        # Nobody should wait without being told what for.
        is_late = isinstance(exc.__cause__, TimeoutError)
        logger.log(WARNING if is_late else INFO, "searching without the daemon: %s", exc)
        return None


def _search_here(query: str, settings: Settings, options: SearchOptions) -> QueryAnswer:
    notes = list[str]()
    log = log_of(settings, "query")
    if settings.is_remote:
        from skillsearch.remote.opening import open_in_milvus

        with open_in_milvus(settings) as remote:
            learn(remote, log)
            (result,) = remote.answer([query], options)
            record(log, remote, result, options.selection)
        return QueryAnswer(result, (), ())
    index = open_fresh(settings, notes.append)
    result, nearest = answer_query(index, query, options, notes.append, log)
    return QueryAnswer(result, nearest, tuple(notes))


def search_many(
    queries: Sequence[str], settings: Settings, options: SearchOptions, tell: Tell
) -> Iterator[SearchResult]:
    """Yield the answer to each request, in this process; nothing is recorded."""
    if settings.is_remote:
        from skillsearch.remote.opening import open_in_milvus

        with open_in_milvus(settings) as remote:
            yield from (remote.answer([query], options)[0] for query in queries)
        return
    yield from answer_queries(open_fresh(settings, tell), queries, tell, options)
