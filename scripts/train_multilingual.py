"""Train the multilingual embedder that skillsearch ships, on texts of skills and graded requests.

Needs the extra ``train``. The texts and the requests are those of ``scripts/train_default.py``, in
every language. ::

    python scripts/train_multilingual.py BASE SKILLS.jsonl.gz REQUESTS.jsonl.gz
        --without 0-99,600-649,700-749 --out WEIGHTS
    python scripts/build_multilingual.py BASE WEIGHTS

BASE is what ``scripts/multilingual_base.py`` wrote. An interrupted run goes on from its last
checkpoint in the folder of ``--out``. The rows of the words and the first layers stay as they are,
so that languages without a text or a request keep what they have.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from graded_requests import Request, clusters, read_records, request_of
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from transformers import BertConfig, BertModel

from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import embed
from skillsearch.embedders.model_files import sha256_of
from skillsearch.embedders.multilingual.model import WORDS_NAME, read_parts
from skillsearch.embedders.multilingual.unigram import BEGIN, END, UnigramTokenizer
from skillsearch.training.contrastive import TorchEncoder, batch_loss
from skillsearch.training.plan import SAME, TrainingSettings, batches, distinct_skills, neighbours
from skillsearch.training.queries import MinedSkill, Pair, SkillText

SETTINGS = TrainingSettings(
    steps=550,
    batch_size=96,
    learning_rate=8e-5,
    scale=30.0,
    query_tokens=72,
    document_tokens=96,
    freeze_words=True,
    save_every=50,
    seed=1,
)
"""How the shipped model was trained."""
FROZEN_LAYERS = 4
ENGLISH, OTHERS = 28, 8
"""Skills of a batch with a query from their own texts, by language; the rest are requests."""
SOURCES = {"written": 0.42, "translated": 0.30, "agent": 0.14, "hard": 0.14}
"""How often each source of requests is drawn."""
WRITERS = {"tr": "translated", "ag": "agent", "hd": "hard"}
"""The source of requests by how their writer's name begins; all others are written."""
LEFT_OUT_KINDS = frozenset("nx")
"""Near misses and twins: nothing fits them."""
TOGETHER = 4
"""Requests of a cluster in a batch, at most."""
BESIDE = 2
"""Other skills of the cluster in a batch, at most: hard negatives."""
HEAD_SHARE = 0.15
"""Share of the requests that are paired with the head of a body."""
SHARE = 0.8
"""Share of the trained weights in the model; the rest is those that training began with. With 1 the
languages with few requests lose a little, and none gains."""
_NEIGHBOUR_CHARS = 300
_LIBRARIES = ("torch", "transformers", "numpy")


class Tokens(NamedTuple):
    """The ids of a text."""

    ids: list[int]


class Tokenizer:
    """The tokenizer of the product in the form that `TorchEncoder` asks for."""

    def __init__(self, words: Path) -> None:
        self._tokenizer = UnigramTokenizer(read_parts(words))
        self._limit = 0

    def enable_truncation(self, limit: int) -> None:
        """Cut at so many tokens."""
        self._limit = limit

    def encode_batch(self, texts: Sequence[str]) -> list[Tokens]:
        """Split texts into tokens."""
        encoded = (self._tokenizer.encode(text, self._limit - 2)[0] for text in texts)
        return [Tokens([BEGIN, *ids, END]) for ids in encoded]


class Example(NamedTuple):
    """A query with a document that it must find, its skill, and the skills that help with it."""

    query: str
    document: str
    row: int
    right: frozenset[int]


def read_requests(
    path: Path, left_out: Collection[int], rows: Mapping[int, int]
) -> dict[str, dict[int, list[Request]]]:
    """Return graded requests by source and cluster.

    Args:
        path: The file.
        left_out: Numbers of clusters.
        rows: The row of each skill by its line.
    """
    found: dict[str, dict[int, list[Request]]] = {name: defaultdict(list) for name in SOURCES}
    for one in read_records(path):
        if one["cluster"] in left_out or one["kind"] in LEFT_OUT_KINDS:
            continue
        if request := request_of(one, rows):
            source = WRITERS.get(one["writer"][:2], "written")
            found[source][one["cluster"]].append(request)
    return found


