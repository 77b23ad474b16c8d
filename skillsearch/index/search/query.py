"""A query as it is searched for: its weighed terms and its vector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.index.corpus import Corpus
from skillsearch.index.lexical.field import TermWeights
from skillsearch.index.lexical.postings import LEAST_PREFIX
from skillsearch.text.exclusions import split_request
from skillsearch.text.tokenizer import is_bigram, terms

if TYPE_CHECKING:
    from skillsearch.usage.support import Usage

# Words of a query about a text that is pasted into it: how often their terms count, relative to
# those of the whole, and their share of the vector.
INSTRUCTION_REPEATS, INSTRUCTION_SHARE = 2, 0.7
# Terms of a query that may hold parts of words, at most, and how far such a part stands for them.
PARTIAL_TERMS, PARTIAL_WEIGHT = 16, 0.5


class Excluded(NamedTuple):
    """The terms of each thing that a query excludes by name, and of each clause that says so."""

    things: tuple[frozenset[str], ...]
    clauses: tuple[frozenset[str], ...]


NOTHING_EXCLUDED = Excluded((), ())


@dataclass(frozen=True, slots=True)
class QueryForm:
    """An analysed query: its language, how often each term occurs, its vector.

    `weights` are its terms as `weigh_terms` weighs them in the corpus that is searched. The
    `instruction` is what the text says about a text that is pasted into it, empty without one.
    The vector is that of what is `wanted`, the text without what it excludes, and for
    `INSTRUCTION_SHARE` that of the instruction; zero if nothing could be embedded. `usage` is how
    far requests like it led to skills, by their ids (`skillsearch.usage.support`), and `pinned` the
    ids of those that it is pinned to.
    """

    text: str
    language: str
    counts: Mapping[str, int]
    vector: NDArray[np.float32]
    weights: tuple[TermWeights, ...] = ()
    excluded: Excluded = NOTHING_EXCLUDED
    instruction: str = ""
    wanted: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
    pinned: tuple[str, ...] = ()

    def learned(self, usage: Usage | None) -> QueryForm:
        """Return it with what was learned from use; the same if that is nothing."""
        if not usage:
            return self
        return replace(self, usage=usage.support(self.vector), pinned=usage.pinned(self.vector))

    @property
    def has_vector(self) -> bool:
        """Whether anything of it could be embedded."""
        return bool(self.vector.any())

    @property
    def request(self) -> str:
        """What it says to do: the instruction about a pasted text, else all that is wanted."""
        return self.instruction or self.wanted or self.text

    @property
    def is_part(self) -> bool:
        """Whether all its terms are parts of words, which count less than they occur."""
        counts = list(self.counts.values())
        return bool(counts) and bool((self.weights[-1].repeats[: len(counts)] < counts).all())


class SplitQuery(NamedTuple):
    """What a query asks for, without what it excludes, and the terms of both.

    The `instruction` is what it says about a text that is pasted into it, empty without one.
    """

    text: str
    instruction: str
    counts: Counter[str]
    excluded: Excluded = NOTHING_EXCLUDED


def split_terms(text: str, instruction: str, language: str) -> SplitQuery:
    """Split a query into what it asks for and what it excludes; its `instruction` may be empty.

    What is pasted excludes nothing. A query that only excludes asks for nothing.
    """
    split = split_request(instruction or text, language)
    wanted, leading = (text, split.wanted) if instruction else (split.wanted, "")
    counts = Counter(terms("\n".join([leading] * INSTRUCTION_REPEATS + [wanted]), language))
    if not counts:
        wanted = "" if split.things or split.clauses else text
        return SplitQuery(wanted, "", Counter(terms(wanted, language)))
    own = set(terms(split.rest, language))
    things, clauses = (
        tuple(filter(None, (frozenset(terms(part, language)) - own for part in parts)))
        for parts in (split.things, split.clauses)
    )
    if leading:
        kept = set(terms(leading, language)).union(counts.keys() - set().union(*things, *clauses))
        counts = Counter({term: count for term, count in counts.items() if term in kept})
    return SplitQuery(wanted, leading, counts, Excluded(things, clauses))


def weigh_terms(corpus: Corpus, counts: Mapping[str, int]) -> tuple[TermWeights, ...]:
    """Weigh the terms of a query in each lexical field.

    In a short query, a term that no document has counts half for the words of metadata that it
    begins.
    """
    weights = tuple(field.weigh(counts) for field in corpus.lexical)
    if len(counts) > PARTIAL_TERMS or weights[-1].unknown_score == 0:
        return weights
    parts: dict[str, float] = dict(counts)
    frequencies = weights[-1].document_frequencies.tolist()
    unknown = (term for term, count in zip(counts, frequencies, strict=True) if count <= 0)
    for term in unknown:
        is_part = len(term) >= LEAST_PREFIX and not is_bigram(term)
        if words := corpus.lexical[0].begun_by(term) if is_part else ():
            parts[term] *= 1 - PARTIAL_WEIGHT
            for word in words:
                parts[word] = parts.get(word, 0) + counts[term] * PARTIAL_WEIGHT / len(words)
    return tuple(field.weigh(parts) for field in corpus.lexical) if parts != counts else weights
