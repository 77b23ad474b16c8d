"""Train the embedder that skillsearch ships, on texts of skills and graded requests.

Needs the extra ``train`` and safetensors; ``graded_requests.py`` says what the files hold. ::

    python scripts/train_embedder.py BASE SKILLS.jsonl.gz REQUESTS.jsonl.gz
        --without 0-99,600-649,700-749 --out WEIGHTS
    python scripts/build_model.py BASE --embedder WEIGHTS

BASE is what ``scripts/model_base.py`` wrote. An interrupted run goes on from its last checkpoint in
the folder of ``--out``. The rows of the words and the first layers stay as they are, so that
languages without a text or a request keep what they have.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
from graded_requests import (
    FREE_NEAR_MISS,
    Request,
    Skills,
    clusters,
    material_record,
    read_requests,
)
from model_base import MAX_TOKENS, read_weights, write_weights
from numpy.typing import NDArray

from skillsearch.training.bert_weights import average
from skillsearch.training.contrastive import train
from skillsearch.training.plan import JUDGED, Batch, TrainingSettings, batches, neighbours
from skillsearch.training.queries import MinedSkill, QueryPair

SETTINGS = TrainingSettings(
    steps=550,
    batch_size=96,
    learning_rate=8e-5,
    scale=30.0,
    query_tokens=72,
    document_tokens=96,
    frozen_layers=4,
    precision="bfloat16",
    seed=1,
)
"""How the shipped model was trained."""
ENGLISH, OTHERS = 28, 8
"""Skills of a batch with a query from their own texts, by language; the rest are requests."""
SOURCES = {"written": 0.42, "translated": 0.30, "agent": 0.14, "hard": 0.14}
"""How often each source of requests is drawn."""
LEFT_OUT_KINDS = frozenset({FREE_NEAR_MISS, "x"})
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
_LIBRARIES = ("torch", "transformers", "numpy")

BySource = Mapping[str, Mapping[int, list[Request]]]
"""Requests by their source and cluster."""


def by_source(requests: Iterator[Request]) -> BySource:
    """Return the requests that some skill fits, by source and cluster."""
    parts: dict[str, dict[int, list[Request]]] = {name: defaultdict(list) for name in SOURCES}
    for request in requests:
        if request.grades and request.kind not in LEFT_OUT_KINDS:
            parts[request.source][request.cluster].append(request)
    return parts


class Drawer:
    """Draws batches."""

    def __init__(self, skills: Skills, vectors: NDArray[np.float32], requests: BySource) -> None:
        self._skills, self._requests = skills.texts, requests
        self._chance = random.Random(SETTINGS.seed)
        self._mined: dict[int, MinedSkill] = {}
        self._decks: dict[str, list[int]] = {name: [] for name in requests}
        is_english = np.array(skills.languages) == "en"
        self._texts = [
            self._deal(np.flatnonzero(is_in), vectors, size)
            for is_in, size in ((is_english, ENGLISH), (~is_english, OTHERS))
        ]

    def _deal(
        self, rows: NDArray[np.intp], vectors: NDArray[np.float32], size: int
    ) -> Iterator[list[int]]:
        """Deal skills, neighbours together."""
        near = neighbours(vectors[rows])
        for places in batches(near, min(size, len(rows)), self._chance):
            yield rows[places].tolist()

    def _pair(self, row: int) -> QueryPair | None:
        if row not in self._mined:
            self._mined[row] = MinedSkill.mine(self._skills[row])
        return self._mined[row].draw(self._chance)

    def _cluster(self, source: str) -> list[Request]:
        """Return the next cluster of a source, all before one again."""
        if not self._decks[source]:
            numbers = sorted(self._requests[source])
            self._decks[source] = self._chance.sample(numbers, len(numbers))
        return self._requests[source][self._decks[source].pop()]

    def batch(self) -> Batch:
        """Draw a batch: requests with a skill that fits best, others of the cluster, and texts.

        No skill in it helps with the query of another.
        """
        drawn: list[tuple[int, QueryPair]] = []
        right: set[int] = set()
        graded: set[int] = set()
        while len(drawn) < SETTINGS.batch_size - ENGLISH - OTHERS:
            (source,) = self._chance.choices(list(SOURCES), list(SOURCES.values()))
            requests, count = self._cluster(source), 0
            for request in self._chance.sample(requests, len(requests)):
                row = self._chance.choice(request.graded(max(request.grades.values())))
                if row in graded or right & request.grades.keys():
                    continue
                drawn.append((row, self._pair_of(request, row)))
                right.add(row)
                graded |= request.grades.keys()
                count += 1
                if count == TOGETHER:
                    break
            others = [row for row in requests[0].rows if row not in graded]
            for row in self._chance.sample(others, min(BESIDE, len(others))):
                if pair := self._pair(row):
                    drawn.append(
                        (row, QueryPair(pair.query, self._skills[row].metadata(), pair.kind))
                    )
                    right.add(row)
                    graded.add(row)
        for row in (row for texts in self._texts for row in next(texts)):
            if row not in graded and (pair := self._pair(row)):
                drawn.append((row, pair))
        return tuple(drawn)

    def _pair_of(self, request: Request, row: int) -> QueryPair:
        head = self._skills[row].head()
        use_head = head and self._chance.random() < HEAD_SHARE
        return QueryPair(request.text, head if use_head else self._skills[row].metadata(), JUDGED)


def main() -> None:
    """Train, and write the weights."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("skills", type=Path)
    parser.add_argument("requests", type=Path)
    parser.add_argument("--without", default="", help="clusters left out, as 0-199,450-549")
    parser.add_argument("--out", type=Path, required=True, help="folder for the trained weights")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    skills = Skills.read(options.skills)
    vectors = skills.vectors()
    requests = by_source(read_requests(options.requests, clusters(options.without), skills.rows))
    drawer = Drawer(skills, vectors, requests)
    begin, began = read_weights(options.base, options.base, MAX_TOKENS), time.monotonic()

    def tell(_stage: str, done: int, total: int) -> None:
        print(f"step {done} of {total}, {time.monotonic() - began:.0f} s", file=sys.stderr)

    trained = train(
        begin,
        [drawer.batch() for _ in range(SETTINGS.steps)],
        SETTINGS,
        vectors=vectors,
        checkpoints=options.out / "run",
        progress=tell,
    )
    record = {
        "settings": asdict(SETTINGS),
        "sources": SOURCES,
        **material_record(options.skills, options.requests, options.without),
        "skills": len(skills.texts),
        "requests": {name: sum(map(len, part.values())) for name, part in requests.items()},
        "share": SHARE,
        "versions": {name: importlib.metadata.version(name) for name in _LIBRARIES},
    }
    write_weights(average(begin, trained.weights, SHARE), options.out, record)


if __name__ == "__main__":
    main()
