"""The dense channels of an index: its model's, and a multilingual one if it is needed.

The packaged model reads English. Skills and requests in other languages need a second embedder,
which multiplies the time of indexing, so it is there for those who have a use for it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillsearch.embedders.embedder import (
    load_embedder,
    model_identity,
    multilingual_is_installed,
)
from skillsearch.embedders.embedding import Embedder
from skillsearch.environ import install_extra, speaks_english
from skillsearch.errors import EmbedderError, MissingDependencyError
from skillsearch.index.documents import KNOWN, Document
from skillsearch.types import JsonValue, Languages

# Model spec of the second channel.
MULTILINGUAL = "multilingual"
# Empty file that marks an index folder in which a query in another language was asked in vain.
ASKED = "asked-in-another-language"
# Share of skills in other languages from which on ``auto`` builds the second channel.
LEAST_SHARE = 0.01

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """What decides the vectors of one dense channel.

    Attributes:
        model: Model spec, such as ``onnx``.
        model_identity: Names the model's files without loading them.
        scripts: Scripts that the embedder reads, None for all.
    """

    model: str
    model_identity: str
    fingerprint: str
    dimensions: int
    scripts: frozenset[str] | None

    @classmethod
    def of(cls, model: str, embedder: Embedder) -> ChannelSettings:
        """Describe the channel of an embedder that was loaded from a model spec."""
        return cls(
            model,
            model_identity(model),
            embedder.fingerprint,
            embedder.dimensions,
            embedder.scripts,
        )

    def has_changed(self) -> bool:
        """Return whether the model's files are not those that the vectors were made with."""
        return model_identity(self.model) != self.model_identity

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form, for a manifest."""
        return {
            "model": self.model,
            "model_identity": self.model_identity,
            "fingerprint": self.fingerprint,
            "dimensions": self.dimensions,
            "scripts": None if self.scripts is None else sorted(self.scripts),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, JsonValue]) -> ChannelSettings:
        """Read the JSON form; a KeyError, TypeError or ValueError if it has another."""
        scripts = values["scripts"]
        return cls(
            str(values["model"]),
            str(values["model_identity"]),
            str(values["fingerprint"]),
            int(values["dimensions"]),
            None if scripts is None else frozenset(map(str, scripts)),
        )


def possible_models(
    model: str, scripts: frozenset[str] | None, languages: Languages
) -> tuple[str, ...]:
    """Return the model specs of all channels that an index may get, one or two.

    A first model that reads all `scripts` (None) needs no second. With ``all`` there are two
    whether the second is installed or not.
    """
    wanted = languages == "all" or (languages == "auto" and multilingual_is_installed())
    return (model, MULTILINGUAL) if wanted and scripts is not None else (model,)


def expects_others(folder: Path) -> bool:
    """Return whether queries in other languages are likely: by the locale, or as asked before."""
    return not speaks_english() or (folder / ASKED).exists()


def count_needed(
    models: Sequence[str], languages: Languages, documents: Sequence[Document], *, expected: bool
) -> int:
    """Return how many of the `possible_models` an index of some documents needs."""
    others = sum(document.fluency < KNOWN for document in documents)
    return count_needed_by(models, languages, others, len(documents), expected=expected)


def count_needed_by(
    models: Sequence[str], languages: Languages, others: int, size: int, *, expected: bool
) -> int:
    """Return how many of the `possible_models` an index needs.

    `others` of its `size` skills are in languages that a model for English does not know;
    `expected` says whether queries in other languages are.
    """
    if len(models) == 1 or languages == "all" or expected:
        return len(models)
    return len(models) if others and others >= LEAST_SHARE * size else 1


def channels_fit(
    channels: Sequence[ChannelSettings], languages: Languages, could: bool, *, expected: bool
) -> bool:
    """Return whether an index has the channels that it would get if it were built now.

    `could` says whether it could have had a second channel when it was built. A channel that is
    there and can be used is kept.
    """
    first, extra = channels[0], len(channels) > 1
    can = len(possible_models(first.model, first.scripts, languages)) > 1
    if languages != "auto" or not can:
        return extra == can
    return extra or (could and not expected)


class QueryEmbedders:
    """The embedders of an opened index, loaded when first asked.

    The second channel is an extra: if its library or its weights are gone since the index was
    built, the first one answers alone.

    Attributes:
        loaded: The loaded embedders by model spec.
        is_quiet: Whether somebody else tells the user of a missing channel.
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
        """Return how many channels can be asked, the first ones; log once if one cannot."""
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
        """Return the embedder of a channel; an error if it cannot be loaded."""
        if channel.model not in self.loaded:
            self.loaded[channel.model] = load_embedder(channel.model, device=self._device)
        return self.loaded[channel.model]

    def second(self, channel: ChannelSettings) -> Embedder | None:
        """Return the embedder of the second channel; None, and no more asked, if it is gone."""
        try:
            return self.first(channel)
        except (EmbedderError, MissingDependencyError) as exc:
            self.give_up(exc)
            return None

    def matching(self, channels: Sequence[ChannelSettings], number: int) -> Embedder | None:
        """Return the embedder that made the vectors of a channel.

        A first channel whose embedder has changed since is an EmbedderError; a second one is given
        up, and None returned.
        """
        channel = channels[number]
        embedder = self.second(channel) if number else self.first(channel)
        if embedder is None or embedder.fingerprint == channel.fingerprint:
            return embedder
        changed = EmbedderError(
            f"The model {channel.model!r} has changed since the index was built "
            f"({channel.fingerprint} then, {embedder.fingerprint} now). "
            "To fix: run `skillsearch index --verify`"
        )
        if number == 0:
            raise changed
        self.give_up(changed)
        return None

    def give_up(self, reason: Exception) -> None:
        """Do without the second channel until `renew`."""
        self._has_second = False
        logger.warning("The multilingual channel cannot be asked: %s", reason)

    def renew(self, loaded: Mapping[str, Embedder]) -> None:
        """Take over the embedders of a new generation, and look again at which can be used."""
        self.loaded.update(loaded)
        self._has_second = None
