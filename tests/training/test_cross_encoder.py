"""Training a reader: its loss by hand, its batches, when it ends, and what it learns."""

from collections import Counter
from dataclasses import replace
from itertools import count
from math import log

import numpy as np
import pytest

from skillsearch.errors import TrainingError
from skillsearch.evaluation.assess import auroc
from skillsearch.readers.mapped_reader import encode_pair

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
cross_encoder = pytest.importorskip("skillsearch.training.cross_encoder")
Group, ReaderSettings = cross_encoder.RequestGroup, cross_encoder.ReaderSettings

SETTINGS = ReaderSettings(
    groups=4, learning_rate=3e-3, head_rate=1.0, epochs=2.0, average=0.9, frozen_layers=0
)


def toy(count=24):
    """Requests for which the skill with the word green fits, wherever it stands."""
    words = "tea timer kettle boils water brew".split()
    groups = []
    for number in range(count):
        texts = [f"{words[number % 6]} {word}" for word in ("cup", "green", "the")]
        order = np.random.default_rng(number).permutation(3)
        groups.append(
            Group(
                words[number % 5],
                tuple(texts[column] for column in order),
                tuple(2 if column == 1 else 0 for column in order),
            )
        )
    return groups


def told_apart(read, groups):
    logits = read([(group.request, text) for group in groups for text in group.texts])
    grades = np.array([grade for group in groups for grade in group.grades])
    return auroc(logits[grades == 2], logits[grades == 0])


def equal(weights, other):
    return all(
        np.array_equal(weights.tensors[name], other.tensors[name]) for name in weights.tensors
    )


def loss_of(logits, groups, **settings):
    """Return the loss of some logits, as a tensor gives it and as a reader does."""
    settings = ReaderSettings(list_share=0.5, **settings)

    def read(pairs):
        assert pairs == cross_encoder.pairs_of(groups)
        return np.array(logits)

    loss = float(cross_encoder.group_loss(torch.tensor(logits), groups, settings))
    assert cross_encoder.reading_loss(read, groups, settings) == pytest.approx(loss)
    return loss


@pytest.mark.parametrize(
    ("logits", "grades", "expected"),
    [
        ([0.0, 0.0, 0.0, 0.0, 0.0], [(2, 0), (1,), (0, 0)], log(2) + log(2) / 2 / 3),
        (
            [log(3), 0.0],
            [(2, 1)],
            (log(4 / 3) + log(2)) / 2 + (2 / 3 * log(4 / 3) + 1 / 3 * log(4)) / 2,
        ),
        ([log(3), log(3)], [(0, 0)], log(4)),
    ],
)
def test_the_loss_is_what_it_is_by_hand(logits, grades, expected):
    """Lists with one text, or without any that fits, have no second part but count."""
    groups = [Group("tea", ("",) * len(of_group), of_group) for of_group in grades]
    assert loss_of(logits, groups) == pytest.approx(expected)


def test_a_request_is_to_stand_above_its_twin():
    """For each skill that fits it; few contrasts count less, four of them whole."""
    twin = Group("tee", ("", "", ""), (0, 0, 0), ("green", "black", "cup"))
    group = Group("tea", ("", ""), (2, 0), ("green", "cup"), (twin,))
    logits = [log(3), 0.0, 0.0, 0.0, 0.0]
    plain = loss_of(logits, [group], twin_share=0.0)
    contrast = log(1 + 1 / 3)
    assert loss_of(logits, [group]) == pytest.approx(plain + 0.5 * contrast / 4)
    many = loss_of(logits * 4, [group] * 4) - loss_of(logits * 4, [group] * 4, twin_share=0.0)
    assert many == pytest.approx(0.5 * contrast)


def test_a_twin_is_to_stand_above_its_original_where_it_fits_better():
    """By the grades of the skills that both are read with; of equal ones nothing is learned."""
    twin = Group("tee", ("", "", ""), (2, 1, 0), ("green", "black", "cup"))
    group = Group("tea", ("", "", ""), (1, 2, 0), ("green", "black", "cup"), (twin,))
    logits = [0.0, log(3), 5.0, log(7), 0.0, -5.0]
    plain = loss_of(logits, [group], twin_share=0.0)
    contrasts = log(1 + 1 / 7) + log(1 + 1 / 3)
    assert loss_of(logits, [group]) == pytest.approx(plain + 0.5 * 2 / 4 * contrasts / 2)


def test_what_fits_any_request_is_to_stand_above_what_seems_to():
    """Each such pair of a batch counts the same; there is none without a twin or a skill."""
    twin = Group("tee", ("", ""), (0, 2))
    groups = [Group("tea", ("", ""), (2, 0), twins=(twin,)), Group("cup", ("",), (2,))]
    logits = [log(7), 5.0, 0.0, log(3), log(5)]
    plain = loss_of(logits, groups)
    levels = (log(1 + 1 / 7) + log(1 + 1 / 3) + log(1 + 1 / 5)) / 3
    assert loss_of(logits, groups, level_share=0.5) == pytest.approx(plain + 0.5 * levels / 4)
    many = loss_of(logits * 4, groups * 4, level_share=0.5) - loss_of(logits * 4, groups * 4)
    assert many == pytest.approx(0.5 * levels, abs=1e-5)
    unfitting = Group("none", ("",), (0,), twins=(Group("nun", ("",), (0,)),))
    for group, logits in ((groups[1], [0.0]), (unfitting, [0.0, 0.0])):
        assert loss_of(logits, [group], level_share=0.5) == loss_of(logits, [group])


