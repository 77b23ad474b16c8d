"""The interface of embedders, their building blocks, and the hashing embedder."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import EmbedderError, translated
from skillsearch.fast_start.dataclasses import dataclass

# Bump if our own steps change vectors, so that saved ones are not mixed with new ones.
VERSION = 1
# Text beyond this many characters per token of the limit is cut before it is tokenized, so that a
# megabyte costs 2 ms. At half of it, no vector of 2,502 real SKILL.md bodies changed.
CHARACTERS_PER_TOKEN = 16
KEY_BYTES = 16

EmbeddingRow = NDArray[np.float32]


class EmbeddedText(NamedTuple):
    """The vector of the text at a position, all zero without any token, and whether it was cut."""

    position: int
    vector: EmbeddingRow
    truncated: bool


class Embedder(Protocol):
    """Turns texts into unit vectors whose dot product is their similarity."""

    @property
    def fingerprint(self) -> str:
        """Short hexadecimal id; vectors are comparable only if it is the same."""

    @property
    def name(self) -> str:
        """Name for people."""

    @property
    def dimensions(self) -> int:
        """Length of a vector."""

    def embed_stream(self, texts: Sequence[str]) -> Iterator[EmbeddedText]:
        """Embed `texts`, yielding each as it is ready, in any order."""


def embed(
    embedder: Embedder,
    texts: Sequence[str],
    *,
    progress: Callable[[int], None] | None = None,
) -> NDArray[np.float32]:
    """Embed texts, one row each; `progress` gets the number done so far after each."""
    vectors = np.zeros((len(texts), embedder.dimensions), dtype=np.float32)
    for done, text in enumerate(embedder.embed_stream(texts), start=1):
        vectors[text.position] = text.vector
        if progress is not None:
            progress(done)
    return vectors


@dataclass(frozen=True, slots=True)
class HashingEmbedder:
    """Hashed words and character trigrams (Weinberger et al., 2009), for what needs no model."""

    dimensions: int = 512

    @property
    def name(self) -> str:
        """Method and size."""
        return f"hashing-{self.dimensions}"

    @property
    def fingerprint(self) -> str:
        """Id of the method and size."""
        return fingerprint_of(self.name)

    def embed_stream(self, texts: Sequence[str]) -> Iterator[EmbeddedText]:
        """Embed `texts` in order; nothing is cut."""
        for position, text in enumerate(texts):
            vector = np.zeros(self.dimensions, dtype=np.float64)
            # The words, framed by spaces, and at half their weight the trigrams.
            weights: defaultdict[str, float] = defaultdict(float)
            for word in re.findall(r"\w+", text.lower()):
                framed = f" {word} "
                weights[framed] += 1.0
                for start in range(len(framed) - 2):
                    weights[framed[start : start + 3]] += 0.5
            for feature, weight in weights.items():
                bucket, sign = divmod(_hash(feature), 2)
                vector[bucket % self.dimensions] += (2 * sign - 1) * math.sqrt(weight)
            yield EmbeddedText(position, unit_row(vector, self), False)


@lru_cache(maxsize=1 << 16)
def _hash(feature: str) -> int:
    digest = hashlib.blake2b(feature.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def fingerprint_of(*settings: str | int) -> str:
    """Return a short id of the settings that decide an embedder's vectors."""
    return hashlib.sha256(json.dumps([VERSION, *settings]).encode()).hexdigest()[:16]


def text_key(text: str) -> bytes:
    """Return the key under which the vector of a text is kept: the head of its sha256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:KEY_BYTES]


def head_of(text: str, max_tokens: int) -> tuple[str, bool]:
    """Return the part of a text that is tokenized, and whether a tail was cut off."""
    # Some tokenizers refuse lone surrogates and NUL.
    text = text.strip()
    limit = max_tokens * CHARACTERS_PER_TOKEN
    head = text[:limit].replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
    return head.strip(), len(text) > limit


def unit_row(vector: NDArray[np.floating], embedder: Embedder) -> EmbeddingRow:
    """Return a vector at unit length; an EmbedderError if it is not one of finite numbers."""
    if vector.shape != (embedder.dimensions,) or not np.isfinite(vector).all():
        raise EmbedderError(
            f"Embedder {embedder.name!r} gave a vector of shape {vector.shape} or with NaN or "
            f"infinity in it, where {embedder.dimensions} finite numbers are due; use another model"
        )
    norm = float(np.linalg.norm(vector.astype(np.float64)))
    return (vector / norm if norm else vector).astype(np.float32)


def errors_of(library: str, model: Path | str) -> AbstractContextManager[None]:
    """Turn whatever a library raises about a model into an EmbedderError that keeps its words."""
    return translated(lambda exc: EmbedderError(f"{library} cannot use {model}: {exc}"))
