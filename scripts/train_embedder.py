"""Train the embedder that skillsearch ships, on texts of skills and graded requests.

Needs the extra ``train`` and safetensors; ``graded_requests.py`` says what the files hold. ::

    python scripts/train_embedder.py BASE SKILLS.jsonl.gz REQUESTS.jsonl.gz
        --without 0-99,600-649,700-749 --out WEIGHTS
    python scripts/build_model.py BASE --embedder WEIGHTS
    python scripts/train_embedder.py BASE SKILLS.jsonl.gz ALL.jsonl.gz --further MODEL
        --without 0-99,600-649,700-749 --out FURTHER
    python scripts/build_model.py BASE --embedder FURTHER

BASE is what ``scripts/model_base.py`` wrote, or the folder of a model that was built from it. The
second run trains the embedder further that the first one built, on another mix; ALL also has the
requests of ``scripts/training_requests``. An interrupted run goes on from its last checkpoint in
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
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from graded_requests import (
    FREE_NEAR_MISS,
    Request,
    Skills,
    clusters,
    material_record,
    read_requests,
)
from model_base import MAX_TOKENS, read_begin, write_weights
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
"""How the first run was trained."""


class Mix(NamedTuple):
    """What a batch is drawn from.

    Attributes:
        english: Skills with a query from their own texts.
        others: The same in other languages. The rest of a batch are requests.
        sources: How often each source of requests is drawn.
        share: Share of the trained weights in the model; the rest is those that training began
            with.
    """

    english: int
    others: int
    sources: Mapping[str, float]
    share: float


MIX = Mix(28, 8, {"written": 0.42, "translated": 0.30, "agent": 0.14, "hard": 0.14}, 0.8)
"""Of the first run. With a share of 1 the languages with few requests lose a little, and none
gains."""
FURTHER = replace(SETTINGS, steps=300, batch_size=76, learning_rate=4e-5)
FURTHER_MIX = Mix(
    20,
    4,
    {"written": 0.30, "translated": 0.22, "agent": 0.08, "hard": 0.12, "everyday": 0.28},
    0.7,
)
"""How the shipped model was trained further."""
LEFT_OUT_KINDS = frozenset({FREE_NEAR_MISS, "x"})
"""Near misses and twins: nothing fits them."""
TOGETHER = 4
"""Requests of a cluster in a batch, at most."""
BESIDE = 2
"""Other skills of the cluster in a batch, at most: hard negatives."""
HEAD_SHARE = 0.15
"""Share of the requests that are paired with the head of a body."""
_LIBRARIES = ("torch", "transformers", "numpy")

BySource = Mapping[str, Mapping[int, list[Request]]]
"""Requests by their source and cluster."""


def by_source(requests: Iterator[Request], sources: Collection[str]) -> BySource:
    """Return the requests of some sources that some skill fits, by source and cluster."""
    parts: dict[str, dict[int, list[Request]]] = {name: defaultdict(list) for name in sources}
    for request in requests:
        is_right = request.grades and request.kind not in LEFT_OUT_KINDS
        if is_right and request.source in parts:
            parts[request.source][request.cluster].append(request)
    return parts


class Drawer:
    """Draws batches."""

    def __init__(
        self,
        skills: Skills,
        vectors: NDArray[np.float32],
        requests: BySource,
        settings: TrainingSettings,
        mix: Mix,
    ) -> None:
        self._skills, self._requests, self._mix = skills.texts, requests, mix
        self._request_count = settings.batch_size - mix.english - mix.others
        self._chance = random.Random(settings.seed)
        self._mined: dict[int, MinedSkill] = {}
        self._decks: dict[str, list[int]] = {name: [] for name in requests}
        is_english = np.array(skills.languages) == "en"
        self._texts = [
            self._deal(np.flatnonzero(is_in), vectors, size)
            for is_in, size in ((is_english, mix.english), (~is_english, mix.others))
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
        graded: set[int] = set()
        sources = self._mix.sources
        while len(drawn) < self._request_count:
            (source,) = self._chance.choices(list(sources), list(sources.values()))
            requests = self._cluster(source)
            self._take_requests(requests, drawn, graded)
            others = [row for row in requests[0].rows if row not in graded]
            for row in self._chance.sample(others, min(BESIDE, len(others))):
                if pair := self._pair(row):
                    drawn.append(
                        (row, QueryPair(pair.query, self._skills[row].metadata(), pair.kind))
                    )
                    graded.add(row)
        for row in (row for texts in self._texts for row in next(texts)):
            if row not in graded and (pair := self._pair(row)):
                drawn.append((row, pair))
        return tuple(drawn)

    def _take_requests(
        self, requests: Sequence[Request], drawn: list[tuple[int, QueryPair]], graded: set[int]
    ) -> None:
        """Add requests of a cluster to what is drawn, each with a skill that fits best."""
        right, count = {row for row, _ in drawn}, 0
        for request in self._chance.sample(requests, len(requests)):
            row = self._chance.choice(request.graded(max(request.grades.values())))
            if row in graded or right & request.grades.keys():
                continue
            drawn.append((row, self._pair_of(request, row)))
            right.add(row)
            graded.update(request.grades)
            count += 1
            if count == TOGETHER:
                break

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
    parser.add_argument(
        "--further", type=Path, metavar="MODEL", help="folder of the model to train further"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the trained weights")
    options = parser.parse_args()
    settings, mix = (FURTHER, FURTHER_MIX) if options.further else (SETTINGS, MIX)
    options.out.mkdir(parents=True, exist_ok=True)
    skills = Skills.read(options.skills)
    vectors = skills.vectors()
    requests = by_source(
        read_requests(options.requests, clusters(options.without), skills.rows), mix.sources
    )
    drawer = Drawer(skills, vectors, requests, settings, mix)
    folder = options.further or options.base
    begin, begin_record = read_begin(options.base, folder, "model", MAX_TOKENS)
    began = time.monotonic()

    def tell(_stage: str, done: int, total: int) -> None:
        print(f"step {done} of {total}, {time.monotonic() - began:.0f} s", file=sys.stderr)

    trained = train(
        begin,
        [drawer.batch() for _ in range(settings.steps)],
        settings,
        vectors=vectors,
        checkpoints=options.out / "run",
        progress=tell,
    )
    record = {
        "settings": asdict(settings),
        **mix._asdict(),
        **begin_record,
        **material_record(options.skills, options.requests, options.without),
        "skills": len(skills.texts),
        "requests": {name: sum(map(len, part.values())) for name, part in requests.items()},
        "versions": {name: importlib.metadata.version(name) for name in _LIBRARIES},
    }
    write_weights(average(begin, trained.weights, mix.share), options.out, record)


if __name__ == "__main__":
    main()
