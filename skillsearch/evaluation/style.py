"""The control of style: how far the words of requests alone tell which of them have an answer.

Who writes requests that no skill answers may write them in another way, and a system, or a model
trained on them, can look good by the way of writing. A classifier that sees no skill shows how far.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from skillsearch.evaluation.assess import auroc
from skillsearch.evaluation.types import JudgedQuery

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

FEWEST = 10  # requests of either sort, from which on the control says something
FOLDS = 5

_BUCKETS = 1 << 14  # of hashed words and pairs of words
_TOKEN = re.compile("[^\\W\u3040-\u9fff]+|\\S")  # a word, a letter of Chinese or Japanese, a mark
_STEPS = 200
_LENGTH_UNIT = 8.0  # logarithm of some 3,000 characters: brings lengths to the scale of the words


def style_controls(
    queries: Sequence[JudgedQuery], unanswerable: Mapping[str, Sequence[JudgedQuery]]
) -> dict[str, float]:
    """Return the AUROC of style between queries and others by source, unless they are few."""
    return {
        source: style_auroc(queries, others)
        for source, others in unanswerable.items()
        if min(len(queries), len(others)) >= FEWEST
    }


def style_auroc(answerable: Sequence[JudgedQuery], others: Sequence[JudgedQuery]) -> float:
    """Return the cross-validated AUROC of a logistic regression on the texts alone.

    Requests are held out in `FOLDS` parts, a twin together with its original; pairs are compared
    within a part. The same requests give the same number.
    """
    requests = [*answerable, *others]
    is_answerable = np.arange(len(requests)) < len(answerable)
    folds = _folds(requests, is_answerable)
    table = _Table.of([request.text for request in requests])
    parts, weights = [], []
    for fold in range(FOLDS):
        held_out = folds == fold
        upper, lower = held_out & is_answerable, held_out & ~is_answerable
        if pairs := int(upper.sum()) * int(lower.sum()):
            scores = table.dot(_fit(table, is_answerable, ~held_out))
            parts.append(auroc(scores[upper], scores[lower]))
            weights.append(pairs)
    return float(np.average(parts, weights=weights))


def _folds(requests: Sequence[JudgedQuery], is_answerable: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the part of each request; every part has its share of both sorts and of twins."""
    keys = [request.twin_of or request.query_id for request in requests]
    sorts: dict[str, set[bool]] = {}
    for key, sort in zip(keys, is_answerable.tolist(), strict=True):
        sorts.setdefault(key, set()).add(sort)
    order = sorted(sorts, key=lambda key: (sorted(sorts[key]), crc32(key.encode()), key))
    part = {key: number % FOLDS for number, key in enumerate(order)}
    return np.array([part[key] for key in keys])


class _Table(NamedTuple):
    """A sparse matrix of features, a row for each text."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: Values
    height: int

    @classmethod
    def of(cls, texts: Sequence[str]) -> _Table:
        """Return words and pairs of words at unit length, and the length of each text."""
        rows, columns, values = [], [], []
        for row, text in enumerate(texts):
            tokens = _TOKEN.findall(text.casefold())
            pairs = map(" ".join, pairwise(tokens))
            hashed = {crc32(feature.encode()) % _BUCKETS for feature in chain(tokens, pairs)}
            lengths = [np.log1p(len(sequence)) / _LENGTH_UNIT for sequence in (text, tokens)]
            columns += [*sorted(hashed), *range(_BUCKETS, _BUCKETS + 3)]
            values += [len(hashed) ** -0.5] * len(hashed) + [*lengths, 1.0]
            rows += [row] * (len(hashed) + 3)
        return cls(np.array(rows), np.array(columns), np.array(values), len(texts))

    def dot(self, weights: Values) -> Values:
        """Return the weighted sum of each row."""
        parts = self.values * weights[self.columns]
        return np.bincount(self.rows, parts, self.height).astype(np.float64)

    def gradient(self, errors: Values) -> Values:
        """Return the sum of all rows, each times its error."""
        parts = self.values * errors[self.rows]
        return np.bincount(self.columns, parts, _BUCKETS + 3).astype(np.float64)


def _fit(table: _Table, is_right: NDArray[np.bool_], chosen: NDArray[np.bool_]) -> Values:
    """Fit a regularised logistic regression to some rows, by Nesterov's accelerated gradient."""
    decay = 1.0 / int(chosen.sum())
    squares = np.bincount(table.rows, table.values**2, table.height)
    steepest = squares.max() / 4 + decay
    momentum = (1 - (decay / steepest) ** 0.5) / (1 + (decay / steepest) ** 0.5)
    weights = ahead = np.zeros(_BUCKETS + 3)
    for _ in range(_STEPS):
        errors = (1 / (1 + np.exp(-table.dot(ahead))) - is_right) * chosen * decay
        new = ahead - (table.gradient(errors) + decay * ahead) / steepest
        weights, ahead = new, new + momentum * (new - weights)
    return weights
