"""From folders and the names of systems to outcomes: load, ask every system, and measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

from skillsearch.errors import QueryError
from skillsearch.evaluation.assess import assess, assess_kinds, with_languages
from skillsearch.evaluation.collection import load_collection, pool_collections
from skillsearch.evaluation.confusables import confusables
from skillsearch.evaluation.judged_index import Embedders, JudgedIndex, use_skills, write_skills
from skillsearch.evaluation.own_skills import read_own_collection
from skillsearch.evaluation.report import Outcome
from skillsearch.evaluation.runs import read_run
from skillsearch.evaluation.types import (
    NEGATIVES,
    Answers,
    Collection,
    JudgedQuery,
    Ranking,
    SystemAnswers,
    SystemSpec,
)
from skillsearch.index.search.calibration_file import default_calibration, load_calibration
from skillsearch.types import Diagnostic, Languages, Progress

EXAMPLE = Path(__file__).with_name("example")
"""The packaged collection: the example skills, and queries in other words than theirs."""
DEPTH = 50
"""Hits of a judged query, five times what measures use; twice as many take twice the time."""
USUAL_DEPTH = 5
"""Hits of any other query, of which only the first counts, and of a timed query."""
MAX_TIMED = 100
"""Judged queries that are timed."""
MAX_FOREIGN = 200
"""Queries taken from a foreign collection."""
FOREIGN, DROPPED_GOLD = "foreign", "dropped gold"
"""With `NEGATIVES`, where unanswerable queries come from."""


@dataclass(frozen=True, slots=True)
class Job:
    """A collection to evaluate, foreign queries by collection, and the folders it was made from."""

    collection: Collection
    foreign: Sequence[tuple[str, Sequence[JudgedQuery]]] = ()
    roots: tuple[Path, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


class Answered(NamedTuple):
    """Answers of systems on a collection, in order, and remarks for the user."""

    systems: tuple[SystemAnswers, ...]
    notes: tuple[str, ...]


def load_jobs(
    places: Sequence[Path], *, foreign: Sequence[Path] = (), split: str = "test", pool: bool = False
) -> tuple[Job, ...]:
    """Load the collections in some folders, one job each; equal names are numbered.

    The queries of `foreign` collections are asked of every other one, but not of themselves, nor of
    a pool that they are in. With `pool` the documents of all compete, see `pool_collections`.
    """
    others = list(zip(foreign, _load(foreign, split), strict=True))
    loaded: Sequence[Collection] = tuple(_load(places, split))
    loaded = pool_collections(loaded) if pool else loaded
    jobs = []
    for place, collection in zip(places, loaded, strict=True):
        own = {folder.resolve() for folder in (places if pool else [place])}
        named = ((one.name, one.queries) for path, one in others if path.resolve() not in own)
        jobs.append(Job(collection, tuple(named)))
    return tuple(jobs)


def make_own_job(
    roots: Sequence[Path],
    kinds: Sequence[str],
    *,
    foreign: Sequence[Path] = (),
    split: str = "test",
) -> Job:
    """Make a collection of the user's own skills, with queries as in `read_own_collection`."""
    others = tuple((one.name, one.queries) for one in _load(foreign, split))
    collection, diagnostics = read_own_collection(roots, kinds)
    return Job(collection, others, tuple(roots), diagnostics)


def _load(places: Sequence[Path], split: str) -> Iterator[Collection]:
    seen: Counter[str] = Counter()
    for place in places:
        one = load_collection(place, split)
        seen[one.name] += 1
        number = seen[one.name]
        yield replace(one, name=f"{one.name} ({number})") if number > 1 else one


def evaluate(
    jobs: Sequence[Job],
    specs: Sequence[SystemSpec],
    *,
    work: Path,
    drop_gold: bool = False,
    with_confusions: bool = False,
    progress: Progress | None = None,
) -> tuple[Outcome, ...]:
    """Let systems, the baseline first, answer the queries of collections, and measure them."""
    embedders = Embedders()
    pooled = [query for job in jobs if job.collection.pool for query in job.collection.queries]
    ask = partial(answer_all, work=work, drop_gold=drop_gold, progress=progress)
    outcomes = []
    for job in jobs:
        collection = job.collection
        asked = pooled if collection.pool else ()
        systems, notes = ask(job, specs, asked=asked, embedders=embedders)
        report = assess(collection, systems, notes=notes)
        outcomes.append(
            Outcome(
                report=with_languages(report, collection, systems),
                answers=systems,
                kinds=assess_kinds(collection, systems) if job.roots else {},
                confusions=confusables(collection, systems[0].answers) if with_confusions else None,
                diagnostics=job.diagnostics,
            )
        )
    return tuple(outcomes)


