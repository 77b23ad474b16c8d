"""Embedders by their name: the packaged model, what identifies each, and what is refused."""

import json
import os
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from skillsearch.embedders import embedder as embedder_module
from skillsearch.embedders.embedder import load_embedder, model_identity
from skillsearch.embedders.embedding import VERSION, HashingEmbedder, embed
from skillsearch.errors import EmbedderError, MissingDependencyError

GOLDEN = Path(__file__).with_name("golden_vectors.json")
TEXTS = [
    "pdf-forms: Fill in PDF forms, extract their fields and flatten the result.",
    "Trim and join video clips",
    "rotate api keys\nand revoke those that leaked",
    "",
    "a " * 300,
    "Réserver un créneau dans l'agenda partagé",
    "x",
]


def test_the_packaged_model_gives_the_vectors_it_was_shipped_with(packaged):
    """Stored vectors of three texts are met on every machine and version of ONNX Runtime.

    Not to the bit: float rounding tips some 8-bit roundings (lowest cosine seen: 0.9958).
    """
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    vectors = embed(packaged, list(golden))
    stored = np.array(list(golden.values()))
    stored /= np.linalg.norm(stored, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors[:, :8], stored[:, :8], atol=0.03)
    assert np.sum(vectors * stored, axis=1).min() >= 0.99


def test_the_packaged_model_says_what_it_is(packaged):
    assert (packaged.name, packaged.dimensions) == ("skillsearch-e5", 384)
    assert len(packaged.fingerprint) == 16
    for spec in ("multilingual", "skillsearch-e5"):
        assert load_embedder(spec).fingerprint == packaged.fingerprint
    assert embed(packaged, []).shape == (0, 384)


def test_texts_of_like_meaning_are_near_without_a_shared_word(packaged):
    query, same, other = embed(
        packaged, ["shorten a movie", "Trim and join video clips", "Rotate API keys that leaked"]
    )
    assert query @ same > 0.25 > 0.1 > query @ other


def test_rows_are_float32_of_unit_length_in_the_order_of_the_texts(packaged, vector_of):
    vectors = embed(packaged, TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), 384)
    expected = [float(bool(text)) for text in TEXTS]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), expected, atol=1e-6)
    for text, row in zip(TEXTS, vectors, strict=True):
        np.testing.assert_array_equal(row, vector_of(packaged, text))


@pytest.mark.parametrize("processors", [None, 1, 64])
def test_the_number_of_processors_changes_no_vector(packaged, monkeypatch, processors, vector_of):
    expected = np.stack([vector_of(packaged, text) for text in TEXTS])
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    np.testing.assert_array_equal(embed(packaged, TEXTS), expected)


def test_texts_beyond_the_token_limit_are_counted_and_cut(packaged, cut_texts):
    """Of 128 tokens a text has 126 for itself; the next word changes nothing."""
    fits, beyond = "word " * 126, "word " * 126 + "zebra"
    assert cut_texts(packaged, [fits]) == 0
    texts = [beyond, "short", fits, beyond]
    result = embed(packaged, texts)
    assert cut_texts(packaged, texts) == 2
    np.testing.assert_array_equal(result[0], result[2])
    flags = {text.position: text.truncated for text in packaged.embed_stream([beyond, "short"])}
    assert flags == {0: True, 1: False}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("filler", ["word ", "x", "(", "\t", "日本"])
