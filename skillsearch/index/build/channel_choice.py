"""Which dense channels an index gets while it is made, and their embedders and caches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from skillsearch.errors import EmbedderError, MissingDependencyError
from skillsearch.index.build.text_embedding import Channel
from skillsearch.index.dense.channels import ChannelSettings, count_needed_by, possible_models
from skillsearch.index.request import IndexRequest

logger = logging.getLogger(__name__)


class ChannelChoice:
    """The channels of one run; whether a second is needed may only show as skills are read.

    Attributes:
        channels: Those that are open.
        could_add: Whether another could be had and is not needed, by what was last said.
    """

    def __init__(
        self,
        request: IndexRequest,
        open_channel: Callable[[str], Channel],
        *,
        expected: bool,
        before: Sequence[ChannelSettings],
        keep: bool,
    ) -> None:
        """Open the channels that are needed whatever the skills are.

        Args:
            request: What to index, and how.
            open_channel: Loads the embedder of a model and opens its cache.
            expected: Whether queries in other languages are, as `expects_others` tells it.
            before: Channels of the index that can be taken over from, empty where there is none.
            keep: Add no channel to these.

        Raises:
            EmbedderError: When an embedder that must be there cannot be loaded.
            MissingDependencyError: When its extra is not installed.
        """
        self._request = request
        self._open_channel = open_channel
        self._expected = expected
        first = open_channel(request.model)
        self.channels = [first]
        self.could_add = False
        self._models = possible_models(request.model, first.embedder.scripts, request.languages)
        self._allowed = len(self._models)
        if before and keep:
            self._allowed = min(self._allowed, len(before))
        self._open_up_to(len(before) or self._needed(0, 0))

    def fits(self, before: Sequence[ChannelSettings]) -> bool:
        """Tell whether the channels have the embedders of those before."""
        found = [channel.embedder.fingerprint for channel in self.channels]
        return found == [channel.fingerprint for channel in before]

    def start_over(self) -> None:
        """Go back to the channels that are needed whatever the skills are."""
        count = max(1, min(self._needed(0, 0), self._allowed))
        self.channels = self.channels[:count]
        self._open_up_to(count)

    def adds_one(self, others: int, size: int) -> bool:
        """Open a further channel where skills need it.

        Args:
            others: How many of them a model for English does not know.
            size: How many there are.

        Returns:
            Whether there is one more now; all skills must be read again for it.

        Raises:
            EmbedderError: When its embedder must be there and cannot be loaded.
        """
        needed, count = self._needed(others, size), len(self.channels)
        self._open_up_to(needed)
        # Where one was not added but needed, the next run that may add it looks again.
        self.could_add = len(self._models) > 1 and needed <= len(self.channels)
        return len(self.channels) > count

    def _needed(self, others: int, size: int) -> int:
        """Count the channels that some skills need."""
        languages = self._request.languages
        return count_needed_by(self._models, languages, others, size, expected=self._expected)

    def _open_up_to(self, count: int) -> None:
        """Open channels until there are so many, or as many as can be had."""
        try:
            for model in self._models[len(self.channels) : min(count, self._allowed)]:
                self.channels.append(self._open_channel(model))
        except (EmbedderError, MissingDependencyError) as exc:
            if self._request.languages == "all":
                raise
            logger.warning("indexed without the multilingual channel: %s", exc)
            self._models, self._allowed = self._models[:1], 1
