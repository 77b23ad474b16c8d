"""Readers of others in ONNX form, those of sentence-transformers, and what is none."""

import sys

import numpy as np
import pytest

from skillsearch.errors import EmbedderError, MissingDependencyError
from skillsearch.readers.loading import load_reader
from skillsearch.readers.other_readers import OnnxReader


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
    with pytest.raises(EmbedderError, match=r"needs words\.bin and reader\.onnx, or token.*st:"):
        load_reader(str(tmp_path))


def test_a_damaged_model_is_named(foreign):
    folder = foreign()
    (folder / "onnx" / "model.onnx").write_bytes(b"no model")
    with pytest.raises(EmbedderError, match="ONNX Runtime cannot use"):
        load_reader(str(folder))


def test_without_sentence_transformers_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingDependencyError, match=r"The reader 'st:some/model' .*\[st\]"):
        load_reader("st:some/model", "cpu")


@pytest.fixture
def cross_encoder(tmp_path, words):
    pytest.importorskip("sentence_transformers")
    transformers = pytest.importorskip("transformers")

    def make(labels=1):
        folder = tmp_path / "tiny"
        folder.mkdir()
        (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
        settings = transformers.BertConfig(
            vocab_size=len(words),
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
