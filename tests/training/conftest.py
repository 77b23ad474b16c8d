"""A small BERT with random weights and a tokenizer of a few words."""

import dataclasses
import json
import math

import numpy as np
import pytest
import tokenizers

from skillsearch.training.bert_weights import BertWeights
from skillsearch.training.queries import SkillText

WORDS = "[PAD] [UNK] [CLS] [SEP] tea timer kettle boils water brew the a for with cup green"
CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "vocab_size": 20,
    "max_position_embeddings": 12,
    "type_vocab_size": 2,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "layer_norm_eps": 1e-12,
}


def make_tensors(config, random):
    """Return random tensors under the official names."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    shapes = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], hidden),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], hidden),
        "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], hidden),
        "embeddings.LayerNorm.weight": (hidden,),
        "embeddings.LayerNorm.bias": (hidden,),
    }
    for layer in range(config["num_hidden_layers"]):
        prefix = f"encoder.layer.{layer}"
        linear = {
            "attention.self.query": (hidden, hidden),
            "attention.self.key": (hidden, hidden),
            "attention.self.value": (hidden, hidden),
            "attention.output.dense": (hidden, hidden),
            "intermediate.dense": (inner, hidden),
            "output.dense": (hidden, inner),
        }
        for name, shape in linear.items():
            shapes |= {f"{prefix}.{name}.weight": shape, f"{prefix}.{name}.bias": shape[:1]}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{prefix}.{name}.weight": (hidden,), f"{prefix}.{name}.bias": (hidden,)}
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def make_tokenizer():
    """Return the bytes of a tokenizer.json that knows `WORDS`."""
    words = {word: row for row, word in enumerate(WORDS.split())}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    ends = [("[SEP]", words["[SEP]"]), ("[CLS]", words["[CLS]"])]
    tokenizer.post_processor = tokenizers.processors.BertProcessing(*ends)
    return tokenizer.to_str().encode()


@pytest.fixture(scope="session")
def make_bert():
    """Make a small BERT; `changes` go into its config, which decides the shapes."""

    def make(seed=7, **changes):
        config = CONFIG | changes
        tensors = make_tensors(config, np.random.default_rng(seed))
        return BertWeights(tensors, config, make_tokenizer())

    return make


@pytest.fixture(scope="session")
def save_bert():
    """Write a BERT as Hugging Face's libraries do, with what no vector depends on."""
    numpy = pytest.importorskip("safetensors.numpy")

    def save(weights, folder):
        folder.mkdir(parents=True)
        hidden = weights.config["hidden_size"]
        unused = {
            "pooler.dense.weight": np.ones((hidden, hidden), np.float32),
            "embeddings.position_ids": np.arange(4)[None],
        }
        numpy.save_file({**weights.tensors, **unused}, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(weights.config), encoding="utf-8")
        (folder / "tokenizer.json").write_bytes(weights.tokenizer)
        return folder

    return save


@pytest.fixture(scope="session")
def make_texts():
    """Make the texts of skills that state requests in words that their descriptions lack."""

    def make(count):
        times = (("bring", "noon"), ("fetch", "dawn"), ("carry", "dusk"))
        return [
            SkillText(
                f"sorter-{one}",
                f"Puts crate{one} of depot{one} onto belt{one}, shelf{one} and ramp{one} of "
                f"yard{one}.",
                "# Requests\n\n"
                + "\n\n".join(
                    f'The user says "{verb} letters from town{one} before {hour}"'
                    for verb, hour in times
                ),
            )
            for one in range(count)
        ]

    return make


@pytest.fixture(scope="session")
def make_reader(make_bert):
    """Make a small BERT with the head of a reader, whose positions suffice for a pair."""

    def make(seed=7, **changes):
        bert, random = make_bert(seed, **{"max_position_embeddings": 300} | changes), seed + 1
        random, size = np.random.default_rng(random), bert.config["hidden_size"]
        shapes = {
            "token.weight": (1, size),
            "inner.weight": (size, 5 * size + 4),
            "inner.bias": (size,),
            "outer.weight": (1, size),
            "outer.bias": (1,),
        }
        heads = {
            f"head.{name}": (random.normal(size=shape) / 4).astype(np.float32)
            for name, shape in shapes.items()
        }
        return dataclasses.replace(bert, tensors=bert.tensors | heads)

    return make


@pytest.fixture(scope="session")
def encode_by_hand(hidden_by_hand):
    """Encode the ids of a text by BERT with mean pooling and unit length, in float64 numpy."""

    def encode(weights, ids):
        mean = hidden_by_hand(weights, ids).mean(0)
        return mean / np.linalg.norm(mean)

    return encode


@pytest.fixture(scope="session")
def read_by_hand(hidden_by_hand):
    """Return the logit of an encoded pair by a reader, in float64 numpy."""

    def unit(values):
        return values / np.linalg.norm(values, axis=-1, keepdims=True)

    def read(weights, pair):
        hidden, head = hidden_by_hand(weights, pair.ids), weights.tensors
        request, skill = (hidden[np.array(pair.parts) == part] for part in (1, 2))
        means = [part.mean(0) if len(part) else 0 * hidden[0] for part in (request, skill)]
        product = np.prod([unit(one) if one.any() else one for one in means], axis=0)
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
        hidden, heads = weights.config["hidden_size"], weights.config["num_attention_heads"]

        def linear(x, prefix):
            return x @ tensors[f"{prefix}.weight"].T + tensors[f"{prefix}.bias"]

        def norm(x, prefix):
            centred = x - x.mean(-1, keepdims=True)
            scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
            return scaled * tensors[f"{prefix}.weight"] + tensors[f"{prefix}.bias"]

        x = tensors["embeddings.word_embeddings.weight"][ids]
        x = x + tensors["embeddings.position_embeddings.weight"][: len(ids)]
        x = norm(x + tensors["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(weights.config["num_hidden_layers"]):
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
