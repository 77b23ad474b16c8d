"""Weights of a BERT: what is refused, and the ways in from both kinds of folders."""

import dataclasses
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from skillsearch.embedders.embedder import PACKAGED_MODEL
from skillsearch.embedders.model_files import sha256_of
from skillsearch.errors import MissingDependencyError, TrainingError
from skillsearch.training.bert_weights import export, read_exported, read_hugging_face

WORDS = "embeddings.word_embeddings.weight"
DENSE = "encoder.layer.1.output.dense"


@pytest.fixture(scope="module")
def exported_once(make_bert, tmp_path_factory):
    """A small BERT, exported; its words fill a page of the data file."""
    pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("bert") / "exported"
    export(make_bert(vocab_size=1_000), folder, name="tiny")
    return folder


@pytest.fixture
def exported(exported_once, tmp_path):
    """A copy of the exported BERT that a test may change."""
    return Path(shutil.copytree(exported_once, tmp_path / "exported"))


def seal(folder):
    """Let model.json have the digests of the files as they are now."""
    record = json.loads((folder / "model.json").read_bytes())
    record["sha256"] = {name: sha256_of(folder / name) for name in record["sha256"]}
    (folder / "model.json").write_text(json.dumps(record), encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "roberta"}, "model_type 'roberta', expected 'bert'"),
        ({"hidden_act": "relu"}, "hidden_act 'relu', expected 'gelu'"),
        ({"position_embedding_type": "relative_key"}, "expected 'absolute'"),
        ({"num_attention_heads": 5}, "hidden_size 32 cannot be split into 5 heads"),
        ({"num_attention_heads": 0}, "num_attention_heads 0, expected a whole number"),
        ({"hidden_size": "32"}, "hidden_size '32', expected a whole number"),
        ({"num_hidden_layers": True}, "num_hidden_layers True, expected a whole number"),
        ({"num_hidden_layers": 10**9}, r"has no encoder\.layer\.2\.attention\.self\.query\.weight"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps nan"),
        ({"layer_norm_eps": None}, "layer_norm_eps None"),
        ({"vocab_size": 21}, r"shape \(20, 32\), expected float32 of shape \(21, 32\)"),
    ],
)
def test_a_config_that_the_graph_or_the_tensors_do_not_fit_is_refused(make_bert, changes, message):
    """The error names the key and its value, or the tensor."""
    weights = make_bert()
    with pytest.raises(TrainingError, match=message):
        dataclasses.replace(weights, config=weights.config | changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda matrix: None, f"has no {DENSE}.weight"),
        (lambda matrix: matrix.T, f"{DENSE}.weight is float32 of shape"),
        (lambda matrix: matrix.astype(np.float64), f"{DENSE}.weight is float64"),
        (lambda matrix: matrix * np.float32(np.inf), f"{DENSE}.weight has values that are not fi"),
    ],
)
def test_a_tensor_that_cannot_be_used_is_named(make_bert, change, message):
    weights = make_bert()
    changed = {f"{DENSE}.weight": change(weights.tensors[f"{DENSE}.weight"])}
    tensors = {
        name: value for name, value in (weights.tensors | changed).items() if value is not None
    }
    with pytest.raises(TrainingError, match=message):
        dataclasses.replace(weights, tensors=tensors)


def test_a_config_without_the_only_kind_of_positions_is_accepted(make_bert):
    weights = make_bert()
    config = {k: v for k, v in weights.config.items() if k != "position_embedding_type"}
    assert dataclasses.replace(weights, config=config).config == config


