"""Whole tunings of a small BERT: better, not better, interrupted, refused."""

import hashlib
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


@pytest.fixture
def libraries(one_thread):
    """Skip without the extra."""
    for name in ("sentence_transformers", "onnx"):
        pytest.importorskip(name)


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
    tensors = {name: tame(name, tensor) for name, tensor in weights.tensors.items()}
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
    options = "--minutes .6 --keep --out tuned"
    watched(f"skillsearch tune {root} --model {model} {options}").check()


def test_a_model_that_got_better_is_written_and_can_be_used(options, model, silent):
    """The new words of requests were learned from those that were not held out."""
    messages = []
    tuned = tune(options, progress=silent, tell=messages.append, settings=LEARNS)
    assert tuned.is_better
    assert tuned.folder == options.out
    dense = tuned.measured["held_out"].changes["dense"]
    assert dense.after["nDCG@10"] > dense.before["nDCG@10"] + 0.1
    embedder, old = load_embedder(str(options.out)), load_embedder(str(model))
    assert embedder.fingerprint != old.fingerprint
    assert embedder.name == "tiny (tuned)"
    assert (options.out / "NOTICE").read_text().startswith("A tiny model.")
    assert [path.name for path in options.out.parent.iterdir()] == ["tuned"]
    assert "steps of" in messages[0]


def test_a_model_that_did_not_is_not_written(options, silent):
    settings = replace(LEARNS, learning_rate=1e-9)
    tuned = tune(options, progress=silent, tell=silent, settings=settings)
    assert not tuned.is_better
    assert tuned.folder is None
    assert list(options.out.parent.iterdir()) == []
    written = tune(replace(options, keep=True), progress=silent, tell=silent, settings=settings)
    assert not written.is_better
    assert written.folder == options.out
    assert begin_weights(str(options.out)).tensors.keys()


def test_judged_queries_are_learned_and_measured_apart(options, log, silent):
    """The words of the queries stand in no skill."""
    lines = [
        {"query": f"{verb} letters from town{number}", "skill": f"sorter-{number}"}
        for number in range(60)
        for verb in ("need", "want", "send")
    ]
    tuned = tune(
        replace(options, queries=log(*lines)), progress=silent, tell=silent, settings=LEARNS
    )
    assert tuned.measured.keys() == {"held_out", "judged"}
    assert tuned.judged + tuned.measured["judged"].queries == 180
    assert 30 < tuned.measured["judged"].queries < 90


def test_an_interrupted_tuning_goes_on(options, silent):
    steps = []

    def interrupt(stage, done, _total):
        if stage == "train":
            steps.append(done)
            if done == 9:
                raise KeyboardInterrupt

    settings = replace(LEARNS, save_every=4)
    with pytest.raises(KeyboardInterrupt):
        tune(options, progress=interrupt, tell=silent, settings=settings)
    messages, again = [], []
    tuned = tune(
        options,
        progress=lambda stage, done, _: again.append(done) if stage == "train" else None,
        tell=messages.append,
        settings=settings,
    )
    assert messages[0].startswith("Continuing")
    assert again[0] == 9
    assert tuned.steps == again[-1]


def test_too_little_time_is_told_with_what_is_needed(options, silent):
    with pytest.raises(TrainingError, match=r"0\.001 minutes are too few .* --minutes \d+"):
        tune(replace(options, minutes=0.001), progress=silent, tell=silent)
