"""Models that sentence-transformers loads; torch is imported with the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders import embedding
from skillsearch.embedders.model_files import (
    LARGEST_MAX_TOKENS,
    MODEL_SUFFIXES,
    digest_of,
    require_safetensors,
)
from skillsearch.embedders.torch_runtime import import_torch, require_torch_device
from skillsearch.errors import EmbedderError, importing
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.files.openat import is_folder
from skillsearch.settings.environ import forbid_telemetry

# Tokens in one batch, padding included: 16 texts of 256 tokens on a CPU (one of twice the size took
# a third more time with all-MiniLM-L6-v2), 256 on other devices, which a small batch leaves idle.
CPU_BATCH_TOKENS, ACCELERATOR_BATCH_TOKENS = 4_096, 65_536
# Texts in one batch, however short.
MAX_BATCH = 1_024


@dataclass(frozen=True, slots=True, eq=False)
class SentenceTransformerEmbedder:
    """Any model that sentence-transformers loads, on the CPU or another device; the extra ``st``.

    Always in float32, so that vectors of all devices can be mixed; the last bits may differ.
    """

    fingerprint: str
    name: str
    dimensions: int
    _model: Any

    @classmethod
    def load(cls, name_or_path: str, device: str = "auto") -> Self:
        """Load a model from a folder, or by its name on the Hugging Face hub.

        A name downloads what the hub's cache lacks, unless ``HF_HUB_OFFLINE`` is set. The model's
        own code is not run, and weights are read from safetensors only: other forms are pickles.
        The device is ``cpu``, ``cuda``, ``cuda:1``, ``mps``, or ``auto`` for the best.
        """
        folder, model = _load("SentenceTransformer", name_or_path, device, "embedder")
        fingerprint = embedding.fingerprint_of(digest_of(folder))
        dimensions = int(model.encode(["probe"], show_progress_bar=False).shape[1])
        return cls(fingerprint, name_or_path, dimensions, model)

    def embed_stream(self, texts: Sequence[str]) -> Iterator[embedding.EmbeddedText]:
        """Embed `texts`, short ones first."""
        max_length = self._model.max_seq_length
        limit = max_length if isinstance(max_length, int) else None
        is_cpu = self._model.device.type == "cpu"
        batch_tokens = CPU_BATCH_TOKENS if is_cpu else ACCELERATOR_BATCH_TOKENS
        longest = limit or LARGEST_MAX_TOKENS
        for batch in length_batches(list(map(len, texts)), limit, batch_tokens):
            cut = [embedding.head_of(texts[position], longest) for position in batch]
            heads = [head for head, _ in cut]
            ids: Sequence[Sequence[int]] = [()] * len(batch)
            with embedding.errors_of("sentence-transformers", self.name):
                how = {"normalize_embeddings": True, "show_progress_bar": False}
                rows = self._model.encode(heads, batch_size=len(heads), **how)
                if limit is not None:
                    ids = self._model.tokenizer(heads, truncation=False, verbose=False)["input_ids"]
            for position, (head, is_cut), row, tokens in zip(batch, cut, rows, ids, strict=True):
                is_over = limit is not None and len(tokens) > limit
                vector = embedding.unit_row(row if head else np.zeros_like(row), self)
                yield embedding.EmbeddedText(position, vector, is_cut or is_over)


def load_cross_encoder(
    name_or_path: str, device: str = "auto"
) -> Callable[[Sequence[tuple[str, str]]], NDArray[np.float32]]:
    """Load a CrossEncoder as `SentenceTransformerEmbedder.load` does: pairs → logits."""
    _, model = _load("CrossEncoder", name_or_path, device, "reader")
    identity = import_torch("st", "A reader").nn.Identity()

    def predict(pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        with embedding.errors_of("sentence-transformers", name_or_path):
            logits = model.predict(pairs, activation_fn=identity, show_progress_bar=False)
            return np.asarray(logits, dtype=np.float32)

    return predict


def _load(class_name: str, name_or_path: str, device: str, role: str) -> tuple[Path, Any]:
    """Return the folder and the model of a class of sentence-transformers."""
    if is_folder(folder := Path(name_or_path)):
        require_safetensors(folder)
    purpose = f"The {role} 'st:{name_or_path}'"
    forbid_telemetry()
    with importing("sentence-transformers", "st", purpose):
        import_torch("st", purpose)  # before anything that imports it in its own way
        import sentence_transformers
    if device != "auto":
        require_torch_device(device)
    if not is_folder(folder):
        folder = _download(name_or_path)
        require_safetensors(folder)
    with embedding.errors_of("sentence-transformers", name_or_path):
        model = getattr(sentence_transformers, class_name)(
            str(folder),
            device=None if device == "auto" else device,
            trust_remote_code=False,
            local_files_only=True,
            model_kwargs={"use_safetensors": True},
        )
    return folder, model


def length_batches(lengths: Sequence[int], limit: int | None, tokens: int) -> Iterator[list[int]]:
    """Yield the positions of texts in batches of similar length, short ones first.

    A batch has at most `tokens` tokens, padding included, if each character is one up to `limit`.
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


def _download(name: str) -> Path:
    """Return the local snapshot of a hub model, with nothing in it that could be a pickle."""
    from huggingface_hub import snapshot_download

    patterns = [f"*{suffix}" for suffix in sorted(MODEL_SUFFIXES)]
    ignored = ["onnx/*", "openvino/*"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns, ignore_patterns=ignored))
    except (OSError, ValueError) as exc:
        raise EmbedderError(
            f"{name!r} is neither a folder nor a model that the hub gives ({exc}); check the name, "
            "and the network if it is right."
        ) from exc
