"""The same texts in rank-bm25 and in bm25s, for ratios: times do not carry over to other machines.

All are asked for the ten best documents of a query by its terms.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from benchmark.measures import available_memory
from benchmark.rows import Bm25, RankBm25
from skillsearch.index.lexical.field import LexicalField, top_documents
from skillsearch.index.storage.numbering import NOTHING
from skillsearch.text.tokenizer import terms

try:
    import bm25s
except ImportError:
    bm25s = None

BEST = 10
ROUNDS = 5
LONG_ENOUGH_S = 2.0
"""Stop timing after so many seconds and at least three queries: a median needs no more."""
BYTES_A_TEXT = 8_000
"""rank-bm25 keeps a dictionary of each text, and a list of its terms has to be there first."""

Numbers = NDArray[np.int64]


def compare(
    texts: Sequence[list[str]], ours: LexicalField, numbers: Numbers, requests: Sequence[str]
) -> Bm25:
    """Time rivals and our index over the same texts, and compare the scores of rank-bm25 with ours.

    Args:
        texts: Terms of each document that counts in the statistics of the index.
        ours: Our index of them.
        numbers: Which of its documents they are, ascending; the others are near-copies of these.
        requests: What the index and its rivals are searched for.

    Returns:
        Milliseconds of CPU, ratios, and the largest difference between scores; why a rival is left
        out.
    """
    queries = [terms(request) for request in requests]
    own_scores = median_ms(lambda query: all_scores(ours, query, numbers), queries)
    own_best = median_ms(
        lambda query: ours.best(ours.weigh(Counter(query)), BEST, NOTHING), queries
    )
    figures: Bm25 = {"ours_cpu_ms": own_scores, "ours_best_cpu_ms": own_best}
    if BYTES_A_TEXT * len(texts) > available_memory():
        return {**figures, "left_out": "rank-bm25 and bm25s: too little memory"}
    rival = time_rank_bm25(texts, ours, numbers, queries)
    figures = {
        **figures,
        **rival,
        "ratio": rival["rank_bm25_cpu_ms"] / own_scores,
        "rank_bm25_best_ratio": rival["rank_bm25_best_cpu_ms"] / own_best,
    }
    if bm25s is None:
        return {**figures, "left_out": "bm25s: not installed (pip install bm25s)"}
    build_s, best_ms = time_bm25s(texts, queries)
    return {
        **figures,
        "bm25s_best_cpu_ms": best_ms,
        "bm25s_best_ratio": best_ms / own_best,
        "bm25s_build_cpu_s": build_s,
    }


def time_rank_bm25(
    texts: Sequence[list[str]], ours: LexicalField, numbers: Numbers, queries: Sequence[list[str]]
) -> RankBm25:
    """Return what rank-bm25 takes, and how far its scores are from ours."""
    build_s, okapi = timed(lambda: BM25Okapi(texts))
    differences = [
        float(np.abs(okapi.get_scores(query) - all_scores(ours, query, numbers)).max())
        for query in queries[:3]
    ]
    return {
        "rank_bm25_cpu_ms": median_ms(okapi.get_scores, queries),
        "rank_bm25_best_cpu_ms": median_ms(
            lambda query: top_documents(okapi.get_scores(query), BEST), queries
        ),
        "rank_bm25_build_cpu_s": build_s,
        "largest_difference": max(differences),
    }


def all_scores(ours: LexicalField, query: list[str], numbers: Numbers) -> NDArray[np.float32]:
    """Score documents, given ascending."""
    return ours.best(ours.weigh(Counter(query)), BEST, NOTHING).scores_of(numbers)


def time_bm25s(texts: Sequence[list[str]], queries: Sequence[list[str]]) -> tuple[float, float]:
    """Return the CPU seconds that bm25s takes to build, and its milliseconds for a query."""
    retriever = bm25s.BM25(method="atire")
    build_s, _ = timed(lambda: retriever.index(texts, show_progress=False))
    k = min(BEST, len(texts))

    def best(query: list[str]) -> object:
        """Find the best documents."""
        return retriever.retrieve([query], k=k, show_progress=False)

    return build_s, median_ms(best, queries)


def median_ms(call: Callable[[list[str]], object], queries: Sequence[list[str]]) -> float:
    """Return the milliseconds of CPU that a call takes for a query."""
    call(queries[0])
    taken: list[float] = []
    for query in [*queries] * ROUNDS:
        seconds, _ = timed(partial(call, query))
        taken.append(1000 * seconds)
        if sum(taken) > 1000 * LONG_ENOUGH_S and len(taken) >= 3:
            break
    return statistics.median(taken)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds that a call takes, and its answer."""
    started = time.thread_time()
    answer = call()
    return time.thread_time() - started, answer
