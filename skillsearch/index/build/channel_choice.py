"""Decides which dense channels an index gets, before it is written."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from skillsearch.errors import EmbedderError, MissingDependencyError
from skillsearch.index.build.embedding_queue import Channel
from skillsearch.index.dense.channels import ChannelSettings, count_needed_by, possible_models
from skillsearch.index.request import IndexRequest

logger = logging.getLogger(__name__)


class ChannelChoice:
    """The channels of one run.

    Attributes:
        channels: Those that are open.
        could_add: Whether a second could be had and is not needed.
    """

    def __init__(
        self,
        request: IndexRequest,
        open_channel: Callable[[str], Channel],
        before: Sequence[ChannelSettings],
        *,
        expected: bool,
        keep: bool,
    ) -> None:
        """Open the channels of the index before, or those needed whatever the skills are.

        Args:
            request: What to index, and how.
            open_channel: Loads the embedder of a model and opens its cache.
            before: Channels of the index before; none if there is none.
            expected: Whether queries in other languages are expected, see `expects_others`.
            keep: Add no channel to those before.
        """
        self._languages = request.languages
        self._expected = expected
        self._open_channel = open_channel
        first = open_channel(request.model)
        self.channels = [first]
        self.could_add = False
        self._models = possible_models(request.model, first.embedder.scripts, request.languages)
        self._allowed = len(before) if before and keep else len(self._models)
        self._open_up_to(len(before) or self._needed(0, 0))
        self.fits = self._has_embedders_of(before)
        if before and not self.fits:
            del self.channels[max(1, self._needed(0, 0)) :]
            self._open_up_to(self._needed(0, 0))

    @property
    def depends_on_skills(self) -> bool:
        """Whether the languages of the skills decide if there is a second channel."""
        return len(self._models) > len(self.channels) and self._needed(0, 0) < len(self._models)

    def decide(self, others: int, size: int) -> None:
        """Open the channels that the skills need.

        Args:
            others: Number of skills in languages that a model for English does not know.
            size: Number of all skills.
        """
        needed = self._needed(others, size)
        self._open_up_to(needed)
        # If a channel is needed and was not added, the next run that may add it looks again.
        self.could_add = len(self._models) > 1 and needed <= len(self.channels)

    def is_enough(self, others: int, most: int) -> bool:
        """Return whether so many of at most `most` skills need all channels already."""
        return self._needed(others, most) == len(self._models)

    def _has_embedders_of(self, before: Sequence[ChannelSettings]) -> bool:
        found = [channel.embedder.fingerprint for channel in self.channels]
        return found == [channel.fingerprint for channel in before]

    def _needed(self, others: int, size: int) -> int:
        """Count the channels that skills need."""
        expected = self._expected
        return count_needed_by(self._models, self._languages, others, size, expected=expected)

    def _open_up_to(self, count: int) -> None:
        """Open channels until there are so many, or as many as can be had."""
        try:
            for model in self._models[len(self.channels) : min(count, self._allowed)]:
                self.channels.append(self._open_channel(model))
        except (EmbedderError, MissingDependencyError) as exc:
            if self._languages == "all":
                raise
            logger.warning("indexed without the multilingual channel: %s", exc)
            self._models, self._allowed = self._models[:1], 1
