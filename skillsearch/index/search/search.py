"""One search: the request, checked, and the hits that answer it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np

from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.errors import ParseError, QueryError
from skillsearch.index.chunk_index import TermShares, term_shares
from skillsearch.index.corpus import Corpus, OpenedIndex
from skillsearch.index.documents import Document
from skillsearch.index.names import read_skill
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.duplicates import collapse, shadowed_copies
from skillsearch.index.search.query import QueryForm, shares_of_trust, weigh_terms
from skillsearch.index.search.ranker import Candidates, best_first, find_candidates, score
from skillsearch.setting_values import MAX_N
from skillsearch.types import SYSTEMS, ChannelVote, Hit, SearchResult, System

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SearchOptions(TypedDict, total=False):
    """The arguments of `SkillIndex.search` beside the query; it explains them."""

    n: int
    threshold: float | None
    system: System
    explain: bool
    include_hidden: bool
    exclude: Collection[str]


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The arguments of `SkillIndex.search`, which explains them.

    Raises:
        QueryError: If one of them cannot be used.
    """

    query: str
    n: int
    threshold: float | None
    system: System
    explain: bool
    include_hidden: bool
    exclude: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.query.strip():
            raise QueryError("The query is empty; say in words what is to be done.")
        if len(self.query) > MAX_QUERY_CHARS:
            raise QueryError(
                f"The query has {len(self.query):,} characters, more than the "
                f"{MAX_QUERY_CHARS:,} that can be searched; shorten it to the request itself."
            )
        if isinstance(self.n, bool) or not isinstance(self.n, int) or not 1 <= self.n <= MAX_N:
            raise QueryError(f"n is {self.n!r}; ask for 1 to {MAX_N} hits.")
        if self.system not in SYSTEMS:
            raise QueryError(f"system is {self.system!r}; use one of: {', '.join(SYSTEMS)}.")
        if self.threshold is not None and not 0.0 <= self.threshold <= 1.0:
            raise QueryError(f"threshold is {self.threshold!r}; use a number from 0 to 1.")

    @classmethod
    def of(cls, query: str, **options: Unpack[SearchOptions]) -> SearchRequest:
        """Return a request with the defaults of `SkillIndex.search`."""
        return cls(
            query,
            options.get("n", 5),
            options.get("threshold"),
            options.get("system", "hybrid"),
            options.get("explain", False),
            options.get("include_hidden", True),
            frozenset(options.get("exclude", ())),
        )

    def cut(self, calibration: Calibration) -> float:
        """Return the threshold in use: the one asked for, or the default of the system."""
        if self.threshold is not None:
            return float(self.threshold)
        return calibration.threshold if self.system == "hybrid" else 0.0


def read_body(document: Document) -> str:
    """Return the body of a skill as it is on disk now; empty if it cannot be read."""
    try:
        return read_skill(document).body
    except ParseError:
        return ""


