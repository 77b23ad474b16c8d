"""From folders and the names of systems to outcomes: load, ask every system, and measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, get_args

from skillsearch.errors import EvaluationError, QueryError
from skillsearch.evaluation.assess import assess, assess_kinds, with_languages
from skillsearch.evaluation.collection import (
    load_collection,
    negatives_by_source,
    pool_collections,
)
from skillsearch.evaluation.confusables import confusables
from skillsearch.evaluation.judged_index import Embedders, JudgedIndex, use_skills, write_skills
from skillsearch.evaluation.lines import shown
from skillsearch.evaluation.own_skills import read_own_collection
from skillsearch.evaluation.report import Outcome
from skillsearch.evaluation.runs import DROPPED, read_run
from skillsearch.evaluation.style import style_controls
from skillsearch.evaluation.types import (
    DROPPED_GOLD,
    FOREIGN,
    Answers,
    Collection,
    Examples,
    JudgedQuery,
    Ranking,
    SystemAnswers,
    SystemSpec,
)
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.calibration_file import PACKAGED, load_calibration
from skillsearch.index.search.options import SearchOptions
from skillsearch.setting_values import parse_reader
from skillsearch.text.safe_text import one_line
from skillsearch.types import SYSTEMS, Diagnostic, Progress, System

DEFAULT_SYSTEMS: tuple[System, ...] = ("hybrid", "bm25", "dense")
USUAL = SystemSpec("")
"""A system with the defaults."""
"""Systems compared by default; the first is the baseline."""
DEPTH = 50
"""Hits of a judged query, five times what measures use; twice as many take twice the time."""
USUAL_DEPTH = 5  # hits of any other query, of which only the first counts, and of a timed query
MAX_TIMED = 100  # judged queries that are timed
MAX_FOREIGN = 200  # queries taken from a foreign collection

_SETTINGS = tuple("system model fields threshold reader calibration examples".split())
_OF_A_RUN = ("run", "threshold", "perhaps")
_WORDS: Mapping[str, Sequence[str]] = {
    "system": SYSTEMS,
    "fields": ("full", "metadata"),
    "examples": get_args(Examples),
}
"""The allowed values of settings that are not free text."""
_MAX_NAME_CHARS = 80
_EXAMPLES = (
    "write hybrid, bm25, dense or rrf; NAME=key:value,... such as "
    "lean=system:hybrid,fields:metadata; or NAME=@FILE for a TREC run file, "
    "NAME=run:FILE,threshold:0.5,perhaps:0.3 for one whose scores say what fits and may fit"
)


@dataclass(frozen=True, slots=True)
class Job:
    """A collection to evaluate, foreign queries by collection, and the folders it was made from."""

    collection: Collection
    foreign: Sequence[tuple[str, Sequence[JudgedQuery]]] = ()
    pooled: Sequence[JudgedQuery] = ()  # queries of all collections that share its documents
    roots: tuple[Path, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


class Answered(NamedTuple):
    """Answers of systems on a collection, in order, and remarks for the user."""

    systems: tuple[SystemAnswers, ...]
    notes: tuple[str, ...]


def parse_systems(texts: Sequence[str], usual: SystemSpec = USUAL) -> tuple[SystemSpec, ...]:
    """Read the systems to compare, each with another name; without texts `DEFAULT_SYSTEMS`.

    A text is a name in `SYSTEMS`; ``NAME=key:value,...`` with keys of `_SETTINGS` or `_OF_A_RUN`,
    and values that may contain colons; or ``NAME=@FILE``. Settings it does not name are as in the
    `usual` one. An EvaluationError names the piece, and what is allowed.
    """
    specs: dict[str, SystemSpec] = {}
    for text in texts or DEFAULT_SYSTEMS:
        try:
            spec = _parse_system(text, usual)
        except ValueError as exc:
            said = f"--system {shown(text)}: {exc}. In general: {_EXAMPLES}."
            raise EvaluationError(said) from exc
        if spec.name in specs:
            same = f"Two systems are named {shown(spec.name)}"
            raise EvaluationError(f"{same}; rename one, such as second=system:hybrid")
        specs[spec.name] = spec
    return tuple(specs.values())


def _parse_system(text: str, usual: SystemSpec) -> SystemSpec:
    name, equals, rest = text.partition("=")
    if not equals:
        if name not in SYSTEMS:
            raise ValueError("it is not a way to search")
        return replace(usual, name=name, system=name)
    if not name or name != one_line(name, _MAX_NAME_CHARS):
        raise ValueError(f"its name must be 1 to {_MAX_NAME_CHARS} visible characters on one line")
    if rest == "@":
        raise ValueError("there is no file name after the @")
    if rest.startswith("@"):
        return SystemSpec(name, run=Path(rest[1:]))
    settings: dict[str, Any] = {}
    for key, value in map(_read_setting, rest.split(",")):
        if key in settings:
            raise ValueError(f"it has {key} twice")
        settings[key] = value
    if not settings.keys().isdisjoint(("run", "perhaps")):
        return _run_spec(name, settings)
    if name in SYSTEMS and settings.setdefault("system", name) != name:
        raise ValueError(f"{name} is the name of another way to search; choose another name")
    return replace(usual, name=name, **settings)


def _run_spec(name: str, settings: Mapping[str, Any]) -> SystemSpec:
    """Return a run file with the lowest scores of what fits, and of what may fit."""
    if "run" not in settings or (others := settings.keys() - set(_OF_A_RUN)):
        said = f"it has {', '.join(sorted(others))} too" if "run" in settings else "it has no run"
        raise ValueError(f"{said}; a run file has {', '.join(_OF_A_RUN)}")
    if settings.get("perhaps", 0.0) > settings.get("threshold", 0.0):
        raise ValueError("perhaps is above the threshold; what may fit scores lower than what fits")
    return SystemSpec(name, **settings)


def _read_setting(piece: str) -> tuple[str, str | float | Path]:
    key, colon, value = piece.partition(":")
    if not colon or key not in (*_SETTINGS, *_OF_A_RUN):
        cure = f"use key:value with one of the keys {', '.join(_SETTINGS)}"
        raise ValueError(f"{shown(piece)} is not a setting; {cure}")
    problem = f"{key} is {shown(value)}"
    if key in ("threshold", "perhaps"):
        with suppress(ValueError):
            if 0.0 <= (number := float(value)) <= 1.0:
                return key, number
        raise ValueError(f"{problem}; use a number from 0 to 1")
    if key == "reader":
        try:
            return key, parse_reader(value, Path())
        except ValueError as exc:
            raise ValueError(f"{problem}; it {exc}") from exc
    if value not in _WORDS.get(key, [value]):
        raise ValueError(f"{problem}; use one of: {', '.join(_WORDS[key])}")
    if not value.strip():
        raise ValueError(f"{problem}; name one")
    return key, Path(value) if key in ("calibration", "run") else value


def load_jobs(
    places: Sequence[Path], *, foreign: Sequence[Path] = (), split: str = "test", pool: bool = False
) -> tuple[Job, ...]:
    """Load the collections in some folders, one job each; equal names are numbered.

    The queries of `foreign` collections are asked of every other one, but not of themselves, nor of
    a pool that they are in. With `pool` the documents of all compete, see `pool_collections`.
    """
    others = list(zip(foreign, _load(foreign, split), strict=True))
    loaded = tuple(_load(places, split))
    loaded = pool_collections(loaded) if pool else loaded
    of_all = list(chain(*(collection.queries for collection in loaded))) if pool else []
    jobs = []
    for path, collection in zip(places, loaded, strict=True):
        own = {folder.resolve() for folder in (places if pool else [path])}
        named = ((other.name, other.queries) for path, other in others if path.resolve() not in own)
        jobs.append(Job(collection, tuple(named), of_all))
    return tuple(jobs)


def make_own_job(
    roots: Sequence[Path],
    kinds: Sequence[str],
    *,
    foreign: Sequence[Path] = (),
    split: str = "test",
) -> Job:
    """Make a collection of the user's own skills, with queries as in `read_own_collection`."""
    others = tuple((other.name, other.queries) for other in _load(foreign, split))
    collection, diagnostics = read_own_collection(roots, kinds)
    return Job(collection, others, roots=tuple(roots), diagnostics=diagnostics)


