"""Training of a small BERT: the loss, what is learned, and a run that was interrupted."""

import os
import signal
import time
from dataclasses import replace

import numpy as np
import pytest

from skillsearch.errors import TrainingError
from skillsearch.training.plan import JUDGED, TrainingSettings
from skillsearch.training.queries import QueryPair

torch = pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")

contrastive = pytest.importorskip("skillsearch.training.contrastive")
batch_loss, train = contrastive.batch_loss, contrastive.train
TorchEmbedder = contrastive.TorchEmbedder

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

SETTINGS = TrainingSettings(
    learning_rate=3e-3, frozen_layers=0, precision="float32", save_every=2, seed=3
)
QUERIES = ("tea", "timer", "kettle", "brew", "cup", "green")
DOCUMENTS = ("boils water", "the a", "for with", "water cup", "green the", "a boils")


def make_plan(steps, size=4):
    """Return batches in which each query has always the same document."""
    rows = [[(step + column) % len(QUERIES) for column in range(size)] for step in range(steps)]
    return [
        tuple((row, QueryPair(QUERIES[row], DOCUMENTS[row], JUDGED)) for row in batch)
        for batch in rows
    ]


def softmax_loss(scores):
    """Return the mean cross entropy of the diagonal, both ways, as the formula has it."""
    both = []
    for rows in (scores, scores.T):
        shares = np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True)
        both.append(-np.log(np.diag(shares)).mean())
    return sum(both) / 2


@pytest.fixture
def vectors():
    return np.eye(len(QUERIES), dtype=np.float16)


@pytest.fixture
def cosines():
    return np.random.default_rng(2).uniform(-1, 1, size=(4, 4))


def test_the_loss_is_the_cross_entropy_both_ways(cosines):
    same = torch.zeros(4, 4, dtype=torch.bool)
    loss = batch_loss(torch.tensor(cosines), same, SETTINGS)
    assert float(loss) == pytest.approx(softmax_loss(SETTINGS.scale * cosines), rel=1e-9)


def test_what_is_the_same_is_no_negative(cosines):
    """A masked document counts as if it were not there."""
    same = torch.zeros(4, 4, dtype=torch.bool)
    same[0, 1] = same[1, 0] = True
    scores = SETTINGS.scale * cosines
    scores[0, 1] = scores[1, 0] = -np.inf
    loss = batch_loss(torch.tensor(cosines), same, SETTINGS)
    assert float(loss) == pytest.approx(softmax_loss(scores), rel=1e-6)


def test_a_teacher_that_agrees_adds_nothing_and_another_one_its_divergence(cosines):
    same = torch.zeros(4, 4, dtype=torch.bool)
    settings = replace(SETTINGS, teacher_share=0.25, teacher_scale=SETTINGS.scale)
    ours = torch.tensor(cosines)
    alone = float(batch_loss(ours, same, settings))
    assert float(batch_loss(ours, same, settings, ours)) == pytest.approx(0.75 * alone)
    other = np.random.default_rng(9).uniform(-1, 1, size=(4, 4))
    apart = 0.0
    for mine, theirs in ((cosines, other), (cosines.T, other.T)):
        p, q = (np.exp(settings.scale * rows) for rows in (theirs, mine))
        p, q = p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)
        apart += (p * np.log(p / q)).sum(axis=1).mean() / 2
    loss = batch_loss(ours, same, settings, torch.tensor(other))
    assert float(loss) == pytest.approx(0.75 * alone + 0.25 * apart)


def test_queries_come_near_to_their_documents(make_bert, vectors):
    begin = make_bert()
    trained = train(begin, make_plan(40), SETTINGS, vectors=vectors)
    embedder = TorchEmbedder(trained.weights, SETTINGS)
    cosines = embedder.embed(QUERIES) @ embedder.embed(DOCUMENTS).T
    assert (cosines.argmax(axis=1) == np.arange(len(QUERIES))).all()
    assert trained.steps == trained.best_step == 40
    assert trained.weights.neutral is begin.neutral


def test_an_embedder_gives_the_vectors_of_the_formula(make_bert, embed_by_hand):
    """The mean over the tokens of a text, made neutral, whatever stands beside it."""
    weights = make_bert()
    transposed = {name: np.asfortranarray(tensor) for name, tensor in weights.tensors.items()}
    embedder = TorchEmbedder(replace(weights, tensors=transposed), SETTINGS)
    texts = ["tea", "the kettle boils water for tea", "green"]
    together = embedder.embed(texts)
    alone = [embedder.embed([text])[0] for text in texts]
    np.testing.assert_allclose(together, alone, atol=1e-6)
    ids = [[0, *weights.words.tokenizer.encode(text, 99)[0], 2] for text in texts]
    expected = [embed_by_hand(weights, tokens) for tokens in ids]
    np.testing.assert_allclose(together, expected, atol=5e-6)
    np.testing.assert_allclose(embedder.forward(texts, 99).detach(), expected, atol=5e-6)
    for name, tensor in embedder.trained().items():
        np.testing.assert_array_equal(tensor.detach(), weights.tensors[name])


