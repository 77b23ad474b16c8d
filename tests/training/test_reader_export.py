"""A reader as ONNX: its graph against numpy and torch, its folder, and the way back."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from skillsearch.embedders.model_files import sha256_of
from skillsearch.embedders.onnx_embedder import OnnxEmbedder
from skillsearch.errors import EmbedderError, TrainingError
from skillsearch.readers.reader import MAX_TOKENS, OnnxReader, encode_pairs, load_reader
from skillsearch.training.bert_weights import export, read_exported, read_hugging_face

onnxruntime = pytest.importorskip("onnxruntime")
onnx_model = pytest.importorskip("skillsearch.training.onnx_model")

REQUEST = "boils the water for tea"
TEXTS = ["tea", "", "the kettle boils water", "a timer for green tea " * 90]


@pytest.fixture(scope="module")
def exported(make_reader, tmp_path_factory):
    """The folder of a small reader, and its weights."""
    weights, folder = make_reader(vocab_size=1_000), tmp_path_factory.mktemp("reader") / "exported"
    export(weights, folder, name="tiny", stem="reader", extra={"scripts": ["Latin"]})
    return folder, weights


def encoded(weights, texts=TEXTS):
    """Return the tokens of each pair of the request and a text."""
    tokenizer = tokenizers.Tokenizer.from_str(weights.tokenizer.decode())
    return encode_pairs(tokenizer, [(REQUEST, text) for text in texts])


def test_the_graph_computes_what_a_reader_computes(make_reader, read_by_hand):
    weights = make_reader()
    model = onnx_model.BertGraph(weights.tensors, weights.config).build()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    pairs = encoded(weights)[:3]
    longest = max(len(pair.ids) for pair in pairs)
    rows = [(pair.ids, [1] * len(pair.ids), pair.parts) for pair in pairs]
    names = ("input_ids", "attention_mask", "token_type_ids")
    feeds = {
        name: np.array([row + [0] * (longest - len(row)) for row in column])
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    (logits,) = session.run(["logits"], feeds)
    assert logits.shape == (3,)
    expected = [read_by_hand(weights, pair) for pair in pairs]
    np.testing.assert_allclose(logits, expected, atol=2e-5)


@pytest.mark.slow
@pytest.mark.torch
def test_an_exported_reader_reads_like_torch(exported):
    """Within what 7-bit weights lose, for short texts and for one that is cut."""
    pytest.importorskip("torch")
    torch_reader = pytest.importorskip("skillsearch.training.cross_encoder").TorchReader
    folder, weights = exported
    reader = torch_reader(weights)
    reader.is_half = False
    expected = reader.read([(REQUEST, text) for text in TEXTS])
    np.testing.assert_allclose(OnnxReader.load(folder).read(REQUEST, TEXTS), expected, atol=0.15)


def test_an_exported_reader_reads_like_numpy(exported, read_by_hand):
    """Each text by itself, so that its logit is the same whatever is read beside it."""
    folder, weights = exported
    reader = OnnxReader.load(folder)
    logits = reader.read(REQUEST, TEXTS)
    expected = [read_by_hand(weights, pair) for pair in encoded(weights)]
    np.testing.assert_allclose(logits, expected, atol=0.15)
    assert [reader.read(REQUEST, [text])[0] for text in TEXTS] == logits.tolist()
    assert reader.read(REQUEST, []).shape == (0,)
    assert (reader.name, reader.scripts) == ("tiny", {"Latin"})
    assert load_reader(str(folder)).read(REQUEST, TEXTS).tolist() == logits.tolist()


def test_the_record_of_a_reader(exported):
    """It takes as many tokens as it was trained with, and the head stays in float32."""
    folder, weights = exported
    record = json.loads((folder / "reader.json").read_bytes())
    assert (record["max_tokens"], record["pooling"]) == (MAX_TOKENS, "head")
    assert set(record["sha256"]) == {"reader.onnx", "reader.onnx_data", "tokenizer.json"}
    tensors = read_exported(folder, "reader").tensors
    for name in ("token.weight", "inner.weight", "inner.bias", "outer.weight", "outer.bias"):
        np.testing.assert_array_equal(tensors[f"head.{name}"], weights.tensors[f"head.{name}"])


def test_an_exported_reader_can_be_trained_further(exported, tmp_path):
    """What was read are the weights but for what 7 bits lose; exported again, it reads the same."""
    folder, weights = exported
    again, read = tmp_path / "again", read_exported(folder, "reader")
    for name, tensor in read.tensors.items():
        expected = weights.tensors[name][: len(tensor)]
        assert np.linalg.norm(tensor - expected) < np.linalg.norm(expected) / 2, name
    export(read, again, name="tiny", stem="reader")
    logits = [OnnxReader.load(one).read(REQUEST, TEXTS) for one in (folder, again)]
    np.testing.assert_allclose(*logits, atol=0.1)


def test_inputs_that_reach_far_are_evened_out(make_reader):
    """Factors are powers of two, divide what reaches far, and leave a reader what it is."""
    weights = make_reader()
    scale = weights.tensors["encoder.layer.0.output.LayerNorm.weight"]
    scale[3] *= 100
    pairs = encoded(weights)
    factors = onnx_model.find_factors(weights.tensors, weights.config, pairs)
    assert {name.partition("layer.")[2][2:] for name in factors} == {
        "attention.self",
        "attention.output.dense",
        "intermediate.dense",
        "output.dense",
    }
    for one in factors.values():
        assert np.array_equal(np.log2(one), np.rint(np.log2(one)))
    assert factors["encoder.layer.1.attention.self"].argmax() == 3
    logits = [
        onnxruntime.InferenceSession(
            onnx_model.BertGraph(weights.tensors, weights.config, some).build().SerializeToString()
        ).run(
            ["logits"],
            {
                "input_ids": np.array([pairs[2].ids]),
                "attention_mask": np.ones((1, len(pairs[2].ids)), np.int64),
                "token_type_ids": np.array([pairs[2].parts]),
            },
        )[0]
        for some in ({}, factors)
    ]
    np.testing.assert_allclose(*logits, atol=1e-4)


def test_a_head_is_read_from_safetensors(make_reader, save_bert, tmp_path):
    weights = make_reader()
    read = read_hugging_face(save_bert(weights, tmp_path / "source"))
    assert read.is_reader
    assert set(read.tensors) == set(weights.tensors)


def test_a_head_that_lacks_a_part_is_refused(make_reader):
    weights = make_reader()
    tensors = {n: one for n, one in weights.tensors.items() if n != "head.outer.bias"}
    with pytest.raises(TrainingError, match=r"has no head\.outer\.bias"):
        dataclasses.replace(weights, tensors=tensors)


def test_a_changed_file_is_refused(exported, tmp_path):
    folder = Path(shutil.copytree(exported[0], tmp_path / "copy"))
    digest = sha256_of(folder / "reader.json")
    OnnxReader.load(folder, manifest_sha256=digest)
    with pytest.raises(EmbedderError, match=r"reader\.json is damaged or was changed"):
        OnnxReader.load(folder, manifest_sha256="0" * 64)
    for name in ("reader.onnx", "reader.onnx_data", "tokenizer.json"):
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        with pytest.raises(EmbedderError, match=rf"{name} is damaged or was changed"):
            OnnxReader.load(folder, manifest_sha256=digest)
        (folder / name).write_bytes(before)


def test_a_reader_is_no_embedder(exported):
    """Loading one as the other says what it computes."""
    with pytest.raises(EmbedderError, match="not a text encoder we know"):
        OnnxEmbedder.load(exported[0], stem="reader")
