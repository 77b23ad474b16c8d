"""Which embedder a name stands for: the packaged one, the multilingual one, or any other.

Nothing here imports the library of a model before one is loaded, nor anything of the multilingual
one before it is asked for. What an embedder is stands in `skillsearch.index.embedding`.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from skillsearch import config
from skillsearch.errors import ConfigError, EmbedderError
from skillsearch.index.embedding import (
    Embedded,
    EmbeddedText,
    Embedder,
    HashingEmbedder,
    embed,
)
from skillsearch.index.model_files import stamp_of
from skillsearch.index.onnx_embedder import MODEL_FILES, OnnxEmbedder
from skillsearch.index.sentence_transformer_embedder import SentenceTransformerEmbedder

__all__ = [
    "Embedded",
    "EmbeddedText",
    "Embedder",
    "HashingEmbedder",
    "OnnxEmbedder",
    "SentenceTransformerEmbedder",
    "embed",
    "load_embedder",
]

PACKAGED_NAME = "all-MiniLM-L6-v2"
PACKAGED_MODEL = Path(__file__).resolve().parents[1] / "models" / PACKAGED_NAME

PACKAGED_SHA256 = "c78f0099fe6003f402e1a942e2284c83d6ffedb5b2a4fbb68e74ceff470de363"
"""sha256 of the packaged model.json, which pins every file beside it: no part can be swapped alone,
nor all together. ``scripts/build_model.py`` prints it."""

MULTILINGUAL_NAMES = ("multilingual", "multilingual-e5-small")

SPECS = "onnx, hashing, multilingual, onnx:FOLDER, st:NAME_OR_FOLDER"
"""What `load_embedder` understands, for error messages."""


def load_embedder(spec: str, *, device: str | None = None) -> Embedder:
    """Load the embedder that `spec` names.

    Args:
        spec: ``onnx`` or ``all-MiniLM-L6-v2`` for the packaged model; ``hashing``;
            ``multilingual`` or ``multilingual-e5-small`` for the one of the extra
            ``multilingual``; ``onnx:FOLDER`` or just a folder for a local ONNX model;
            ``st:NAME_OR_FOLDER`` or ``sentence-transformers/NAME`` for sentence-transformers.
        device: Where a model of sentence-transformers runs, as in `config.Settings.device`; None
            for what the settings say. All others run on the CPU.

    Returns:
        An embedder that is ready to use.

    Raises:
        EmbedderError: When nothing has that name, or its files cannot be used.
        MissingDependencyError: When the embedder's extra is not installed.
        ConfigError: When the settings are asked for the device and cannot be read.
    """
    kind, _, rest = spec.partition(":")
    if spec in ("onnx", PACKAGED_NAME):
        return OnnxEmbedder.load(PACKAGED_MODEL, manifest_sha256=PACKAGED_SHA256)
    if spec == "hashing":
        return HashingEmbedder()
    if spec in MULTILINGUAL_NAMES:
        from skillsearch.index.multilingual.model import MultilingualEmbedder

        return MultilingualEmbedder.load()
    if kind == "onnx" and rest:
        return OnnxEmbedder.load(Path(rest))
    if _runs_on_devices(spec):
        return SentenceTransformerEmbedder.load(
            spec.removeprefix("st:"), device or config.load_settings().device
        )
    if spec and Path(spec).is_dir():
        return OnnxEmbedder.load(Path(spec))
    raise EmbedderError(f"No embedder is called {spec!r}; use one of: {SPECS}")


def require_device(spec: str, device: str | None) -> None:
    """Refuse a device that was asked for by name where the model runs on the CPU only.

    Args:
        spec: As in `load_embedder`.
        device: As in `load_embedder`.

    Raises:
        ConfigError: When the device would be without effect.
    """
    if device not in (None, "auto", "cpu") and not _runs_on_devices(spec):
        raise ConfigError(
            f"The device {device!r} is for models of sentence-transformers; {spec!r} runs on the "
            "CPU only. Choose another one, such as --model "
            "st:sentence-transformers/all-MiniLM-L6-v2 (pip install 'skillsearch[st]'), or leave "
            "out the device."
        )


def _runs_on_devices(spec: str) -> bool:
    """Tell whether sentence-transformers loads a model."""
    kind, _, rest = spec.partition(":")
    return (kind == "st" and rest != "") or spec.startswith("sentence-transformers/")


def model_identity(spec: str) -> str:
    """Name the model files behind a spec without loading them.

    Args:
        spec: As in `load_embedder`; nothing is checked.

    Returns:
        A text that changes when the model does: by digest for the packaged model and for the
        multilingual one, by the sizes and times of all its files for a local folder, by name alone
        for any other.
    """
    if spec in ("onnx", PACKAGED_NAME):
        return f"onnx {PACKAGED_SHA256}"
    if spec in MULTILINGUAL_NAMES:
        from skillsearch.index.multilingual.source import IDENTITY

        return f"multilingual {IDENTITY}"
    folder = Path(spec.removeprefix("onnx:").removeprefix("st:"))
    with contextlib.suppress(OSError):
        if any((folder / name).is_file() for name in (*MODEL_FILES, "model.safetensors")):
            return f"{spec} {stamp_of(folder)}"
    return spec


def multilingual_is_installed() -> bool:
    """Say whether the weights of the multilingual embedder are here, and of a release that we know.

    Cheap: nothing is imported, and little read. Weights that are damaged inside are still taken for
    good; `load_embedder` compares their digest.
    """
    from skillsearch.index.multilingual.source import find_weights, looks_known

    weights = find_weights()
    return weights is not None and looks_known(weights)
