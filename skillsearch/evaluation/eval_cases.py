"""The values of an eval file → its cases, and for which skill each is; pure.

Eval files have no standard, so a case is known by its shape: a record of a text and a flag
(``{"query": …, "should_trigger": false}``), of a text and the skill that is right
(``expected_skill``, ``expect``), or of a text alone (a task for the skill); or a text in a list
below a word that judges it (``should_trigger``, ``negative``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from skillsearch.types import JsonValue

Kind: TypeAlias = Literal["trigger", "task"]
"""``trigger``: about which skill is chosen; ``task``: about the work that it then does."""

_MAX_DEPTH = 12

# Keys, and words in their values, are compared without case and punctuation.
_TEXT_KEYS = (
    "query prompt question request userrequest userprompt userinput usermessage utterance input"
).split()
_TEXT_KEYS_IF_JUDGED = ["text", "phrase", "message", "user"]
"""Too common to be a query where nothing beside or above them judges it."""
_FLAG_KEYS = (
    "shouldtrigger shouldactivate shouldfire shouldload"
    " expecttrigger expectactivation expectedtrigger expectedactivation"
).split()
_RIGHT_KEYS = (
    "expectedskill expectedskills expectedprimaryskill expectedowner expectedwinner expectedroute"
    " shouldtrigger expect expected"
).split()
_OUTPUT_TOO = frozenset({"expect", "expected"})
"""Keys of a skill's name in some files, of what the agent is to say in others."""
_OWNER_KEYS = ["skill", "skillname"]
_KIND_KEYS = "type kind class category prompttype polarity label".split()
_NO_CASES = frozenset(
    """
    assertions expectations turns messages conversation history steps results runs outputs
    metadata config settings
    """.split()
)
"""Keys below which texts are no queries."""
_YES = frozenset(
    """
    positive positives positivecases shouldtrigger shouldactivate musttrigger mustactivate should
    triggerpositive positivetrigger positivetriggers triggerphrases activate
    """.split()
)
_NO = frozenset(
    """
    negative negatives negativecases shouldnottrigger shouldnotactivate mustnottrigger
    mustnotactivate shouldnot triggernegative negativetrigger negativetriggers antitrigger
    antitriggers nontrigger notrigger nearmiss nearmisses negativecontrol skip
    """.split()
)
_UNCLEAR = frozenset({"trigger", "edgecase", "edge", "boundary", "ambiguous"})
"""Kinds of cases that are about the choice of a skill, but do not say which choice is right."""
_NOBODY = frozenset({"", "none", "null", "nobody"})


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """A text of an eval file, and which skills it is for.

    Attributes:
        text: What is asked, its ends stripped.
        kind: Whether it is about the choice of a skill or about its work.
        is_wanted: Whether it is for the skills or not for them; None where no field says it.
        skills: Folded names (`str.casefold`) of these skills, each once; unknown ones left out.
    """

    text: str
    kind: Kind
    is_wanted: bool | None
    skills: tuple[str, ...]


def judged_cases(
    values: JsonValue, skill_name: str, known: AbstractSet[str]
) -> Iterator[JudgedCase]:
    """Find the cases in an eval file and judge each by what stands in and above it.

    Args:
        values: What the file holds; below 12 levels nothing is found.
        skill_name: The skill that the file lies in, known or not: what a case is about unless the
            file says otherwise.
        known: Folded names of all skills.

    Yields:
        The cases, in the order of the file.
    """
    finder = _Finder(skill_name.casefold(), known)
    for case in finder.cases(values, finder.skill_name, None, 0):
        is_wanted, skills, kind = _judge(case)
        resolved = dict.fromkeys(filter(None, map(finder.resolve, skills)))
        yield JudgedCase(case.text, kind, is_wanted, tuple(resolved))


class _Case(NamedTuple):
    """A text with the fields beside it, the skill it is about, and the judgment above it."""

    text: str
    fields: Mapping[str, JsonValue]
    owner: str
    is_wanted: bool | None


class _Verdict(NamedTuple):
    """Whether a case is for the skills or not; None where no field says it."""

    is_wanted: bool | None
    skills: tuple[str, ...]
    kind: Kind = "trigger"