def test_a_hugging_face_folder_is_read_without_what_is_not_used(make_bert, save_bert, tmp_path):
    """Every tensor of the encoder comes back as it was written; pooler and counters do not."""
    weights = make_bert()
    read = read_hugging_face(save_bert(weights, tmp_path / "source"))
    assert (read.config, read.tokenizer) == (weights.config, weights.tokenizer)
    assert set(read.tensors) == set(weights.tensors)
    for name, tensor in weights.tensors.items():
        np.testing.assert_array_equal(read.tensors[name], tensor)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_precision_is_widened(make_bert, save_bert, tmp_path, kind):
    """The values are those of the file, in float32."""
    weights, numpy = make_bert(), pytest.importorskip("safetensors.numpy")
    half = np.dtype(getattr(pytest.importorskip("ml_dtypes"), kind, kind))
    folder = save_bert(weights, tmp_path / "source")
    halves = {name: tensor.astype(half) for name, tensor in weights.tensors.items()}
    numpy.save_file(halves, folder / "model.safetensors")
    read = read_hugging_face(folder)
    for name, tensor in halves.items():
        np.testing.assert_array_equal(read.tensors[name], tensor.astype(np.float32))


def pool_by_first(folder):
    """Write the settings of a model that pools by its first token."""
    (folder / "1_Pooling").mkdir()
    settings = json.dumps({"pooling_mode_cls_token": True})
    (folder / "1_Pooling" / "config.json").write_text(settings, encoding="utf-8")


def forget_words(folder):
    """Say that the model has fewer words than its tokenizer."""
    numpy = pytest.importorskip("safetensors.numpy")
    tensors = numpy.load_file(folder / "model.safetensors")
    numpy.save_file(tensors | {WORDS: tensors[WORDS][:9]}, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_bytes()) | {"vocab_size": 9}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def cut(name, size):
    """Return a function that cuts a file of a folder to a size."""
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


def fill(name, data):
    """Return a function that replaces a file of a folder."""
    return lambda folder: (folder / name).write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), "No such file.*config.json"),
        (lambda folder: (folder / "model.safetensors").unlink(), "safetensors cannot use"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizers cannot use"),
        (fill("config.json", b"[1]"), "holds list, not an object"),
        (fill("config.json", b"[" * 100_000), "recursion"),
        (fill("config.json", b"\xff"), "decode"),
        (fill("tokenizer.json", b"{}"), "tokenizers cannot use"),
        (cut("model.safetensors", 5), "safetensors cannot use"),
        (cut("model.safetensors", 9_000), "safetensors cannot use"),
        (fill("model.safetensors", b"\xff" * 64), "safetensors cannot use"),
        (pool_by_first, "it pools by 'cls'"),
        (forget_words, "has 16 tokens, the model 9"),
    ],
)
def test_a_folder_that_is_no_bert_is_refused(make_bert, save_bert, tmp_path, spoil, message):
    """One kind of error, which names the folder, what is wrong and what is needed."""
    folder = save_bert(make_bert(), tmp_path / "source")
    spoil(folder)
    with pytest.raises(TrainingError, match=message) as caught:
        read_hugging_face(folder)
    assert str(caught.value).startswith(f"{folder} holds no model that can be tuned: ")
    assert "model.safetensors and tokenizer.json" in str(caught.value)


def test_an_exported_model_is_read_within_a_step_of_its_weights(make_bert, exported):
    """A step is a 64th of the largest weight of an output, a 255th of the range of the words."""
    weights, read = make_bert(vocab_size=1_000), read_exported(exported)
    assert read.config == weights.config | {"type_vocab_size": 1}
    assert read.tokenizer == weights.tokenizer
    assert set(read.tensors) == set(weights.tensors)
    for name, tensor in weights.tensors.items():
        if name == WORDS:
            step = np.ptp(tensor) / 255
        elif name.startswith("encoder.") and tensor.ndim == 2:
            step = np.abs(tensor).max(axis=1, keepdims=True) / 64
        else:
            np.testing.assert_array_equal(read.tensors[name], tensor[: len(read.tensors[name])])
            continue
        furthest = (0.501 if name == WORDS else 0.991) * step
        assert (np.abs(read.tensors[name] - tensor) <= furthest + 1e-7).all(), name


