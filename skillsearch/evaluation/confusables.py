"""Which skills win each other's queries, how often, and by which words; pure."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from skillsearch.evaluation.pools import copies
from skillsearch.evaluation.types import Collection, JudgedDocument, Run
from skillsearch.text.tokenizer import terms as default_terms

MAX_EXAMPLES = 3
MAX_WORDS = 8
LEAST_STOLEN = 2  # queries that a skill steals from another before the two count as confusable

_COMMON_SHARE, _COMMON_LEAST = 0.1, 5
"""Words in more than a tenth of the documents, and in more than five, tell none apart."""
_WORD = re.compile(r"\w+")

Terms: TypeAlias = Callable[[str], list[str]]  # a text → the terms that are searched
_Stolen: TypeAlias = list[tuple[str, float | None]]
"""Texts of queries, with the lead of the winner if the loser was found."""
TextField: TypeAlias = Literal["description", "body", "nowhere"]


@dataclass(frozen=True, slots=True)
class ConfusingWord:
    """A word of stolen queries, in how many of them and in how many names and descriptions it is.

    `text` is its term if that is only part of a word; `in_loser` is the place where the loser has
    it: ``description``, which includes the name, ``body`` or ``nowhere``.
    """

    text: str
    queries: int
    documents: int
    in_loser: TextField


@dataclass(frozen=True, slots=True)
class Confusion:
    """A document, the winner, that comes first for queries of another one, the loser.

    `words` of these queries are in the winner's name or description, those that the loser's lack
    first; `missing` ones are not in the loser's, words of its body first: add these to it.
    """

    loser: str
    loser_name: str
    winner: str
    winner_name: str
    queries: int
    share: float  # of all queries for which the loser is right
    lead: float | None  # mean of the winner's score minus the loser's, if that is in an answer
    unranked: int  # stolen queries whose answer lacks the loser
    is_mutual: bool
    examples: tuple[str, ...]
    words: tuple[ConfusingWord, ...]
    missing: tuple[ConfusingWord, ...]


def confusables(
    collection: Collection,
    answers: Run,
    *,
    terms: Terms = default_terms,
    least: int = LEAST_STOLEN,
) -> tuple[Confusion, ...]:
    """Find the documents that steal queries: they come first, but others are right.

    Copies count as one document, under the id of the first, and near-copies, which share the place
    of their family, steal nothing from each other. A query of several right documents is
    stolen from each. `terms` splits texts into the terms that the system compares. Most queries
    come first, ties by id.
    """
    first = {doc_id: group[0] for doc_id, group in copies(collection.documents).items()}
    owned: Counter[str] = Counter()
    thefts: dict[tuple[str, str], _Stolen] = defaultdict(list)
    for query in collection.queries:
        grades = collection.qrels[query.query_id]
        right = {first[doc_id] for doc_id, grade in grades.items() if grade > 0}
        owned.update(right)
        scores: dict[str, float] = {}
        for doc_id, score in answers.get(query.query_id, ()):
            if doc_id in first:
                scores.setdefault(first[doc_id], score)
        for loser in right:
            winner = next(iter(scores), loser)
            if winner in right:
                break
            lead = scores[winner] - scores[loser] if loser in scores else None
            if lead == 0:  # They share one place: near-copies of one family.
                continue
            thefts[loser, winner].append((query.text, lead))
    vocabulary = _Vocabulary(collection.documents, terms)
    confusions = [
        vocabulary.confusion(pair, stolen, owned[pair[0]], is_mutual=pair[::-1] in thefts)
        for pair, stolen in thefts.items()
        if len(stolen) >= least
    ]
    return tuple(sorted(confusions, key=lambda item: (-item.queries, item.loser, item.winner)))


class _Vocabulary:
    """The terms of all names and descriptions, and how rare they are."""

    def __init__(self, documents: Sequence[JudgedDocument], terms: Terms) -> None:
        self.documents = {document.doc_id: document for document in documents}
        self.terms = terms
        self.metadata = {
            doc.doc_id: frozenset(terms(f"{doc.name}\n{doc.description}")) for doc in documents
        }
        self.frequency = Counter(term for held in self.metadata.values() for term in held)

    def idf(self, term: str) -> float:
        """Return Lucene's idf of a term over names and descriptions."""
        frequency = self.frequency[term]
        return math.log1p((len(self.metadata) - frequency + 0.5) / (frequency + 0.5))

    def words(self, texts: Sequence[str], loser: str) -> dict[str, ConfusingWord]:
        """Return the words of queries by their terms, frequent and rare ones first."""
        counts = Counter(term for text in texts for term in set(self.terms(text)))
        # Too many names and descriptions contain a common term for it to matter.
        most = max(_COMMON_LEAST, _COMMON_SHARE * len(self.metadata))
        telling = [term for term in counts if self.frequency[term] <= most]
        telling.sort(key=lambda term: (-counts[term] * self.idf(term), term))
        spelled: dict[str, str] = {}
        for word in dict.fromkeys(word for text in texts for word in _WORD.findall(text)):
            if len(stems := self.terms(word)) == 1:
                spelled.setdefault(stems[0], word.lower())
        places: dict[str, TextField] = dict.fromkeys(self.terms(self.documents[loser].body), "body")
        places |= dict.fromkeys(self.metadata[loser], "description")
        words = {}
        for term in telling:
            where, held = places.get(term, "nowhere"), self.frequency[term]
            words[term] = ConfusingWord(spelled.get(term, term), counts[term], held, where)
        return words

    def confusion(
        self, pair: tuple[str, str], stolen: _Stolen, owned: int, *, is_mutual: bool
    ) -> Confusion:
        """Sum up the queries, with their leads, that one document stole from another."""
        loser, winner = (self.documents[doc_id] for doc_id in pair)
        leads = [lead for _, lead in stolen if lead is not None]
        texts = [text for text, _ in stolen]
        words = self.words(texts, loser.doc_id)
        theirs = self.metadata[winner.doc_id]
        won = [word for term, word in words.items() if term in theirs]
        won.sort(key=lambda word: word.in_loser == "description")
        missing = [word for word in words.values() if word.in_loser != "description"]
        missing.sort(key=lambda word: (word.in_loser == "nowhere", -word.queries))
        return Confusion(
            loser=loser.doc_id,
            loser_name=loser.name,
            winner=winner.doc_id,
            winner_name=winner.name,
            queries=len(stolen),
            share=len(stolen) / owned,
            lead=sum(leads) / len(leads) if leads else None,
            unranked=len(stolen) - len(leads),
            is_mutual=is_mutual,
            examples=tuple(texts[:MAX_EXAMPLES]),
            words=tuple(won[:MAX_WORDS]),
            missing=tuple(missing[:MAX_WORDS]),
        )