def vectors_of(skills: Sequence[SkillText], is_english: Sequence[bool]) -> NDArray[np.float32]:
    """Embed the metadata of skills, each by the packaged model that reads it best, side by side."""
    texts = [f"{skill.name}: {skill.about}"[:_NEIGHBOUR_CHARS] for skill in skills]
    english = np.array(is_english)
    parts = []
    for spec, is_read in (("onnx", english), ("multilingual", ~english)):
        embedder, rows = load_embedder(spec), np.flatnonzero(is_read)
        part = np.zeros((len(skills), embedder.dimensions), np.float32)
        part[rows] = embed(embedder, [texts[row] for row in rows])
        parts.append(part)
    return np.concatenate(parts, axis=1)


class Drawer:
    """Draws batches."""

    def __init__(
        self,
        skills: Sequence[SkillText],
        is_english: Sequence[bool],
        vectors: NDArray[np.float32],
        requests: Mapping[str, Mapping[int, list[Request]]],
    ) -> None:
        self._skills, self._requests = skills, requests
        self._chance = random.Random(SETTINGS.seed)
        self._mined: dict[int, MinedSkill] = {}
        self._decks: dict[str, list[int]] = {name: [] for name in requests}
        groups = [
            [row for row, is_one in enumerate(is_english) if is_one is value]
            for value in (True, False)
        ]
        self._texts = [
            self._deal(rows, vectors, size)
            for rows, size in zip(groups, (ENGLISH, OTHERS), strict=True)
        ]

    def _deal(
        self, rows: Sequence[int], vectors: NDArray[np.float32], size: int
    ) -> Iterator[list[int]]:
        """Deal skills, neighbours together."""
        near = neighbours(vectors[list(rows)])
        for places in batches(near, min(size, len(rows)), self._chance):
            yield [rows[place] for place in places]

    def _pair(self, row: int) -> Pair | None:
        if row not in self._mined:
            self._mined[row] = MinedSkill.mine(self._skills[row])
        return self._mined[row].draw(self._chance)

    def _cluster(self, source: str) -> list[Request]:
        """Return the next cluster of a source, all before one again."""
        if not self._decks[source]:
            numbers = sorted(self._requests[source])
            self._decks[source] = self._chance.sample(numbers, len(numbers))
        return self._requests[source][self._decks[source].pop()]

    def batch(self) -> list[Example]:
        """Draw a batch: requests with a skill that fits best, others of the cluster, and texts."""
        drawn: list[Example] = []
        right: set[int] = set()
        graded: set[int] = set()
        while len(drawn) < SETTINGS.batch_size - ENGLISH - OTHERS:
            (source,) = self._chance.choices(list(SOURCES), list(SOURCES.values()))
            requests, count = self._cluster(source), 0
            for one in self._chance.sample(requests, len(requests)):
                best = max(one.grades.values())
                row = self._chance.choice([r for r, grade in one.grades.items() if grade == best])
                if row in graded or right & one.grades.keys():
                    continue
                drawn.append(self._asked(one, row))
                right.add(row)
                graded |= one.grades.keys()
                count += 1
                if count == TOGETHER:
                    break
            others = [row for row in requests[0].rows if row not in graded]
            for row in self._chance.sample(others, min(BESIDE, len(others))):
                if pair := self._pair(row):
                    metadata = self._skills[row].metadata()
                    drawn.append(Example(pair.query, metadata, row, frozenset({row})))
                    right.add(row)
                    graded.add(row)
        for row in (row for texts in self._texts for row in next(texts)):
            if row not in graded and (pair := self._pair(row)):
                drawn.append(Example(pair.query, pair.document, row, frozenset({row})))
        return drawn

    def _asked(self, request: Request, row: int) -> Example:
        head = self._skills[row].head()
        use_head = head and self._chance.random() < HEAD_SHARE
        document = head if use_head else self._skills[row].metadata()
        return Example(request.text, document, row, frozenset(request.grades))


