"""A BERT sentence encoder as an 8-bit ONNX model, and back; the only importer of onnx.

The same onnx and onnxruntime give the same bytes on every run.
"""

from __future__ import annotations

import contextlib
import logging
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.embedders.runtime import errors_of
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

DATA_SUFFIX = "_data"
"""Suffix of the file of large weights, as Hugging Face names it."""

ALIGNMENT = 16 * 1024
"""Weights of at least so many bytes are in the data file, at multiples of it: whole memory pages
(4 KiB, 16 KiB on Apple's processors), which ONNX Runtime maps without reading or copying."""
OPSET = 17
"""First operator set with LayerNormalization; every onnxruntime that we allow reads it."""

IR_VERSION = 8
"""The file format that came with opset 17."""

MASKED = -1e9
"""Added to the attention of padding; far below any score, and safe from overflow to -inf."""

_QUANTISED = "_quantized"
"""Suffix of ONNX Runtime for a constant in integers; its scale and zero point are beside it."""
WORDS = f"embeddings.word_embeddings.weight{_QUANTISED}"
"""The rows of the words in a quantised model: half of its bytes."""
_WORDS = "embeddings.word_embeddings.weight"
_POSITIONS = "embeddings.position_embeddings.weight"
_FIRST_TYPE = "embeddings.token_type_embeddings.first"
_INNER = "encoder.layer.0.intermediate.dense.weight"
_HEADS = "integers_0_0_"
"""Prefix of the name of the shape (0, 0, heads, size of a head)."""


def quantise(model: onnx.ModelProto, out: Path, apart: Mapping[str, str] = {}) -> None:
    """Write a model with 8-bit weights, and activations that are scaled at run time.

    The matrices use 7 of the 8 bits (``reduce_range``): x86 processors without VNNI add products of
    unsigned and signed bytes in 16 bits, where full-range weights saturate, and the vectors get
    worse. Seven bits cannot saturate, and cost 0.001 of mean cosine.
    """
    forbid_telemetry()
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as scratch, _silent_root_logger():
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
    """Write a model with its large weights beside it, as ONNX "external data".

    They follow each other in the order of the graph, aligned to `ALIGNMENT` with zeros between.
    ONNX Runtime maps them: a load takes half the time, and no memory for unused ones. They are
    taken out of `model` into a file with `DATA_SUFFIX`, or into the file that `apart` gives for
    their name.
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
    """Return the tensors, under Hugging Face's names, and the config of an exported model.

    The caller has verified the file and those that it names. Raises TrainingError if it is the
    graph of another model.
    """
    with errors_of("onnx", path):
        graph = onnx.load(path).graph
        constants = {
            constant.name: numpy_helper.to_array(constant) for constant in graph.initializer
        }
        tensors = dict(_tensor(name, constants) for name in constants if _is_weight(name))
    return tensors, _config(tensors, constants, _epsilon(graph))


def build_graph(
    tensors: Mapping[str, NDArray[np.float32]], config: Mapping[str, Any]
) -> onnx.ModelProto:
    """Write a BERT sentence encoder in float32 as a checked ONNX model.

    It goes from ``input_ids`` and ``attention_mask``, int64 of shape (texts, tokens), to
    ``sentence_embedding``, float32 of shape (texts, hidden size), rows of unit length.
    """
    return _BertGraph(tensors, config).build()


class _BertGraph:
    """A BERT encoder with mean pooling and unit length as ONNX operations.

    Values are known by their names. Shapes: b texts, t tokens, d the hidden size, h heads.
    """

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
        """Return the checked model: (b, t) token ids and mask to (b, d) unit vectors."""
        mask = self.node("Cast", "attention_mask", to=TensorProto.FLOAT)
        padding = self._padding(mask)
        hidden = self._embeddings()
        for layer in range(self._layers):
            prefix = f"encoder.layer.{layer}"
            attended = self._attention(hidden, padding, f"{prefix}.attention")
            hidden = self._feed_forward(attended, prefix)
        self._sentence(hidden, mask)
        return self._model()

    def node(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add one operation and return the name of its output."""
        output = name or f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Add a constant, once per name, and return the name."""
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def scalar(self, value: float) -> str:
        """Add a float32 constant and return its name."""
        return self.constant(f"scalar_{value!r}", np.array(value, dtype=np.float32))

    def integers(self, *values: int) -> str:
        """Add a one-dimensional int64 constant and return its name."""
        name = "integers_" + "_".join(map(str, values))
        return self.constant(name, np.array(values, dtype=np.int64))

    def _weight(self, name: str) -> str:
        """Add one of the model's own tensors as a constant."""
        return self.constant(name, self._weights[name])

    def _linear(self, value: str, prefix: str) -> str:
        """Add value @ weight.T + bias, with the matrix stored transposed, as MatMul wants it."""
        matrix = self.constant(f"{prefix}.weight.T", self._weights[f"{prefix}.weight"].T)
        product = self.node("MatMul", value, matrix)
        return self.node("Add", product, self._weight(f"{prefix}.bias"))

    def _layer_norm(self, value: str, prefix: str) -> str:
        scale, bias = self._weight(f"{prefix}.weight"), self._weight(f"{prefix}.bias")
        return self.node("LayerNormalization", value, scale, bias, axis=-1, epsilon=self._epsilon)

    def _padding(self, mask: str) -> str:
        """(b, t) mask to a (b, 1, 1, t) addend: 0 for a token, `MASKED` for padding."""
        absent = self.node(
            "Sub", self.scalar(1.0), self.node("Unsqueeze", mask, self.integers(1, 2))
        )
        return self.node("Mul", absent, self.scalar(MASKED))

    def _embeddings(self) -> str:
        """Add up word, position and (always the first) token type: normalised, (b, t, d)."""
        words = self.node("Gather", self._weight("embeddings.word_embeddings.weight"), "input_ids")
        tokens = self.node("Gather", self.node("Shape", "input_ids"), self.integers(1))
        table = self._weight("embeddings.position_embeddings.weight")
        positions = self.node("Slice", table, self.integers(0), tokens, self.integers(0))
        first_type = self._weights["embeddings.token_type_embeddings.weight"][0]
        token_type = self.constant("embeddings.token_type_embeddings.first", first_type)
        total = self.node("Add", self.node("Add", words, positions), token_type)
        return self._layer_norm(total, "embeddings.LayerNorm")

    def _heads_of(self, value: str, prefix: str, order: Sequence[int]) -> str:
        """Project (b, t, d) and split it into heads, axes (b, t, h, d/h) put into `order`."""
        shape = self.integers(0, 0, self._heads, self._hidden // self._heads)
        split = self.node("Reshape", self._linear(value, prefix), shape)
        return self.node("Transpose", split, perm=list(order))

    def _attention(self, hidden: str, padding: str, prefix: str) -> str:
        """Multi-head self-attention with its residual and normalisation."""
        query = self._heads_of(hidden, f"{prefix}.self.query", (0, 2, 1, 3))
        key = self._heads_of(hidden, f"{prefix}.self.key", (0, 2, 3, 1))
        value = self._heads_of(hidden, f"{prefix}.self.value", (0, 2, 1, 3))
        scale = self.scalar(1.0 / math.sqrt(self._hidden // self._heads))
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

    def _sentence(self, hidden: str, mask: str) -> None:
        """Mean over the tokens that are not padding, scaled to unit length: (b, d)."""
        kept = self.node("Mul", hidden, self.node("Unsqueeze", mask, self.integers(2)))
        total = self.node("ReduceSum", kept, self.integers(1), keepdims=0)
        count = self.node("ReduceSum", mask, self.integers(1), keepdims=1)
        mean = self.node("Div", total, count)
        norm = self.node("ReduceL2", mean, axes=[1], keepdims=1)
        self.node("Div", mean, norm, name="sentence_embedding")

    def _model(self) -> onnx.ModelProto:
        """Join what was collected into a model, and check it."""
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
            for name in ("input_ids", "attention_mask")
        ]
        output = helper.make_tensor_value_info(
            "sentence_embedding", TensorProto.FLOAT, ["texts", self._hidden]
        )
        constants = list(self.constants.values())
        graph = helper.make_graph(self.nodes, "sentence", inputs, [output], constants)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], producer_name="skillsearch")
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model)
        return model


