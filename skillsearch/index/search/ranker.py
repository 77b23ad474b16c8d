"""A query and an opened index → candidates, their features, their scores, and the reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.index.corpus import Corpus
from skillsearch.index.documents import DENSE_CHANNELS
from skillsearch.index.search.calibration import (
    FEATURES,
    LEAST_OF_EXAMPLES,
    LEXICAL,
    READER,
    UNVETTED,
    UNVETTED_IN_RANKING,
    Calibration,
)
from skillsearch.index.search.exclusion import exclusion_shares
from skillsearch.index.search.query import QueryForm, shares_of_trust
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.index.storage.numbering import (
    NOTHING,
    Numbers,
    Values,
    find_sorted,
    union,
    without,
)
from skillsearch.text.passages import heaviest
from skillsearch.text.safe_text import shorten
from skillsearch.text.tokenizer import document_terms
from skillsearch.types import Explanation, System

# Candidates of each channel; with twice as many, no measure of any collection changes.
_MIN_CANDIDATES = 50
# A longer query cannot be the spelling of a name.
_NAME_QUERY_TERMS = 4
# Least share of common letter triples (Dice) at which a spelling is near.
_NEAR_NAME = 0.6
# Members of a family that are ranked besides its leader.
_MOST_MEMBERS = 50
# Scores whose leading bits, as many as float32 has, are equal are equal.
_TIE_BITS = 23
# Characters of a body that an explanation shows.
_SNIPPET_CHARS = 240
# The constant of Cormack, Clarke and Büttcher, SIGIR 2009.
RRF_K = 60


@dataclass(frozen=True, slots=True)
class Candidates:
    """Documents worth scoring, ascending, with a row of `FEATURES` each.

    `lexical` has their features `LEXICAL`, whatever a dense channel is trusted with.
    """

    documents: Numbers
    features: Values
    lexical: Values


@dataclass(frozen=True, slots=True)
class Ranked(Candidates):
    """Ranked candidates: their scores, by which a system orders them, and places from the best on.

    In a hybrid ranking the scores are sums that order candidates, not yet probabilities.
    """

    scores: Values
    best: Numbers


class Judged(NamedTuple):
    """A hit in a row of a ranking: evidence, score, and the score that it has of its own.

    If the score is less, it was cut down to that of a hit before it, in another row.
    """

    row: int
    evidence: Mapping[str, float]
    score: float
    own_score: float
    cut_by: int | None = None


def find_candidates(
    corpus: Corpus, queries: Sequence[QueryForm], n: int, excluded: Numbers = NOTHING
) -> list[Candidates]:
    """Take the families that are best in some channel for each weighed query, for n hits.

    A family is found by what stands for it, so that many copies crowd nothing out, and then comes
    with all its members.
    """
    store = corpus.documents
    left_out, unseen = store.left_out, store.uncounted
    if len(excluded):
        left_out = union(left_out, excluded)
        unseen = union(left_out, store.families.waiting(left_out))
    k = max(_MIN_CANDIDATES, 4 * n)
    near: list[list[Numbers]] = [[] for _ in queries]
    for number, channel in enumerate(corpus.dense):
        asked = [place for place, query in enumerate(queries) if _is_asked(query, number)]
        if asked:
            vectors = np.stack([queries[place].views[number].vector for place in asked])
            found = channel.nearest_to_each(vectors, k, unseen)
            for place, documents in zip(asked, found, strict=True):
                near[place].append(documents)
    return [
        _candidates(corpus, query, k, left_out, unseen, pools)
        for query, pools in zip(queries, near, strict=True)
    ]


def _with_families(store: DocumentStore, documents: Numbers, left_out: Numbers) -> Numbers:
    """Return what stands for some documents, and the members that may lead instead, ascending."""
    families = store.families
    leaders = union(families.leaders_of(documents))
    found = [leaders]
    leading = leaders[families.are_leading(leaders)]
    are_gone = find_sorted(left_out, leading) >= 0
    for leader, is_gone in zip(leading.tolist(), are_gone.tolist(), strict=True):
        members, are_peers = families.followers(leader)
        found.append((members if is_gone else members[are_peers])[:_MOST_MEMBERS])
    return union(*found)


def _is_asked(query: QueryForm, channel: int) -> bool:
    return channel < len(query.views) and bool(query.views[channel].vector.any())


def _candidates(
    corpus: Corpus,
    query: QueryForm,
    k: int,
    left_out: Numbers,
    unseen: Numbers,
    near: list[Numbers],
) -> Candidates:
    """Join the pools of all channels; `near` are the dense pools."""
    store = corpus.documents
    weighed = list(zip(corpus.lexical, query.weights, strict=True))
    matches = [field.best(weights, k, unseen) for field, weights in weighed]
    named = np.array(store.named(query.text), np.int64)
    pools = [*(found.documents for found in matches), *near]
    if store.counted_size <= k:
        # BM25Okapi gives a term in half of a corpus the weight 0, and few are soon half.
        pools.append(store.counted)
    documents = without(_with_families(store, union(*pools, named), left_out), left_out)
    shares = [
        # Without any term, scores and shares are 0.
        found.scores_of(documents) / np.float32(weights.max_score or 1.0)
        for found, weights in zip(matches, query.weights, strict=True)
    ]
    # If only metadata is indexed, the one field stands for both.
    metadata, full = shares[0], shares[-1]
    first, second, neither = shares_of_trust(corpus, query, documents)
    columns: dict[str, NDArray[np.floating]] = {
        "bm25_metadata": metadata * first,
        "bm25_full": full * first,
        "bm25_metadata_alone": metadata * neither,
        "name": _name_match(store, query, documents, named),
        "bm25_metadata_multilingual": metadata * second,
        "bm25_full_multilingual": full * second,
    }
    for number, share in enumerate((first, second)):
        if _is_asked(query, number):
            cosines = corpus.dense[number].cosines(query.views[number].vector, documents)
            # Without bodies or examples there are fewer cosines than features.
            for name, cosine in zip(DENSE_CHANNELS[number], cosines, strict=False):
                columns[name] = np.maximum(cosine.astype(np.float64), 0.0) * share
    if "cosine_examples" in columns:
        said = np.maximum(columns["cosine_metadata"], LEAST_OF_EXAMPLES)
        more = np.maximum(columns["cosine_examples"] - said, 0.0)
        columns["cosine_examples"] = more * store.exampled[documents]
    nearness = np.sum(list(columns.values()), axis=0)
    columns["excluded"] = exclusion_shares(corpus, query, documents, nearness)
    columns["hubness"] = store.hubness[documents]
    columns["has_examples"] = store.exampled[documents].astype(np.float64)
    nothing = np.zeros(len(documents))
    features = np.stack([columns.get(name, nothing) for name in FEATURES], 1)
    lexical = np.stack([metadata, full, columns["name"]], 1).astype(np.float64)
    return Candidates(documents, features, lexical)


def rank(
    corpus: Corpus,
    found: Candidates,
    system: System,
    calibration: Calibration,
    doubted: Numbers = NOTHING,
) -> Ranked:
    """Rank candidates by one system; see `SYSTEMS` for the meaning of its scores.

    A hybrid ranking takes `UNVETTED_IN_RANKING` from `doubted` documents.
    """
    documents, features = found.documents, found.features
    if system == "hybrid":
        scores = calibration.contributions(features).sum(axis=1)
        scores -= UNVETTED_IN_RANKING * np.isin(documents, doubted)
    else:
        lexical = calibration.channel_scores(found.lexical, LEXICAL, LEXICAL)
        first, second = (calibration.channel_scores(features, names) for names in DENSE_CHANNELS)
        # Each dense channel judges its share: the sum of both stays between 0 and 1.
        dense = first + second
        fused = reciprocal_rank_fusion([lexical, dense]) if len(documents) else lexical
        scores = {"bm25": lexical, "dense": dense, "rrf": fused}[system]
    best = best_first(scores, corpus.documents.in_order(documents))
    return Ranked(documents, features, found.lexical, scores, best)


def heads(corpus: Corpus, ranked: Ranked) -> Ranked:
    """Return a ranking in which each family has one place, that of its best ranked document."""
    table = corpus.documents.families
    families = table.leaders_of(ranked.documents[ranked.best]).tolist()
    first: dict[int, int] = {}
    for row, family in zip(ranked.best.tolist(), families, strict=True):
        first.setdefault(family, row)
    best = np.array(list(first.values()), np.int64)
    rows = np.sort(best)
    return Ranked(
        ranked.documents[rows],
        ranked.features[rows],
        ranked.lexical[rows],
        ranked.scores[rows],
        rows.searchsorted(best),
    )


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
    about, idf = corpus.documents[document], query.weights[-1].known_idf()
    heading, snippet = best_section(body, idf, about.language)
    examples = [one.text for one in about.examples]
    said = set(document_terms(f"{about.name}\n{about.description}", about.language))
    asked = set(document_terms("\n".join(examples), about.language)) - said
    metadata = corpus.lexical[0].held_terms(query.weights[0], document)
    matched = {"metadata": tuple(term for term in metadata if term not in asked)}
    if examples:  # The terms that are in examples alone.
        matched["examples"] = tuple(term for term in metadata if term in asked)
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
        confidence=calibration.confidence(judged.evidence) if judged.evidence else {},
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


def reciprocal_rank_fusion(channels: Sequence[Values], rrf_k: int = RRF_K) -> Values:
    """Fuse the scores of channels over the same candidates to shares of the best rank in all.

    A candidate that a channel scores 0 or less is not in its ranking; equal scores share the better
    rank. Kept for comparison: ranks can neither tell a strong channel from a weak one nor say that
    nothing fits.
    """
    total = np.zeros_like(channels[0], dtype=np.float64)
    for scores in channels:
        ascending = np.sort(scores)
        ranks = len(scores) - np.searchsorted(ascending, scores, side="right") + 1
        total += np.where(scores > 0, 1.0 / (rrf_k + ranks), 0.0)
    return total * (rrf_k + 1) / len(channels)


def best_first(scores: Values, order: Numbers) -> Numbers:
    """Return the places of scores from the highest to the lowest, ties by the order of ids."""
    # Float sums vary in their last bits with the candidate set; rounded, ties stay ties.
    mantissas, exponents = np.frexp(scores)
    rounded = np.ldexp(np.rint(np.ldexp(mantissas, _TIE_BITS)), exponents)
    return np.lexsort((order, -rounded))


def _name_match(
    store: DocumentStore, query: QueryForm, documents: Numbers, named: Numbers
) -> Values:
    match = np.isin(documents, named).astype(np.float64)
    if len(query.counts) <= _NAME_QUERY_TERMS and len(query.text.split()) <= _NAME_QUERY_TERMS:
        wanted = _triples(query.text)
        for place in np.flatnonzero(match == 0):
            name = _triples(store[int(documents[place])].name)
            dice = 2 * len(wanted & name) / max(len(wanted) + len(name), 1)
            match[place] = dice if dice >= _NEAR_NAME else 0.0
    return match


def _triples(name: str) -> set[str]:
    padded = f" {' '.join(name.casefold().replace('-', ' ').replace('_', ' ').split())} "
    return {padded[i : i + 3] for i in range(len(padded) - 2)}
