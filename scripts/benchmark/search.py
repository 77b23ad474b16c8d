"""The cost of a warm search by step, and the recall of its nearest vectors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import ParamSpec, TypeVar
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from skillsearch.index.dense.vectors import DenseIndex
from skillsearch.index.lexical.field import LexicalField, LexicalMatches
from skillsearch.index.search import analysis, search
from skillsearch.index.search.reading import Reading
from skillsearch.index.skill_index import SkillIndex

STEPS: tuple[tuple[str, object, str], ...] = (
    ("embed the query", analysis, "embed"),
    ("analyse the query", SkillIndex, "analyse_many"),
    ("lexical", LexicalField, "weigh"),
    ("lexical", LexicalField, "best"),
    ("lexical", LexicalMatches, "scores_of"),
    ("dense", DenseIndex, "nearest_to_each"),
    ("dense", DenseIndex, "cosines"),
    ("features and fusion", search, "find_candidates"),
    ("features and fusion", search, "rank"),
    ("confidence", search.Search, "_judged"),
    ("read", Reading, "read"),
    ("hits", search.Search, "_answer"),
)
"""The functions that make up each step; time in nested steps is not counted."""
NEAREST = 10
CANDIDATES = 50
"""Nearest documents that a search for few hits looks for."""
_BLOCK = 1 << 14

Rows = NDArray[np.float32]
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Stopwatch:
    """Sums up the time of each step, without the steps nested in it.

    Attributes:
        seconds: By step.
    """

    def __init__(self) -> None:
        """Start at zero."""
        self.seconds = dict.fromkeys((step for step, _, _ in STEPS), 0.0)
        self._inner = [0.0]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have the steps timed meanwhile."""
        with ExitStack() as stack:
            for step, owner, name in STEPS:
                timed = self._timed(step, getattr(owner, name))
                stack.enter_context(patch.object(owner, name, timed))
            yield

    def _timed(self, step: str, call: Callable[_P, _T]) -> Callable[_P, _T]:
        """Return a function that does the same and is timed."""

        def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            """Call and note the time."""
            self._inner.append(0.0)
            started = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                spent = time.perf_counter() - started
                self.seconds[step] += spent - self._inner.pop()
                self._inner[-1] += spent

        return run


def break_down(index: SkillIndex, queries: Sequence[str], rounds: int) -> dict[str, float]:
    """Return the mean milliseconds of each step of a warm search, and of the whole."""
    for query in queries:
        index.search(query)
    watch = Stopwatch()
    with watch.running():
        started = time.perf_counter()
        for query in [*queries] * rounds:
            index.search(query)
        whole = time.perf_counter() - started
    watch.seconds["the rest"] = whole - sum(watch.seconds.values())
    count = rounds * len(queries)
    return {step: 1000 * seconds / count for step, seconds in watch.seconds.items()} | {
        "whole": 1000 * whole / count
    }


def recall(index: SkillIndex, queries: Rows) -> float:
    """Return the share of the ten nearest documents that a search looks at and puts first.

    The nearest are found by comparing every vector of the index, in float32.

    Args:
        index: The index.
        queries: Unit vectors, one a row.

    Returns:
        0 to 1.
    """
    corpus = index.opened.corpus
    dense = corpus.dense
    gone = np.setdiff1d(np.arange(corpus.documents.size), corpus.documents.living)
    similarities = np.concatenate([block @ queries.T for block in all_rows(dense)])
    similarities[gone] = -np.inf
    shares = []
    for query, exact in zip(queries, similarities.T, strict=True):
        (nearest,) = dense.nearest_to_each(query[np.newaxis], CANDIDATES, gone)
        wanted = min(NEAREST, len(nearest))
        best = np.sort(exact[nearest])[::-1][:wanted]
        # Of documents that are equally near any will do.
        lowest = np.partition(exact, -wanted)[-wanted]
        shares.append(float(np.mean(best >= lowest)))
    return float(np.mean(shares))


def all_rows(dense: DenseIndex) -> Iterator[Rows]:
    """Yield what queries are compared with, block by block, float32."""
    for segment in dense.segments:
        for start in range(0, segment.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            yield segment.fields[0][block].astype(np.float32)
