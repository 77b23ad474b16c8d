"""Where attackers meet honest skills: two roots, one index, and what requests find in it.

All goes through the interface that users have: SKILL.md files, `SkillIndex.from_roots` and
`SkillIndex.search_many`. Honest skills are in the first root; the others' root is a later one whose
ids sort first, which is the worse case.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import yaml
from numpy.typing import NDArray

from attacks.texts import Text
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.skills.example_requests import ExampleBook
from skillsearch.types.answers import Hit, SearchResult

Matrix: TypeAlias = NDArray[np.float64]
Ids: TypeAlias = Mapping[str, str]
"""Path of a SKILL.md → the id of an honest skill."""

TRUSTS = ("vetted", "fetched")
UNSET = "unset"
"""Leaves the trust in the root to the package."""
FIRST = 5
"""Hits that an agent is shown."""
HITS = 10
"""Hits that are ranked; the first five are those of a search for five."""
_DISCOUNTS = 1.0 / np.log2(np.arange(2, HITS + 2))


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, and the grades of honest skills by their ids."""

    text: str
    grades: Mapping[str, int]

    @property
    def best_skills(self) -> frozenset[str]:
        """Ids of the skills with the highest grade."""
        best = max(self.grades.values())
        return frozenset(key for key, grade in self.grades.items() if grade == best)


def texts_of(requests: Sequence[Request]) -> list[str]:
    """Return what is asked."""
    return [request.text for request in requests]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of requests, one row each.

    Attributes:
        taken: 1 where another root has one of the first five hits.
        first: 1 if it has the first.
        ndcg: nDCG@10 of the honest skills.
    """

    taken: Matrix
    first: Matrix
    ndcg: Matrix


def write_skills(root: Path, skills: Mapping[str, Text]) -> dict[str, str]:
    """Fill a folder with skills anew; return their ids by path."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    ids = {}
    for number, (key, text) in enumerate(skills.items()):
        path = root.resolve() / f"{number:05}" / "SKILL.md"
        path.parent.mkdir()
        # Without a description a skill is not indexed.
        about = text.description.strip() or text.name
        fields: dict[str, Any] = {"name": text.name, "description": about}
        fields |= {"tags": list(text.tags)} if text.tags else {}
        fields |= {"metadata": {"version": text.version}} if text.version else {}
        head = yaml.safe_dump(fields, allow_unicode=True, sort_keys=False, width=math.inf)
        page = f"---\n{head}---\n\n{text.body}\n"
        path.write_bytes(page.encode("utf-8", "replace"))
        if text.examples:
            cases = [{"query": example, "should_trigger": True} for example in text.examples]
            (path.parent / "evals").mkdir()
            (path.parent / "evals" / "triggers.json").write_text(json.dumps(cases))
        ids[str(path)] = key
    return ids


def ndcg(hits: Sequence[Hit], grades: Mapping[str, int], ids: Ids) -> float:
    """Return the nDCG@10 of honest skills; a hit counts as the best skill that it stands for."""

    def grade(hit: Hit) -> int:
        if hit.path not in ids:
            return 0
        copies = (ids[path] for path in (hit.path, *hit.duplicates) if path in ids)
        return max(grades.get(key, 0) for key in copies)

    def gain(ranked: Sequence[int]) -> float:
        return float(np.array(ranked[:HITS]) @ _DISCOUNTS[: min(len(ranked), HITS)])

    return gain([grade(hit) for hit in hits]) / gain(sorted(grades.values(), reverse=True))


def ndcgs(requests: Sequence[Request], results: Sequence[SearchResult], ids: Ids) -> Matrix:
    """Return the nDCG@10 of honest skills for each request."""
    pairs = zip(requests, results, strict=True)
    return np.array([ndcg(result, request.grades, ids) for request, result in pairs])


def outcome(requests: Sequence[Request], results: Sequence[SearchResult], ids: Ids) -> Outcome:
    """Measure results whose hits are honest if their paths have ids."""
    foreign = [[hit.path not in ids for hit in result] for result in results]
    return Outcome(
        np.array([any(hits[:FIRST]) for hits in foreign], float),
        np.array([any(hits[:1]) for hits in foreign], float),
        ndcgs(requests, results, ids),
    )


def shown_best(requests: Sequence[Request], results: Sequence[SearchResult], ids: Ids) -> Matrix:
    """Return 1 for each request with a best skill, at its honest path, among the first hits."""
    pairs = zip(requests, results, strict=True)
    return np.array(
        [
            any(ids.get(hit.path) in request.best_skills for hit in result[:FIRST])
            for request, result in pairs
        ],
        float,
    )


class Ground:
    """Honest skills on disk, and an index of them with whatever a later root holds."""

    def __init__(self, work: Path, honest: Mapping[str, Text], *, reader: str = "auto") -> None:
        """Write the honest skills."""
        self.work, self._reader = work, reader
        self.skills = honest
        self.home, self.later = work / "honest", work / "attackers"
        self.ids = write_skills(self.home, honest)
        self.others: Ids = {}  # path → number of the texts that were indexed last

    def index(self, others: Sequence[Text] = (), trust: str = UNSET) -> SkillIndex:
        """Index the honest skills, and others in a later root."""
        if not others:
            return self.open([self.home])
        numbered = {str(number): text for number, text in enumerate(others)}
        self.others = write_skills(self.later, numbered)
        return self.open([self.home, self.later], trust)

    def join(self, others: Sequence[Text]) -> SkillIndex:
        """Index the honest skills with others in their own root, in folders that sort first."""
        numbered = {str(number): text for number, text in enumerate(others)}
        self.others = write_skills(self.home / "!", numbered)
        return self.open([self.home])

    def leave(self) -> None:
        """Remove what `join` added."""
        shutil.rmtree(self.home / "!", ignore_errors=True)

    def open(self, roots: Sequence[Path], trust: str = UNSET) -> SkillIndex:
        """Index some roots; the trust is that of the last."""
        # What attackers write counts, what we wrote for public skills does not.
        options: dict[str, Any] = {"examples": ExampleBook(None, packaged=False)}
        if trust != UNSET:
            options["trust"] = [f"{roots[-1]}={trust}"]
        return SkillIndex.from_roots(roots, index_dir=self.work / "index", **options)

    def search(
        self, index: SkillIndex, requests: Sequence[str], n: int = HITS
    ) -> list[SearchResult]:
        """Search without a threshold."""
        return index.search_many(requests, n=n, threshold=0.0, reader=self._reader)

    def library_search(self, index: SkillIndex) -> Callable[[str], SearchResult]:
        """Return the search that agents have."""
        library = SkillLibrary.of_index(index)
        return lambda request: library.search(request, FIRST, 0.0, reader=self._reader)

    def measure(
        self, requests: Sequence[Request], others: Sequence[Text] = (), trust: str = UNSET
    ) -> Outcome:
        """Measure requests with others in the later root."""
        index = self.index(others, trust)
        return outcome(requests, self.search(index, texts_of(requests)), self.ids)
