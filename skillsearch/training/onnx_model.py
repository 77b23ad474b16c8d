"""A BERT, a sentence encoder or a reader, as an 8-bit ONNX model, reproducibly, and back."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedding import errors_of
from skillsearch.embedders.onnx_embedder import (
    KNOWN_INPUTS,
    open_session,
    write_optimised,
    write_quantised,
)
from skillsearch.errors import TrainingError, importing
from skillsearch.readers.reader import (
    BEYOND,
    HEAD,
    NUMBER_SCALE,
    OUT_OF_REACH,
    OUTPUT,
    PRODUCT_SCALE,
    REQUEST,
    SKILL,
    Pair,
)
from skillsearch.types import JsonObject

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
_SMOOTH = ".smooth"  # suffix of what an input is multiplied by
SMOOTHNESS = 0.7
"""Share of the reach of an input that its weights take over; half is usual, here more is better."""
_LEAST_REACH = 1e-4
_MOST_POWER = 3  # a channel that the pairs do not reach keeps most of its bits
_PARTS = "token_type_ids"  # input of a reader, parts of a pair as in `skillsearch.readers.reader`


def quantise(model: onnx.ModelProto, out: Path, words: str | None = None) -> None:
    """Write a model with 8-bit weights, and activations that are scaled at run time.

    A reader's head stays as it is: it is small, and a logit has no other vector to make up for it.
    """
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch) / "model.onnx"
        heads = [node.name for node in model.graph.node if node.name.startswith(HEAD)]
        write_quantised(model, whole, heads)
        write_apart(onnx.load(whole), out, words)
    write_optimised(out)


def find_factors(
    tensors: Mapping[str, NDArray[np.float32]], config: Mapping[str, Any], pairs: Sequence[Pair]
) -> dict[str, NDArray[np.float32]]:
    """Return what to divide the inputs of a reader's matrices by, and multiply the matrices with.

    All numbers of an input share one 8-bit scale at run time, so that a few channels that reach far
    leave the others coarse. Factors for each channel, from what `pairs` reach, even them out and
    change nothing else (SmoothQuant, Xiao et al., 2023). They are powers of two: exact.
    """
    graph = BertGraph(tensors, config)
    model = graph.build()
    values = sorted(set(graph.inputs.values()))
    model.graph.output.extend(
        helper.make_tensor_value_info(value, TensorProto.FLOAT, None) for value in values
    )
    reach = dict.fromkeys(values, np.float32(_LEAST_REACH))
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        session = open_session(path)
        for pair in pairs:
            rows = (pair.ids, [1] * len(pair.ids), pair.parts)
            feeds = {name: np.array([row]) for name, row in zip(KNOWN_INPUTS, rows, strict=True)}
            for value, found in zip(values, session.run(values, feeds), strict=True):
                reach[value] = np.maximum(reach[value], np.abs(found).max((0, 1)))
    names = [name.removesuffix(".weight") for name in tensors if name.endswith(".weight")]
    factors = {}
    for name, value in graph.inputs.items():
        columns = [
            np.abs(tensors[f"{one}.weight"]).max(0) for one in names if _input_of(one) == name
        ]
        weights = np.maximum(np.max(columns, axis=0), _LEAST_REACH)
        powers = SMOOTHNESS * np.log2(reach[value]) - (1 - SMOOTHNESS) * np.log2(weights)
        powers = np.clip(np.rint(powers - powers.mean()), -_MOST_POWER, _MOST_POWER)
        factors[name] = np.exp2(powers).astype(np.float32)
    return factors


def _input_of(prefix: str) -> str:
    """Return the name of what a matrix is multiplied with: query, key and value share one."""
    head, _, _ = prefix.rpartition(".")
    return head if head.endswith(".attention.self") else prefix


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


def read_graph(path: Path) -> tuple[dict[str, NDArray[np.float32]], JsonObject]:
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
        self,
        tensors: Mapping[str, NDArray[np.float32]],
        config: Mapping[str, Any],
        factors: Mapping[str, NDArray[np.float32]] = MappingProxyType({}),
    ) -> None:
        """Take weights, and what inputs of matrices are divided by (`find_factors`)."""
        self.inputs: dict[str, str] = {}
        self._factors = factors
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._weights = tensors
        sizes = ("hidden_size", "num_attention_heads", "num_hidden_layers")
        self._hidden, self._heads, self._layers = (int(config[name]) for name in sizes)
        self._epsilon = float(config["layer_norm_eps"])

    def build(self) -> onnx.ModelProto:
        """Return a checked model of ``input_ids`` and ``attention_mask``, int64.

        Its output are unit rows, or with the weights of a head a logit for each text.
        """
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
        names = ["input_ids", "attention_mask"]
        if any(name.startswith(HEAD) for name in self._weights):
            output = self._head(hidden)
            names.append(_PARTS)
        else:
            # The mean over the tokens that are not padding, scaled to unit length: (b, d).
            kept = node("Mul", hidden, node("Unsqueeze", mask, self._integers(2)))
            total = node("ReduceSum", kept, self._integers(1), keepdims=0)
            mean = node("Div", total, node("ReduceSum", mask, self._integers(1), keepdims=1))
            node("Div", mean, node("ReduceL2", mean, axes=[1], keepdims=1), name=_OUTPUT)
            shape: list[str | int | None] = ["texts", self._hidden]
            output = helper.make_tensor_value_info(_OUTPUT, TensorProto.FLOAT, shape)
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
            for name in names
        ]
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

    def _head(self, hidden: str) -> onnx.ValueInfoProto:
        """Add the head of `cross_encoder.ReaderHead`: (b,)."""
        node, one = self._node, self._integers(1)
        request, skill = self._tokens_of(REQUEST), self._tokens_of(SKILL)
        first = node("Squeeze", node("Slice", hidden, self._integers(0), one, one), one)
        means = [self._mean(hidden, tokens) for tokens in (request, skill)]
        product = node("Mul", *(self._unit(mean) for mean in means))
        nearest = self._nearest(hidden, skill)
        others = node("Sub", self._scalar(1.0), request)
        told = self._linear(hidden, f"{HEAD}token", bias=False)
        shares = node("Softmax", node("Add", told, self._times(others, MASKED)), axis=1)
        beyond = node("Add", nearest, self._times(others, BEYOND))
        farthest = node("ReduceMin", beyond, axes=[1], keepdims=0)
        numbers = (
            self._mean(nearest, request),
            node("ReduceSum", node("Mul", nearest, shares), one, keepdims=0),
            node("Min", farthest, self._scalar(1.0)),
            node("ReduceSum", product, self._integers(-1), keepdims=1),
        )
        parts = [first, *means, self._times(product, PRODUCT_SCALE)]
        parts.append(node("Abs", node("Sub", *means)))
        parts += [self._times(number, NUMBER_SCALE) for number in numbers]
        inner = node("Tanh", self._linear(node("Concat", *parts, axis=-1), f"{HEAD}inner"))
        node("Squeeze", self._linear(inner, f"{HEAD}outer"), one, name=OUTPUT)
        return helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["texts"])

    def _times(self, value: str, factor: float) -> str:
        return self._node("Mul", value, self._scalar(factor))

    def _tokens_of(self, part: int) -> str:
        """Add which tokens belong to a part of a pair: 1.0 or 0.0, (b, t, 1)."""
        is_of = self._node("Equal", _PARTS, self._constant(f"part_{part}", np.array(part)))
        held = self._node("Cast", is_of, to=TensorProto.FLOAT)
        return self._node("Unsqueeze", held, self._integers(2))

    def _mean(self, values: str, tokens: str) -> str:
        """Add the mean of (b, t, x) over some tokens, 0 over none: (b, x)."""
        one = self._integers(1)
        total = self._node("ReduceSum", self._node("Mul", values, tokens), one, keepdims=0)
        count = self._node("ReduceSum", tokens, one, keepdims=0)
        return self._node("Div", total, self._node("Max", count, self._scalar(1.0)))

    def _unit(self, values: str) -> str:
        """Scale the last axis to unit length."""
        length = self._node("ReduceL2", values, axes=[-1], keepdims=1)
        return self._node("Div", values, self._node("Max", length, self._scalar(1e-12)))

    def _nearest(self, hidden: str, skill: str) -> str:
        """Add the cosine of each token and the skill's token nearest to it: (b, t, 1)."""
        unit = self._unit(hidden)
        across, columns = (self._node("Transpose", one, perm=[0, 2, 1]) for one in (unit, skill))
        cosines = self._node("MatMul", unit, across)
        absent = self._node("Sub", columns, self._scalar(1.0))
        most = self._node("Add", cosines, self._times(absent, OUT_OF_REACH))
        nearest = self._node("ReduceMax", most, axes=[-1], keepdims=1)
        return self._node("Max", nearest, self._scalar(-1.0))

    def _smooth(self, value: str, name: str) -> str:
        """Divide the input of the matrices of a name by its factors, if it has some."""
        self.inputs[name] = value
        if name not in self._factors:
            return value
        return self._node("Mul", value, self._constant(f"{name}{_SMOOTH}", 1 / self._factors[name]))

    def _linear(self, value: str, prefix: str, *, bias: bool = True) -> str:
        """Add value @ weight.T + bias, with the matrix stored transposed, as MatMul wants it."""
        matrix = self._weights[f"{prefix}.weight"].T
        if (name := _input_of(prefix)) in self._factors:
            matrix = matrix * self._factors[name][:, np.newaxis]
        product = self._node("MatMul", value, self._constant(f"{prefix}.weight.T", matrix))
        if prefix.startswith(HEAD):
            self._nodes[-1].name = prefix
        return self._node("Add", product, self._constant(f"{prefix}.bias")) if bias else product

    def _dense(self, value: str, prefix: str) -> str:
        return self._linear(self._smooth(value, prefix), prefix)

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
        smooth = self._smooth(hidden, f"{prefix}.self")

        def project(part: str, order: Sequence[int]) -> str:
            """Project (b, t, d) and split it into heads, axes (b, t, h, d/h) put into `order`."""
            shape = self._integers(0, 0, self._heads, size)
            split = self._node("Reshape", self._linear(smooth, f"{prefix}.self.{part}"), shape)
            return self._node("Transpose", split, perm=list(order))

        query, key = project("query", (0, 2, 1, 3)), project("key", (0, 2, 3, 1))
        value = project("value", (0, 2, 1, 3))
        scale = self._scalar(1.0 / math.sqrt(size))
        scores = self._node("Mul", self._node("MatMul", query, key), scale)
        shares = self._node("Softmax", self._node("Add", scores, padding), axis=-1)
        mixed = self._node("Transpose", self._node("MatMul", shares, value), perm=[0, 2, 1, 3])
        joined = self._node("Reshape", mixed, self._integers(0, 0, self._hidden))
        output = self._node("Add", self._dense(joined, f"{prefix}.output.dense"), hidden)
        return self._layer_norm(output, f"{prefix}.output.LayerNorm")

    def _feed_forward(self, hidden: str, prefix: str) -> str:
        """Two linear layers with the exact (erf) GELU between, residual and normalisation."""
        inner = self._dense(hidden, f"{prefix}.intermediate.dense")
        error = self._node("Erf", self._node("Div", inner, self._scalar(math.sqrt(2.0))))
        gate = self._node("Add", error, self._scalar(1.0))
        gelu = self._node("Mul", self._node("Mul", inner, gate), self._scalar(0.5))
        output = self._node("Add", self._dense(gelu, f"{prefix}.output.dense"), hidden)
        return self._layer_norm(output, f"{prefix}.output.LayerNorm")


