"""The way back: the float32 tensors of a BERT, from the graph that it was exported as."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.embedders.runtime import errors_of
from skillsearch.errors import MissingDependencyError, TrainingError
from skillsearch.types import JsonValue

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUANTISED = "_quantized"
"""Ends ONNX Runtime's name for a constant in integers; beside it are its scale and zero point."""
TRANSPOSED = ".T"
HEADS = "integers_0_0_"
"""Begins the name of the shape (0, 0, heads, size of one) into which the graph splits its rows."""
WORDS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
FIRST_TYPE = "embeddings.token_type_embeddings.first"
INNER = "encoder.layer.0.intermediate.dense.weight"


def read_graph(path: Path) -> tuple[dict[str, NDArray[np.float32]], dict[str, JsonValue]]:
    """Read the tensors and the config of a model that the exporter wrote.

    Args:
        path: The ONNX file; the caller has verified it and the files that it names.

    Returns:
        The tensors under the names that Hugging Face gives them, and what config.json would say.

    Raises:
        MissingDependencyError: When onnx is not installed.
        EmbedderError: When onnx cannot read the file.
        TrainingError: When it is the graph of another model.
    """
    try:
        import onnx
    except ImportError as exc:
        raise MissingDependencyError("onnx", "train", f"Reading {path}") from exc
    with errors_of("onnx", path):
        graph = onnx.load(path).graph
        constants = {
            constant.name: onnx.numpy_helper.to_array(constant) for constant in graph.initializer
        }
        tensors = dict(_tensor(name, constants) for name in constants if _is_weight(name))
    return tensors, _config(tensors, constants, _epsilon(graph))


def _is_weight(name: str) -> bool:
    """Tell weights from scales, zero points and the numbers that the graph computes with."""
    is_ours = name.startswith(("embeddings.", "encoder."))
    return is_ours and not name.endswith(("_scale", "_zero_point"))


def _tensor(name: str, constants: Mapping[str, NDArray[Any]]) -> tuple[str, NDArray[np.float32]]:
    """Return a weight as it was before the export, and its name from then."""
    value, plain = constants[name], name.removesuffix(QUANTISED)
    if plain != name:
        zero, scale = constants[f"{plain}_zero_point"], constants[f"{plain}_scale"]
        value = (value.astype(np.float32) - zero.astype(np.float32)) * scale
    if plain == FIRST_TYPE:
        return plain.replace("first", "weight"), value[None]
    if plain.endswith(TRANSPOSED):
        return plain.removesuffix(TRANSPOSED), np.ascontiguousarray(value.T)
    return plain, value


def _config(
    tensors: Mapping[str, NDArray[np.float32]],
    constants: Mapping[str, NDArray[Any]],
    epsilon: float | None,
) -> dict[str, JsonValue]:
    """Return the config that fits the tensors."""
    for name in (WORDS, POSITIONS, INNER):
        if name not in tensors or tensors[name].ndim != 2:
            raise TrainingError(f"the graph has no matrix {name}")
    layers = {name.split(".")[2] for name in tensors if name.startswith("encoder.layer.")}
    splits = (value for name, value in constants.items() if name.startswith(HEADS))
    heads = next((int(split[2]) for split in splits if split.size == 4), None)
    return {
        "model_type": "bert",
        "hidden_act": "gelu",
        "position_embedding_type": "absolute",
        "vocab_size": len(tensors[WORDS]),
        "max_position_embeddings": len(tensors[POSITIONS]),
        "type_vocab_size": 1,
        "hidden_size": tensors[WORDS].shape[1],
        "intermediate_size": len(tensors[INNER]),
        "num_hidden_layers": len(layers),
        "num_attention_heads": heads,
        "layer_norm_eps": epsilon,
    }


def _epsilon(graph: Any) -> float | None:
    """Return the epsilon of the normalisations as it was written, before it became a float32."""
    norms = (node for node in graph.node if node.op_type == "LayerNormalization")
    values = (entry.f for node in norms for entry in node.attribute if entry.name == "epsilon")
    return next((float(str(np.float32(value))) for value in values), None)
