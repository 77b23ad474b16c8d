"""The evidence that a hit fits, a row each: `EVIDENCE` is the one place to add some.

Its fitted coefficients stand in ``calibration.json``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.index.corpus import Corpus
from skillsearch.index.search.candidates import Ranked
from skillsearch.index.search.features import FEATURES, Sign
from skillsearch.index.search.query import QueryForm
from skillsearch.index.storage.numbering import Numbers, Values
from skillsearch.text.tokenizer import term_hash

# The log-odds of a reader: evidence of hits that it has read, and a ranking feature among these.
READER = "reader"
# Evidence against hits of roots that nobody vouched for, where somebody did for others; not fitted.
UNVETTED = "unvetted"
# What the log-odds of every hit begin with.
INTERCEPT = "intercept"
LEADS = (-3.0, 3.0)
# Ranks of the cosines that a hit has to stand out from, and what stands for missing ones.
BACKGROUND = (5, 25)
NO_COSINE = 0.15
# More that usage says for a skill adds nothing: it may be one mistake, made again and again.
MOST_USAGE = 0.7


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
        meaning: What it is, in words.
        sign: 1 if it speaks for a hit, -1 if against it; 0 if it moves the intercept, either way.
        compute: Returns its values; by default the ranking feature of its name.
        held: Its coefficient, if too few judged requests and skills have it to fit it.
        counts_despite_name: Whether it counts even against a skill that the query names.
    """

    name: str
    meaning: str
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
    pairs = zip(hits.corpus.lexical, hits.query.weights, strict=True)
    held = [field.rarest_held(terms, hits.documents) / field.rarest_idf for field, terms in pairs]
    return (held[0] + held[-1]) / 2 * hits.query.has_vector


def _length(hits: Hits) -> Values:
    """Return the binary logarithm of the number of distinct terms of the query, plus one."""
    return np.full(len(hits.documents), np.log2(len(hits.query.counts) + 1.0))


def _by_terms(hits: Hits) -> Values:
    return hits.features["cosine_metadata"] * _length(hits)


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


def _other_language(hits: Hits) -> Values:
    """Return 1 for skills in another language than the query, 0 if either is not known."""
    return _is_in_other(hits, hits.query.language)


def _is_in_other(hits: Hits, language: str) -> Values:
    """Return 1 for skills in another language than this, 0 if either is not known."""
    known = term_hash(""), term_hash(language)
    languages = hits.corpus.documents.languages[hits.documents]
    return np.where(np.isin(languages, known), 0.0, float(bool(language)))


def _usage(hits: Hits) -> Values:
    """Return the evidence of similar requests for the family of each hit."""
    store = hits.corpus.documents
    sums = defaultdict[int, float](float)
    for doc_id, share in hits.query.usage.items():
        if (number := store.number_of(doc_id)) is not None:
            sums[store.families.leader_of(number)] += share
    leaders = store.families.leaders_of(hits.documents).tolist() if sums else []
    shares = [sums.get(leader, 0.0) for leader in leaders] or np.zeros(len(hits.documents))
    return of_usage(np.array(shares))


def of_usage(shares: Values, most: float = MOST_USAGE) -> Values:
    """Return the square of shares up to a limit: one load says little, and some that agree much."""
    return np.minimum(shares, most) ** 2


_TABLE = (
    Evidence("bm25_full", "words in common with metadata and body", 1),
    Evidence(
        "bm25_metadata_alone", "words in common with metadata, without vectors", 1, held=3.277
    ),
    Evidence("name", "its name in the request, or a pin of it", 1),
    Evidence("cosine_metadata", "likeness of name and description in meaning", 1),
    # Of a long task less is said by a skill that fits, and chance says more.
    Evidence("cosine_by_length", "likeness in meaning, by the length of the request", 1, _by_terms),
    Evidence("cosine_examples", "likeness of example requests in meaning", 1),
    Evidence("rarest_term", "the rarest word in common", 1, _rarest_term),
    Evidence("stand_out", "likeness beyond that of other skills", 1, _stand_out),
    Evidence("lead", "lead in the ranking", 1, lambda hits: leads(hits.sums)),
    Evidence(
        "excluded",
        "what the request does not want, or the skill is not for",
        -1,
        held=-6.0,
        counts_despite_name=True,
    ),
    Evidence("contradiction", "another version or direction than in the request", -1, held=-4.0),
    Evidence("hubness", "likeness to whatever is asked", -1, held=-10.0, counts_despite_name=True),
    Evidence("has_examples", "having example requests, whatever they say", -1, held=0.0),
    # Weight and limit by scripts/replay_usage.py.
    Evidence("usage", "loads after requests like this one", 1, _usage, held=10.0),
    Evidence("length", "length of the request", 0, _length),
    # Few words are in common then, and a right skill is less alike.
    Evidence("other_language", "another language than the request", 0, _other_language),
    Evidence("not_english", "another language than English", 0, lambda h: _is_in_other(h, "en")),
    Evidence("words_alone", "a request without a vector", 0, _words_alone, held=4.336),
)
EVIDENCE = {evidence.name: evidence for evidence in _TABLE}
MEANINGS: Mapping[str, str] = {
    **{evidence.name: evidence.meaning for evidence in _TABLE},
    READER: "what the reader says, which reads only the best",
    UNVETTED: "a root that nobody vouches for",
    INTERCEPT: "what every skill begins with",
}
"""The meaning of each piece of evidence that a hit may have."""


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
