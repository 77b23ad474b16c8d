"""The embedders of an opened index: loaded when first asked, done without where they are gone."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from skillsearch.embedders.embedder import load_embedder, multilingual_is_installed
from skillsearch.embedders.embedding import Embedder
from skillsearch.environ import install_extra
from skillsearch.errors import EmbedderError, MissingDependencyError
from skillsearch.index.dense.channels import ChannelSettings

logger = logging.getLogger(__name__)


class ChannelEmbedders:
    """What embeds queries for the dense channels of an index.

    The second channel is an extra: where its library or its weights are gone since the index was
    made, the first one answers alone.

    Attributes:
        loaded: The embedders that are loaded, by what they are loaded by.
        is_quiet: True where somebody else tells the user of a channel that is gone.
    """

    def __init__(
        self, loaded: Mapping[str, Embedder] | None = None, *, device: str | None = None
    ) -> None:
        """Begin with the embedders that are loaded already; load others onto a device."""
        self.loaded = dict(loaded or {})
        self._device = device
        self.is_quiet = False
        self._has_second: bool | None = None

    def count_usable(self, channels: Sequence[ChannelSettings]) -> int:
        """Count the channels that can be asked, the first ones; log once where one cannot."""
        if len(channels) == 1:
            return 1
        if self._has_second is None:
            self._has_second = channels[1].model in self.loaded or multilingual_is_installed()
            if not self._has_second and not self.is_quiet:
                logger.warning(
                    "This index has a multilingual channel that cannot be asked here; "
                    "install it: %s",
                    install_extra("multilingual"),
                )
        return 2 if self._has_second else 1

    def first(self, channel: ChannelSettings) -> Embedder:
        """Return the embedder of the first channel.

        Args:
            channel: What the channel was made with.

        Returns:
            The embedder.

        Raises:
            EmbedderError: When it cannot be loaded.
            MissingDependencyError: When its library is not installed.
        """
        if channel.model not in self.loaded:
            self.loaded[channel.model] = load_embedder(channel.model, device=self._device)
        return self.loaded[channel.model]

    def second(self, channel: ChannelSettings) -> Embedder | None:
        """Return the embedder of the second channel.

        Args:
            channel: What the channel was made with.

        Returns:
            The embedder; None where it is gone or damaged.
        """
        try:
            return self.first(channel)
        except (EmbedderError, MissingDependencyError) as exc:
            self.give_up(exc)
            return None

    def give_up(self, reason: Exception) -> None:
        """Do without the second channel until `renew`."""
        self._has_second = False
        logger.warning("The multilingual channel cannot be asked: %s", reason)

    def renew(self, loaded: Mapping[str, Embedder]) -> None:
        """Take over the embedders of a new index, and look again at which can be used."""
        self.loaded.update(loaded)
        self._has_second = None
