"""How far a skill is a hub: how much more requests in general find in it than in real skills; pure.

A hub is near whatever is asked (Radovanović et al., 2010). One is made by putting many requests, or
the words that they are made of, into a skill. The average request is scored against each field by
BM25 with weights and mean lengths that are the same for every corpus, so that the hubness of a
skill depends on its own text alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from skillsearch.text.tables import read_tables

TABLE = Path(__file__).with_name("request_words.txt")
# BM25Okapi's defaults; the limits below hold for these.
_K1, _B = 1.5, 0.75
# Share of the maximum score that metadata, and metadata and body together, may have. Of the
# candidates in fifteen judged collections one in 200 has .015 and .12 on the mean; skills made of
# requests have .02 to .03, bodies made of their words .13 to .25.
_USUAL = (0.018, 0.16)
# Mean numbers of terms.
_MEAN_LENGTHS = (40.0, 600.0)


def hubness(metadata_terms: Sequence[str], full_terms: Sequence[str]) -> float:
    """Return by how many times the terms of both fields exceed what real skills have; mostly 0."""
    fields = zip((metadata_terms, full_terms), _MEAN_LENGTHS, _USUAL, strict=True)
    return sum(max(0.0, _share(terms, mean) / usual - 1.0) for terms, mean, usual in fields)


def _share(terms: Sequence[str], mean_length: float) -> float:
    """Return the BM25 score of the average request as a share of the maximum."""
    weights = _weights()
    norm = _K1 * (1 - _B + _B * len(terms) / mean_length)
    counts = Counter(term for term in terms if term in weights)
    return sum(weights[term] * tf / (tf + norm) for term, tf in counts.items())


@cache
def _weights() -> dict[str, float]:
    table = {term: int(number) for term, (number,) in read_tables(TABLE)["request words"].items()}
    total = sum(table.values())
    return {term: number / total for term, number in table.items()}
