"""One search: what is asked, checked, and the hits that answer it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np

from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.errors import ParseError, QueryError
from skillsearch.index.chunk_index import term_shares
from skillsearch.index.corpus import Corpus, OpenedIndex
from skillsearch.index.documents import Document
from skillsearch.index.names import read_skill
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.duplicates import collapse, shadowed_copies
from skillsearch.index.search.query_form import QueryForm, shares_of_trust
from skillsearch.index.search.ranker import best_first, find_candidates, nearest_documents, score
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

    @classmethod
    def of(cls, query: str, **options: Unpack[SearchOptions]) -> SearchRequest:
        """Return a request; what is not given is as `SkillIndex.search` has it."""
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
        """Return the threshold that holds: the one asked for, or the default of the system."""
        if self.threshold is not None:
            return float(self.threshold)
        return calibration.threshold if self.system == "hybrid" else 0.0


def answer(
    requests: Sequence[SearchRequest],
    opened: OpenedIndex,
    forms: Sequence[QueryForm],
    calibration: Calibration,
) -> list[SearchResult]:
    """Answer requests that differ in their query alone.

    Args:
        requests: What is asked.
        opened: The opened index.
        forms: The analysed queries; none where the index is empty.
        calibration: Weighs features and evidence.

    Returns:
        An answer to each, in their order, without the time that it took.
    """
    corpus = opened.corpus
    if not forms:
        return [
            SearchResult(one.query, one.cut(calibration), (), True, 0.0, ()) for one in requests
        ]
    first = requests[0]
    roots = [str(root.path) for root in opened.settings.roots]
    excluded = _excluded(first, corpus)
    near = nearest_documents(corpus, forms, first.n, excluded)
    results = []
    for request, form, documents in zip(requests, forms, near, strict=True):
        hits = _hits(request, corpus, form, calibration, roots, excluded, documents)
        votes: tuple[ChannelVote, ...] = ()
        if request.explain and request.system == "hybrid":
            from skillsearch.index.search.votes import channel_votes

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
    """Answer a request.

    Args:
        request: What is asked.
        corpus: The opened index.
        form: The analysed query.
        calibration: Weighs features and evidence.
        roots: Paths of the roots, in order of precedence.

    Returns:
        The hits, best first, ties by document id; copies of a skill take one place.
    """
    excluded = _excluded(request, corpus)
    (near,) = nearest_documents(corpus, [form], request.n, excluded)
    return _hits(request, corpus, form, calibration, roots, excluded, near)


def _hits(
    request: SearchRequest,
    corpus: Corpus,
    form: QueryForm,
    calibration: Calibration,
    roots: Sequence[str],
    excluded: NDArray[np.int64],
    near: Sequence[NDArray[np.int64]],
) -> tuple[Hit, ...]:
    """Answer a request of which is known what it leaves out and what is near it."""
    candidates = find_candidates(corpus, form, request.n, excluded, near)
    scores = score(corpus, form, candidates, request.system, calibration)
    accepted = (scores >= request.cut(calibration)) & (scores > 0)
    accepted &= candidates.features.any(axis=1)
    best = best_first(scores, corpus.documents.in_order(candidates.documents))
    ranked = best[accepted[best]]
    if request.explain:
        from skillsearch.index.search.explain import explain
    hits = []
    groups = collapse(corpus, candidates.documents[ranked], request.n, roots)
    for rank, (place, others) in enumerate(groups, start=1):
        row = int(ranked[place])
        number = int(candidates.documents[row])
        hit = _hit(corpus, form, rank, number, float(scores[row]), others)
        if request.explain:
            text = _body(corpus.documents[number])
            hit = replace(hit, explain=explain(corpus, form, candidates, row, calibration, text))
        hits.append(hit)
    return tuple(hits)


def _excluded(request: SearchRequest, corpus: Corpus) -> NDArray[np.int64]:
    """Return the numbers of the documents that a request leaves out."""
    named = [corpus.documents.number_of(doc_id) for doc_id in request.exclude]
    numbers = np.array([number for number in named if number is not None], np.int64)
    if request.include_hidden:
        return numbers
    return np.concatenate([numbers, np.flatnonzero(corpus.documents.hidden)])


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
        chunk=_best_chunk(corpus, form, number, document) if document.chunks else "",
    )


def _best_chunk(corpus: Corpus, form: QueryForm, number: int, document: Document) -> str:
    """Return the id of the chunk that fits the query best; empty where none does."""
    chunks, place = corpus.chunks_of(number)
    if chunks is None or corpus.lexical_full is None:
        return ""
    shares = term_shares(form.counts, corpus.lexical_full)
    first, _, _ = shares_of_trust(corpus, form, np.array([number]))
    best = chunks.best(form.views[0].vector, shares, place, float(first[0]))
    return "" if best is None else document.chunks[best][0]


def _body(document: Document) -> str:
    """Read the body of a skill as it is now; empty where it cannot be read."""
    try:
        return read_skill(document).body
    except ParseError:
        return ""
