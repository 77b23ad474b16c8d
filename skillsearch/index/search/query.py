"""A query as every channel sees it: its weighed terms, and its vector in each dense channel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.embedders.embedding import embed
from skillsearch.index.corpus import Corpus, OpenedIndex
from skillsearch.index.dense.channels import QueryEmbedders
from skillsearch.index.documents import is_english
from skillsearch.index.lexical.field import TermWeights
from skillsearch.index.search.calibration import Calibration
from skillsearch.text.languages import language_of
from skillsearch.text.scripts import readable, trust
from skillsearch.text.tokenizer import terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

# From this probability of English on the first channel answers alone; at 1 minus this or less, the
# second.
SURE = 0.9
# From this share of skills in other languages on, the second channel always votes. At a tenth,
# requests in English lost up to 8 points of nDCG@10 to skills that they rarely ask for.
MIXED_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class QueryView:
    """The vector of a query in a dense channel, zero if none; `trust` is 0 without a vote."""

    vector: NDArray[np.float32]
    trust: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class QueryForm:
    """An analysed query: its language, how often each term occurs, the views of dense channels.

    `weights` are its terms as `weigh_terms` weighs them in the corpus that is searched.
    """

    text: str
    language: str
    counts: Counter[str]
    views: tuple[QueryView, ...]
    weights: tuple[TermWeights, ...] = ()


def weigh_terms(corpus: Corpus, counts: Counter[str]) -> tuple[TermWeights, ...]:
    """Weigh the terms of a query in each lexical field."""
    return tuple(field.weigh(counts) for field in corpus.lexical)


def shares_of_trust(
    corpus: Corpus, query: QueryForm, documents: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return how far the first channel, the second and neither can judge a query and documents.

    They sum to 1. A first channel alone is asked about all letters that it can read; beside a
    second, only about English.
    """
    store = corpus.documents
    known = store.trust if len(query.views) == 1 else store.fluency
    first = np.asarray(known[documents], np.float64) * query.views[0].trust
    second = sum((view.trust for view in query.views[1:]), 0.0) * (1.0 - first)
    return first, second, 1.0 - first - second


def language_features(text: str, language: str, overlap: float) -> dict[str, float]:
    """Return each of `LANGUAGE_FEATURES`, given the language, if it is known, and the overlap."""
    letters = sum(map(str.isalpha, text))
    other = sum(char.isalpha() and not char.isascii() for char in text)
    return {
        "english": float(language == "en"),
        "other_language": float(not is_english(language)),
        "other_letters": other / letters if letters else 0.0,
        "overlap": overlap,
    }


def trusts(p_english: float, other_share: float) -> tuple[float, float]:
    """Return how far each of two channels is trusted with a query, 0 if it is not asked.

    The second knows every language, but English less well. `other_share` of the documents are in
    languages that the first does not know.
    """
    first = 1.0 if p_english >= SURE else 0.0 if p_english <= 1.0 - SURE else p_english
    return first, float(first < 1.0 or other_share >= MIXED_SHARE)


def analyse_queries(
    texts: Sequence[str], index: OpenedIndex, calibration: Calibration, embedders: QueryEmbedders
) -> list[QueryForm]:
    """Split queries into terms and embed them, all texts of a channel together.

    A second channel that cannot be asked has no vote; an EmbedderError if the first cannot.
    """
    channels = index.settings.channels
    usable = embedders.count_usable(channels)
    with index.guard:
        forms = [_read(text, index, calibration, usable) for text in texts]
    columns: list[list[QueryView]] = []
    for number in range(usable):
        views = [form.views[number] for form in forms]
        asked = list(dict.fromkeys(view.text for view in views if view.text))
        if asked:
            embedder = embedders.matching(channels, number)
            if embedder is None:
                # Without its vote the other channel is trusted differently.
                return analyse_queries(texts, index, calibration, embedders)
            rows = embed(embedder, asked, role="query")
            vectors = dict(zip(asked, rows, strict=True))
            views = [
                replace(view, vector=vectors[view.text]) if view.text else view for view in views
            ]
        columns.append(views)
    return [
        replace(form, views=views)
        for form, views in zip(forms, zip(*columns, strict=True), strict=True)
    ]


def _read(text: str, index: OpenedIndex, calibration: Calibration, usable: int) -> QueryForm:
    """Do all of the analysis that needs no embedder, for the first channels of an index."""
    language = language_of(text)
    counts = Counter(terms(text, language))
    weights = weigh_terms(index.corpus, counts)
    channels = index.settings.channels[:usable]
    found: tuple[float, ...] = (trust(text, channels[0].scripts),)
    if usable > 1:
        features = language_features(text, language, weights[-1].overlap)
        found = trusts(calibration.p_english(features), index.corpus.documents.other_share)
    views = tuple(
        QueryView(
            np.zeros(channel.dimensions, np.float32),
            weight,
            readable(text, channel.scripts) if weight else "",
        )
        for channel, weight in zip(channels, found, strict=True)
    )
    return QueryForm(text, language, counts, views, weights)
