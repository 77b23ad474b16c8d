"""Embedders that need a model: the packaged ONNX one, and any other by folder or name.

The only importer of onnxruntime, tokenizers and sentence_transformers, each when a model is loaded.
What an embedder is stands in `skillsearch.index.embedding`; its names can be imported from here.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from skillsearch.errors import EmbedderError, MissingDependencyError
from skillsearch.index.embedding import (
    Embedded,
    EmbeddedText,
    Embedder,
    HashingEmbedder,
    Row,
    embed,
    fingerprint_of,
    head_of,
    unit_row,
)
from skillsearch.index.model_files import (
    LARGEST_MAX_TOKENS,
    MODEL_SUFFIXES,
    ModelConfig,
    digest_of,
    require_safetensors,
    stamp_of,
    weight_files,
)

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

SPECS = "onnx, hashing, onnx:FOLDER, st:NAME_OR_FOLDER"
"""What `load_embedder` understands, for error messages."""

MODEL_FILES = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
MAX_WORKERS = 8
AHEAD = 8
"""Texts given to each worker before their results are taken: enough to keep it busy."""

POOLED_OUTPUT = "sentence_embedding"
TOKEN_OUTPUTS = ("last_hidden_state", "token_embeddings")
KNOWN_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})

ST_CHUNK = 256
"""Texts in one call of sentence-transformers, which splits them further."""


def load_embedder(spec: str) -> Embedder:
    """Load the embedder that `spec` names.

    Args:
        spec: ``onnx`` or ``all-MiniLM-L6-v2`` for the packaged model; ``hashing``; ``onnx:FOLDER``
            or just a folder for a local ONNX model; ``st:NAME_OR_FOLDER`` or
            ``sentence-transformers/NAME`` for sentence-transformers.

    Returns:
        An embedder that is ready to use.

    Raises:
        EmbedderError: When nothing has that name, or its files cannot be used.
    """
    kind, _, rest = spec.partition(":")
    if spec in ("onnx", PACKAGED_NAME):
        return OnnxEmbedder.load(PACKAGED_MODEL, manifest_sha256=PACKAGED_SHA256)
    if spec == "hashing":
        return HashingEmbedder()
    if kind == "onnx" and rest:
        return OnnxEmbedder.load(Path(rest))
    if kind == "st" and rest:
        return SentenceTransformerEmbedder.load(rest)
    if spec.startswith("sentence-transformers/"):
        return SentenceTransformerEmbedder.load(spec)
    if spec and Path(spec).is_dir():
        return OnnxEmbedder.load(Path(spec))
    raise EmbedderError(f"No embedder is called {spec!r}; use one of: {SPECS}")


def model_identity(spec: str) -> str:
    """Name the model files behind a spec without loading them.

    Args:
        spec: As in `load_embedder`; nothing is checked.

    Returns:
        A text that changes when the model does: by digest for the packaged model, by the sizes
        and times of all its files for a local folder, by name alone for any other.
    """
    if spec in ("onnx", PACKAGED_NAME):
        return f"onnx {PACKAGED_SHA256}"
    folder = Path(spec.removeprefix("onnx:").removeprefix("st:"))
    with contextlib.suppress(OSError):
        if any((folder / name).is_file() for name in (*MODEL_FILES, "model.safetensors")):
            return f"{spec} {stamp_of(folder)}"
    return spec


@dataclass(frozen=True, slots=True, eq=False)
class OnnxEmbedder:
    """A transformer in ONNX form, on the CPU.

    Each text is run by itself, several side by side in threads. A vector then does not depend on
    the texts around it, as it would in a batch, which shares the scale of its 8-bit activations;
    and no time goes into padding (as fast as batches of 16 in float32, faster in int8).

    On one machine with one ONNX Runtime a text has one vector, bit for bit. Elsewhere float
    rounding may tip the rounding to 8 bits: between ONNX Runtime 1.20 and 1.31, cosine 0.999 on
    average and 0.996 at least, which is less than the quantisation itself costs (0.993).
    """

    fingerprint: str
    name: str
    dimensions: int
    scripts: frozenset[str] | None
    _max_tokens: int
    _tokenizer: Any
    _run: Callable[[Any], Row]

    @classmethod
    def load(cls, folder: Path, *, manifest_sha256: str | None = None) -> Self:
        """Load a model of one of `MODEL_FILES` and a tokenizer.json from a local folder.

        Weights in files of their own ("external data") belong to the model: they are verified, and
        count in the fingerprint, as its other files do.

        Settings come from our model.json, or from the files that sentence-transformers writes;
        without either, 256 tokens and mean pooling.

        Args:
            folder: The model's folder.
            manifest_sha256: Digest that model.json must have; the files that it lists must always
                have the digests that it gives.

        Returns:
            The embedder.

        Raises:
            EmbedderError: When a file is missing, damaged, or not what it has to be.
        """
        config = ModelConfig.read(folder, manifest_sha256=manifest_sha256)
        path = next((folder / file for file in MODEL_FILES if (folder / file).is_file()), None)
        if path is None or not (folder / "tokenizer.json").is_file():
            raise EmbedderError(
                f"{folder} is no ONNX model: it needs tokenizer.json and one of "
                f"{', '.join(MODEL_FILES)}; load a sentence-transformers folder as st:{folder}"
            )
        digests = [config.verify(path), config.verify(folder / "tokenizer.json")]
        digests += [config.verify(file) for file in weight_files(path)]
        tokenizer = load_tokenizer(folder / "tokenizer.json", config.max_tokens)
        run = _load_session(path, config.pooling)
        probe = run(tokenizer.encode("probe"))
        fingerprint = fingerprint_of(*digests, config.pooling, config.max_tokens)
        return cls(
            fingerprint=fingerprint,
            name=config.name,
            dimensions=int(probe.shape[-1]),
            scripts=config.scripts,
            _max_tokens=config.max_tokens,
            _tokenizer=tokenizer,
            _run=run,
        )

    def embed_stream(self, texts: Sequence[str]) -> Iterator[EmbeddedText]:
        """Embed `texts` in order; those begun run to their end when the iterator is closed."""
        yield from _map_ahead(self._embed_one, texts)

    def _embed_one(self, position: int, text: str) -> EmbeddedText:
        """Embed one text; called from several threads."""
        head, cut = head_of(text, self._max_tokens)
        encoding = self._tokenizer.encode(head)
        truncated = cut or bool(encoding.overflowing)
        if all(encoding.special_tokens_mask):
            return EmbeddedText(position, np.zeros(self.dimensions, dtype=np.float32), truncated)
        return EmbeddedText(position, unit_row(self._run(encoding), self), truncated)


def load_tokenizer(path: Path, max_tokens: int | None = None) -> Any:
    """Load a tokenizer that does not pad.

    Args:
        path: Its tokenizer.json; the caller has verified it.
        max_tokens: Where it cuts a text; None for nowhere.

    Returns:
        A ``tokenizers.Tokenizer``.

    Raises:
        EmbedderError: When the file is none.
    """
    import tokenizers

    with _errors_of("tokenizers", path):
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        if max_tokens is None:
            tokenizer.no_truncation()
        else:
            tokenizer.enable_truncation(max_tokens)
    tokenizer.no_padding()
    return tokenizer


def _load_session(path: Path, pooling: str) -> Callable[[Any], Row]:
    """Load an ONNX model and return a function from a tokenizer's encoding to a vector."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # A pattern kept for every length of text gains nothing.
    with _errors_of("ONNX Runtime", path):
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    inputs = [node.name for node in session.get_inputs()]
    output = _choose_output(path, inputs, [node.name for node in session.get_outputs()])
    if output != POOLED_OUTPUT and pooling not in ("mean", "cls"):
        raise EmbedderError(f"{path} needs {pooling!r} after it; load it as st:{path.parent}")

    def run(encoding: Any) -> Row:
        """Run one text; no row is padding, so that the mean is over all of them."""
        tokens = (encoding.ids, encoding.attention_mask, encoding.type_ids)
        names = ("input_ids", "attention_mask", "token_type_ids")
        values = dict(zip(names, np.array(tokens, dtype=np.int64)[:, None], strict=True))
        with _errors_of("ONNX Runtime", path):
            (result,) = session.run([output], {name: values[name] for name in inputs})
        if output != POOLED_OUTPUT:
            result = result[:, 0] if pooling == "cls" else result.mean(axis=1)
        row: Row = result[0]
        return row

    return run


