"""Whether a request and a skill name different versions, directions or opposites; pure.

Words and meaning hardly tell an upgrade from 9 to 10 from one from 10 to 11, nor HTML to Markdown
from Markdown to HTML. Every expression is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.text.tables import read_tables

_MAX_CHARS = 4_000
_TABLES = read_tables(Path(__file__).with_suffix(".txt"))
_UNITS = "|".join(_TABLES["units"]["en"])
_NAME = r"\.?[^\W\d_][\w+#]{0,30}(?:\.[^\W\d_][\w+#]{0,30}){0,3}"
_NUMBER = rf"\d{{1,4}}(?:\.\d{{1,3}}){{0,2}}(?![\w%]|[.,:/]\d|[ -]?(?:{_UNITS})\b)"
_OPEN = r"(?:\+| ?(?:and|or) (?:later|newer|above|higher|up|older|earlier|below)\b)"
_BETWEEN = r"(?: (?:in)?to (?:an? |the )?|-to-| ?(?:->|→|➜) ?| (?:nach|vers|naar|para) )"
_NO_NAMES = frozenset(_TABLES["no names"]["en"])

_SIDE = rf"({_NAME})?[ -]?({_NUMBER})?"
_MORE_NUMBERS = rf"(?:(?:, ?| ?/ ?| or | and |\u2013| to | through )v?{_NUMBER}){{0,5}}"
_VERSIONS = lazy_pattern(
    rf"(?<![\w.])({_NAME})(?: | ?v| version )?({_NUMBER}{_MORE_NUMBERS})(?!{_OPEN})"
)
_DIRECTIONS = lazy_pattern(rf"(?<![\w.]){_SIDE}{_BETWEEN}(?=[\w.]){_SIDE}")
_DIGITS = lazy_pattern(r"\d[\d.]*")
_WORDS = lazy_pattern(r"[^\W\d_]{2,20}")

_PAIRS = {word: opposite for word, (opposite,) in _TABLES["opposites"].items()}
_OPPOSITES = _PAIRS | {opposite: word for word, opposite in _PAIRS.items()}

_Side: TypeAlias = tuple[str, str]
"""A name, empty if it is that of the other side, and its version, empty if it has none."""


class Claims(NamedTuple):
    """What a text says of versions, directions and opposites, in lower case.

    `versions` are the numbers behind each name; a direction is what is made into what.
    """

    versions: Mapping[str, frozenset[str]]
    directions: frozenset[tuple[_Side, _Side]]
    opposites: frozenset[str]


def claims(text: str) -> Claims:
    """Return the claims at the beginning of a text."""
    text = text[:_MAX_CHARS].casefold()
    versions: dict[str, frozenset[str]] = {}
    if any(map(str.isdigit, text)):
        for name, numbers in _VERSIONS.findall(text):
            if name not in _NO_NAMES:
                told = frozenset(_DIGITS.findall(numbers))
                versions[name] = versions.get(name, frozenset()) | told
    words = frozenset(_WORDS.findall(text))
    return Claims(versions, frozenset(_read_directions(text)), words & _OPPOSITES.keys())


def speaks_of(text: str, request: Claims) -> bool:
    """Return whether a text has words of anything that a request says; few texts have."""
    text = text[:_MAX_CHARS].casefold()
    if any(name in text for name in request.versions):
        return True
    if any(source in text and target in text for (source, _), (target, _) in request.directions):
        return True
    return any(word in text or _OPPOSITES[word] in text for word in request.opposites)


def unexcluded(claimed: Claims, excluded: Claims) -> Claims:
    """Return the claims of a text, without the versions that it says not to use it for."""
    own, gone = claimed.versions, excluded.versions
    versions = {name: own[name] - gone.get(name, frozenset()) for name in own}
    return claimed._replace(versions=versions)


def contradiction(request: Claims, skill: Claims) -> float:
    """Return the share of a request's claims that a skill contradicts, 0 to 1.

    It contradicts versions if it names others alone, a direction if it has the same names in
    another order or with other versions alone, and a word if it has its opposite alone. It does not
    contradict what it does not speak of.
    """
    checks = [*_versions_differ(request, skill), *_directions_differ(request, skill)]
    for word in request.opposites:
        other = _OPPOSITES[word]
        if other not in request.opposites and not skill.opposites.isdisjoint((word, other)):
            checks.append(word not in skill.opposites)
    return sum(checks) / len(checks) if checks else 0.0


def _versions_differ(request: Claims, skill: Claims) -> Iterator[bool]:
    for name, numbers in request.versions.items():
        if (others := skill.versions.get(name)) is not None:
            yield not any(_agree(number, other) for number in numbers for other in others)


def _directions_differ(request: Claims, skill: Claims) -> Iterator[bool]:
    for pair in request.directions:
        names = {name for name, _ in pair}
        if alike := [other for other in skill.directions if {name for name, _ in other} == names]:
            yield not any(map(_is_same, [pair] * len(alike), alike))


def _is_same(pair: tuple[_Side, _Side], other: tuple[_Side, _Side]) -> bool:
    sides = zip(pair, other, strict=True)
    return all(one[0] == two[0] and _agree(one[1], two[1]) for one, two in sides)


def _agree(version: str, other: str) -> bool:
    """Return whether two versions are the same, as far as both say."""
    parts = [part.split(".") if part else [] for part in (version, other)]
    size = min(map(len, parts))
    return parts[0][:size] == parts[1][:size]


def _read_directions(text: str) -> Iterator[tuple[_Side, _Side]]:
    for source, old, target, new in _DIRECTIONS.findall(text):
        if source not in _NO_NAMES and target not in _NO_NAMES and (source or old):
            yield (source or target, old), (target or source, new)
