"""The model that an index was made with, and its embedder, which embeds queries."""

from __future__ import annotations

from collections.abc import Mapping

from skillsearch.embedders.embedder import load_embedder, model_identity
from skillsearch.embedders.embedding import Embedder
from skillsearch.errors import EmbedderError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.types.json_values import Json, checked, text_of


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What decides the vectors of an index; no vector is compared without a `fingerprint`."""

    spec: str
    identity: str
    fingerprint: str
    dimensions: int

    @classmethod
    def of(cls, spec: str, embedder: Embedder) -> ModelSettings:
        """Describe an embedder that was loaded from a model spec."""
        return cls(spec, model_identity(spec), embedder.fingerprint, embedder.dimensions)

    def has_changed(self) -> bool:
        """Return whether the model's files are not those that the vectors were made with."""
        return model_identity(self.spec) != self.identity

    @classmethod
    def from_dict(cls, values: Mapping[str, Json]) -> ModelSettings:
        """Read the JSON form; a KeyError, TypeError or ValueError if it has another."""
        names = ("spec", "identity", "fingerprint")
        spec, identity, fingerprint = (text_of(values[name]) for name in names)
        return cls(spec, identity, fingerprint, checked(values["dimensions"], int))


class QueryEmbedder:
    """The embedder of an opened index, loaded when first asked."""

    def __init__(self, loaded: Embedder | None = None, *, device: str | None = None) -> None:
        self.loaded = loaded
        self._device = device

    def embedder_of(self, settings: ModelSettings) -> Embedder:
        """Return the embedder that the settings name, whether it made the vectors or not."""
        if self.loaded is None:
            self.loaded = load_embedder(settings.spec, device=self._device)
        return self.loaded

    def matching(self, settings: ModelSettings) -> Embedder:
        """Return the embedder that made the vectors of an index.

        An EmbedderError if it cannot be loaded or has changed since.
        """
        if (embedder := self.embedder_of(settings)).fingerprint == settings.fingerprint:
            return embedder
        raise EmbedderError(
            f"The model {settings.spec!r} has changed since the index was built "
            f"({settings.fingerprint} then, {embedder.fingerprint} now). "
            "To fix: run `skillsearch index --verify`"
        )
