"""The evidence for each hit, and the probability that it fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from skillsearch.index.corpus import Corpus
from skillsearch.index.search.calibration import (
    BACKGROUND,
    EVIDENCE,
    FEATURES,
    LEADS,
    NO_COSINE,
    Calibration,
    probability,
)
from skillsearch.index.search.query import QueryForm, shares_of_trust
from skillsearch.index.search.ranker import Judged, Ranked, best_first
from skillsearch.index.storage.numbering import Values


def judge(
    evidence: Sequence[Mapping[str, float]], rows: Sequence[int], calibration: Calibration
) -> list[Judged]:
    """Return the hits in some rows of a ranking in the order of an answer, each with its score.

    The order is that of the rows, but those that fit by their own score come first, the likeliest
    before the others and what the query names before all. A score above the one before it is cut
    down to it; none is raised. A threshold of the caller's has no say, so it only cuts answers off.
    """
    own = [probability(calibration.log_odds(one)) for one in evidence]
    fitting = [
        score + (one["name"] >= 1) if score >= calibration.threshold else 0.0
        for score, one in zip(own, evidence, strict=True)
    ]
    judged, least = [], Judged(-1, {}, 1.0, 1.0)
    for place in best_first(np.array(fitting), np.arange(len(own))).tolist():
        is_cut, score = least.score < own[place], min(least.score, own[place])
        cut_by = least.row if is_cut else None
        judged.append(Judged(rows[place], evidence[place], score, own[place], cut_by))
        least = least if is_cut else judged[-1]
    return judged


def find_evidence(
    corpus: Corpus, query: QueryForm, ranked: Ranked, rows: Sequence[int]
) -> list[dict[str, float]]:
    """Return the value of each piece of `EVIDENCE` for the hits in some rows of a ranking.

    The rows are those of all families that compete, without the copies that stand behind others.
    """
    places = np.array(rows, np.int64)
    documents = ranked.documents[places]
    every = dict(zip(FEATURES, ranked.features.T, strict=True))
    features = {name: column[places] for name, column in every.items()}
    first, second, neither = shares_of_trust(corpus, query, documents)
    known, unknown = query.weights[0].known_score, query.weights[0].unknown_score
    known_alone = features["bm25_metadata_alone"]
    if known > 0:
        # Unknown terms count by how much of the corpus is in scripts that the embedder cannot read.
        foreign = 1.0 - corpus.documents.mean_trust
        known_alone = known_alone * ((known + unknown) / (known + foreign * unknown))
    fields = list(zip(corpus.lexical, query.weights, strict=True))
    rarest = [
        np.array([field.rarest_held(weights, one) for one in documents.tolist()]) / field.rarest_idf
        for field, weights in (fields[0], fields[-1])
    ]
    columns = features | {
        "bm25_known_alone": known_alone,
        "rarest_term": first * (rarest[0] + rarest[1]) / 2,
        "lead": leads(ranked.scores[places]),
        "distrust": neither,
        "multilingual": second,
    }
    for end in ("", "_multilingual"):
        cosine = f"cosine_metadata{end}"
        columns[f"stand_out{end}"] = stand_outs(features[cosine], every[cosine])
    values = np.stack([columns[name] for name in EVIDENCE], 1).tolist()
    return [dict(zip(EVIDENCE, row, strict=True)) for row in values]


def leads(sums: Values) -> Values:
    """Return how far each sum is before the highest of the others, within `LEADS`; 0 if alone."""
    if len(sums) < 2:
        return np.zeros(len(sums))
    best, next_best = np.sort(sums)[::-1][:2]
    others = np.where(sums == best, next_best, best)
    found: Values = np.clip(sums - others, *LEADS)
    return found


def stand_outs(cosines: Values, every: Values) -> Values:
    """Return how far cosines are above the mean of those in the places of `BACKGROUND` of all.

    A cosine of 0, of a channel that was not asked, stands out by nothing.
    """
    begin, end = BACKGROUND
    behind = np.sort(every)[::-1][begin:end]
    mean = (behind.sum() + NO_COSINE * (end - begin - len(behind))) / (end - begin)
    return np.where(cosines > 0, np.maximum(cosines - mean, 0.0), 0.0)
