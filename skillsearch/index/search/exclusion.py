"""How far a query and a skill exclude or contradict each other in words."""

from __future__ import annotations

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
# Clauses whose terms are kept for the next query, some hundred bytes each.
_CLAUSES = 2_048
# A skill that only mentions what is not wanted may do without it; one named after it does not.
_MENTIONED = 0.5


def exclusion_shares(
    corpus: Corpus, query: QueryForm, documents: Numbers, nearness: Values
) -> Values:
    """Return how far query and documents exclude each other, 0 to 1, the larger of two shares.

    The first is the share of the terms that the query does not want, in the name or metadata; the
    second, squared, of its own terms in what a skill is not for, if the rest of the metadata lacks
    them. `nearness` says which documents are worth reading.
    """
    shares = np.zeros(len(documents))
    if query.excluded:
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
    weights = field.weigh(query.excluded)
    total = float(weights.idf.sum())
    for row, number in enumerate(documents.tolist()):
        if held := field.held_terms(weights, number):
            document = corpus.documents[number]
            named = set(document_terms(document.name, document.language))
            shared = _without(document) - named
            unwanted = ((term, idf) for term, idf in held.items() if term not in shared)
            parts = (idf * (1.0 if term in named else _MENTIONED) for term, idf in unwanted)
            shares[row] = sum(parts) / total if total > 0 else 0.0


def _without(document: Document) -> set[str]:
    """Return the terms of the things that a skill, too, does without."""
    wanted, unwanted = split_request(document.description)
    both = (wanted, f"{unwanted}\n{document.excluded}")
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
