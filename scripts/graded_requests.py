"""Read the texts and graded requests that models are trained with.

Both are gzipped JSON lines, which are not part of this repository: `SkillRecord` and
`RequestRecord` say what a line has.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import embed
from skillsearch.embedders.model_files import sha256_of
from skillsearch.training.plan import distinct_skills
from skillsearch.training.queries import SkillText

WRITERS = {"tr": "translated", "ag": "agent", "hd": "hard", "ev": "everyday", "ex": "everyday"}
"""The source of requests by how their writer's name begins; all others are written."""
FREE_NEAR_MISS = "n"
"""Kind of requests that were written freely as near misses."""
_NEIGHBOUR_CHARS = 300
_SHORT = 5
_BEFORE, _BEHIND = r"(?<![\w.+/@-])", r"(?![\w+/@-]|\.\w)"  # "go" is neither in "go-to" nor "a.go"


class SkillRecord(TypedDict):
    """A line of a file of skills."""

    name: str
    description: str | None
    body: str | None
    lang: str


class RequestRecord(TypedDict):
    """A line of a file of requests.

    Attributes:
        rows: Line numbers, from 0, of the skills that were judged.
        grades: 2 by the row of a skill that does what is asked, 1 if it helps.
        twin_of: The original, of which a twin was changed so that other skills fit, or none.
        rename: The old and the new name, if a name is all that was changed.
    """

    text: str
    writer: str
    cluster: int
    kind: str
    rows: list[int]
    grades: dict[str, int]
    lang: NotRequired[str]
    twin_of: NotRequired[str]
    rename: NotRequired[list[str]]


def read_skill_records(path: Path) -> list[SkillRecord]:
    """Return the lines of a file of skills."""
    return _records(path)


def read_request_records(path: Path) -> list[RequestRecord]:
    """Return the lines of a file of requests."""
    return _records(path)


def _records(path: Path) -> list[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def clusters(text: str) -> set[int]:
    """Read ranges such as ``0-199,450-549``."""
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        numbers.update(range(int(low), int(high or low) + 1))
    return numbers


def names_pattern(names: Iterable[str], *, in_words: bool = False) -> re.Pattern[str]:
    """Return what matches names as words in any case, or also as part of *binance-orders*."""
    longest_first = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    ends = (r"(?<![^\W_])", r"(?![^\W_])") if in_words else (_BEFORE, _BEHIND)
    return re.compile(f"{ends[0]}(?:{longest_first}){ends[1]}", re.IGNORECASE)


def renamed(text: str, old: str, new: str, *, in_words: bool = False) -> str:
    """Return a text with another name, written small or in capitals as the one before."""

    def like(match: re.Match[str]) -> str:
        word = match[0]
        if word.islower():
            return new.lower()
        if word.isupper() and len(word) < _SHORT:
            return new.upper() if len(new) <= _SHORT else new.title()
        return new.title() if new.islower() else new

    return names_pattern([old], in_words=in_words).sub(like, text)


class Skills(NamedTuple):
    """Distinct skills with the language of each, and the row of each line of the file."""

    texts: Sequence[SkillText]
    languages: Sequence[str]
    rows: Mapping[int, int]

    @classmethod
    def read(cls, path: Path) -> Skills:
        """Read a file of skills; copies share a row."""
        records = read_skill_records(path)
        skills = [
            SkillText(record["name"], record["description"] or "", record["body"] or "")
            for record in records
        ]
        texts, rows = distinct_skills(skills)
        languages = {row: records[line]["lang"] for line, row in reversed(rows.items())}
        return cls(texts, [languages[row] for row in range(len(texts))], rows)

    def vectors(self, rows: Collection[int] | None = None) -> NDArray[np.float32]:
        """Return what the packaged embedder makes of the beginnings of their metadata.

        With some rows, those of all others are zero.
        """
        embedder = load_embedder("onnx")
        wanted = sorted(range(len(self.texts)) if rows is None else rows)
        texts = [self.texts[row].metadata()[:_NEIGHBOUR_CHARS] for row in wanted]
        vectors = np.zeros((len(self.texts), embedder.dimensions), np.float32)
        vectors[wanted] = embed(embedder, texts)
        return vectors


class Request(NamedTuple):
    """A request, the rows of the skills that were judged for it, and the grades of some.

    A twin may differ from its original in a name alone: `rename` has the old and the new one.
    """

    text: str
    rows: tuple[int, ...]
    grades: Mapping[int, int]
    cluster: int
    kind: str
    source: str
    writer: str
    twin_of: str | None = None
    rename: tuple[str, str] | None = None

    def graded(self, grade: int) -> list[int]:
        """Return the judged skills of a grade."""
        return [row for row in self.rows if self.grades.get(row, 0) == grade]


def read_requests(
    path: Path, left_out: Collection[int], rows: Mapping[int, int]
) -> Iterator[Request]:
    """Yield graded requests but for those of some clusters, with the rows of skills by lines."""
    for record in read_request_records(path):
        judged = tuple(dict.fromkeys(rows[line] for line in record["rows"] if line in rows))
        if record["cluster"] in left_out or not judged:
            continue
        grades = {rows[int(k)]: grade for k, grade in record["grades"].items() if int(k) in rows}
        yield Request(
            record["text"],
            judged,
            grades,
            record["cluster"],
            record["kind"],
            WRITERS.get(record["writer"][:2], "written"),
            record["writer"],
            record.get("twin_of"),
            (record["rename"][0], record["rename"][1]) if "rename" in record else None,
        )


def material_record(skills: Path, requests: Path, without: str) -> dict[str, str]:
    """Return what a record of a training says of its material."""
    return {
        "texts_sha256": sha256_of(skills),
        "requests_sha256": sha256_of(requests),
        "left_out": without,
    }
