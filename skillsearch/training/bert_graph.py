"""A BERT sentence encoder as a graph of ONNX operations in float32, from tokens to a vector."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import MissingDependencyError
from skillsearch.training.bert_weights import BertWeights

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as exc:
    raise MissingDependencyError("onnx", "train", "Exporting a model") from exc

OPSET = 17
"""First operator set with LayerNormalization; every onnxruntime that we allow reads it."""

IR_VERSION = 8
"""The file format that came with opset 17."""

MASKED = -1e9
"""Added to the attention of padding; far below any score, and safe from overflow to -inf."""


def build_graph(weights: BertWeights) -> onnx.ModelProto:
    """Write a BERT sentence encoder in float32.

    Args:
        weights: The encoder.

    Returns:
        A model from ``input_ids`` and ``attention_mask``, int64 of shape (texts, tokens), to
        ``sentence_embedding``, float32 of shape (texts, hidden size), each row of unit length.
    """
    return BertGraph(weights).build()


class GraphBuilder:
    """Collects the nodes and constants of an ONNX graph; values are known by their names."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

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


class BertGraph:
    """Writes a BERT encoder with mean pooling and unit length as ONNX operations.

    Shapes in the comments: b texts, t tokens, d the hidden size, h heads.
    """

    def __init__(self, weights: BertWeights) -> None:
        self._graph = GraphBuilder()
        self._weights, config = weights.tensors, weights.config
        self._hidden = int(config["hidden_size"])
        self._heads = int(config["num_attention_heads"])
        self._layers = int(config["num_hidden_layers"])
        self._epsilon = float(config["layer_norm_eps"])

    def build(self) -> onnx.ModelProto:
        """Return the checked model: (b, t) token ids and mask to (b, d) unit vectors."""
        mask = self._graph.node("Cast", "attention_mask", to=TensorProto.FLOAT)
        padding = self._padding(mask)
        hidden = self._embeddings()
        for layer in range(self._layers):
            prefix = f"encoder.layer.{layer}"
            attended = self._attention(hidden, padding, f"{prefix}.attention")
            hidden = self._feed_forward(attended, prefix)
        self._sentence(hidden, mask)
        return self._model()

    def _weight(self, name: str) -> str:
        """Add one of the model's own tensors as a constant."""
        return self._graph.constant(name, self._weights[name])

    def _linear(self, value: str, prefix: str) -> str:
        """Add value @ weight.T + bias, with the matrix stored transposed, as MatMul wants it."""
        matrix = self._graph.constant(f"{prefix}.weight.T", self._weights[f"{prefix}.weight"].T)
        product = self._graph.node("MatMul", value, matrix)
        return self._graph.node("Add", product, self._weight(f"{prefix}.bias"))

    def _layer_norm(self, value: str, prefix: str) -> str:
        """Layer normalisation over the hidden size."""
        scale, bias = self._weight(f"{prefix}.weight"), self._weight(f"{prefix}.bias")
        return self._graph.node(
            "LayerNormalization", value, scale, bias, axis=-1, epsilon=self._epsilon
        )

    def _padding(self, mask: str) -> str:
        """(b, t) mask to a (b, 1, 1, t) addend: 0 for a token, `MASKED` for padding."""
        graph = self._graph
        absent = graph.node(
            "Sub", graph.scalar(1.0), graph.node("Unsqueeze", mask, graph.integers(1, 2))
        )
        return graph.node("Mul", absent, graph.scalar(MASKED))

    def _embeddings(self) -> str:
        """Add up word, position and (always the first) token type: normalised, (b, t, d)."""
        graph = self._graph
        words = graph.node("Gather", self._weight("embeddings.word_embeddings.weight"), "input_ids")
        tokens = graph.node("Gather", graph.node("Shape", "input_ids"), graph.integers(1))
        table = self._weight("embeddings.position_embeddings.weight")
        positions = graph.node("Slice", table, graph.integers(0), tokens, graph.integers(0))
        first_type = self._weights["embeddings.token_type_embeddings.weight"][0]
        token_type = graph.constant("embeddings.token_type_embeddings.first", first_type)
        total = graph.node("Add", graph.node("Add", words, positions), token_type)
        return self._layer_norm(total, "embeddings.LayerNorm")

    def _heads_of(self, value: str, prefix: str, order: Sequence[int]) -> str:
        """Project (b, t, d) and split it into heads, axes (b, t, h, d/h) put into `order`."""
        shape = self._graph.integers(0, 0, self._heads, self._hidden // self._heads)
        split = self._graph.node("Reshape", self._linear(value, prefix), shape)
        return self._graph.node("Transpose", split, perm=list(order))

    def _attention(self, hidden: str, padding: str, prefix: str) -> str:
        """Multi-head self-attention with its residual and normalisation."""
        graph = self._graph
        query = self._heads_of(hidden, f"{prefix}.self.query", (0, 2, 1, 3))
        key = self._heads_of(hidden, f"{prefix}.self.key", (0, 2, 3, 1))
        value = self._heads_of(hidden, f"{prefix}.self.value", (0, 2, 1, 3))
        scale = graph.scalar(1.0 / math.sqrt(self._hidden // self._heads))
        scores = graph.node("Mul", graph.node("MatMul", query, key), scale)
        shares = graph.node("Softmax", graph.node("Add", scores, padding), axis=-1)
        mixed = graph.node("Transpose", graph.node("MatMul", shares, value), perm=[0, 2, 1, 3])
        joined = graph.node("Reshape", mixed, graph.integers(0, 0, self._hidden))
        output = graph.node("Add", self._linear(joined, f"{prefix}.output.dense"), hidden)
        return self._layer_norm(output, f"{prefix}.output.LayerNorm")

    def _feed_forward(self, hidden: str, prefix: str) -> str:
        """Two linear layers with the exact (erf) GELU between, residual and normalisation."""
        graph = self._graph
        inner = self._linear(hidden, f"{prefix}.intermediate.dense")
        error = graph.node("Erf", graph.node("Div", inner, graph.scalar(math.sqrt(2.0))))
        gate = graph.node("Add", error, graph.scalar(1.0))
        gelu = graph.node("Mul", graph.node("Mul", inner, gate), graph.scalar(0.5))
        output = graph.node("Add", self._linear(gelu, f"{prefix}.output.dense"), hidden)
        return self._layer_norm(output, f"{prefix}.output.LayerNorm")

    def _sentence(self, hidden: str, mask: str) -> None:
        """Mean over the tokens that are not padding, scaled to unit length: (b, d)."""
        graph = self._graph
        kept = graph.node("Mul", hidden, graph.node("Unsqueeze", mask, graph.integers(2)))
        total = graph.node("ReduceSum", kept, graph.integers(1), keepdims=0)
        count = graph.node("ReduceSum", mask, graph.integers(1), keepdims=1)
        mean = graph.node("Div", total, count)
        norm = graph.node("ReduceL2", mean, axes=[1], keepdims=1)
        graph.node("Div", mean, norm, name="sentence_embedding")

    def _model(self) -> onnx.ModelProto:
        """Join what was collected into a model, and check it."""
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
            for name in ("input_ids", "attention_mask")
        ]
        output = helper.make_tensor_value_info(
            "sentence_embedding", TensorProto.FLOAT, ["texts", self._hidden]
        )
        constants = list(self._graph.constants.values())
        graph = helper.make_graph(self._graph.nodes, "sentence", inputs, [output], constants)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], producer_name="skillsearch")
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model)
        return model
