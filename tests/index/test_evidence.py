"""The evidence for each hit, piece by piece, and the probability that it makes."""

import math
from collections import Counter
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.embedders.embedding import HashingEmbedder, embed
from skillsearch.index.search.calibration import probability
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.candidates import find_candidates
from skillsearch.index.search.evidence import (
    BACKGROUND,
    EVIDENCE,
    LEADS,
    NO_COSINE,
    READER,
    find_evidence,
    leads,
    stand_outs,
)
from skillsearch.index.search.features import FEATURES
from skillsearch.index.search.query import QueryForm, weigh_terms
from skillsearch.index.search.ranker import judge, rank
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.numbering import NOTHING
from skillsearch.text.tokenizer import terms

ONE_OF_FIVE = math.log(4.5 / 1.5) / math.log(5.5 / 0.5)
TWO_OF_FIVE = math.log(3.5 / 2.5) / math.log(5.5 / 0.5)
"""BM25Okapi's weight of a term in one or two of five documents, over an absent term's."""


@pytest.fixture
def corpus(shared_index):
    return SkillIndex.open(shared_index.folder).opened.corpus


def form(text, *, has_vector=True):
    vector = embed(HashingEmbedder(), [text])[0] * np.float32(has_vector)
    return QueryForm(text, "", Counter(terms(text)), vector)


def gather(corpus, query, name):
    (number,) = corpus.documents.named(name)
    query = replace(query, weights=weigh_terms(corpus, query.counts))
    (candidates,) = find_candidates(corpus, [query], 5)
    ranked = rank(corpus, candidates, "hybrid", default_calibration())
    rows = ranked.best.tolist()
    row = candidates.documents.tolist().index(number)
    evidence = find_evidence(corpus, query, ranked, rows)[rows.index(row)]
    return evidence, dict(zip(FEATURES, candidates.features[row], strict=True))


@pytest.mark.parametrize("has_vector", [True, False])
def test_every_piece_is_there_and_a_share(corpus, has_vector):
    for text in ("flatten PDF forms", "pdf-forms", "!?", "数据库 forms", "zzz " * 50):
        for document in corpus.documents:
            evidence, _ = gather(corpus, form(text, has_vector=has_vector), document.name)
            assert set(evidence) == set(EVIDENCE)
            assert LEADS[0] <= evidence.pop("lead") <= LEADS[1]
            assert evidence.pop("length") >= 0
            assert evidence.pop("cosine_by_length") >= 0
            assert all(type(value) is float and 0 <= value <= 1 for value in evidence.values())


def test_a_cosine_counts_more_in_a_longer_query(corpus):
    """By the binary logarithm of its distinct terms, and one."""
    for text, most in (("flatten", 1), ("flatten flatten PDF forms", 3), ("a b c d e f g h", 8)):
        evidence, features = gather(corpus, form(text), "pdf-forms")
        length = len(form(text).counts)
        assert length <= most
        assert evidence["length"] == pytest.approx(math.log2(length + 1))
        by_length = features["cosine_metadata"] * evidence["length"]
        assert evidence["cosine_by_length"] == pytest.approx(by_length)


@pytest.mark.parametrize("name", ["bm25_full", "name", "cosine_metadata"])
def test_some_pieces_are_ranking_features(corpus, name):
    evidence, features = gather(corpus, form("pdf-forms"), "pdf-forms")
    assert evidence[name] == features[name] > 0


@pytest.mark.parametrize(
    ("query", "skill", "metadata", "full"),
    [
        ("flatten it", "pdf-forms", ONE_OF_FIVE, ONE_OF_FIVE),
        ("revoke it", "key-rotation", 0, ONE_OF_FIVE),
        ("zzz flatten cut", "pdf-forms", ONE_OF_FIVE, ONE_OF_FIVE),
        ("cut video", "pdf-forms", 0, 0),
        ("zzz", "pdf-forms", 0, 0),
        ("of the", "pdf-forms", 0, 0),
    ],
)
def test_the_rarest_term_counts_its_idf_in_metadata_and_full_text(
    corpus, query, skill, metadata, full
):
    """Its idf over the idf of an absent term, as a mean of metadata and full text."""
    evidence, _ = gather(corpus, form(query), skill)
    assert evidence["rarest_term"] == pytest.approx((metadata + full) / 2, abs=1e-6)


