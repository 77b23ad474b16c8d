"""How far a query and a skill exclude each other in words."""

from __future__ import annotations

import numpy as np

from skillsearch.index.corpus import Corpus
from skillsearch.index.search.query import QueryForm
from skillsearch.index.storage.numbering import Numbers, Values
from skillsearch.text.tokenizer import document_terms

# Records are read of this many of the nearest skills that exclude something; one takes 20 µs.
_MOST_READ = 20
# A skill that only mentions what is not wanted may do without it; one named after it does not.
_MENTIONED = 0.5


def exclusion_shares(
    corpus: Corpus, query: QueryForm, documents: Numbers, nearness: Values
) -> Values:
    """Return how far query and documents exclude each other, 0 to 1, the larger of two shares.

    One is that of the terms that the query does not want, in the name or metadata; the other that
    of its own terms in what a skill is not for, if the rest of the metadata lacks them, squared.
    `nearness` says which documents are worth reading.
    """
    shares = np.zeros(len(documents))
    if query.excluded:
        _add_unwanted(corpus, query, documents, shares)
    places = np.flatnonzero(corpus.documents.excludes[documents])
    if len(places) > _MOST_READ:
        places = places[np.argsort(-nearness[places], kind="stable")[:_MOST_READ]]
    if len(places):
        _add_unfit(corpus, query, documents, places, shares)
    return shares


def _add_unwanted(corpus: Corpus, query: QueryForm, documents: Numbers, shares: Values) -> None:
    field = corpus.lexical[0]
    weights = field.weigh(query.excluded)
    total = float(weights.idf.sum())
    for place, number in enumerate(documents.tolist()):
        if held := field.held_terms(weights, number):
            document = corpus.documents[number]
            named = set(document_terms(document.name, document.language))
            parts = (idf * (1.0 if term in named else _MENTIONED) for term, idf in held.items())
            shares[place] = sum(parts) / total if total > 0 else 0.0


def _add_unfit(
    corpus: Corpus, query: QueryForm, documents: Numbers, places: Numbers, shares: Values
) -> None:
    metadata, weights = corpus.lexical[0], query.weights[-1]
    rarest = corpus.lexical[-1].rarest_idf
    idf = {term: weights.known_idf().get(term, rarest) for term in weights.terms}
    total = sum(idf.values())
    for place in places.tolist():
        document = corpus.documents[int(documents[place])]
        clause = set(document_terms(document.excluded, document.language))
        if total > 0 and not clause.isdisjoint(idf):
            held = metadata.held_terms(query.weights[0], int(documents[place]))
            unfit = sum(weight for term, weight in idf.items() if term in clause - held.keys())
            # Squared: a few words of a long request may be in the clause by chance.
            shares[place] = max(shares[place], (unfit / total) ** 2)
