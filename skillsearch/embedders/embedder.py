"""Model spec → embedder, and the packaged tokenizer by itself, which counts tokens.

A library is imported only when a model that needs it is loaded.
"""

from __future__ import annotations

import contextlib
import string
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

from skillsearch.embedders.embedding import VERSION, Embedder, HashingEmbedder
from skillsearch.embedders.mapped_model import MappedEmbedder
from skillsearch.embedders.model_files import stamp_of, verify
from skillsearch.embedders.onnx_embedder import MODEL_FILES, OnnxEmbedder, load_tokenizer
from skillsearch.embedders.sentence_transformer_embedder import SentenceTransformerEmbedder
from skillsearch.embedders.word_table import WORDS_NAME
from skillsearch.errors import ConfigError, ModelNotFoundError
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.files.openat import is_file, is_folder
from skillsearch.settings import config
from skillsearch.settings.environ import install_extra

if TYPE_CHECKING:
    from skillsearch.embedders.onnx_embedder import Tokenizer

_MODELS = Path(__file__).resolve().parents[1] / "models"
# Folder of the packaged embedder and reader, multilingual-e5-small tuned on skills
# (``models/e5/README.md``). The digest of model.json pins every other file of the embedder;
# ``scripts/build_model.py`` prints it.
PACKAGED_MODEL = _MODELS / "e5"
PACKAGED_NAME = "skillsearch-e5"
PACKAGED_SHA256 = "f9ea7e1ba13982b5b63b4c1e593dcb9bbc4d2cbac13358973f3125e07ed696ff"
DEFAULT_SPEC = "onnx"
# The model specs of the packaged embedder.
PACKAGED = frozenset({DEFAULT_SPEC, "multilingual", PACKAGED_NAME})
# The model specs, for error messages.
SPECS = "onnx, hashing, onnx:FOLDER, st:NAME_OR_FOLDER"

# What counts tokens, and its digest.
TOKENIZER = _MODELS / "tokens" / "tokenizer.json"
_TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
# Named with every count: tokenizers of other models differ by some tens of percent.
COUNTED_BY = "the packaged tokenizer (WordPiece of all-MiniLM-L6-v2)"
# A run without blanks and ASCII punctuation, at which the tokenizer always splits words.
_WORD = lazy_pattern(r"[^ \t\n\r!-/:-@\[-`{-~]+")
# Characters counted at a time, which bounds the memory for a long text.
_SLICE_CHARS = 1 << 20
_KEPT_WORDS = 1 << 18
# Longer words are mostly lines of a script without blanks, and are not seen again.
_KEPT_CHARS = 40


# Function that loads the embedder of a model spec, besides the packaged one and folders.
LOADERS: dict[str, Callable[[], Embedder]] = {"hashing": HashingEmbedder}


def load_embedder(
    spec: str, *, device: str | None = None, packaged: Path = PACKAGED_MODEL
) -> Embedder:
    """Load the embedder of a model spec, one of `SPECS`.

    A `device` is for models of sentence-transformers; None asks the settings. The `packaged` model
    lies in one folder. A ModelNotFoundError if nothing has that name, an EmbedderError if its files
    cannot be used.
    """
    if spec in LOADERS:
        return LOADERS[spec]()
    if spec in PACKAGED:
        return MappedEmbedder.load(packaged, manifest_sha256=PACKAGED_SHA256)
    if _runs_on_devices(spec):
        device = device or config.load_only("device").device
        return SentenceTransformerEmbedder.load(spec.removeprefix("st:"), device)
    folder = spec.removeprefix("onnx:")
    if folder and is_folder(folder):
        embedder_class = MappedEmbedder if is_file(Path(folder, WORDS_NAME)) else OnnxEmbedder
        return embedder_class.load(Path(folder))
    raise ModelNotFoundError(f"No embedder is called {spec[:200]!r}; use one of: {SPECS}")


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
    """Name the files behind a model spec, and our own steps, without loading or checking them.

    By digest for a packaged model, by the sizes and times of all files for a local folder, by name
    alone for any other.
    """
    return f"{VERSION} {_files_of(spec)}"


def _files_of(spec: str) -> str:
    if spec in PACKAGED:
        return f"onnx {PACKAGED_SHA256}"
    folder = Path(spec.removeprefix("onnx:").removeprefix("st:"))
    with contextlib.suppress(OSError):
        if any((folder / name).is_file() for name in (*MODEL_FILES, "model.safetensors")):
            return f"{spec} {stamp_of(folder)}"
    return spec


class TokenCounter(dict[str, int]):
    """Counts the tokens of texts; each word, a key of it, is given to the tokenizer once.

    The count is the same, without special tokens, in a fifth of the time.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Wrap a WordPiece tokenizer of the BERT family that neither cuts nor pads."""
        super().__init__()
        self._tokenizer = tokenizer

    @classmethod
    def load(cls) -> Self:
        """Load the packaged tokenizer, verified, without opening the model's weights."""
        verify(TOKENIZER, _TOKENIZER_SHA256)
        return cls(load_tokenizer(TOKENIZER))

    def __call__(self, text: str) -> int:
        """Return how many tokens a text has, without special ones."""
        count = sum(map(text.count, string.punctuation))  # Each is a token of its own.
        start = 0
        while start < len(text):
            end = start + _SLICE_CHARS
            if end < len(text):  # Cut at a line end; a longer line is cut anywhere.
                end = text.rfind("\n", start, end) + 1 or end
            count += sum(map(self.__getitem__, _WORD.findall(text[start:end])))
            start = end
        return count

    def __missing__(self, word: str) -> int:
        """Ask the tokenizer; it refuses lone surrogates, which UTF-8 has no place for."""
        encodable = word.encode("utf-8", "replace").decode()
        count = len(self._tokenizer.encode(encodable, add_special_tokens=False))
        if len(word) <= _KEPT_CHARS:
            if len(self) >= _KEPT_WORDS:
                self.clear()
            self[word] = count
        return count
