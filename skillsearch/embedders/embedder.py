"""Which embedder a name stands for: the packaged one, the multilingual one, or any other.

Nothing here imports the library of a model before one is loaded, nor anything of the multilingual
one before it is asked for. What an embedder is stands in `skillsearch.embedders.embedding`.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

from skillsearch import config
from skillsearch.embedders.embedding import Embedded, EmbeddedText, Embedder, HashingEmbedder, embed
from skillsearch.embedders.model_files import stamp_of
from skillsearch.embedders.onnx_embedder import MODEL_FILES, OnnxEmbedder
from skillsearch.embedders.sentence_transformer_embedder import SentenceTransformerEmbedder
from skillsearch.environ import install_extra
from skillsearch.errors import ConfigError, EmbedderError

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

PACKAGED_MODEL = Path(__file__).resolve().parents[1] / "models" / "minilm"
"""Folder of the packaged models, which share the rows of their words and the tokenizer."""


class PackagedModel(NamedTuple):
    """A model of the package.

    Attributes:
        name: Its name.
        stem: What the names of its own files begin with.
        sha256: Digest of its model.json, which pins every other file: no part can be swapped
            alone, nor all together. ``scripts/build_model.py`` prints it.
    """

    name: str
    stem: str
    sha256: str


TUNED = PackagedModel(
    "skillsearch-minilm",
    "model",
    "ae1cd696847a65ec315905de1bb348c83da28666b7584cede1f5cf91eed1046e",
)
"""The default: all-MiniLM-L6-v2, tuned on skills (``models/minilm/README.md``)."""
UNTUNED = PackagedModel(
    "all-MiniLM-L6-v2",
    "untuned",
    "4cec81cda5e2d690ded799e76260403c5de46a919f44f5853c4e4c727fb7d095",
)
"""What it was tuned from."""
PACKAGED_NAME = TUNED.name
PACKAGED_SHA256 = TUNED.sha256
PACKAGED = {"onnx": TUNED, TUNED.name: TUNED, "minilm": UNTUNED, UNTUNED.name: UNTUNED}
"""The packaged models by the names that `load_embedder` takes."""

MULTILINGUAL_NAMES = ("multilingual", "multilingual-e5-small")

SPECS = "onnx, minilm, hashing, multilingual, onnx:FOLDER, st:NAME_OR_FOLDER"
"""What `load_embedder` understands, for error messages."""


def load_embedder(spec: str, *, device: str | None = None) -> Embedder:
    """Load the embedder that `spec` names.

    Args:
        spec: ``onnx`` or ``skillsearch-minilm`` for the packaged model; ``minilm`` or
            ``all-MiniLM-L6-v2`` for the same before it was tuned on skills; ``hashing``;
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
    if spec in PACKAGED:
        _, stem, digest = PACKAGED[spec]
        return OnnxEmbedder.load(PACKAGED_MODEL, manifest_sha256=digest, stem=stem)
    if spec == "hashing":
        return HashingEmbedder()
    if spec in MULTILINGUAL_NAMES:
        from skillsearch.embedders.multilingual.model import MultilingualEmbedder

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
            f"st:sentence-transformers/all-MiniLM-L6-v2 ({install_extra('st')}), or leave out the "
            "device."
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
        A text that changes when the model does: by digest for a packaged model and for the
        multilingual one, by the sizes and times of all its files for a local folder, by name alone
        for any other.
    """
    if spec in PACKAGED:
        return f"onnx {PACKAGED[spec].sha256}"
    if spec in MULTILINGUAL_NAMES:
        from skillsearch.embedders.multilingual.source import IDENTITY

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
    from skillsearch.embedders.multilingual.source import find_weights, looks_known

    weights = find_weights()
    return weights is not None and looks_known(weights)
