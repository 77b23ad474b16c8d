"""Many queries from one file of JSON lines, checked before the first is asked."""

from __future__ import annotations

import json
from typing import BinaryIO

import click

from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.types import JsonValue

Query = tuple[str | int | None, str]
"""Id and text of a query."""


def read_queries(file: BinaryIO, name: str) -> list[Query]:
    """Read and check all queries of a file.

    Args:
        file: JSON lines, each an object with ``_id`` and ``text``; empty lines are passed over.
        name: What to call the file in errors.

    Returns:
        The queries in the order of their lines.

    Raises:
        UsageError: When a line cannot be used; names the file and the line.
    """
    queries: list[Query] = []
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            queries.append(_query(json.loads(line)))
        except (ValueError, RecursionError) as exc:
            raise click.UsageError(f"{name}:{number}: {exc}; nothing was asked.") from exc
    return queries


def _query(record: JsonValue) -> Query:
    """Check one line; raise ValueError where it is no query."""
    if not isinstance(record, dict):
        raise ValueError('this is no object like {"_id": "1", "text": "what is to be done"}')
    key, text = record.get("_id"), record.get("text")
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise ValueError('"_id" must be a text or a whole number')
    if not isinstance(text, str) or not text.strip():
        raise ValueError('"text" must be a text that is not empty')
    if len(text) > MAX_QUERY_CHARS:
        raise ValueError(f'"text" has {len(text):,} characters, more than {MAX_QUERY_CHARS:,}')
    return key, text
