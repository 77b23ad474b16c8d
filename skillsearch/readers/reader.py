"""A reader: request and skill, read together → the log-odds that the skill fits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from skillsearch import config
from skillsearch.embedders.embedder import PACKAGED_MODEL, PackagedModel
from skillsearch.embedders.embedding import errors_of, head_of
from skillsearch.embedders.model_files import DEFAULT_MAX_TOKENS, ModelConfig, weight_files
from skillsearch.embedders.onnx_embedder import (
    KNOWN_INPUTS,
    MODEL_FILES,
    map_ahead,
    open_session,
    shared_tokenizer,
)
from skillsearch.embedders.sentence_transformer_embedder import load_cross_encoder
from skillsearch.errors import EmbedderError, MissingDependencyError
from skillsearch.records import dataclass
from skillsearch.setting_values import DEFAULT_READER, READING

if TYPE_CHECKING:
    from skillsearch.embedders.onnx_embedder import Tokenizer

logger = logging.getLogger(__name__)

# Tokens of a request that are read, and of both texts together.
REQUEST_TOKENS = 80
MAX_TOKENS = 168
# What a token belongs to, as the token types of our own readers: special tokens to neither text.
NEITHER, REQUEST, SKILL = range(3)
HEAD = "head."  # begins the names of what a reader has beside the encoder
# What the head of a reader sees of a pair: so many vectors of the hidden size, and so many numbers.
HEAD_VECTORS, HEAD_NUMBERS = 5, 4
# Both are brought to the scale of the vectors: products of unit vectors, and cosines.
PRODUCT_SCALE, NUMBER_SCALE = 20.0, 4.0
# Takes a cosine out of the reach of a maximum, of a minimum.
OUT_OF_REACH, BEYOND = 4.0, 9.0
# The reader of the package, which shares a folder with the embedders.
PACKAGED = PackagedModel(
    "skillsearch-reader",
    "reader",
    "a5a3a23dd9f279883ece0908656f8d15b91cafb540fc0c67b9f5bd9d2ad7160b",
)
# The spec of the packaged reader, and all of them, for error messages.
PACKAGED_SPEC = "minilm"
SPECS = f"{PACKAGED_SPEC}, st:NAME_OR_FOLDER, FOLDER (of an ONNX model)"
OUTPUT = "logits"

Logits = NDArray[np.float64]


class Reader(Protocol):
    """Tells how well skills fit a request, from the words of both."""

    @property
    def name(self) -> str:
        """Name for people."""

    @property
    def scripts(self) -> frozenset[str] | None:
        """Unicode scripts that it understands, such as ``Latin``; None for all."""

    def read(self, request: str, texts: Sequence[str]) -> Logits:
        """Return the log-odds that the skill of each text fits, in order."""


@dataclass(frozen=True, slots=True, eq=False)
class OnnxReader:
    """A cross-encoder in ONNX form, on the CPU.

    Each text is run by itself, several side by side in threads, so that no logit depends on the
    other texts, as `OnnxEmbedder` does.
    """

    name: str
    scripts: frozenset[str] | None
    _max_tokens: int
    _encode: Callable[[str, str], Sequence[Sequence[int]]]
    _run: Callable[[Sequence[Sequence[int]]], float]

    @classmethod
    def load(
        cls, folder: Path, *, manifest_sha256: str | None = None, stem: str = PACKAGED.stem
    ) -> Self:
        """Load a reader, STEM.onnx as we export it, or any ONNX cross-encoder with one logit.

        Another's is one of `MODEL_FILES`. Either needs a tokenizer.json. Settings and digests are
        as in `ModelConfig.read`. An EmbedderError if a file is missing or unusable.
        """
        own = folder / f"{stem}.onnx"
        is_own = manifest_sha256 is not None or own.is_file()
        others = (folder / name for name in MODEL_FILES if (folder / name).is_file())
        path = own if is_own else next(others, None)
        file = folder / "tokenizer.json"
        if path is None or not file.is_file():
            raise EmbedderError(
                f"{folder} is not a reader: it needs tokenizer.json and one of {own.name}, "
                f"{', '.join(MODEL_FILES)}; load a CrossEncoder's folder as st:{folder}"
            )
        settings = ModelConfig.read(folder, manifest_sha256=manifest_sha256, stem=stem)
        for weights in (path, file, *weight_files(path)):
            settings.verify(weights)
        limit = settings.max_tokens
        # `_pair` cuts our own texts; this far, the tokenizer is also that of the embedder.
        tokenizer = shared_tokenizer(file, max(limit, DEFAULT_MAX_TOKENS) if is_own else limit)

        def encode(request: str, text: str) -> Sequence[Sequence[int]]:
            """Return the rows of `KNOWN_INPUTS`, by the tokenizer's own template for another's."""
            if is_own:
                ids = tokenizer.encode(request, add_special_tokens=False).ids
                pair = _pair(ids, tokenizer.encode(text).ids, limit)
                return pair.ids, [1] * len(pair.ids), pair.parts
            encoding = tokenizer.encode(request, text)
            return encoding.ids, encoding.attention_mask, encoding.type_ids

        return cls(settings.name, settings.scripts, limit, encode, _load_session(path))

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
    scripts: frozenset[str] | None = None

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


def reader_spec(choice: str) -> str:
    """Return the spec of the model that a setting means."""
    return PACKAGED_SPEC if choice in READING else choice


def load_reader(spec: str, device: str | None = None, *, packaged: Path = PACKAGED_MODEL) -> Reader:
    """Load the reader of a spec, one of `SPECS`.

    A `device` is for models of sentence-transformers; None asks the settings. An EmbedderError if
    nothing has that name or its files cannot be used.
    """
    if spec == PACKAGED_SPEC:
        return OnnxReader.load(packaged, manifest_sha256=PACKAGED.sha256, stem=PACKAGED.stem)
    if spec.startswith("st:") and spec != "st:":
        name = spec.removeprefix("st:")
        device = device or config.load_only("device").device
        return CrossEncoderReader(name, load_cross_encoder(name, device))
    if spec and Path(spec).is_dir():
        return OnnxReader.load(Path(spec))
    raise EmbedderError(f"No reader is called {spec[:200]!r}; use one of: {SPECS}")


class Pair(NamedTuple):
    """The tokens of a pair, [CLS] request [SEP] skill [SEP], and which text each belongs to."""

    ids: Sequence[int]
    parts: Sequence[int]


def encode_pairs(tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]) -> list[Pair]:
    """Return the tokens of each pair, each text cut to fit."""
    requests = tokenizer.encode_batch([request for request, _ in pairs], add_special_tokens=False)
    texts = tokenizer.encode_batch([text for _, text in pairs])
    return [
        _pair(request.ids, text.ids, MAX_TOKENS)
        for request, text in zip(requests, texts, strict=True)
    ]


def _pair(request: Sequence[int], text: Sequence[int], limit: int) -> Pair:
    """Join the ids of a request and of a text, which has special tokens at both ends."""
    own = request[: min(REQUEST_TOKENS, limit // 2)]
    first, *rest, last = text
    rest = rest[: limit - len(own) - 3]
    parts = [NEITHER, *[REQUEST] * len(own), NEITHER, *[SKILL] * len(rest), NEITHER]
    return Pair([first, *own, last, *rest, last], parts)


def _load_session(path: Path) -> Callable[[Sequence[Sequence[int]]], float]:
    """Load an ONNX model and return a function from the rows of `KNOWN_INPUTS` to a logit."""
    session = open_session(path)
    inputs = [node.name for node in session.get_inputs()]
    outputs = [node.name for node in session.get_outputs()]
    if OUTPUT not in outputs or not set(inputs) <= set(KNOWN_INPUTS):
        raise EmbedderError(
            f"{path} is not a cross-encoder that we know: {inputs} to {outputs}, expected "
            f"{OUTPUT!r}; export one for sequence classification with one label"
        )

    def run(rows: Sequence[Sequence[int]]) -> float:
        values = dict(zip(KNOWN_INPUTS, np.array(rows, dtype=np.int64)[:, None], strict=True))
        with errors_of("ONNX Runtime", path):
            (logits,) = session.run([OUTPUT], {name: values[name] for name in inputs})
        if logits.size != 1 or not np.isfinite(logits).all():
            raise EmbedderError(_no_logit(path, logits))
        return float(logits.reshape(()))

    return run


def _no_logit(model: Path | str, logits: NDArray[np.floating]) -> str:
    return (
        f"The reader {str(model)!r} gave numbers of shape {logits.shape}, or NaN or infinity, "
        "where one finite number is due for each skill; use a model with one label"
    )
