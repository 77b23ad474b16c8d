"""The weights of a BERT, a sentence encoder or a reader, in float32, read and written."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedder import PACKAGED, PACKAGED_MODEL
from skillsearch.embedders.embedding import errors_of
from skillsearch.embedders.model_files import ModelConfig, sha256_of, weight_files
from skillsearch.embedders.onnx_embedder import load_tokenizer
from skillsearch.errors import EmbedderError, TrainingError, explained, importing
from skillsearch.evaluation.collection import EXAMPLE, load_collection
from skillsearch.readers.reader import HEAD, HEAD_NUMBERS, HEAD_VECTORS, Pair, encode_pairs
from skillsearch.readers.reader import MAX_TOKENS as PAIR_TOKENS
from skillsearch.text.passages import PASSAGE_CHARS, passage_text
from skillsearch.types import Json, JsonObject

MAX_TOKENS = 256  # tokens kept of a text in use, as published for all-MiniLM-L6-v2
ARCHITECTURE = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
"""Required in config.json. Newer ones leave out the last, the only kind now."""
WORDS = "embeddings.word_embeddings.weight"
_EXAMPLES = 48
"""Requests that show how far the numbers within a reader reach."""
TABLES = {
    WORDS: "vocab_size",
    "embeddings.position_embeddings.weight": "max_position_embeddings",
    "embeddings.token_type_embeddings.weight": "type_vocab_size",
}
"""The tables of embeddings, each with the key of config.json for its number of rows."""

_OFFICIAL = "config.json, model.safetensors and tokenizer.json of a BERT with mean pooling"
_EXPORTED = "model.onnx, tokenizer.json and model.json as skillsearch exports them"


@dataclass(frozen=True, slots=True, eq=False)
class BertWeights:
    """A BERT sentence encoder with mean pooling, without the pooler, under Hugging Face's names.

    A reader has a head beside it (see `skillsearch.training.cross_encoder`).
    Raises TrainingError if the config is of another architecture, or a tensor does not fit it.
    """

    tensors: Mapping[str, NDArray[np.float32]]
    config: Mapping[str, Json]
    tokenizer: bytes

    def __post_init__(self) -> None:
        _check_config(self.config)
        heads = _head_shapes(self.config) if self.is_reader else ()
        for name, shape in chain(_shapes(self.config), heads):
            tensor = self.tensors.get(name)
            if tensor is None:
                raise TrainingError(f"The model has no {name}")
            if tensor.shape != shape or tensor.dtype != np.float32:
                found = f"{tensor.dtype} of shape {tensor.shape}"
                raise TrainingError(f"{name} is {found}, expected float32 of shape {shape}")
            if not np.isfinite(tensor).all():
                raise TrainingError(f"{name} has values that are not finite")

    @property
    def is_reader(self) -> bool:
        """Return whether they have a head."""
        return any(name.startswith(HEAD) for name in self.tensors)

    def size(self, key: str) -> int:
        """Return a size that the config says."""
        return _whole(self.config, key)


def average(begin: BertWeights, tuned: BertWeights, share: float) -> BertWeights:
    """Average weights with those they were tuned from, as Wortsman et al. (2022) do."""
    tensors = {
        name: ((1 - share) * one + share * tuned.tensors[name]).astype(np.float32)
        for name, one in begin.tensors.items()
    }
    return BertWeights(tensors, begin.config, begin.tokenizer)


def read_hugging_face(folder: Path) -> BertWeights:
    """Read a folder of Hugging Face's libraries; TrainingError unless it is such an encoder."""
    with _errors_about(folder, _OFFICIAL):
        pooling = ModelConfig.read(folder).pooling
        if pooling != "mean":
            raise TrainingError(f"it pools by {pooling!r}")
        config = json.loads((folder / "config.json").read_bytes())
        tensors = _read_safetensors(folder / "model.safetensors")
        return _with_tokenizer(tensors, config, folder)