@pytest.mark.slow
def test_a_megabyte_costs_no_more_than_its_head(packaged, filler, vector_of, cut_texts):
    huge = "find a skill " + filler * (1_000_000 // len(filler)) + "end"
    result = embed(packaged, [huge] * 8)
    assert cut_texts(packaged, [huge] * 8) == 8
    np.testing.assert_array_equal(result[0], vector_of(packaged, huge[:5000]))


@pytest.mark.parametrize("blank", ["", " \n\t", "\0", "\u200b\u200d", "\ufeff"])
def test_a_text_without_tokens_is_similar_to_nothing(packaged, blank, vector_of):
    assert not vector_of(packaged, blank).any()
    assert not vector_of(HashingEmbedder(), blank).any()


@pytest.mark.parametrize(
    "text",
    [
        "\ud800",
        "find\0me",
        "\udcff\udc00 half of a pair",
        "[CLS] [SEP] [MASK] [PAD]",
        "\u202eright to left",
        "e" + "\u0301" * 5000,
        "👩‍👩‍👧‍👦" * 50,
        "\x1b[31mred",
    ],
)
def test_hostile_text_gets_a_vector(packaged, text, vector_of):
    row = vector_of(packaged, text)
    assert np.linalg.norm(row) == pytest.approx(1.0, abs=1e-6)


def test_spaces_around_a_text_do_not_count_as_text(packaged, cut_texts):
    padded = "\n" * 10_000 + "trim a video" + " " * 10_000
    result = embed(packaged, [padded, "trim a video"])
    np.testing.assert_array_equal(*result)
    assert cut_texts(packaged, [padded, "trim a video"]) == 0


def test_progress_is_told_after_every_text(packaged):
    counts = []
    embed(packaged, ["one", "two", "three"], progress=counts.append)
    assert counts == [1, 2, 3]


def test_a_stream_that_is_closed_early_stops_its_threads(packaged, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    before = threading.active_count()
    with closing(packaged.embed_stream(["some text"] * 1000)) as stream:
        first = [next(stream) for _ in range(3)]
    assert [text.position for text in first] == [0, 1, 2]
    assert threading.active_count() == before


@pytest.mark.parametrize("spec", ["hashing", "st:some/model", "no/such/folder", "\0"])
def test_the_identity_of_what_is_no_local_model_is_its_name(spec):
    assert model_identity(spec) == f"{VERSION} {spec}"


def test_the_identity_of_the_packaged_model_is_its_digest():
    for spec in ("onnx", "multilingual", "skillsearch-e5"):
        assert model_identity(spec) == f"{VERSION} onnx {embedder_module.PACKAGED_SHA256}"


@pytest.mark.parametrize("spec", ["onnx", "hashing"])
def test_the_identity_changes_with_the_steps_that_change_vectors(monkeypatch, spec):
    before = model_identity(spec)
    monkeypatch.setattr(embedder_module, "VERSION", VERSION + 1)
    assert model_identity(spec) != before


@pytest.mark.parametrize("spec", ["", "onnx:", "st:", "word2vec", "no/such/folder", "\0"])
def test_an_unknown_embedder_gets_the_list_of_known_ones(spec):
    specs = "onnx, hashing, onnx:FOLDER, st:NAME_OR_FOLDER"
    with pytest.raises(EmbedderError, match=specs) as info:
        load_embedder(spec)
    assert repr(spec) in str(info.value)


def test_a_name_too_long_for_a_folder_is_cut_in_the_message():
    with pytest.raises(EmbedderError, match=r"^No embedder is called 'a{200}';"):
        load_embedder("a" * 300)


@pytest.mark.parametrize("spec", ["st:some/model", "sentence-transformers/all-mpnet-base-v2"])
@pytest.mark.parametrize("device", [None, "cuda"])
def test_a_missing_library_is_named_with_its_extra(monkeypatch, spec, device):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingDependencyError, match=r"install .*\[st\]") as info:
        load_embedder(spec, device=device)
    assert (info.value.module, info.value.extra) == ("sentence-transformers", "st")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["config.json", "pytorch_model.bin"], r"pytorch_model\.bin is a pickle"),
        (["config.json", "model.pkl"], r"model\.pkl is a pickle"),
        (["model.safetensors", "2_Dense/pytorch_model.bin"], r"pytorch_model\.bin is a pickle"),
        (["config.json"], r"has no weights in \.safetensors form"),
    ],
)
def test_weights_that_could_run_code_are_refused_before_anything_is_loaded(
    tmp_path, monkeypatch, files, message
):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    (tmp_path / "2_Dense").mkdir()
    for name in files:
        (tmp_path / name).write_text("{}", encoding="utf-8")
    with pytest.raises(EmbedderError, match=message):
        load_embedder(f"st:{tmp_path}")


def test_importing_the_module_loads_no_heavy_library(run_python):
    code = (
        "import sys, skillsearch.embedders.embedder\n"
        "heavy = {'onnxruntime', 'tokenizers', 'sentence_transformers', 'torch', 'click'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert run_python(code) == "[]\n"
