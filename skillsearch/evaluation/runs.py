"""TREC run files ⇄ answers, in the order in which trec_eval measures them.

A line is ``query Q0 document rank score tag``. trec_eval keeps a score as a 32-bit float, breaks
ties by document id, later ids first, and heeds no rank; so does what is here.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Set as AbstractSet
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.lines import line_error, numbered_lines, replace_file, shown, unknown_id
from skillsearch.evaluation.types import Answers, Collection, Ranking

_COLUMNS = 6
_FLOAT32 = struct.Struct("<f")
_PARTS_WORDS = re.compile(r"[\s\ufeff]")
"""White space parts the columns of a line, and a byte order mark may vanish from the first."""
_PERCENT_ENCODED = re.compile(r"[\s\ufeff%]")


def read_run(path: Path, collection: Collection) -> dict[str, Ranking]:
    """Read the answers to the queries and negatives of a collection.

    Scores stay as written, and documents to ignore stay in. An id that the collection does not
    have is tried with its percent-encoding undone. Queries that the collection left out for want
    of a relevant document are passed over, as trec_eval does; any other unknown query is an error.

    Args:
        path: The run file.
        collection: What it answers.

    Returns:
        Query id → ranking; queries without a line are not in it.

    Raises:
        EvaluationError: When a line cannot be used; names the file, the line and the cure.
    """
    documents = {document.doc_id for document in collection.documents}
    asked = {query.query_id for query in (*collection.queries, *collection.negatives)}
    known = asked | collection.unjudged
    runs: dict[str, dict[str, float]] = {}
    try:
        for number, line in numbered_lines(path):
            try:
                query_id, doc_id, score = _parse(line, known, documents)
                scores = runs.setdefault(query_id, {})
                if doc_id in scores:
                    found = f"{shown(doc_id)} answers {shown(query_id)} in a line above too"
                    raise ValueError(f"{found}; remove one of the two")
            except ValueError as exc:
                raise line_error(path, number, str(exc)) from exc
            scores[doc_id] = score
    except OSError as exc:
        raise EvaluationError(f"{path} cannot be read: {exc}") from exc
    return {query_id: _ranking(scores) for query_id, scores in runs.items() if query_id in asked}


def write_run(path: Path, answers: Answers, tag: str) -> None:
    """Write answers so that whoever reads them, trec_eval too, gets them in the same order.

    A score that does not fall below the one before it becomes the next smaller 32-bit float. In
    an id with white space that, and its percent signs, are percent-encoded. A file that is there
    is replaced in one step.

    Args:
        path: The run file.
        answers: The rankings; an empty one leaves no line.
        tag: Name of what made them.

    Raises:
        EvaluationError: When the file cannot be written, or a score is no number.
    """
    try:
        word = _word(tag) or "-"
        rankings = answers.items()
        replace_file(path, (line for key, ranked in rankings for line in _lines(key, ranked, word)))
    except (OSError, ValueError) as exc:
        raise EvaluationError(f"{path} cannot be written: {exc}") from exc


def as_run(answers: Answers) -> dict[str, dict[str, float]]:
    """Return answers as a run of BEIR's form, with scores that say nothing but the order.

    The last document of a ranking scores 1, each before it 1 more: no library finds a tie. One
    that comes twice keeps its first place.
    """
    run = {}
    for query_id, ranking in answers.items():
        doc_ids = dict.fromkeys(doc_id for doc_id, _ in ranking)
        run[query_id] = {doc_id: float(len(doc_ids) - i) for i, doc_id in enumerate(doc_ids)}
    return run


def _parse(
    line: str, queries: AbstractSet[str], documents: AbstractSet[str]
) -> tuple[str, str, float]:
    """Read query, document and score of a line; raise ValueError where it has none."""
    words = line.split()
    if len(words) != _COLUMNS:
        raise ValueError(
            f"{shown(line)} has {len(words)} columns, not {_COLUMNS}; "
            "write: query Q0 document rank score tag"
        )
    query_id = _meant(words[0], queries, "queries.jsonl or negatives.jsonl")
    return query_id, _meant(words[2], documents, "corpus.jsonl"), _score(words[4])


def _meant(word: str, ids: AbstractSet[str], place: str) -> str:
    """Return the id that a word stands for."""
    for meant in (word, unquote(word)):
        if meant in ids:
            return meant
    raise ValueError(f"{unknown_id(word, ids, place)}; is this a run of this collection?")


def _score(text: str) -> float:
    """Read a score that a 32-bit float can hold."""
    try:
        score = float(text)
        if math.isfinite(_as_float32(score)):
            return score
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"the score is {shown(text)}; it must be a number between -3.4e38 and 3.4e38")


def _as_float32(score: float) -> float:
    """Round to a 32-bit float; raise OverflowError beyond the largest."""
    value: float = _FLOAT32.unpack(_FLOAT32.pack(score))[0]
    return value


def _ranking(scores: dict[str, float]) -> Ranking:
    """Put documents in trec_eval's order."""
    ranked = sorted(scores.items(), key=lambda item: (_as_float32(item[1]), item[0]), reverse=True)
    return tuple(ranked)


def _lines(query_id: str, ranking: Ranking, tag: str) -> list[str]:
    """Write the lines of a query."""
    lines = []
    lowest = np.float32(-np.inf)
    value = np.float32(np.inf)
    with np.errstate(over="ignore"):
        for rank, (doc_id, score) in enumerate(ranking, start=1):
            value = min(np.float32(score), np.nextafter(value, lowest))
            if not np.isfinite(value):
                problem = f"{shown(doc_id)} scores {score} for {shown(query_id)}"
                raise EvaluationError(f"{problem}, which no run can hold; give it a finite score.")
            # str gives the shortest digits of a 32-bit float; format would print it as a double.
            lines.append(f"{_word(query_id)} Q0 {_word(doc_id)} {rank} {value!s} {tag}\n")
    return lines


def _word(text: str) -> str:
    """Return a text as one word."""
    if not _PARTS_WORDS.search(text):
        return text
    return _PERCENT_ENCODED.sub(lambda match: quote(match[0], safe=""), text)
