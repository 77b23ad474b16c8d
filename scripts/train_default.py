"""Train the embedder that skillsearch ships, from all-MiniLM-L6-v2 and the texts of many skills.

Needs the extra ``train``. The texts are JSON lines, plain or gzipped, a skill each with ``name``,
``description`` and ``body``; they are not part of this repository, the recipe is. ::

    python scripts/train_default.py SKILLS.jsonl.gz --base FOLDER --work WORK --out WEIGHTS
    python scripts/build_model.py --tuned WEIGHTS ...

BASE is the folder of the official weights (see ``scripts/build_model.py``). An interrupted run goes
on from its last checkpoint in WORK, which is made every few minutes. No query of a judged
collection is used.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib.metadata
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skillsearch.training.bert_weights import BertWeights, average, read_hugging_face
from skillsearch.training.contrastive import TorchEncoder, train
from skillsearch.training.plan import TrainingSettings, distinct_skills, make_plan, neighbours
from skillsearch.training.queries import SkillText

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
"""How the shipped model was trained."""
SHARE = 0.75
"""Share of the trained weights in the model; the rest is the official ones. With 1 the sets
that are least like skills lose a little, with 0.75 none does, and the mean is higher."""
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
    parser.add_argument("--base", type=Path, required=True, help="folder of the official weights")
    parser.add_argument("--work", type=Path, required=True, help="keeps vectors and checkpoints")
    parser.add_argument("--out", type=Path, required=True, help="folder for the trained weights")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    base = read_hugging_face(options.base)
    skills, _ = distinct_skills(list(read_skills(options.skills)), SCRIPTS)
    vectors = metadata_vectors(skills, base, options.work)
    plan = make_plan(skills, neighbours(vectors), SETTINGS)
    began = time.monotonic()

    def tell(_stage: str, done: int, total: int) -> None:
        """Print how far it is."""
        print(f"step {done} of {total}, {time.monotonic() - began:.0f} s", file=sys.stderr)

    trained = train(
        base, plan, SETTINGS, vectors=vectors, checkpoints=options.work / "run", progress=tell
    )
    record = {
        "settings": asdict(SETTINGS),
        "texts_sha256": hashlib.sha256(options.skills.read_bytes()).hexdigest(),
        "skills": len(skills),
        "steps": trained.steps,
        "share": SHARE,
        "versions": {name: importlib.metadata.version(name) for name in _LIBRARIES},
    }
    save_weights(average(base, trained.weights, SHARE), options.out, record)


if __name__ == "__main__":
    main()
