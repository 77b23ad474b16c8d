"""Model spec → embedder; a library is imported only when a model that needs it is loaded."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

from skillsearch import config
from skillsearch.embedders.embedding import Embedder, HashingEmbedder
from skillsearch.embedders.model_files import stamp_of
from skillsearch.embedders.multilingual import source
from skillsearch.embedders.onnx_embedder import MODEL_FILES, OnnxEmbedder
from skillsearch.embedders.sentence_transformer_embedder import SentenceTransformerEmbedder
from skillsearch.environ import install_extra
from skillsearch.errors import ConfigError, EmbedderError

# Folder of the packaged models, which share the rows of their words and the tokenizer.
PACKAGED_MODEL = Path(__file__).resolve().parents[1] / "models" / "minilm"


class PackagedModel(NamedTuple):
    """A model of the package; the digest of its model.json pins every other file."""

    name: str
    stem: str
    sha256: str


# The default: all-MiniLM-L6-v2, tuned on skills (``models/minilm/README.md``); then as it was.
# ``scripts/build_model.py`` prints the digests.
TUNED = PackagedModel(
    "skillsearch-minilm",
    "model",
    "ae1cd696847a65ec315905de1bb348c83da28666b7584cede1f5cf91eed1046e",
)
UNTUNED = PackagedModel(
    "all-MiniLM-L6-v2",
    "untuned",
    "4cec81cda5e2d690ded799e76260403c5de46a919f44f5853c4e4c727fb7d095",
)
# The packaged models by model spec.
PACKAGED = {"onnx": TUNED, TUNED.name: TUNED, "minilm": UNTUNED, UNTUNED.name: UNTUNED}
MULTILINGUAL_NAMES = ("multilingual", "multilingual-e5-small")
# The model specs, for error messages.
SPECS = "onnx, minilm, hashing, multilingual, onnx:FOLDER, st:NAME_OR_FOLDER"


def load_embedder(spec: str, *, device: str | None = None) -> Embedder:
    """Load the embedder of a model spec, one of `SPECS`.

    A `device` is for models of sentence-transformers; None asks the settings. An EmbedderError if
    nothing has that name or its files cannot be used.
    """
    if spec in PACKAGED:
        _, stem, digest = PACKAGED[spec]
        return OnnxEmbedder.load(PACKAGED_MODEL, manifest_sha256=digest, stem=stem)
    if spec == "hashing":
        return HashingEmbedder()
    if spec in MULTILINGUAL_NAMES:
        from skillsearch.embedders.multilingual.model import MultilingualEmbedder

        return MultilingualEmbedder.load()
    if _runs_on_devices(spec):
        device = device or config.load_settings().device
        return SentenceTransformerEmbedder.load(spec.removeprefix("st:"), device)
    folder = spec.removeprefix("onnx:")
    if folder and (folder != spec or Path(folder).is_dir()):
        return OnnxEmbedder.load(Path(folder))
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
    return spec.startswith(("st:", "sentence-transformers/")) and spec != "st:"


def model_identity(spec: str) -> str:
    """Name the files behind a model spec without loading or checking them.

    By digest for a packaged model and the multilingual one, by the sizes and times of all files for
    a local folder, by name alone for any other.
    """
    if spec in PACKAGED:
        return f"onnx {PACKAGED[spec].sha256}"
    if spec in MULTILINGUAL_NAMES:
        return f"multilingual {source.IDENTITY}"
    folder = Path(spec.removeprefix("onnx:").removeprefix("st:"))
    with contextlib.suppress(OSError):
        if any((folder / name).is_file() for name in (*MODEL_FILES, "model.safetensors")):
            return f"{spec} {stamp_of(folder)}"
    return spec


def multilingual_is_installed() -> bool:
    """Return whether the weights of the multilingual embedder are here, by a cheap look at them."""
    weights = source.find_weights()
    return weights is not None and source.looks_known(weights)