def _weights(constants: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """Return the weights among the constants of a graph, as they may have been before."""
    tensors = {}
    for name, value in constants.items():
        plain = name.removesuffix(_QUANTISED)
        is_weight = plain.startswith(("embeddings.", "encoder.", HEAD))
        if not is_weight or plain.endswith(("_scale", "_zero_point", _SMOOTH)):
            continue
        if plain != name:
            zero, scale = constants[f"{plain}_zero_point"], constants[f"{plain}_scale"]
            value = value.astype(np.float32) - zero.astype(np.float32)
            value = (_unrounded(value, plain) if plain.endswith(".T") else value) * scale
        if plain == _FIRST_TYPE:
            plain, value = plain.replace("first", "weight"), value[None]
        elif plain.endswith(".T"):
            plain, value = plain.removesuffix(".T"), np.ascontiguousarray(value.T)
            smooth = f"{_input_of(plain.removesuffix('.weight'))}{_SMOOTH}"
            value = value * constants[smooth] if smooth in constants else value
        tensors[plain] = value
    return tensors


def _unrounded(whole: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    """Return numbers at random that round to those of a matrix, the same for a name each time.

    Training changes most weights by less than half a step of 8 bits: rounded again, they would be
    what they were, and nothing learned. The largest of a column stay, since they make its scale.
    """
    chance = np.random.default_rng(list(name.encode()))
    away = chance.uniform(-0.49, 0.49, whole.shape).astype(np.float32)
    largest = np.abs(whole).max(axis=0, keepdims=True)
    return np.where(np.abs(whole) < largest, whole + away, whole)
