"""Material of a tuning: texts to learn from and queries to measure by, kept apart from the start.

Queries are requests that skills state themselves, struck out of their texts, and those for which
somebody chose skills: a judged collection, or a log.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import SkillError, TrainingError
from skillsearch.evaluation.collection import load_collection
from skillsearch.evaluation.lines import line_error, numbered_objects, shown
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.index.documents.document import field_texts
from skillsearch.index.indexing.reading import read_for_index
from skillsearch.index.roots.request import resolve_roots
from skillsearch.settings.values import MAX_QUERY_CHARS
from skillsearch.skills.discovery import discover
from skillsearch.skills.resources import list_files, read_file
from skillsearch.text.requests import fold_blanks, fold_words
from skillsearch.training.plan import QueryRows, distinct_skills, has_texts
from skillsearch.training.queries import MinedSkill, SkillText, opening, without_name
from skillsearch.types.indexing import Progress

LEAST_SKILLS = 50
"""With fewer, telling the skills of a batch apart teaches nothing, and the few queries that can be
held out tell no gain from chance."""
LEAST_TEXTS = 200  # different texts to make queries of, four for each of so few skills
LEAST_QUERIES = 16  # requests held out; half of them choose, half of them measure
_HELD_SHARE, _MOST_HELD = 0.4, 400
"""Skills of which a request is held out: one half to stop and to choose by, one to measure by."""
LOOKED_AT = 1_000  # skills among which a watched request looks for its own
_MEASURED_AT = 4_000
"""Skills among which a query looks for its own in the end; of more, others are left out."""
FORM = (
    'Write one object a line: {"query": "what was asked", "skill": "the name that was chosen"}, '
    'or "skills" with several names; or name the folder of a judged collection.'
)
_MEASURED = 3  # one in three judged queries is held out to measure by
REQUESTS = ("request", "clause")  # kinds of texts most like the queries of users
PIECES = ("piece",)  # used if skills state too few requests
_MOST_SCRIPTS = 20
_SCRIPT_BYTES = 256 * 1024
_LEAST_ABOUT = 30
_QUERY_CHARS = 300
_TRIES = 6


@dataclass(frozen=True, slots=True)
class TrainingMaterial:
    """Texts to learn from and to measure by.

    Held-out requests are for `validation` or for the `test`; judged queries are `judged` to learn
    from, each with one skill, or for the `judged_test`.
    """

    skills: tuple[SkillText, ...]
    judged: tuple[QueryRows, ...]
    validation: tuple[QueryRows, ...]
    test: tuple[QueryRows, ...]
    judged_test: tuple[QueryRows, ...]

    @classmethod
    def gather(
        cls, texts: Sequence[SkillText], chosen: Sequence[QueryRows], seed: int
    ) -> TrainingMaterial:
        """Divide the texts; a TrainingError if there is too little."""
        distinct, rows = distinct_skills(texts)
        count = min(_MOST_HELD, int(_HELD_SHARE * len(distinct)))
        skills, held = hold_out(distinct, count, seed)
        is_little = len(skills) < LEAST_SKILLS or len(held) < LEAST_QUERIES
        if is_little or not has_texts(skills, LEAST_TEXTS):
            raise TrainingError(
                f"{len(skills):,} skills that differ and have a description are too little to "
                f"learn from, or say too little of what they are for: at least {LEAST_SKILLS} are "
                f"needed, with {LEAST_TEXTS} sentences or paragraphs to make queries of. Keep the "
                "model that you have, or name more folders of skills."
            )
        judged: list[QueryRows] = []
        judged_test: list[QueryRows] = []
        for query, numbers in chosen:
            right = tuple(dict.fromkeys(rows[number] for number in numbers if number in rows))
            if not is_measured(query):
                judged += (QueryRows(query, (row,)) for row in right)
            elif right:
                judged_test.append(QueryRows(query, right))
        middle = len(held) // 2
        validation, test = tuple(held[:middle]), tuple(held[middle:])
        return cls(tuple(skills), tuple(judged), validation, test, tuple(judged_test))

    def collections(self) -> dict[str, Collection]:
        """Return the collections to measure by: ``held_out``, and ``judged`` if there is any."""
        tests = {"held_out": self.test, "judged": self.judged_test}
        return {name: self._collection(name, test) for name, test in tests.items() if test}

    def _collection(self, name: str, queries: Sequence[QueryRows]) -> Collection:
        """Return queries among their right skills and others."""
        rows = sorted(self._candidates(queries, _MEASURED_AT))
        ids = {row: str(number) for number, row in enumerate(rows)}
        skills = [(ids[row], self.skills[row]) for row in rows]
        numbered = [(str(number), query) for number, query in enumerate(queries)]
        return Collection(
            name,
            tuple(
                JudgedDocument(key, skill.name, skill.about, skill.body) for key, skill in skills
            ),
            tuple(JudgedQuery(key, query.query) for key, query in numbered),
            {key: {ids[row]: 1 for row in query.rows if row in ids} for key, query in numbered},
        )

    def _candidates(self, queries: Sequence[QueryRows], most: int) -> list[int]:
        """Return the rows of the right skills of queries and of others, right ones first."""
        right = (row for query in queries for row in query.rows)
        return list(dict.fromkeys([*right, *range(len(self.skills))]))[:most]

    def gain(self, embed: Callable[[Sequence[str]], NDArray[np.float32]]) -> float:
        """Return how well an embedder finds the right skills in validation, as `mean_gain`."""
        rows = self._candidates(self.validation, LOOKED_AT)
        right = [rows.index(query.rows[0]) for query in self.validation]
        documents = embed([self.skills[row].metadata() for row in rows])
        queries = embed([query.query for query in self.validation])
        return mean_gain(queries, right, documents)


def read_library(paths: Sequence[Path], progress: Progress) -> dict[str, SkillText]:
    """Read all skills, by id, below some folders but unreadable ones; RootError if a folder is."""
    roots, _ = resolve_roots(paths)
    files = discover(roots).files
    library: dict[str, SkillText] = {}
    for done, file in enumerate(files, start=1):
        skill = read_for_index(file).skill
        if skill is not None:
            # As an index embeds it, with the whole body.
            metadata = field_texts(skill, with_body=False).metadata
            about = metadata.partition(f"{skill.name}: ")[2]
            scripts = _scripts_of(skill.path.parent)
            library[skill.doc_id] = SkillText(skill.name, about, skill.body, scripts)
        progress("read", done, len(files))
    return library


def read_judged(path: Path, library: Mapping[str, SkillText]) -> tuple[list[QueryRows], int]:
    """Read judged queries from the folder of a collection or a file of JSON lines.

    Returns queries with the numbers of their skills, and how many had none here, or
    EvaluationError.
    """
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for number, text in enumerate(library.values()):
        numbers[_fold_name(text.name)].append(number)
    numbers |= {doc_id: [number] for number, doc_id in enumerate(library)}
    judged, lost = [], 0
    for query, chosen in _from_collection(path) if path.is_dir() else _from_log(path):
        # Each skill is meant by the first of its keys that the library has.
        firsts = (next((key for key in keys if key in numbers), None) for keys in chosen)
        rows = {number for key in firsts if key is not None for number in numbers[key]}
        if rows:
            judged.append(QueryRows(query, tuple(sorted(rows))))
        else:
            lost += 1
    return judged, lost


def is_measured(query: str) -> bool:
    """Return whether a judged query is measured by; its text decides, so copies stay together."""
    digest = hashlib.sha256(fold_blanks(query).encode("utf-8", "replace")).digest()
    return digest[0] % _MEASURED == 0


def hold_out(
    skills: Sequence[SkillText], count: int, seed: int
) -> tuple[list[SkillText], list[QueryRows]]:
    """Strike a request, or a piece of a body, out of some skills; return all, and the queries."""
    chance = random.Random(seed)
    left = list(skills)
    queries: list[QueryRows] = []
    order = chance.sample(range(len(skills)), len(skills))
    for kinds, row in product((REQUESTS, PIECES), order):
        is_whole = left[row] is skills[row]
        if is_whole and len(queries) < count and (struck := _strike(left[row], kinds, chance)):
            left[row], text = struck
            queries.append(QueryRows(text, (row,)))
    chance.shuffle(queries)
    return left, queries


def mean_gain(
    queries: NDArray[np.float32], rows: Sequence[int], documents: NDArray[np.float32]
) -> float:
    """Return the mean nDCG of queries with one right document each, the last of equal ones."""
    scores = queries @ documents.T
    right = scores[np.arange(len(rows)), list(rows)]
    ranks = (scores >= right[:, np.newaxis]).sum(axis=1)
    return float(np.mean([1.0 / math.log2(1.0 + rank) for rank in ranks]))


def _strike(
    skill: SkillText, kinds: Sequence[str], chance: random.Random
) -> tuple[SkillText, str] | None:
    """Strike a text of some kinds out of a skill; None if none can be struck completely."""
    sources = MinedSkill.mine(skill).sources
    texts = [text for kind in kinds for text in sources.get(kind, ())]
    for text in chance.sample(texts, min(len(texts), _TRIES)):
        parts = (skill.about, skill.body, *skill.scripts)
        about, body, *scripts = (part.replace(text, " ") for part in parts)
        rest = SkillText(skill.name, about, body, tuple(scripts))
        query = without_name(text, skill.name)
        is_gone = fold_words(text) not in fold_words("\n".join((about, body, *scripts)))
        if is_gone and len(rest.about.strip()) >= _LEAST_ABOUT and len(query.split()) > 2:
            is_long = len(query) > _QUERY_CHARS
            return rest, query[:_QUERY_CHARS].rsplit(" ", 1)[0] if is_long else query
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
    for number, record in numbered_objects(path, FORM):
        query, names = record.get("query"), record.get("skills", record.get("skill"))
        names = names if isinstance(names, list) else [names]
        query = query.strip() if isinstance(query, str) else ""
        if not query or not names or not all(isinstance(name, str) and name for name in names):
            raise line_error(path, number, f"{shown(record)} has no query or no skill. {FORM}")
        if len(query) > MAX_QUERY_CHARS:
            problem = f"the query has {len(query):,} characters; shorten it to {MAX_QUERY_CHARS:,}"
            raise line_error(path, number, problem)
        yield query, [[name, _fold_name(name)] for name in names]


def _fold_name(name: str) -> str:
    """Return a name so that case, hyphens and underscores make no difference."""
    return fold_blanks(name.replace("-", " ").replace("_", " "))


def _scripts_of(folder: Path) -> tuple[str, ...]:
    """Return the descriptions of a skill's scripts; unreadable ones have none."""
    openings = []
    with contextlib.suppress(SkillError):
        names = [name for name in list_files(folder)[0] if name.startswith("scripts/")]
        for name in names[:_MOST_SCRIPTS]:
            with contextlib.suppress(SkillError):
                data = read_file(folder, name, limit=_SCRIPT_BYTES)
                openings.append(opening(data.decode("utf-8", "replace")))
    return tuple(dict.fromkeys(filter(None, openings)))
