"""Ask every system all queries of a collection, and those that nothing in it answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from skillsearch.errors import QueryError
from skillsearch.evaluation.confusables import Confusion, confusables
from skillsearch.evaluation.judged_index import JudgedIndex, SkillFolders, use_skills, write_skills
from skillsearch.evaluation.query_embedder import Embedders
from skillsearch.evaluation.runs import read_run
from skillsearch.evaluation.systems import SystemSpec
from skillsearch.evaluation.types import Answers, Collection, JudgedQuery, Ranking, SystemAnswers
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.calibration_file import default_calibration, load_calibration
from skillsearch.text.tokenizer import terms
from skillsearch.types import Languages, Progress

DEPTH = 50
"""Hits of a judged query, five times what measures look at; twice as many take twice the time."""
USUAL_DEPTH = 5
"""Hits of any other query, of which the first one counts, and of a query whose time is taken."""
MAX_TIMED = 100
"""Judged queries whose time is taken."""
MAX_FOREIGN = 200
"""Queries taken from a foreign collection."""
NEGATIVES, FOREIGN, DROPPED_GOLD = "negatives", "foreign", "dropped gold"
"""Where unanswerable queries come from."""
LEAST_STOLEN = 2
"""Queries that a skill steals from another before the two count as confusable."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What systems answered on a collection.

    Attributes:
        systems: The answers of each system, in the order of the systems.
        notes: What a user should know of how they came about, a line each.
    """

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

    What is written and indexed for that stays in `work`: the next time only queries are embedded.

    Args:
        collection: The collection.
        specs: The systems.
        work: Folder for everything that evaluations keep for the next one.
        roots: The folders of skills that the collection was made from, if it was.
        foreign: Queries that nothing here answers, by the name of the collection they come from;
            of each at most `MAX_FOREIGN`, evenly spaced, are asked.
        asked: All queries for which these documents are indexed, where they are more than those
            of the collection; see `Embedders.languages`.
        drop_gold: Ask each judged query once more, the relevant documents and their copies hidden.
        embedders: Those of earlier evaluations in this process, which know many queries already.
        progress: Told how far it is.

    Returns:
        The answers.

    Raises:
        ConfigError: When a calibration cannot be read.
        EvaluationError: When a run file cannot be read.
        EmbedderError: When an embedder cannot be loaded.
        StorageError: When the work folder cannot be written.
    """
    embedders = embedders or Embedders()
    # What a wrong word spoils is found before anything takes long.
    answers = {spec.name: _from_run(collection, spec, spec.run) for spec in specs if spec.run}
    searched = [spec for spec in specs if not spec.run]
    calibrations = [_calibration(spec) for spec in searched]
    asked = asked or collection.queries
    searched = [replace(spec, languages=embedders.languages(spec, asked)) for spec in searched]
    indexes = _open_indexes(collection, searched, roots, work, embedders, progress)
    questions = _Questions(collection, _sample(foreign), drop_gold)
    steps = _Steps(progress, len(questions) * len(searched))
    notes: list[str] = []
    for spec, calibration in zip(searched, calibrations, strict=True):
        index = indexes[spec.model, spec.fields, spec.languages].with_calibration(calibration)
        asker = _Asker(spec, index, steps)
        answers[spec.name] = asker.answer(questions, calibration)
        notes += (*index.notes, *asker.notes())
    return Answered(tuple(answers[spec.name] for spec in specs), tuple(dict.fromkeys(notes)))


def confusing_pairs(collection: Collection, answers: Answers) -> tuple[Confusion, ...]:
    """Find the skills that steal at least `LEAST_STOLEN` queries from another one.

    Args:
        collection: The collection.
        answers: What a system answered.

    Returns:
        As `confusables` does.
    """
    found = confusables(collection, answers, terms=terms)
    return tuple(pair for pair in found if pair.queries >= LEAST_STOLEN)


def _calibration(spec: SystemSpec) -> Calibration:
    """Return the calibration of a system."""
    return load_calibration(spec.calibration) if spec.calibration else default_calibration()


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
    folders: SkillFolders = (
        use_skills(collection, roots, work) if roots else write_skills(collection, work)
    )
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
    # A run without any negative was most likely never asked them.
    unanswerable = {NEGATIVES: negatives} if any(negatives.values()) else {}
    return SystemAnswers(spec.name, spec.settings, answers, unanswerable)


def _sample(foreign: Iterable[tuple[str, Sequence[JudgedQuery]]]) -> tuple[JudgedQuery, ...]:
    """Return some foreign queries under ids that name where they come from."""
    return tuple(
        replace(query, query_id=f"{name}:{query.query_id}")
        for name, queries in foreign
        for query in _evenly_spaced(queries, MAX_FOREIGN)
    )


def _evenly_spaced(queries: Sequence[JudgedQuery], n: int) -> Iterator[JudgedQuery]:
    """Yield at most n queries, those between them equally many."""
    count = min(len(queries), n)
    return (queries[number * len(queries) // count] for number in range(count))


class _Steps:
    """Tells how many of all searches are done."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def advance(self) -> None:
        """Count one more."""
        self._done += 1
        if self._progress is not None:
            self._progress("search", self._done, self._total)


@dataclass(frozen=True, slots=True)
class _Questions:
    """What every system is asked.

    Attributes:
        collection: Its queries and negatives.
        foreign: Queries of other collections.
        drop_gold: Whether judged queries are asked without the documents that answer them.
    """

    collection: Collection
    foreign: tuple[JudgedQuery, ...]
    drop_gold: bool

    def __len__(self) -> int:
        judged = len(self.collection.queries) * (2 if self.drop_gold else 1)
        return judged + len(self.collection.negatives) + len(self.foreign)


class _Asker:
    """Asks one system."""

    def __init__(self, spec: SystemSpec, index: JudgedIndex, steps: _Steps) -> None:
        self._spec = spec
        self._index = index
        self._steps = steps
        self._refused: dict[str, str] = {}

    def answer(self, questions: _Questions, calibration: Calibration) -> SystemAnswers:
        """Ask all there is to ask."""
        answers = dict(self._judged(questions.collection))
        dropped = self._without_gold(questions.collection) if questions.drop_gold else ()
        unanswerable = {
            NEGATIVES: self._simple(questions.collection.negatives),
            FOREIGN: self._simple(questions.foreign),
            DROPPED_GOLD: dict(dropped),
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
            milliseconds=self._milliseconds(questions.collection.queries),
        )

    def notes(self) -> Iterator[str]:
        """Yield what a user should know."""
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
        """Answer the judged queries with nothing right left; none where nothing at all is left."""
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
        self._steps.advance()
        try:
            return self._index.rank(query.text, n, system=self._spec.system, hidden=hidden)[0]
        except QueryError as exc:
            self._refused[query.query_id] = str(exc)
            return ()

    def _milliseconds(self, queries: Sequence[JudgedQuery]) -> float | None:
        """Return the median wall time of an answer as long as users get it."""
        answered = [query for query in queries if query.query_id not in self._refused]
        seconds = [
            self._index.rank(query.text, USUAL_DEPTH, system=self._spec.system)[1]
            for query in _evenly_spaced(answered, MAX_TIMED)
        ]
        return 1000 * median(seconds) if seconds else None
