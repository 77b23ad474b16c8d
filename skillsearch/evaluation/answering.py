"""Let systems answer the queries of a collection, by an index or from a run file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from statistics import median
from typing import NamedTuple

from skillsearch.errors import QueryError
from skillsearch.evaluation.collection import negatives_by_source
from skillsearch.evaluation.judged_index import Embedders, JudgedIndex, use_skills, write_skills
from skillsearch.evaluation.runs import DROPPED, read_run
from skillsearch.evaluation.types import (
    DROPPED_RELEVANT,
    FOREIGN,
    Collection,
    Job,
    JudgedQuery,
    Ranking,
    Run,
    SystemAnswers,
    SystemSpec,
)
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.calibration_file import PACKAGED, load_calibration
from skillsearch.index.search.options import SearchOptions
from skillsearch.types.indexing import Progress

DEPTH = 50
"""Hits of a judged query, five times what measures use; twice as many take twice the time."""
USUAL_DEPTH = 5  # hits of any other query, of which only the first counts, and of a timed query
MAX_TIMED = 100  # judged queries that are timed
MAX_FOREIGN = 200  # queries taken from a foreign collection


class Answered(NamedTuple):
    """Answers of systems on a collection, in order, and remarks for the user."""

    systems: tuple[SystemAnswers, ...]
    notes: tuple[str, ...]


def answer_all(
    job: Job,
    specs: Sequence[SystemSpec],
    *,
    work: Path,
    drop_relevant: bool = False,
    embedders: Embedders | None = None,
    progress: Progress | None = None,
) -> Answered:
    """Let every system answer the queries of a collection.

    Skills and indexes stay in `work`: the next time only queries are embedded. With `drop_relevant`
    each judged query is asked again, its relevant documents and their copies hidden.
    """
    collection = job.collection
    answers = {spec.name: _from_run(collection, spec, spec.run) for spec in specs if spec.run}
    searched = [spec for spec in specs if not spec.run]
    foreign = foreign_queries(job)
    of_each = (
        len(collection.queries) * (1 + drop_relevant) + len(collection.negatives) + len(foreign)
    )
    done = count(1)

    def advance() -> None:
        if progress:
            progress("search", next(done), of_each * len(searched))

    notes: list[str] = []
    embedders = Embedders() if embedders is None else embedders
    for opened in _open_indexes(job, searched, work, embedders, progress):
        asker = _Asker(*opened, advance)
        answers[asker.spec.name] = asker.answer(collection, foreign, drop_relevant=drop_relevant)
        notes += (*asker.index.notes, *asker.notes())
    return Answered(tuple(answers[spec.name] for spec in specs), tuple(dict.fromkeys(notes)))


def foreign_queries(job: Job) -> list[JudgedQuery]:
    """Return up to `MAX_FOREIGN` queries of each foreign collection, with ids of their own."""
    return [
        replace(query, query_id=f"{name}:{query.query_id}")
        for name, queries in job.foreign
        for query in _evenly_spaced(queries, MAX_FOREIGN)
    ]


def _open_indexes(
    job: Job,
    specs: Sequence[SystemSpec],
    work: Path,
    embedders: Embedders,
    progress: Progress | None,
) -> list[tuple[SystemSpec, JudgedIndex, Calibration]]:
    """Return each system with its index, which equal settings share, and its calibration."""
    if not specs:
        return []
    # Mistakes in the systems are found before anything takes long.
    calibrations = [load_calibration(spec.calibration or PACKAGED) for spec in specs]
    for spec in specs:
        embedders[spec.model]  # loaded now
    keys = [(spec.model, spec.fields, spec.examples) for spec in specs]
    collection, roots = job.collection, job.roots
    folders = use_skills(collection, roots, work) if roots else write_skills(collection, work)
    indexes = {
        key: JudgedIndex.open(folders, spec, embedders, progress=progress)
        for key, spec in dict(zip(keys, specs, strict=True)).items()
    }
    opened = zip(specs, keys, calibrations, strict=True)
    return [
        (spec, indexes[key].with_calibration(calibration), calibration)
        for spec, key, calibration in opened
    ]


def _from_run(collection: Collection, spec: SystemSpec, path: Path) -> SystemAnswers:
    run = read_run(path, collection)
    answers: dict[str, Ranking] = {}
    dropped: dict[str, Ranking] = {}
    for key in (query.query_id for query in collection.queries):
        hidden = {*collection.ignored.get(key, ())}
        answers[key] = tuple(pair for pair in run.get(key, ()) if pair[0] not in hidden)
        hidden |= {doc_id for doc_id, grade in collection.qrels[key].items() if grade > 0}
        again = run.get(f"{DROPPED}{key}", ())
        dropped[key] = tuple(pair for pair in again if pair[0] not in hidden)
    unanswerable = {
        source: {query.query_id: run.get(query.query_id, ()) for query in negatives}
        for source, negatives in negatives_by_source(collection).items()
    }
    # A run without any negative was most likely not asked any.
    if not any(chain(*(rankings.values() for rankings in unanswerable.values()))):
        unanswerable = {}
    if any(dropped.values()):
        unanswerable[DROPPED_RELEVANT] = dropped
    return SystemAnswers(
        name=spec.name,
        settings=spec.settings,
        answers=answers,
        unanswerable=unanswerable,
        threshold=spec.threshold,
        lower_bound=spec.perhaps,
    )


def _evenly_spaced(queries: Sequence[JudgedQuery], n: int) -> Iterator[JudgedQuery]:
    """Yield at most n queries, equally far apart."""
    chosen = min(len(queries), n)
    return (queries[number * len(queries) // chosen] for number in range(chosen))


class _Asker:
    """Asks one system; `refused` are ids of queries with the reason."""

    def __init__(
        self,
        spec: SystemSpec,
        index: JudgedIndex,
        calibration: Calibration,
        advance: Callable[[], None],
    ) -> None:
        self.spec, self.index = spec, index
        self.calibration, self.advance = calibration, advance
        self.refused: dict[str, str] = {}

    def answer(
        self, collection: Collection, foreign: Sequence[JudgedQuery], *, drop_relevant: bool
    ) -> SystemAnswers:
        spec, index, queries = self.spec, self.index, collection.queries
        ignored = collection.ignored
        ids = [query.query_id for query in queries]
        hidden = {query_id: index.hidden(ignored.get(query_id, ())) for query_id in ids}
        answers = self._ask(queries, DEPTH, hidden)
        unanswerable = {
            source: self._ask(requests, USUAL_DEPTH)
            for source, requests in (*negatives_by_source(collection).items(), (FOREIGN, foreign))
        }
        if drop_relevant:
            for query_id in hidden:
                grades = collection.qrels[query_id].items()
                relevant = [doc_id for doc_id, grade in grades if grade > 0]
                hidden[query_id] |= index.hidden(relevant, with_copies=True)
            # Without any document left there is nothing to search.
            answerable = [query for query in queries if len(hidden[query.query_id]) < len(index)]
            unanswerable[DROPPED_RELEVANT] = self._ask(answerable, USUAL_DEPTH, hidden)
        is_calibrated = spec.system == "hybrid"
        usual = self.calibration.threshold if is_calibrated else None
        return SystemAnswers(
            name=spec.name,
            settings=spec.settings,
            answers=answers,
            unanswerable={
                source: rankings for source, rankings in unanswerable.items() if rankings
            },
            threshold=usual if spec.threshold is None else spec.threshold,
            has_states=is_calibrated and spec.threshold is None,
            is_calibrated=is_calibrated,
            milliseconds=self._milliseconds(queries),
        )

    def _milliseconds(self, queries: Sequence[JudgedQuery]) -> float | None:
        """Return the median time of a single query; None if none was answered."""
        answered = [query for query in queries if query.query_id not in self.refused]
        timed = _evenly_spaced(answered, MAX_TIMED)
        seconds = [self._rank(query, USUAL_DEPTH)[1] for query in timed]
        return 1000 * median(seconds) if seconds else None

    def notes(self) -> Iterator[str]:
        """Yield a remark if queries were refused."""
        for query_id, reason in list(self.refused.items())[:1]:
            note = f"Queries that {self.spec.name} refused, which count as without an answer"
            yield f"{note}: {len(self.refused):,}, such as {query_id!r}: {reason}"

    def _ask(
        self, queries: Sequence[JudgedQuery], n: int, hidden: Mapping[str, frozenset[str]] = {}
    ) -> Run:
        """Answer queries, each without some documents; one that is refused has no answer."""
        answers: dict[str, Ranking] = {}
        for query in queries:
            self.advance()
            key = query.query_id
            try:
                answers[key], _ = self._rank(query, n, hidden.get(key, frozenset()))
            except QueryError as exc:
                answers[key], self.refused[key] = (), str(exc)
        return answers

    def _rank(
        self, query: JudgedQuery, n: int, hidden: frozenset[str] = frozenset()
    ) -> tuple[Ranking, float]:
        spec = self.spec
        options = SearchOptions(n, system=spec.system, reader=spec.reader, exclude=hidden)
        return self.index.rank(query.text, options)
