"""The script that makes the packaged model: what it builds from, and what travels with it."""

import dataclasses
import importlib.util
import json
from pathlib import Path

import pytest

from skillsearch.embedders.onnx_embedder import OnnxEmbedder
from skillsearch.readers.reader import OnnxReader

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "build_model.py"


@pytest.fixture(scope="module")
def build_model():
    spec = importlib.util.spec_from_file_location("build_model", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_packaged_weights_lie_apart(build_model):
    """Nearly all bytes of the packaged models are in files that are mapped, words but once."""
    sizes = {path.name: path.stat().st_size for path in build_model.DEFAULT_OUT.iterdir()}
    for stem in ("model", "reader"):
        assert sizes[f"{stem}.onnx"] < 500_000 < 11_000_000 < sizes[f"{stem}.onnx_data"]
    assert sizes["words.onnx_data"] == 30_522 * 384


@pytest.mark.parametrize("stem", ["model", "reader"])
def test_the_packaged_files_have_the_digests_of_model_json(build_model, stem):
    """It lists every file that the model is made of, with its sha256."""
    folder = build_model.DEFAULT_OUT
    listed = json.loads((folder / f"{stem}.json").read_text(encoding="utf-8"))["sha256"]
    parts = {f"{stem}.onnx", f"{stem}.onnx_data", "words.onnx_data", "tokenizer.json"}
    names = {"LICENSE", "NOTICE", *parts}
    assert listed == {name: build_model.sha256_of(folder / name) for name in names}


def test_the_licence_and_the_notice_travel_with_the_model(build_model):
    """Apache-2.0 asks for its text, for attribution, and for saying what was changed."""
    folder = build_model.DEFAULT_OUT
    assert "Apache License" in (folder / "LICENSE").read_text(encoding="utf-8")
    notice = (folder / "NOTICE").read_text(encoding="utf-8")
    assert build_model.SOURCE_SHA256 in notice
    assert "quantised" in notice


def test_a_tuned_model_is_built_and_says_so(build_model, make_bert, save_bert, tmp_path, capsys):
    source, out = save_bert(make_bert(), tmp_path / "source"), tmp_path / "out"
    arguments = ["--tuned", str(source), "--name", "tiny", "--out", str(out)]
    assert build_model.main(arguments) == 0
    assert OnnxEmbedder.load(out).name == "tiny"
    record = json.loads((out / "model.json").read_bytes())
    assert record["sha256"] == {
        path.name: build_model.sha256_of(path)
        for path in out.iterdir()
        if path.name != "model.json"
    }
    weights = build_model.sha256_of(source / "model.safetensors")
    assert record["source"]["sha256"]["model.safetensors"] == weights
    assert build_model.main([*arguments, "--check"]) == 0
    assert "model.onnx_data" in capsys.readouterr().out


def test_models_with_other_words_cannot_share_a_folder(
    build_model, make_bert, save_bert, tmp_path, capsys
):
    """The rows of the words are there once; the model that was there first stays as it is."""
    out = tmp_path / "out"
    for seed, code in ((1, 0), (2, 1)):
        source = save_bert(make_bert(seed=seed, vocab_size=2_000), tmp_path / f"source-{seed}")
        assert build_model.main(["--tuned", str(source), "--out", str(out)]) == code
    assert "other word embeddings" in capsys.readouterr().err
    assert OnnxEmbedder.load(out).dimensions


def test_a_reader_is_built_beside_the_models(build_model, make_reader, save_bert, tmp_path, capsys):
    """It adds its own files, its logits scaled; ``--check`` proves them."""
    reader, out = make_reader(vocab_size=2_000), tmp_path / "out"
    bert = {name: one for name, one in reader.tensors.items() if not name.startswith("head.")}
    save_bert(dataclasses.replace(reader, tensors=bert), tmp_path / "bert")
    source = save_bert(reader, tmp_path / "reader")
    assert build_model.main(["--tuned", str(tmp_path / "bert"), "--out", str(out)]) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    logits = []
    for scale in ("1", "2.5"):
        arguments = ["--reader", str(source), "--scale", scale, "--out", str(out)]
        assert build_model.main(arguments) == 0
        logits.append(OnnxReader.load(out).read("tea", ["kettle"])[0])
    assert logits[1] == pytest.approx(2.5 * logits[0], rel=1e-5)
    assert build_model.main([*arguments, "--check"]) == 0
    after = {path.name: path.read_bytes() for path in out.iterdir()}
    assert after | before == after
    assert after.keys() - before.keys() == {"reader.json", "reader.onnx", "reader.onnx_data"}
    record = json.loads(after["reader.json"])
    assert (record["name"], record["source"]["scale"]) == ("skillsearch-reader", 2.5)
    capsys.readouterr()
    assert build_model.main([*arguments[:3], "1", *arguments[4:], "--check"]) == 1
    assert "reader.json, reader.onnx" in capsys.readouterr().err