def read_exported(folder: Path, stem: str = "model") -> BertWeights:
    """Read a model that `export` wrote, with files named after `stem`, or raise TrainingError.

    Exporting its widened matrices again gives the same integers; of token types, the first is kept.
    """
    from skillsearch.training.onnx_model import read_graph

    model = folder / f"{stem}.onnx"
    with _errors_about(folder, _EXPORTED):
        digests = ModelConfig.read(folder, stem=stem)
        if model.name not in digests.sha256:
            raise TrainingError(f"there is no {stem}.json with the digest of {model.name}")
        for file in (model, folder / "tokenizer.json", *weight_files(model)):
            digests.verify(file)
        tensors, config = read_graph(model)
        return _with_tokenizer(tensors, config, folder)


def folder_of(model: str) -> tuple[Path, Callable[[Path], BertWeights]]:
    """Return the folder of a model spec, and the function that reads it.

    A TrainingError if the spec names no model that can be tuned.
    """
    if model in PACKAGED:
        return PACKAGED_MODEL, read_exported
    kind, _, rest = model.partition(":")
    if kind == "st" and Path(rest).is_dir():
        return Path(rest), read_hugging_face
    folder = Path(rest if kind == "onnx" and rest else model)
    if model and folder.is_dir():
        return folder, read_exported
    raise TrainingError(
        f"The model {model[:200]!r} cannot be tuned; begin with onnx, the packaged one, "
        "with the folder of a tuned one, or with st:FOLDER, a BERT with mean pooling as "
        "sentence-transformers saves it."
    )


def begin_weights(model: str) -> BertWeights:
    """Read the weights of a model spec; raises TrainingError if it is of another kind."""
    folder, read = folder_of(model)
    return read(folder)


def texts_beside(model: str) -> list[str | None]:
    """Return the NOTICE and the LICENSE of a model, None for one that is missing."""
    paths = [folder_of(model)[0] / name for name in ("NOTICE", "LICENSE")]
    return [path.read_text("utf-8", "replace") if path.is_file() else None for path in paths]


def export(
    weights: BertWeights,
    folder: Path,
    *,
    name: str,
    notice: str | None = None,
    licence: str | None = None,
    extra: Mapping[str, Json] = {},
    stem: str = "model",
    words: str | None = None,
) -> str:
    """Write a model to a new or empty folder, all files or none; return the sha256 of its record.

    The record, STEM.json, has the `extra` and the digests of all other files. Models can share the
    file `words` for word embeddings. Raises TrainingError if the folder cannot be written.
    """
    from skillsearch.training.onnx_model import BertGraph, find_factors, quantise

    texts = {"LICENSE": licence, "NOTICE": notice}
    limit = PAIR_TOKENS if weights.is_reader else MAX_TOKENS
    with explained(TrainingError, f"{folder} cannot be written: %s; name a new folder", str):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".model-", dir=folder.parent) as scratch:
            fresh = Path(scratch) / "model"
            fresh.mkdir()
            (fresh / "tokenizer.json").write_bytes(weights.tokenizer)
            parts = weights.tensors, weights.config
            factors = {}
            if weights.is_reader:
                factors = find_factors(*parts, _example_pairs(fresh / "tokenizer.json"))
            quantise(BertGraph(*parts, factors).build(), fresh / f"{stem}.onnx", words)
            for file, text in texts.items():
                if text is not None:
                    (fresh / file).write_bytes(text.encode())
            record = {
                "name": name,
                "dimensions": 1 if weights.is_reader else weights.size("hidden_size"),
                "max_tokens": min(limit, weights.size("max_position_embeddings")),
                "pooling": "head" if weights.is_reader else "mean",
                **extra,
                "built_with": {library: version(library) for library in ("onnx", "onnxruntime")},
                "sha256": {path.name: sha256_of(path) for path in sorted(fresh.iterdir())},
            }
            manifest = fresh / f"{stem}.json"
            manifest.write_bytes((json.dumps(record, indent=2) + "\n").encode())
            digest = sha256_of(manifest)
            fresh.replace(folder)
    return digest


def _example_pairs(tokenizer: Path) -> list[Pair]:
    """Return pairs of the collection in the package: requests with a skill that fits, and another.

    Whoever exports a reader has these texts; what they reach stands for what others will.
    """
    example = load_collection(EXAMPLE)
    texts = {
        one.doc_id: passage_text(one.name, one.description, one.body[:PASSAGE_CHARS])
        for one in example.documents
    }
    others, pairs = list(texts.values()), []
    for place, query in enumerate(example.queries[:_EXAMPLES]):
        right = next(doc for doc, grade in example.qrels[query.query_id].items() if grade > 0)
        pairs += [(query.text, texts[right]), (query.text, others[place % len(others)])]
    return encode_pairs(load_tokenizer(tokenizer), pairs)


