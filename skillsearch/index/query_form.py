"""A query as every channel sees it: terms, vector, and how far the vector can be trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skillsearch.index.tokenizer import terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class QueryForm:
    """A query, analysed.

    Attributes:
        text: As it was asked.
        counts: How often each term occurs.
        vector: Its embedding, float32, (dimensions,); all zero where nothing could be embedded.
        trust: How far the embedder can judge it, 0 to 1.
    """

    text: str
    counts: Counter[str]
    vector: NDArray[np.float32]
    trust: float


def analyse(text: str, embed: Callable[[str], tuple[NDArray[np.float32], float]]) -> QueryForm:
    """Split a query into terms and embed it.

    Args:
        text: The query.
        embed: Gives the vector of a text and the trust in it.

    Returns:
        The analysed query.
    """
    vector, trust = embed(text)
    return QueryForm(text, Counter(terms(text)), vector, trust)
