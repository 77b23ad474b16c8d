"""Whole tunings of a small BERT: better, not better, interrupted, refused."""

import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from skillsearch.embedders.embedder import load_embedder
from skillsearch.errors import TrainingError
from skillsearch.training.model_folders import begin_weights
from skillsearch.training.plan import TrainingSettings
from skillsearch.training.tuning import TuneOptions, tune

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(300)]


def silent(*_told):
    """Take no notice of progress."""


@pytest.fixture
def libraries():
    """Skip without the extra, and use one thread: so small a model is slower with two."""
    for name in ("sentence_transformers", "onnx"):
        pytest.importorskip(name)
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def root(tmp_path, make_skill, make_texts):
    for text in make_texts(60):
        make_skill(tmp_path / "root", text.name, text.about, text.body)
    return tmp_path / "root"


def row_of(piece):
    """Return the row of a word: by its number, and with its halves exchanged for towns.

    So what layers can learn of some towns is true of all.
    """
    number = re.search(r"\d*$", piece)[0] or piece.strip("\u2581")
    row = np.frombuffer(hashlib.md5(number.encode()).digest(), np.uint8)
    return row >> 4 | row << 4 if "town" in piece else row


def tame(name, tensor):
    """Return a tensor of a BERT that begins as little more than the mean of its words."""
    if "LayerNorm" in name or name.endswith("bias"):
        return np.full_like(tensor, name.endswith("LayerNorm.weight"))
    return tensor * np.float32(0.05)


@pytest.fixture
def model(tmp_path, make_bert, make_words, libraries, make_texts):
    """A small embedder that knows the words of the skills, exported."""
    from skillsearch.training.model_folders import export

    texts = " ".join(f"{text.name} {text.about} {text.body}" for text in make_texts(60))
    words = tuple(dict.fromkeys(re.findall(r"\w{1,15}|[^\w\s]", texts)))
    weights = make_bert(words=words, tokens=64, is_neutral=False)
    tensors = {name: tame(name, one) for name, one in weights.tensors.items()}
    table = make_words(words, 64, row_of=row_of)
    weights = replace(weights, tensors=tensors, words=table, positions=0 * table.positions)
    folder = tmp_path / "tiny"
    export(weights, folder, name="tiny", notice="A tiny model.\n")
    return folder


@pytest.fixture
def options(root, model, tmp_path):
    return TuneOptions((root,), tmp_path / "out" / "tuned", model=str(model))


LEARNS = TrainingSettings(
    batch_size=16,
    learning_rate=3e-3,
    scale=8.0,
    frozen_layers=0,
    precision="float32",
    judged_share=0.5,
)
"""Lets a model of so few weights learn something in so few steps."""


def test_tuning_asks_nobody_and_writes_only_to_our_folders(root, model, watched):
    """Nor do torch and what it brings leave anything behind."""
    options = "--minutes 2 --keep --out tuned"
    watched(f"skillsearch tune {root} --model {model} {options}").check()


def test_a_model_that_got_better_is_written_and_can_be_used(options, model):
    """The new words of requests were learned from those that were not held out."""
    told = []
    tuned = tune(options, progress=silent, tell=told.append, settings=LEARNS)
    assert tuned.is_better
    assert tuned.folder == options.out
    dense = tuned.measured["held_out"].changes["dense"]
    assert dense.after["nDCG@10"] > dense.before["nDCG@10"] + 0.1
    embedder, old = load_embedder(str(options.out)), load_embedder(str(model))
    assert embedder.fingerprint != old.fingerprint
    assert embedder.name == "tiny (tuned)"
    assert (options.out / "NOTICE").read_text().startswith("A tiny model.")
    assert [path.name for path in options.out.parent.iterdir()] == ["tuned"]
    assert "steps of" in told[0]


def test_a_model_that_did_not_is_not_written(options):
    settings = replace(LEARNS, learning_rate=1e-9)
    tuned = tune(options, progress=silent, tell=silent, settings=settings)
    assert not tuned.is_better
    assert tuned.folder is None
    assert list(options.out.parent.iterdir()) == []
    kept = tune(replace(options, keep=True), progress=silent, tell=silent, settings=settings)
    assert not kept.is_better
    assert kept.folder == options.out
    assert begin_weights(str(options.out)).tensors.keys()


def test_judged_queries_are_learned_and_measured_apart(options, tmp_path):
    """The words of the queries stand in no skill."""
    path = tmp_path / "log.jsonl"
    lines = [
        {"query": f"{verb} letters from town{one}", "skill": f"sorter-{one}"}
        for one in range(60)
        for verb in ("need", "want", "send")
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    tuned = tune(replace(options, queries=path), progress=silent, tell=silent, settings=LEARNS)
    assert tuned.measured.keys() == {"held_out", "judged"}
    assert tuned.judged + tuned.measured["judged"].queries == 180
    assert 30 < tuned.measured["judged"].queries < 90


def test_an_interrupted_tuning_goes_on(options):
    steps = []

    def interrupt(stage, done, _total):
        if stage == "train":
            steps.append(done)
            if done == 9:
                raise KeyboardInterrupt

    settings = replace(LEARNS, save_every=4)
    with pytest.raises(KeyboardInterrupt):
        tune(options, progress=interrupt, tell=silent, settings=settings)
    told, again = [], []
    tuned = tune(
        options,
        progress=lambda stage, done, _: again.append(done) if stage == "train" else None,
        tell=told.append,
        settings=settings,
    )
    assert told[0].startswith("Continuing")
    assert again[0] == 9
    assert tuned.steps == again[-1]


def test_too_little_time_is_told_with_what_is_needed(options):
    with pytest.raises(TrainingError, match=r"0\.001 minutes are too few .* --minutes \d+"):
        tune(replace(options, minutes=0.001), progress=silent, tell=silent)