def _choose_output(path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> str:
    """Return the output to use: sentences where the model pools, else tokens."""
    known = [name for name in (POOLED_OUTPUT, *TOKEN_OUTPUTS) if name in outputs]
    if not known or not KNOWN_INPUTS.issuperset(inputs):
        raise EmbedderError(f"{path} is no text encoder we know: {inputs} to {outputs}")
    return known[0]


@contextlib.contextmanager
def _errors_of(library: str, model: Path | str) -> Iterator[None]:
    """Turn whatever a library raises about a model into ours, with its own words kept."""
    try:
        yield
    except Exception as exc:  # These libraries' errors share no other base class.
        raise EmbedderError(f"{library} cannot use {model}: {exc}") from exc


def _map_ahead(
    function: Callable[[int, str], EmbeddedText], texts: Sequence[str]
) -> Iterator[EmbeddedText]:
    """Call `function` for every text in threads, a few ahead of what is taken; order kept."""
    workers = min(os.cpu_count() or 1, MAX_WORKERS, len(texts))
    if workers <= 1:
        yield from map(function, range(len(texts)), texts)
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="skillsearch-embed")
    waiting: deque[Future[EmbeddedText]] = deque()
    try:
        for position, text in enumerate(texts):
            waiting.append(pool.submit(function, position, text))
            if len(waiting) >= AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True, eq=False)
