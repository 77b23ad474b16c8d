"""The dense channels of an index: its model's, and a multilingual one if it is needed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from skillsearch.embedders.embedder import load_embedder, model_identity
from skillsearch.embedders.embedding import Embedder
from skillsearch.environ import speaks_english
from skillsearch.errors import EmbedderError
from skillsearch.json_values import checked, texts_of
from skillsearch.records import dataclass
from skillsearch.types import Json, JsonObject, Languages

# Model spec of the second channel.
MULTILINGUAL = "multilingual"
# Empty file that marks an index folder in which a query in another language was asked in vain.
OTHER_LANGUAGE_SEEN = "asked-in-another-language"
# Share of skills in other languages from which on ``auto`` builds the second channel.
LEAST_SHARE = 0.01

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """The settings that decide a channel's vectors; `scripts` are what it reads, None for all."""

    model: str
    model_identity: str
    fingerprint: str
    dimensions: int
    scripts: frozenset[str] | None

    @classmethod
    def of(cls, model: str, embedder: Embedder) -> ChannelSettings:
        """Describe the channel of an embedder that was loaded from a model spec."""
        vectors = (embedder.fingerprint, embedder.dimensions, embedder.scripts)
        return cls(model, model_identity(model), *vectors)

    def has_changed(self) -> bool:
        """Return whether the model's files are not those that the vectors were made with."""
        return model_identity(self.model) != self.model_identity

    def to_dict(self) -> JsonObject:
        """Return the JSON form, for a manifest."""
        return asdict(self) | {"scripts": None if self.scripts is None else sorted(self.scripts)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Json]) -> ChannelSettings:
        """Read the JSON form; a KeyError, TypeError or ValueError if it has another."""
        scripts = values["scripts"]
        model, identity = str(values["model"]), str(values["model_identity"])
        readable = None if scripts is None else frozenset(texts_of(scripts))
        return cls(
            model,
            identity,
            str(values["fingerprint"]),
            checked(values["dimensions"], int),
            readable,
        )


def possible_models(
    model: str, scripts: frozenset[str] | None, languages: Languages
) -> tuple[str, ...]:
    """Return the model specs of all channels that an index may get.

    A first that reads all `scripts` (None) needs no second.
    """
    return (model, MULTILINGUAL) if languages != "english" and scripts is not None else (model,)


def expects_others(folder: Path) -> bool:
    """Return whether queries in other languages are likely: by the locale, or as asked before."""
    return not speaks_english() or (folder / OTHER_LANGUAGE_SEEN).exists()


def count_needed_by(
    models: Sequence[str], languages: Languages, others: int, size: int, *, expected: bool
) -> int:
    """Return how many of the `possible_models` an index needs; `others` counts foreign skills."""
    if len(models) == 1 or languages == "all" or expected:
        return len(models)
    return len(models) if others and others >= LEAST_SHARE * size else 1


def channels_fit(
    channels: Sequence[ChannelSettings], languages: Languages, could: bool, *, expected: bool
) -> bool:
    """Return whether an index has the channels that it would get if it were built now.

    `could` says whether it could have had a second when it was built; one that is there is kept.
    """
    first, extra = channels[0], len(channels) > 1
    can = len(possible_models(first.model, first.scripts, languages)) > 1
    if languages != "auto" or not can:
        return extra == can
    return extra or (could and not expected)


class QueryEmbedders:
    """The embedders of an opened index by model spec, loaded when first asked.

    If the second has changed since the index was built, the first one answers alone.
    """

    def __init__(
        self, loaded: Mapping[str, Embedder] | None = None, *, device: str | None = None
    ) -> None:
        self.loaded = dict(loaded or {})
        self._device = device
        self._has_second = True

    def count_usable(self, channels: Sequence[ChannelSettings]) -> int:
        """Return how many channels can be asked, the first ones."""
        return len(channels) if self._has_second else 1

    def embedder_of(self, channel: ChannelSettings) -> Embedder:
        """Return the embedder that a channel names, whether it made its vectors or not."""
        if channel.model not in self.loaded:
            self.loaded[channel.model] = load_embedder(channel.model, device=self._device)
        return self.loaded[channel.model]

    def matching(self, channels: Sequence[ChannelSettings], number: int) -> Embedder | None:
        """Return the embedder that made the vectors of a channel.

        For the first, an EmbedderError if it cannot be loaded or has changed since; the second is
        then given up until `renew`, and None returned.
        """
        channel = channels[number]
        try:
            embedder = self.embedder_of(channel)
            if embedder.fingerprint == channel.fingerprint:
                return embedder
            raise EmbedderError(
                f"The model {channel.model!r} has changed since the index was built "
                f"({channel.fingerprint} then, {embedder.fingerprint} now). "
                "To fix: run `skillsearch index --verify`"
            )
        except EmbedderError as exc:
            if number == 0:
                raise
            self._has_second = False
            logger.warning("The multilingual channel cannot be asked: %s", exc)
            return None

    def renew(self, loaded: Mapping[str, Embedder]) -> None:
        """Take over the embedders of a new generation, and look again at which can be used."""
        self.loaded.update(loaded)
        self._has_second = True
