"""Graphs of embedders and readers: against numpy, their bytes, and the way back."""

import dataclasses

import numpy as np
import pytest

from skillsearch.embedders.model_files import weight_files
from skillsearch.errors import EmbedderError
from skillsearch.readers.mapped_reader import encode_pair

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
onnx_model = pytest.importorskip("skillsearch.training.onnx_model")

REQUEST = "boils the water for tea"
TEXTS = ["tea", "", "the kettle boils water", "a timer for green tea " * 90]


def in_float(weights):
    """Build the graph with matrices and what they are multiplied with in float32."""
    model = onnx_model.build_graph(weights)
    helper, nodes = onnx.helper, []
    for node in model.graph.node:
        if node.op_type != "DynamicQuantizeMatMul":
            nodes.append(node)
            continue
        key, product = node.input[1], f"{node.output[0]}_product"
        layer, name = key.split(".")
        sources = (f"encoder.layer.{layer}.{part}.weight" for part in onnx_model.JOINED[name])
        matrix = np.concatenate([weights.tensors[source] for source in sources])
        matrix = np.ascontiguousarray((matrix * weights.factors.get(key, 1)).T)
        model.graph.initializer.append(onnx.numpy_helper.from_array(matrix, f"{key}.float"))
        nodes.append(helper.make_node("MatMul", [node.input[0], f"{key}.float"], [product]))
        nodes.append(helper.make_node("Add", [product, node.input[4]], node.output))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def run_model(model, **inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # constants that are not used any more
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {name: np.array(value)[None] for name, value in inputs.items()})[0][0]


def encoded(weights, texts=TEXTS):
    return [encode_pair(weights.words.tokenizer, REQUEST, text) for text in texts]


@pytest.fixture(scope="module")
def find_factors(import_script):
    """What the script that writes the packaged models evens a reader out by."""
    return import_script("build_model").find_factors


@pytest.fixture(params=["embedder", "reader"])
def weights(request, make_bert, make_reader, find_factors):
    """The weights of an embedder, and of a reader whose matrices have factors."""
    if request.param == "embedder":
        return make_bert()
    reader = make_reader()
    pairs = [(REQUEST, text) for text in TEXTS]
    return dataclasses.replace(reader, factors=find_factors(reader, pairs))


@pytest.mark.parametrize("is_neutral", [True, False])
def test_the_graph_of_an_embedder_computes_what_numpy_does(make_bert, embed_by_hand, is_neutral):
    weights, ids = make_bert(is_neutral=is_neutral), [0, 5, 9, 3, 2]
    rows = weights.words.rows(ids) + weights.positions[: len(ids)]
    vector = run_model(in_float(weights), rows=rows)
    expected = embed_by_hand(weights, ids)
    np.testing.assert_allclose(vector / np.linalg.norm(vector), expected, atol=1e-5)


def test_the_graph_of_a_reader_computes_what_numpy_does(make_reader, read_by_hand, find_factors):
    """Also beyond the positions of the words; factors change nothing but roundings."""
    weights = make_reader()
    pairs = encoded(weights)
    assert len(pairs[3].ids) > len(weights.words.positions)
    factors = find_factors(weights, [(REQUEST, TEXTS[2])])
    for some in (weights, dataclasses.replace(weights, factors=factors)):
        model = in_float(some)
        logits = [
            run_model(model, rows=weights.words.rows(pair.ids), parts=pair.parts) for pair in pairs
        ]
        expected = [read_by_hand(weights, pair) for pair in pairs]
        np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_inputs_that_reach_far_are_evened_out(make_reader, find_factors):
    """Factors are powers of two, and divide the channel that reaches far."""
    weights = make_reader()
    name = "encoder.layer.1.intermediate.dense.bias"
    far = weights.tensors[name].copy()
    far[3] = 300
    weights = dataclasses.replace(weights, tensors={**weights.tensors, name: far})
    factors = find_factors(weights, [(REQUEST, text) for text in TEXTS])
    assert factors.keys() == {"0.outer", "1.outer"}
    for values in factors.values():
        np.testing.assert_array_equal(np.log2(values), np.rint(np.log2(values)))
    assert factors["1.outer"][3] == factors["1.outer"].max() > np.median(factors["1.outer"])


def test_what_was_read_is_written_as_the_same_bytes(weights, tmp_path):
    """Each matrix is read as numbers that round to its integers."""
    paths = [tmp_path / name / "model.onnx" for name in ("first", "second")]
    for path in paths:
        path.parent.mkdir()
        onnx_model.write_apart(onnx_model.build_graph(weights), path)
        read = onnx_model.read_graph(path, weights.words)
        assert (read.heads, read.epsilon, read.layers) == (4, 1e-12, 2)
        assert read.tensors.keys() == weights.tensors.keys()
        np.testing.assert_array_equal(read.positions, weights.positions)
        weights = read
    first, second = (
        {file.name: file.read_bytes() for file in path.parent.iterdir()} for path in paths
    )
    assert first == second
    assert first.keys() == {"model.onnx", "model.onnx_data"}