@contextlib.contextmanager
def _silent_root_logger() -> Iterator[None]:
    """Keep the root logger without the handler that ONNX Runtime's logging would add."""
    root, silent = logging.getLogger(), logging.NullHandler()
    root.addHandler(silent)
    try:
        yield
    finally:
        root.removeHandler(silent)


def _is_weight(name: str) -> bool:
    """Return whether a constant is a weight, not a scale or a number of the computation."""
    is_ours = name.startswith(("embeddings.", "encoder."))
    return is_ours and not name.endswith(("_scale", "_zero_point"))


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


def _config(
    tensors: Mapping[str, NDArray[np.float32]],
    constants: Mapping[str, NDArray[Any]],
    epsilon: float | None,
) -> dict[str, JsonValue]:
    """Return the config that fits the tensors."""
    for name in (_WORDS, _POSITIONS, _INNER):
        if name not in tensors or tensors[name].ndim != 2:
            raise TrainingError(f"the graph has no matrix {name}")
    layers = {name.split(".")[2] for name in tensors if name.startswith("encoder.layer.")}
    splits = (value for name, value in constants.items() if name.startswith(_HEADS))
    heads = next((int(split[2]) for split in splits if split.size == 4), None)
    return {
        "model_type": "bert",
        "hidden_act": "gelu",
        "position_embedding_type": "absolute",
        "vocab_size": len(tensors[_WORDS]),
        "max_position_embeddings": len(tensors[_POSITIONS]),
        "type_vocab_size": 1,
        "hidden_size": tensors[_WORDS].shape[1],
        "intermediate_size": len(tensors[_INNER]),
        "num_hidden_layers": len(layers),
        "num_attention_heads": heads,
        "layer_norm_eps": epsilon,
    }


def _epsilon(graph: Any) -> float | None:
    """Return the epsilon of the normalisations as written, before it became a float32."""
    norms = (node for node in graph.node if node.op_type == "LayerNormalization")
    values = (entry.f for node in norms for entry in node.attribute if entry.name == "epsilon")
    return next((float(str(np.float32(value))) for value in values), None)
