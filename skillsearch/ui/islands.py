"""Islands of the map: where skills crowd together, and the words that set them apart; pure.

Skills are counted in the cells of a grid and blurred. Each cell leads to the highest one beside it,
and the skills that lead to the same summit are an island. A narrower blur parts islands further.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.text.tokenizer import terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skillsearch.index.storage.numbering import Floats, Numbers

Words: TypeAlias = Mapping[str, str]
"""Terms, each with a word that it stands for."""

_CELLS = 192
"""Of the grid, in each direction."""
_BLURS = (0.03, 0.015, 0.0075)
"""Standard deviations, from the whole map to what one sees closer up."""
_LEAST = 5  # skills of an island
_MOST_WORDS = 3
_COMMON = 0.1  # share of its skills that say a word which names it
_MOST_CHARS = 20  # of a word; longer ones are keys and addresses
_WORD = lazy_pattern(r"[^\s!-/:-@\[-`{-~\u2010-\u2027\u3000-\u303f\uff00-\uff0f]+")
"""What lies between blanks and punctuation: marks belong to words."""
_KEPT_WORDS = 1 << 15
"""Words whose terms are remembered."""


class Named(NamedTuple):
    """The words of a skill: those of its name, and all."""

    name: Words
    words: Words

    @classmethod
    def of(cls, name: str, about: str, language: str) -> Named:
        """Take the words of a name and of a description."""
        of_name = _words(name, language)
        return cls(of_name, _words(about, language) | of_name)


class Island(NamedTuple):
    """Skills around a place: how far most of them lie from it, how many, and their words."""

    x: float
    y: float
    radius: float
    size: int
    words: tuple[str, ...]


def find_islands(xy: Floats, skills: Sequence[Named]) -> list[Island]:
    """Return the islands of skills at these points, the coarse before the fine, the large first.

    No two have the same words, and none is without.
    """
    everywhere = Counter(chain.from_iterable(skill.words for skill in skills))
    islands: dict[frozenset[str], Island] = {}
    for blur in _BLURS:
        for members in _crowds(xy, blur):
            words = _words_apart([skills[i] for i in members.tolist()], everywhere, len(skills))
            if words:
                islands.setdefault(frozenset(words), _island(xy[members], words))
    return list(islands.values())


def _crowds(xy: Floats, blur: float) -> Iterator[Numbers]:
    """Yield which points belong together, the most first."""
    cells = np.minimum((xy * _CELLS).astype(np.int64), _CELLS - 1)
    cell_of = cells[:, 1] * _CELLS + cells[:, 0]
    summits = _summits(np.bincount(cell_of, minlength=_CELLS**2), blur)
    _, crowd_of, sizes = np.unique(summits[cell_of], return_inverse=True, return_counts=True)
    for crowd in np.argsort(-sizes, kind="stable").tolist():
        if sizes[crowd] >= _LEAST:
            yield np.flatnonzero(crowd_of == crowd)


def _summits(counts: Numbers, blur: float) -> Numbers:
    """Return for each cell the one that is reached from it by always climbing."""
    places = np.arange(_CELLS) / _CELLS
    kernel = np.exp(-(((places[:, None] - places) / blur) ** 2) / 2)
    heights = kernel @ counts.reshape(_CELLS, _CELLS) @ kernel
    highest = np.argmax(_around(heights), axis=0)
    numbers = np.arange(_CELLS**2).reshape(_CELLS, _CELLS)
    leads_to: Numbers = np.choose(highest, _around(numbers)).ravel()
    while not np.array_equal(further := leads_to[leads_to], leads_to):
        leads_to = further
    return leads_to


def _around(grid: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the values of each cell and of the eight around it; none is beyond the edge."""
    wider = np.pad(grid, 1, constant_values=-1)
    size = len(grid)
    return [wider[y : y + size, x : x + size] for y in range(3) for x in range(3)]


def _island(xy: Floats, words: tuple[str, ...]) -> Island:
    middle = np.median(xy, axis=0)
    away = np.hypot(*(xy - middle).T)
    x, y, radius = middle[0], middle[1], np.quantile(away, 0.8)
    return Island(float(x), float(y), float(radius), len(xy), words)


def _words(text: str, language: str) -> dict[str, str]:
    words: dict[str, str] = {}
    for word in _WORD.findall(text.lower()):
        words |= _terms_of(word, language)
    return words


@lru_cache(maxsize=_KEPT_WORDS)
def _terms_of(word: str, language: str) -> Words:
    """Return the terms of a word; several are parts of it, and stand for themselves."""
    if not 1 < len(word) <= _MOST_CHARS or word.isdigit():
        return {}
    of_word = terms(word, language)
    return {of_word[0]: word} if len(of_word) == 1 else {term: term for term in of_word}


def _words_apart(
    skills: Sequence[Named], everywhere: Mapping[str, int], total: int
) -> tuple[str, ...]:
    """Return the words that most set some skills apart from all others.

    They are words of names: those of descriptions alone tell how a collection writes.
    """
    size = len(skills)
    named = Counter(chain.from_iterable(skill.name for skill in skills))
    here = Counter(chain.from_iterable(skill.words for skill in skills))

    def weight(term: str) -> float:
        inside, outside = here[term], everywhere[term] - here[term]
        odds = (inside + 0.5) * (total - size + 1) / ((outside + 0.5) * (size + 1))
        return (named[term] + inside) * log(odds)

    common = [term for term, count in named.items() if count > 1 and here[term] >= _COMMON * size]
    best = sorted((-weight(term), term) for term in common)[:_MOST_WORDS]
    return tuple(_spelling(skills, term) for negated, term in best if negated < 0)


def _spelling(skills: Iterable[Named], term: str) -> str:
    """Return the word that most often stands for a term."""
    words = Counter(skill.words[term] for skill in skills if term in skill.words)
    return words.most_common(1)[0][0]