def test_weights_are_read_within_a_step_of_what_they_were(weights, tmp_path):
    """A step is a 64th of the largest weight of an output, after the factors."""
    onnx_model.write_apart(onnx_model.build_graph(weights), tmp_path / "model.onnx")
    read = onnx_model.read_graph(tmp_path / "model.onnx", weights.words)
    for name, tensor in weights.tensors.items():
        if tensor.ndim < 2 or name.startswith("head."):
            np.testing.assert_array_equal(read.tensors[name], tensor)
            continue
        layer = name.split(".")[2]
        factors = 1
        if name.endswith(f"{layer}.output.dense.weight"):
            factors = weights.factors.get(f"{layer}.outer", 1)
        steps = np.abs(tensor * factors).max(axis=1, keepdims=True) / 64 / factors
        assert (np.abs(read.tensors[name] - tensor) <= 0.991 * steps + 1e-6).all(), name


def test_what_training_changes_a_little_is_not_rounded_away(make_bert, tmp_path):
    """On average: changes by a fifth of a step change a fifth of the integers by one."""
    weights, path = make_bert(), tmp_path / "model.onnx"
    onnx_model.write_apart(onnx_model.build_graph(weights), path)
    read, name = onnx_model.read_graph(path, weights.words), "encoder.layer.0.output.dense.weight"
    before = read.tensors[name]
    step = np.abs(before).max(axis=1, keepdims=True) / 64
    moved = np.where(np.abs(before) < 50 * step, before + step / 5, before).astype(np.float32)
    tuned = dataclasses.replace(read, tensors={**read.tensors, name: moved})
    onnx_model.write_apart(onnx_model.build_graph(tuned), path)
    changes = (onnx_model.read_graph(path, weights.words).tensors[name] - before) / step
    assert np.abs(changes.mean() - (moved - before).mean() / step.mean()) < 0.03


def test_large_weights_lie_apart_in_whole_pages(make_reader, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_model, "ALIGNMENT", page := 4096)
    weights, path = make_reader(), tmp_path / "model.onnx"
    model = onnx_model.build_graph(weights)
    constants = {tensor.name: tensor.raw_data for tensor in model.graph.initializer}
    onnx_model.write_apart(model, path)
    data = (tmp_path / "model.onnx_data").read_bytes()
    apart = {
        tensor.name: {entry.key: entry.value for entry in tensor.external_data}
        for tensor in onnx.load(path, load_external_data=False).graph.initializer
        if tensor.external_data
    }
    assert apart.keys() == {name for name, raw in constants.items() if len(raw) >= page}
    assert "positions" in apart
    for name, where in apart.items():
        start, length = int(where["offset"]), int(where["length"])
        assert (where["location"], start % page) == ("model.onnx_data", 0)
        assert data[start : start + length] == constants[name]
    assert [file.name for file in weight_files(path)] == ["model.onnx_data"]


def test_matrices_are_rounded_as_onnxruntime_rounds_them(tmp_path):
    quantization = pytest.importorskip("onnxruntime.quantization")
    random = np.random.default_rng(5)
    weights = random.normal(size=(40, 96)) * np.geomspace(1e-4, 1e4, 40)[:, None]
    matrix, scale = onnx_model.quantise(weights.astype(np.float32))
    helper, kind = onnx.helper, onnx.TensorProto
    transposed = np.ascontiguousarray(weights.astype(np.float32).T)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "one",
        [helper.make_tensor_value_info("x", kind.FLOAT, ["n", 96])],
        [helper.make_tensor_value_info("y", kind.FLOAT, ["n", 40])],
        [onnx.numpy_helper.from_array(transposed, "w")],
    )
    quantization.quantize_dynamic(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "one.onnx",
        weight_type=quantization.QuantType.QInt8,
        per_channel=True,
        reduce_range=True,
    )
    tensors = {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in onnx.load(tmp_path / "one.onnx").graph.initializer
    }
    np.testing.assert_array_equal(matrix, tensors["w_quantized"])
    np.testing.assert_array_equal(scale, tensors["w_scale"])


def test_another_graph_is_refused(make_bert, tmp_path):
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(name, kind, [1]) for name in "xy"]
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([node], "other", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph), tmp_path / "model.onnx")
    with pytest.raises(EmbedderError, match="onnx cannot use"):
        onnx_model.read_graph(tmp_path / "model.onnx", make_bert().words)
