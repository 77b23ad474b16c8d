"""The evidence that a hit fits, a row each: `EVIDENCE` is the one place to add some.

Its fitted coefficients stand in ``calibration.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from skillsearch.index.corpus import Corpus
from skillsearch.index.search.candidates import Ranked
from skillsearch.index.search.features import FEATURES, Sign
from skillsearch.index.search.query import QueryForm
from skillsearch.index.storage.numbering import Numbers, Values
from skillsearch.records import dataclass

# The log-odds of a reader: evidence of hits that it has read, and a ranking feature among these.
READER = "reader"
# Evidence against hits of roots that nobody vouched for, where somebody did for others; not fitted.
UNVETTED = "unvetted"
LEADS = (-3.0, 3.0)
# Ranks of the cosines that a hit has to stand out from, and what stands for missing ones.
BACKGROUND = (5, 25)
NO_COSINE = 0.15


@dataclass(frozen=True)
class Hits:
    """Some documents of a ranking, and what all evidence is computed from.

    `features` are their ranking features by name, `sums` their ranking sums; `ranking` has the
    features of all families that compete, one document of each.
    """

    corpus: Corpus
    query: QueryForm
    documents: Numbers
    features: Mapping[str, Values]
    ranking: Mapping[str, Values]
    sums: Values


@dataclass(frozen=True, slots=True)
class Evidence:
    """A number about a hit that moves its log-odds.

    Attributes:
        name: Its name in ``calibration.json`` and in explanations.
        sign: 1 if it speaks for a hit, -1 if against it; 0 if it moves the intercept, either way.
        compute: Returns its values; by default the ranking feature of its name.
        held: Its coefficient, if too few judged requests and skills have it to fit it.
        counts_despite_name: Whether it counts even against a skill that the query names.
    """

    name: str
    sign: Sign
    compute: Callable[[Hits], Values] | None = None
    held: float | None = None
    counts_despite_name: bool = False

    def values(self, hits: Hits) -> Values:
        """Return its values for some hits."""
        return self.compute(hits) if self.compute else hits.features[self.name]


def _rarest_term(hits: Hits) -> Values:
    """Return the idf of the rarest query term in each hit, as a share of the idf of unknown terms.

    The mean of metadata and full text.
    """
    fields = list(zip(hits.corpus.lexical, hits.query.weights, strict=True))
    metadata, full = (
        field.rarest_held(weights, hits.documents) / field.rarest_idf
        for field, weights in (fields[0], fields[-1])
    )
    return (metadata + full) / 2 * hits.query.has_vector


def _length(hits: Hits) -> Values:
    """Return the binary logarithm of the number of distinct terms of the query, plus one."""
    return np.full(len(hits.documents), np.log2(len(hits.query.counts) + 1.0))


def leads(sums: Values) -> Values:
    """Return how far each sum is before the highest of the others, within `LEADS`; 0 if alone."""
    if len(sums) < 2:
        return np.zeros(len(sums))
    best, next_best = np.sort(sums)[::-1][:2]
    others = np.where(sums == best, next_best, best)
    lead: Values = np.clip(sums - others, *LEADS)
    return lead


def stand_outs(cosines: Values, ranking: Values) -> Values:
    """Return how far cosines are above the mean of those at the ranks of `BACKGROUND`.

    Many skills that are as near say that none is meant. A cosine of 0 stands out by nothing.
    """
    begin, end = BACKGROUND
    behind = np.sort(ranking)[::-1][begin:end]
    mean = (behind.sum() + NO_COSINE * (end - begin - len(behind))) / (end - begin)
    return np.where(cosines > 0, np.maximum(cosines - mean, 0.0), 0.0)


def _stand_out(hits: Hits) -> Values:
    return stand_outs(hits.features["cosine_metadata"], hits.ranking["cosine_metadata"])


def _words_alone(hits: Hits) -> Values:
    """Return 1 for the hits of a query without a vector, whose words say all."""
    return np.full(len(hits.documents), float(not hits.query.has_vector))


_TABLE = (
    Evidence("bm25_full", 1),
    Evidence("bm25_metadata_alone", 1, held=3.277),
    Evidence("name", 1),
    Evidence("cosine_metadata", 1),
    # Of a long task less is said by a skill that fits, and chance says more.
    Evidence("cosine_by_length", 1, lambda h: h.features["cosine_metadata"] * _length(h)),
    Evidence("cosine_examples", 1),
    Evidence("rarest_term", 1, _rarest_term),
    Evidence("stand_out", 1, _stand_out),
    Evidence("lead", 1, lambda hits: leads(hits.sums)),
    Evidence("excluded", -1, held=-6.0, counts_despite_name=True),
    Evidence("contradiction", -1, held=-4.0),
    Evidence("hubness", -1, held=-10.0, counts_despite_name=True),
    Evidence("has_examples", -1, held=0.0),
    Evidence("length", 0, _length),
    Evidence("words_alone", 0, _words_alone, held=4.336),
)
EVIDENCE = {evidence.name: evidence for evidence in _TABLE}


def find_evidence(
    corpus: Corpus, query: QueryForm, ranked: Ranked, rows: Sequence[int]
) -> list[dict[str, float]]:
    """Return the value of each piece of `EVIDENCE` for the hits in some rows of a ranking."""
    numbers = np.array(rows, np.int64)
    ranking = dict(zip(FEATURES, ranked.features.T, strict=True))
    features = {name: column[numbers] for name, column in ranking.items()}
    hits = Hits(corpus, query, ranked.documents[numbers], features, ranking, ranked.scores[numbers])
    values = np.stack([row.values(hits) for row in EVIDENCE.values()], 1).tolist()
    return [dict(zip(EVIDENCE, row, strict=True)) for row in values]
