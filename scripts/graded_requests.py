"""Read the texts and graded requests that models are trained with."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the records of a gzipped file, a line each."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def clusters(text: str) -> set[int]:
    """Read ranges such as ``0-199,450-549``."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found.update(range(int(low), int(high or low) + 1))
    return found


class Request(NamedTuple):
    """A request, the rows of the skills that were judged for it, and the grades of some."""

    text: str
    rows: tuple[int, ...]
    grades: Mapping[int, int]


def request_of(record: Mapping[str, Any], rows: Mapping[int, int]) -> Request | None:
    """Return the request of a record; None if no skill that helps with it is among the rows.

    Args:
        record: One that `read_records` returned.
        rows: The row of each skill by its line; copies share one.
    """
    grades = {rows[int(k)]: grade for k, grade in record["grades"].items() if int(k) in rows}
    judged = dict.fromkeys(rows[line] for line in record["rows"] if line in rows)
    return Request(record["text"], tuple(judged), grades) if grades else None
