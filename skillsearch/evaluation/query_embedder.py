"""Embed each query once, however many systems are asked, and charge each of them for it.

And know from the queries which models their answers need.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import EmbeddedText, Embedder, Role
from skillsearch.evaluation.by_language import query_languages
from skillsearch.evaluation.systems import SystemSpec
from skillsearch.evaluation.types import JudgedQuery
from skillsearch.index.dense.channels import possible_models
from skillsearch.types import Languages

_READ_BY_ANY = frozenset({"en", ""})
"""Languages of queries that need no model besides that of the index; of some it cannot be told."""


class QueryEmbedder:
    """An embedder that keeps what it embedded, and how long that took."""

    def __init__(self, embedder: Embedder) -> None:
        """Wrap an embedder."""
        self._embedder = embedder
        self._known: dict[tuple[Role, str], tuple[EmbeddedText, float]] = {}
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

    def embed_stream(
        self, texts: Sequence[str], *, role: Role = "passage"
    ) -> Iterator[EmbeddedText]:
        """Embed `texts` in order, none of them a second time in the same role."""
        for position, text in enumerate(texts):
            key = role, text
            if key in self._known:
                embedded, seconds = self._known[key]
                self._saved += seconds
            else:
                started = time.perf_counter()
                embedded = next(iter(self._embedder.embed_stream([text], role=role)))
                self._known[key] = embedded, time.perf_counter() - started
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
            model: As in `skillsearch.embedders.embedder.load_embedder`.

        Returns:
            The embedder.

        Raises:
            EmbedderError: When it cannot be loaded.
            MissingDependencyError: When the library that it needs is not installed.
        """
        if model not in self._loaded:
            self._loaded[model] = QueryEmbedder(load_embedder(model))
        return self._loaded[model]

    def languages(self, spec: SystemSpec, queries: Iterable[JudgedQuery]) -> Languages:
        """Return what the index of a system is made for.

        Args:
            spec: The system.
            queries: Those that are asked: where the system leaves it open and any is in a language
                that its model does not read, the index is made for all languages.

        Returns:
            What the system says, but ``all`` for those, if the package for that is installed.

        Raises:
            EmbedderError: When an embedder cannot be loaded.
            MissingDependencyError: When the library that it needs is not installed.
        """
        models = possible_models(spec.model, self.load(spec.model).scripts, spec.languages)
        if spec.languages == "auto" and len(models) > 1:
            return "all" if {*query_languages(queries).values()} - _READ_BY_ANY else "auto"
        for model in models:
            self.load(model)
        return spec.languages

    def take_saved_seconds(self) -> float:
        """Return what all of them together saved since this was last asked."""
        return sum(embedder.take_saved_seconds() for embedder in self._loaded.values())
