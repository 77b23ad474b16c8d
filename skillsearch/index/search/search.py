"""One search: the request, checked, and the hits that answer it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.errors import ParseError, QueryError
from skillsearch.index.chunk_index import term_shares
from skillsearch.index.corpus import Corpus, OpenedIndex
from skillsearch.index.names import skill_of
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.duplicates import collapse, shadowed_copies
from skillsearch.index.search.query import QueryForm, channel_votes, shares_of_trust
from skillsearch.index.search.ranker import Candidates, explain, find_candidates, score
from skillsearch.setting_values import MAX_N
from skillsearch.types import SYSTEMS, Hit, SearchResult, System

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
    """The arguments of `SkillIndex.search`, which explains them; a QueryError for a bad one."""

    query: str
    n: int = 5
    threshold: float | None = None
    system: System = "hybrid"
    explain: bool = False
    include_hidden: bool = True
    exclude: Collection[str] = ()

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

    def cut(self, calibration: Calibration) -> float:
        """Return the threshold in use: the one asked for, or the default of the system."""
        if self.threshold is not None:
            return float(self.threshold)
        return calibration.threshold if self.system == "hybrid" else 0.0

    def result(self, calibration: Calibration, hits: tuple[Hit, ...] = ()) -> SearchResult:
        """Return the hits as a result, whose seconds are not known yet."""
        return SearchResult(self.query, self.cut(calibration), hits, not hits, 0.0)


@dataclass(frozen=True, slots=True)
class Search:
    """The state that the queries of a batch share; roots are in order of precedence."""

    request: SearchRequest
    corpus: Corpus
    calibration: Calibration
    roots: Sequence[str]

    def hits(self, forms: Sequence[QueryForm]) -> list[tuple[Hit, ...]]:
        """Return the hits for each query, best first, ties by document id."""
        documents = self.corpus.documents
        named = [documents.number_of(doc_id) for doc_id in self.request.exclude]
        excluded = np.array([number for number in named if number is not None], np.int64)
        if not self.request.include_hidden:
            excluded = np.concatenate([excluded, np.flatnonzero(documents.hidden)])
        found = find_candidates(self.corpus, forms, self.request.n, excluded)
        return [self._ranked(*one) for one in zip(forms, found, strict=True)]

    def _ranked(self, form: QueryForm, candidates: Candidates) -> tuple[Hit, ...]:
        """Score the candidates of a query; copies of a skill take one place."""
        request, corpus, calibration = self.request, self.corpus, self.calibration
        scored = score(corpus, form, candidates, request.system, calibration)
        scores = scored.scores
        accepted = (scores >= request.cut(calibration)) & (scores > 0)
        accepted &= scored.features.any(axis=1)
        rows = scored.best[accepted[scored.best]]
        groups = collapse(corpus, scored.documents[rows], request.n, self.roots)
        rows = rows[[place for place, _ in groups]]
        hits: list[Hit] = []
        chunks = self._chunks(form, scored.documents[rows])
        for row, chunk, (_, others) in zip(rows.tolist(), chunks, groups, strict=True):
            number = int(scored.documents[row])
            document = corpus.documents[number]
            copies = (*others, *shadowed_copies(corpus, number))
            why = None
            if request.explain:
                try:
                    body = skill_of(document).body
                except ParseError:  # It has changed on the disk.
                    body = ""
                why = explain(corpus, form, scored, row, calibration, body)
            hits.append(
                Hit(
                    rank=len(hits) + 1,
                    name=document.name,
                    description=document.description,
                    score=float(scores[row]),
                    path=document.path,
                    root=document.root,
                    doc_id=document.doc_id,
                    duplicates=tuple(corpus.documents[copy].path for copy in copies),
                    chunk=chunk,
                    explain=why,
                )
            )
        return tuple(hits)

    def _chunks(self, form: QueryForm, numbers: NDArray[np.int64]) -> list[str]:
        """Return the id of the chunk of each document that fits the query best, or nothing."""
        corpus = self.corpus
        if len(corpus.lexical) == 1:
            return [""] * len(numbers)
        shares = term_shares(corpus.lexical[1], form.weights[1])
        trusted, _, _ = shares_of_trust(corpus, form, numbers)
        found = []
        for number, trust in zip(numbers.tolist(), trusted.tolist(), strict=True):
            chunks, place = corpus.chunks_of(number)
            best = chunks.best(form.views[0].vector, shares, place, trust) if chunks else None
            found.append("" if best is None else corpus.documents[number].chunks[best][0])
        return found


def answer(
    requests: Sequence[SearchRequest],
    opened: OpenedIndex,
    forms: Sequence[QueryForm],
    calibration: Calibration,
) -> list[SearchResult]:
    """Answer requests that differ in their query alone; without skills there are no forms."""
    if not forms:
        return [request.result(calibration) for request in requests]
    first = requests[0]
    hits = Search(first, opened.corpus, calibration, opened.settings.root_paths).hits(forms)
    results = [one.result(calibration, found) for one, found in zip(requests, hits, strict=True)]
    if not first.explain or first.system != "hybrid":
        return results
    pairs = zip(results, forms, strict=True)
    return [replace(result, channels=channel_votes(form, opened)) for result, form in pairs]
