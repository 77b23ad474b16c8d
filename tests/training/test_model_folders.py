"""Folders of models: what is in one that was written, which can be tuned, and what is refused."""

import dataclasses
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from skillsearch.embedders.embedder import PACKAGED_MODEL, load_embedder
from skillsearch.embedders.embedding import embed
from skillsearch.embedders.mapped_model import MappedEmbedder
from skillsearch.embedders.model_files import sha256_of
from skillsearch.errors import EmbedderError, MissingDependencyError, TrainingError
from skillsearch.readers.loading import load_reader
from skillsearch.readers.mapped_reader import MAX_TOKENS, MappedReader, encode_pair
from skillsearch.training.bert_weights import average
from skillsearch.training.model_folders import begin_weights, export, folder_of, texts_beside

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

WORDS_OF = ["tea", "the kettle boils water", "a timer for green tea with a cup"]
REQUEST = "boils the water for tea"
TEXTS = ["tea", "", "the kettle boils water", "a timer for green tea " * 90]
FILES = {"LICENSE", "NOTICE", "words.bin"}


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_exported_embedder_points_where_its_weights_point(make_bert, embed_by_hand, tmp_path):
    """It gives nearly the vectors of the formula, and none for a text without words."""
    weights = make_bert()
    digest = export(weights, tmp_path / "model", name="tiny")
    embedder = MappedEmbedder.load(tmp_path / "model", manifest_sha256=digest)
    assert (embedder.name, embedder.dimensions) == ("tiny", 32)
    ids = [[0, *weights.words.tokenizer.encode(text, 99)[0], 2] for text in WORDS_OF]
    expected = [embed_by_hand(weights, tokens) for tokens in ids]
    assert np.sum(embed(embedder, WORDS_OF) * expected, axis=1).min() > 0.95
    assert not embed(embedder, [" "]).any()
    specs = str(tmp_path / "model"), f"onnx:{tmp_path / 'model'}"
    assert {load_embedder(spec).fingerprint for spec in specs} == {embedder.fingerprint}


def test_a_text_is_cut_where_the_positions_end(make_bert, tmp_path):
    """With two tokens for both ends."""
    export(make_bert(), tmp_path / "model", name="tiny")
    embedder = MappedEmbedder.load(tmp_path / "model")
    texts = ["tea " * 10, "tea " * 11, "tea " * 500]
    assert [text.truncated for text in embedder.embed_stream(texts)] == [False, True, True]


def test_an_exported_reader_reads_like_numpy(make_reader, read_by_hand, tmp_path):
    """Each text by itself, so that its logit is the same whatever is read beside it."""
    weights = make_reader()
    digest = export(weights, tmp_path / "model", name="tiny")
    reader = MappedReader.load(tmp_path / "model", manifest_sha256=digest)
    logits = reader.read(REQUEST, TEXTS)
    pairs = [encode_pair(weights.words.tokenizer, REQUEST, text) for text in TEXTS]
    assert len(pairs[3].ids) == MAX_TOKENS
    np.testing.assert_allclose(logits, [read_by_hand(weights, pair) for pair in pairs], atol=0.3)
    assert [reader.read(REQUEST, [text])[0] for text in TEXTS] == logits.tolist()
    assert reader.read(REQUEST, []).shape == (0,)
    assert reader.name == "tiny"
    assert load_reader(str(tmp_path / "model")).read(REQUEST, TEXTS).tolist() == logits.tolist()


@pytest.mark.parametrize("kind", ["model", "reader"])
def test_the_record_says_what_the_files_are(make_bert, make_reader, tmp_path, kind):
    weights, folder = (make_reader if kind == "reader" else make_bert)(), tmp_path / "out"
    extra = {"source": {"seed": 3}}
    digest = export(weights, folder, name="tiny", notice="n\n", licence="l\n", extra=extra)
    assert digest == sha256_of(folder / f"{kind}.json")
    versions = {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}
    others = sorted({*FILES, f"{kind}.onnx", f"{kind}.onnx_data"})
    assert json.loads((folder / f"{kind}.json").read_bytes()) == {
        "name": "tiny",
        "max_tokens": MAX_TOKENS if kind == "reader" else 12,
        "pooling": "head" if kind == "reader" else "mean",
        "dimensions": 1 if kind == "reader" else 32,
        "source": {"seed": 3},
        "built_with": versions,
        "sha256": {name: sha256_of(folder / name) for name in others},
    }
    assert (folder / "words.bin").read_bytes() == weights.words.path.read_bytes()
    assert texts_beside(folder) == ["n\n", "l\n"]


