"""Any local ONNX folder is an embedder, or says why not."""

import json
import os

import numpy as np
import pytest
import tokenizers

from skillsearch.embedders.embedder import load_embedder, model_identity
from skillsearch.embedders.embedding import embed
from skillsearch.embedders.model_files import weight_files
from skillsearch.embedders.onnx_embedder import OnnxEmbedder
from skillsearch.errors import EmbedderError

VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "red": 4, "green": 5, "blue": 6}
TABLE = np.random.default_rng(3).normal(size=(len(VOCABULARY), 4)).astype(np.float32)


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def write_tokenizer(path):
    words = tokenizers.models.WordLevel(VOCABULARY, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(path))


def make_model(
    folder,
    *,
    file="model.onnx",
    inputs=("input_ids",),
    output="last_hidden_state",
    table=TABLE,
    weights=None,
):
    """Write an ONNX folder whose model looks each token up in `table`, kept in file `weights`."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["rows"])]
    pooled = output == "sentence_embedding"
    pool = ("ReduceMean", {"axes": [1], "keepdims": 0}) if pooled else ("Identity", {})
    nodes.append(helper.make_node(pool[0], ["rows"], [output], **pool[1]))
    graph = helper.make_graph(
        nodes,
        "lookup",
        [helper.make_tensor_value_info(name, kind.INT64, ["b", "t"]) for name in inputs],
        [
            helper.make_tensor_value_info(
                output, kind.FLOAT, ["b", "d"] if pooled else ["b", "t", "d"]
            )
        ],
        [onnx.numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    if weights is not None:
        (tensor,) = model.graph.initializer
        beside = path.parent / weights
        beside.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(tensor.raw_data)
        onnx.external_data_helper.set_external_data(tensor, weights, 0, len(tensor.raw_data))
        tensor.ClearField("raw_data")
    path.write_bytes(model.SerializeToString())
    write_tokenizer(folder / "tokenizer.json")
    return folder


def make_model_that_names(folder, weights):
    """Write the bytes of an ONNX tensor whose weights are in a file of that name."""

    def field(tag, value):
        size, length = len(value), b""
        while size > 0x7F:
            length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
        return tag + length + bytes([size]) + value

    make_model(folder)
    entry = field(b"j", field(b"\n", b"location") + field(b"\x12", weights))
    (folder / "model.onnx").write_bytes(field(b":", field(b"*", entry)))


def unit(vector):
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"file": "onnx/model.onnx"},
        {"file": "model_quantized.onnx"},
        {"file": "onnx/model_quantized.onnx"},
        {"output": "token_embeddings"},
        {"output": "sentence_embedding"},
        {"inputs": ("input_ids", "attention_mask")},
        {"inputs": ("attention_mask", "token_type_ids", "input_ids")},
        {"weights": "model.onnx_data"},
        {"weights": "weights/table", "file": "onnx/model.onnx"},
    ],
)
def test_any_local_onnx_folder_is_an_embedder(tmp_path, layout):
    folder = make_model(tmp_path / "colours", **layout)
    embedder = load_embedder(str(folder))
    assert (embedder.name, embedder.dimensions) == ("colours", 4)
    rows = embed(embedder, ["red blue", "green", ""])
    np.testing.assert_allclose(rows[0], unit(TABLE[[2, 4, 6, 3]].mean(0)), atol=1e-6)
    np.testing.assert_allclose(rows[1], unit(TABLE[[2, 5, 3]].mean(0)), atol=1e-6)
    assert not rows[2].any()


@pytest.mark.parametrize(
    "config",
    [{"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, {"pooling_mode": "cls"}],
)
def test_a_model_that_pools_by_its_first_token_is_pooled_so(tmp_path, config, vector_of):
    folder = make_model(tmp_path)
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 4} | config)
    row = vector_of(load_embedder(f"onnx:{folder}"), "red")
    np.testing.assert_allclose(row, unit(TABLE[2]), atol=1e-6)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("sentence_bert_config.json", {"max_seq_length": 4}),
        ("tokenizer_config.json", {"model_max_length": 4}),
        ("model.json", {"name": "colours", "max_tokens": 4, "pooling": "mean"}),
    ],
)
def test_the_token_limit_is_read_where_it_is_written(tmp_path, file, content, cut_texts):
    folder = make_model(tmp_path)
    write_json(folder / file, content)
    embedder, texts = OnnxEmbedder.load(folder), ["red blue", "red blue green"]
    result = embed(embedder, texts)
    assert cut_texts(embedder, texts) == 1
    np.testing.assert_array_equal(*result)


def test_a_limit_that_means_none_is_not_taken(tmp_path, cut_texts):
    """Some tokenizers write 1e30; the default of 256 tokens holds then."""
    folder = make_model(tmp_path)
    write_json(folder / "tokenizer_config.json", {"model_max_length": 10**30})
    assert cut_texts(OnnxEmbedder.load(folder), ["red " * 254, "red " * 255]) == 1


def test_a_fingerprint_changes_with_all_that_changes_vectors(tmp_path):
    first = make_model(tmp_path / "first")
    moved = make_model(tmp_path / "moved")
    weights = make_model(tmp_path / "weights", table=TABLE + 1)
    pooling = make_model(tmp_path / "pooling")
    write_json(pooling / "1_Pooling" / "config.json", {"pooling_mode": "cls"})
    limit = make_model(tmp_path / "limit")
    write_json(limit / "sentence_bert_config.json", {"max_seq_length": 128})
    prints = [OnnxEmbedder.load(f).fingerprint for f in (first, moved, weights, pooling, limit)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 4


@pytest.mark.parametrize("weights", ["model.onnx_data", "a/b", "é" * 60, "n" * 200])
def test_a_fingerprint_covers_weights_outside_the_model_file(tmp_path, weights, vector_of):
    folder = make_model(tmp_path, weights=weights)
    before = OnnxEmbedder.load(folder)
    (folder / "other.onnx_data").write_bytes(b"of another model")
    assert OnnxEmbedder.load(folder).fingerprint == before.fingerprint
    (folder / weights).write_bytes((TABLE + 1).tobytes())
    after = OnnxEmbedder.load(folder)
    np.testing.assert_allclose(vector_of(after, "red"), unit(TABLE[[2, 4, 3]].mean(0) + 1), 1e-5)
    assert after.fingerprint != before.fingerprint


def test_every_file_of_a_model_with_many_is_found(tmp_path):
    """One file for each tensor, as old exporters write; a text that says "location" is not one."""
    onnx = pytest.importorskip("onnx")
    model = onnx.ModelProto(doc_string="location")
    model.metadata_props.add(key="location", value="nowhere")
    for name in ("encoder.weight", "onnx__MatMul_12", "bias"):
        tensor = model.graph.initializer.add(name=name, raw_data=b"1234")
        onnx.external_data_helper.set_external_data(tensor, name)
        (tmp_path / name).write_bytes(b"1234")
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    names = [path.name for path in weight_files(tmp_path / "model.onnx")]
    assert names == ["bias", "encoder.weight", "onnx__MatMul_12"]


def test_weights_in_the_cache_of_the_hub_are_read(tmp_path, vector_of):
    folder, blobs = make_model(tmp_path / "snapshot", weights="model.onnx_data"), tmp_path / "blobs"
    blobs.mkdir()
    for name in ("model.onnx", "model.onnx_data"):
        blob = (folder / name).rename(blobs / f"digest of {name}")
        (folder / name).symlink_to(blob)
    np.testing.assert_allclose(
        vector_of(OnnxEmbedder.load(folder), "red"), unit(TABLE[[2, 4, 3]].mean(0)), atol=1e-6
    )


@pytest.mark.parametrize("name", ["model.onnx", "weights", "tokenizer.json"])
@pytest.mark.parametrize("spec", ["onnx:{}", "{}"])
def test_the_identity_of_a_local_model_follows_its_files(tmp_path, spec, name):
    folder = make_model(tmp_path / "model", weights="weights")
    spec = spec.format(folder)
    before = model_identity(spec)
    assert model_identity(spec) == before
    os.utime(folder / name, (1, 1))
    assert model_identity(spec) != before


DENSE = [{"type": "a.models.Transformer"}, {"type": "a.models.Dense"}]
OURS = {"name": "colours", "max_tokens": "many", "pooling": "mean"}
MAX_POOLING = {"pooling_mode_max_tokens": True}
BAD_FILES = {
    "no onnx": ("model.onnx", b"GIF89a", "ONNX Runtime cannot"),
    "empty onnx": ("model.onnx", b"", "cannot be read.*reinstall"),
    "bad tokenizer": ("tokenizer.json", b"{}", "tokenizers cannot use"),
    "bad json": ("model.json", b"{", "cannot be read as JSON"),
    "deep json": ("model.json", b"[" * 100_000, "cannot be read as JSON"),
    "list": ("model.json", b"[]", "holds list, not dict"),
    "bad value": ("model.json", OURS, "lacks a usable value"),
    "dense": ("modules.json", DENSE, r"'mean\+Dense' after it"),
    "max pooling": (
        "1_Pooling/config.json",
        MAX_POOLING,
        "needs 'pooling_mode_max_tokens' after it; load it as st:",
    ),
}
"""Files that spoil a good folder, and a part of the message for each."""


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_folder_with_a_file_that_cannot_be_used_says_which(tmp_path, name, content, message):
    folder = make_model(tmp_path)
    if isinstance(content, bytes):
        (folder / name).write_bytes(content)
    else:
        write_json(folder / name, content)
    with pytest.raises(EmbedderError, match=message):
        OnnxEmbedder.load(folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [("model.onnx", "needs tokenizer.json and one of"), ("tokenizer.json", "needs tokenizer.json")],
)
def test_a_folder_without_its_model_or_tokenizer_says_what_it_needs(tmp_path, name, message):
    folder = make_model(tmp_path)
    (folder / name).unlink()
    with pytest.raises(EmbedderError, match=message):
        OnnxEmbedder.load(folder)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"output": "logits"}, "not a text encoder we know"),
        ({"inputs": ("input_ids", "pixels")}, "not a text encoder"),
    ],
)
def test_a_model_of_another_kind_is_refused(tmp_path, layout, message):
    with pytest.raises(EmbedderError, match=message):
        OnnxEmbedder.load(make_model(tmp_path, **layout))


@pytest.mark.parametrize("weights", ["../weights", "{}/weights"])
def test_weights_outside_the_folder_are_refused(tmp_path, weights):
    folder = make_model(tmp_path / "model", weights=weights.format(tmp_path))
    with pytest.raises(EmbedderError, match=r"outside its folder: .*weights"):
        OnnxEmbedder.load(folder)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (b"a\0b", "weights in .*no such file"),
        (b"n" * 5000, "cannot be read.*too long"),
        (b"\xff\xfe", "cannot be read.*utf-8"),
        (b"/dev/zero", "weights in .*no such file"),
    ],
    ids=["nul", "long", "bytes", "device"],
)
def test_weights_under_a_name_that_no_file_has_are_refused(tmp_path, weights, message):
    make_model_that_names(tmp_path, weights)
    with pytest.raises(EmbedderError, match=message):
        OnnxEmbedder.load(tmp_path)


def test_a_model_that_gives_no_numbers_is_refused(tmp_path, vector_of):
    table = TABLE.copy()
    table[VOCABULARY["red"]] = np.nan
    embedder = OnnxEmbedder.load(make_model(tmp_path, table=table))
    assert vector_of(embedder, "blue").any()
    with pytest.raises(EmbedderError, match="NaN or infinity"):
        embed(embedder, ["blue", "red"])


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    """A token id that the model has no row for is an error of the embedder, not a crash."""
    embedder = OnnxEmbedder.load(make_model(tmp_path, table=TABLE[:6]))
    with pytest.raises(EmbedderError, match="ONNX Runtime cannot use"):
        embed(embedder, ["blue"])
