"""Train the reader that skillsearch ships, from its embedder and graded requests.

Needs the extra ``train``. Requests and skills are JSON lines, gzipped; they are not part of this
repository, the recipe is. ::

    python scripts/train_reader.py REQUESTS.jsonl.gz SKILLS.jsonl.gz --out WEIGHTS
    python scripts/build_model.py --reader WEIGHTS

A request has ``text``, ``cluster``, ``kind``, ``rows`` (line numbers, from 0, of the skills that
were judged) and ``grades`` (row → 2 or 1). ``--authors`` adds a judged collection whose negatives
say which skill a request is ``not`` for. ``--without`` leaves clusters out, and ``--without-half``
every other repository of the authors, for collections that are to be measured.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from train_default import read_skills, save_weights

from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import embed
from skillsearch.evaluation.assess import auroc
from skillsearch.evaluation.collection import load_collection
from skillsearch.text.passages import best_passage, passage_text
from skillsearch.text.scripts import trust
from skillsearch.text.tokenizer import document_terms, terms
from skillsearch.training.bert_weights import begin_weights, read_hugging_face
from skillsearch.training.cross_encoder import (
    Group,
    Read,
    ReaderSettings,
    pairs_of,
    train_reader,
)

BESIDE = 3
"""Judged skills of a request that are read: up to three that fit, and the nearest of the others."""
MOST_FITTING = 3
STRANGERS = 400
"""The nearest of so many skills of other clusters is read as well: an index brings up such too."""
TWIN_FITTING = 2
"""Skills that fit its original and a twin is read with; beside them the nearest other one."""
FREE_NEAR_MISSES = "n"
"""Kind of requests that were written freely as near misses: their style alone tells them."""
WATCHED = 10
"""Every so manieth cluster says when to stop, by this many requests, at so many checks."""
WATCHED_REQUESTS = 150
CHECKS = 8
_IDF_SAMPLE = 4_000
_NEAR_CHARS = 400  # of a text, which tell what is near
_LATIN = frozenset({"Latin"})


class Texts:
    """What a reader is shown of each skill, given a request."""

    def __init__(self, skills: Sequence[tuple[str, str, str]]) -> None:
        """Take names, descriptions and bodies; idf are those of a sample."""
        self.skills = skills
        sample = skills[:: max(1, len(skills) // _IDF_SAMPLE)]
        counts = Counter(
            term for one in sample for term in set(document_terms(" ".join(one)[:5_000]))
        )
        self._idf = {
            term: math.log((len(sample) - count + 0.5) / (count + 0.5))
            for term, count in counts.items()
            if count < len(sample) / 4
        }

    def nearness(self, requests: Sequence[Mapping[str, Any]]) -> Iterator[tuple[list[int], int]]:
        """Yield the judged skills of each request, the nearest first, and its nearest stranger.

        The embedder tells what is near. A stranger is one of a random sample of skills that were
        judged for other requests.
        """
        chance = random.Random(1)
        embedder = load_embedder("onnx")
        rows = sorted({row for one in requests for row in one["rows"]})
        about = [f"{self.skills[row][0]}: {self.skills[row][1]}"[:_NEAR_CHARS] for row in rows]
        vectors = dict(zip(rows, embed(embedder, about), strict=True))
        asked = embed(embedder, [one["text"][:_NEAR_CHARS] for one in requests], role="query")
        for one, vector in zip(requests, asked, strict=True):

            def cosine(row: int, vector: NDArray[np.float32] = vector) -> float:
                return float(vectors[row] @ vector)

            others = set(chance.sample(rows, min(STRANGERS, len(rows)))).difference(one["rows"])
            yield sorted(one["rows"], key=cosine, reverse=True), max(sorted(others), key=cosine)

    def of(self, row: int, request: str) -> str:
        """Return the text of a skill for a request."""
        name, description, body = self.skills[row]
        weights = {term: self._idf.get(term, 8.0) for term in terms(request)}
        return passage_text(name, description, best_passage(body, weights))


def written(path: Path, texts: Texts, left_out: range | set[int]) -> Iterator[tuple[int, Group]]:
    """Yield the graded requests of a file with their twins, each with its cluster.

    A twin whose original is not read stands by itself.
    """
    with gzip.open(path, "rt", encoding="utf-8") as file:
        requests = [json.loads(line) for line in file]
    kept = [
        one
        for one in requests
        if one["cluster"] not in left_out
        and one["kind"] != FREE_NEAR_MISSES
        and trust(one["text"], _LATIN) >= 1.0
    ]
    near = texts.nearness(kept)
    graded = {
        (one["cluster"], one["text"]): {int(row): grade for row, grade in one["grades"].items()}
        for one in requests
    }
    twins: defaultdict[tuple[int, str], list[Group]] = defaultdict(list)
    originals: dict[tuple[int, str], Group] = {}
    for one, (order, stranger) in zip(kept, near, strict=True):
        home, text = one["cluster"], one["text"]
        if one.get("twin_of"):
            fits = graded.get((home, one["twin_of"]), {})
            most, beside = TWIN_FITTING, 1
        else:
            fits = graded[home, text]
            most = MOST_FITTING
            beside = max(1, BESIDE - min(most, len(fits)))
        rows = sorted(fits, key=lambda row: -fits[row])[:most]
        rows += [row for row in order if row not in fits][:beside]
        rows += [] if one.get("twin_of") else [stranger]
        shown = tuple(texts.of(row, text) for row in rows)
        if one.get("twin_of"):
            key = (home, one["twin_of"])
            twins[key].append(Group(text, shown, (0,) * len(rows), tuple(rows)))
        else:
            grades = tuple(fits.get(row, 0) for row in rows)
            originals[home, text] = Group(text, shown, grades, tuple(rows))
    for key, group in originals.items():
        yield key[0], group._replace(twins=tuple(twins.pop(key, ())))
    for key, alone in twins.items():
        yield from ((key[0], group) for group in alone)


def of_authors(folder: Path, half: int | None) -> Iterator[Group]:
    """Yield the requests that authors wrote for their skills, and those that are not for them."""
    chance = random.Random(2)
    collection = load_collection(folder)
    texts = Texts([(d.name, d.description, d.body) for d in collection.documents])
    rows = {document.doc_id: row for row, document in enumerate(collection.documents)}
    homes: defaultdict[str, list[int]] = defaultdict(list)
    for document, row in rows.items():
        homes[document.split("/")[0]].append(row)
    kept = {home for place, home in enumerate(sorted(homes)) if half is None or place % 2 != half}
    asked = [
        (query.text, {rows[d]: 2 for d, grade in collection.qrels[query.query_id].items() if grade})
        for query in collection.queries
    ]
    with (folder / "negatives.jsonl").open(encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    asked += [(one["text"], {rows[one["not"]]: 0}) for one in records if one.get("not") in rows]
    for text, grades in asked:
        home = collection.documents[next(iter(grades))].doc_id.split("/")[0]
        if home not in kept or trust(text, _LATIN) < 1.0:
            continue
        some = list(grades)[:3]
        # A sibling may answer what its author only said is not for another one.
        beside = [row for row in homes[home] if row not in grades] if any(grades.values()) else []
        some += chance.sample(beside, min(2, len(beside)))
        some += chance.sample(range(len(rows)), 2)
        yield Group(
            text, tuple(texts.of(r, text) for r in some), tuple(grades.get(r, 0) for r in some)
        )


def clusters(text: str) -> set[int]:
    """Read ranges such as ``0-199,450-549``."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found.update(range(int(low), int(high or low) + 1))
    return found


