"""Readers of others in ONNX form, those of sentence-transformers, and what cannot be loaded."""

import json
import logging
import sys

import numpy as np
import pytest
import tokenizers

from skillsearch.errors import EmbedderError, MissingDependencyError
from skillsearch.readers import reader as readers
from skillsearch.readers.reader import OnnxReader, Readers, load_reader, reader_spec
from skillsearch.settings import config

onnx = pytest.importorskip("onnx")
WORDS = "[PAD] [UNK] [CLS] [SEP] tea timer kettle boils water".split()


@pytest.fixture
def foreign(tmp_path):
    """Make the folder of a model whose logit is the sum of some inputs, one for each label."""

    def make(labels=1, names=("input_ids", "token_type_ids"), output="logits", bias=0.0):
        helper, types = onnx.helper, onnx.TensorProto
        given = [helper.make_tensor_value_info(n, types.INT64, ["b", "t"]) for n in names]
        nodes = [
            helper.make_node("Sum", ["x0", "x1"], ["all"])
            if len(names) > 1
            else helper.make_node("Identity", ["x0"], ["all"]),
            helper.make_node("ReduceSum", ["all", "axis"], ["sum"], keepdims=1),
            helper.make_node("Add", ["sum", "bias"], [output]),
        ]
        casts = [
            helper.make_node("Cast", [name], [f"x{place}"], to=types.FLOAT)
            for place, name in enumerate(names)
        ]
        constants = [
            onnx.numpy_helper.from_array(np.array([1]), "axis"),
            onnx.numpy_helper.from_array(np.full(labels, bias, np.float32), "bias"),
        ]
        result = helper.make_tensor_value_info(output, types.FLOAT, ["b", labels])
        graph = helper.make_graph([*casts, *nodes], "sum", given, [result], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        (tmp_path / "onnx").mkdir()
        onnx.save(model, tmp_path / "onnx" / "model.onnx")
        known = {word: row for row, word in enumerate(WORDS)}
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        ends = [("[SEP]", known["[SEP]"]), ("[CLS]", known["[CLS]"])]
        tokenizer.post_processor = tokenizers.processors.BertProcessing(*ends)
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        settings = json.dumps({"model_max_length": 8})
        (tmp_path / "tokenizer_config.json").write_text(settings, encoding="utf-8")
        return tmp_path

    return make


def test_a_model_with_token_types_gets_those_of_its_tokenizer(foreign):
    """[CLS] tea [SEP] kettle water [SEP], the last three of the second type; cut at its limit."""
    reader = OnnxReader.load(foreign())
    assert reader.read("tea", ["kettle water", "", "\udc80"]).tolist() == [26 + 3, 12 + 1, 13 + 2]
    long = ["tea " * 50]
    assert reader.read("tea", long).tolist() == [2 + 4 + 3 + 4 * 4 + 3 + 5]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": 3}, r"shape \(1, 3\).* one finite number"),
        ({"bias": float("nan")}, "one finite number"),
        ({"output": "scores"}, "expected 'logits'"),
        ({"names": ("input_ids", "pixels")}, "not a cross-encoder that we know"),
    ],
)
def test_a_model_that_is_no_reader_is_refused(foreign, changes, message):
    with pytest.raises(EmbedderError, match=message):
        load_reader(str(foreign(**changes))).read("tea", ["kettle"])


def test_a_folder_without_a_model_says_what_it_needs(tmp_path):
    with pytest.raises(
        EmbedderError,
        match=r"needs words\.bin and reader\.onnx, or token.*st:",
    ):
        load_reader(str(tmp_path))


def test_a_damaged_model_is_named(foreign):
    folder = foreign()
    (folder / "onnx" / "model.onnx").write_bytes(b"no model")
    with pytest.raises(EmbedderError, match="ONNX Runtime cannot use"):
        load_reader(str(folder))


@pytest.mark.parametrize("spec", ["", "st:", "auto", "word2vec", "no/such/folder", "\0"])
def test_an_unknown_reader_is_refused_with_those_there_are(spec):
    with pytest.raises(EmbedderError, match="use one of: packaged, st:NAME_OR_FOLDER, FOLDER"):
        load_reader(spec)


def test_readers_are_loaded_once(foreign):
    known, folder = Readers(), str(foreign())
    assert known.get(folder) is known.get(folder)
    assert [reader_spec(one) for one in ("auto", "always", folder)] == [
        "packaged",
        "packaged",
        folder,
    ]


def test_a_packaged_reader_that_cannot_be_loaded_is_told_once(monkeypatch, caplog, tmp_path):
    """Skills are then searched without it; a model that was asked for is an error."""
    monkeypatch.setattr(readers, "PACKAGED_SHA256", "0" * 64)
    known = Readers()
    with caplog.at_level(logging.WARNING):
        assert [known.get("packaged"), known.get("packaged")] == [None, None]
    assert len(caplog.records) == 1
    with pytest.raises(EmbedderError, match="is not a reader"):
        known.get(str(tmp_path))


def test_the_setting_counts_if_nothing_is_asked_for(monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_READER", "off")
    known = Readers()
    assert [known.choice(asked) for asked in (None, "always", None)] == ["off", "always", "off"]
    assert config.load_settings().reader == "off"


def test_without_sentence_transformers_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingDependencyError, match=r"The reader 'st:some/model' .*\[st\]"):
        load_reader("st:some/model", "cpu")


@pytest.fixture
def cross_encoder(tmp_path):
    pytest.importorskip("sentence_transformers")
    transformers = pytest.importorskip("transformers")

    def make(labels=1):
        folder = tmp_path / "tiny"
        folder.mkdir()
        (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
        settings = transformers.BertConfig(
            vocab_size=len(WORDS),
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=64,
            num_labels=labels,
        )
        transformers.BertForSequenceClassification(settings).save_pretrained(folder)
        transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
        return folder

    return make


@pytest.mark.slow
@pytest.mark.torch
def test_a_cross_encoder_gives_its_logits(cross_encoder):
    folder, texts = cross_encoder(), ["kettle", "water boils"]
    transformers = pytest.importorskip("transformers")
    model = transformers.BertForSequenceClassification.from_pretrained(folder)
    tokenizer = transformers.BertTokenizer.from_pretrained(folder)
    expected = [
        model(**tokenizer("tea timer", text, return_tensors="pt")).logits.item() for text in texts
    ]
    reader = load_reader(f"st:{folder}", "cpu")
    np.testing.assert_allclose(reader.read("tea timer", texts), expected, atol=1e-5)
    assert reader.read("tea", []).shape == (0,)


@pytest.mark.slow
@pytest.mark.torch
def test_a_cross_encoder_with_more_labels_is_refused(cross_encoder):
    with pytest.raises(EmbedderError, match=r"shape \(1, 3\)"):
        load_reader(f"st:{cross_encoder(3)}", "cpu").read("tea", ["kettle"])


@pytest.mark.torch
def test_a_pickle_is_refused(cross_encoder):
    folder = cross_encoder()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(EmbedderError, match="is a pickle"):
        load_reader(f"st:{folder}", "cpu")
