"""Add near twins to graded requests: the same request with another program, format or country.

Usage: python scripts/near_twins.py REQUESTS.jsonl.gz SKILLS.jsonl.gz OUT.jsonl.gz [--seed N]

The files are those that ``graded_requests.py`` reads, and it can read what is written here. A
request has near twins if all skills that help with it are for one name of a kind alone, such as a
database, and the request has it: then another name of the kind makes it one that none of them helps
with. Controls tell that a name alone says nothing: if no skill that helps has a name of the kind,
another one changes no grade. ``scripts/name_kinds.txt`` lists the kinds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from count_request_words import KINDS as ANSWERABLE
from count_request_words import read

NAMES = Path(__file__).with_name("name_kinds.txt")
TWINS = 2
"""So many near twins of a request, for each name that it can lose."""
CONTROLS = 0.5
"""Share of the names without a meaning for the skills that get a control."""
OTHERS = 2
"""A near twin is read with the skills that helped, and with so many others."""
_BEFORE, _BEHIND = r"(?<![\w.+/@-])", r"(?![\w+/@-]|\.\w)"  # "go" is neither in "go-to" nor "a.go"

Request = dict[str, Any]


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
        longest_first = sorted(map(re.escape, self.kind_of), key=len, reverse=True)
        return re.compile(f"{_BEFORE}({'|'.join(longest_first)}){_BEHIND}", re.IGNORECASE)

    def of(self, text: str) -> set[str]:
        """Return the names in a text, in lower case."""
        return {found[0].lower() for found in self._pattern.finditer(text)}


def swapped(text: str, name: str, other: str) -> str:
    """Return a text with another name, written in capitals as the one before."""

    def like(found: re.Match[str]) -> str:
        old = found[0]
        if old.isupper() and len(old) < 5:
            return other.upper() if len(other) < 6 else other.title()
        return other.title() if old[0].isupper() else other

    return re.sub(f"{_BEFORE}{re.escape(name)}{_BEHIND}", like, text, flags=re.IGNORECASE)


class NearTwins:
    """Makes near twins and controls of requests."""

    def __init__(
        self, skills: Sequence[Mapping[str, str]], names: Names, chance: random.Random
    ) -> None:
        self._skills, self._names, self._chance = skills, names, chance
        self._known: dict[int, tuple[set[str], set[str]]] = {}

    def of(self, request: Request) -> Iterator[Request]:
        """Yield the near twins of a graded request, and its controls."""
        found = self._names.of(request["text"])
        held = {row: self._names_of(row) for row in request["rows"]}
        taken = found.union(*(everywhere for _, everywhere in held.values()))
        helpful = [int(row) for row in request["grades"]]
        rest = [row for row in request["rows"] if row not in helpful]
        for name in sorted(found):
            kind = self._names.kind_of[name]
            others = [one for one in kind if one not in taken]
            if not others:
                continue
            if all(held[row][0].intersection(kind) == {name} for row in helpful):
                for other in self._chance.sample(others, min(TWINS, len(others))):
                    rows = helpful + self._chance.sample(rest, min(OTHERS, len(rest)))
                    text = swapped(request["text"], name, other)
                    twin = {"kind": "x", "twin_of": request["text"], "grades": {}}
                    yield {**request, **twin, "text": text, "rows": rows}
            elif self._chance.random() < CONTROLS and not any(
                held[row][0].intersection(kind) or name in held[row][1] for row in helpful
            ):
                text = swapped(request["text"], name, self._chance.choice(others))
                yield {**request, "text": text}

    def _names_of(self, row: int) -> tuple[set[str], set[str]]:
        """Return the names in the metadata of a skill, and those in all of it."""
        if row not in self._known:
            skill = self._skills[row]
            told = self._names.of(f"{skill['name'].replace('-', ' ')} {skill['description']}")
            self._known[row] = told, told | self._names.of(skill["body"])
        return self._known[row]


def main() -> None:
    """Read requests and skills, write the requests with near twins and controls."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("requests", type=Path)
    parser.add_argument("skills", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    requests = list(read(options.requests))
    made = NearTwins(list(read(options.skills)), Names.load(), random.Random(options.seed))
    asked = [one for one in requests if one["kind"] in ANSWERABLE and one["grades"]]
    more = [new for one in asked for new in made.of(one)]
    with gzip.open(options.out, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(one, ensure_ascii=False) + "\n" for one in [*requests, *more])
    twins = sum("twin_of" in one for one in more)
    print(f"{twins} near twins, {len(more) - twins} controls", file=sys.stderr)


if __name__ == "__main__":
    main()
