"""The exporter: its graph against BERT in numpy, its bytes, and the folder that it writes."""

import json
import logging
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from skillsearch.embedders.embedding import embed
from skillsearch.embedders.model_files import sha256_of
from skillsearch.embedders.onnx_embedder import OnnxEmbedder, write_optimised, write_quantised
from skillsearch.errors import MissingDependencyError, TrainingError
from skillsearch.training.bert_weights import export

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
onnx_model = pytest.importorskip("skillsearch.training.onnx_model")

TEXTS = ["tea", "the kettle boils water", "a timer for green tea with a cup"]


def run_model(model, ids, mask):
    """Run an ONNX model on padded token ids."""
    data = model if isinstance(model, str) else model.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    feeds = {"input_ids": np.array(ids), "attention_mask": np.array(mask)}
    return session.run(["sentence_embedding"], feeds)[0]


def files_of(folder):
    """Return the content of each file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_graph_computes_what_bert_computes(make_bert, encode_by_hand):
    """The float32 graph agrees with BERT written out in numpy."""
    weights, ids = make_bert(), [2, 5, 9, 3, 1]
    row = run_model(
        onnx_model.BertGraph(weights.tensors, weights.config).build(), [ids], [[1] * 5]
    )[0]
    np.testing.assert_allclose(row, encode_by_hand(weights, ids), atol=5e-6)


def test_padding_does_not_change_a_vector_in_float32(make_bert):
    """Masked tokens are neither attended to nor pooled."""
    weights = make_bert()
    model = onnx_model.BertGraph(weights.tensors, weights.config).build()
    alone = run_model(model, [[2, 5, 3]], [[1, 1, 1]])[0]
    padded = run_model(model, [[2, 5, 3, 0, 0], [2, 7, 8, 9, 3]], [[1, 1, 1, 0, 0], [1] * 5])[0]
    np.testing.assert_allclose(padded, alone, atol=5e-6)


def test_an_exported_model_points_where_its_weights_point(make_bert, tmp_path, encode_by_hand):
    """The exported model gives nearly the vectors of BERT written out in numpy."""
    weights = make_bert()
    digest = export(weights, tmp_path / "model", name="tiny")
    embedder = OnnxEmbedder.load(tmp_path / "model", manifest_sha256=digest)
    assert (embedder.name, embedder.dimensions) == ("tiny", 32)
    tokenizer = tokenizers.Tokenizer.from_str(weights.tokenizer.decode())
    expected = [encode_by_hand(weights, tokenizer.encode(text).ids) for text in TEXTS]
    cosines = np.sum(embed(embedder, TEXTS) * expected, axis=1)
    assert cosines.min() > 0.98


def test_a_text_is_cut_where_the_positions_end(make_bert, tmp_path):
    """A model with fewer than 256 positions takes as many tokens, with those at both ends."""
    export(make_bert(), tmp_path / "model", name="tiny")
    embedder = OnnxEmbedder.load(tmp_path / "model")
    texts = ["tea " * 10, "tea " * 11, "tea " * 500]
    assert [text.truncated for text in embedder.embed_stream(texts)] == [False, True, True]


def test_model_json_says_what_the_files_are(make_bert, tmp_path):
    """The fields that the embedder reads, those of the caller, and a digest of every other file."""
    folder, extra = tmp_path / "model", {"scripts": ["Latin"], "source": {"seed": 3}}
    digest = export(make_bert(), folder, name="tiny", notice="n\n", licence="l\n", extra=extra)
    assert digest == sha256_of(folder / "model.json")
    record = json.loads((folder / "model.json").read_bytes())
    versions = {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}
    others = ["LICENSE", "NOTICE", "model.onnx", "model.onnx_data", "tokenizer.json"]
    assert record == {
        "name": "tiny",
        "dimensions": 32,
        "max_tokens": 12,
        "pooling": "mean",
        "scripts": ["Latin"],
        "source": {"seed": 3},
        "built_with": versions,
        "sha256": {name: sha256_of(folder / name) for name in others},
    }
    assert ((folder / "NOTICE").read_text(), (folder / "LICENSE").read_text()) == ("n\n", "l\n")


def test_exporting_twice_gives_the_same_bytes(make_bert, tmp_path):
    for name in ("first", "second"):
        export(make_bert(), tmp_path / name, name="tiny")
    first, second = files_of(tmp_path / "first"), files_of(tmp_path / "second")
    assert first == second
    assert sorted(first) == ["model.json", "model.onnx", "model.onnx_data", "tokenizer.json"]


def test_a_graph_is_written_as_it_is_opened_and_gives_the_same_vectors(make_bert, tmp_path):
    """ONNX Runtime finds nothing to fuse in it, which would take half the time of a start."""
    weights = make_bert()
    graph = onnx_model.BertGraph(weights.tensors, weights.config).build()
    plain, path = tmp_path / "plain.onnx", tmp_path / "model.onnx"
    with tempfile.TemporaryDirectory() as scratch:
        write_quantised(graph, Path(scratch) / "model.onnx")
        onnx_model.write_apart(onnx.load(Path(scratch) / "model.onnx"), plain)
    onnx_model.quantise(graph, path)
    nodes = [node.op_type for node in onnx.load(path, load_external_data=False).graph.node]
    assert "DynamicQuantizeMatMul" in nodes
    tokens = [[2, 5, 9]], [[1, 1, 1]]
    np.testing.assert_array_equal(run_model(str(path), *tokens), run_model(str(plain), *tokens))
    write_optimised(path)
    again = [node.op_type for node in onnx.load(path, load_external_data=False).graph.node]
    assert again == nodes


def test_large_weights_lie_apart_in_whole_pages_and_change_no_vector(make_bert, tmp_path):
    """Each large tensor has its own pages in the data file; small ones stay in the model."""
    page = onnx_model.ALIGNMENT
    large = page // (4 * 32)
    weights = make_bert(vocab_size=large + 1, max_position_embeddings=large)
    model, path = (
        onnx_model.BertGraph(weights.tensors, weights.config).build(),
        tmp_path / "model.onnx",
    )
    tensors = {tensor.name: tensor.raw_data for tensor in model.graph.initializer}
    expected = run_model(model, [[2, 5, 9]], [[1, 1, 1]])
    onnx_model.write_apart(model, path)

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


def test_an_empty_folder_is_filled(make_bert, tmp_path):
    (tmp_path / "model").mkdir()
    export(make_bert(), tmp_path / "model", name="tiny")
    assert OnnxEmbedder.load(tmp_path / "model").name == "tiny"


def test_a_folder_with_files_is_left_as_it_is(make_bert, tmp_path):
    """No model is replaced, and nothing half written stays beside it."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "notes").write_text("mine", encoding="utf-8")
    with pytest.raises(TrainingError, match=r"cannot be written: .*; name a new folder"):
        export(make_bert(), folder, name="tiny")
    assert files_of(folder) == {"notes": b"mine"}
    assert list(tmp_path.iterdir()) == [folder]


def test_exporting_leaves_the_root_logger_alone(make_bert, tmp_path, monkeypatch):
    """ONNX Runtime's own words would give it a handler, which prints our log twice."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    export(make_bert(), tmp_path / "model", name="tiny")
    assert logging.getLogger().handlers == []


def test_without_onnx_the_extra_is_named(make_bert, tmp_path, monkeypatch):
    """The error says what to install, and nothing is written."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "skillsearch.training.onnx_model")
    with pytest.raises(MissingDependencyError, match=r"\[train\]"):
        export(make_bert(), tmp_path / "model", name="tiny")
    assert list(tmp_path.iterdir()) == []
