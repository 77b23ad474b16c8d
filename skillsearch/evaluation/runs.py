"""Runs: what a system answered, as a TREC file.

A line of a file is ``query Q0 document rank score tag``; the answer to a query without the skills
that are right for it is that to ``dropped:query``. trec_eval reads a score as a 32-bit float,
breaks ties by document id, later ids first, and ignores ranks; so does this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import count
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np

from skillsearch.errors import EvaluationError, UnusableError, explained
from skillsearch.evaluation import lines
from skillsearch.evaluation.reporting.report import Outcome
from skillsearch.evaluation.types import DROPPED_RELEVANT, FOREIGN, Collection, Ranking, Run
from skillsearch.text.safe_text import counted

DROPPED = "dropped:"
"""Before the id of a query that was asked again, its relevant documents hidden."""

_PARTS_WORDS = re.compile(r"[\s\ufeff]")
"""White space separates the columns of a line; a leading byte order mark may vanish."""
_PERCENT_ENCODED = re.compile(r"[\s\ufeff%]")


def read_run(path: Path, collection: Collection) -> dict[str, Ranking]:
    """Read the answers to the queries and negatives of a collection.

    Those to queries asked again are found by `DROPPED`. Scores stay as written, and documents to
    ignore stay in. An id that the collection does not have is tried with its percent-encoding
    undone. Queries that the collection left out because nothing is relevant for them are skipped,
    as trec_eval does; any other unknown query is an error.
    """
    documents = {document.doc_id for document in collection.documents}
    queries = {query.query_id for query in (*collection.queries, *collection.negatives)}
    queries |= {f"{DROPPED}{query.query_id}" for query in collection.queries}
    allowed = queries | collection.unjudged
    runs: dict[str, dict[str, float]] = {}
    with explained(EvaluationError, f"{path} cannot be read: %s"):
        for number, line in lines.numbered_lines(path):
            try:
                query_id, doc_id, score = _read_line(line, allowed, documents)
                if doc_id in runs.setdefault(query_id, {}):
                    problem = f"{lines.shown(doc_id)} answers {lines.shown(query_id)}"
                    raise UnusableError(f"{problem} in a line above too; remove one of the two")
                runs[query_id][doc_id] = score
            except ValueError as exc:
                raise lines.line_error(path, number, str(exc)) from exc

    def in_order(scores: Mapping[str, float]) -> Ranking:
        pairs = sorted(scores.items(), key=lambda pair: (np.float32(pair[1]), pair[0]))
        return tuple(reversed(pairs))

    return {key: in_order(scores) for key, scores in runs.items() if key in queries}


def _read_line(
    line: str, queries: AbstractSet[str], documents: AbstractSet[str]
) -> tuple[str, str, float]:
    """Return ids of a query and a document, and the score; an UnusableError if there are none."""
    words = line.split()
    if len(words) != 6:
        expected = "not 6; write: query Q0 document rank score tag"
        raise UnusableError(f"{lines.shown(line)} has {counted(len(words), 'column')}, {expected}")
    query_id = _known_id(words[0], queries, "queries.jsonl or negatives.jsonl")
    doc_id = _known_id(words[2], documents, "corpus.jsonl")
    with suppress(ValueError), np.errstate(over="ignore"):
        score = float(words[4])
        if np.isfinite(np.float32(score)):
            return query_id, doc_id, score
    problem = f"the score is {lines.shown(words[4])}"
    raise UnusableError(f"{problem}; it must be a number between -3.4e38 and 3.4e38")


def _known_id(word: str, ids: AbstractSet[str], file: str) -> str:
    for spelling in (word, unquote(word)):
        if spelling in ids:
            return spelling
    raise UnusableError(
        f"{lines.unknown_id(word, ids, file)}; it may be a run of another collection"
    )


def write_run(path: Path, answers: Run, tag: str) -> None:
    """Write answers so that every reader, trec_eval too, gets them in the same order.

    A score that is not below the one before it becomes the next smaller 32-bit float. In an id with
    white space that, and its percent signs, are percent-encoded. An existing file is replaced in
    one step. `tag` names the system.
    """
    lines.replace_file(path, _lines(answers, _word(tag) or "-"))


def save_runs(outcomes: Iterable[Outcome], folder: Path) -> None:
    """Write the answers of every system as a run file, ``COLLECTION.SYSTEM.trec``.

    Of equal names the later are numbered. Answers to foreign queries are not included.
    """
    taken: set[str] = set()
    for outcome, system in ((one, system) for one in outcomes for system in one.answers):
        stem = f"{lines.file_name(outcome.report.collection)}.{lines.file_name(system.name)}"
        names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
        name = next(name for name in names if name.casefold() not in taken)
        taken.add(name.casefold())
        answers = dict(system.answers)
        for source, rankings in system.unanswerable.items():
            if source == DROPPED_RELEVANT:
                rankings = {f"{DROPPED}{query}": ranking for query, ranking in rankings.items()}
            answers |= {} if source == FOREIGN else rankings
        write_run(folder / f"{name}.trec", answers, system.name)


def _lines(answers: Run, tag: str) -> Iterator[str]:
    for query_id, ranking in answers.items():
        value = np.float32(np.inf)
        for rank, (doc_id, score) in enumerate(ranking, start=1):
            with np.errstate(over="ignore"):
                value = min(np.float32(score), np.nextafter(value, np.float32(-np.inf)))
            if not np.isfinite(value):
                problem = f"{lines.shown(doc_id)} scores {score} for {lines.shown(query_id)}"
                raise EvaluationError(f"{problem}, which no run can hold; give it a finite score.")
            # str gives the shortest digits of a 32-bit float; format would print it as a double.
            yield f"{_word(query_id)} Q0 {_word(doc_id)} {rank} {value!s} {tag}\n"


def _word(text: str) -> str:
    if not _PARTS_WORDS.search(text):
        return text
    return _PERCENT_ENCODED.sub(lambda match: quote(match[0], safe=""), text)