def test_of_several_terms_the_rarest_counts(root, build, add_skill):
    add_skill(root / "tea-timer", "tea-timer", "Time tea and cut clips.", "Two minutes.")
    corpus = build(root).opened.corpus
    for query, expected in (
        ("cut", TWO_OF_FIVE),
        ("cut join", ONE_OF_FIVE),
        ("cut tea", TWO_OF_FIVE),
    ):
        evidence, _ = gather(corpus, form(query), "video-trim")
        assert evidence["rarest_term"] == pytest.approx(expected, abs=1e-6)


def test_an_index_of_metadata_alone_has_its_rarest_term_there(root, build):
    corpus = build(root, with_body=False).opened.corpus
    evidence, _ = gather(corpus, form("flatten it"), "pdf-forms")
    assert evidence["rarest_term"] == pytest.approx(ONE_OF_FIVE, abs=1e-6)


def test_without_a_vector_the_words_of_the_metadata_say_all(corpus):
    query = "flatten PDF forms"
    beside, _ = gather(corpus, form(query), "pdf-forms")
    alone, features = gather(corpus, form(query, has_vector=False), "pdf-forms")
    assert (beside["words_alone"], alone["words_alone"]) == (0, 1)
    assert beside["bm25_metadata_alone"] == 0 < alone["bm25_metadata_alone"]
    for name in ("rarest_term", "bm25_full", "cosine_metadata", "stand_out"):
        assert alone[name] == 0 < beside[name]
    (number,) = corpus.documents.named("pdf-forms")
    field = corpus.lexical[0]
    weights = field.weigh(form(query).counts)
    score = float(field.best(weights, 1, NOTHING).scores_of(np.array([number]))[0])
    assert alone["bm25_metadata_alone"] == pytest.approx(score / weights.max_score, rel=1e-5)
    assert features["bm25_metadata_alone"] == alone["bm25_metadata_alone"]


@pytest.mark.parametrize(
    ("language", "others"),
    [
        ("en", {"kessel": 1, "hervidor": 1}),
        ("de", {"tea-timer": 1, "hervidor": 1}),
        ("es", {"tea-timer": 1, "kessel": 1}),
        ("uk", {"tea-timer": 1, "kessel": 1, "hervidor": 1}),
        ("", {}),
    ],
)
def test_a_skill_in_another_language_than_the_request_is_marked(
    tmp_path, build, add_skill, language, others
):
    """One that is not known is no other."""
    root = tmp_path / "many"
    add_skill(root / "a", "tea-timer", "Times the tea and tells you when it is ready to drink.")
    add_skill(root / "b", "kessel", "Kocht das Wasser für den Tee und sagt, wann es heiß ist.")
    add_skill(root / "c", "hervidor", "Hierve el agua para el té y dice cuándo está lista.")
    add_skill(root / "d", "xyz", "xyz")
    corpus = build(root).opened.corpus
    abroad = {"kessel", "hervidor"}
    for name in ("tea-timer", "kessel", "hervidor", "xyz"):
        query = replace(form(f"tea tee té xyz {name}"), language=language)
        evidence, _ = gather(corpus, query, name)
        assert evidence["other_language"] == others.get(name, 0)
        assert evidence["not_english"] == (name in abroad)


@given(st.lists(st.floats(0, 60) | st.sampled_from([3.0, 4.0, 4.5]), max_size=12))
def test_a_lead_is_over_the_best_of_the_others(sums):
    """Or none, if there are no others; at most three."""
    assert LEADS == (-3, 3)
    expected = []
    for row, own in enumerate(sums):
        lead = own - max(sums[:row] + sums[row + 1 :], default=own)
        expected.append(min(max(lead, LEADS[0]), LEADS[1]))
    assert leads(np.array(sums)).tolist() == pytest.approx(expected)


FIRST_FIVE = [0.9, 0.8, 0.7, 0.6, 0.5]