def test_a_head_sees_two_texts_as_they_are_read_by_hand(make_reader, read_by_hand):
    weights = make_reader()
    reader = cross_encoder.TorchReader(weights)
    pairs = [("tea", "green kettle"), ("boils the water for tea", ""), ("cup", "tea " * 40)]
    encoded = [encode_pair(weights.words.tokenizer, *pair) for pair in pairs]
    expected = [read_by_hand(weights, pair) for pair in encoded]
    reader.bert.is_half = False
    np.testing.assert_allclose(reader.read(pairs), expected, atol=1e-4)
    np.testing.assert_allclose(reader.read(pairs[:1]), expected[:1], atol=1e-4)


@pytest.mark.parametrize(("epochs", "taken"), [(1.0, 50), (2.0, 100), (0.5, 25), (1.5, 75)])
def test_each_epoch_has_each_group_once(epochs, taken):
    groups = [Group(f"request {number}", ("tea",), (2,)) for number in range(50)]
    settings = ReaderSettings(groups=8, epochs=epochs)
    batches = list(cross_encoder._batches(groups, settings))
    assert batches == list(cross_encoder._batches(groups, settings))
    counts = Counter(group.request for batch in batches for group in batch)
    assert counts.total() == taken
    assert max(counts.values()) - min(counts.get(group.request, 0) for group in groups) <= 1
    assert max(map(len, batches)) == 8


@pytest.mark.slow
def test_a_reader_learns_what_fits(make_reader):
    begin, groups = make_reader(), toy()
    settings = replace(SETTINGS, epochs=8.0, average=0.5)
    trained = cross_encoder.train_reader(begin, groups, settings)
    before, after = (
        cross_encoder.TorchReader(weights).read for weights in (begin, trained.weights)
    )
    assert trained.steps == 48
    losses = [cross_encoder.reading_loss(read, groups, settings) for read in (before, after)]
    assert losses[1] < losses[0] / 2
    assert told_apart(after, groups) > max(0.95, told_apart(before, groups))


@pytest.mark.slow
def test_frozen_layers_keep_their_weights_and_a_seed_all(make_reader):
    begin, groups = make_reader(), toy()
    first, again, other = (
        cross_encoder.train_reader(begin, groups, replace(SETTINGS, seed=seed)).weights
        for seed in (1, 1, 2)
    )
    frozen = cross_encoder.train_reader(begin, groups, replace(SETTINGS, frozen_layers=1)).weights
    same = {name for name, tensor in begin.tensors.items() if frozen.tensors[name] is tensor}
    norm = {f"embeddings.LayerNorm.{part}" for part in ("weight", "bias")}
    assert same == norm | {name for name in begin.tensors if ".layer.0." in name}
    assert not np.array_equal(
        first.tensors["head.outer.weight"], begin.tensors["head.outer.weight"]
    )
    assert equal(first, again)
    assert not equal(first, other)


def test_weights_without_a_head_get_a_random_one(make_bert):
    weights = make_bert(tokens=24)
    trained = cross_encoder.train_reader(weights, toy(4), SETTINGS).weights
    assert trained.is_reader


def test_training_ends_at_the_deadline(make_reader):
    looks = []
    trained = cross_encoder.train_reader(
        make_reader(), toy(), SETTINGS, check=lambda _read: looks.append(1) or 0.5, deadline=0.0
    )
    assert (trained.steps, trained.values, len(looks)) == (1, {1: 0.5}, 1)


@pytest.mark.slow
def test_an_interrupted_run_ends_where_an_uninterrupted_one_does(make_reader, tmp_path):
    """Also with the checks that it had made; another run begins anew."""
    settings = replace(SETTINGS, check_every=2, save_every=3, patience=9)

    def run(folder, looks, interrupted_at=0, **changes):
        steps = []

        def tell(_stage, done, _total):
            steps.append(done)
            if done == interrupted_at:
                raise KeyboardInterrupt

        trained = cross_encoder.train_reader(
            make_reader(),
            toy(),
            replace(settings, **changes),
            check=lambda _read: -float(next(looks)),
            checkpoints=tmp_path / folder,
            progress=tell,
        )
        return trained, steps

    whole, _ = run("whole", count())
    with pytest.raises(KeyboardInterrupt):
        run("halves", count(), interrupted_at=7)
    again, steps = run("halves", count(3))
    assert steps == list(range(7, 13))
    assert again.values == whole.values
    for name, tensor in whole.weights.tensors.items():
        np.testing.assert_allclose(again.weights.tensors[name], tensor, atol=1e-5)
    assert run("halves", count(), seed=1)[1][0] == 1


def test_training_ends_when_it_gains_no_more(make_reader):
    falling, steps = iter([0.9, 0.8, 0.7, 0.6]), []
    settings = replace(SETTINGS, check_every=1, patience=2)
    begin = make_reader()
    trained = cross_encoder.train_reader(
        begin,
        toy(),
        settings,
        check=lambda _read: next(falling),
        progress=lambda *step: steps.append(step),
    )
    assert trained.values == {1: 0.9, 2: 0.8, 3: 0.7}
    assert steps == [("train", 1, 12), ("train", 2, 12), ("train", 3, 12)]
    first = cross_encoder.train_reader(begin, toy(), settings, deadline=0.0)
    assert equal(trained.weights, first.weights)


def test_what_cannot_be_trained_is_refused(make_reader):
    with pytest.raises(TrainingError, match="device 'xpu:7'"):
        cross_encoder.train_reader(make_reader(), toy(), replace(SETTINGS, device="xpu:7"))
    with pytest.raises(TrainingError, match=r"no numbers at step 1; .* 0\.003 now"):
        cross_encoder.train_reader(
            make_reader(), toy(), SETTINGS, check=lambda _read: np.nan, deadline=0.0
        )
