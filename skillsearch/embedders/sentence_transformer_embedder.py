"""Embedders that sentence-transformers loads, by folder or by name; the extra ``st``.

The only importer of sentence_transformers, and of torch below it, when a model is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from skillsearch.config import cache_dir
from skillsearch.embedders.embedding import (
    EmbeddedText,
    Role,
    Row,
    fingerprint_of,
    head_of,
    unit_row,
)
from skillsearch.embedders.model_files import (
    LARGEST_MAX_TOKENS,
    MODEL_SUFFIXES,
    digest_of,
    require_safetensors,
)
from skillsearch.embedders.runtime import errors_of
from skillsearch.environ import Variables, forbid_telemetry
from skillsearch.errors import EmbedderError, MissingDependencyError

# Tokens in one batch on a CPU, padding included: 16 texts of 256 tokens. One of twice the size took
# a third more time with all-MiniLM-L6-v2.
CPU_BATCH_TOKENS = 4_096
# The same on any other device, which a small batch leaves idle: 256 texts of 256 tokens.
ACCELERATOR_BATCH_TOKENS = 65_536
# Texts in one batch, however short.
MAX_BATCH = 1_024


@dataclass(frozen=True, slots=True, eq=False)
class SentenceTransformerEmbedder:
    """Any model that sentence-transformers loads, on the CPU or another device; the extra ``st``.

    Always in float32, so that vectors of all devices can be mixed. One may differ in its last bits
    with the device, and with the texts around it, which share its batch.
    """

    fingerprint: str
    name: str
    dimensions: int
    scripts: frozenset[str] | None
    _model: Any

    @classmethod
    def load(cls, name_or_path: str, device: str = "auto") -> Self:
        """Load a model from a folder, or by its name on the Hugging Face hub.

        A name downloads what the hub's cache lacks, unless ``HF_HUB_OFFLINE`` is set; a folder
        never touches the network. The model's own code is not run, and weights are read from
        safetensors only, since the other forms are pickles: a model without them, or one that is
        not found, is an EmbedderError. The device is ``cpu``, ``cuda``, ``cuda:1``, ``mps``, or
        ``auto`` for the best that torch sees.
        """
        folder = Path(name_or_path)
        if folder.is_dir():
            require_safetensors(folder)
        forbid_telemetry()
        try:
            # torch makes the folder of its compiler as it is imported.
            with Variables(TORCHINDUCTOR_CACHE_DIR=str(cache_dir() / "torch")):
                from sentence_transformers import SentenceTransformer
        except ImportError as exc:
            purpose = f"The embedder 'st:{name_or_path}'"
            raise MissingDependencyError("sentence-transformers", "st", purpose) from exc
        if device != "auto":
            _require_device(device)
        if not folder.is_dir():
            folder = _download(name_or_path)
            require_safetensors(folder)
        with errors_of("sentence-transformers", name_or_path):
            model = SentenceTransformer(
                str(folder),
                device=None if device == "auto" else device,
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
        for batch in length_batches(list(map(len, texts)), limit, self._batch_tokens()):
            heads = [head_of(texts[position], limit or LARGEST_MAX_TOKENS) for position in batch]
            with errors_of("sentence-transformers", self.name):
                rows = self._encode([head for head, _ in heads], limit)
            for position, (head, cut), (row, over) in zip(batch, heads, rows, strict=True):
                vector = unit_row(row if head else np.zeros_like(row), self)
                yield EmbeddedText(position, vector, cut or over)

    def _batch_tokens(self) -> int:
        is_cpu = self._model.device.type == "cpu"
        return CPU_BATCH_TOKENS if is_cpu else ACCELERATOR_BATCH_TOKENS

    def _encode(self, heads: list[str], limit: int | None) -> list[tuple[Row, bool]]:
        """Return the vector of each text, and whether it has more than `limit` tokens."""
        rows = self._model.encode(
            heads, batch_size=len(heads), normalize_embeddings=True, show_progress_bar=False
        )
        if limit is None:
            return [(row, False) for row in rows]
        ids = self._model.tokenizer(heads, truncation=False, verbose=False)["input_ids"]
        return [(row, len(tokens) > limit) for row, tokens in zip(rows, ids, strict=True)]


def length_batches(lengths: Sequence[int], limit: int | None, tokens: int) -> Iterator[list[int]]:
    """Yield the positions of texts in batches of similar length, short ones first.

    A character is taken for a token, which few texts exceed, so real batches are smaller.

    Texts have `lengths` in characters; the model cuts them at `limit` tokens, if any. A batch has
    at most so many `tokens`, padding included; a text alone may have more.
    """
    batch: list[int] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        longest = max(1, min(lengths[position], limit or LARGEST_MAX_TOKENS))
        if batch and len(batch) >= min(MAX_BATCH, tokens // longest):
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def _require_device(device: str) -> None:
    """Refuse a device that torch does not have here."""
    import torch

    there = ["cpu"]
    if torch.cuda.is_available():
        there += ["cuda", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        there.append("mps")
    if device not in there:
        raise EmbedderError(
            f"torch has no device {device!r} here, only {', '.join(there)}: choose one of them "
            "with --device or SKILLSEARCH_DEVICE, or install a torch that was built for yours."
        )


def _download(name: str) -> Path:
    """Return the local snapshot of a hub model, with nothing in it that could be a pickle."""
    from huggingface_hub import snapshot_download

    patterns = [f"*{suffix}" for suffix in sorted(MODEL_SUFFIXES)]
    ignored = ["onnx/*", "openvino/*"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns, ignore_patterns=ignored))
    except (OSError, ValueError) as exc:
        raise EmbedderError(f"No folder and no model on the hub: {name!r} ({exc})") from exc
