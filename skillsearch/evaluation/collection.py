"""A folder ⇄ a judged collection: JSON lines and tab-separated judgments, as in BEIR or as here."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from skillsearch.errors import EvaluationError, explained
from skillsearch.evaluation.lines import (
    line_error,
    numbered_lines,
    numbered_objects,
    shown,
    unknown_id,
)
from skillsearch.evaluation.types import (
    ANSWERABLE,
    DROPPED_RELEVANT,
    FOREIGN,
    NEGATIVES,
    Collection,
    JudgedDocument,
    JudgedQuery,
)
from skillsearch.files.openat import is_folder
from skillsearch.settings.values import MAX_QUERY_CHARS
from skillsearch.text.safe_text import counted
from skillsearch.types.json_values import Json, is_whole

EXAMPLE = Path(__file__).with_name("example")  # the collection that comes with the package

_T = TypeVar("_T")
_Ids: TypeAlias = tuple[AbstractSet[str], AbstractSet[str]]
"""Ids of all queries and of all documents."""
DEFAULT_SPLIT = "test"
_QRELS = ("query-id", "corpus-id", "score")
_IGNORE = _QRELS[:2]
_OPTIONAL = "negatives.jsonl"
_KEYS = {"doc_id": "_id", "query_id": "_id", "language": "lang"}
_FORM = (
    'A collection is a folder with corpus.jsonl ({"_id": …, "name": …, "description": …} a line), '
    'queries.jsonl ({"_id": …, "text": …} a line) and qrels.tsv (query-id, corpus-id and score '
    "between tabs, below a line of these names)."
)
_NOT_IN_AN_ID = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""A tab or line break ends a column, NUL a text of trec_eval; half a surrogate is not UTF-8."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_GRADE = re.compile("[+-]?[0-9]{1,4}")
"""Up to 9999: trec_eval counts documents by grade, in an array as long as the highest."""


@dataclass(frozen=True, slots=True)
class _Record:
    path: Path
    number: int
    values: Mapping[str, Json]

    def error(self, key: str, next_step: str) -> EvaluationError:
        value = self.values.get(key)
        problem = "missing" if value is None else shown(value)
        return line_error(self.path, self.number, f'"{key}" is {problem}; {next_step}')

    def identifier(self) -> str:
        value = self.values.get("_id")
        if is_whole(value):
            return str(value)
        if not isinstance(value, str) or not value.strip() or _NOT_IN_AN_ID.search(value):
            raise self.error("_id", "it must be a text without control characters, or an integer")
        return value

    def text(self, key: str, *, required: bool = False) -> str:
        """Return a text; unless it is required, empty if missing or null."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(key, "it must be a text")
        if required and not (value and value.strip()):
            raise self.error(key, "it must be a text that is not blank")
        return _SURROGATE.sub("\ufffd", value or "")

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, empty if it is missing or null."""
        values = self.values.get(key)
        values = [] if values is None else values
        if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
            raise self.error(key, "it must be a list of texts")
        return tuple(_SURROGATE.sub("\ufffd", item) for item in values)


def load_collection(folder: Path, split: str = DEFAULT_SPLIT) -> Collection:
    """Load and check the collection in a folder, and name it after that.

    BEIR's ``title`` and ``text`` are name and description; if a title is blank, the id is the name.
    Half a surrogate pair in a text becomes U+FFFD. The judgments of `split` are read from
    ``qrels/`` if there is no ``qrels.tsv``. An EvaluationError names the file, the line, the cure.
    """
    with explained(EvaluationError, f"{folder} cannot be read: %s", str):
        return _load(folder, split)


def _load(folder: Path, split: str) -> Collection:
    if not is_folder(folder):
        raise EvaluationError(f"{folder} is not a folder. {_FORM}")
    places: dict[str, str] = {}
    documents = _read(folder / "corpus.jsonl", _document, {})
    queries = _read(folder / "queries.jsonl", _query, places)
    negatives = _read(folder / _OPTIONAL, _query, places)
    ids = queries.keys(), documents.keys()
    path = _qrels_path(folder, split)
    qrels = _judgments(path, ids)
    judged = {query_id for query_id, grades in qrels.items() if max(grades.values()) > 0}
    if not judged:
        problem = "no query has a relevant document; judge a pair with a score above 0"
        raise EvaluationError(f"{path}: {problem}.")
    ignored: defaultdict[str, set[str]] = defaultdict(set)
    path = folder / "ignore.tsv"
    if path.exists() and path.stat().st_size:
        for _, (query_id, doc_id) in _rows(path, _IGNORE, ids):
            ignored[query_id].add(doc_id)
    notes: tuple[str, ...] = ()
    if unjudged := frozenset(queries.keys() - judged):
        has, is_ = ("has", "is") if len(unjudged) == 1 else ("have", "are")
        of_all = f"{len(unjudged):,} of {counted(len(queries), 'query')}"
        notes = (f"{of_all} {has} no relevant document and {is_} not measured",)
    measured = {key: query for key, query in queries.items() if key in judged}
    return Collection(
        name=folder.resolve().name,
        documents=tuple(documents.values()),
        queries=tuple(measured.values()),
        qrels={key: qrels[key] for key in measured},
        ignored={key: frozenset(ids) for key, ids in ignored.items() if key in measured},
        negatives=tuple(negatives.values()),
        notes=notes,
        unjudged=unjudged,
    )


def _read(path: Path, build: Callable[[str, _Record], _T], places: dict[str, str]) -> dict[str, _T]:
    """Read JSON lines by their ids, and add the place of each to `places`."""
    records: dict[str, _T] = {}
    if path.name == _OPTIONAL and not path.exists():
        return records
    for number, values in numbered_objects(path, _FORM):
        record = _Record(path, number, values)
        key = record.identifier()
        if key in places:
            raise record.error("_id", f"{places[key]} has it too; rename or remove one")
        places[key] = f"{path.name}:{number}"
        records[key] = build(key, record)
    if not records and path.name != _OPTIONAL:
        raise EvaluationError(f"{path} is empty. {_FORM}")
    return records


def _document(doc_id: str, record: _Record) -> JudgedDocument:
    language, examples = record.text("lang"), record.texts("examples")
    if "name" not in record.values and record.values.keys() & {"title", "text"}:
        title = record.text("title")
        name = title if title.strip() else doc_id
        return JudgedDocument(
            doc_id, name, record.text("text"), language=language, examples=examples
        )
    name = record.text("name", required=True)
    description, body = map(record.text, ("description", "body"))
    return JudgedDocument(doc_id, name, description, body, language, examples)


def _query(query_id: str, record: _Record) -> JudgedQuery:
    text = record.text("text", required=True)
    if len(text) > MAX_QUERY_CHARS:
        problem = f'"text" has {len(text):,} characters; shorten it to {MAX_QUERY_CHARS:,}'
        raise line_error(record.path, record.number, problem)
    return JudgedQuery(query_id, text, *map(record.text, ("kind", "lang", "twin_of")))


def _qrels_path(folder: Path, split: str) -> Path:
    whole, part = folder / "qrels.tsv", folder / "qrels" / f"{split}.tsv"
    if whole.exists() and split != DEFAULT_SPLIT and not part.exists():
        raise EvaluationError(f"{whole} holds all judgments of its collection; leave out --split.")
    for path in (whole, part) if split == DEFAULT_SPLIT else (part,):
        if path.exists():
            return path
    splits = ", ".join(sorted(path.stem for path in (folder / "qrels").glob("*.tsv")))
    next_step = f"Splits there: {splits}; choose one (--split)." if splits else _FORM
    raise EvaluationError(f"{folder} has neither qrels.tsv nor qrels/{split}.tsv. {next_step}")


def _judgments(path: Path, ids: _Ids) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    places: dict[tuple[str, str], int] = {}
    for number, (query_id, doc_id, score) in _rows(path, _QRELS, ids):
        if not _GRADE.fullmatch(score.strip()):
            problem = f"the score is {shown(score)}; it must be an integer from -9999 to 9999"
            raise line_error(path, number, problem)
        first = places.setdefault((query_id, doc_id), number)
        grades = qrels.setdefault(query_id, {})
        if grades.setdefault(doc_id, int(score)) != int(score):
            problem = f"{shown(query_id)} and {shown(doc_id)} have another score in line {first}"
            raise line_error(path, number, f"{problem}; keep one of the two")
    return qrels


def _rows(path: Path, header: Sequence[str], ids: _Ids) -> Iterator[tuple[int, list[str]]]:
    """Read rows below a header; the first two columns must be known ids."""
    lines = numbered_lines(path, _FORM)
    number, first = next(lines, (1, ""))
    if [name.strip() for name in first.split("\t")] != list(header):
        problem = f"{shown(first)} is not the header; put this line first: {'<TAB>'.join(header)}"
        raise line_error(path, number, problem)
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(header):
            problem = (
                f"{shown(line)} has {counted(len(cells), 'column')} between tabs, not {len(header)}"
            )
            raise line_error(path, number, f"{problem}: {', '.join(header)}")
        for allowed, cell, name in zip(ids, cells, ("queries.jsonl", "corpus.jsonl"), strict=False):
            if cell not in allowed:
                problem = f"{unknown_id(cell, allowed, name)}; correct it or remove the line"
                raise line_error(path, number, problem)
        yield number, cells


def save_collection(collection: Collection, folder: Path) -> None:
    """Write a collection to a new or empty folder; notes and unjudged ids are not written.

    Raises EvaluationError if the folder is not empty or cannot be written, or an id has a tab.
    """
    graded = [(key, *pair) for key, row in collection.qrels.items() for pair in row.items()]
    ignored = [(key, doc_id) for key, ids in collection.ignored.items() for doc_id in sorted(ids)]
    content = {
        "corpus.jsonl": _json_lines(collection.documents),
        "queries.jsonl": _json_lines(collection.queries),
        _OPTIONAL: _json_lines(collection.negatives),
        "qrels.tsv": ["\t".join(map(str, row)) for row in (_QRELS, *graded) if graded],
        "ignore.tsv": ["\t".join(row) for row in (_IGNORE, *ignored) if ignored],
    }
    with explained(EvaluationError, f"{folder} cannot be written: %s", str):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise EvaluationError(f"{folder} is not empty; name a folder that is not there yet.")
        for name, lines in content.items():
            if lines:
                data = "".join(f"{line}\n" for line in lines)
                (folder / name).write_bytes(data.encode("utf-8", "replace"))


def _json_lines(records: Iterable[JudgedDocument | JudgedQuery]) -> list[str]:
    """Write objects without their empty values; refuse an id that a table cannot hold."""
    lines = []
    for record in map(asdict, records):
        filled = {_KEYS.get(name, name): value for name, value in record.items() if value}
        if _NOT_IN_AN_ID.search(key := filled.get("_id", "")):
            raise EvaluationError(f"The id {shown(key)} has a control character; rename it.")
        lines.append(json.dumps(filled, ensure_ascii=False))
    return lines


def digest(documents: Sequence[JudgedDocument]) -> str:
    """Return a hash of the ids and texts of documents, in order: 16 hexadecimal digits."""
    state = hashlib.sha256()
    for document in documents:
        texts = [document.doc_id, document.name, document.description, document.body]
        state.update(json.dumps(texts).encode() + b"\n")
    return state.hexdigest()[:16]


def negatives_by_source(collection: Collection) -> dict[str, tuple[JudgedQuery, ...]]:
    """Return negatives by kind; negatives without a kind, or with a kind of query, go together."""
    shared = {query.kind for query in collection.queries}
    shared |= {"", ANSWERABLE, NEGATIVES, FOREIGN, DROPPED_RELEVANT}
    groups: defaultdict[str, list[JudgedQuery]] = defaultdict(list)
    for negative in collection.negatives:
        groups[NEGATIVES if negative.kind in shared else negative.kind].append(negative)
    return {source: tuple(group) for source, group in groups.items()}
