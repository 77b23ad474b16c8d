"""Queries → their terms, and their vectors in the dense channels of an opened index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.embedders.embedding import Embedder, embed
from skillsearch.index.corpus import OpenedIndex
from skillsearch.index.dense.channel_embedders import ChannelEmbedders
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.query_form import QueryForm, analyse

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ChannelChangedError(Exception):
    """The embedder of a channel is another than the one that made the vectors of an index.

    Attributes:
        channel: Number of the channel.
    """

    def __init__(self, channel: int) -> None:
        """Say which channel it is."""
        super().__init__(f"channel {channel} has another embedder than the index")
        self.channel = channel


def analyse_queries(
    texts: Sequence[str],
    opened: OpenedIndex,
    calibration: Calibration,
    embedders: ChannelEmbedders,
) -> list[QueryForm]:
    """Split queries into terms and embed them, all texts of a channel together.

    Args:
        texts: The queries.
        opened: The opened index.
        calibration: Tells from clues whether the first channel knows the language of a query.
        embedders: Embed for the channels; a second one that cannot be asked has no vote.

    Returns:
        The analysed queries, in their order.

    Raises:
        ChannelChangedError: When an embedder has changed since the index was made.
        EmbedderError: When that of the first channel cannot be loaded.
        CacheError: When a part of the index is damaged.
    """
    channels = opened.settings.channels
    usable = embedders.count_usable(channels)
    shown: list[dict[int, str]] = []

    def note(channel: int, text: str) -> NDArray[np.float32]:
        """Keep what a channel is to embed of the query at hand."""
        shown[-1][channel] = text
        return np.zeros(channels[channel].dimensions, np.float32)

    forms = []
    with opened.guard:
        for text in texts:
            shown.append({})
            forms.append(analyse(text, opened, calibration, note, channels=usable))
    for number in range(usable):
        asked = list(dict.fromkeys(parts[number] for parts in shown if number in parts))
        if not asked:
            continue
        embedder = _embedder_of(opened, embedders, number)
        if embedder is None:
            # Without its vote the other channel is trusted otherwise.
            return analyse_queries(texts, opened, calibration, embedders)
        vectors = dict(zip(asked, embed(embedder, asked, role="query").vectors, strict=True))
        forms = [
            _with_vector(form, number, vectors[parts[number]]) if number in parts else form
            for form, parts in zip(forms, shown, strict=True)
        ]
    return forms


def _embedder_of(opened: OpenedIndex, embedders: ChannelEmbedders, number: int) -> Embedder | None:
    """Return the embedder of a channel; None where a second one is gone."""
    channel = opened.settings.channels[number]
    embedder = embedders.first(channel) if number == 0 else embedders.second(channel)
    if embedder is not None and embedder.fingerprint != channel.fingerprint:
        raise ChannelChangedError(number)
    return embedder


def _with_vector(form: QueryForm, number: int, vector: NDArray[np.float32]) -> QueryForm:
    """Return a query with its vector in one channel."""
    views = list(form.views)
    views[number] = replace(views[number], vector=vector)
    return replace(form, views=tuple(views))
