"""A reader: request and skill, read together → the log-odds that the skill fits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedder import PACKAGED_MODEL
from skillsearch.embedders.embedding import head_of
from skillsearch.embedders.mapped_model import MappedModel
from skillsearch.embedders.model_files import ModelConfig, weight_files
from skillsearch.embedders.onnx_embedder import MODEL_FILES, load_output, load_tokenizer, map_ahead
from skillsearch.embedders.sentence_transformer_embedder import load_cross_encoder
from skillsearch.embedders.unigram import BEGIN, END, UnigramTokenizer
from skillsearch.embedders.word_table import WORDS_NAME
from skillsearch.errors import EmbedderError, MissingDependencyError, ModelNotFoundError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.settings import config
from skillsearch.settings.values import DEFAULT_READER, READING

if TYPE_CHECKING:
    from skillsearch.embedders.onnx_embedder import Encoding

logger = logging.getLogger(__name__)

# Tokens of a request that are read, and of both texts together.
REQUEST_TOKENS = 80
MAX_TOKENS = 168
# What a token belongs to; special tokens to neither text.
NEITHER, REQUEST, SKILL = range(3)
HEAD = "head."  # begins the names of a reader's weights that an encoder does not have
# The input of a reader's head for a pair: vectors of the hidden size, and numbers next to them.
HEAD_VECTORS, HEAD_NUMBERS = 5, 4
# Both are brought to the scale of the vectors: products of unit vectors, and cosines.
PRODUCT_SCALE, NUMBER_SCALE = 20.0, 4.0
# Takes a cosine out of the reach of a maximum, of a minimum.
OUT_OF_REACH, BEYOND = 4.0, 9.0
# The digest of the packaged reader's reader.json, which pins every other file of it.
PACKAGED_SHA256 = "e009556ab085466dc833a9ff0a4c063c8a57a7791f4fc9e67339b95b85dec362"
# The spec of the packaged reader, and all of them, for error messages.
PACKAGED_SPEC = "packaged"
SPECS = f"{PACKAGED_SPEC}, st:NAME_OR_FOLDER, FOLDER (of an ONNX model)"
STEM: Final = "reader"
OUTPUT = "logits"

Logits = NDArray[np.float64]


class Reader(Protocol):
    """Tells how well skills fit a request, from the words of both."""

    @property
    def name(self) -> str:
        """Name for people."""

    def read(self, request: str, texts: Sequence[str]) -> Logits:
        """Return the log-odds that the skill of each text fits, in order."""


@dataclass(frozen=True, slots=True, eq=False)
class MappedReader:
    """A reader in our own form, such as that of the package; it reads every language.

    Each text is run by itself, several side by side in threads, so that no logit depends on the
    other texts, as `MappedEmbedder` does.
    """

    name: str
    _model: MappedModel

    @classmethod
    def load(cls, folder: Path, *, manifest_sha256: str | None = None) -> Self:
        """Load a folder; see `MappedModel.load`."""
        model = MappedModel.load(folder, STEM, OUTPUT, manifest_sha256=manifest_sha256)
        return cls(model.settings.name, model)

    def read(self, request: str, texts: Sequence[str]) -> Logits:
        """Return the log-odds that the skill of each text fits, in order."""
        words, limit = self._model.words, self._model.settings.max_tokens

        def read_one(_position: int, text: str) -> float:
            pair = encode_pair(words.tokenizer, request, text, limit)
            parts = np.array(pair.parts, dtype=np.int64)
            logits = self._model.run({"rows": words.rows(pair.ids), "parts": parts})
            return _checked(self.name, logits)

        return np.array(list(map_ahead(read_one, texts)), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class OnnxReader:
    """A cross-encoder of others in ONNX form, on the CPU; each text is run by itself."""

    name: str
    _max_tokens: int
    _encode: Callable[[str, str], Encoding]
    _run: Callable[[Encoding], float]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load one of `MODEL_FILES` with one logit, and the tokenizer.json that joins the pair.

        Settings and digests are as in `ModelConfig.read`. An EmbedderError if a file is missing or
        unusable.
        """
        path = next((folder / name for name in MODEL_FILES if (folder / name).is_file()), None)
        file = folder / "tokenizer.json"
        if path is None or not file.is_file():
            raise EmbedderError(
                f"{folder} is not a reader: it needs {WORDS_NAME} and {STEM}.onnx, or "
                f"tokenizer.json and one of {', '.join(MODEL_FILES)}; load a CrossEncoder's folder "
                f"as st:{folder}"
            )
        settings = ModelConfig.read(folder)
        for weights in (path, file, *weight_files(path)):
            settings.verify(weights)
        limit = settings.max_tokens
        encode = load_tokenizer(file, limit).encode
        return cls(settings.name, limit, encode, _load_session(path))

    def read(self, request: str, texts: Sequence[str]) -> Logits:
        """Return the log-odds that the skill of each text fits, in order."""
        head, _ = head_of(request, self._max_tokens)

        def read_one(_position: int, text: str) -> float:
            return self._run(self._encode(head, head_of(text, self._max_tokens)[0]))

        return np.array(list(map_ahead(read_one, texts)), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class CrossEncoderReader:
    """A CrossEncoder of sentence-transformers, on the CPU or another device; the extra ``st``."""

    name: str
    _predict: Callable[[Sequence[tuple[str, str]]], NDArray[np.floating]]

    def read(self, request: str, texts: Sequence[str]) -> Logits:
        """Return the log-odds that the skill of each text fits, in order.

        An EmbedderError if the model returns no finite number for one of them.
        """
        head = head_of(request, MAX_TOKENS)[0]
        pairs = [(head, head_of(text, MAX_TOKENS)[0]) for text in texts]
        logits = self._predict(pairs) if pairs else np.zeros(0)
        if logits.shape != (len(texts),) or not np.isfinite(logits).all():
            raise EmbedderError(_no_logit(self.name, logits))
        return logits.astype(np.float64)


class Readers:
    """Readers by their spec, each loaded when first asked for."""

    def __init__(self, *, device: str | None = None) -> None:
        self.loaded: dict[str, Reader | None] = {}
        self._device = device
        self._setting: str | None = None

    def choice(self, spec: str | None) -> str:
        """Return a spec, or else the setting: of `setting_values.READING`, or a model."""
        if spec is None and self._setting is None:
            self._setting = config.load_only("reader").reader
        return spec or self._setting or DEFAULT_READER

    def get(self, spec: str) -> Reader | None:
        """Return a reader; None, logged once, if the packaged one cannot be loaded here."""
        if spec not in self.loaded:
            try:
                self.loaded[spec] = load_reader(spec, self._device)
            except (EmbedderError, MissingDependencyError) as exc:
                if spec != PACKAGED_SPEC:
                    raise
                logger.warning("Skills are not read, only searched: %s", exc)
                self.loaded[spec] = None
        return self.loaded[spec]


class RememberingReader:
    """A reader that reads no pair twice, for the same requests to indexes that differ a little."""

    def __init__(self, reader: Reader) -> None:
        self.name, self._reader = reader.name, reader
        self._logits: dict[tuple[str, str], float] = {}

    def read(self, request: str, texts: Sequence[str]) -> Logits:
        """Return the log-odds that the skill of each text fits, in order."""
        new = [text for text in dict.fromkeys(texts) if (request, text) not in self._logits]
        if new:
            pairs = ((request, text) for text in new)
            self._logits.update(zip(pairs, self._reader.read(request, new).tolist(), strict=True))
        return np.array([self._logits[request, text] for text in texts])


class RememberingReaders(Readers):
    """Readers that remember what they have read."""

    def get(self, spec: str) -> Reader | None:
        """Return a reader, as `Readers.get` does."""
        if spec not in self.loaded and (reader := super().get(spec)):
            self.loaded[spec] = RememberingReader(reader)
        return super().get(spec)


def reader_spec(choice: str) -> str:
    """Return the spec of the model that a setting means."""
    return PACKAGED_SPEC if choice in READING else choice


def load_reader(spec: str, device: str | None = None) -> Reader:
    """Load the reader of a spec, one of `SPECS`.

    A `device` is for models of sentence-transformers; None asks the settings. A ModelNotFoundError
    if nothing has that name, an EmbedderError if its files cannot be used.
    """
    if spec == PACKAGED_SPEC:
        return MappedReader.load(PACKAGED_MODEL, manifest_sha256=PACKAGED_SHA256)
    if spec.startswith("st:") and spec != "st:":
        name = spec.removeprefix("st:")
        device = device or config.load_only("device").device
        return CrossEncoderReader(name, load_cross_encoder(name, device))
    if spec and (folder := Path(spec)).is_dir():
        kind = MappedReader if (folder / WORDS_NAME).is_file() else OnnxReader
        return kind.load(folder)
    raise ModelNotFoundError(f"No reader is called {spec[:200]!r}; use one of: {SPECS}")


class Pair(NamedTuple):
    """The tokens of a request and a skill, with one before, between and behind them, and parts."""

    ids: Sequence[int]
    parts: Sequence[int]


def encode_pair(
    tokenizer: UnigramTokenizer, request: str, text: str, limit: int = MAX_TOKENS
) -> Pair:
    """Return the tokens of a pair, each text cut to fit."""
    most = min(REQUEST_TOKENS, limit // 2)
    first, _ = tokenizer.encode(head_of(request, limit)[0], most)
    second, _ = tokenizer.encode(head_of(text, limit)[0], limit - len(first) - 3)
    parts = [NEITHER, *[REQUEST] * len(first), NEITHER, *[SKILL] * len(second), NEITHER]
    return Pair([BEGIN, *first, END, *second, END], parts)


def _load_session(path: Path) -> Callable[[Encoding], float]:
    """Load an ONNX model and return a function from an encoded pair to a logit."""
    cure = f", expected {OUTPUT!r}; export one for sequence classification with one label"
    _, run = load_output(path, [OUTPUT], "a cross-encoder that we know", cure)
    return lambda pair: _checked(path, run(pair))


def _checked(model: Path | str, logits: NDArray[np.floating]) -> float:
    """Return the logit of a pair; an EmbedderError unless it is one finite number."""
    if logits.size != 1 or not np.isfinite(logits).all():
        raise EmbedderError(_no_logit(model, logits))
    return float(logits.reshape(()))


def _no_logit(model: Path | str, logits: NDArray[np.floating]) -> str:
    return (
        f"The reader {str(model)!r} gave numbers of shape {logits.shape}, or NaN or infinity, "
        "where one finite number is due for each skill; use a model with one label"
    )
