"""One search: what is asked, checked, and the hits that answer it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.config import MAX_N, MAX_QUERY_CHARS
from skillsearch.errors import ParseError, QueryError
from skillsearch.index.calibration import DEFAULT_THRESHOLD
from skillsearch.index.corpus import Corpus
from skillsearch.index.documents import DocumentStore
from skillsearch.index.duplicates import collapse
from skillsearch.index.names import read_skill
from skillsearch.index.ranker import QueryForm, find_candidates, score
from skillsearch.types import SYSTEMS, Hit, System

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TIE_DECIMALS = 7
"""Scores equal up to here are equal, and their order is that of the document ids."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The arguments of `SkillIndex.search`, which explains them.

    Raises:
        QueryError: When one of them cannot be used.
    """

    query: str
    n: int
    threshold: float | None
    system: System
    explain: bool
    include_hidden: bool

    def __post_init__(self) -> None:
        """Check every argument."""
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

    @property
    def cut(self) -> float:
        """The threshold that holds: the one asked for, or the default of the system."""
        if self.threshold is not None:
            return float(self.threshold)
        return DEFAULT_THRESHOLD if self.system == "hybrid" else 0.0


def run(request: SearchRequest, corpus: Corpus, form: QueryForm) -> tuple[Hit, ...]:
    """Answer a request.

    Args:
        request: What is asked.
        corpus: The opened index.
        form: The analysed query.

    Returns:
        The hits, best first, ties by document id; copies of a skill take one place.
    """
    candidates = find_candidates(corpus, form, request.n)
    scores = score(candidates, request.system)
    accepted = (scores >= request.cut) & (scores > 0) & candidates.features.any(axis=1)
    if not request.include_hidden:
        accepted &= ~corpus.documents.hidden[candidates.documents]
    # Sums of floats differ in their last bits with what else is scored: ties must not.
    best = np.lexsort((candidates.documents, -scores.round(_TIE_DECIMALS)))
    ranked = best[accepted[best]]
    hits = []
    groups = collapse(corpus, candidates.documents[ranked], request.n)
    for rank, (place, others) in enumerate(groups, start=1):
        row = int(ranked[place])
        number = int(candidates.documents[row])
        hit = _hit(corpus.documents, rank, number, float(scores[row]), others)
        if request.explain:
            hit = _explained(hit, corpus, number, form, candidates.features[row])
        hits.append(hit)
    return tuple(hits)


def _hit(
    documents: DocumentStore, rank: int, number: int, score: float, others: tuple[int, ...]
) -> Hit:
    """Make a hit of a document."""
    document = documents[number]
    return Hit(
        rank=rank,
        name=document.name,
        description=document.description,
        score=score,
        path=document.path,
        root=document.root,
        doc_id=document.doc_id,
        duplicates=tuple(documents[other].path for other in others),
    )


def _explained(
    hit: Hit, corpus: Corpus, number: int, form: QueryForm, features: NDArray[np.float64]
) -> Hit:
    """Add an explanation to a hit."""
    from skillsearch.index.explain import explain

    try:
        body = read_skill(corpus.documents[number]).body
    except ParseError:
        body = ""
    return replace(hit, explain=explain(corpus, form, number, features, body))
