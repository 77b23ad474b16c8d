"""Embedders in ONNX form with a tokenizer.json; the libraries are imported with a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders import embedding
from skillsearch.embedders.embedding import EmbeddedText
from skillsearch.embedders.model_files import ModelConfig, weight_files
from skillsearch.errors import EmbedderError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.settings.environ import forbid_telemetry

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding as Encoding
    from tokenizers import Tokenizer as Tokenizer

MODEL_FILES = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
POOLED_OUTPUT = "sentence_embedding"
OUTPUTS = (POOLED_OUTPUT, "last_hidden_state", "token_embeddings")
KNOWN_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
MAX_WORKERS = 8

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, eq=False)
class OnnxEmbedder:
    """A transformer in ONNX form, on the CPU.

    Each text is run by itself, several side by side in threads: in a batch a vector would depend on
    the texts around it, which share the scale of its 8-bit activations. On one machine with one
    ONNX Runtime a text has one vector, bit for bit; between ONNX Runtime 1.20 and 1.31, cosine
    0.996 at least.
    """

    fingerprint: str
    name: str
    dimensions: int
    _max_tokens: int
    _tokenizer: Tokenizer
    _run: Callable[[Encoding], embedding.EmbeddingRow]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load a model of one of `MODEL_FILES` and a tokenizer.json from a local folder.

        Settings and digests are as in `ModelConfig.read`. Weights outside the model ("external
        data") are verified and count in the fingerprint too. An EmbedderError if a file is missing
        or unusable.
        """
        config = ModelConfig.read(folder)
        path = next((folder / name for name in MODEL_FILES if (folder / name).is_file()), None)
        if path is None or not (folder / "tokenizer.json").is_file():
            raise EmbedderError(
                f"{folder} is not an ONNX model: it needs tokenizer.json and one of "
                f"{', '.join(MODEL_FILES)}; load a sentence-transformers folder as st:{folder}"
            )
        digests = [config.verify(path), config.verify(folder / "tokenizer.json")]
        digests += [config.verify(file) for file in weight_files(path)]
        tokenizer = load_tokenizer(folder / "tokenizer.json", config.max_tokens)
        run = _load_session(path, config.pooling)
        dimensions = int(run(tokenizer.encode("probe")).shape[-1])
        fingerprint = embedding.fingerprint_of(*digests, config.pooling, config.max_tokens)
        return cls(fingerprint, config.name, dimensions, config.max_tokens, tokenizer, run)

    def embed_stream(self, texts: Sequence[str]) -> Iterator[EmbeddedText]:
        """Embed `texts` in order; see `map_ahead`."""

        def embed_one(position: int, text: str) -> EmbeddedText:
            head, cut = embedding.head_of(text, self._max_tokens)
            encoding = self._tokenizer.encode(head)
            vector = np.zeros(self.dimensions, dtype=np.float32)
            if not all(encoding.special_tokens_mask):
                vector = embedding.unit_row(self._run(encoding), self)
            return EmbeddedText(position, vector, cut or bool(encoding.overflowing))

        yield from map_ahead(embed_one, texts)


def load_tokenizer(path: Path, max_tokens: int | None = None) -> Tokenizer:
    """Load a verified tokenizer.json: it cuts at `max_tokens` if any, and never pads."""
    from tokenizers import Tokenizer

    with embedding.errors_of("tokenizers", path):
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        if max_tokens is not None:
            tokenizer.enable_truncation(max_tokens)
    tokenizer.no_padding()
    return tokenizer


def _load_session(path: Path, pooling: str) -> Callable[[Encoding], embedding.EmbeddingRow]:
    """Load an ONNX model and return a function from a tokenizer's encoding to a vector."""
    described, next_step = "a text encoder we know", "; name another model"
    output, run = load_output(path, OUTPUTS, described, next_step)
    if output == POOLED_OUTPUT:
        return lambda encoding: run(encoding)[0]
    if pooling not in ("mean", "cls"):
        raise EmbedderError(f"{path} needs {pooling!r} after it; load it as st:{path.parent}")
    if pooling == "cls":
        return lambda encoding: run(encoding)[0, 0]
    return lambda encoding: run(encoding).mean(axis=1)[0]  # no row is padding


def load_output(
    path: Path, wanted: Sequence[str], kind: str, next_step: str
) -> tuple[str, Callable[[Encoding], NDArray[np.floating]]]:
    """Load an ONNX model; return its first wanted output, and a function from an encoding to it.

    An EmbedderError that says what kind of model this is not, and the cure, if it has none of them
    or needs other inputs than a tokenizer gives.
    """
    session = open_session(path)
    inputs = [node.name for node in session.get_inputs()]
    outputs = [node.name for node in session.get_outputs()]
    output = next((name for name in wanted if name in outputs), None)
    if output is None or not set(inputs) <= set(KNOWN_INPUTS):
        raise EmbedderError(f"{path} is not {kind}: {inputs} to {outputs}{next_step}")

    def run(encoding: Encoding) -> NDArray[np.floating]:
        tokens = (encoding.ids, encoding.attention_mask, encoding.type_ids)
        values = dict(zip(KNOWN_INPUTS, np.array(tokens, dtype=np.int64)[:, None], strict=True))
        with embedding.errors_of("ONNX Runtime", path):
            results = session.run([output], {name: values[name] for name in inputs})
        return np.asarray(results[0])

    return output, run


def open_session(model: Path) -> InferenceSession:
    """Open an ONNX model on the CPU, one thread a text, as an ``InferenceSession``."""
    forbid_telemetry()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # A pattern kept for every length of text gains nothing.
    with embedding.errors_of("ONNX Runtime", model):
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def map_ahead(function: Callable[[int, str], _Result], texts: Sequence[str]) -> Iterator[_Result]:
    """Yield the result for each position and text, in order, computed in threads.

    Those begun run to their end when the iterator is closed, the others do not begin.
    """
    if (workers := min(os.cpu_count() or 1, MAX_WORKERS, len(texts))) <= 1:
        yield from map(function, range(len(texts)), texts)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="skillsearch-embed") as pool:
        yield from pool.map(function, range(len(texts)), texts)
