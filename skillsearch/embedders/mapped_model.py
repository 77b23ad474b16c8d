"""Models in our own form: words mapped from a file, which models share, the layers in ONNX Runtime.

``training/onnx_model.py`` writes the layers, ``scripts/model_base.py`` the words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders import embedding
from skillsearch.embedders.embedding import EmbeddedText
from skillsearch.embedders.model_files import ModelConfig, weight_files
from skillsearch.embedders.onnx_embedder import map_ahead, open_session
from skillsearch.embedders.unigram import BEGIN, END
from skillsearch.embedders.word_table import WORDS_NAME, WordTable
from skillsearch.errors import EmbedderError


@dataclass(frozen=True, slots=True, eq=False)
class MappedModel:
    """The layers of a model, as a function of its inputs by name, and the words it reads."""

    settings: ModelConfig
    fingerprint: str
    words: WordTable
    run: Callable[[Mapping[str, NDArray[Any]]], NDArray[Any]]

    @classmethod
    def load(cls, folder: Path, stem: str, output: str, *, manifest_sha256: str | None) -> Self:
        """Load STEM.onnx with one `output`, its weights and the words beside it.

        The digests are as in `ModelConfig.read`. An EmbedderError if a file is missing or damaged.
        """
        settings = ModelConfig.read(folder, manifest_sha256=manifest_sha256, stem=stem)
        graph, words = folder / f"{stem}.onnx", folder / WORDS_NAME
        digests = [settings.verify(path) for path in (graph, *weight_files(graph), words)]
        session = open_session(graph)
        if (outputs := [node.name for node in session.get_outputs()]) != [output]:
            raise EmbedderError(f"{graph} gives {outputs}, not {output!r}; reinstall the model")

        def run(inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
            feeds = {name: value[None] for name, value in inputs.items()}
            with embedding.errors_of("ONNX Runtime", graph):
                (result,) = session.run(None, feeds)
            return np.asarray(result[0])

        fingerprint = embedding.fingerprint_of(*digests, settings.max_tokens)
        return cls(settings, fingerprint, WordTable.load(words), run)


@dataclass(frozen=True, slots=True, eq=False)
class MappedEmbedder:
    """An embedder in our own form, such as that of the package; it reads every language.

    Each text is run by itself, as with `OnnxEmbedder`.
    """

    fingerprint: str
    name: str
    dimensions: int
    _model: MappedModel

    @classmethod
    def load(cls, folder: Path, *, manifest_sha256: str | None = None) -> Self:
        """Load a folder; see `MappedModel.load`."""
        model = MappedModel.load(folder, "model", "vector", manifest_sha256=manifest_sha256)
        return cls(model.fingerprint, model.settings.name, model.words.dimensions, model)

    def embed_stream(self, texts: Sequence[str]) -> Iterator[EmbeddedText]:
        """Embed `texts` in order; see `map_ahead`."""
        words, limit = self._model.words, self._model.settings.max_tokens

        def embed_one(position: int, text: str) -> EmbeddedText:
            head, cut = embedding.head_of(text, limit)
            ids, over = words.tokenizer.encode(head, limit - 2)
            if not ids:
                return EmbeddedText(position, np.zeros(self.dimensions, np.float32), cut)
            rows = words.rows([BEGIN, *ids, END])
            vector = self._model.run({"rows": rows + words.positions[: len(rows)]})
            return EmbeddedText(position, embedding.unit_row(vector, self), cut or over)

        yield from map_ahead(embed_one, texts)