def pair_auroc(read: Read, groups: Sequence[Group]) -> float:
    """Return how well logits tell skills that fit from skills that do not, over all requests."""
    logits = read(pairs_of(groups)).tolist()
    grades = [grade for group in groups for one in group.read_together for grade in one.grades]
    fits = [one for one, grade in zip(logits, grades, strict=True) if grade == 2]
    others = [one for one, grade in zip(logits, grades, strict=True) if grade == 0]
    return auroc(fits, others)


def main() -> None:
    """Train, and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("requests", type=Path)
    parser.add_argument("skills", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for the trained weights")
    parser.add_argument("--begin", default="onnx", help="packaged model, or a folder of weights")
    parser.add_argument("--authors", type=Path, nargs="*", default=[])
    parser.add_argument("--without", default="", help="clusters left out, as 0-199,450-549")
    parser.add_argument("--only", default="", help="clusters taken; by default all")
    parser.add_argument("--without-half", type=int, choices=(0, 1))
    parser.add_argument("--most", type=int, help="requests at most, for a learning curve")
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--learning-rate", type=float, default=ReaderSettings().learning_rate)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    settings = ReaderSettings(
        epochs=options.epochs, learning_rate=options.learning_rate, seed=options.seed
    )
    skills = [(one.name, one.about, one.body) for one in read_skills(options.skills)]
    left_out = clusters(options.without)
    if options.only:
        left_out |= set(range(10_000)) - clusters(options.only)
    found = list(written(options.requests, Texts(skills), left_out))
    watched = [group for cluster, group in found if cluster % WATCHED == 3]
    watched = random.Random(4).sample(watched, min(WATCHED_REQUESTS, len(watched)))
    groups = [group for cluster, group in found if cluster % WATCHED != 3]
    groups += [
        group for folder in options.authors for group in of_authors(folder, options.without_half)
    ]
    random.Random(3).shuffle(groups)
    groups = groups[: options.most]
    print(f"{len(groups)} requests, {len(pairs_of(groups))} pairs", file=sys.stderr)
    steps = settings.epochs * len(groups) / settings.groups
    settings = replace(settings, check_every=math.ceil(steps / CHECKS))
    began = time.monotonic()

    def check(read: Read) -> float:
        value = pair_auroc(read, watched)
        print(f"AUROC {value:.4f}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        return value

    def tell(_stage: str, done: int, total: int) -> None:
        if done % 20 == 0:
            spent = time.monotonic() - began
            print(f"step {done} of {total}, {spent:.0f} s", file=sys.stderr, flush=True)

    folder = Path(options.begin)
    begin = read_hugging_face(folder) if folder.is_dir() else begin_weights(options.begin)
    trained = train_reader(begin, groups, settings, check=check, progress=tell)
    record: dict[str, Any] = {
        "settings": asdict(settings),
        "begin": options.begin if not folder.is_dir() else "weights of an earlier run",
        "texts_sha256": hashlib.sha256(options.requests.read_bytes()).hexdigest(),
        "requests": len(groups),
        "left_out": options.without,
        "steps": trained.steps,
        "watched": {str(step): round(value, 4) for step, value in trained.values.items()},
    }
    save_weights(trained.weights, options.out, record)


if __name__ == "__main__":
    main()