@dataclass(frozen=True, slots=True)
class _Search:
    """What all queries of a batch share.

    Attributes:
        request: Any of them: they differ in the query alone.
        roots: Paths of the roots, in order of precedence.
        body_of: Gives the body of a hit that is to be explained.
    """

    request: SearchRequest
    corpus: Corpus
    calibration: Calibration
    roots: Sequence[str]
    body_of: Callable[[Document], str]

    def hits(self, forms: Sequence[QueryForm]) -> list[tuple[Hit, ...]]:
        """Return the hits for each query, best first, ties by document id."""
        excluded = self._excluded()
        found = find_candidates(self.corpus, forms, self.request.n, excluded)
        return [self._ranked(*one) for one in zip(forms, found, strict=True)]

    def _excluded(self) -> NDArray[np.int64]:
        documents = self.corpus.documents
        named = [documents.number_of(doc_id) for doc_id in self.request.exclude]
        numbers = np.array([number for number in named if number is not None], np.int64)
        if self.request.include_hidden:
            return numbers
        return np.concatenate([numbers, np.flatnonzero(documents.hidden)])

    def _ranked(self, form: QueryForm, candidates: Candidates) -> tuple[Hit, ...]:
        """Score the candidates of a query; copies of a skill take one place."""
        request, corpus = self.request, self.corpus
        scored = score(corpus, form, candidates, request.system, self.calibration)
        scores = scored.scores
        accepted = (scores >= request.cut(self.calibration)) & (scores > 0)
        accepted &= candidates.features.any(axis=1)
        best = best_first(scores, corpus.documents.in_order(candidates.documents))
        ranked = best[accepted[best]]
        if request.explain:
            from skillsearch.index.search.explain import explain
        full = corpus.lexical_full
        shares = None if full is None else term_shares(full, form.weights[-1])
        hits = []
        groups = collapse(corpus, candidates.documents[ranked], request.n, self.roots)
        for rank, (place, others) in enumerate(groups, start=1):
            row = int(ranked[place])
            number = int(candidates.documents[row])
            chunk = "" if shares is None else _best_chunk(corpus, form, number, shares)
            hit = _hit(corpus, rank, number, float(scores[row]), others, chunk)
            if request.explain:
                body = self.body_of(corpus.documents[number])
                why = explain(corpus, form, candidates, scored, row, self.calibration, body)
                hit = replace(hit, explain=why)
            hits.append(hit)
        return tuple(hits)


def answer(
    requests: Sequence[SearchRequest],
    opened: OpenedIndex,
    forms: Sequence[QueryForm],
    calibration: Calibration,
    body_of: Callable[[Document], str],
) -> list[SearchResult]:
    """Answer at least one request; they differ in their query alone.

    There are no forms (analysed queries) if the index is empty. `body_of` gives the body of a hit
    that is to be explained. The time of the results is left at 0.
    """
    if not forms:
        return [
            SearchResult(one.query, one.cut(calibration), (), True, 0.0, ()) for one in requests
        ]
    roots = [str(root.path) for root in opened.settings.roots]
    search = _Search(requests[0], opened.corpus, calibration, roots, body_of)
    results = []
    for request, form, hits in zip(requests, forms, search.hits(forms), strict=True):
        votes: tuple[ChannelVote, ...] = ()
        if request.explain and request.system == "hybrid":
            from skillsearch.index.search.explain import channel_votes

            votes = channel_votes(form, opened)
        cut = request.cut(calibration)
        results.append(SearchResult(request.query, cut, hits, not hits, 0.0, votes))
    return results


def run(
    request: SearchRequest,
    corpus: Corpus,
    form: QueryForm,
    calibration: Calibration,
    roots: Sequence[str],
) -> tuple[Hit, ...]:
    """Return the hits in a corpus for a query that was analysed without it or with another."""
    weighed = replace(form, weights=weigh_terms(corpus, form.counts))
    return _Search(request, corpus, calibration, roots, read_body).hits([weighed])[0]


def _hit(
    corpus: Corpus, rank: int, number: int, score: float, others: tuple[int, ...], chunk: str
) -> Hit:
    document = corpus.documents[number]
    others += shadowed_copies(corpus, number)
    return Hit(
        rank=rank,
        name=document.name,
        description=document.description,
        score=score,
        path=document.path,
        root=document.root,
        doc_id=document.doc_id,
        duplicates=tuple(corpus.documents[other].path for other in others),
        chunk=chunk,
    )


def _best_chunk(corpus: Corpus, form: QueryForm, number: int, shares: TermShares) -> str:
    """Return the id of the chunk of a document that fits the query best; empty if none does."""
    document = corpus.documents[number]
    chunks, place = corpus.chunks_of(number)
    if chunks is None or not document.chunks:
        return ""
    first, _, _ = shares_of_trust(corpus, form, np.array([number]))
    best = chunks.best(form.views[0].vector, shares, place, float(first[0]))
    return "" if best is None else document.chunks[best][0]
