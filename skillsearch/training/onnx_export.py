"""A BERT sentence encoder → the folder of an 8-bit ONNX model that `index --model` takes.

The same onnx and onnxruntime give the same bytes on every run.
"""

from __future__ import annotations

import contextlib
import json
import logging
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from skillsearch.embedders.model_files import sha256_of
from skillsearch.environ import forbid_telemetry
from skillsearch.errors import TrainingError
from skillsearch.training.bert_weights import BertWeights
from skillsearch.types import JsonValue

MAX_TOKENS = 256
"""Tokens of a text that count: what all-MiniLM-L6-v2 was published with."""

DATA_SUFFIX = "_data"
"""Appended to the model's file name: the file of its large weights, named as Hugging Face does."""

ALIGNMENT = 16 * 1024
"""Weights of at least so many bytes are in the data file, at multiples of it: whole memory pages
(4 KiB, 16 KiB on Apple's processors), which ONNX Runtime maps instead of reading and copying."""


WORDS = "embeddings.word_embeddings.weight_quantized"
"""The rows of the words in a quantised model: half of its bytes."""


def export(
    weights: BertWeights,
    folder: Path,
    *,
    name: str,
    notice: str | None = None,
    licence: str | None = None,
    extra: Mapping[str, JsonValue] = {},
    stem: str = "model",
    words: str | None = None,
) -> str:
    """Write a model of which a reader sees all files or none.

    Args:
        weights: The encoder.
        folder: Where the model is to be; must not exist, or be empty.
        name: Name for people.
        notice: Content of a file NOTICE.
        licence: Content of a file LICENSE.
        extra: More for model.json: ``scripts`` that the model understands, where it is from.
        stem: What the names of its own files begin with; the loader takes ``model`` for the first
            model of a folder.
        words: A file for the rows of the words, which models with the same ones can share; None to
            keep them with the other weights.

    Returns:
        The sha256 of model.json, which has those of all other files.

    Raises:
        TrainingError: When the folder cannot be written, or is not empty.
        MissingDependencyError: When onnx is not installed.
    """
    from skillsearch.training.bert_graph import build_graph

    texts = {"LICENSE": licence, "NOTICE": notice}
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".model-", dir=folder.parent) as scratch:
            fresh = Path(scratch) / "model"
            fresh.mkdir()
            apart = {} if words is None else {WORDS: words}
            quantise(build_graph(weights), fresh / f"{stem}.onnx", apart)
            (fresh / "tokenizer.json").write_bytes(weights.tokenizer)
            for file, text in texts.items():
                if text is not None:
                    (fresh / file).write_bytes(text.encode())
            record = json.dumps(_describe(fresh, weights, name, extra), indent=2) + "\n"
            manifest = fresh / f"{stem}.json"
            manifest.write_bytes(record.encode())
            digest = sha256_of(manifest)
            fresh.replace(folder)
    except OSError as exc:
        raise TrainingError(f"{folder} cannot be written: {exc}; name a new folder") from exc
    return digest


def quantise(model: Any, out: Path, apart: Mapping[str, str] = {}) -> None:
    """Write a model with 8-bit weights and activations that are scaled as they come.

    Its large weights go into a second file (see `write_apart`).

    The matrices use 7 of the 8 bits (``reduce_range``). x86 processors without VNNI add products of
    unsigned and signed bytes in 16 bits, where full-range weights saturate, and the vectors get
    worse. Seven bits cannot saturate, and cost 0.001 of mean cosine.

    Args:
        model: The float32 model, an ``onnx.ModelProto``.
        out: The file to write.
        apart: As in `write_apart`.
    """
    forbid_telemetry()
    import onnx
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


def write_apart(model: Any, out: Path, apart: Mapping[str, str] = {}) -> None:
    """Write a model with its large weights beside it, as ONNX "external data".

    They follow each other in the order of the graph, each on an `ALIGNMENT` of its own, zeros
    between. ONNX Runtime maps them: a load takes half the time, and no memory for what is not used.

    Args:
        model: An ``onnx.ModelProto``; its large weights are taken out of it.
        out: The file to write; the weights go into one with `DATA_SUFFIX` after its name.
        apart: Names of weights that go into another file beside it, with the name of that.
    """
    from onnx.external_data_helper import set_external_data

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


@contextlib.contextmanager
def _silent_root_logger() -> Iterator[None]:
    """Keep the root logger as it is: ONNX Runtime logs to it, which would give it a handler."""
    root, silent = logging.getLogger(), logging.NullHandler()
    root.addHandler(silent)
    try:
        yield
    finally:
        root.removeHandler(silent)


def _describe(
    folder: Path, weights: BertWeights, name: str, extra: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return the contents of model.json for the other files, which are in `folder`."""
    files = sorted(path.name for path in folder.iterdir())
    positions: int = weights.config["max_position_embeddings"]
    return {
        "name": name,
        "dimensions": weights.config["hidden_size"],
        "max_tokens": min(MAX_TOKENS, positions),
        "pooling": "mean",
        **extra,
        "built_with": {library: version(library) for library in ("onnx", "onnxruntime")},
        "sha256": {file: sha256_of(folder / file) for file in files},
    }
