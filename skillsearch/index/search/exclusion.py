"""How far a query and a skill exclude or contradict each other in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

import numpy as np

from skillsearch.index.corpus import Corpus
from skillsearch.index.documents.document import Document
from skillsearch.index.search.contradictions import claims, contradiction, speaks_of, unexcluded
from skillsearch.index.search.query import QueryForm
from skillsearch.index.storage.numbering import Numbers, Values
from skillsearch.text.exclusions import split_request
from skillsearch.text.tokenizer import document_terms

# Records are read of this many of the nearest skills; one takes 20 µs.
_MOST_READ = 20
# A skill that only mentions a thing that is not wanted may do without it.
_MENTIONED = 0.5
# Clauses whose terms are kept for the next query, some hundred bytes each.
_CLAUSES = 2_048


def exclusion_shares(
    corpus: Corpus, query: QueryForm, documents: Numbers, nearness: Values
) -> Values:
    """Return how far query and documents exclude each other, 0 to 1, the larger of two values.

    The first is how far a document is named after what the query does not want: the share of the
    terms of a thing or clause that are in the name, times the share of the name that they are,
    without what is wanted of it. Half of a thing in the metadata counts as well. The second is the
    squared share of the query's own terms in what a skill is not for, if the rest of the metadata
    lacks them. `nearness` says which documents are worth reading.
    """
    shares = np.zeros(len(documents))
    if any(query.excluded):
        _add_unwanted(corpus, query, documents, shares)
    if len(rows := _nearest(np.flatnonzero(corpus.documents.excludes[documents]), nearness)):
        _add_unfit(corpus, query, documents, rows, shares)
    return shares


def contradiction_shares(
    corpus: Corpus, query: QueryForm, documents: Numbers, nearness: Values
) -> Values:
    """Return how much of what a query says of versions and directions documents contradict.

    See `contradiction`; `nearness` says which documents are worth reading.
    """
    shares = np.zeros(len(documents))
    if not any(request := claims(query.request)):
        return shares
    for row in _nearest(np.arange(len(documents)), nearness).tolist():
        document = corpus.documents[int(documents[row])]
        if speaks_of(text := f"{document.name}. {document.description}", request):
            claimed = unexcluded(claims(text), claims(document.excluded))
            shares[row] = contradiction(request, claimed)
    return shares


def _nearest(rows: Numbers, nearness: Values) -> Numbers:
    return rows[np.argsort(-nearness[rows], kind="stable")[:_MOST_READ]]


def _add_unwanted(corpus: Corpus, query: QueryForm, documents: Numbers, shares: Values) -> None:
    field = corpus.lexical[0]
    things, clauses = (
        [field.weigh(dict.fromkeys(sorted(terms), 1)) for terms in part] for part in query.excluded
    )
    totals = [float(weights.idf.sum()) or 1.0 for weights in (*things, *clauses)]
    for row, number in enumerate(documents.tolist()):
        held = [field.held_terms(weights, number) for weights in (*things, *clauses)]
        if not any(held):
            continue
        document = corpus.documents[number]
        agreed, name = _without(document), set(document_terms(document.name, document.language))
        for idf, total in zip(held, totals, strict=True):
            unwanted = idf.keys() & name - agreed
            # Terms alone: an index on a server knows no frequencies of those of names.
            rest = name - idf.keys() - query.counts.keys()
            share_of_name = len(unwanted) / (len(unwanted | rest) or 1)
            shares[row] = max(shares[row], _sum(idf, unwanted) / total * share_of_name)
        for idf, total in zip(held[: len(things)], totals, strict=False):
            shares[row] = max(shares[row], _MENTIONED * _sum(idf, idf.keys() - agreed) / total)


def _sum(weights: Mapping[str, float], terms: Collection[str]) -> float:
    return sum(weight for term, weight in weights.items() if term in terms)


def _without(document: Document) -> set[str]:
    """Return the terms of the things that a skill, too, does without."""
    split = split_request(document.description, document.language)
    both = (split.wanted, "\n".join([*split.things, *split.clauses, document.excluded]))
    has, lacks = (set(document_terms(text, document.language)) for text in both)
    return lacks - has


@lru_cache(maxsize=_CLAUSES)
def _clause_terms(clause: str, language: str) -> frozenset[str]:
    return frozenset(document_terms(clause, language))


def _add_unfit(
    corpus: Corpus, query: QueryForm, documents: Numbers, rows: Numbers, shares: Values
) -> None:
    weights = query.weights[-1]
    rarest = corpus.lexical[-1].rarest_idf
    idf = {term: weights.known_idf().get(term, rarest) for term in weights.terms}
    total = sum(idf.values())
    for row in rows.tolist():
        document = corpus.documents[int(documents[row])]
        clause = _clause_terms(document.excluded, document.language)
        if total > 0 and (shared := clause & idf.keys()):
            held = corpus.lexical[0].held_terms(query.weights[0], int(documents[row]), shared)
            unfit = sum(weight for term, weight in idf.items() if term in shared - held.keys())
            # Squared: a few words of a long request may be in the clause by chance.
            shares[row] = max(shares[row], (unfit / total) ** 2)