def same_of(batch: Sequence[Example], vectors: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which documents are no negatives of a query, (queries, documents).

    Those of skills that are the same by their vectors, or help with it; and the other way round.
    """
    rows = vectors[[one.row for one in batch]]
    same: NDArray[np.bool_] = rows @ rows.T >= SAME
    same |= np.array([[other.row in one.right for other in batch] for one in batch])
    same |= same.T
    np.fill_diagonal(same, val=False)
    return same


def load_encoder(base: Path) -> TorchEncoder:
    """Build the encoder of a base, its first layers frozen; in bfloat16."""
    config = json.loads((base / "config.json").read_bytes())
    model = BertModel(BertConfig(**config, attn_implementation="eager"), add_pooling_layer=False)
    encoder = TorchEncoder(model.eval(), Tokenizer(base / WORDS_NAME), is_half=True)  # type: ignore[arg-type]  # what it uses of one
    encoder.put(load_file(base / "model.safetensors"))
    for part in (model.embeddings, *model.encoder.layer[:FROZEN_LAYERS]):
        part.requires_grad_(requires_grad=False)
    return encoder


def train(encoder: TorchEncoder, drawer: Drawer, vectors: NDArray[np.float32], out: Path) -> None:
    """Train an encoder; go on from a checkpoint if there is one."""
    trained = [one for one in encoder.model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(trained, weight_decay=SETTINGS.weight_decay)
    checkpoint, begin = out / "checkpoint.pt", 0
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        encoder.model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin = state["step"]
    began = time.monotonic()
    for step in range(1, SETTINGS.steps + 1):
        batch = drawer.batch()
        if step <= begin:
            continue
        for group in optimizer.param_groups:
            group["lr"] = SETTINGS.rate_at(step)
        queries = encoder.embed([one.query for one in batch], SETTINGS.query_tokens)
        documents = encoder.embed([one.document for one in batch], SETTINGS.document_tokens)
        same = torch.from_numpy(same_of(batch, vectors))
        loss = batch_loss(queries @ documents.T, same, SETTINGS)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        spent = time.monotonic() - began
        print(f"step {step}, loss {loss.item():.3f}, {spent:.0f} s", file=sys.stderr)
        if step % SETTINGS.save_every == 0:
            state = {
                "model": encoder.model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "step": step,
            }
            torch.save(state, checkpoint)


def main() -> None:
    """Train, and write the weights."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("skills", type=Path)
    parser.add_argument("requests", type=Path)
    parser.add_argument("--without", default="", help="clusters left out, as 0-199,450-549")
    parser.add_argument("--out", type=Path, required=True, help="folder for the trained weights")
    options = parser.parse_args()
    torch.manual_seed(SETTINGS.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    records = read_records(options.skills)
    texts = [SkillText(one["name"], one["description"], one["body"]) for one in records]
    skills, rows = distinct_skills(texts, None)
    languages = {row: records[place]["lang"] for place, row in reversed(rows.items())}
    is_english = [languages[row] == "en" for row in range(len(skills))]
    vectors = vectors_of(skills, is_english)
    requests = read_requests(options.requests, clusters(options.without), rows)
    encoder = load_encoder(options.base)
    train(encoder, Drawer(skills, is_english, vectors, requests), vectors, options.out)
    base, trained = load_file(options.base / "model.safetensors"), encoder.tensors()
    weights = {name: (1 - SHARE) * base[name] + SHARE * trained[name] for name in trained}
    save_file(weights, options.out / "model.safetensors", {"format": "pt"})
    counts = {name: sum(map(len, part.values())) for name, part in requests.items()}
    record = {
        "settings": asdict(SETTINGS),
        "frozen_layers": FROZEN_LAYERS,
        "sources": SOURCES,
        "texts_sha256": sha256_of(options.skills),
        "skills": len(skills),
        "requests_sha256": sha256_of(options.requests),
        "requests": counts,
        "left_out": options.without,
        "share": SHARE,
        "versions": {name: importlib.metadata.version(name) for name in _LIBRARIES},
    }
    (options.out / "training.json").write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