@dataclass(frozen=True, slots=True)
class _Finder:
    """Finds the cases in the values of a skill's file, and knows the names in them."""

    skill_name: str
    known: AbstractSet[str]

    def resolve(self, name: str) -> str | None:
        """Return the known skill that a file names, maybe as ``plugin:name`` or by its path."""
        plain = name.strip().casefold().removesuffix("/skill.md").lstrip("/$")
        for folded in (name.casefold(), plain, re.split("[:/]", plain)[-1]):
            if folded == self.skill_name or folded in self.known:
                return folded
        return None

    def cases(
        self, value: JsonValue, owner: str, is_wanted: bool | None, depth: int
    ) -> Iterator[_Case]:
        """Yield the cases in a value, given what is said above it."""
        if depth > _MAX_DEPTH:
            return
        if isinstance(value, list):
            for item in value:
                if is_wanted is not None and isinstance(item, str) and item.strip():
                    yield _Case(item.strip(), {}, owner, is_wanted)
                yield from self.cases(item, owner, is_wanted, depth + 1)
        elif isinstance(value, dict):
            fields = {_fold(key): inner for key, inner in value.items()}
            named = _first_text(fields, _OWNER_KEYS)
            # A file may lag behind the name of its skill; a single case means what it names.
            owner = self.resolve(named) or (named if named and depth else owner)
            if text := _query_text(fields, is_wanted):
                yield _Case(text, fields, owner, is_wanted)
                return
            for key, inner in value.items():
                yield from self._cases_below(key, inner, owner, is_wanted, depth + 1)

    def _cases_below(
        self, key: str, value: JsonValue, owner: str, is_wanted: bool | None, depth: int
    ) -> Iterator[_Case]:
        """Yield the cases below a key, which may judge them or name their skill."""
        word = _fold(key)
        if word in _NO_CASES:
            return
        if word == "skills" and isinstance(value, dict):
            for name, inner in value.items():
                yield from self.cases(inner, name, is_wanted, depth)
            return
        if word in _YES or word in _NO:
            is_wanted = word in _YES
        elif isinstance(value, dict):
            owner = self.resolve(key) or owner
        yield from self.cases(value, owner, is_wanted, depth)


def _judge(case: _Case) -> _Verdict:
    """Decide by the clearest of what is said: a flag, a skill, a kind, what stands above."""
    owner = (case.owner,)
    right = _right_skills(case)
    for key in _FLAG_KEYS:
        if isinstance(flag := case.fields.get(key), bool):
            return _Verdict(flag, right or owner)
    if right is not None:
        return _Verdict(bool(right), right or owner)
    words = {_fold(text) for key in _KIND_KEYS if isinstance(text := case.fields.get(key), str)}
    if words & (_YES | _NO):
        return _Verdict(not words & _NO, owner)
    if case.is_wanted is not None:
        return _Verdict(case.is_wanted, owner)
    return _Verdict(None, owner) if words & _UNCLEAR else _Verdict(True, owner, "task")


def _right_skills(case: _Case) -> tuple[str, ...] | None:
    """Return the skills that a case names as right, none for nobody; None where it names none."""
    for key in _RIGHT_KEYS:
        if key not in case.fields:
            continue
        value = case.fields[key]
        if isinstance(value, dict):
            value = next((value[part] for part in ("route", "skill", "name") if part in value), 0)
        if value is None and key not in _FLAG_KEYS:
            return ()
        names = [value] if isinstance(value, str) else value
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            if key in _OUTPUT_TOO and any(len(name.split()) > 1 for name in names):
                continue
            words = {name: _fold(name) for name in names}
            meant = [name for name in names if words[name] not in _NO | _NOBODY]
            return tuple(case.owner if words[name] in _YES else name for name in meant)
    return None


def _query_text(fields: Mapping[str, JsonValue], is_wanted: bool | None) -> str:
    """Return the query that a record holds, or an empty text."""
    is_judged = is_wanted is not None or any(key in fields for key in (*_FLAG_KEYS, *_RIGHT_KEYS))
    return _first_text(fields, [*_TEXT_KEYS, *(_TEXT_KEYS_IF_JUDGED if is_judged else ())])


def _first_text(fields: Mapping[str, JsonValue], keys: Iterable[str]) -> str:
    """Return the first text that is not blank, its ends stripped, or an empty one."""
    texts = (text.strip() for key in keys if isinstance(text := fields.get(key), str))
    return next(filter(None, texts), "")


def _fold(key: object) -> str:
    """Return a key without case and punctuation."""
    return re.sub(r"[\W_]", "", str(key).lower())
