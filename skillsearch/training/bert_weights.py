"""The weights of a BERT sentence encoder in float32, read from a folder to be tuned or exported."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.embedders.model_files import ModelConfig, weight_files
from skillsearch.embedders.onnx_embedder import load_tokenizer
from skillsearch.embedders.runtime import errors_of
from skillsearch.errors import EmbedderError, MissingDependencyError, TrainingError
from skillsearch.types import JsonValue

if TYPE_CHECKING:
    from numpy.typing import NDArray

ARCHITECTURE = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
"""What config.json must say. Newer ones leave the last out, since there is no other."""

TABLES = {
    "embeddings.word_embeddings.weight": "vocab_size",
    "embeddings.position_embeddings.weight": "max_position_embeddings",
    "embeddings.token_type_embeddings.weight": "type_vocab_size",
}
"""The tables of embeddings, each with the key of config.json that says how many rows it has."""

_OFFICIAL = "config.json, model.safetensors and tokenizer.json of a BERT with mean pooling"
_EXPORTED = "model.onnx, tokenizer.json and model.json as skillsearch exports them"


@dataclass(frozen=True, slots=True, eq=False)
class BertWeights:
    """A BERT sentence encoder with mean pooling, complete, and finite in all its values.

    Attributes:
        tensors: Under the names of Hugging Face's ``BertModel``; a pooler is not needed.
        config: The contents of its config.json.
        tokenizer: The bytes of its tokenizer.json.

    Raises:
        TrainingError: When `config` describes another architecture, or a tensor is missing, of
            another shape or type, or not finite.
    """

    tensors: Mapping[str, NDArray[np.float32]]
    config: Mapping[str, JsonValue]
    tokenizer: bytes

    def __post_init__(self) -> None:
        """Compare the tensors with what the config promises."""
        _require_architecture(self.config)
        for name, shape in _shapes(self.config):
            tensor = self.tensors.get(name)
            if tensor is None:
                raise TrainingError(f"The model has no {name}")
            if tensor.shape != shape or tensor.dtype != np.float32:
                found = f"{tensor.dtype} of shape {tensor.shape}"
                raise TrainingError(f"{name} is {found}, expected float32 of shape {shape}")
            if not np.isfinite(tensor).all():
                raise TrainingError(f"{name} has values that are not finite")


def average(begin: BertWeights, tuned: BertWeights, share: float) -> BertWeights:
    """Average weights with those that they were tuned from, which keeps what these knew beside.

    After Wortsman et al., "Robust fine-tuning of zero-shot models" (2022).

    Args:
        begin: The weights before.
        tuned: The weights after.
        share: What the latter count, 0 to 1.

    Returns:
        The average of every tensor.
    """
    tensors = {
        name: ((1 - share) * one + share * tuned.tensors[name]).astype(np.float32)
        for name, one in begin.tensors.items()
    }
    return BertWeights(tensors, begin.config, begin.tokenizer)


def read_hugging_face(folder: Path) -> BertWeights:
    """Read a folder that Hugging Face's libraries wrote.

    Args:
        folder: Holds config.json, model.safetensors and tokenizer.json.

    Returns:
        The weights, half precision widened; without a pooler, on which no vector depends.

    Raises:
        TrainingError: When the folder holds no BERT sentence encoder with mean pooling.
        MissingDependencyError: When safetensors is not installed.
    """
    with _errors_about(folder, _OFFICIAL):
        pooling = ModelConfig.read(folder).pooling
        if pooling != "mean":
            raise TrainingError(f"it pools by {pooling!r}")
        config = json.loads((folder / "config.json").read_bytes())
        tensors = _read_safetensors(folder / "model.safetensors")
        return _with_tokenizer(tensors, config, folder)


def read_exported(folder: Path, stem: str = "model") -> BertWeights:
    """Read a model that `skillsearch.training.onnx_export.export` wrote, such as the packaged one.

    Its 8-bit matrices are turned back into numbers, each within half a step of what was exported,
    so that exporting them again gives the same integers.

    Args:
        folder: Holds model.json, tokenizer.json, model.onnx and the files of its large weights.
        stem: What model.onnx and model.json are called instead, where a folder holds several.

    Returns:
        The weights. Of the token types there is the first one only.

    Raises:
        TrainingError: When a file is damaged, or the folder holds another kind of model.
        MissingDependencyError: When onnx is not installed.
    """
    from skillsearch.training.exported_graph import read_graph

    model = folder / f"{stem}.onnx"
    with _errors_about(folder, _EXPORTED):
        digests = ModelConfig.read(folder, stem=stem)
        if model.name not in digests.sha256:
            raise TrainingError(f"there is no {stem}.json with the digest of {model.name}")
        for file in (model, folder / "tokenizer.json", *weight_files(model)):
            digests.verify(file)
        tensors, config = read_graph(model)
        return _with_tokenizer(tensors, config, folder)


@contextlib.contextmanager
def _errors_about(folder: Path, needed: str) -> Iterator[None]:
    """Turn what may go wrong with the files of a folder into one error that names it."""
    try:
        yield
    except (TrainingError, EmbedderError, OSError, ValueError, RecursionError) as exc:
        raise TrainingError(
            f"{folder} holds no model that can be tuned: {exc}; it needs {needed}"
        ) from exc


def _with_tokenizer(
    tensors: Mapping[str, NDArray[np.float32]], config: JsonValue, folder: Path
) -> BertWeights:
    """Join the parts, after making sure that every token has a row in the table of words."""
    path = folder / "tokenizer.json"
    tokens = load_tokenizer(path).get_vocab_size()
    weights = BertWeights(tensors, config, path.read_bytes())
    if tokens > config["vocab_size"]:
        raise TrainingError(f"{path} has {tokens:,} tokens, the model {config['vocab_size']:,}")
    return weights


def _read_safetensors(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read the encoder's tensors in float32; integers are no weights."""
    try:
        from safetensors import safe_open
    except ImportError as exc:
        raise MissingDependencyError("safetensors", "train", f"Reading {path}") from exc
    with errors_of("safetensors", path), safe_open(path, framework="numpy") as file:
        names = file.keys()
        encoder = [name for name in names if name.startswith(("embeddings.", "encoder."))]
        tensors = {name: file.get_tensor(name) for name in encoder}
        floats = {name: value for name, value in tensors.items() if value.dtype.kind not in "biu"}
        return {name: value.astype(np.float32, copy=False) for name, value in floats.items()}


