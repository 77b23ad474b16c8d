"""A BERT sentence encoder as an 8-bit ONNX model, reproducibly, and back."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedding import errors_of
from skillsearch.embedders.onnx_embedder import write_quantised
from skillsearch.errors import MissingDependencyError, TrainingError
from skillsearch.types import JsonValue

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnx.external_data_helper import set_external_data
except ImportError as exc:
    raise MissingDependencyError("onnx", "train", "Reading or exporting a model") from exc

DATA_SUFFIX = "_data"  # suffix of the file of large weights, as Hugging Face names it
ALIGNMENT = 16 * 1024
"""Weights of at least so many bytes are in the data file, at multiples of it: whole memory pages
(4 KiB, 16 KiB on Apple's processors), which ONNX Runtime maps without reading or copying."""
OPSET = 17  # first operator set with LayerNormalization; every onnxruntime that we allow reads it
IR_VERSION = 8  # the file format that came with opset 17
MASKED = -1e9
"""Added to the attention of padding; far below any score, and safe from overflow to -inf."""
_QUANTISED = "_quantized"
"""Suffix of ONNX Runtime for a constant in integers; its scale and zero point are beside it."""
_WORDS = "embeddings.word_embeddings.weight"
WORDS = f"{_WORDS}{_QUANTISED}"  # the rows of the words in a quantised model: half of its bytes
_POSITIONS = "embeddings.position_embeddings.weight"
_FIRST_TYPE = "embeddings.token_type_embeddings.first"
_INNER = "encoder.layer.0.intermediate.dense.weight"
_HEADS = re.compile(r"\bintegers_0_0_(\d+)_\d+\b")  # the shape (0, 0, heads, size of a head)
_OUTPUT = "sentence_embedding"


def quantise(model: onnx.ModelProto, out: Path, words: str | None = None) -> None:
    """Write a model with 8-bit weights, and activations that are scaled at run time."""
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch) / "model.onnx"
        write_quantised(model, whole)
        write_apart(onnx.load(whole), out, words)


def write_apart(model: onnx.ModelProto, out: Path, words: str | None = None) -> None:
    """Write a model with its large weights beside it, taken out of `model` and aligned.

    They are in a file with `DATA_SUFFIX`, those of the words in the file `words` if it is given.
    ONNX Runtime maps them: a load takes half the time, and no memory for unused ones.
    """
    beside = out.name + DATA_SUFFIX
    (out.parent / beside).write_bytes(b"")
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) >= ALIGNMENT:
            name = words if words and tensor.name == WORDS else beside
            with (out.parent / name).open("ab") as file:
                file.write(bytes(-file.tell() % ALIGNMENT))
                set_external_data(tensor, name, file.tell(), len(tensor.raw_data))
                file.write(tensor.raw_data)
            tensor.ClearField("raw_data")
    out.write_bytes(model.SerializeToString())


def read_graph(path: Path) -> tuple[dict[str, NDArray[np.float32]], dict[str, JsonValue]]:
    """Return tensors, by Hugging Face's names, and config; TrainingError for another's graph."""
    with errors_of("onnx", path):
        graph = onnx.load(path).graph
        tensors = _weights({one.name: numpy_helper.to_array(one) for one in graph.initializer})
    for name in (_WORDS, _POSITIONS, _INNER):
        if name not in tensors or tensors[name].ndim != 2:
            raise TrainingError(f"the graph has no matrix {name}")
    heads = _HEADS.search(" ".join(one.name for one in graph.initializer))
    norms = (node for node in graph.node if node.op_type == "LayerNormalization")
    values = (entry.f for node in norms for entry in node.attribute if entry.name == "epsilon")
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "position_embedding_type": "absolute",
        "vocab_size": len(tensors[_WORDS]),
        "max_position_embeddings": len(tensors[_POSITIONS]),
        "type_vocab_size": 1,
        "hidden_size": tensors[_WORDS].shape[1],
        "intermediate_size": len(tensors[_INNER]),
        "num_hidden_layers": sum(name.endswith("intermediate.dense.bias") for name in tensors),
        "num_attention_heads": int(heads[1]) if heads else None,
        # As written, before it became a float32.
        "layer_norm_eps": next((float(str(np.float32(value))) for value in values), None),
    }
    return tensors, config


