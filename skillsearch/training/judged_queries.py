"""Queries for which somebody chose skills: a judged collection, or a log of what was chosen."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.evaluation.collection import load_collection
from skillsearch.evaluation.lines import line_error, numbered_lines, shown
from skillsearch.types import JsonValue

FORM = (
    'Write one object a line: {"query": "what was asked", "skill": "the name that was chosen"}, '
    'or "skills" with several names; or name the folder of a judged collection.'
)
_MEASURED = 3
"""Of so many judged queries one is kept to measure by."""


@dataclass(frozen=True, slots=True)
class ChosenSkills:
    """A query and the skills that are right for it.

    Attributes:
        query: The query.
        places: Places of the skills among those of the library.
    """

    query: str
    places: tuple[int, ...]

    @property
    def is_measured(self) -> bool:
        """Whether it is kept to measure by; its text decides, so that copies stay together."""
        folded = " ".join(self.query.casefold().split())
        digest = hashlib.sha256(folded.encode("utf-8", "replace")).digest()
        return digest[0] % _MEASURED == 0


def read_judged(
    path: Path, names: Sequence[str], doc_ids: Sequence[str]
) -> tuple[list[ChosenSkills], int]:
    """Read judged queries.

    Args:
        path: The folder of a judged collection, or a file of JSON lines.
        names: Names of the skills of the library.
        doc_ids: Their ids, in the same order.

    Returns:
        Queries with the skills that are here, and how many queries were left out because none is.

    Raises:
        EvaluationError: When it cannot be read; names the file, the line and the cure.
    """
    known: defaultdict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        known[_fold(name)].append(place)
    known |= {doc_id: [place] for place, doc_id in enumerate(doc_ids)}
    found, lost = [], 0
    for query, chosen in _from_collection(path) if path.is_dir() else _from_log(path):
        places = {place for keys in chosen for place in _places(keys, known)}
        if places:
            found.append(ChosenSkills(query, tuple(sorted(places))))
        else:
            lost += 1
    return found, lost


def _places(keys: Sequence[str], known: Mapping[str, list[int]]) -> list[int]:
    """Return where a skill is, by the first of its keys that is known."""
    return next((known[key] for key in keys if key in known), [])


def _from_collection(folder: Path) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each query with the id and name of what is relevant for it."""
    collection = load_collection(folder)
    names = {document.doc_id: document.name for document in collection.documents}
    for query in collection.queries:
        grades = collection.qrels[query.query_id]
        right = [doc_id for doc_id, grade in grades.items() if grade > 0]
        yield query.text, [[doc_id, _fold(names[doc_id])] for doc_id in right]


def _from_log(path: Path) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each query of a log with the names that were chosen, which may be ids."""
    for number, line in numbered_lines(path, FORM):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise line_error(path, number, f"{shown(line)} is not JSON. {FORM}") from exc
        query, names = _query_of(record), _names_of(record)
        if not query or not names:
            raise line_error(path, number, f"{shown(record)} has no query or no skill. {FORM}")
        if len(query) > MAX_QUERY_CHARS:
            problem = f"the query has {len(query):,} characters; shorten it to {MAX_QUERY_CHARS:,}"
            raise line_error(path, number, problem)
        yield query, [[name, _fold(name)] for name in names]


def _query_of(record: JsonValue) -> str:
    """Return the query of a line, empty where there is none."""
    query = record.get("query") if isinstance(record, dict) else None
    return query.strip() if isinstance(query, str) else ""


def _names_of(record: JsonValue) -> list[str]:
    """Return the skills of a line, none where they are no texts."""
    if not isinstance(record, dict):
        return []
    names = record.get("skills", record.get("skill"))
    listed = names if isinstance(names, list) else [names]
    texts = [name for name in listed if isinstance(name, str) and name]
    return texts if len(texts) == len(listed) else []


def _fold(name: str) -> str:
    """Return a name so that case, hyphens and underscores make no difference."""
    return " ".join(name.casefold().replace("-", " ").replace("_", " ").split())
