"""The packaged multilingual embedder: word rows mapped from a file, the layers in ONNX Runtime."""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders import embedding
from skillsearch.embedders.embedding import EmbeddedText, Role, Row
from skillsearch.embedders.model_files import ModelConfig
from skillsearch.embedders.multilingual.unigram import BEGIN, END, Parts, UnigramTokenizer
from skillsearch.embedders.onnx_embedder import map_ahead, open_session
from skillsearch.errors import EmbedderError, translated

GRAPH_NAME, WEIGHTS_NAME, WORDS_NAME = "model.onnx", "model.onnx_data", "words.bin"
# Numbers of a Q4_0 block: a float16 scale, then 16 bytes. The low halves of the bytes are the first
# 16 numbers, the high halves the others; each is 8 above its multiple of the scale.
BLOCK = 32
BLOCK_BYTES = 2 + BLOCK // 2
DIMENSIONS = 384
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True, eq=False)
class MultilingualEmbedder:
    """multilingual-e5-small, tuned on skills and requests in 21 languages, in 8 bits.

    Queries and passages are embedded alike. Each text is run by itself, as with `OnnxEmbedder`.
    """

    dimensions: ClassVar[int] = DIMENSIONS
    scripts: ClassVar[frozenset[str] | None] = None
    fingerprint: str
    name: str
    _max_tokens: int
    _tokenizer: UnigramTokenizer
    _words: NDArray[np.uint8]
    _positions: NDArray[np.float32]
    _run: Callable[[NDArray[np.float32]], Row]

    @classmethod
    def load(cls, folder: Path, *, manifest_sha256: str | None = None) -> Self:
        """Load what ``scripts/build_multilingual.py`` wrote.

        The digests are as in `ModelConfig.read`. An EmbedderError if a file is missing or damaged.
        """
        config = ModelConfig.read(folder, manifest_sha256=manifest_sha256)
        graph, weights, words = (folder / name for name in (GRAPH_NAME, WEIGHTS_NAME, WORDS_NAME))
        digests = [config.verify(path) for path in (graph, weights, words)]
        with translated(lambda exc: EmbedderError(f"{words} cannot be read: {exc}")):
            parts = read_parts(words)
            rows, positions = parts.pop("words"), parts.pop("positions")
            tokenizer = UnigramTokenizer(parts)
        session = open_session(graph)

        def run(rows: NDArray[np.float32]) -> Row:
            with embedding.errors_of("ONNX Runtime", graph):
                (result,) = session.run(None, {"rows": rows[None]})
            row: Row = result[0]
            return row

        fingerprint = embedding.fingerprint_of(*digests, config.max_tokens)
        limit = config.max_tokens
        return cls(fingerprint, config.name, limit, tokenizer, rows, positions, run)

    def embed_stream(
        self, texts: Sequence[str], *, role: Role = "passage"
    ) -> Iterator[EmbeddedText]:
        """Embed `texts` in order, whatever their role; see `map_ahead`."""

        def embed_one(position: int, text: str) -> EmbeddedText:
            head, cut = embedding.head_of(text, self._max_tokens)
            ids, over = self._tokenizer.encode(head, self._max_tokens - 2)
            if not ids:
                return EmbeddedText(position, np.zeros(DIMENSIONS, np.float32), cut)
            rows = unpack(self._words[[BEGIN, *ids, END]])
            vector = embedding.unit_row(self._run(rows + self._positions[: len(rows)]), self)
            return EmbeddedText(position, vector, cut or over)

        yield from map_ahead(embed_one, texts)


def unpack(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the numbers of Q4_0 blocks, (rows, blocks, `BLOCK_BYTES`), exactly, one row each."""
    scales = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    halves = blocks[..., 2:]
    numbers = np.concatenate([halves & 15, halves >> 4], axis=-1).astype(np.float32)
    numbers -= 8
    numbers *= scales
    return numbers.reshape(len(blocks), -1)


def pack(parts: Parts) -> bytes:
    """Write arrays one after the other, behind a line of JSON that says where each one is."""
    places, data = {}, bytearray()
    for name, part in parts.items():
        data += bytes(-len(data) % _ALIGNMENT)
        places[name] = [part.dtype.str, part.shape, len(data)]
        data += part.tobytes()
    line = json.dumps(places).encode()
    line += b" " * (-(len(line) + 1) % _ALIGNMENT) + b"\n"
    return line + data


def read_parts(path: Path) -> Parts:
    """Map the arrays of a verified file that `pack` wrote, read-only."""
    with path.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    end = bytes(data[: 1 << 20]).index(b"\n")
    parts = {}
    for name, (kind, shape, start) in json.loads(bytes(data[:end])).items():
        flat = np.frombuffer(data, kind, math.prod(shape), end + 1 + start)
        parts[name] = flat.reshape(shape)
    return parts