class BertGraph:
    """BERT as ONNX operations in float32; b texts, t tokens, d the hidden size, h heads."""

    def __init__(
        self, tensors: Mapping[str, NDArray[np.float32]], config: Mapping[str, Any]
    ) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._weights = tensors
        sizes = ("hidden_size", "num_attention_heads", "num_hidden_layers")
        self._hidden, self._heads, self._layers = (int(config[name]) for name in sizes)
        self._epsilon = float(config["layer_norm_eps"])

    def build(self) -> onnx.ModelProto:
        """Return a checked model of ``input_ids`` and ``attention_mask``, int64, and unit rows."""
        node = self._node
        mask = node("Cast", "attention_mask", to=TensorProto.FLOAT)
        # (b, 1, 1, t) addend: 0 for a token, `MASKED` for padding.
        absent = node("Sub", self._scalar(1.0), node("Unsqueeze", mask, self._integers(1, 2)))
        padding = node("Mul", absent, self._scalar(MASKED))
        hidden = self._embeddings()
        for layer in range(self._layers):
            prefix = f"encoder.layer.{layer}"
            attended = self._attention(hidden, padding, f"{prefix}.attention")
            hidden = self._feed_forward(attended, prefix)
        # The mean over the tokens that are not padding, scaled to unit length: (b, d).
        kept = node("Mul", hidden, node("Unsqueeze", mask, self._integers(2)))
        total = node("ReduceSum", kept, self._integers(1), keepdims=0)
        mean = node("Div", total, node("ReduceSum", mask, self._integers(1), keepdims=1))
        norm = node("ReduceL2", mean, axes=[1], keepdims=1)
        node("Div", mean, norm, name=_OUTPUT)
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
            for name in ("input_ids", "attention_mask")
        ]
        output = helper.make_tensor_value_info(_OUTPUT, TensorProto.FLOAT, ["texts", self._hidden])
        constants = list(self._constants.values())
        graph = helper.make_graph(self._nodes, "sentence", inputs, [output], constants)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], producer_name="skillsearch")
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model)
        return model

    def _node(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        output = name or f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def _constant(self, name: str, value: NDArray[Any] | None = None) -> str:
        """Add a constant, by default the weight of that name, once, and return the name."""
        if name not in self._constants:
            value = self._weights[name] if value is None else value
            self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def _scalar(self, value: float) -> str:
        return self._constant(f"scalar_{value!r}", np.array(value, dtype=np.float32))

    def _integers(self, *values: int) -> str:
        name = "integers_" + "_".join(map(str, values))
        return self._constant(name, np.array(values, dtype=np.int64))

    def _linear(self, value: str, prefix: str) -> str:
        """Add value @ weight.T + bias, with the matrix stored transposed, as MatMul wants it."""
        matrix = self._constant(f"{prefix}.weight.T", self._weights[f"{prefix}.weight"].T)
        product = self._node("MatMul", value, matrix)
        return self._node("Add", product, self._constant(f"{prefix}.bias"))

    def _layer_norm(self, value: str, prefix: str) -> str:
        scale, bias = self._constant(f"{prefix}.weight"), self._constant(f"{prefix}.bias")
        return self._node("LayerNormalization", value, scale, bias, axis=-1, epsilon=self._epsilon)

    def _embeddings(self) -> str:
        """Add up word, position and (always the first) token type: normalised, (b, t, d)."""
        words = self._node("Gather", self._constant(_WORDS), "input_ids")
        tokens = self._node("Gather", self._node("Shape", "input_ids"), self._integers(1))
        table = self._constant(_POSITIONS)
        positions = self._node("Slice", table, self._integers(0), tokens, self._integers(0))
        first_type = self._weights["embeddings.token_type_embeddings.weight"][0]
        token_type = self._constant(_FIRST_TYPE, first_type)
        total = self._node("Add", self._node("Add", words, positions), token_type)
        return self._layer_norm(total, "embeddings.LayerNorm")

    def _attention(self, hidden: str, padding: str, prefix: str) -> str:
        """Multi-head self-attention with its residual and normalisation."""
        size = self._hidden // self._heads

        def project(part: str, order: Sequence[int]) -> str:
            """Project (b, t, d) and split it into heads, axes (b, t, h, d/h) put into `order`."""
            shape = self._integers(0, 0, self._heads, size)
            split = self._node("Reshape", self._linear(hidden, f"{prefix}.self.{part}"), shape)
            return self._node("Transpose", split, perm=list(order))

        query, key = project("query", (0, 2, 1, 3)), project("key", (0, 2, 3, 1))
        value = project("value", (0, 2, 1, 3))
        scale = self._scalar(1.0 / math.sqrt(size))
        scores = self._node("Mul", self._node("MatMul", query, key), scale)
        shares = self._node("Softmax", self._node("Add", scores, padding), axis=-1)
        mixed = self._node("Transpose", self._node("MatMul", shares, value), perm=[0, 2, 1, 3])
        joined = self._node("Reshape", mixed, self._integers(0, 0, self._hidden))
        output = self._node("Add", self._linear(joined, f"{prefix}.output.dense"), hidden)
        return self._layer_norm(output, f"{prefix}.output.LayerNorm")

    def _feed_forward(self, hidden: str, prefix: str) -> str:
        """Two linear layers with the exact (erf) GELU between, residual and normalisation."""
        inner = self._linear(hidden, f"{prefix}.intermediate.dense")
        error = self._node("Erf", self._node("Div", inner, self._scalar(math.sqrt(2.0))))
        gate = self._node("Add", error, self._scalar(1.0))
        gelu = self._node("Mul", self._node("Mul", inner, gate), self._scalar(0.5))
        output = self._node("Add", self._linear(gelu, f"{prefix}.output.dense"), hidden)
        return self._layer_norm(output, f"{prefix}.output.LayerNorm")


def _weights(constants: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """Return the weights among the constants of a graph, as they were before the export."""
    tensors = {}
    for name, value in constants.items():
        plain = name.removesuffix(_QUANTISED)
        is_weight = plain.startswith(("embeddings.", "encoder."))
        if not is_weight or plain.endswith(("_scale", "_zero_point")):
            continue
        if plain != name:
            zero, scale = constants[f"{plain}_zero_point"], constants[f"{plain}_scale"]
            value = (value.astype(np.float32) - zero.astype(np.float32)) * scale
        if plain == _FIRST_TYPE:
            plain, value = plain.replace("first", "weight"), value[None]
        elif plain.endswith(".T"):
            plain, value = plain.removesuffix(".T"), np.ascontiguousarray(value.T)
        tensors[plain] = value
    return tensors
