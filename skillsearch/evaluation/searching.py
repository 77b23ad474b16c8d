"""Ask every system the queries of a collection, and queries that nothing in it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from statistics import median

from skillsearch.errors import QueryError
from skillsearch.evaluation.judged_index import Embedders, JudgedIndex, use_skills, write_skills
from skillsearch.evaluation.runs import read_run
from skillsearch.evaluation.systems import SystemSpec
from skillsearch.evaluation.types import Collection, JudgedQuery, Ranking, SystemAnswers
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.calibration_file import default_calibration, load_calibration
from skillsearch.types import Languages, Progress

DEPTH = 50
"""Hits of a judged query, five times what measures use; twice as many take twice the time."""
USUAL_DEPTH = 5
"""Hits of any other query, of which only the first counts, and of a timed query."""
MAX_TIMED = 100
"""Judged queries that are timed."""
MAX_FOREIGN = 200
"""Queries taken from a foreign collection."""
NEGATIVES, FOREIGN, DROPPED_GOLD = "negatives", "foreign", "dropped gold"
"""Where unanswerable queries come from."""


@dataclass(frozen=True, slots=True)
class Answered:
    """Answers of systems on a collection, in order, and remarks for the user."""

    systems: tuple[SystemAnswers, ...]
    notes: tuple[str, ...]


def answer_all(
    collection: Collection,
    specs: Sequence[SystemSpec],
    *,
    work: Path,
    roots: Sequence[Path] = (),
    foreign: Sequence[tuple[str, Sequence[JudgedQuery]]] = (),
    asked: Sequence[JudgedQuery] = (),
    drop_gold: bool = False,
    embedders: Embedders | None = None,
    progress: Progress | None = None,
) -> Answered:
    """Let every system answer the queries of a collection.

    Skills and indexes stay in `work`: the next time only queries are embedded. The `roots` are the
    folders of skills that the collection was made from, if it was. Of the `foreign` queries, given
    by the name of their collection, at most `MAX_FOREIGN` each, evenly spaced, are asked. `asked`
    are all queries for which these documents are indexed, if more than the collection has; see
    `Embedders.languages`. With `drop_gold` each judged query is asked again, its relevant documents
    and their copies hidden. Raises EvaluationError if a run file cannot be read, and StorageError
    if the work folder cannot be written.
    """
    embedders = embedders or Embedders()
    # Mistakes in the systems are found before anything takes long.
    answers = {spec.name: _from_run(collection, spec, spec.run) for spec in specs if spec.run}
    searched = [spec for spec in specs if not spec.run]
    calibrations = [
        load_calibration(spec.calibration) if spec.calibration else default_calibration()
        for spec in searched
    ]
    asked = asked or collection.queries
    searched = [replace(spec, languages=embedders.languages(spec, asked)) for spec in searched]
    indexes = _open_indexes(collection, searched, roots, work, embedders, progress)
    sample = _sample(foreign)
    asked_of_each = len(collection.queries) * (1 + drop_gold) + len(collection.negatives)
    advance = _counter(progress, (asked_of_each + len(sample)) * len(searched))
    notes: list[str] = []
    for spec, calibration in zip(searched, calibrations, strict=True):
        index = indexes[spec.model, spec.fields, spec.languages].with_calibration(calibration)
        asker = _Asker(spec, index, advance)
        answers[spec.name] = asker.answer(collection, sample, calibration, drop_gold=drop_gold)
        notes += (*index.notes, *asker.notes())
    return Answered(tuple(answers[spec.name] for spec in specs), tuple(dict.fromkeys(notes)))


def _open_indexes(
    collection: Collection,
    specs: Sequence[SystemSpec],
    roots: Sequence[Path],
    work: Path,
    embedders: Embedders,
    progress: Progress | None,
) -> dict[tuple[str, str, Languages], JudgedIndex]:
    """Open the indexes that some systems need, by model, fields and languages."""
    wanted = {(spec.model, spec.fields, spec.languages): spec for spec in specs}
    if not wanted:
        return {}
    folders = use_skills(collection, roots, work) if roots else write_skills(collection, work)
    return {
        key: JudgedIndex.open(folders, spec, embedders, progress=progress)
        for key, spec in wanted.items()
    }


def _from_run(collection: Collection, spec: SystemSpec, path: Path) -> SystemAnswers:
    """Take the answers of a system from a run file."""
    run = read_run(path, collection)
    asked = {query.query_id for query in collection.queries}
    answers: dict[str, Ranking] = {
        query: tuple(pair for pair in run.get(query, ()) if pair[0] not in ignored)
        for query in asked
        for ignored in [collection.ignored.get(query, frozenset())]
    }
    negatives = {one.query_id: run.get(one.query_id, ()) for one in collection.negatives}
    # A run without any negative was most likely not asked any.
    unanswerable = {NEGATIVES: negatives} if any(negatives.values()) else {}
    return SystemAnswers(spec.name, spec.settings, answers, unanswerable)


def _sample(foreign: Iterable[tuple[str, Sequence[JudgedQuery]]]) -> tuple[JudgedQuery, ...]:
    """Return some foreign queries under ids that name their collection."""
    return tuple(
        replace(query, query_id=f"{name}:{query.query_id}")
        for name, queries in foreign
        for query in _evenly_spaced(queries, MAX_FOREIGN)
    )


def _evenly_spaced(queries: Sequence[JudgedQuery], n: int) -> Iterator[JudgedQuery]:
    """Yield at most n queries, equally far apart."""
    chosen = min(len(queries), n)
    return (queries[number * len(queries) // chosen] for number in range(chosen))


def _counter(progress: Progress | None, total: int) -> Callable[[], None]:
    """Return a function that reports one more search."""
    done = count(1)
    return lambda: progress("search", next(done), total) if progress else None


class _Asker:
    """Asks one system."""

    def __init__(self, spec: SystemSpec, index: JudgedIndex, advance: Callable[[], None]) -> None:
        self._spec = spec
        self._index = index
        self._advance = advance
        self._refused: dict[str, str] = {}

    def answer(
        self,
        collection: Collection,
        foreign: Sequence[JudgedQuery],
        calibration: Calibration,
        *,
        drop_gold: bool,
    ) -> SystemAnswers:
        """Ask everything."""
        answers = dict(self._judged(collection))
        unanswerable = {
            NEGATIVES: self._simple(collection.negatives),
            FOREIGN: self._simple(foreign),
            DROPPED_GOLD: dict(self._without_gold(collection)) if drop_gold else {},
        }
        spec, is_hybrid = self._spec, self._spec.system == "hybrid"
        threshold = spec.threshold
        if threshold is None and is_hybrid:
            threshold = calibration.threshold
        return SystemAnswers(
            name=spec.name,
            settings=spec.settings,
            answers=answers,
            unanswerable={source: of for source, of in unanswerable.items() if of},
            threshold=threshold,
            is_calibrated=is_hybrid,
            milliseconds=self._milliseconds(collection.queries),
        )

    def notes(self) -> Iterator[str]:
        """Yield remarks for the user."""
        for query_id, reason in list(self._refused.items())[:1]:
            yield (
                f"Queries that {self._spec.name} refused, which count as without an answer: "
                f"{len(self._refused):,}, such as {query_id!r}: {reason}"
            )

    def _judged(self, collection: Collection) -> Iterator[tuple[str, Ranking]]:
        """Answer the judged queries."""
        for query in collection.queries:
            hidden = self._index.hidden(collection.ignored.get(query.query_id, ()))
            yield query.query_id, self._ask(query, DEPTH, hidden)

    def _without_gold(self, collection: Collection) -> Iterator[tuple[str, Ranking]]:
        """Answer the judged queries with no right answer left; none if no document is left."""
        for query in collection.queries:
            grades = collection.qrels[query.query_id]
            gold = [doc_id for doc_id, grade in grades.items() if grade > 0]
            hidden = self._index.hidden(collection.ignored.get(query.query_id, ()))
            hidden |= self._index.hidden_with_copies(gold)
            if len(hidden) < len(self._index):
                yield query.query_id, self._ask(query, USUAL_DEPTH, hidden)

    def _simple(self, queries: Iterable[JudgedQuery]) -> dict[str, Ranking]:
        """Answer queries from all documents."""
        return {query.query_id: self._ask(query, USUAL_DEPTH) for query in queries}

    def _ask(self, query: JudgedQuery, n: int, hidden: frozenset[str] = frozenset()) -> Ranking:
        """Answer a query; one that is refused has no answer."""
        self._advance()
        try:
            return self._index.rank(query.text, n, system=self._spec.system, hidden=hidden)[0]
        except QueryError as exc:
            self._refused[query.query_id] = str(exc)
            return ()

    def _milliseconds(self, queries: Sequence[JudgedQuery]) -> float | None:
        """Return the median wall time of an answer of the usual length."""
        answered = [query for query in queries if query.query_id not in self._refused]
        seconds = [
            self._index.rank(query.text, USUAL_DEPTH, system=self._spec.system)[1]
            for query in _evenly_spaced(answered, MAX_TIMED)
        ]
        return 1000 * median(seconds) if seconds else None
