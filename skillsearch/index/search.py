"""One search: what is asked, checked, and the hits that answer it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.errors import ParseError, QueryError
from skillsearch.index.calibration import Calibration
from skillsearch.index.chunk_index import term_shares
from skillsearch.index.corpus import Corpus
from skillsearch.index.documents import Document
from skillsearch.index.duplicates import collapse
from skillsearch.index.names import read_skill
from skillsearch.index.query_form import QueryForm, shares_of_trust
from skillsearch.index.ranker import best_first, find_candidates, score
from skillsearch.setting_values import MAX_N
from skillsearch.types import SYSTEMS, Hit, System


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
    exclude: frozenset[str] = frozenset()

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

    def cut(self, calibration: Calibration) -> float:
        """Return the threshold that holds: the one asked for, or the default of the system."""
        if self.threshold is not None:
            return float(self.threshold)
        return calibration.threshold if self.system == "hybrid" else 0.0


def run(
    request: SearchRequest, corpus: Corpus, form: QueryForm, calibration: Calibration
) -> tuple[Hit, ...]:
    """Answer a request.

    Args:
        request: What is asked.
        corpus: The opened index.
        form: The analysed query.
        calibration: Weighs features and evidence.

    Returns:
        The hits, best first, ties by document id; copies of a skill take one place.
    """
    excluded = _excluded(request, corpus)
    candidates = find_candidates(corpus, form, request.n, excluded)
    scores = score(corpus, form, candidates, request.system, calibration)
    accepted = (scores >= request.cut(calibration)) & (scores > 0)
    accepted &= candidates.features.any(axis=1)
    best = best_first(scores, candidates.documents)
    ranked = best[accepted[best]]
    if request.explain:
        from skillsearch.index.explain import explain
    hits = []
    groups = collapse(corpus, candidates.documents[ranked], request.n)
    for rank, (place, others) in enumerate(groups, start=1):
        row = int(ranked[place])
        number = int(candidates.documents[row])
        hit = _hit(corpus, form, rank, number, float(scores[row]), others)
        if request.explain:
            text = _body(corpus.documents[number])
            hit = replace(hit, explain=explain(corpus, form, candidates, row, calibration, text))
        hits.append(hit)
    return tuple(hits)


def _excluded(request: SearchRequest, corpus: Corpus) -> frozenset[int]:
    """Return the numbers of the documents that the request leaves out."""
    numbers = {corpus.documents.number_of(doc_id) for doc_id in request.exclude}
    if not request.include_hidden:
        numbers.update(np.flatnonzero(corpus.documents.hidden).tolist())
    return frozenset(number for number in numbers if number is not None)


def _hit(
    corpus: Corpus,
    form: QueryForm,
    rank: int,
    number: int,
    score: float,
    others: tuple[int, ...],
) -> Hit:
    """Make a hit of a document."""
    document = corpus.documents[number]
    return Hit(
        rank=rank,
        name=document.name,
        description=document.description,
        score=score,
        path=document.path,
        root=document.root,
        doc_id=document.doc_id,
        duplicates=tuple(corpus.documents[other].path for other in others),
        chunk=_best_chunk(corpus, form, number, document) if document.chunks else "",
    )


def _best_chunk(corpus: Corpus, form: QueryForm, number: int, document: Document) -> str:
    """Return the id of the chunk that fits the query best; empty where none does."""
    if corpus.chunks is None or corpus.lexical_full is None:
        return ""
    shares = term_shares(form.counts, corpus.lexical_full)
    first, _, _ = shares_of_trust(corpus, form, np.array([number]))
    place = corpus.chunks.best(form.views[0].vector, shares, number, float(first[0]))
    return "" if place is None else document.chunks[place][0]


def _body(document: Document) -> str:
    """Read the body of a skill as it is now; empty where it cannot be read."""
    try:
        return read_skill(document).body
    except ParseError:
        return ""
