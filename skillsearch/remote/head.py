"""The head of a generation: what it was made with, which version holds, what BM25 has to know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.index.corpus import IndexSettings
from skillsearch.index.lexical.postings import LexicalStatistics
from skillsearch.remote.client import Row
from skillsearch.remote.packing import pack, unpack
from skillsearch.remote.schema import HEAD, RECORD

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT = 3
"""Raise where rows come to mean something else; a collection of another format is made anew."""


@dataclass(frozen=True, slots=True)
class FieldTotals:
    """What is added up over the documents of one lexical field.

    Attributes:
        length: Terms of all documents.
        average_idf: Mean idf of the distinct terms.
    """

    length: int
    average_idf: float


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a generation.

    Attributes:
        version: The version of the rows that holds: a row is seen where ``since <= version`` and
            ``until > version``. 0 before the first documents are complete.
        number: Number of the generation.
        settings: What it was made with.
        documents: How many there are.
        shadowed: How many of them no search finds; `trust`, `others` and `totals` leave them out.
        skipped: SKILL.md files that could not be indexed.
        trust: Sum of `Document.trust`.
        others: Documents in languages that a model for English does not know.
        totals: By lexical field.
    """

    version: int
    number: int
    settings: IndexSettings
    documents: int
    shadowed: int
    skipped: int
    trust: float
    others: int
    totals: Mapping[str, FieldTotals]

    @property
    def searched(self) -> int:
        """How many documents searches can find."""
        return self.documents - self.shadowed

    @property
    def condition(self) -> str:
        """A filter for the rows that are seen."""
        return f"since <= {self.version} and until > {self.version}"

    def statistics(self, field: str) -> LexicalStatistics:
        """Return what BM25 has to know of a lexical field."""
        totals = self.totals[field]
        mean_length = totals.length / max(self.searched, 1)
        return LexicalStatistics(self.searched, mean_length, totals.average_idf)

    def to_row(self) -> Row:
        """Return the row that holds it."""
        record = {
            "format": FORMAT,
            "number": self.number,
            "settings": self.settings.to_dict(),
            "documents": self.documents,
            "shadowed": self.shadowed,
            "skipped": self.skipped,
            "trust": self.trust,
            "others": self.others,
            "totals": {name: asdict(totals) for name, totals in self.totals.items()},
        }
        return note_row(HEAD, RECORD, self.version, json.dumps(record).encode())

    @classmethod
    def from_row(cls, row: Row) -> Head:
        """Read a row.

        Args:
            row: What `to_row` gave.

        Returns:
            The head.

        Raises:
            CacheError: When it is damaged, or of another format.
        """
        try:
            record = json.loads(unpack(row["note"]))
            if record["format"] != FORMAT:
                raise ValueError(f"its format is {record['format']!r}, not {FORMAT}")
            totals = {
                str(name): FieldTotals(int(one["length"]), float(one["average_idf"]))
                for name, one in record["totals"].items()
            }
            return cls(
                version=int(row["version"]),
                number=int(record["number"]),
                settings=IndexSettings.from_dict(record["settings"]),
                documents=int(record["documents"]),
                shadowed=int(record["shadowed"]),
                skipped=int(record["skipped"]),
                trust=float(record["trust"]),
                others=int(record["others"]),
                totals=totals,
            )
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as exc:
            raise CacheError(f"the head of the collection has an unknown form: {exc}") from exc


def note_row(key: str, kind: int, version: int, note: bytes) -> Row:
    """Return a row of the collection of terms that is none of a term."""
    return {**term_row(key, version, (0, 0), (0, 0)), "kind": kind, "note": pack(note)}


def term_row(key: str, version: int, now: tuple[int, int], before: tuple[int, int]) -> Row:
    """Return the row of a term: how many documents have it, and had before this version."""
    return {
        "id": key,
        "kind": 0,
        "version": version,
        "metadata": now[0],
        "full": now[1],
        "metadata_before": before[0],
        "full_before": before[1],
        "note": [],
        "nothing": _NOTHING,
    }


_NOTHING: NDArray[np.float32] = np.zeros(2, np.float32)
