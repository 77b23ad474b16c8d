"""Embed each query once, however many systems are asked, and charge each of them for it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from skillsearch.index.embedder import load_embedder
from skillsearch.index.embedding import EmbeddedText, Embedder


class QueryEmbedder:
    """An embedder that keeps what it embedded, and how long that took."""

    def __init__(self, embedder: Embedder) -> None:
        """Wrap an embedder."""
        self._embedder = embedder
        self._known: dict[str, tuple[EmbeddedText, float]] = {}
        self._saved = 0.0

    @property
    def fingerprint(self) -> str:
        """Short hexadecimal id of the embedder."""
        return self._embedder.fingerprint

    @property
    def name(self) -> str:
        """Name for people."""
        return self._embedder.name

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return self._embedder.dimensions

    @property
    def scripts(self) -> frozenset[str] | None:
        """Unicode scripts whose text it understands; None for all."""
        return self._embedder.scripts

    def embed_stream(self, texts: Sequence[str]) -> Iterator[EmbeddedText]:
        """Embed `texts` in order, none of them a second time."""
        for position, text in enumerate(texts):
            if text in self._known:
                embedded, seconds = self._known[text]
                self._saved += seconds
            else:
                started = time.perf_counter()
                embedded = next(iter(self._embedder.embed_stream([text])))
                self._known[text] = embedded, time.perf_counter() - started
            yield embedded._replace(position=position)

    def take_saved_seconds(self) -> float:
        """Return what embedding again would have taken since this was last asked."""
        saved, self._saved = self._saved, 0.0
        return saved


class Embedders:
    """The embedders of an evaluation, each loaded once."""

    def __init__(self) -> None:
        """Begin with none."""
        self._loaded: dict[str, QueryEmbedder] = {}

    def load(self, model: str) -> QueryEmbedder:
        """Return the embedder of a model, always the same one.

        Args:
            model: As in `skillsearch.index.embedder.load_embedder`.

        Returns:
            The embedder.

        Raises:
            EmbedderError: When it cannot be loaded.
            MissingDependencyError: When the library that it needs is not installed.
        """
        if model not in self._loaded:
            self._loaded[model] = QueryEmbedder(load_embedder(model))
        return self._loaded[model]
