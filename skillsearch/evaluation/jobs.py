"""From folders to outcomes: load collections, evaluate them, and write runs and page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection as AbstractCollection
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.assess import assess, assess_kinds, with_languages
from skillsearch.evaluation.collection import load_collection, pool_collections
from skillsearch.evaluation.confusables import confusables
from skillsearch.evaluation.judged_index import Embedders, file_name
from skillsearch.evaluation.lines import replace_file
from skillsearch.evaluation.own_skills import read_own_collection
from skillsearch.evaluation.page import render_page
from skillsearch.evaluation.report import Outcome
from skillsearch.evaluation.runs import write_run
from skillsearch.evaluation.searching import NEGATIVES, answer_all
from skillsearch.evaluation.systems import SystemSpec
from skillsearch.evaluation.types import Answers, Collection, JudgedQuery
from skillsearch.types import Diagnostic, Progress

EXAMPLE = Path(__file__).with_name("example")
"""The packaged collection: the example skills, and queries in other words than theirs."""


@dataclass(frozen=True, slots=True)
class Job:
    """A collection to evaluate, foreign queries, and the skill folders that it was made from."""

    collection: Collection
    foreign: tuple[tuple[str, tuple[JudgedQuery, ...]], ...] = ()
    roots: tuple[Path, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def load_jobs(
    places: Sequence[Path],
    *,
    foreign: Sequence[Path] = (),
    split: str = "test",
    pool: bool = False,
) -> tuple[Job, ...]:
    """Load the collections in some folders, one job each; equal names are numbered.

    The queries of `foreign` collections are asked of every other one, but not of themselves, nor of
    a pool that they are in. With `pool` the documents of all compete, see `pool_collections`.
    Raises EvaluationError if a collection cannot be used; names the file, the line and the cure.
    """
    others = list(zip(foreign, _load(foreign, split), strict=True))
    collections = tuple(_load(places, split))

    def job(collection: Collection, own: Sequence[Path]) -> Job:
        folders = {folder.resolve() for folder in own}
        named = ((one.name, one.queries) for path, one in others if path.resolve() not in folders)
        return Job(collection, tuple(named))

    if pool:
        return tuple(job(collection, places) for collection in pool_collections(collections))
    return tuple(job(one, [place]) for place, one in zip(places, collections, strict=True))


def make_own_job(
    roots: Sequence[Path],
    kinds: AbstractCollection[str],
    *,
    foreign: Sequence[Path] = (),
    split: str = "test",
) -> Job:
    """Make a collection of the user's own skills, with queries as in `read_own_collection`.

    Raises RootError if a folder cannot be read, and EvaluationError if no query can be made, or a
    foreign collection cannot be used.
    """
    others = tuple((one.name, one.queries) for one in _load(foreign, split))
    collection, diagnostics = read_own_collection(roots, kinds)
    return Job(collection, others, tuple(roots), diagnostics)


def evaluate(
    jobs: Sequence[Job],
    specs: Sequence[SystemSpec],
    *,
    work: Path,
    drop_gold: bool = False,
    with_confusions: bool = False,
    progress: Progress | None = None,
) -> tuple[Outcome, ...]:
    """Let systems, the baseline first, answer the queries of collections, and measure the answers.

    `work` and `drop_gold` are as in `answer_all`.
    """
    embedders = Embedders()
    pooled = [query for job in jobs if job.collection.pool for query in job.collection.queries]
    outcomes = []
    for job in jobs:
        collection = job.collection
        answered = answer_all(
            collection,
            specs,
            work=work,
            roots=job.roots,
            foreign=job.foreign,
            asked=pooled if collection.pool else (),
            drop_gold=drop_gold,
            embedders=embedders,
            progress=progress,
        )
        systems = answered.systems
        report = assess(collection, systems, notes=answered.notes)
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


def save_runs(outcomes: Sequence[Outcome], folder: Path) -> None:
    """Write the answers of every system as a run file, ``COLLECTION.SYSTEM.trec``.

    Characters that file names should not hold become underscores; of equal names the later are
    numbered. Answers to negatives are included, those to other unanswerable queries are not. Raises
    EvaluationError if a file cannot be written.
    """
    for name, system, answers in _runs(outcomes):
        write_run(folder / f"{name}.trec", answers, system)


def save_page(outcomes: Sequence[Outcome], path: Path, *, made: str, version: str) -> None:
    """Write the reports as an HTML page in one step; kinds of queries follow their report.

    Raises EvaluationError if it cannot be written.
    """
    reports = [one for outcome in outcomes for one in (outcome.report, *outcome.kinds.values())]
    # Kinds of queries are parts of a collection, so a mean over them says nothing.
    has_mean = not any(outcome.kinds for outcome in outcomes)
    html = render_page(reports, made=made, version=version, has_mean=has_mean)
    try:
        replace_file(path, [html])
    except OSError as exc:
        raise EvaluationError(f"{path} cannot be written: {exc.strerror or exc}.") from exc


def _load(places: Sequence[Path], split: str) -> Iterator[Collection]:
    """Load collections, and number those that have the name of an earlier one."""
    seen: Counter[str] = Counter()
    for place in places:
        one = load_collection(place, split)
        seen[one.name] += 1
        number = seen[one.name]
        yield one if number == 1 else replace(one, name=f"{one.name} ({number})")


def _runs(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, str, Answers]]:
    """Yield a distinct file name, the system, and its answers."""
    taken: set[str] = set()
    for outcome in outcomes:
        for system in outcome.answers:
            stem = f"{file_name(outcome.report.collection)}.{file_name(system.name)}"
            names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
            name = next(name for name in names if name.casefold() not in taken)
            taken.add(name.casefold())
            answers = {**system.answers, **system.unanswerable.get(NEGATIVES, {})}
            yield name, system.name, answers
