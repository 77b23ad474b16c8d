"""The cosines from which texts are alike, measured on real skills for each embedder.

The packaged model spreads its vectors. Other models crowd theirs, except hashing, whose cosine
counts common words.
"""

from __future__ import annotations

from skillsearch.embedders.embedder import PACKAGED

# From these the metadata of two skills says the same, and may do so. Among 3,000 real skills of 66
# authors that share most of a body and differ in their names, the packaged model finds copies alone
# from .91 on, and no others below. Metadata with two sentences of another skill behind it has .84
# on the median, .59 at least in 95 % of cases.
_COPIES = dict.fromkeys(PACKAGED, (0.91, 0.47)) | {"hashing": (0.97, 0.50)}
_COPIES_ELSEWHERE = (0.97, 0.97)
# From this two skills are confusable. Among 3,000 real skills of many authors, pairs of .66 still
# want to do the same.
_CONFUSABLE = dict.fromkeys(PACKAGED, 0.66)
_CONFUSABLE_ELSEWHERE = 0.90
# From this two skills are of one subject. Among 174 written skills 3 % of the pairs are as like; of
# those that take a request from another, the ones below have mostly nothing to do with it.
_NEAR = dict.fromkeys((*PACKAGED, "hashing"), 0.3)
# By the packaged model, a body is like its description from here on: lower in 99 % of mismatched
# pairs, and in 0.5 % of real skills; AUC .9997.
LIKE_BODY = 0.34
# A chunk without any term of the query needs this cosine to be named.
LEAST_OF_CHUNK = 0.3


def copies_from(model: str) -> tuple[float, float]:
    """Return the cosines from which the metadata of two skills says the same, and may do so."""
    return _COPIES.get(model, _COPIES_ELSEWHERE)


def near_from(model: str) -> float:
    """Return the cosine from which two skills are of one subject."""
    return _NEAR.get(model, _CONFUSABLE_ELSEWHERE)


def confusable_from(model: str) -> float:
    """Return the cosine from which two skills are confusable."""
    return _CONFUSABLE.get(model, _CONFUSABLE_ELSEWHERE)
