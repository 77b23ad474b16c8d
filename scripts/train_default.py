"""Train the embedder that skillsearch ships, from all-MiniLM-L6-v2, texts of skills, and requests.

Needs the extra ``train``. The texts are JSON lines, plain or gzipped, a skill each with ``name``,
``description`` and ``body``; a request has ``text``, ``cluster``, ``kind``, ``lang``, ``rows``
(line numbers, from 0, of the skills that were judged) and ``grades`` (row → 2 or 1). They are not
part of this repository, the recipe is. ::

    python scripts/train_default.py SKILLS.jsonl.gz --base FOLDER --work FIRST --out TEXTS
    python scripts/train_default.py SKILLS.jsonl.gz --base TEXTS --work SECOND --out WEIGHTS
        --requests REQUESTS.jsonl.gz --without 0-99,700-749
    python scripts/build_model.py --tuned WEIGHTS ...

BASE is the folder of the official weights (see ``scripts/build_model.py``), then that of the
weights that have learned from texts; ``onnx`` begins with the packaged ones. An interrupted run
goes on from its last checkpoint in the folder of ``--work``, which is made every few minutes. No
query of a judged collection is used if ``--without`` leaves out the clusters that are measured.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib.metadata
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from graded_requests import Request, clusters, read_records, request_of
from numpy.typing import NDArray

from skillsearch.training.bert_weights import (
    BertWeights,
    average,
    begin_weights,
    read_hugging_face,
)
from skillsearch.training.contrastive import TorchEncoder, train
from skillsearch.training.plan import (
    JUDGED,
    Batch,
    TrainingSettings,
    distinct_skills,
    make_plan,
    neighbours,
)
from skillsearch.training.queries import MinedSkill, Pair, SkillText

SETTINGS = TrainingSettings(
    steps=420,
    batch_size=128,
    learning_rate=6e-5,
    query_tokens=80,
    document_tokens=96,
    freeze_words=True,
    save_every=20,
    seed=1,
)
"""How the shipped model was trained with texts."""
WITH_REQUESTS = replace(SETTINGS, steps=220, batch_size=64, learning_rate=4e-5)
"""And then with requests, which make the other half of each batch."""
REQUESTS = 64
TOGETHER = 4
"""Requests of a cluster in a batch, at most."""
BESIDE = 3
"""Other skills of the cluster in a batch, at most: hard negatives."""
HEAD_SHARE = 0.15
"""Share of the requests that are paired with the head of a body."""
KINDS = frozenset("spto")
"""Kinds of requests that some skill fits: short, plain, long tasks, odd ones."""
SHARE = 0.75
"""Share of the trained weights in the model; the rest is those that training began with. With 1 the
sets that are least like skills lose a little, with 0.75 none does, and the mean is higher."""
SCRIPTS = frozenset({"Latin"})
"""Writing systems that the model reads."""
_NEIGHBOUR_CHARS = 400
"""Of the metadata this much tells which skills are near."""
_LIBRARIES = ("torch", "sentence-transformers", "transformers", "tokenizers", "numpy")


def read_skills(path: Path) -> Iterator[SkillText]:
    """Yield the texts of skills.

    Args:
        path: JSON lines; gzipped if its name ends in .gz.

    Yields:
        Each skill, in the order of the file.
    """
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open() as file:
        for line in file:
            record = json.loads(line)
            yield SkillText(record["name"], record["description"], record["body"])


def requests_of(
    path: Path, left_out: Collection[int], rows: Mapping[int, int], most: int | None = None
) -> list[list[Request]]:
    """Return English requests by cluster, those of some clusters left out; in random order.

    Args:
        path: The file.
        left_out: Numbers of clusters.
        rows: The row of each skill by its line; requests without a skill among them are left out.
        most: No more clusters are taken once there are so many requests.

    Returns:
        The requests of each cluster.
    """
    found: defaultdict[int, list[Request]] = defaultdict(list)
    for one in read_records(path):
        if one["cluster"] in left_out or one["lang"] != "en" or one["kind"] not in KINDS:
            continue
        if request := request_of(one, rows):
            found[one["cluster"]].append(request)
    numbers, taken, count = sorted(found), [], 0
    for number in random.Random(7).sample(numbers, len(numbers)):
        if most is not None and count >= most:
            break
        taken.append(found[number])
        count += len(found[number])
    return taken


def pairs_of_cluster(
    requests: Sequence[Request], skills: Sequence[SkillText], chance: random.Random
) -> list[tuple[int, Pair]]:
    """Draw pairs from a cluster, none of whose documents helps with the query of another.

    Args:
        requests: The requests of the cluster.
        skills: All skills.
        chance: Its state decides.

    Returns:
        Rows of skills with a pair: requests with a skill that fits best, then other skills of the
        cluster with a query from their own texts, whose metadata are hard negatives.
    """
    drawn: list[tuple[int, Pair]] = []
    right: set[int] = set()
    graded: set[int] = set()
    for one in chance.sample(requests, len(requests)):
        best = max(one.grades.values())
        row = chance.choice([row for row, grade in one.grades.items() if grade == best])
        if row in graded or right & one.grades.keys():
            continue
        head = skills[row].head()
        document = head if head and chance.random() < HEAD_SHARE else skills[row].metadata()
        drawn.append((row, Pair(one.text, document, JUDGED)))
        right.add(row)
        graded |= one.grades.keys()
        if len(drawn) == TOGETHER:
            break
    others = [row for row in requests[0].rows if row not in graded]
    for row in chance.sample(others, min(BESIDE, len(others))):
        if pair := MinedSkill.mine(skills[row]).draw(chance):
            drawn.append((row, Pair(pair.query, skills[row].metadata(), pair.kind)))
    return drawn


def with_requests(
    plan: Sequence[Batch], by_cluster: Sequence[Sequence[Request]], skills: Sequence[SkillText]
) -> list[Batch]:
    """Add pairs of `REQUESTS` to each batch of a plan, of clusters in random order."""
    chance = random.Random(SETTINGS.seed)
    found = []
    for batch in plan:
        added: list[tuple[int, Pair]] = []
        for requests in chance.sample(by_cluster, len(by_cluster)):
            added += pairs_of_cluster(requests, skills, chance)
            if len(added) >= REQUESTS:
                break
        found.append((*batch, *added[:REQUESTS]))
    return found


def weights_of(base: str) -> BertWeights:
    """Read the weights of a folder, as libraries of Hugging Face save them, or a packaged model."""
    folder = Path(base)
    return read_hugging_face(folder) if folder.is_dir() else begin_weights(base)


def metadata_vectors(
    skills: Sequence[SkillText], base: BertWeights, work: Path
) -> NDArray[np.float32]:
    """Embed the metadata of skills by the weights that training begins with.

    Args:
        skills: The skills.
        base: The weights.
        work: Keeps the vectors for the next call with the same texts.

    Returns:
        Unit vectors, float32, (skills, dimensions).
    """
    texts = [f"{skill.name}: {skill.about}"[:_NEIGHBOUR_CHARS] for skill in skills]
    path = work / f"metadata-{hashlib.sha256(repr(texts).encode()).hexdigest()[:16]}.npy"
    if not path.exists():
        np.save(path, TorchEncoder.load(base, SETTINGS).encode(texts))
    vectors: NDArray[np.float32] = np.load(path)
    return vectors


def save_weights(weights: BertWeights, out: Path, record: object) -> None:
    """Write weights as the libraries of Hugging Face read them, and how they were made.

    Args:
        weights: The weights.
        out: A folder; created if missing.
        record: Settings and versions.
    """
    from safetensors.numpy import save_file

    out.mkdir(parents=True, exist_ok=True)
    save_file(dict(weights.tensors), out / "model.safetensors", {"format": "pt"})
    (out / "config.json").write_text(json.dumps(weights.config, indent=2) + "\n")
    (out / "tokenizer.json").write_bytes(weights.tokenizer)
    (out / "training.json").write_text(json.dumps(record, indent=2) + "\n")


def main() -> None:
    """Train, and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("skills", type=Path)
    parser.add_argument("--base", required=True, help="folder of weights, or a packaged model")
    parser.add_argument("--work", type=Path, required=True, help="keeps vectors and checkpoints")
    parser.add_argument("--out", type=Path, required=True, help="folder for the trained weights")
    parser.add_argument("--requests", type=Path, help="learn from graded requests as well")
    parser.add_argument("--without", default="", help="clusters left out, as 0-199,450-549")
    parser.add_argument("--most", type=int, help="requests at most, for a learning curve")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    base = weights_of(options.base)
    skills, rows = distinct_skills(list(read_skills(options.skills)), SCRIPTS)
    vectors = metadata_vectors(skills, base, options.work)
    settings = WITH_REQUESTS if options.requests else SETTINGS
    plan = make_plan(skills, neighbours(vectors), settings)
    learned: dict[str, Any] = {}
    if options.requests:
        left_out = clusters(options.without)
        by_cluster = requests_of(options.requests, left_out, rows, options.most)
        plan = with_requests(plan, by_cluster, skills)
        learned = {
            "requests_sha256": hashlib.sha256(options.requests.read_bytes()).hexdigest(),
            "requests": sum(map(len, by_cluster)),
            "left_out": options.without,
        }
    began = time.monotonic()

    def tell(_stage: str, done: int, total: int) -> None:
        """Print how far it is."""
        print(f"step {done} of {total}, {time.monotonic() - began:.0f} s", file=sys.stderr)

    trained = train(
        base, plan, settings, vectors=vectors, checkpoints=options.work / "run", progress=tell
    )
    record = {
        "settings": asdict(settings),
        "texts_sha256": hashlib.sha256(options.skills.read_bytes()).hexdigest(),
        "skills": len(skills),
        **learned,
        "steps": trained.steps,
        "share": SHARE,
        "versions": {name: importlib.metadata.version(name) for name in _LIBRARIES},
    }
    save_weights(average(base, trained.weights, SHARE), options.out, record)


if __name__ == "__main__":
    main()