class SentenceTransformerEmbedder:
    """Any model that sentence-transformers loads, on its best device; the extra ``st``.

    A vector may differ in its last bits with the texts around it, which share its batch.
    """

    fingerprint: str
    name: str
    dimensions: int
    scripts: frozenset[str] | None
    _model: Any

    @classmethod
    def load(cls, name_or_path: str) -> Self:
        """Load a model from a folder, or by its name on the Hugging Face hub.

        A name downloads what the hub's cache lacks, unless ``HF_HUB_OFFLINE`` is set; a folder
        never touches the network. Code of the model's own is not run, and weights are read from
        safetensors only, since the other forms are pickles: such a model, or one that is nowhere,
        is an `EmbedderError`.

        Args:
            name_or_path: A local folder, or a name such as ``sentence-transformers/LaBSE``.

        Returns:
            The embedder.

        Raises:
            MissingDependencyError: When sentence-transformers is not installed.
        """
        folder = Path(name_or_path)
        if folder.is_dir():
            require_safetensors(folder)
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as exc:
            purpose = f"The embedder 'st:{name_or_path}'"
            raise MissingDependencyError("sentence-transformers", "st", purpose) from exc
        if not folder.is_dir():
            folder = _download(name_or_path)
            require_safetensors(folder)
        with _errors_of("sentence-transformers", name_or_path):
            model = SentenceTransformer(
                str(folder),
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"use_safetensors": True},
            )
        fingerprint = fingerprint_of(digest_of(folder))
        dimensions = int(model.encode(["probe"], show_progress_bar=False).shape[1])
        return cls(fingerprint, name_or_path, dimensions, None, model)

    def embed_stream(self, texts: Sequence[str]) -> Iterator[EmbeddedText]:
        """Embed `texts`, short ones first."""
        limit = self._model.max_seq_length
        limit = limit if isinstance(limit, int) else None
        order = sorted(range(len(texts)), key=lambda position: len(texts[position]))
        for start in range(0, len(order), ST_CHUNK):
            chunk = order[start : start + ST_CHUNK]
            heads = [head_of(texts[position], limit or LARGEST_MAX_TOKENS) for position in chunk]
            rows = self._encode([head for head, _ in heads], limit)
            for position, (head, cut), (row, over) in zip(chunk, heads, rows, strict=True):
                vector = unit_row(row if head else np.zeros_like(row), self)
                yield EmbeddedText(position, vector, cut or over)

    def _encode(self, heads: list[str], limit: int | None) -> list[tuple[Row, bool]]:
        """Return the vector of each text, and whether it has more than `limit` tokens."""
        rows = self._model.encode(heads, normalize_embeddings=True, show_progress_bar=False)
        if limit is None:
            return [(row, False) for row in rows]
        ids = self._model.tokenizer(heads, truncation=False, verbose=False)["input_ids"]
        return [(row, len(tokens) > limit) for row, tokens in zip(rows, ids, strict=True)]


def _download(name: str) -> Path:
    """Return the local snapshot of a hub model, with nothing in it that could be a pickle."""
    from huggingface_hub import snapshot_download

    patterns = [f"*{suffix}" for suffix in sorted(MODEL_SUFFIXES)]
    ignored = ["onnx/*", "openvino/*"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns, ignore_patterns=ignored))
    except (OSError, ValueError) as exc:
        raise EmbedderError(f"No folder and no model on the hub: {name!r} ({exc})") from exc
