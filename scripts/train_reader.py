"""Train the reader that skillsearch ships, from its embedder and graded requests.

Needs the extra ``train``. Requests and skills are JSON lines, gzipped; they are not part of this
repository, the recipe is. ::

    python scripts/train_reader.py REQUESTS.jsonl.gz SKILLS.jsonl.gz --texts 36000 --out BEGUN
    python scripts/train_reader.py REQUESTS.jsonl.gz SKILLS.jsonl.gz --begin BEGUN --out WEIGHTS
    python scripts/build_model.py --reader WEIGHTS

First it learns from queries drawn from the texts of skills, then from graded requests.
A request has ``text``, ``cluster``, ``kind``, ``rows`` (line numbers, from 0, of the skills that
were judged) and ``grades`` (row → 2 or 1). ``--authors`` adds a judged collection whose negatives
say which skill a request is ``not`` for. For collections that are to be measured, ``--without``
leaves clusters out, ``--without-half`` every other repository of the authors, and ``--measured``
the skills of collections that have their own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from graded_requests import clusters, read_records
from numpy.typing import NDArray
from train_default import read_skills, save_weights, weights_of

from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import embed
from skillsearch.evaluation.assess import auroc
from skillsearch.evaluation.collection import load_collection
from skillsearch.text.passages import best_passage, passage_text
from skillsearch.text.requests import fold_blanks
from skillsearch.text.scripts import trust
from skillsearch.text.tokenizer import document_terms, terms
from skillsearch.training.cross_encoder import (
    Group,
    Read,
    ReaderSettings,
    pairs_of,
    train_reader,
)
from skillsearch.training.plan import neighbours
from skillsearch.training.queries import MinedSkill, SkillText

STRANGERS = 400
"""The nearest of so many skills of other clusters is read as well: an index brings up such too."""
FREE_NEAR_MISSES = "n"
"""Kind of requests that were written freely as near misses: their style alone tells them."""
WATCHED = 10
"""Every so manieth cluster says when to stop, by this many requests, at so many checks."""
WATCHED_REQUESTS = 150
CHECKS = 8
SETTINGS = ("epochs", "groups", "learning_rate", "head_rate", "seed", "device")
"""Settings of a run that are options."""
_IDF_SAMPLE = 4_000
_NEAR_CHARS = 400  # of a text, which tell what is near
SKILLS = 14_000
"""So many skills have queries drawn from their texts."""
DRAWN_CHARS = 600
LEAST_DESCRIPTION = 40
NEAREST, NEAR = 8, 24
"""A drawn query is read with three of the nearest skills, one of those behind them, and any one."""
_WORDS = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_SHARED = 4  # so many words in a row, of a query and its skill, are taken out of the skill
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

    def strangers(self, requests: Sequence[Mapping[str, Any]]) -> Iterator[int]:
        """Yield for each request the nearest of a random sample of skills judged for others.

        The embedder tells what is near.
        """
        chance = random.Random(1)
        embedder = load_embedder("onnx")
        rows = sorted({row for one in requests for row in one["rows"]})
        vectors = dict(zip(rows, embed(embedder, self.about(rows)), strict=True))
        asked = embed(embedder, [one["text"][:_NEAR_CHARS] for one in requests], role="query")
        for one, vector in zip(requests, asked, strict=True):

            def cosine(row: int, vector: NDArray[np.float32] = vector) -> float:
                return float(vectors[row] @ vector)

            others = set(chance.sample(rows, min(STRANGERS, len(rows)))).difference(one["rows"])
            yield max(sorted(others), key=cosine)

    def about(self, rows: Iterable[int]) -> list[str]:
        """Return the metadata of skills, as much as tells what is near."""
        return [f"{self.skills[row][0]}: {self.skills[row][1]}"[:_NEAR_CHARS] for row in rows]

    def of(self, row: int, request: str) -> str:
        """Return the text of a skill for a request."""
        return self.shown(self.skills[row], request)

    def shown(self, skill: tuple[str, str, str], request: str) -> str:
        """Return the text of a name, a description and a body for a request."""
        name, description, body = skill
        weights = {term: self._idf.get(term, 8.0) for term in terms(request)}
        return passage_text(name, description, best_passage(body, weights))


def written(path: Path, texts: Texts, left_out: Collection[int]) -> Iterator[tuple[int, Group]]:
    """Yield the graded requests of a file with their twins, each with its cluster.

    Each is read with all the skills that were judged for it, a request also with a stranger. A twin
    whose original is not read stands by itself.
    """
    kept = [
        one
        for one in read_records(path)
        if one["cluster"] not in left_out
        and one["kind"] != FREE_NEAR_MISSES
        and trust(one["text"], _LATIN) >= 1.0
    ]
    twins: defaultdict[tuple[int, str], list[Group]] = defaultdict(list)
    originals: dict[tuple[int, str], Group] = {}
    for one, stranger in zip(kept, texts.strangers(kept), strict=True):
        text, original = one["text"], one.get("twin_of")
        rows = one["rows"] if original else [*one["rows"], stranger]
        grades = tuple(one["grades"].get(str(row), 0) for row in rows)
        group = Group(text, tuple(texts.of(row, text) for row in rows), grades, tuple(rows))
        if original:
            twins[one["cluster"], original].append(group)
        else:
            originals[one["cluster"], text] = group
    for key, group in originals.items():
        yield key[0], group._replace(twins=tuple(twins.pop(key, ())))
    for key, alone in twins.items():
        yield from ((key[0], group) for group in alone)


def drawn(texts: Texts, left_out: Collection[int], most: int) -> Iterator[Group]:
    """Yield queries drawn from the texts of skills, each read with its skill and with others.

    A skill loses the sentences and lines that share words in a row with the query.
    """
    chance = random.Random(11)
    rows = [
        row
        for row, (name, description, _) in enumerate(texts.skills)
        if row not in left_out
        and len(description) >= LEAST_DESCRIPTION
        and trust(f"{name} {description[:_NEAR_CHARS]}", _LATIN) >= 1.0
    ]
    rows = sorted(chance.sample(rows, min(SKILLS, len(rows))))
    nearest = neighbours(embed(load_embedder("onnx"), texts.about(rows)))
    found = 0
    for place in chance.sample(range(len(rows)), len(rows)) * math.ceil(2 * most / len(rows)):
        name, description, body = texts.skills[rows[place]]
        pair = MinedSkill.mine(SkillText(name, description, body)).draw(chance)
        if pair is None or pair.kind == "headings" or trust(pair.query, _LATIN) < 1.0:
            continue
        query = pair.query[:DRAWN_CHARS]
        about = " ".join(_unshared(_SENTENCE.split(description), query))
        if len(about) < LEAST_DESCRIPTION:
            continue
        near = [rows[one] for one in nearest[place].tolist() if one >= 0]
        if len(near) <= NEAREST:
            continue
        others = chance.sample(near[:NEAREST], 3) + chance.sample(near[NEAREST:NEAR], 1)
        others.append(chance.choice(rows))
        own = texts.shown((name, about, "\n".join(_unshared(body.split("\n"), query))), query)
        shown = (own, *(texts.of(row, query) for row in others))
        yield Group(query, shown, (2,) + (0,) * len(others), (rows[place], *others))
        found += 1
        if found == most:
            return


def _unshared(parts: Iterable[str], query: str) -> list[str]:
    """Return the parts that share no `_SHARED` words in a row with a query."""
    taken = set(_runs(query))
    return [part for part in parts if taken.isdisjoint(_runs(part))]


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    words = _WORDS.findall(text.lower())
    return zip(*(words[begin:] for begin in range(_SHARED)), strict=False)


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
    negatives = folder / "negatives.jsonl"
    lines = negatives.read_text("utf-8").splitlines() if negatives.is_file() else []
    records = [json.loads(line) for line in lines]
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


def measured_rows(
    texts: Texts, requests: Path, left_out: set[int], folders: Iterable[Path]
) -> set[int]:
    """Return the rows of skills of clusters that are left out, or of judged collections."""
    rows = {
        row for one in read_records(requests) if one["cluster"] in left_out for row in one["rows"]
    }
    known = {
        fold_blanks(document.description)[:_NEAR_CHARS]
        for folder in folders
        for document in load_collection(folder).documents
    }
    found = enumerate(texts.skills)
    return rows | {row for row, skill in found if fold_blanks(skill[1])[:_NEAR_CHARS] in known}


def pair_auroc(read: Read, groups: Sequence[Group]) -> float:
    """Return how well logits tell skills that fit from skills that do not, over all requests."""
    logits = read(pairs_of(groups)).tolist()
    grades = [grade for group in groups for one in group.read_together for grade in one.grades]
    fits = [one for one, grade in zip(logits, grades, strict=True) if grade == 2]
    others = [one for one, grade in zip(logits, grades, strict=True) if grade == 0]
    return auroc(fits, others)


def read_options() -> argparse.Namespace:
    """Read the command line; settings of a run are options under their names."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("requests", type=Path)
    parser.add_argument("skills", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for the trained weights")
    parser.add_argument("--begin", default="onnx", help="packaged model, or a folder of weights")
    parser.add_argument("--texts", type=int, help="learn from so many queries drawn from texts")
    parser.add_argument("--measured", type=Path, nargs="*", default=[], help="with --texts")
    parser.add_argument("--authors", type=Path, nargs="*", default=[])
    parser.add_argument("--without", default="", help="clusters left out, as 0-199,450-549")
    parser.add_argument("--without-half", type=int, choices=(0, 1))
    parser.add_argument("--most", type=int, help="requests at most, for a learning curve")
    for name in SETTINGS:
        default = getattr(ReaderSettings(), name)
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(default), default=default)
    return parser.parse_args()


