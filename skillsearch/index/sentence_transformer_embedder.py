"""Embedders that sentence-transformers loads, by folder or by name; the extra ``st``.

The only importer of sentence_transformers, when a model is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from skillsearch.errors import EmbedderError, MissingDependencyError
from skillsearch.index.embedding import EmbeddedText, Role, Row, fingerprint_of, head_of, unit_row
from skillsearch.index.model_calls import errors_of
from skillsearch.index.model_files import (
    LARGEST_MAX_TOKENS,
    MODEL_SUFFIXES,
    digest_of,
    require_safetensors,
)

ST_CHUNK = 256
"""Texts in one call of sentence-transformers, which splits them further."""


@dataclass(frozen=True, slots=True, eq=False)
class SentenceTransformerEmbedder:
    """Any model that sentence-transformers loads, on its best device; the extra ``st``.

    A vector may differ in its last bits with the texts around it, which share its batch.
    """

    fingerprint: str
    name: str
    dimensions: int
    scripts: frozenset[str] | None
    _model: Any

    @classmethod
    def load(cls, name_or_path: str) -> Self:
        """Load a model from a folder, or by its name on the Hugging Face hub.

        A name downloads what the hub's cache lacks, unless ``HF_HUB_OFFLINE`` is set; a folder
        never touches the network. Code of the model's own is not run, and weights are read from
        safetensors only, since the other forms are pickles: such a model, or one that is nowhere,
        is an `EmbedderError`.

        Args:
            name_or_path: A local folder, or a name such as ``sentence-transformers/LaBSE``.

        Returns:
            The embedder.

        Raises:
            MissingDependencyError: When sentence-transformers is not installed.
        """
        folder = Path(name_or_path)
        if folder.is_dir():
            require_safetensors(folder)
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as exc:
            purpose = f"The embedder 'st:{name_or_path}'"
            raise MissingDependencyError("sentence-transformers", "st", purpose) from exc
        if not folder.is_dir():
            folder = _download(name_or_path)
            require_safetensors(folder)
        with errors_of("sentence-transformers", name_or_path):
            model = SentenceTransformer(
                str(folder),
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"use_safetensors": True},
            )
        fingerprint = fingerprint_of(digest_of(folder))
        dimensions = int(model.encode(["probe"], show_progress_bar=False).shape[1])
        return cls(fingerprint, name_or_path, dimensions, None, model)

    def embed_stream(
        self, texts: Sequence[str], *, role: Role = "passage"
    ) -> Iterator[EmbeddedText]:
        """Embed `texts`, short ones first, whatever their role."""
        limit = self._model.max_seq_length
        limit = limit if isinstance(limit, int) else None
        order = sorted(range(len(texts)), key=lambda position: len(texts[position]))
        for start in range(0, len(order), ST_CHUNK):
            chunk = order[start : start + ST_CHUNK]
            heads = [head_of(texts[position], limit or LARGEST_MAX_TOKENS) for position in chunk]
            rows = self._encode([head for head, _ in heads], limit)
            for position, (head, cut), (row, over) in zip(chunk, heads, rows, strict=True):
                vector = unit_row(row if head else np.zeros_like(row), self)
                yield EmbeddedText(position, vector, cut or over)

    def _encode(self, heads: list[str], limit: int | None) -> list[tuple[Row, bool]]:
        """Return the vector of each text, and whether it has more than `limit` tokens."""
        rows = self._model.encode(heads, normalize_embeddings=True, show_progress_bar=False)
        if limit is None:
            return [(row, False) for row in rows]
        ids = self._model.tokenizer(heads, truncation=False, verbose=False)["input_ids"]
        return [(row, len(tokens) > limit) for row, tokens in zip(rows, ids, strict=True)]


def _download(name: str) -> Path:
    """Return the local snapshot of a hub model, with nothing in it that could be a pickle."""
    from huggingface_hub import snapshot_download

    patterns = [f"*{suffix}" for suffix in sorted(MODEL_SUFFIXES)]
    ignored = ["onnx/*", "openvino/*"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns, ignore_patterns=ignored))
    except (OSError, ValueError) as exc:
        raise EmbedderError(f"No folder and no model on the hub: {name!r} ({exc})") from exc
