"""From folders to outcomes: load collections, evaluate them, and write what came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection as AbstractCollection
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.assess import assess
from skillsearch.evaluation.by_language import with_languages
from skillsearch.evaluation.collection import load_collection
from skillsearch.evaluation.judged_index import file_name
from skillsearch.evaluation.lines import replace_file
from skillsearch.evaluation.outcome import Outcome, assess_kinds
from skillsearch.evaluation.own_files import read_own_collection
from skillsearch.evaluation.page import render_page
from skillsearch.evaluation.pool import pool_collections
from skillsearch.evaluation.query_embedder import Embedders
from skillsearch.evaluation.runs import write_run
from skillsearch.evaluation.searching import NEGATIVES, answer_all, confusing_pairs
from skillsearch.evaluation.systems import SystemSpec
from skillsearch.evaluation.types import Answers, Collection, JudgedQuery
from skillsearch.types import Diagnostic, Progress

EXAMPLE = Path(__file__).with_name("example")
"""The collection of the package: its example skills, asked for in other words than theirs."""


@dataclass(frozen=True, slots=True)
class Job:
    """A collection that is to be evaluated.

    Attributes:
        collection: The collection.
        foreign: Queries that nothing in it answers, by the name of their collection.
        roots: The folders of the user's own skills, where it was made from these.
        diagnostics: What is wrong with those skills and their eval files.
    """

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
    """Load collections.

    Args:
        places: Their folders.
        foreign: Folders of collections that nothing in the others answers; none of them is
            foreign to itself, nor to a pool that it is in.
        split: As in `load_collection`.
        pool: True to put the documents of all into one, as `pool_collections` does.

    Returns:
        A job for each, in their order; of several collections of one name the later are numbered.

    Raises:
        EvaluationError: When a collection cannot be used; names the file, the line and the cure.
    """
    others = _load_foreign(foreign, split)
    collections = tuple(_load(places, split))

    def job(collection: Collection, own: Sequence[Path]) -> Job:
        named = ((one.name, one.queries) for path, one in others if not _is_in(path, own))
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
    """Make a collection of the user's own skills.

    Args:
        roots: Their folders.
        kinds: As in `read_own_collection`.
        foreign: As in `load_jobs`.
        split: As in `load_collection`, for the foreign ones.

    Returns:
        The job.

    Raises:
        RootError: When a folder cannot be read.
        EvaluationError: When no query can be made, or a foreign collection cannot be used.
    """
    others = tuple((one.name, one.queries) for _, one in _load_foreign(foreign, split))
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
    """Let systems answer the queries of collections, and measure what they answer.

    Args:
        jobs: The collections.
        specs: The systems, the baseline first.
        work: As in `answer_all`.
        drop_gold: As in `answer_all`.
        with_confusions: Whether to look for skills that steal each other's queries.
        progress: As in `answer_all`.

    Returns:
        An outcome a collection.

    Raises:
        SkillSearchError: As `answer_all` and `assess`.
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
                confusions=(
                    confusing_pairs(collection, systems[0].answers) if with_confusions else None
                ),
                diagnostics=job.diagnostics,
            )
        )
    return tuple(outcomes)


def save_runs(outcomes: Sequence[Outcome], folder: Path) -> None:
    """Write what every system answered as a run file, ``COLLECTION.SYSTEM.trec``.

    What a file name should not hold is an underscore in it; where two would be equal, the later
    is numbered. Answers to negatives are in it, those to other unanswerable queries are not.

    Args:
        outcomes: The outcomes.
        folder: Where to write; files that are there are replaced.

    Raises:
        EvaluationError: When a file cannot be written.
    """
    for name, system, answers in _runs(outcomes):
        write_run(folder / f"{name}.trec", answers, system)


def save_page(outcomes: Sequence[Outcome], path: Path, *, made: str, version: str) -> None:
    """Write the reports as an HTML page, replacing one that is there in one step.

    Args:
        outcomes: The outcomes; the kinds of queries follow the report that they belong to.
        path: The file.
        made: When it was made, in words.
        version: Version of skillsearch.

    Raises:
        EvaluationError: When it cannot be written.
        MissingDependencyError: When matplotlib is not installed.
    """
    reports = [one for outcome in outcomes for one in (outcome.report, *outcome.kinds.values())]
    # The kinds of query of the user's own skills are parts of a whole, not collections beside it.
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


def _load_foreign(places: Sequence[Path], split: str) -> list[tuple[Path, Collection]]:
    """Load collections whose queries are foreign to others."""
    return list(zip(places, _load(places, split), strict=True))


def _is_in(path: Path, folders: Sequence[Path]) -> bool:
    """Tell whether a path is one of some folders."""
    return path.resolve() in {folder.resolve() for folder in folders}


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