def material(options: argparse.Namespace) -> tuple[list[Group], list[Group]]:
    """Return what is learned from, and what says when to stop; nothing does for texts."""
    texts = Texts([(one.name, one.about, one.body) for one in read_skills(options.skills)])
    left_out, watched = clusters(options.without), []
    if options.texts:
        rows = measured_rows(texts, options.requests, left_out, options.measured)
        groups = list(drawn(texts, rows, options.texts))
    else:
        found = list(written(options.requests, texts, left_out))
        watched = [group for cluster, group in found if cluster % WATCHED == 3]
        watched = random.Random(4).sample(watched, min(WATCHED_REQUESTS, len(watched)))
        groups = [group for cluster, group in found if cluster % WATCHED != 3]
        for folder in options.authors:
            groups += of_authors(folder, options.without_half)
    random.Random(3).shuffle(groups)
    return groups[: options.most], watched


def main() -> None:
    """Train, and write the weights."""
    options = read_options()
    groups, watched = material(options)
    print(f"{len(groups)} requests, {len(pairs_of(groups))} pairs", file=sys.stderr)
    settings = ReaderSettings(**{name: getattr(options, name) for name in SETTINGS})
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

    begin = weights_of(options.begin)
    trained = train_reader(begin, groups, settings, check=check if watched else None, progress=tell)
    record: dict[str, Any] = {
        "settings": asdict(settings),
        "begin": options.begin if not Path(options.begin).is_dir() else "weights of an earlier run",
        "texts_sha256": hashlib.sha256(options.requests.read_bytes()).hexdigest(),
        "learned_from": "queries drawn from texts" if options.texts else "graded requests",
        "requests": len(groups),
        "left_out": options.without,
        "steps": trained.steps,
        "watched": {str(step): round(value, 4) for step, value in trained.values.items()},
    }
    save_weights(trained.weights, options.out, record)


if __name__ == "__main__":
    main()
