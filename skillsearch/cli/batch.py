"""Many queries from one file of JSON lines, all checked before the first is asked."""

from __future__ import annotations

import json
from typing import BinaryIO

import click

from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.types import JsonValue

Query = tuple[str | int | None, str]
"""Id and text of a query."""
_FORM = '{"_id": "1", "text": "what is to be done"}'


def read_queries(file: BinaryIO, name: str) -> tuple[list[Query], list[str]]:
    """Read and check all queries of a file.

    Args:
        file: JSON lines, each an object with ``_id`` and ``text``; empty lines are passed over.
        name: What to call the file in errors.

    Returns:
        The queries in the order of their lines, and file, line and reason of those that cannot be
        asked.

    Raises:
        UsageError: When there are lines, and none can be asked.
    """
    queries: list[Query] = []
    problems: list[str] = []
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            queries.append(_query(_parse(line)))
        except ValueError as exc:
            problems.append(f"{name}:{number}: {exc}")
    if problems and not queries:
        raise click.UsageError(f"{problems[0]}. Each line has to be an object like {_FORM}")
    return queries, problems


def _parse(line: bytes) -> JsonValue:
    """Read one line as JSON; raise ValueError if it is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"this is not JSON ({str(exc)[:80]})") from exc


def _query(record: JsonValue) -> Query:
    """Check one line; raise ValueError if it is not a query."""
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
