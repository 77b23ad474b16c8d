"""From folders of collections to outcomes: load, ask every system, and measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from skillsearch.evaluation.answering import answer_all, foreign_queries
from skillsearch.evaluation.assess import assess, assess_kinds, with_languages
from skillsearch.evaluation.collection import load_collection, negatives_by_source
from skillsearch.evaluation.confusables import confusables
from skillsearch.evaluation.judged_index import Embedders
from skillsearch.evaluation.own_skills import read_own_collection
from skillsearch.evaluation.pools import pool_collections
from skillsearch.evaluation.reporting.report import Outcome
from skillsearch.evaluation.style import style_controls
from skillsearch.evaluation.types import FOREIGN, Collection, Job, SystemSpec
from skillsearch.types.indexing import Progress


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
    jobs = []
    for path, collection in zip(places, loaded, strict=True):
        own = {folder.resolve() for folder in (places if pool else [path])}
        named = ((other.name, other.queries) for path, other in others if path.resolve() not in own)
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
    drop_relevant: bool = False,
    with_confusions: bool = False,
    progress: Progress | None = None,
) -> tuple[Outcome, ...]:
    """Let systems, the baseline first, answer the queries of collections, and measure them."""
    embedders = Embedders()
    outcomes = []
    for job in jobs:
        collection = job.collection
        systems, notes = answer_all(
            job,
            specs,
            work=work,
            drop_relevant=drop_relevant,
            embedders=embedders,
            progress=progress,
        )
        unanswerable = {**negatives_by_source(collection), FOREIGN: foreign_queries(job)}
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