def answer_all(
    job: Job,
    specs: Sequence[SystemSpec],
    *,
    work: Path,
    asked: Sequence[JudgedQuery] = (),
    drop_gold: bool = False,
    embedders: Embedders | None = None,
    progress: Progress | None = None,
) -> Answered:
    """Let every system answer the queries of a collection.

    Skills and indexes stay in `work`: the next time only queries are embedded. `asked` are all
    queries for which these documents are indexed, if more than the collection has. With `drop_gold`
    each judged query is asked again, its relevant documents and their copies hidden.
    """
    collection, embedders = job.collection, embedders or Embedders()
    # Mistakes in the systems are found before anything takes long.
    answers = {spec.name: _from_run(collection, spec, spec.run) for spec in specs if spec.run}
    searched = [spec for spec in specs if not spec.run]
    calibrations = [
        load_calibration(spec.calibration) if spec.calibration else default_calibration()
        for spec in searched
    ]
    asked = asked or collection.queries
    searched = [replace(spec, languages=embedders.languages(spec, asked)) for spec in searched]
    indexes: dict[tuple[str, str, Languages], JudgedIndex] = {}
    if searched:
        roots = job.roots
        folders = use_skills(collection, roots, work) if roots else write_skills(collection, work)
        for spec in searched:
            key = spec.model, spec.fields, spec.languages
            if key not in indexes:
                indexes[key] = JudgedIndex.open(folders, spec, embedders, progress=progress)
    foreign = [
        replace(query, query_id=f"{name}:{query.query_id}")
        for name, queries in job.foreign
        for query in _evenly_spaced(queries, MAX_FOREIGN)
    ]
    of_each = len(collection.queries) * (1 + drop_gold) + len(collection.negatives) + len(foreign)
    done = count(1)

    def advance() -> None:
        if progress:
            progress("search", next(done), of_each * len(searched))

    notes: list[str] = []
    for spec, calibration in zip(searched, calibrations, strict=True):
        index = indexes[spec.model, spec.fields, spec.languages].with_calibration(calibration)
        asker = _Asker(spec, index, calibration.threshold, advance)
        answers[spec.name] = asker.answer(collection, foreign, drop_gold=drop_gold)
        notes += (*index.notes, *asker.notes())
    return Answered(tuple(answers[spec.name] for spec in specs), tuple(dict.fromkeys(notes)))


def _from_run(collection: Collection, spec: SystemSpec, path: Path) -> SystemAnswers:
    run = read_run(path, collection)
    answers: dict[str, Ranking] = {}
    for key in (query.query_id for query in collection.queries):
        ignored = collection.ignored.get(key, ())
        answers[key] = tuple(pair for pair in run.get(key, ()) if pair[0] not in ignored)
    negatives = {one.query_id: run.get(one.query_id, ()) for one in collection.negatives}
    # A run without any negative was most likely not asked any.
    unanswerable = {NEGATIVES: negatives} if any(negatives.values()) else {}
    return SystemAnswers(spec.name, spec.settings, answers, unanswerable)


def _evenly_spaced(queries: Sequence[JudgedQuery], n: int) -> Iterator[JudgedQuery]:
    """Yield at most n queries, equally far apart."""
    chosen = min(len(queries), n)
    return (queries[number * len(queries) // chosen] for number in range(chosen))


@dataclass(frozen=True, slots=True)
class _Asker:
    """Asks one system; `refused` are ids of queries with the reason."""

    spec: SystemSpec
    index: JudgedIndex
    threshold: float
    advance: Callable[[], None]
    refused: dict[str, str] = field(default_factory=dict)

    def answer(
        self, collection: Collection, foreign: Sequence[JudgedQuery], *, drop_gold: bool
    ) -> SystemAnswers:
        """Ask everything."""
        spec, index, queries = self.spec, self.index, collection.queries
        ignored = collection.ignored
        hidden = {one.query_id: index.hidden(ignored.get(one.query_id, ())) for one in queries}
        answers = self._ask(queries, DEPTH, hidden)
        unanswerable = {
            NEGATIVES: self._ask(collection.negatives, USUAL_DEPTH),
            FOREIGN: self._ask(foreign, USUAL_DEPTH),
        }
        if drop_gold:
            for query_id in hidden:
                grades = collection.qrels[query_id].items()
                gold = [doc_id for doc_id, grade in grades if grade > 0]
                hidden[query_id] |= index.hidden(gold, with_copies=True)
            # Without any document left there is nothing to search.
            left = [one for one in queries if len(hidden[one.query_id]) < len(index)]
            unanswerable[DROPPED_GOLD] = self._ask(left, USUAL_DEPTH, hidden)
        is_calibrated = spec.system == "hybrid"
        usual = self.threshold if is_calibrated else None
        answered = [query for query in queries if query.query_id not in self.refused]
        timed = _evenly_spaced(answered, MAX_TIMED)
        seconds = [index.rank(one.text, USUAL_DEPTH, system=spec.system)[1] for one in timed]
        return SystemAnswers(
            name=spec.name,
            settings=spec.settings,
            answers=answers,
            unanswerable={source: of for source, of in unanswerable.items() if of},
            threshold=usual if spec.threshold is None else spec.threshold,
            is_calibrated=is_calibrated,
            milliseconds=1000 * median(seconds) if seconds else None,
        )

    def notes(self) -> Iterator[str]:
        """Yield a remark if queries were refused."""
        for query_id, reason in islice(self.refused.items(), 1):
            said = f"Queries that {self.spec.name} refused, which count as without an answer"
            yield f"{said}: {len(self.refused):,}, such as {query_id!r}: {reason}"

    def _ask(
        self, queries: Sequence[JudgedQuery], n: int, hidden: Mapping[str, frozenset[str]] = {}
    ) -> Answers:
        """Answer queries, each without some documents; one that is refused has no answer."""
        answers: dict[str, Ranking] = {}
        for query in queries:
            self.advance()
            key, system = query.query_id, self.spec.system
            left_out = hidden.get(key, frozenset())
            try:
                answers[key], _ = self.index.rank(query.text, n, system=system, hidden=left_out)
            except QueryError as exc:
                answers[key], self.refused[key] = (), str(exc)
        return answers