def _load(places: Sequence[Path], split: str) -> Iterator[Collection]:
    seen: Counter[str] = Counter()
    for path in places:
        collection = load_collection(path, split)
        seen[collection.name] += 1
        number = seen[collection.name]
        name = f"{collection.name} ({number})" if number > 1 else collection.name
        yield replace(collection, name=name)


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
    outcomes = []
    for job in jobs:
        collection = job.collection
        systems, notes = answer_all(
            job, specs, work=work, drop_gold=drop_gold, embedders=embedders, progress=progress
        )
        unanswerable = {**negatives_by_source(collection), FOREIGN: _foreign(job)}
        report = assess(collection, systems, notes=notes)
        report = replace(report, style=style_controls(collection.queries, unanswerable))
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
    drop_gold: bool = False,
    embedders: Embedders | None = None,
    progress: Progress | None = None,
) -> Answered:
    """Let every system answer the queries of a collection.

    Skills and indexes stay in `work`: the next time only queries are embedded. With `drop_gold`
    each judged query is asked again, its relevant documents and their copies hidden.
    """
    collection = job.collection
    answers = {spec.name: _from_run(collection, spec, spec.run) for spec in specs if spec.run}
    searched = [spec for spec in specs if not spec.run]
    foreign = _foreign(job)
    of_each = len(collection.queries) * (1 + drop_gold) + len(collection.negatives) + len(foreign)
    done = count(1)

    def advance() -> None:
        if progress:
            progress("search", next(done), of_each * len(searched))

    notes: list[str] = []
    embedders = Embedders() if embedders is None else embedders
    for opened in _open_indexes(job, searched, work, embedders, progress):
        asker = _Asker(*opened, advance)
        answers[asker.spec.name] = asker.answer(collection, foreign, drop_gold=drop_gold)
        notes += (*asker.index.notes, *asker.notes())
    return Answered(tuple(answers[spec.name] for spec in specs), tuple(dict.fromkeys(notes)))


