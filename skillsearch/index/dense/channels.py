"""The dense channels of an index: the one of its model, and a multilingual one where it is needed.

The packaged model reads English. Skills in other languages, and requests in them, need a second
embedder; it multiplies the time of indexing, so it is there for those who have a use for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillsearch.embedders.embedder import model_identity, multilingual_is_installed
from skillsearch.embedders.embedding import Embedder
from skillsearch.environ import speaks_english
from skillsearch.index.documents import KNOWN, Document
from skillsearch.types import JsonValue, Languages

MULTILINGUAL = "multilingual"
"""What the embedder of the second channel is loaded by."""
ASKED = "asked-in-another-language"
"""Name of the empty file that marks an index folder of which that was asked in vain."""
LEAST_SHARE = 0.01
"""Share of skills in other languages from which on ``auto`` builds the second channel."""


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """What decides the vectors of one dense channel.

    Attributes:
        model: What its embedder was loaded by, such as ``onnx``.
        model_identity: Names the files behind `model` without loading them.
        fingerprint: The embedder's fingerprint.
        dimensions: Length of its vectors.
        scripts: Scripts that it reads, None for all.
    """

    model: str
    model_identity: str
    fingerprint: str
    dimensions: int
    scripts: frozenset[str] | None

    @classmethod
    def of(cls, model: str, embedder: Embedder) -> ChannelSettings:
        """Describe the channel of an embedder that was loaded by `model`."""
        return cls(
            model,
            model_identity(model),
            embedder.fingerprint,
            embedder.dimensions,
            embedder.scripts,
        )

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
        """Read the JSON form.

        Args:
            values: What `to_dict` gave.

        Returns:
            The settings.

        Raises:
            KeyError: When a value is missing.
            TypeError: When one has another form.
            ValueError: When one is no number.
        """
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
    """Return what the embedders of all channels that an index may get are loaded by.

    Args:
        model: That of the first channel.
        scripts: Scripts that it reads, None for all: then no other is needed.
        languages: Which languages the index is for.

    Returns:
        One or two models; with ``all`` two, whether the second can be had or not.
    """
    wanted = languages == "all" or (languages == "auto" and multilingual_is_installed())
    return (model, MULTILINGUAL) if wanted and scripts is not None else (model,)


def expects_others(folder: Path) -> bool:
    """Tell whether queries in other languages are likely: by the user's locale, or as asked before.

    Args:
        folder: The index folder; `ASKED` in it marks that such a query came.

    Returns:
        Whether they are likely.
    """
    return not speaks_english() or (folder / ASKED).exists()


def count_needed(
    models: Sequence[str], languages: Languages, documents: Sequence[Document], *, expected: bool
) -> int:
    """Count the channels that an index needs.

    Args:
        models: From `possible_models`.
        languages: Which languages the index is for.
        documents: Its skills.
        expected: Whether queries in other languages are.

    Returns:
        How many of the models.
    """
    others = sum(document.fluency < KNOWN for document in documents)
    return count_needed_by(models, languages, others, len(documents), expected=expected)


def count_needed_by(
    models: Sequence[str], languages: Languages, others: int, size: int, *, expected: bool
) -> int:
    """Count the channels that an index needs, as `count_needed` does, of skills already counted.

    Args:
        models: From `possible_models`.
        languages: Which languages the index is for.
        others: Number of its skills in languages that a model for English does not know.
        size: Number of its skills.
        expected: Whether queries in other languages are.

    Returns:
        How many of the models.
    """
    if len(models) == 1 or languages == "all" or expected:
        return len(models)
    return len(models) if others and others >= LEAST_SHARE * size else 1


def channels_fit(
    channels: Sequence[ChannelSettings], languages: Languages, could: bool, *, expected: bool
) -> bool:
    """Tell whether an index has the channels that it would get if it were made now.

    Args:
        channels: Those it has.
        languages: Which languages it is asked for now.
        could: Whether it could have had a second channel when it was made.
        expected: Whether queries in other languages are, as `expects_others` tells it.

    Returns:
        False where it must be made again. A channel that is there and can be used is kept.
    """
    first, extra = channels[0], len(channels) > 1
    can = len(possible_models(first.model, first.scripts, languages)) > 1
    if languages != "auto" or not can:
        return extra == can
    return extra or (could and not expected)
