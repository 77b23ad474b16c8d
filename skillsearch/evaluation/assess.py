"""Measure systems on a judged collection, and apart by kind and language of the queries; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from statistics import fmean

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.abstention import assess_abstention
from skillsearch.evaluation.collection import languages_of, query_languages
from skillsearch.evaluation.comparison import TIE, compare, interval
from skillsearch.evaluation.report import MAIN_MEASURE
from skillsearch.evaluation.runs import answerable_qrels, measure
from skillsearch.evaluation.types import (
    Collection,
    JudgedDocument,
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

FEW = 10
"""Systems are compared on the queries of a language from this number on; below, chance decides."""
UNKNOWN = "unknown"
"""Name of the queries of an unknown language."""
SAME, CROSS = "same language", "cross-language"

_SHOWN = 3
"""Documents shown of an answer."""
_BODY_CHARS = 2_000
"""Of a body, read to tell the language of a document."""


def assess(
    collection: Collection,
    systems: Sequence[SystemAnswers],
    *,
    examples: int = 5,
    notes: Sequence[str] = (),
) -> Report:
    """Measure systems on a collection and compare them with the first of them.

    Answers to queries outside the collection are ignored. At most so many of the worst and of the
    best queries of a system are shown. The `notes` follow those of the collection.
    """
    qrels = answerable_qrels(
        {query.query_id: collection.qrels.get(query.query_id, {}) for query in collection.queries}
    )
    if not qrels:
        raise EvaluationError(
            f"No query of the collection {collection.name!r} has a relevant document, so there "
            "is nothing to measure; judge at least one document above 0 in its qrels.tsv."
        )
    _check_names(systems)
    values = {system.name: measure(qrels, system.answers) for system in systems}
    show = _examples(collection, qrels)
    return Report(
        collection=collection.name,
        documents=len(collection.documents),
        queries=len(qrels),
        unanswerable=_count_unanswerable(systems),
        systems=tuple(_report(system, qrels, values, examples, show) for system in systems),
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
    """Measure systems as `assess` does on some queries of a collection, called `part`.

    The notes of the collection are not repeated.
    """
    name = f"{collection.name}: {part}"
    chosen = replace(collection, name=name, queries=tuple(queries), notes=())
    return assess(chosen, systems, examples=examples)


def assess_kinds(collection: Collection, systems: Sequence[SystemAnswers]) -> dict[str, Report]:
    """Return a report for each kind of query, in their order; none if all are of one kind."""
    kinds = dict.fromkeys(query.kind for query in collection.queries)
    if len(kinds) < 2:
        return {}
    asked = {kind: [query for query in collection.queries if query.kind == kind] for kind in kinds}
    return {kind: assess_part(collection, systems, kind, of) for kind, of in asked.items()}


def with_languages(
    report: Report, collection: Collection, systems: Sequence[SystemAnswers]
) -> Report:
    """Add to a report of a collection how good the answers are by the language of the queries.

    Systems are compared on at least `FEW` queries; Holm's correction is within each language. The
    report stays as it is if all queries and their documents are in one language, as far as known.
    """
    qrels = answerable_qrels(collection.qrels)
    asked = query_languages(query for query in collection.queries if query.query_id in qrels)
    pairs = _pairs(collection.documents, qrels, asked)
    if len({*asked.values()} - {""}) < 2 and CROSS not in pairs.values():
        return report
    # Unanswerable queries are not divided by language.
    plain = [replace(system, unanswerable={}) for system in systems]

    def measure(group: Mapping[str, str], name: str) -> Report:
        queries = [query for query in collection.queries if group.get(query.query_id) == name]
        found = assess_part(collection, plain, name or UNKNOWN, queries, examples=0)
        return found if len(queries) >= FEW else replace(found, comparisons=())

    return replace(
        report,
        languages={name or UNKNOWN: measure(asked, name) for name in _by_count(asked)},
        crossing={name: measure(pairs, name) for name in (SAME, CROSS) if name in pairs.values()},
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
    system: SystemAnswers,
    qrels: Qrels,
    values: Mapping[str, Mapping[str, PerQuery]],
    examples: int,
    show: Callable[[str, float, Ranking], QueryExample],
) -> SystemReport:
    own = values[system.name]
    target = own[MAIN_MEASURE]
    others = [of[MAIN_MEASURE] for name, of in values.items() if name != system.name]
    worst, best = (
        tuple(show(query, target[query], system.answers.get(query, ())) for query in of[:examples])
        for of in (sorted(target, key=target.__getitem__), _by_gain(target, others))
    )
    return SystemReport(
        name=system.name,
        settings=system.settings,
        means={name: fmean(of.values()) for name, of in own.items()},
        intervals={name: interval(list(of.values())) for name, of in own.items()},
        per_query=own,
        worst=worst,
        best=best,
        abstention=assess_abstention(system, qrels),
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


def _examples(
    collection: Collection, qrels: Qrels
) -> Callable[[str, float, Ranking], QueryExample]:
    """Return a function from a query, its value and its ranking to an example."""
    texts = {query.query_id: query.text for query in collection.queries}
    names = {document.doc_id: document.name for document in collection.documents}

    def example(query: str, value: float, ranking: Ranking) -> QueryExample:
        relevant = tuple(document for document, grade in qrels[query].items() if grade > 0)
        top = tuple(
            RankedDocument(document, names.get(document, document), score, document in relevant)
            for document, score in ranking[:_SHOWN]
        )
        return QueryExample(query, texts[query], value, relevant, top)

    return example


def _pairs(
    documents: Iterable[JudgedDocument], qrels: Qrels, asked: Mapping[str, str]
) -> dict[str, str]:
    """Return for each query whether it crosses languages; an empty text if unknown."""
    relevant = {
        query_id: {doc_id for doc_id, grade in qrels[query_id].items() if grade > 0}
        for query_id in asked
    }
    needed = set().union(*relevant.values())
    written = languages_of(
        {
            one.doc_id: (one.language, f"{one.description}\n{one.body[:_BODY_CHARS]}")
            for one in documents
            if one.doc_id in needed
        }
    )
    return {
        query_id: _pair(language, {written.get(doc_id, "") for doc_id in relevant[query_id]})
        for query_id, language in asked.items()
    }


def _pair(language: str, answers: AbstractSet[str]) -> str:
    """Compare the language of a query with those of the documents that answer it."""
    if not language:
        return ""
    if language in answers:
        return SAME
    return "" if "" in answers else CROSS


def _by_count(asked: Mapping[str, str]) -> list[str]:
    """Return the languages of queries, most queries first and the unknown one last."""
    counts = Counter(asked.values())
    return sorted(counts, key=lambda name: (not name, -counts[name], name))