def _foreign(job: Job) -> list[JudgedQuery]:
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
    return [(spec, indexes[key].with_calibration(of), of) for spec, key, of in opened]


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
    if not any(chain(*(of.values() for of in unanswerable.values()))):
        unanswerable = {}
    if any(dropped.values()):
        unanswerable[DROPPED_GOLD] = dropped
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


@dataclass(frozen=True, slots=True)
class _Asker:
    """Asks one system; `refused` are ids of queries with the reason."""

    spec: SystemSpec
    index: JudgedIndex
    calibration: Calibration
    advance: Callable[[], None]
    refused: dict[str, str] = field(default_factory=dict)

    def answer(
        self, collection: Collection, foreign: Sequence[JudgedQuery], *, drop_gold: bool
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
        if drop_gold:
            for query_id in hidden:
                grades = collection.qrels[query_id].items()
                relevant = [doc_id for doc_id, grade in grades if grade > 0]
                hidden[query_id] |= index.hidden(relevant, with_copies=True)
            # Without any document left there is nothing to search.
            left = [query for query in queries if len(hidden[query.query_id]) < len(index)]
            unanswerable[DROPPED_GOLD] = self._ask(left, USUAL_DEPTH, hidden)
        is_calibrated = spec.system == "hybrid"
        usual = self.calibration.threshold if is_calibrated else None
        return SystemAnswers(
            name=spec.name,
            settings=spec.settings,
            answers=answers,
            unanswerable={source: of for source, of in unanswerable.items() if of},
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
            said = f"Queries that {self.spec.name} refused, which count as without an answer"
            yield f"{said}: {len(self.refused):,}, such as {query_id!r}: {reason}"

    def _ask(
        self, queries: Sequence[JudgedQuery], n: int, hidden: Mapping[str, frozenset[str]] = {}
    ) -> Answers:
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
