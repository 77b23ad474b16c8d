"""Read the texts and graded requests that models are trained with."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any


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