@contextlib.contextmanager
def _errors_about(folder: Path, needed: str) -> Iterator[None]:
    """Turn any error with the files of a folder into one that names it."""
    try:
        yield
    except (TrainingError, EmbedderError, OSError, ValueError, RecursionError) as exc:
        raise TrainingError(
            f"{folder} holds no model that can be tuned: {exc}; it needs {needed}"
        ) from exc


def _with_tokenizer(
    tensors: Mapping[str, NDArray[np.float32]], config: JsonObject, folder: Path
) -> BertWeights:
    """Join the parts, after making sure that every token has a row in the table of words."""
    path = folder / "tokenizer.json"
    tokens = load_tokenizer(path).get_vocab_size()
    weights = BertWeights(tensors, config, path.read_bytes())
    if tokens > (words := weights.size("vocab_size")):
        raise TrainingError(f"{path} has {tokens:,} tokens, the model {words:,}")
    return weights


def _read_safetensors(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read the tensors of the encoder and a head in float32; integers are not weights."""
    with importing("safetensors", "train", f"Reading {path}"):
        from safetensors import safe_open
    with errors_of("safetensors", path), safe_open(path, framework="numpy") as file:
        names = file.keys()
        kept = [name for name in names if name.startswith(("embeddings.", "encoder.", HEAD))]
        values = ((name, file.get_tensor(name)) for name in kept)
        floats = ((name, value) for name, value in values if value.dtype.kind not in "biu")
        return {name: value.astype(np.float32, copy=False) for name, value in floats}


def _check_config(config: Json) -> None:
    """Raise for an architecture that the graph does not compute."""
    if not isinstance(config, Mapping):
        raise TrainingError(f"config.json holds {type(config).__name__}, not an object")
    for key, value in ARCHITECTURE.items():
        found = config.get(key, "absolute" if value == "absolute" else None)
        if found != value:
            raise TrainingError(f"config.json has {key} {found!r}, expected {value!r}")
    hidden, heads = _whole(config, "hidden_size"), _whole(config, "num_attention_heads")
    if hidden % heads:
        raise TrainingError(f"hidden_size {hidden} cannot be split into {heads} heads")
    epsilon = config.get("layer_norm_eps")
    if not isinstance(epsilon, float) or not 0 < epsilon < math.inf:
        raise TrainingError(f"config.json has layer_norm_eps {epsilon!r}, expected a small number")


def _shapes(config: Mapping[str, Json]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the name and shape of every tensor."""
    hidden, inner = _whole(config, "hidden_size"), _whole(config, "intermediate_size")
    layer = {
        **{f"attention.self.{part}": (hidden, hidden) for part in ("query", "key", "value")},
        "attention.output.dense": (hidden, hidden),
        "attention.output.LayerNorm": (hidden,),
        "intermediate.dense": (inner, hidden),
        "output.dense": (hidden, inner),
        "output.LayerNorm": (hidden,),
    }
    for table, key in TABLES.items():
        yield table, (_whole(config, key), hidden)
    yield "embeddings.LayerNorm.weight", (hidden,)
    yield "embeddings.LayerNorm.bias", (hidden,)
    for number in range(_whole(config, "num_hidden_layers")):
        for part, shape in layer.items():
            yield f"encoder.layer.{number}.{part}.weight", shape
            yield f"encoder.layer.{number}.{part}.bias", shape[:1]


def _head_shapes(config: Mapping[str, Json]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the name and shape of every tensor of a reader's head."""
    hidden = _whole(config, "hidden_size")
    yield f"{HEAD}token.weight", (1, hidden)
    for layer, shape in (
        ("inner", (hidden, HEAD_VECTORS * hidden + HEAD_NUMBERS)),
        ("outer", (1, hidden)),
    ):
        yield f"{HEAD}{layer}.weight", shape
        yield f"{HEAD}{layer}.bias", shape[:1]


def _whole(config: Mapping[str, Json], key: str) -> int:
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise TrainingError(f"config.json has {key} {value!r}, expected a whole number above 0")
    return value
