"""A BERT sentence encoder as an 8-bit ONNX model, reproducibly, and back."""

from __future__ import annotations

import contextlib
import logging
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.embedders.embedding import errors_of
from skillsearch.environ import forbid_telemetry
from skillsearch.errors import MissingDependencyError, TrainingError
from skillsearch.types import JsonValue

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnx.external_data_helper import set_external_data
except ImportError as exc:
    raise MissingDependencyError("onnx", "train", "Reading or exporting a model") from exc

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
_HEADS = "integers_0_0_"  # prefix of the name of the shape (0, 0, heads, size of a head)
_OUTPUT = "sentence_embedding"


def quantise(model: onnx.ModelProto, out: Path, apart: Mapping[str, str] = {}) -> None:
    """Write a model with 8-bit weights, and activations that are scaled at run time.

    ``reduce_range`` leaves 7 bits: without VNNI, x86 processors saturate at 8. It costs 0.001 of
    cosine.
    """
    forbid_telemetry()
    from onnxruntime.quantization import QuantType, quantize_dynamic

    root, silent = logging.getLogger(), logging.NullHandler()
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        # Else ONNX Runtime's logging would add its own handler.
        root.addHandler(silent)
        stack.callback(root.removeHandler, silent)
        whole = Path(scratch) / "model.onnx"
        quantize_dynamic(
            model,
            whole,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
            extra_options={"MatMulConstBOnly": True},
        )
        write_apart(onnx.load(whole), out, apart)


def write_apart(model: onnx.ModelProto, out: Path, apart: Mapping[str, str] = {}) -> None:
    """Write a model with its large weights beside it, taken out of `model` and aligned.

    They are in a file with `DATA_SUFFIX` or the one that `apart` gives; ONNX Runtime maps them: a
    load takes half the time, and no memory for unused ones.
    """
    beside = out.name + DATA_SUFFIX
    with contextlib.ExitStack() as stack:
        large = [t.name for t in model.graph.initializer if len(t.raw_data) >= ALIGNMENT]
        names = {beside, *(apart[name] for name in large if name in apart)}
        files = {name: stack.enter_context((out.parent / name).open("wb")) for name in names}
        for tensor in model.graph.initializer:
            if len(tensor.raw_data) >= ALIGNMENT:
                name = apart.get(tensor.name, beside)
                file = files[name]
                file.write(bytes(-file.tell() % ALIGNMENT))
                set_external_data(tensor, name, file.tell(), len(tensor.raw_data))
                file.write(tensor.raw_data)
                tensor.ClearField("raw_data")
    out.write_bytes(model.SerializeToString())


def read_graph(path: Path) -> tuple[dict[str, NDArray[np.float32]], dict[str, JsonValue]]:
    """Return tensors, under Hugging Face's names, and config of a verified model.

    Raises TrainingError if it is the graph of another model.
    """
    with errors_of("onnx", path):
        graph = onnx.load(path).graph
        constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        weights = [name for name in constants if name.startswith(("embeddings.", "encoder."))]
        weights = [name for name in weights if not name.endswith(("_scale", "_zero_point"))]
        tensors = dict(_tensor(name, constants) for name in weights)
    for name in (_WORDS, _POSITIONS, _INNER):
        if name not in tensors or tensors[name].ndim != 2:
            raise TrainingError(f"the graph has no matrix {name}")
    layers = {name.split(".")[2] for name in tensors if name.startswith("encoder.layer.")}
    splits = (value for name, value in constants.items() if name.startswith(_HEADS))
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
        "num_hidden_layers": len(layers),
        "num_attention_heads": next((int(split[2]) for split in splits if split.size == 4), None),
        # As written, before it became a float32.
        "layer_norm_eps": next((float(str(np.float32(value))) for value in values), None),
    }
    return tensors, config


def build_graph(
    tensors: Mapping[str, NDArray[np.float32]], config: Mapping[str, Any]
) -> onnx.ModelProto:
    """Write a BERT sentence encoder in float32 as a checked ONNX model.

    It goes from ``input_ids`` and ``attention_mask``, int64, to unit rows in
    ``sentence_embedding``.
    """
    return _BertGraph(tensors, config).build()


