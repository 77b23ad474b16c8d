"""Add near twins to graded requests: the same request with another program, format or country.

Usage: python scripts/near_twins.py REQUESTS.jsonl.gz SKILLS.jsonl.gz OUT.jsonl.gz [--seed N]

The files are those that ``graded_requests.py`` reads, and it can read what is written here. A
request has near twins if all skills that help with it are for the name that it has: then another
name makes it a request that none of them helps with. Names come from two sources:

- ``scripts/name_kinds.txt`` lists names by kinds, such as databases. A skill is for one of them if
  it has no other of the kind. Controls tell that a name alone says nothing: if no skill that helps
  has a name of the kind, another one changes no grade.
- Skills are named after programs and services, as *binance-orders* is. The other name comes from a
  skill nearby.

``rename`` of a near twin has both names, so that a reader can also learn from the skill renamed:
it fits the twin, and no longer the original.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from count_request_words import KINDS as ANSWERABLE
from graded_requests import (
    FREE_NEAR_MISS,
    RequestRecord,
    SkillRecord,
    Skills,
    names_pattern,
    read_request_records,
    read_skill_records,
    renamed,
)

from skillsearch.training.queries import SkillText

NAMES = Path(__file__).with_name("name_kinds.txt")
TWINS = 2
"""So many near twins of a request, for each name of a kind that it can lose."""
CONTROLS = 0.5
"""Share of the names without a meaning for the skills that get a control."""
OTHERS = 2
"""A near twin is read with the skills that helped, and with so many others."""
MOST_SKILLS = 300
"""A word in more skills than this is not taken for a name."""
NEAREST, MOST_NAMES = 59, 12
"""Skills nearby whose names may stand for another, and how many of these at most."""
_WORD = re.compile(r"(?<![\w/.@-])[A-Za-z][\w+#]*(?:\.\w+)?(?![\w/@-])")
_NAME_PARTS = re.compile(r"[^a-z0-9.+#]+")
_BEGINS_SENTENCE = (*'.!?:\n-*"(', "")


@dataclass(frozen=True)
class Names:
    """Names by their kinds; a name is of the last kind that lists it."""

    kinds: tuple[tuple[str, ...], ...]

    @classmethod
    def load(cls, path: Path = NAMES) -> Names:
        """Read kinds, one a line, names parted by commas."""
        lines = path.read_text("utf-8").splitlines()
        rows = (line.split(",") for line in lines if line and not line.startswith("#"))
        return cls(tuple(tuple(name.strip() for name in row) for row in rows))

    @cached_property
    def kind_of(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the same kind, by name."""
        return {name: kind for kind in self.kinds for name in kind}

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return names_pattern(self.kind_of)

    def of(self, text: str) -> set[str]:
        """Return the names in a text, in lower case."""
        return {match[0].lower() for match in self._pattern.finditer(text)}


class SkillNames(NamedTuple):
    """The names in the metadata of a skill, and those in all of it."""

    metadata: set[str]
    everywhere: set[str]

    def is_for(self, name: str, kind: Sequence[str]) -> bool:
        """Return whether the skill is for a name, and for no other of its kind."""
        return self.metadata.intersection(kind) == {name}

    def tells(self, name: str, kind: Sequence[str]) -> bool:
        """Return whether the skill may be for a name, or for another of its kind."""
        return not self.metadata.isdisjoint(kind) or name in self.everywhere


class NearTwins:
    """Makes near twins and controls of requests, by the kinds of names."""

    def __init__(self, skills: Sequence[SkillRecord], names: Names, chance: random.Random) -> None:
        self._skills, self._names, self._chance = skills, names, chance
        self._names_by_row: dict[int, SkillNames] = {}

    def of(self, request: RequestRecord) -> Iterator[RequestRecord]:
        """Yield the near twins of a graded request, and its controls."""
        named = self._names.of(request["text"])
        judged = {row: self._names_of(row) for row in request["rows"]}
        taken = named.union(*(skill.everywhere for skill in judged.values()))
        helpful = [judged[int(row)] for row in request["grades"]]
        for name in sorted(named):
            kind = self._names.kind_of[name]
            others = [other for other in kind if other not in taken]
            if not others:
                continue
            if all(skill.is_for(name, kind) for skill in helpful):
                yield from self._twins(request, name, others)
            elif self._chance.random() < CONTROLS and not any(
                skill.tells(name, kind) for skill in helpful
            ):
                text = renamed(request["text"], name, self._chance.choice(others))
                yield {**request, "text": text}

    def _twins(
        self, request: RequestRecord, name: str, others: Sequence[str]
    ) -> Iterator[RequestRecord]:
        """Yield a request with other names in place of the one that its skills are for."""
        for other in self._chance.sample(others, min(TWINS, len(others))):
            text = renamed(request["text"], name, other)
            yield twin_of(request, text, (name, other), self._chance)

    def _names_of(self, row: int) -> SkillNames:
        """Return the names of the skill in a row."""
        if row not in self._names_by_row:
            skill = self._skills[row]
            metadata = self._names.of(f"{skill['name'].replace('-', ' ')} {skill['description']}")
            everywhere = metadata | self._names.of(skill["body"] or "")
            self._names_by_row[row] = SkillNames(metadata, everywhere)
        return self._names_by_row[row]


