"""A small model in our own form, with random weights and a few words."""

import dataclasses
import json
import math
import runpy
from pathlib import Path

import numpy as np
import pytest

from skillsearch.embedders.unigram import SPACE
from skillsearch.embedders.word_table import BLOCK, BLOCK_BYTES, WordTable
from skillsearch.training.bert_weights import BertWeights, Neutral
from skillsearch.training.queries import SkillText

WORDS = "tea timer kettle boils water brew the a for with cup green".split()
HIDDEN, INNER, HEADS, LAYERS = 32, 48, 4, 2
PAIR_TOKENS = 168
SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "word_file.py"))


def make_tensors(random):
    """Return random tensors under the official names."""
    shapes = {"embeddings.LayerNorm": (HIDDEN,)}
    for layer in range(LAYERS):
        parts = {f"attention.self.{part}": (HIDDEN, HIDDEN) for part in ("query", "key", "value")}
        parts |= {
            "attention.output.dense": (HIDDEN, HIDDEN),
            "attention.output.LayerNorm": (HIDDEN,),
            "intermediate.dense": (INNER, HIDDEN),
            "output.dense": (HIDDEN, INNER),
            "output.LayerNorm": (HIDDEN,),
        }
        shapes |= {f"encoder.layer.{layer}.{name}": shape for name, shape in parts.items()}
    tensors = {}
    for name, shape in shapes.items():
        tensors[f"{name}.weight"] = random.normal(size=shape).astype(np.float32)
        tensors[f"{name}.bias"] = random.normal(size=shape[:1]).astype(np.float32)
    return tensors


