"""Material of a tuning: texts to learn from and queries to measure by, kept apart from the start.

Queries are requests that skills state themselves, struck out of their texts; they are still in the
author's wording, easier than that of users. Besides there are queries for which somebody chose
skills: a judged collection, or a log.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.errors import TrainingError
from skillsearch.evaluation.collection import load_collection
from skillsearch.evaluation.lines import line_error, numbered_lines, shown
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.text.requests import fold_blanks, fold_words
from skillsearch.text.scripts import readable
from skillsearch.training.plan import JudgedPair, distinct_skills, has_texts
from skillsearch.training.queries import MinedSkill, SkillText, without_name

_Asked: TypeAlias = Sequence[tuple[str, tuple[int, ...]]]
"""Queries with the rows of their right skills."""

LEAST_SKILLS = 50
"""With fewer, telling the skills of a batch apart teaches nothing, and the few queries that can be
held out tell no gain from chance."""
LEAST_TEXTS = 200
"""Different texts to make queries of, four for each of so few skills."""
LEAST_QUERIES = 16
"""Requests held out; half of them choose, half of them measure."""
_HELD_SHARE, _MOST_HELD = 0.4, 400
"""Skills of which a request is held out: one half to stop and to choose by, one to measure by."""
_MEASURED_AT = 4_000
"""Skills among which a query looks for its own in the end; of more, others are left out."""
FORM = (
    'Write one object a line: {"query": "what was asked", "skill": "the name that was chosen"}, '
    'or "skills" with several names; or name the folder of a judged collection.'
)
_MEASURED = 3
"""One in so many judged queries is kept to measure by."""
REQUESTS = ("request", "clause")
"""Kinds of texts most like the queries of users."""
PIECES = ("piece",)
"""Used if skills state too few requests."""
_LEAST_ABOUT = 30
_QUERY_CHARS = 300
_TRIES = 6


class ChosenSkills(NamedTuple):
    """A query, and the places of the right skills among those of the library."""

    query: str
    places: tuple[int, ...]

    @property
    def is_measured(self) -> bool:
        """Whether it is kept to measure by; its text decides, so that copies stay together."""
        digest = hashlib.sha256(fold_blanks(self.query).encode("utf-8", "replace")).digest()
        return digest[0] % _MEASURED == 0


class HeldQuery(NamedTuple):
    """A query, the row of the skill that it was struck from, and its kind as in `Pair`."""

    text: str
    row: int
    kind: str


class HeldOut(NamedTuple):
    """All skills without the held-out queries, and these in random order, at most one a skill."""

    skills: tuple[SkillText, ...]
    queries: tuple[HeldQuery, ...]


@dataclass(frozen=True, slots=True)
class Material:
    """Texts to learn from and to measure by.

    Attributes:
        watched: Held-out requests to validate by.
        asked: Held-out requests to measure by.
        kept_back: Judged queries to measure by, with the rows that are right for them.
    """

    skills: tuple[SkillText, ...]
    judged: tuple[JudgedPair, ...]
    watched: tuple[HeldQuery, ...]
    asked: tuple[HeldQuery, ...]
    kept_back: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def gather(
        cls,
        texts: Sequence[SkillText],
        chosen: Sequence[ChosenSkills],
        scripts: frozenset[str] | None,
        seed: int,
    ) -> Material:
        """Divide the texts of all skills, and judged queries with places among these.

        Only what the `scripts` of the embedder can express is kept, None for all. Raises
        TrainingError if there is too little.
        """
        skills, rows = distinct_skills(texts, scripts)
        held = hold_out(skills, min(_MOST_HELD, int(_HELD_SHARE * len(skills))), seed)
        if (
            len(skills) < LEAST_SKILLS
            or len(held.queries) < LEAST_QUERIES
            or not has_texts(held.skills, LEAST_TEXTS)
        ):
            raise TrainingError(
                f"{len(skills):,} skills that differ and have a description are too little to "
                f"learn from, or say too little of what they are for: at least {LEAST_SKILLS} are "
                f"needed, with {LEAST_TEXTS} sentences or paragraphs to make queries of. Keep the "
                "model that you have, or name more folders of skills."
            )
        judged: list[JudgedPair] = []
        kept_back = []
        for one in chosen:
            right = tuple(dict.fromkeys(rows[place] for place in one.places if place in rows))
            if not one.is_measured:
                judged += (JudgedPair(readable(one.query, scripts), row) for row in right)
            elif right:
                kept_back.append((one.query, right))
        middle = len(held.queries) // 2
        watched, asked = held.queries[:middle], held.queries[middle:]
        return cls(held.skills, tuple(judged), watched, asked, tuple(kept_back))

    def collections(self) -> dict[str, Collection]:
        """Return the collections to measure by: ``held_out``, and ``judged`` if there is any."""
        held = [(query.text, (query.row,)) for query in self.asked]
        given: dict[str, _Asked] = {"held_out": held, "judged": self.kept_back}
        return {name: self._collection(name, asked) for name, asked in given.items() if asked}

    def _collection(self, name: str, asked: _Asked) -> Collection:
        """Return queries among their right skills and others."""
        wanted = dict.fromkeys(row for _, rows in asked for row in rows)
        rows = sorted(list(dict.fromkeys([*wanted, *range(len(self.skills))]))[:_MEASURED_AT])
        places = {row: place for place, row in enumerate(rows)}
        skills = [self.skills[row] for row in rows]
        return Collection(
            name=name,
            documents=tuple(
                JudgedDocument(str(place), skill.name, skill.about, skill.body)
                for place, skill in enumerate(skills)
            ),
            queries=tuple(JudgedQuery(str(number), text) for number, (text, _) in enumerate(asked)),
            qrels={
                str(number): {str(places[row]): 1 for row in right if row in places}
                for number, (_, right) in enumerate(asked)
            },
        )


def read_judged(
    path: Path, names: Sequence[str], doc_ids: Sequence[str]
) -> tuple[list[ChosenSkills], int]:
    """Read judged queries from the folder of a collection or a file of JSON lines.

    Skills are given by their names, and ids in the same order. Returns queries with the skills that
    are here, and the number of queries without any. Raises EvaluationError if it cannot be read.
    """
    known: defaultdict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        known[_fold_name(name)].append(place)
    known |= {doc_id: [place] for place, doc_id in enumerate(doc_ids)}
    found, lost = [], 0
    for query, chosen in _from_collection(path) if path.is_dir() else _from_log(path):
        # Each skill is meant by the first of its keys that is known.
        firsts = (next((key for key in keys if key in known), None) for keys in chosen)
        places = {place for key in firsts if key is not None for place in known[key]}
        if places:
            found.append(ChosenSkills(query, tuple(sorted(places))))
        else:
            lost += 1
    return found, lost


def hold_out(skills: Sequence[SkillText], count: int, seed: int) -> HeldOut:
    """Strike a request out of some skills, or a piece of a body if there are too few requests."""
    chance = random.Random(seed)
    left = list(skills)
    queries: list[HeldQuery] = []
    waiting = chance.sample(range(len(skills)), len(skills))
    for kinds in (REQUESTS, PIECES):
        later = []
        for row in waiting:
            found = _strike(skills[row], kinds, chance) if len(queries) < count else None
            if found is None:
                later.append(row)
                continue
            left[row], text, kind = found
            queries.append(HeldQuery(text, row, kind))
        waiting = later
    chance.shuffle(queries)
    return HeldOut(tuple(left), tuple(queries))


def mean_gain(
    queries: NDArray[np.float32], rows: Sequence[int], documents: NDArray[np.float32]
) -> float:
    """Return the mean nDCG without a cut-off of queries with one right document each.

    All vectors are unit. Of equal documents the right one counts as the last.
    """
    scores = queries @ documents.T
    right = scores[np.arange(len(rows)), list(rows)]
    ranks = (scores >= right[:, np.newaxis]).sum(axis=1)
    return float(np.mean([1.0 / math.log2(1.0 + rank) for rank in ranks]))


def _strike(
    skill: SkillText, kinds: Sequence[str], chance: random.Random
) -> tuple[SkillText, str, str] | None:
    """Strike a text of some kinds out of a skill; None if none can be struck completely."""
    sources = MinedSkill.mine(skill).sources
    texts = [(text, kind) for kind in kinds for text in sources.get(kind, ())]
    for text, kind in chance.sample(texts, min(len(texts), _TRIES)):
        parts = (skill.about, skill.body, *skill.scripts)
        about, body, *scripts = (part.replace(text, " ") for part in parts)
        left = SkillText(skill.name, about, body, tuple(scripts))
        query = without_name(text, skill.name)
        is_gone = fold_words(text) not in fold_words("\n".join((about, body, *scripts)))
        if is_gone and len(left.about.strip()) >= _LEAST_ABOUT and len(query.split()) > 2:
            is_long = len(query) > _QUERY_CHARS
            return left, query[:_QUERY_CHARS].rsplit(" ", 1)[0] if is_long else query, kind
    return None


def _from_collection(folder: Path) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each query with id and name of its relevant skills."""
    collection = load_collection(folder)
    names = {document.doc_id: document.name for document in collection.documents}
    for query in collection.queries:
        grades = collection.qrels[query.query_id]
        right = [doc_id for doc_id, grade in grades.items() if grade > 0]
        yield query.text, [[doc_id, _fold_name(names[doc_id])] for doc_id in right]


def _from_log(path: Path) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each query of a log with the chosen names, which may be ids."""
    for number, line in numbered_lines(path, FORM):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise line_error(path, number, f"{shown(line)} is not JSON. {FORM}") from exc
        given = record if isinstance(record, dict) else {}
        query, names = given.get("query"), given.get("skills", given.get("skill"))
        names = names if isinstance(names, list) else [names]
        query = query.strip() if isinstance(query, str) else ""
        if not query or not names or not all(isinstance(one, str) and one for one in names):
            raise line_error(path, number, f"{shown(record)} has no query or no skill. {FORM}")
        if len(query) > MAX_QUERY_CHARS:
            problem = f"the query has {len(query):,} characters; shorten it to {MAX_QUERY_CHARS:,}"
            raise line_error(path, number, problem)
        yield query, [[name, _fold_name(name)] for name in names]


def _fold_name(name: str) -> str:
    """Return a name so that case, hyphens and underscores make no difference."""
    return fold_blanks(name.replace("-", " ").replace("_", " "))
