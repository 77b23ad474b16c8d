"""Candidates → their order by one system, the score of each hit, and the reasons for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from skillsearch.index.corpus import Corpus
from skillsearch.index.search.calibration import UNVETTED_IN_RANKING, Calibration, probability
from skillsearch.index.search.candidates import Candidates, Judged, Ranked
from skillsearch.index.search.evidence import READER, UNVETTED
from skillsearch.index.search.features import FEATURES, LEXICAL, features_of
from skillsearch.index.search.passages import heaviest
from skillsearch.index.search.query import QueryForm
from skillsearch.index.storage.numbering import NOTHING, Numbers, Values
from skillsearch.text.safe_text import shorten
from skillsearch.text.tokenizer import document_terms
from skillsearch.types.answers import Explanation, System

# Scores that agree to float32 precision are ties.
_TIE_BITS = 23
# Characters of a body that an explanation shows.
_SNIPPET_CHARS = 240
# The constant of Cormack, Clarke and Büttcher, SIGIR 2009.
RRF_K = 60


def rank(
    corpus: Corpus,
    candidates: Candidates,
    system: System,
    calibration: Calibration,
    doubted: Numbers = NOTHING,
) -> Ranked:
    """Rank candidates by one system; see `SYSTEMS` for the meaning of its scores.

    A hybrid ranking takes `UNVETTED_IN_RANKING` from `doubted` documents.
    """
    documents, features = candidates.documents, candidates.features
    if system == "hybrid":
        scores = calibration.contributions(features).sum(axis=1)
        scores -= UNVETTED_IN_RANKING * np.isin(documents, doubted)
    else:
        lexical = calibration.channel_scores(candidates.lexical, LEXICAL, LEXICAL)
        dense = calibration.channel_scores(features, features_of("dense"))
        fused = reciprocal_rank_fusion([lexical, dense]) if len(documents) else lexical
        scores = {"bm25": lexical, "dense": dense, "rrf": fused}[system]
    best = best_first(scores, corpus.documents.in_order(documents))
    return Ranked(documents, features, candidates.lexical, scores, best, pools=candidates.pools)


def heads(corpus: Corpus, ranked: Ranked) -> Ranked:
    """Return a ranking in which each family has one place, that of its best ranked document."""
    families = corpus.documents.families.leaders_of(ranked.documents[ranked.best]).tolist()
    first: dict[int, int] = {}
    for row, family in zip(ranked.best.tolist(), families, strict=True):
        first.setdefault(family, row)
    best = np.array(list(first.values()), np.int64)
    rows = np.sort(best)
    columns = ranked.features, ranked.lexical, ranked.scores
    features, lexical, scores = (column[rows] for column in columns)
    documents, best = ranked.documents[rows], rows.searchsorted(best)
    return Ranked(documents, features, lexical, scores, best, pools=ranked.pools)


def judge(
    evidence: Sequence[Mapping[str, float]], rows: Sequence[int], calibration: Calibration
) -> list[Judged]:
    """Return the hits in some rows of a ranking in the order of an answer, each with its score.

    Hits that fit by their own score come first, the likeliest first and what the query names before
    all; the others keep the order of the rows. A score above the one before it is cut down to it;
    none is raised. The threshold of a request orders nothing: it only cuts answers off.
    """
    own = [probability(calibration.log_odds(values)) for values in evidence]
    fitting = [
        score + (values["name"] >= 1) if score >= calibration.threshold else 0.0
        for score, values in zip(own, evidence, strict=True)
    ]
    judged, lowest = [], Judged(-1, {}, 1.0, 1.0)
    for at in best_first(np.array(fitting), np.arange(len(own))).tolist():
        is_cut = lowest.score < own[at]
        score, cut_by = (lowest.score, lowest.row) if is_cut else (own[at], None)
        judged.append(Judged(rows[at], evidence[at], score, own[at], cut_by))
        lowest = lowest if is_cut else judged[-1]
    return judged


def explain(
    corpus: Corpus,
    query: QueryForm,
    ranked: Ranked,
    judged: Judged,
    calibration: Calibration,
    body: str,
) -> Explanation:
    """Explain the score of a hit; `body` is its body, empty if unreadable."""
    row, by = judged.row, judged.cut_by
    document, features = int(ranked.documents[row]), ranked.features[row]
    parts = calibration.contributions(features)
    about = corpus.documents[document]
    idf = query.weights[-1].known_idf()
    heading, snippet = best_section(body, idf, about.language)
    examples = [example.text for example in about.examples]
    own = set(document_terms(f"{about.name}\n{about.description}", about.language))
    in_examples = set(document_terms("\n".join(examples), about.language)) - own
    metadata = corpus.lexical[0].held_terms(query.weights[0], document)
    matched = {"metadata": tuple(term for term in metadata if term not in in_examples)}
    if examples:  # The terms that are in examples alone.
        matched["examples"] = tuple(term for term in metadata if term in in_examples)
    if len(corpus.lexical) > 1:  # The terms that are in the body alone.
        full = corpus.lexical[1].held_terms(query.weights[-1], document)
        matched["body"] = tuple(term for term in full if term not in metadata)
    values = dict(zip(FEATURES, features.tolist(), strict=True))
    added = dict(zip(FEATURES, parts.tolist(), strict=True))
    for name, weight in ((READER, calibration.reader), (UNVETTED, -UNVETTED_IN_RANKING)):
        if name in judged.evidence:
            values[name] = judged.evidence[name]
            added[name] = weight * values[name]
    return Explanation(
        features=values,
        contributions=added,
        # Only a hybrid score rests on evidence.
        log_odds=calibration.log_odds_parts(judged.evidence) if judged.evidence else {},
        own_score=judged.own_score,
        cut_by="" if by is None else corpus.documents[int(ranked.documents[by])].name,
        matched_terms=matched,
        section=heading,
        snippet=snippet,
        example=heaviest(examples, idf, about.language),
    )


def best_section(body: str, idf: Mapping[str, float], language: str = "") -> tuple[str, str]:
    """Return heading and first words of the section whose query terms weigh most, if any."""
    # Few searches explain.
    from skillsearch.text.markdown import sections

    whole = ("\n".join(section) for section in sections(body))
    heading, _, text = heaviest(whole, idf, language).partition("\n")
    return heading, shorten(" ".join(text.split()), _SNIPPET_CHARS)


def reciprocal_rank_fusion(channels: Sequence[Values]) -> Values:
    """Fuse the scores of channels over the same candidates to shares of the best rank in all.

    A candidate that a channel scores 0 or less is not in its ranking; equal scores share the better
    rank. Kept for comparison: ranks can neither tell a strong channel from a weak one nor say that
    nothing fits.
    """
    total = np.zeros_like(channels[0], dtype=np.float64)
    for scores in channels:
        ranks = len(scores) - np.searchsorted(np.sort(scores), scores, side="right") + 1
        total += np.where(scores > 0, 1.0 / (RRF_K + ranks), 0.0)
    return total * (RRF_K + 1) / len(channels)


def best_first(scores: Values, order: Numbers) -> Numbers:
    """Return the places of scores from the highest to the lowest, ties by the order of ids."""
    # Float sums vary in their last bits with the candidate set; rounded, ties stay ties.
    mantissas, exponents = np.frexp(scores)
    rounded = np.ldexp(np.rint(np.ldexp(mantissas, _TIE_BITS)), exponents)
    return np.lexsort((order, -rounded))