def _require_architecture(config: JsonValue) -> None:
    """Refuse what the graph does not compute."""
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


def _shapes(config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the name and shape of every tensor that the encoder needs."""
    hidden, inner = _whole(config, "hidden_size"), _whole(config, "intermediate_size")
    for table, key in TABLES.items():
        yield table, (_whole(config, key), hidden)
    yield from _weight_and_bias("embeddings.LayerNorm", (hidden,))
    for layer in range(_whole(config, "num_hidden_layers")):
        prefix = f"encoder.layer.{layer}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            yield from _weight_and_bias(f"{prefix}.attention.{part}", (hidden, hidden))
        yield from _weight_and_bias(f"{prefix}.attention.output.LayerNorm", (hidden,))
        yield from _weight_and_bias(f"{prefix}.intermediate.dense", (inner, hidden))
        yield from _weight_and_bias(f"{prefix}.output.dense", (hidden, inner))
        yield from _weight_and_bias(f"{prefix}.output.LayerNorm", (hidden,))


def _weight_and_bias(
    prefix: str, shape: tuple[int, ...]
) -> tuple[tuple[str, tuple[int, ...]], tuple[str, tuple[int, ...]]]:
    """Return the name and shape of a weight and of its bias, one for each output."""
    return (f"{prefix}.weight", shape), (f"{prefix}.bias", shape[:1])


def _whole(config: Mapping[str, Any], key: str) -> int:
    """Return a number of the config that counts something."""
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise TrainingError(f"config.json has {key} {value!r}, expected a whole number above 0")
    return value
