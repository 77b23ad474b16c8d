"""The cosines from which texts are alike, measured on real skills for each embedder.

The packaged models spread their vectors. Other models crowd theirs, except hashing, whose cosine
counts common words.
"""

from __future__ import annotations

from skillsearch.embedders.embedder import EVERY_LANGUAGE, PACKAGED

# From these the metadata of two skills says the same, and may do so. Among 3,000 real skills of 66
# authors that share most of a body and differ in their names, the packaged model finds copies alone
# from .92 on, and no others below. A description with two more sentences has .74 on the median, .52
# at least in 95 % of cases.
_COPIES = {model: (0.92, 0.50) for model in PACKAGED} | {"hashing": (0.97, 0.50)}
_COPIES_ELSEWHERE = (0.97, 0.97)
# From these two skills are confusable. Among 3,000 real skills of many authors, pairs of .70 by the
# model for English still want to do the same; by the other one as many pairs have .66.
_CONFUSABLE = dict.fromkeys(PACKAGED, 0.70) | dict.fromkeys(EVERY_LANGUAGE, 0.66)
_CONFUSABLE_ELSEWHERE = 0.90
# By the packaged models, a body is like its description from here on: lower in 98 % of mismatched
# pairs, and in 0.4 % of real skills; AUC .999.
LIKE_BODY = 0.45
# A chunk without any term of the query needs this trusted cosine to be named.
LEAST_OF_CHUNK = 0.3


def copies_from(model: str) -> tuple[float, float]:
    """Return the cosines from which the metadata of two skills says the same, and may do so."""
    return _COPIES.get(model, _COPIES_ELSEWHERE)


def confusable_from(model: str) -> float:
    """Return the cosine from which two skills are confusable."""
    return _CONFUSABLE.get(model, _CONFUSABLE_ELSEWHERE)