@pytest.fixture
def one_thread():
    """Use one thread of torch: those that wait for each other cost more than so small a model."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def silent():
    """Take no notice of progress."""
    return lambda *_event: None


@pytest.fixture
def log(tmp_path):
    """Write a log of judged requests, each a record or a line as it is, and return its path."""

    def write(*lines):
        path = tmp_path / "log.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(texts), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def make_words(tmp_path_factory):
    """Write a table of words, each also inside of others, as pieces that are all as likely."""

    def make(words=WORDS, tokens=12, seed=7, row_of=None):
        random = np.random.default_rng(seed)
        pieces = ["<s>", "<pad>", "</s>", "<unk>"]
        pieces += dict.fromkeys(text for word in words for text in (SPACE + word, word))
        scores = np.full(len(pieces), -4, np.float32)
        blocks = random.integers(0, 256, (len(pieces), HIDDEN // BLOCK, BLOCK_BYTES), np.uint8)
        blocks[..., :2] = np.frombuffer(np.float16(0.2).tobytes(), np.uint8)
        if row_of:
            blocks[:, 0, 2:] = [row_of(piece) for piece in pieces]
        positions = random.normal(size=(tokens, HIDDEN)).astype(np.float32)
        path = tmp_path_factory.mktemp("words") / "words.bin"
        tables = SCRIPT["build_tables"](pieces, scores, {0xBD: "12"})
        path.write_bytes(SCRIPT["pack"]({"words": blocks, "positions": positions, **tables}))
        return WordTable.load(path)

    return make


@pytest.fixture(scope="session")
def make_bert(make_words):
    """Make a small embedder, neutral or not; its words are always the same."""
    tables = {}

    def make(seed=7, *, words=WORDS, tokens=12, is_neutral=True):
        key = tuple(words), tokens
        table = tables[key] = tables.get(key) or make_words(words, tokens)
        random = np.random.default_rng(seed)
        tensors = make_tensors(random)
        neutral = None
        if is_neutral:
            centre = (random.normal(size=HIDDEN) / 20).astype(np.float32)
            away = np.linalg.qr(random.normal(size=(HIDDEN, 2)))[0]
            neutral = Neutral(centre, (np.eye(HIDDEN) - away @ away.T).astype(np.float32))
        return BertWeights(table, tensors, table.positions, HEADS, 1e-12, neutral)

    return make


@pytest.fixture(scope="session")
def make_texts():
    """Make the texts of skills that state requests in words that their descriptions lack."""

    def make(count):
        times = (("bring", "noon"), ("fetch", "dawn"), ("carry", "dusk"))
        return [
            SkillText(
                f"sorter-{number}",
                f"Puts crate{number} of depot{number} onto belt{number}, shelf{number} and "
                f"ramp{number} of yard{number}.",
                "# Requests\n\n"
                + "\n\n".join(
                    f'The user says "{verb} letters from town{number} before {hour}"'
                    for verb, hour in times
                ),
            )
            for number in range(count)
        ]

    return make


@pytest.fixture(scope="session")
def make_reader(make_bert):
    """Make a small reader, which has more positions than its words."""

    def make(seed=7, **options):
        bert, random = make_bert(seed, is_neutral=False, **options), np.random.default_rng(seed + 1)
        more = random.normal(size=(PAIR_TOKENS, HIDDEN)).astype(np.float32)
        positions = np.concatenate([bert.positions, more])[:PAIR_TOKENS]
        shapes = {
            "token.weight": (1, HIDDEN),
            "inner.weight": (HIDDEN, 5 * HIDDEN + 4),
            "inner.bias": (HIDDEN,),
            "outer.weight": (1, HIDDEN),
            "outer.bias": (1,),
        }
        heads = {
            f"head.{name}": (random.normal(size=shape) / 4).astype(np.float32)
            for name, shape in shapes.items()
        }
        tensors = bert.tensors | heads
        return dataclasses.replace(bert, tensors=tensors, positions=positions)

    return make


@pytest.fixture(scope="session")
def embed_by_hand(hidden_by_hand):
    """Embed the ids of a text by the mean, made neutral, at unit length, in float64 numpy."""

    def embed(weights, ids):
        mean = hidden_by_hand(weights, ids).mean(0)
        mean = mean / np.linalg.norm(mean)
        if weights.neutral:
            mean = (mean - weights.neutral.centre) @ weights.neutral.apart
        return mean / np.linalg.norm(mean)

    return embed


@pytest.fixture(scope="session")
def read_by_hand(hidden_by_hand):
    """Return the logit of an encoded pair by a reader, in float64 numpy."""

    def unit(values):
        return values / np.linalg.norm(values, axis=-1, keepdims=True)

    def read(weights, pair):
        hidden, head = hidden_by_hand(weights, pair.ids), weights.tensors
        request, skill = (hidden[np.array(pair.parts) == part] for part in (1, 2))
        means = [part.mean(0) if len(part) else 0 * hidden[0] for part in (request, skill)]
        product = np.prod([unit(part) if part.any() else part for part in means], axis=0)
        nearest = np.full(len(request), -1.0)
        if len(skill):
            nearest = (unit(request) @ unit(skill).T).max(1)
        shares = np.exp(request @ head["head.token.weight"][0])
        shares = shares / shares.sum()
        numbers = [nearest.mean(), nearest @ shares, nearest.min(), product.sum()]
        difference = np.abs(means[0] - means[1])
        seen = [hidden[0], *means, 20 * product, difference, 4 * np.array(numbers)]
        inner = head["head.inner.weight"] @ np.concatenate(seen) + head["head.inner.bias"]
        return (head["head.outer.weight"] @ np.tanh(inner) + head["head.outer.bias"])[0]

    return read


@pytest.fixture(scope="session")
def hidden_by_hand():
    """Return the last hidden states of the ids of a text by BERT, in float64 numpy."""

    def encode(weights, ids):
        tensors = {name: array.astype(np.float64) for name, array in weights.tensors.items()}
        hidden, heads = weights.words.dimensions, weights.heads

        def linear(x, prefix):
            return x @ tensors[f"{prefix}.weight"].T + tensors[f"{prefix}.bias"]

        def norm(x, prefix):
            centred = x - x.mean(-1, keepdims=True)
            scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
            return scaled * tensors[f"{prefix}.weight"] + tensors[f"{prefix}.bias"]

        x = weights.words.rows(ids).astype(np.float64) + weights.positions[: len(ids)]
        x = norm(x, "embeddings.LayerNorm")
        for layer in range(weights.layers):
            prefix = f"encoder.layer.{layer}"
            q, k, v = (
                linear(x, f"{prefix}.attention.self.{part}")
                .reshape(-1, heads, hidden // heads)
                .transpose(1, 0, 2)
                for part in ("query", "key", "value")
            )
            scores = np.exp(q @ k.transpose(0, 2, 1) / math.sqrt(hidden // heads))
            mixed = (scores / scores.sum(-1, keepdims=True)) @ v
            joined = mixed.transpose(1, 0, 2).reshape(-1, hidden)
            attention = f"{prefix}.attention.output"
            x = norm(linear(joined, f"{attention}.dense") + x, f"{attention}.LayerNorm")
            inner = linear(x, f"{prefix}.intermediate.dense")
            gelu = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
            x = norm(linear(gelu, f"{prefix}.output.dense") + x, f"{prefix}.output.LayerNorm")
        return x

    return encode