def test_the_same_call_gives_the_same_weights(make_bert, vectors):
    begin = make_bert()
    before = {name: tensor.copy() for name, tensor in begin.tensors.items()}
    first, second = (train(begin, make_plan(4), SETTINGS, vectors=vectors) for _ in range(2))
    for name, tensor in first.weights.tensors.items():
        np.testing.assert_array_equal(tensor, second.weights.tensors[name])
        np.testing.assert_array_equal(begin.tensors[name], before[name])


@pytest.mark.parametrize("frozen", [0, 1])
def test_frozen_layers_stay_and_the_rest_moves(make_bert, vectors, frozen):
    begin = make_bert()
    settings = replace(SETTINGS, frozen_layers=frozen)
    trained = train(begin, make_plan(3), settings, vectors=vectors).weights.tensors
    layers = [f"encoder.layer.{layer}.output.dense.weight" for layer in range(2)]
    is_same = [trained[name] is begin.tensors[name] for name in layers]
    assert is_same == [frozen == 1, False]
    first = "embeddings.LayerNorm.weight"
    assert trained[first] is begin.tensors[first]


def test_an_interrupted_run_ends_where_an_uninterrupted_one_does(make_bert, vectors, tmp_path):
    """Ctrl-C in the fifth of nine steps leaves a checkpoint, and the same call goes on there."""
    begin, plan = make_bert(), make_plan(9)
    whole = train(begin, plan, SETTINGS, vectors=vectors)
    seen = []

    def interrupt(_stage, done, _total):
        seen.append(done)
        if done == 5:
            os.kill(os.getpid(), signal.SIGINT)

    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(begin, plan, SETTINGS, vectors=vectors, checkpoints=folder, progress=interrupt)
    assert seen[-1] in (5, 6)
    rest = []
    again = train(
        begin,
        plan,
        SETTINGS,
        vectors=vectors,
        checkpoints=folder,
        progress=lambda _stage, done, _total: rest.append(done),
    )
    assert rest == list(range(seen[-1] + 1, 10))
    for name, tensor in whole.weights.tensors.items():
        np.testing.assert_allclose(again.weights.tensors[name], tensor, atol=1e-5)


def test_a_checkpoint_of_another_run_is_passed_over(make_bert, vectors, tmp_path):
    """Another plan begins at its first step."""
    begin, folder = make_bert(), tmp_path / "run"
    train(begin, make_plan(4), SETTINGS, vectors=vectors, checkpoints=folder)
    seen = []
    train(
        begin,
        make_plan(5),
        SETTINGS,
        vectors=vectors,
        checkpoints=folder,
        progress=lambda _stage, done, _total: seen.append(done),
    )
    assert seen == [1, 2, 3, 4, 5]


def test_training_ends_where_it_gets_no_better_and_gives_the_best(make_bert, vectors):
    """The second of the looks was the best; two more were waited for."""
    values = iter([0.2, 0.5, 0.4, 0.3, 0.9])
    weights = []

    def check(embed):
        weights.append(embed(QUERIES))
        return next(values)

    settings = replace(SETTINGS, check_every=2, patience=2)
    trained = train(make_bert(), make_plan(12), settings, vectors=vectors, check=check)
    assert (trained.best_step, trained.steps) == (4, 8)
    assert trained.values == {2: 0.2, 4: 0.5, 6: 0.4, 8: 0.3}
    embedder = TorchEmbedder(trained.weights, settings)
    np.testing.assert_allclose(embedder.embed(QUERIES), weights[1], atol=1e-6)


def test_a_run_ends_when_its_time_is_over(make_bert, vectors):
    trained = train(
        make_bert(),
        make_plan(9),
        replace(SETTINGS, check_every=5),
        vectors=vectors,
        check=lambda _embed: 0.5,
        deadline=time.monotonic(),
    )
    assert (trained.steps, trained.best_step, trained.values) == (1, 1, {1: 0.5})


def test_a_run_that_gives_no_numbers_is_refused(make_bert, vectors):
    settings = replace(SETTINGS, check_every=1)
    with pytest.raises(TrainingError, match="lower the learning rate"):
        train(make_bert(), make_plan(2), settings, vectors=vectors, check=lambda _: float("nan"))


def test_a_teacher_is_followed(make_bert, vectors):
    """With nothing but a teacher to learn from, its order of the documents is learned."""
    wanted = np.roll(np.eye(len(QUERIES), dtype=np.float32), 1, axis=1)
    vector_of = {
        **dict(zip(QUERIES, np.eye(len(QUERIES), dtype=np.float32), strict=True)),
        **dict(zip(DOCUMENTS, wanted, strict=True)),
    }
    trained = train(
        make_bert(),
        make_plan(60, size=6),
        replace(SETTINGS, teacher_share=1.0),
        vectors=vectors,
        teacher=lambda texts: np.stack([vector_of[text] for text in texts]),
    )
    embedder = TorchEmbedder(trained.weights, SETTINGS)
    cosines = embedder.embed(QUERIES) @ embedder.embed(DOCUMENTS).T
    expected = (np.eye(len(QUERIES)) @ wanted.T).argmax(axis=1)
    assert (cosines.argmax(axis=1) == expected).all()