class _BertGraph:
    """BERT as ONNX operations; b texts, t tokens, d the hidden size, h heads."""

    def __init__(
        self, tensors: Mapping[str, NDArray[np.float32]], config: Mapping[str, Any]
    ) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self._weights = tensors
        self._hidden = int(config["hidden_size"])
        self._heads = int(config["num_attention_heads"])
        self._layers = int(config["num_hidden_layers"])
        self._epsilon = float(config["layer_norm_eps"])

    def build(self) -> onnx.ModelProto:
        node = self.node
        mask = node("Cast", "attention_mask", to=TensorProto.FLOAT)
        # (b, 1, 1, t) addend: 0 for a token, `MASKED` for padding.
        absent = node("Sub", self.scalar(1.0), node("Unsqueeze", mask, self.integers(1, 2)))
        padding = node("Mul", absent, self.scalar(MASKED))
        hidden = self._embeddings()
        for layer in range(self._layers):
            prefix = f"encoder.layer.{layer}"
            attended = self._attention(hidden, padding, f"{prefix}.attention")
            hidden = self._feed_forward(attended, prefix)
        # The mean over the tokens that are not padding, scaled to unit length: (b, d).
        kept = node("Mul", hidden, node("Unsqueeze", mask, self.integers(2)))
        total = node("ReduceSum", kept, self.integers(1), keepdims=0)
        mean = node("Div", total, node("ReduceSum", mask, self.integers(1), keepdims=1))
        norm = node("ReduceL2", mean, axes=[1], keepdims=1)
        node("Div", mean, norm, name=_OUTPUT)
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
            for name in ("input_ids", "attention_mask")
        ]
        output = helper.make_tensor_value_info(_OUTPUT, TensorProto.FLOAT, ["texts", self._hidden])
        constants = list(self.constants.values())
        graph = helper.make_graph(self.nodes, "sentence", inputs, [output], constants)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], producer_name="skillsearch")
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model)
        return model

    def node(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        output = name or f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def constant(self, name: str, value: NDArray[Any] | None = None) -> str:
        """Add a constant, by default the weight of that name, once, and return the name."""
        if name not in self.constants:
            value = self._weights[name] if value is None else value
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def scalar(self, value: float) -> str:
        return self.constant(f"scalar_{value!r}", np.array(value, dtype=np.float32))

    def integers(self, *values: int) -> str:
        name = "integers_" + "_".join(map(str, values))
        return self.constant(name, np.array(values, dtype=np.int64))

    def _linear(self, value: str, prefix: str) -> str:
        """Add value @ weight.T + bias, with the matrix stored transposed, as MatMul wants it."""
        matrix = self.constant(f"{prefix}.weight.T", self._weights[f"{prefix}.weight"].T)
        product = self.node("MatMul", value, matrix)
        return self.node("Add", product, self.constant(f"{prefix}.bias"))

    def _layer_norm(self, value: str, prefix: str) -> str:
        scale, bias = self.constant(f"{prefix}.weight"), self.constant(f"{prefix}.bias")
        return self.node("LayerNormalization", value, scale, bias, axis=-1, epsilon=self._epsilon)

    def _embeddings(self) -> str:
        """Add up word, position and (always the first) token type: normalised, (b, t, d)."""
        words = self.node("Gather", self.constant(_WORDS), "input_ids")
        tokens = self.node("Gather", self.node("Shape", "input_ids"), self.integers(1))
        table = self.constant(_POSITIONS)
        positions = self.node("Slice", table, self.integers(0), tokens, self.integers(0))
        first_type = self._weights["embeddings.token_type_embeddings.weight"][0]
        token_type = self.constant(_FIRST_TYPE, first_type)
        total = self.node("Add", self.node("Add", words, positions), token_type)
        return self._layer_norm(total, "embeddings.LayerNorm")

    def _attention(self, hidden: str, padding: str, prefix: str) -> str:
        """Multi-head self-attention with its residual and normalisation."""
        size = self._hidden // self._heads

        def project(part: str, order: Sequence[int]) -> str:
            """Project (b, t, d) and split it into heads, axes (b, t, h, d/h) put into `order`."""
            shape = self.integers(0, 0, self._heads, size)
            split = self.node("Reshape", self._linear(hidden, f"{prefix}.self.{part}"), shape)
            return self.node("Transpose", split, perm=list(order))

        query, key = project("query", (0, 2, 1, 3)), project("key", (0, 2, 3, 1))
        value = project("value", (0, 2, 1, 3))
        scale = self.scalar(1.0 / math.sqrt(size))
        scores = self.node("Mul", self.node("MatMul", query, key), scale)
        shares = self.node("Softmax", self.node("Add", scores, padding), axis=-1)
        mixed = self.node("Transpose", self.node("MatMul", shares, value), perm=[0, 2, 1, 3])
        joined = self.node("Reshape", mixed, self.integers(0, 0, self._hidden))
        output = self.node("Add", self._linear(joined, f"{prefix}.output.dense"), hidden)
        return self._layer_norm(output, f"{prefix}.output.LayerNorm")

    def _feed_forward(self, hidden: str, prefix: str) -> str:
        """Two linear layers with the exact (erf) GELU between, residual and normalisation."""
        inner = self._linear(hidden, f"{prefix}.intermediate.dense")
        error = self.node("Erf", self.node("Div", inner, self.scalar(math.sqrt(2.0))))
        gate = self.node("Add", error, self.scalar(1.0))
        gelu = self.node("Mul", self.node("Mul", inner, gate), self.scalar(0.5))
        output = self.node("Add", self._linear(gelu, f"{prefix}.output.dense"), hidden)
        return self._layer_norm(output, f"{prefix}.output.LayerNorm")


def _tensor(name: str, constants: Mapping[str, NDArray[Any]]) -> tuple[str, NDArray[np.float32]]:
    """Return a weight as it was before the export, and its original name."""
    value, plain = constants[name], name.removesuffix(_QUANTISED)
    if plain != name:
        zero, scale = constants[f"{plain}_zero_point"], constants[f"{plain}_scale"]
        value = (value.astype(np.float32) - zero.astype(np.float32)) * scale
    if plain == _FIRST_TYPE:
        return plain.replace("first", "weight"), value[None]
    if plain.endswith(".T"):
        return plain.removesuffix(".T"), np.ascontiguousarray(value.T)
    return plain, value