def test_a_folder_with_files_is_left_as_it_is(make_bert, tmp_path):
    """No model is replaced, and nothing half written stays beside it; an empty one is filled."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "notes").write_text("mine", encoding="utf-8")
    with pytest.raises(TrainingError, match=r"cannot be written: .*; name a new folder"):
        export(make_bert(), folder, name="tiny")
    assert files_of(folder) == {"notes": b"mine"}
    assert list(tmp_path.iterdir()) == [folder]
    (folder / "notes").unlink()
    export(make_bert(), folder, name="tiny")
    assert MappedEmbedder.load(folder).name == "tiny"


def test_mixed_weights_lie_between_both(make_bert):
    begin, other = make_bert(1), make_bert(2)
    tensors = {n: tensor for n, tensor in other.tensors.items() if "layer.0" not in n}
    tuned = dataclasses.replace(begin, tensors={**begin.tensors, **tensors})
    mixed = average(begin, tuned, 0.25)
    for name, tensor in begin.tensors.items():
        np.testing.assert_allclose(
            mixed.tensors[name], 0.75 * tensor + 0.25 * tuned.tensors[name], rtol=1e-5, atol=1e-6
        )
        np.testing.assert_array_equal(average(begin, tuned, 1.0).tensors[name], tuned.tensors[name])
        np.testing.assert_array_equal(average(begin, tuned, 0.0).tensors[name], tensor)
        assert (mixed.tensors[name] is tensor) == ("layer.0" in name)


def test_weights_that_are_not_finite_are_refused(make_bert):
    weights, name = make_bert(), "encoder.layer.1.output.dense.weight"
    tensors = {**weights.tensors, name: weights.tensors[name] * np.float32(np.inf)}
    with pytest.raises(TrainingError, match=rf"{name} has values that are not finite"):
        dataclasses.replace(weights, tensors=tensors)


def test_the_packaged_models_can_be_tuned():
    for spec, stem, tokens in (("onnx", "model", 128), ("packaged", "reader", MAX_TOKENS)):
        weights = begin_weights(spec, stem)
        assert (weights.layers, weights.heads, weights.epsilon) == (12, 12, 1e-12)
        assert (weights.is_reader, weights.neutral is None) == (stem == "reader",) * 2
        assert weights.positions.shape == (tokens, 384)


@pytest.mark.parametrize(
    "spec", ["hashing", "packaged", "st:sentence-transformers/x", "", "tiny", "a" * 300]
)
def test_models_that_cannot_be_tuned_are_refused(spec, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tiny").mkdir()
    Path("tiny/model.onnx").write_bytes(b"")
    with pytest.raises(TrainingError, match=r"cannot be tuned; begin with onnx, the packaged one"):
        folder_of(spec)


@pytest.mark.parametrize("spec", ["onnx", "", "st:nowhere", "a" * 300])
def test_other_readers_are_refused(spec):
    with pytest.raises(TrainingError, match="cannot be tuned; begin with packaged, the packaged"):
        begin_weights(spec, "reader")


def test_models_are_found_by_the_names_that_index_takes(make_bert, tmp_path):
    for model in ("onnx", "multilingual", "skillsearch-e5"):
        assert folder_of(model) == PACKAGED_MODEL
    folder = tmp_path / "tiny"
    export(make_bert(), folder, name="tiny")
    assert folder_of(f"onnx:{folder}") == folder_of(str(folder)) == folder
    with pytest.raises(TrainingError, match="cannot be tuned"):
        folder_of(str(folder), "reader")


def test_a_model_keeps_the_texts_beside_it(tmp_path):
    assert texts_beside(tmp_path) == [None, None]
    (tmp_path / "NOTICE").write_bytes(b"From afar.\xff\n")
    (tmp_path / "LICENSE").write_text("Do as you like.\n")
    assert texts_beside(tmp_path) == ["From afar.\ufffd\n", "Do as you like.\n"]


@pytest.fixture(scope="module")
def exported_once(make_bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert") / "exported"
    export(make_bert(), folder, name="tiny")
    return folder


@pytest.fixture
def exported(exported_once, tmp_path):
    """A copy of an embedder that a test may change."""
    return Path(shutil.copytree(exported_once, tmp_path / "exported"))


def cut(name, size):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


def sealed(spoil):
    """Return a function that spoils a folder and gives model.json the digests of its files."""

    def run(folder):
        spoil(folder)
        record = json.loads((folder / "model.json").read_bytes())
        record["sha256"] = {name: sha256_of(folder / name) for name in record["sha256"]}
        (folder / "model.json").write_text(json.dumps(record), encoding="utf-8")

    return run


def rename(folder):
    """Take a scale away from the matrix that it belongs to."""
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    scale = next(entry for entry in model.graph.initializer if entry.name == "1.inner.scale")
    scale.name = "elsewhere"
    (folder / "model.onnx").write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "model.json").unlink(), "no model.json with the digest"),
        (lambda folder: (folder / "model.json").write_bytes(b"{"), "cannot be read as JSON"),
        (cut("model.onnx", 1_000), "is damaged or was changed|no such file"),
        (cut("words.bin", 1_000), "is damaged or was changed"),
        (sealed(cut("words.bin", 1_000)), "words.bin cannot be read"),
        (sealed(cut("words.bin", 10)), "words.bin cannot be read"),
        (sealed(cut("model.onnx", 1_000)), "onnx cannot use|no such file"),
        (sealed(rename), "onnx cannot use"),
    ],
)
def test_a_folder_that_was_changed_is_refused(exported, spoil, message):
    spoil(exported)
    with pytest.raises(TrainingError, match=message) as caught:
        begin_weights(str(exported))
    assert str(caught.value).startswith(f"{exported} holds no model that can be tuned: ")
    if "damaged" in message or "words" in message:
        with pytest.raises(EmbedderError, match=message):
            load_embedder(str(exported))


def test_one_kind_of_model_is_not_loaded_as_the_other(exported):
    for name in ("model.onnx", "model.json"):
        shutil.copyfile(exported / name, exported / name.replace("model", "reader"))
    with pytest.raises(EmbedderError, match=r"reader\.onnx gives \['vector'\], not 'logits'"):
        load_reader(str(exported))


def test_without_onnx_the_extra_is_named(make_bert, exported, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "skillsearch.training.onnx_model", raising=False)
    with pytest.raises(MissingDependencyError, match=r"\[train\]"):
        export(make_bert(), tmp_path / "model", name="tiny")
    with pytest.raises(MissingDependencyError, match=r"\[train\]"):
        begin_weights(str(exported))
    assert [path.name for path in tmp_path.iterdir()] == ["exported"]
