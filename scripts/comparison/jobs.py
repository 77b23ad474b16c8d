"""What compared systems are asked: the skills and requests of collections, skills as folders."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from real_collections import REQUESTS, documents, judged

from comparison.judge import Pair
from skillsearch.evaluation.collection import digest as digest_of
from skillsearch.evaluation.collection import load_collection
from skillsearch.evaluation.types import Collection, JudgedQuery


class Job(NamedTuple):
    """A collection, its pairs of requests that differ in one thing, and whether it is the first."""

    collection: Collection
    pairs: Sequence[Pair] = ()
    is_first: bool = False

    @property
    def digest(self) -> str:
        """Return a hash of what a system is given."""
        texts = "\0".join(query.text for query in self.requests)
        return sha256(f"{digest_of(self.collection.documents)}{texts}".encode()).hexdigest()[:12]

    @property
    def requests(self) -> list[JudgedQuery]:
        """All requests, those last that no skill fits."""
        return [*self.collection.queries, *self.collection.negatives]

    @property
    def sizes(self) -> list[int]:
        """Return the numbers of skills, of requests, and of those that nothing answers."""
        parts = (self.collection.documents, self.collection.queries, self.collection.negatives)
        return [*map(len, parts)]


def jobs(folders: Iterable[Path], skills: Path | None) -> list[Job]:
    """Load collections, and make that of real requests that nothing fits if its skills are there.

    An EvaluationError if one cannot be loaded.
    """
    loaded = [
        Job(load_collection(folder), contrasts(folder), not number)
        for number, folder in enumerate(folders)
    ]
    if skills:
        requests = REQUESTS / "nothing.jsonl"
        loaded.append(Job(judged("real-nothing", documents(skills), requests)))
    return loaded


def contrasts(folder: Path) -> list[Pair]:
    """Return the ids of each request of a collection that says to which other it is a contrast."""
    lines = (folder / "queries.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines if line.strip()]
    pairs = (
        (record.get("contrast_to") or record.get("twin_of"), record["_id"]) for record in records
    )
    return [(other, own) for other, own in pairs if other]


def write_skills(collection: Collection, root: Path) -> dict[str, str]:
    """Write a collection as folders of skills; return its ids by folder and by name."""
    ids: dict[str, str] = {}
    for number, skill in enumerate(collection.documents):
        is_name = re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", skill.name) and skill.name not in ids
        folder = skill.name if is_name else f"skill-{number}"
        texts = (json.dumps(text, ensure_ascii=False) for text in (skill.name, skill.description))
        head = "name: {}\ndescription: {}".format(*texts)
        (root / folder).mkdir(parents=True)
        file = root / folder / "SKILL.md"
        file.write_text(f"---\n{head}\n---\n\n{skill.body}\n", encoding="utf-8")
        ids[folder] = skill.doc_id
        ids.setdefault(skill.name, skill.doc_id)
    return ids
