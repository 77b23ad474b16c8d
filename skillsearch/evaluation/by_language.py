"""The queries of each language by themselves, and apart those that cross languages; pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from skillsearch.evaluation.assess import assess_part
from skillsearch.evaluation.measures import answerable_qrels
from skillsearch.evaluation.types import (
    Collection,
    JudgedDocument,
    JudgedQuery,
    Qrels,
    Report,
    SystemAnswers,
)
from skillsearch.text.languages import language_of

FEW = 10
"""Queries of a language from which systems are compared on them; below, chance decides."""
UNKNOWN = "unknown"
"""Stands for the language of queries that it cannot be told of."""
SAME, CROSS = "same language", "cross-language"

_TAG = re.compile(r"([a-z]{2,3})(?:[-_].*)?", re.IGNORECASE | re.DOTALL)
_UNDETERMINED = "und"
_BODY_CHARS = 2_000
"""Of a body, looked at to tell the language of a document."""
_LEAST_SHARE = 0.02
"""Of the texts of a collection, from which a language is believed that no tag names."""


def query_languages(queries: Iterable[JudgedQuery]) -> dict[str, str]:
    """Return the language of each query: that of its tag, or else what its text looks like.

    Where only texts suggest a language, and few of them, those are taken to be misread.

    Args:
        queries: The queries of a collection.

    Returns:
        Query id → a code such as ``zh``; empty where it cannot be told.
    """
    return _languages({query.query_id: (query.language, query.text) for query in queries})


def with_languages(
    report: Report, collection: Collection, systems: Sequence[SystemAnswers]
) -> Report:
    """Add to a report how good the answers are by the language of the queries.

    Systems are compared on at least `FEW` queries; Holm's correction is within each language.

    Args:
        report: The report of all queries.
        collection: The collection that it is of.
        systems: What each system answered.

    Returns:
        The report with its languages; as it was where all queries, and what they ask for, are in
        one language as far as can be told.
    """
    qrels = answerable_qrels(collection.qrels)
    asked = query_languages(query for query in collection.queries if query.query_id in qrels)
    pairs = _pairs(collection.documents, qrels, asked)
    if len({*asked.values()} - {""}) < 2 and CROSS not in pairs.values():
        return report
    # What nothing answers belongs to no language here.
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


def _languages(texts: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return the languages of texts, each given with the tag that it has or an empty one."""
    tagged = {key: _tagged(tag) for key, (tag, _) in texts.items()}
    guessed = {key: language_of(text) for key, (_, text) in texts.items() if not tagged[key]}
    counts = Counter(guessed.values())
    misread = {name for name, count in counts.items() if count < _LEAST_SHARE * len(texts)}
    return tagged | {key: "" if name in misread else name for key, name in guessed.items()}


def _tagged(tag: str) -> str:
    """Return the language that a tag names, empty where it names none."""
    match = _TAG.fullmatch(tag.strip())
    found = match[1].lower() if match else ""
    return "" if found == _UNDETERMINED else found


def _pairs(
    documents: Iterable[JudgedDocument], qrels: Qrels, asked: Mapping[str, str]
) -> dict[str, str]:
    """Tell of each query whether it crosses languages; empty where that is not known."""
    relevant = {
        query_id: {doc_id for doc_id, grade in qrels[query_id].items() if grade > 0}
        for query_id in asked
    }
    needed = set().union(*relevant.values())
    written = _languages(
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
    """Return the languages of queries, that of most first and the unknown one last."""
    counts = Counter(asked.values())
    return sorted(counts, key=lambda name: (not name, -counts[name], name))
