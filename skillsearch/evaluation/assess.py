"""Measure systems on a judged collection and put all of it into one report; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.abstention import assess_abstention
from skillsearch.evaluation.comparison import TIE, compare, interval
from skillsearch.evaluation.measures import answerable_qrels, measure
from skillsearch.evaluation.types import (
    Abstention,
    Collection,
    JudgedQuery,
    PerQuery,
    Qrels,
    QueryExample,
    RankedDocument,
    Ranking,
    Report,
    SystemAnswers,
    SystemReport,
)
from skillsearch.types import JsonValue

EXAMPLE_MEASURE = "nDCG@10"
"""The measure by which a query is a good or a bad one."""

_SHOWN = 3
"""Documents shown of an answer."""
_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class _Judged:
    """What is looked up of a collection.

    Attributes:
        qrels: Judgments of the queries with a relevant document, in the order of the queries.
        texts: Text of each query.
        names: Name of each document.
    """

    qrels: Qrels
    texts: Mapping[str, str]
    names: Mapping[str, str]


def assess(
    collection: Collection,
    systems: Sequence[SystemAnswers],
    *,
    examples: int = 5,
    notes: Sequence[str] = (),
) -> Report:
    """Measure systems on a collection and compare them with the first of them.

    Args:
        collection: Documents, queries and judgments; answers to other queries are ignored.
        systems: What each system answered, the baseline first.
        examples: How many of the worst and of the best queries of a system are shown at most.
        notes: What a user should know besides the notes of the collection.

    Returns:
        The report.

    Raises:
        EvaluationError: When no query has a relevant document, or two systems share a name.
        MissingDependencyError: When ir_measures is not installed.
    """
    judged = _judged(collection)
    _check_names(systems)
    values = {system.name: measure(judged.qrels, system.answers) for system in systems}
    return Report(
        collection=collection.name,
        documents=len(collection.documents),
        queries=len(judged.qrels),
        unanswerable=_count_unanswerable(systems),
        systems=tuple(_report(judged, system, values, examples) for system in systems),
        comparisons=compare(list(values.items())),
        notes=(*collection.notes, *notes),
    )


def assess_part(
    collection: Collection,
    systems: Sequence[SystemAnswers],
    part: str,
    queries: Sequence[JudgedQuery],
    *,
    examples: int = 5,
) -> Report:
    """Measure systems on some queries of a collection by themselves.

    Args:
        collection: The collection.
        systems: What each system answered.
        part: What those queries are, in words; the report is named after it.
        queries: The queries, of which at least one has a relevant document.
        examples: As in `assess`.

    Returns:
        The report; the notes of the collection are not repeated in it.

    Raises:
        EvaluationError: As `assess`.
        MissingDependencyError: When ir_measures is not installed.
    """
    name = f"{collection.name}: {part}"
    chosen = replace(collection, name=name, queries=tuple(queries), notes=())
    return assess(chosen, systems, examples=examples)


def report_dict(report: Report) -> dict[str, JsonValue]:
    """Return the JSON form of a report.

    Args:
        report: What was measured on one collection.

    Returns:
        Plain lists and string-keyed dicts, numbers rounded to 6 decimals, None for what is
        missing; what belongs to a system stands under its name.
    """
    systems = {system.name: system for system in report.systems}
    return {
        "collection": report.collection,
        "documents": report.documents,
        "queries": report.queries,
        "unanswerable": dict(report.unanswerable),
        "systems": {name: _plain(one.means) for name, one in systems.items()},
        "intervals": {name: _plain(one.intervals) for name, one in systems.items()},
        "settings": {name: one.settings for name, one in systems.items()},
        "milliseconds": {name: _plain(one.milliseconds) for name, one in systems.items()},
        "comparisons": [_plain(asdict(comparison)) for comparison in report.comparisons],
        "abstention": {name: _abstention_dict(one.abstention) for name, one in systems.items()},
        "examples": {
            name: {
                "worst": [_plain(asdict(example)) for example in one.worst],
                "best": [_plain(asdict(example)) for example in one.best],
            }
            for name, one in systems.items()
        },
        "per_query": {name: _plain(one.per_query) for name, one in systems.items()},
        "notes": list(report.notes),
    }


def system_means(report: Report) -> Mapping[str, Mapping[str, float]]:
    """Return the means of each system of a report, by its name."""
    return {system.name: system.means for system in report.systems}


def mean_systems(reports: Sequence[Report]) -> dict[str, dict[str, float]]:
    """Return the mean of each system's measures over collections, each collection counting once.

    Args:
        reports: One report a collection.

    Returns:
        System → measure → mean, of the systems that every report has.
    """
    means = list(map(system_means, reports))
    return {
        name: {key: fmean(of[name][key] for of in means) for key in first}
        for name, first in (means[0] if means else {}).items()
        if all(name in of for of in means)
    }


def _judged(collection: Collection) -> _Judged:
    """Gather what is looked up of a collection."""
    qrels = answerable_qrels(
        {query.query_id: collection.qrels.get(query.query_id, {}) for query in collection.queries}
    )
    if not qrels:
        raise EvaluationError(
            f"No query of the collection {collection.name!r} has a relevant document, so there "
            "is nothing to measure; judge at least one document above 0 in its qrels.tsv."
        )
    return _Judged(
        qrels,
        texts={query.query_id: query.text for query in collection.queries},
        names={document.doc_id: document.name for document in collection.documents},
    )


def _check_names(systems: Sequence[SystemAnswers]) -> None:
    """Refuse systems that a report could not tell apart."""
    names = [system.name for system in systems]
    for name in names:
        if names.count(name) > 1:
            raise EvaluationError(
                f"Two systems are named {name!r}; name each apart, such as --system {name}2=..."
            )


def _count_unanswerable(systems: Sequence[SystemAnswers]) -> dict[str, int]:
    """Count the unanswerable queries that any system was asked, by source."""
    queries: dict[str, set[str]] = {}
    for system in systems:
        for source, answers in system.unanswerable.items():
            queries.setdefault(source, set()).update(answers)
    return {source: len(asked) for source, asked in queries.items() if asked}


def _report(
    judged: _Judged,
    system: SystemAnswers,
    values: Mapping[str, Mapping[str, PerQuery]],
    examples: int,
) -> SystemReport:
    """Put together what was measured of one system."""
    own = values[system.name]
    target = own[EXAMPLE_MEASURE]
    others = [of[EXAMPLE_MEASURE] for name, of in values.items() if name != system.name]

    def show(queries: Sequence[str]) -> tuple[QueryExample, ...]:
        return tuple(
            _example(judged, query, target[query], system.answers.get(query, ()))
            for query in queries[:examples]
        )

    return SystemReport(
        name=system.name,
        settings=system.settings,
        means={name: fmean(of.values()) for name, of in own.items()},
        intervals={name: interval(list(of.values())) for name, of in own.items()},
        per_query=own,
        worst=show(sorted(target, key=target.__getitem__)),
        best=show(_by_gain(target, others)),
        abstention=assess_abstention(system, judged.qrels),
        milliseconds=system.milliseconds,
    )


def _by_gain(own: PerQuery, others: Sequence[PerQuery]) -> list[str]:
    """Order the queries that gain by how far they are above the worst other system, or above 0."""
    gains = {
        query: value - min((other[query] for other in others), default=0.0)
        for query, value in own.items()
    }
    gaining = [query for query, gain in gains.items() if gain > TIE]
    return sorted(gaining, key=gains.__getitem__, reverse=True)


def _example(judged: _Judged, query: str, value: float, ranking: Ranking) -> QueryExample:
    """Show a query and the documents that won."""
    relevant = tuple(document for document, grade in judged.qrels[query].items() if grade > 0)
    return QueryExample(
        query_id=query,
        text=judged.texts[query],
        value=value,
        relevant=relevant,
        top=tuple(
            RankedDocument(
                document, judged.names.get(document, document), score, document in relevant
            )
            for document, score in ranking[:_SHOWN]
        ),
    )


def _abstention_dict(abstention: Abstention) -> dict[str, JsonValue]:
    """Return the JSON form, without the scores of all queries."""
    record = asdict(abstention)
    del record["top_scores"]
    record["keeping"] = {f"{share:.2f}": point for share, point in record["keeping"].items()}
    return {name: _plain(value) for name, value in record.items()}


def _plain(value: JsonValue) -> JsonValue:
    """Return a value as JSON has it: tuples as lists, floats rounded and finite, or None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return round(value, _DECIMALS) + 0.0 if math.isfinite(value) else None
    return value
