"""Model spec → embedder: the packaged one, the multilingual one, or any other.

A library is imported only when a model that needs it is loaded.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

from skillsearch import config
from skillsearch.embedders.embedding import Embedder, HashingEmbedder
from skillsearch.embedders.model_files import stamp_of
from skillsearch.embedders.onnx_embedder import MODEL_FILES, OnnxEmbedder
from skillsearch.embedders.sentence_transformer_embedder import SentenceTransformerEmbedder
from skillsearch.environ import install_extra
from skillsearch.errors import ConfigError, EmbedderError

# Folder of the packaged models, which share the rows of their words and the tokenizer.
PACKAGED_MODEL = Path(__file__).resolve().parents[1] / "models" / "minilm"


class PackagedModel(NamedTuple):
    """A model of the package.

    Attributes:
        stem: Prefix of the names of its own files.
        sha256: Digest of its model.json, which pins every other file: no part can be swapped
            alone, nor all together. ``scripts/build_model.py`` prints it.
    """

    name: str
    stem: str
    sha256: str


# The default: all-MiniLM-L6-v2, tuned on skills (``models/minilm/README.md``).
TUNED = PackagedModel(
    "skillsearch-minilm",
    "model",
    "ae1cd696847a65ec315905de1bb348c83da28666b7584cede1f5cf91eed1046e",
)
# The model that it was tuned from.
UNTUNED = PackagedModel(
    "all-MiniLM-L6-v2",
    "untuned",
    "4cec81cda5e2d690ded799e76260403c5de46a919f44f5853c4e4c727fb7d095",
)
PACKAGED_NAME = TUNED.name
PACKAGED_SHA256 = TUNED.sha256
# The packaged models by model spec.
PACKAGED = {"onnx": TUNED, TUNED.name: TUNED, "minilm": UNTUNED, UNTUNED.name: UNTUNED}

MULTILINGUAL_NAMES = ("multilingual", "multilingual-e5-small")

# The model specs, for error messages.
SPECS = "onnx, minilm, hashing, multilingual, onnx:FOLDER, st:NAME_OR_FOLDER"


def load_embedder(spec: str, *, device: str | None = None) -> Embedder:
    """Load the embedder of a model spec.

    Args:
        spec: ``onnx`` or ``skillsearch-minilm`` for the packaged model; ``minilm`` or
            ``all-MiniLM-L6-v2`` for the same before it was tuned on skills; ``hashing``;
            ``multilingual`` or ``multilingual-e5-small`` for the one of the extra
            ``multilingual``; ``onnx:FOLDER`` or just a folder for a local ONNX model;
            ``st:NAME_OR_FOLDER`` or ``sentence-transformers/NAME`` for sentence-transformers.
        device: Where a model of sentence-transformers runs, as in `config.Settings.device`; None
            to ask the settings. All others run on the CPU.

    Returns:
        The embedder, ready to use.

    Raises:
        EmbedderError: If nothing has that name, or its files cannot be used.
        MissingDependencyError: If the embedder's extra is not installed.
        ConfigError: If the settings are asked for the device and cannot be read.
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
    """Raise a ConfigError if a device was asked for that would have no effect on a model."""
    if device not in (None, "auto", "cpu") and not _runs_on_devices(spec):
        raise ConfigError(
            f"The device {device!r} is for models of sentence-transformers; {spec!r} runs on the "
            "CPU only. Choose another one, such as --model "
            f"st:sentence-transformers/all-MiniLM-L6-v2 ({install_extra('st')}), or leave out the "
            "device."
        )


def _runs_on_devices(spec: str) -> bool:
    kind, _, rest = spec.partition(":")
    return (kind == "st" and rest != "") or spec.startswith("sentence-transformers/")


def model_identity(spec: str) -> str:
    """Name the files behind a model spec without loading or checking them.

    The text changes when the model does: by digest for a packaged model and the multilingual one,
    by the sizes and times of all its files for a local folder, by name alone for any other.
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
    """Return whether the weights of the multilingual embedder are here, in a release that we know.

    Cheap: nothing is imported, and little read. Damage inside is noticed only by `load_embedder`.
    """
    from skillsearch.embedders.multilingual.source import find_weights, looks_known

    weights = find_weights()
    return weights is not None and looks_known(weights)
