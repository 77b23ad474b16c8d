"""A query as every channel sees it: its terms, and its vector in each dense channel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.index.corpus import Corpus, OpenedIndex
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.fluency import query_clues, trusts
from skillsearch.text.languages import language_of
from skillsearch.text.scripts import readable, trust
from skillsearch.text.tokenizer import terms

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class QueryView:
    """A query as the embedder of one dense channel sees it.

    Attributes:
        vector: Its embedding, float32, (dimensions,); all zero where nothing could be embedded, or
            the channel was not asked.
        trust: How far the embedder can judge it, 0 to 1; 0 where the channel has no vote.
    """

    vector: NDArray[np.float32]
    trust: float


@dataclass(frozen=True, slots=True)
class QueryForm:
    """A query, analysed.

    Attributes:
        text: As it was asked.
        language: What it is written in, as `skillsearch.text.languages.language_of` tells it.
        counts: How often each term occurs.
        views: What each dense channel makes of it, in the order of the channels.
    """

    text: str
    language: str
    counts: Counter[str]
    views: tuple[QueryView, ...]


def shares_of_trust(
    corpus: Corpus, query: QueryForm, documents: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return how far each channel can judge a query and some documents; the shares sum to 1.

    The first channel alone is asked about all that has letters which it can read; beside a
    second, only about English.

    Args:
        corpus: The opened index.
        query: The analysed query.
        documents: Numbers of documents.

    Returns:
        The shares of the first channel, of the second, and of neither, float64, 0 to 1.
    """
    store = corpus.documents
    known = store.trust if len(query.views) == 1 else store.fluency
    first = np.asarray(known[documents], np.float64) * query.views[0].trust
    second = sum((view.trust for view in query.views[1:]), 0.0) * (1.0 - first)
    return first, second, 1.0 - first - second


def analyse(
    text: str,
    index: OpenedIndex,
    calibration: Calibration,
    embed: Callable[[int, str], NDArray[np.float32]],
    *,
    channels: int,
) -> QueryForm:
    """Split a query into terms and embed it for the channels that have a say in it.

    Args:
        text: The query.
        index: The opened index.
        calibration: Tells from clues whether the first channel knows the query's language.
        embed: Gives the vector that the embedder of a channel, by its number, makes of a text.
        channels: How many of the dense channels can be asked.

    Returns:
        The analysed query.
    """
    language = language_of(text)
    counts = Counter(terms(text, language))
    known = index.settings.channels[:channels]
    if channels == 1:
        weights: tuple[float, ...] = (trust(text, known[0].scripts),)
    else:
        lexical = index.corpus.lexical_full or index.corpus.lexical_metadata
        overlap = lexical.overlap(lexical.weigh(counts))
        fluency = calibration.fluency(query_clues(text, language, overlap))
        weights = trusts(fluency, index.corpus.documents.other_share)
    views = []
    for number, (channel, weight) in enumerate(zip(known, weights, strict=True)):
        shown = readable(text, channel.scripts) if weight else ""
        vector = embed(number, shown) if shown else np.zeros(channel.dimensions, np.float32)
        views.append(QueryView(vector, weight))
    return QueryForm(text, language, counts, tuple(views))
