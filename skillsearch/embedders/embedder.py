"""Model spec → embedder, and the packaged tokenizer by itself, which counts tokens.

A library is imported only when a model that needs it is loaded.
"""

from __future__ import annotations

import contextlib
import string
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from skillsearch import config
from skillsearch.embedders.embedding import Embedder, HashingEmbedder
from skillsearch.embedders.model_files import ModelConfig, stamp_of
from skillsearch.embedders.onnx_embedder import MODEL_FILES, OnnxEmbedder, load_tokenizer
from skillsearch.embedders.sentence_transformer_embedder import SentenceTransformerEmbedder
from skillsearch.environ import install_extra
from skillsearch.errors import ConfigError, EmbedderError
from skillsearch.patterns import lazy_pattern

if TYPE_CHECKING:
    from skillsearch.embedders.onnx_embedder import Tokenizer

_MODELS = Path(__file__).resolve().parents[1] / "models"
# Folder of the packaged models for English, which share the rows of their words and the tokenizer.
PACKAGED_MODEL = _MODELS / "minilm"
MULTILINGUAL_MODEL = _MODELS / "e5"


class PackagedModel(NamedTuple):
    """A model of the package; the digest of its model.json pins every other file."""

    name: str
    stem: str
    sha256: str


# The default, all-MiniLM-L6-v2 tuned on skills (``models/minilm/README.md``), and the one for other
# languages, multilingual-e5-small tuned likewise (``models/e5/README.md``). The scripts that build
# them print the digests.
TUNED = PackagedModel(
    "skillsearch-minilm",
    "model",
    "80b75220387b2f7e35de687564fa65b9bfad29b5c261d6b6604fea94bad62041",
)
MULTILINGUAL = PackagedModel(
    "skillsearch-e5",
    "model",
    "ac03976f5b2a7a3b1359809638c78201af9a9f6cef7feee430e124e4a7160a58",
)
# The packaged models by model spec: for English, and for every language.
PACKAGED = {"onnx": TUNED, TUNED.name: TUNED}
EVERY_LANGUAGE = {"multilingual": MULTILINGUAL, MULTILINGUAL.name: MULTILINGUAL}
# The model specs, for error messages.
SPECS = "onnx, multilingual, hashing, onnx:FOLDER, st:NAME_OR_FOLDER"

# Named beside every count: tokenizers of other models differ by some tens of percent.
COUNTED_BY = f"the packaged tokenizer (WordPiece of {TUNED.name})"
# A run without blanks and ASCII punctuation, at which the tokenizer always splits words.
_WORD = lazy_pattern(r"[^ \t\n\r!-/:-@\[-`{-~]+")
# Characters counted at a time, which bounds the memory for a long text.
_SLICE_CHARS = 1 << 20
_KEPT_WORDS = 1 << 18
# Longer words are mostly lines of a script without blanks, and are not seen again.
_KEPT_CHARS = 40


def _load_multilingual() -> Embedder:
    from skillsearch.embedders.multilingual.model import MultilingualEmbedder

    return MultilingualEmbedder.load(MULTILINGUAL_MODEL, manifest_sha256=MULTILINGUAL.sha256)


# Function that loads the embedder of a model spec; those for English and folders have none.
LOADERS: dict[str, Callable[[], Embedder]] = {
    "hashing": HashingEmbedder,
    **dict.fromkeys(EVERY_LANGUAGE, _load_multilingual),
}


def load_embedder(
    spec: str, *, device: str | None = None, packaged: Path = PACKAGED_MODEL
) -> Embedder:
    """Load the embedder of a model spec, one of `SPECS`.

    A `device` is for models of sentence-transformers; None asks the settings. The `packaged` models
    for English lie in one folder. An EmbedderError if nothing has that name or its files cannot be
    used.
    """
    if spec in PACKAGED:
        _, stem, digest = PACKAGED[spec]
        return OnnxEmbedder.load(packaged, manifest_sha256=digest, stem=stem)
    if spec in LOADERS:
        return LOADERS[spec]()
    if _runs_on_devices(spec):
        device = device or config.load_only("device").device
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

    By digest for a packaged model, by the sizes and times of all files for a local folder, by name
    alone for any other.
    """
    if packaged := PACKAGED.get(spec) or EVERY_LANGUAGE.get(spec):
        return f"onnx {packaged.sha256}"
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
        config = ModelConfig.read(PACKAGED_MODEL, manifest_sha256=TUNED.sha256)
        path = PACKAGED_MODEL / "tokenizer.json"
        config.verify(path)
        return cls(load_tokenizer(path))

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