def twin_of(
    request: RequestRecord, text: str, rename: tuple[str, str], chance: random.Random
) -> RequestRecord:
    """Return a request in other words, which no skill fits that fitted the one before."""
    helpful = [int(row) for row in request["grades"]]
    rest = [row for row in request["rows"] if row not in helpful]
    rows = helpful + chance.sample(rest, min(OTHERS, len(rest)))
    return {
        **request,
        "kind": "x",
        "twin_of": request["text"],
        "grades": {},
        "rename": [*rename],
        "text": text,
        "rows": rows,
    }


class Swap(NamedTuple):
    """A request, the same with another name, and both names."""

    request: RequestRecord
    text: str
    rename: tuple[str, str]


class OwnNames:
    """Names that skills have in theirs, and those of the skills nearby."""

    def __init__(self, skills: Skills, chance: random.Random) -> None:
        """Find the names of all skills: words in capitals that few skills have."""
        self._skills, self._chance = skills, chance
        self._forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
        capital, small, holders = Counter[str](), Counter[str](), Counter[str]()
        for skill in skills.texts:
            for match in _WORD.finditer(skill.about):
                self._forms[match[0].lower()][match[0]] += 1
                if skill.about[: match.start()].rstrip(" \t")[-1:] not in _BEGINS_SENTENCE:
                    (capital if match[0][0].isupper() else small)[match[0].lower()] += 1
            holders.update(_words_of(skill.about) | _parts_of(skill.name))
        self._names = {
            word
            for word, count in capital.items()
            if count > max(1, 3 * small[word]) and holders[word] <= MOST_SKILLS and len(word) > 2
        }
        self._own = [sorted(_parts_of(skill.name) & self._names) for skill in skills.texts]
        self._rows = np.array([row for row, names in enumerate(self._own) if names], np.int64)
        self._vectors = skills.vectors(self._rows.tolist())

    def swaps(self, requests: Iterable[RequestRecord]) -> Iterator[Swap]:
        """Yield requests with the name of a skill nearby, one for each name that they can lose."""
        for request in requests:
            lines = [int(line) for line in request["grades"]]
            if not self._skills.rows.keys() >= {*lines}:
                continue
            helpful = [self._skills.rows[line] for line in lines]
            shared = set.intersection(*map(self._names_of, helpful)) & _words_of(request["text"])
            for name in sorted(shared):
                bearers = [row for row in helpful if name in self._own[row]]
                others = self._others(request, name, bearers[0]) if bearers else []
                if len(others) < 2:
                    continue
                other = self._written(self._chance.choice(others))
                yield Swap(request, renamed(request["text"], name, other), (name, other))

    def _names_of(self, row: int) -> set[str]:
        """Return the names in the metadata of a skill."""
        skill = self._skills.texts[row]
        return (_words_of(skill.about) | _parts_of(skill.name)) & self._names

    def _others(self, request: RequestRecord, name: str, bearer: int) -> list[str]:
        """Return names of skills near the bearer, which no judged skill has, nearest first."""
        rows = [self._skills.rows[line] for line in request["rows"] if line in self._skills.rows]
        texts = [_all_of(self._skills.texts[row]) for row in rows] + [request["text"].lower()]
        cosines = self._vectors[self._rows] @ self._vectors[bearer]
        others: list[str] = []
        for row in self._rows[np.argsort(-cosines)[1 : NEAREST + 1]].tolist():
            if row in rows or name in self._names_of(row):
                continue
            for other in self._own[row]:
                if other not in others and not any(_has(text, other) for text in texts):
                    others.append(other)
        return others[:MOST_NAMES]

    def _written(self, name: str) -> str:
        """Return a name as most descriptions write it."""
        forms = self._forms[name]
        return max(forms, key=forms.__getitem__) if forms else name


def _words_of(text: str) -> set[str]:
    return {match[0].lower() for match in _WORD.finditer(text)}


def _parts_of(name: str) -> set[str]:
    return {*_NAME_PARTS.split(name.lower())}


def _all_of(skill: SkillText) -> str:
    return f"{skill.name} {skill.about} {skill.body}".lower()


def _has(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def main() -> None:
    """Read requests and skills, write the requests with near twins and controls."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("requests", type=Path)
    parser.add_argument("skills", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    requests, chance = read_request_records(options.requests), random.Random(options.seed)
    graded = [
        request
        for request in requests
        if request["grades"] and "twin_of" not in request and request["kind"] != FREE_NEAR_MISS
    ]
    kinds = NearTwins(read_skill_records(options.skills), Names.load(), chance)
    more = [new for request in graded if request["kind"] in ANSWERABLE for new in kinds.of(request)]
    twins = sum("twin_of" in request for request in more)
    swaps = list(OwnNames(Skills.read(options.skills), chance).swaps(graded))
    more += [twin_of(swap.request, swap.text, swap.rename, chance) for swap in swaps]
    lines = (json.dumps(request, ensure_ascii=False) + "\n" for request in (*requests, *more))
    options.out.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    counts = f"{twins} near twins by kinds, {len(swaps)} by skills nearby"
    print(f"{counts}, {len(more) - twins - len(swaps)} controls", file=sys.stderr)


if __name__ == "__main__":
    main()
