"""The layers of a model in our own form as an 8-bit ONNX graph, reproducibly, and back."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedding import errors_of
from skillsearch.embedders.word_table import WordTable
from skillsearch.errors import importing
from skillsearch.readers.mapped_reader import (
    BEYOND,
    HEAD,
    NUMBER_SCALE,
    OUT_OF_REACH,
    OUTPUT,
    PRODUCT_SCALE,
    REQUEST,
    SKILL,
)
from skillsearch.training.bert_weights import BertWeights, Neutral

with importing("onnx", "train", "Reading or exporting a model"):
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnx.external_data_helper import set_external_data

DATA_SUFFIX = "_data"  # suffix of the file of large weights, as Hugging Face names it
ALIGNMENT = 16 * 1024
"""Weights of at least so many bytes are in the data file, at multiples of it: whole memory pages
(4 KiB, 16 KiB on Apple's processors), which ONNX Runtime maps without reading or copying."""
OPSET = 17  # first operator set with LayerNormalization; every onnxruntime that we allow reads it
IR_VERSION = 8  # the file format that came with opset 17
CONTRIB = "com.microsoft"
"""Operators of ONNX Runtime's own. Its optimiser would make most of these out of standard ones;
written at once they make a tenth of the graph, which loads in half the time."""
LARGEST = np.float32(64)
"""Weights use 7 of 8 bits, at 0.001 of cosine: without VNNI, x86 saturates at 8."""
JOINED = {
    "qkv": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attended": ("attention.output.dense",),
    "inner": ("intermediate.dense",),
    "outer": ("output.dense",),
}
"""The matrices of a layer in the graph, each with the weights that it joins."""
NORM_OF = {"attended": "attention.output.LayerNorm", "outer": "output.LayerNorm"}
_SMOOTH = ".smooth"  # ends the name of what the input of a matrix is multiplied by
_FIRST_NORM = "embeddings.LayerNorm"
_GRAPH = "skillsearch-e5"
_MASKED = -1e9  # added to what has no share in a softmax


class _Attributes(TypedDict, total=False):
    """What an operator of a graph may be told."""

    axes: Sequence[int]
    axis: int
    domain: str
    epsilon: float
    keepdims: int
    num_heads: int
    p: int
    perm: Sequence[int]
    to: int


def build_graph(weights: BertWeights) -> onnx.ModelProto:
    """Return the graph of an embedder or a reader.

    An embedder's takes ``rows``, (1, tokens, dimensions), with positions, and gives a ``vector``:
    their mean after all layers, at unit length before what is neutral is taken out. A reader's
    takes rows of words alone, since it reads more tokens than the words have positions, and
    ``parts`` (see `skillsearch.readers.mapped_reader`), and gives ``logits``.
    """
    return _GraphWriter(weights).build()


def quantise(weights: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round a matrix (outputs, inputs) to 8 bits as ONNX Runtime's ``quantize_dynamic`` does.

    Returns it transposed, as MatMul wants it, and the scale of each output.
    """
    scale = np.abs(weights).max(axis=1) / LARGEST
    rounded = np.rint(weights / scale[:, None]).astype(np.int8)
    return np.ascontiguousarray(rounded.T), scale


def write_apart(model: onnx.ModelProto, out: Path) -> None:
    """Write a model with its large weights in a file next to it, taken out of `model`, aligned.

    They are in a file with `DATA_SUFFIX`. ONNX Runtime maps them: a load takes half the time, and
    no memory for unused ones.
    """
    beside = out.name + DATA_SUFFIX
    with (out.parent / beside).open("wb") as file:
        for tensor in model.graph.initializer:
            if len(tensor.raw_data) >= ALIGNMENT:
                file.write(bytes(-file.tell() % ALIGNMENT))
                set_external_data(tensor, beside, file.tell(), len(tensor.raw_data))
                file.write(tensor.raw_data)
                tensor.ClearField("raw_data")
    out.write_bytes(model.SerializeToString())


def read_graph(path: Path, words: WordTable) -> BertWeights:
    """Return the weights of a graph that was written here; an EmbedderError for any other."""
    with errors_of("onnx", path):
        graph = onnx.load(path).graph
        constants = {part.name: numpy_helper.to_array(part) for part in graph.initializer}
        attributes = {
            (node.op_type, entry.name): helper.get_attribute_value(entry)
            for node in graph.node
            for entry in node.attribute
        }
        neutral = None
        if "apart" in constants:
            neutral = Neutral(constants["centre"], constants["apart"])
        return BertWeights(
            words,
            _tensors_of(constants),
            constants.get("positions", words.positions),
            attributes["MultiHeadAttention", "num_heads"],
            # As written, before it became a float32.
            float(str(np.float32(attributes["LayerNormalization", "epsilon"]))),
            neutral,
            {
                name.removesuffix(_SMOOTH): 1 / value
                for name, value in constants.items()
                if name.endswith(_SMOOTH)
            },
        )


def _tensors_of(constants: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """Return the weights that the constants of a graph may have been before."""

    def norm(key: str) -> dict[str, NDArray[np.float32]]:
        return {"weight": constants[f"{key}.norm.scale"], "bias": constants[f"{key}.norm.bias"]}

    first = {"weight": constants["norm.scale"], "bias": constants["norm.bias"]}
    tensors = {f"{_FIRST_NORM}.{part}": value for part, value in first.items()}
    for layer in itertools.count():
        if f"{layer}.qkv" not in constants:
            break
        for name, sources in JOINED.items():
            key = f"{layer}.{name}"
            matrix = _unrounded(constants[key], key).T * constants[f"{key}.scale"][:, None]
            matrices = np.split(matrix * constants.get(f"{key}{_SMOOTH}", 1), len(sources))
            biases = np.split(constants[f"{key}.bias"], len(sources))
            for source, weight, bias in zip(sources, matrices, biases, strict=True):
                tensors[f"encoder.layer.{layer}.{source}.weight"] = np.ascontiguousarray(weight)
                tensors[f"encoder.layer.{layer}.{source}.bias"] = bias
        for name, source in NORM_OF.items():
            for part, value in norm(f"{layer}.{name}").items():
                tensors[f"encoder.layer.{layer}.{source}.{part}"] = value
    for name, value in constants.items():
        if name.startswith(HEAD):
            tensors[name] = np.ascontiguousarray(value.T)
    return tensors


def _unrounded(whole: NDArray[np.int8], name: str) -> NDArray[np.float32]:
    """Return numbers at random that round to those of a matrix, the same for a name each time.

    Training changes most weights by less than half a step of 8 bits: rounded again, they would be
    what they were, and nothing learned. The largest of a column stay, since they make its scale.
    """
    chance = np.random.default_rng(list(name.encode()))
    away = chance.uniform(-0.49, 0.49, whole.shape).astype(np.float32)
    largest = np.abs(whole).max(axis=0, keepdims=True)
    return np.where(np.abs(whole) < largest, whole + away, whole).astype(np.float32)


class _GraphWriter:
    """Collects the nodes of a graph and their constants."""

    def __init__(self, weights: BertWeights) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def build(self) -> onnx.ModelProto:
        weights, size = self._weights, self._weights.words.dimensions
        self._constant("sizes", np.full(3, size, np.int64))
        names = self._norm_constants("norm", _FIRST_NORM)
        rows = self._placed() if weights.is_reader else "rows"
        hidden = self._node("LayerNormalization", rows, *names, axis=-1, epsilon=weights.epsilon)
        for layer in range(weights.layers):
            hidden = self._layer(hidden, layer)
        shape: list[int | str] = [1, "tokens", size]
        inputs = [helper.make_tensor_value_info("rows", TensorProto.FLOAT, shape)]
        if weights.is_reader:
            inputs.append(helper.make_tensor_value_info("parts", TensorProto.INT64, shape[:2]))
            output, name, shape = self._head(hidden), OUTPUT, [1]
        else:
            output, name, shape = self._vector(hidden), "vector", [1, size]
        self._nodes.append(helper.make_node("Identity", [output], [name]))
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
        constants = list(self._constants.values())
        graph = helper.make_graph(self._nodes, _GRAPH, inputs, outputs, constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="skillsearch")
        model.ir_version = IR_VERSION
        return model

    def _placed(self) -> str:
        """Add the positions of the first tokens."""
        count = self._node("Gather", self._node("Shape", "rows"), self._integers(1))
        table = self._constant("positions", self._weights.positions)
        zero = self._integers(0)
        return self._node("Add", "rows", self._node("Slice", table, zero, count, zero))

    def _vector(self, hidden: str) -> str:
        mean = self._node("ReduceMean", hidden, axes=[1], keepdims=0)
        unit = self._node("LpNormalization", mean, axis=-1, p=2)
        if (neutral := self._weights.neutral) is None:
            return unit
        rest = self._node("Sub", unit, self._constant("centre", neutral.centre))
        return self._node("MatMul", rest, self._constant("apart", neutral.apart))

    def _layer(self, hidden: str, layer: int) -> str:
        """Attention and feed-forward, each with its residual and normalisation."""
        joined = self._linear(hidden, layer, "qkv")
        parts = [f"{layer}.{part}" for part in ("query", "key", "value")]
        self._nodes.append(helper.make_node("Split", [joined, "sizes"], parts, axis=-1))
        heads = self._weights.heads
        mixed = self._node("MultiHeadAttention", *parts, domain=CONTRIB, num_heads=heads)
        hidden = self._add_norm(self._linear(mixed, layer, "attended"), hidden, layer, "attended")
        inner = self._node("Gelu", self._linear(hidden, layer, "inner"), domain=CONTRIB)
        return self._add_norm(self._linear(inner, layer, "outer"), hidden, layer, "outer")

    def _linear(self, value: str, layer: int, name: str) -> str:
        """Multiply by an 8-bit matrix, the value rounded to 8 bits on the way, and add the bias."""
        tensors, sources = self._weights.tensors, JOINED[name]
        key, prefixes = f"{layer}.{name}", [f"encoder.layer.{layer}.{part}" for part in sources]
        whole = np.concatenate([tensors[f"{prefix}.weight"] for prefix in prefixes])
        if (factors := self._weights.factors.get(key)) is not None:
            value = self._node("Mul", value, self._constant(f"{key}{_SMOOTH}", 1 / factors))
            whole = whole * factors
        matrix, scale = quantise(whole)
        bias = np.concatenate([tensors[f"{prefix}.bias"] for prefix in prefixes])
        parts: dict[str, NDArray[Any]] = {key: matrix, f"{key}.scale": scale, f"{key}.bias": bias}
        names = [self._constant(part, array) for part, array in parts.items()]
        return self._node("DynamicQuantizeMatMul", value, *names[:2], "", names[2], domain=CONTRIB)

    def _add_norm(self, value: str, residual: str, layer: int, name: str) -> str:
        """Add a residual and normalise."""
        source, epsilon = f"encoder.layer.{layer}.{NORM_OF[name]}", self._weights.epsilon
        return self._node(
            "SkipLayerNormalization",
            value,
            residual,
            *self._norm_constants(f"{layer}.{name}.norm", source),
            domain=CONTRIB,
            epsilon=epsilon,
        )

    def _norm_constants(self, key: str, source: str) -> list[str]:
        """Add the scale and bias of a normalisation."""
        parts = {"scale": "weight", "bias": "bias"}
        return [
            self._constant(f"{key}.{name}", self._weights.tensors[f"{source}.{part}"])
            for name, part in parts.items()
        ]

    def _head(self, hidden: str) -> str:
        """Add the head of `cross_encoder.ReaderHead`; it is small, and stays in float32."""
        node, first = self._node, self._integers(1)
        request, skill = self._tokens_of(REQUEST), self._tokens_of(SKILL)
        beginning = node("Slice", hidden, self._integers(0), first, first)
        means = [self._mean(hidden, tokens) for tokens in (request, skill)]
        product = node("Mul", *(self._unit(mean) for mean in means))
        nearest = self._nearest(hidden, skill)
        others = node("Sub", self._scalar(1.0), request)
        weights = node("Add", self._by_head(hidden, "token"), self._times(others, _MASKED))
        shares = node("Softmax", weights, axis=1)
        beyond = node("Add", nearest, self._times(others, BEYOND))
        farthest = node("ReduceMin", beyond, axes=[1], keepdims=0)
        numbers = (
            self._mean(nearest, request),
            node("ReduceSum", node("Mul", nearest, shares), first, keepdims=0),
            node("Min", farthest, self._scalar(1.0)),
            node("ReduceSum", product, self._integers(-1), keepdims=1),
        )
        parts = [node("Squeeze", beginning, first), *means, self._times(product, PRODUCT_SCALE)]
        parts.append(node("Abs", node("Sub", *means)))
        parts += [self._times(number, NUMBER_SCALE) for number in numbers]
        joined = node("Concat", *parts, axis=-1)
        logit = self._by_head(node("Tanh", self._by_head(joined, "inner")), "outer")
        return node("Squeeze", logit, first)

    def _by_head(self, value: str, name: str) -> str:
        """Multiply by a matrix of the head, and add its bias if it has one."""
        prefix, tensors = f"{HEAD}{name}", self._weights.tensors
        matrix = self._constant(f"{prefix}.weight", tensors[f"{prefix}.weight"].T)
        product, bias = self._node("MatMul", value, matrix), f"{prefix}.bias"
        if bias not in tensors:
            return product
        return self._node("Add", product, self._constant(bias, tensors[bias]))

    def _times(self, value: str, factor: float) -> str:
        return self._node("Mul", value, self._scalar(factor))

    def _tokens_of(self, part: int) -> str:
        """Add which tokens belong to a part of a pair: 1.0 or 0.0, (1, tokens, 1)."""
        is_of = self._node("Equal", "parts", self._constant(f"part_{part}", np.array(part)))
        held = self._node("Cast", is_of, to=TensorProto.FLOAT)
        return self._node("Unsqueeze", held, self._integers(2))

    def _mean(self, values: str, tokens: str) -> str:
        """Add the mean of (1, tokens, x) over some tokens, 0 over none: (1, x)."""
        first = self._integers(1)
        total = self._node("ReduceSum", self._node("Mul", values, tokens), first, keepdims=0)
        count = self._node("ReduceSum", tokens, first, keepdims=0)
        return self._node("Div", total, self._node("Max", count, self._scalar(1.0)))

    def _unit(self, values: str) -> str:
        """Scale the last axis to unit length."""
        length = self._node("ReduceL2", values, axes=[-1], keepdims=1)
        return self._node("Div", values, self._node("Max", length, self._scalar(1e-12)))

    def _nearest(self, hidden: str, skill: str) -> str:
        """Add the cosine of each token and the skill's token nearest to it: (1, tokens, 1)."""
        unit = self._unit(hidden)
        across, columns = (
            self._node("Transpose", value, perm=[0, 2, 1]) for value in (unit, skill)
        )
        absent = self._node("Sub", columns, self._scalar(1.0))
        cosines = self._node("MatMul", unit, across)
        most = self._node("Add", cosines, self._times(absent, OUT_OF_REACH))
        nearest = self._node("ReduceMax", most, axes=[-1], keepdims=1)
        return self._node("Max", nearest, self._scalar(-1.0))

    def _node(self, operator: str, *inputs: str, **attributes: Unpack[_Attributes]) -> str:
        """Add one operation and return the name of its output."""
        output = f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def _constant(self, name: str, array: NDArray[Any]) -> str:
        """Add a constant, once, and return its name."""
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def _scalar(self, value: float) -> str:
        return self._constant(f"scalar_{value!r}", np.array(value, dtype=np.float32))

    def _integers(self, *values: int) -> str:
        name = "integers_" + "_".join(map(str, values))
        return self._constant(name, np.array(values, dtype=np.int64))