def test_what_was_read_is_exported_again_as_the_same_bytes(exported, tmp_path):
    """Each matrix is read as numbers that round to its integers."""
    export(read_exported(exported), tmp_path / "again", name="tiny")
    for name in ("model.onnx", "model.onnx_data", "model.json", "tokenizer.json"):
        assert (tmp_path / "again" / name).read_bytes() == (exported / name).read_bytes()


def test_what_training_changes_a_little_is_not_rounded_away(exported, tmp_path):
    """On average: changes by a fifth of a step change a fifth of the integers by one."""
    read = read_exported(exported)
    name = "encoder.layer.0.intermediate.dense.weight"
    before = read.tensors[name]
    step = np.abs(before).max(axis=1, keepdims=True) / 64
    moved = np.where(np.abs(before) < 50 * step, before + step / 5, before).astype(np.float32)
    tuned = dataclasses.replace(read, tensors={**read.tensors, name: moved})
    export(tuned, tmp_path / "again", name="tiny")
    changes = (read_exported(tmp_path / "again").tensors[name] - before) / step
    assert np.abs(changes.mean() - (moved - before).mean() / step.mean()) < 0.03


def test_the_packaged_model_can_be_tuned():
    pytest.importorskip("onnx")
    config = read_exported(PACKAGED_MODEL).config
    sizes = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    assert [config[size] for size in sizes] == [30522, 384, 6, 12]
    assert (config["intermediate_size"], config["layer_norm_eps"]) == (1536, 1e-12)


def foreign(folder):
    """Replace the graph by another one."""
    onnx = pytest.importorskip("onnx")
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph([node], "other", [value], [result])
    onnx.save(onnx.helper.make_model(graph), folder / "model.onnx")
    seal(folder)


def rename(folder):
    """Take a scale away from the matrix that it belongs to."""
    onnx = pytest.importorskip("onnx")
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    scale = next(entry for entry in model.graph.initializer if entry.name.endswith("T_scale"))
    scale.name = "elsewhere"
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    seal(folder)


def short_data(folder):
    """Cut the file of the large weights."""
    cut("model.onnx_data", 100)(folder)
    seal(folder)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "model.json").unlink(), "no model.json with the digest"),
        (lambda folder: (folder / "model.onnx").unlink(), "model.onnx cannot be read"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer.json cannot be read"),
        (fill("model.json", b"{"), "cannot be read as JSON"),
        (fill("model.json", b'{"name": "x"}'), "lacks a usable value"),
        (cut("model.onnx", 1_000), "is damaged or was changed|no such file"),
        (cut("model.onnx_data", 1_000), "is damaged or was changed"),
        (foreign, "has no matrix embeddings.word_embeddings.weight"),
        (rename, "onnx cannot use"),
        (short_data, "onnx cannot use"),
    ],
)
def test_an_exported_folder_that_was_changed_is_refused(exported, spoil, message):
    spoil(exported)
    with pytest.raises(TrainingError, match=message) as caught:
        read_exported(exported)
    assert str(caught.value).startswith(f"{exported} holds no model that can be tuned: ")


@pytest.mark.parametrize("read", [read_hugging_face, read_exported])
def test_a_folder_that_is_not_there_is_refused(tmp_path, read):
    pytest.importorskip("onnx")
    with pytest.raises(TrainingError, match="holds no model that can be tuned"):
        read(tmp_path / "nowhere")


def test_without_its_library_each_reader_names_the_extra(
    make_bert, save_bert, exported, tmp_path, monkeypatch
):
    """A missing library is not the folder's fault."""
    source = save_bert(make_bert(), tmp_path / "source")
    for library in ("safetensors", "onnx"):
        monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, "skillsearch.training.onnx_model")
    for read, folder in ((read_hugging_face, source), (read_exported, exported)):
        with pytest.raises(MissingDependencyError, match=r"\[train\]"):
            read(folder)