@pytest.mark.parametrize(
    ("every", "mean"),
    [
        (FIRST_FIVE + [0.25] * 20 + [0.1] * 5, 0.25),
        (FIRST_FIVE + [0.35] * 2, (2 * 0.35 + 18 * 0.15) / 20),
        ([0.9], 0.15),
        ([], 0.15),
    ],
)
def test_a_cosine_stands_out_by_its_distance_to_the_background(every, mean):
    """From the sixth to the 25th place; a place that nothing has counts 0.15."""
    assert (BACKGROUND, NO_COSINE) == ((5, 25), 0.15)
    for order in (every, every[::-1]):
        distances = stand_outs(np.array([0.9, mean + 0.1, mean, 0.05, 0.0]), np.array(order))
        assert distances.tolist() == pytest.approx([0.9 - mean, 0.1, 0, 0, 0])


def test_a_query_without_a_vector_lets_nothing_stand_out():
    assert stand_outs(np.zeros(2), np.full(30, -0.5)).tolist() == [0, 0]


def test_lead_and_background_are_those_of_the_ranking(corpus):
    query = form("flatten PDF forms and rotate keys")
    query = replace(query, weights=weigh_terms(corpus, query.counts))
    (candidates,) = find_candidates(corpus, [query], 5)
    ranked = rank(corpus, candidates, "hybrid", default_calibration())
    for rows in (ranked.best.tolist(), ranked.best.tolist()[1:3]):
        evidence = find_evidence(corpus, query, ranked, rows)
        expected = leads(ranked.scores[rows]).tolist()
        assert [pieces["lead"] for pieces in evidence] == pytest.approx(expected)
        cosines = ranked.feature("cosine_metadata")
        expected = stand_outs(cosines[rows], cosines).tolist()
        assert [pieces["stand_out"] for pieces in evidence] == pytest.approx(expected)
        assert max(expected) > 0
    assert find_evidence(corpus, query, ranked, []) == []


NOTHING_SAID = MappingProxyType(dict.fromkeys(EVIDENCE, 0.0))
BY_LEAD = replace(
    default_calibration(),
    alone=NOTHING_SAID | {"lead": 2.0, "intercept": 0.0},
    read=NOTHING_SAID | {"lead": 1.0, READER: 0.5, "intercept": 0.0},
    threshold=probability(1.0),
)


def leading(*values):
    return [NOTHING_SAID | {"lead": value} for value in values]


def test_hits_that_were_read_are_judged_by_what_the_reader_says():
    """Lead and half of the logit, but no less than unread if that speaks for the hit."""
    first, second, third = leading(0.25, 1.0, 1.5)
    read = [first | {READER: -4.0}, second | {READER: 1.0}, third | {READER: 6.0}]
    judged = judge(read, [0, 1, 2], BY_LEAD)
    assert [hit.row for hit in judged] == [2, 1, 0]
    assert [hit.score for hit in judged] == pytest.approx(
        [probability(odds) for odds in (4.5, 2, -1.75)]
    )
    confidence = BY_LEAD.log_odds_parts(read[1])
    assert confidence[READER] == 0
    assert BY_LEAD.log_odds_parts(read[2])[READER] == 3


LOG_ODDS = st.lists(st.floats(-6, 6), max_size=12).map(
    lambda values: [round(value, 3) for value in values]
)


@given(LOG_ODDS)
def test_no_score_is_raised(values):
    rows, evidence = list(range(10, 10 + len(values))), leading(*values)
    judged = judge(evidence, rows, BY_LEAD)
    scores, own = ([hit[column] for hit in judged] for column in (2, 3))
    assert own == pytest.approx([probability(2 * values[hit.row - 10]) for hit in judged])
    assert all(hit.evidence is evidence[hit.row - 10] for hit in judged)
    assert scores == sorted(scores, reverse=True)
    assert all(score <= more for score, more in zip(scores, own, strict=True))
    fitting = [hit for hit in judged if hit.own_score >= BY_LEAD.threshold]
    assert all(hit.score == hit.own_score and hit.cut_by is None for hit in fitting)
    assert judged[: len(fitting)] == fitting
    others = [hit.row for hit in judged[len(fitting) :]]
    assert others == sorted(others)
    assert sorted(hit.row for hit in judged) == rows
    for position, hit in enumerate(judged, 1):
        assert hit.score == min(own[:position])
        assert (hit.cut_by is None) == (hit.score == hit.own_score)
        if hit.cut_by is not None:
            cutter = next(other for other in judged if other.row == hit.cut_by)
            assert cutter.score == cutter.own_score == hit.score
