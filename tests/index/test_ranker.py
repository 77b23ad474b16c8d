"""A query and an index to candidates, features and scores; reciprocal rank fusion."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.embedders.embedding import HashingEmbedder, embed
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.candidates import Candidates, find_candidates
from skillsearch.index.search.features import FEATURES, features_of
from skillsearch.index.search.query import QueryForm, weigh_terms
from skillsearch.index.search.ranker import best_first, rank, reciprocal_rank_fusion
from skillsearch.index.storage.numbering import NOTHING
from skillsearch.text.tokenizer import terms
from skillsearch.types.answers import SYSTEMS


@pytest.fixture
def index(shared_index):
    return shared_index


def form(text, *, has_vector=True):
    vector = embed(HashingEmbedder(), [text if has_vector else ""])[0]
    return QueryForm(text, "", Counter(terms(text)), vector)


def weighed(corpus, query):
    return replace(query, weights=weigh_terms(corpus, query.counts))


def find(corpus, query, n, *excluded):
    (candidates,) = find_candidates(corpus, [weighed(corpus, query)], n, *excluded)
    return candidates


def without_terms(text):
    return QueryForm(text, "", Counter(), form(text).vector)


def features(corpus, query, n=5):
    candidates = find(corpus, query, n)
    names = [corpus.documents[number].name for number in candidates.documents.tolist()]
    return {
        name: dict(zip(FEATURES, row.tolist(), strict=True))
        for name, row in zip(names, candidates.features, strict=True)
        if row.any()
    }


def test_what_is_to_be_a_candidate_too_changes_nothing_for_the_others(index):
    corpus = index.opened.corpus
    query = weighed(corpus, form("flatten the plan"))
    (plain,) = find_candidates(corpus, [query], 1)
    every = np.arange(corpus.documents.size)
    (more,) = find_candidates(corpus, [query], 1, also=every)
    assert more.documents.tolist() == every.tolist()
    rows = np.searchsorted(more.documents, plain.documents)
    assert more.features[rows].tolist() == plain.features.tolist()
    assert plain.pools.keys() == more.pools.keys() == {"words", "vectors", "name", "all"}
    assert {*plain.pools["words"].tolist()} < {*plain.pools["all"].tolist()}


def test_lexical_features_are_shares_of_the_maximum(index):
    corpus = index.opened.corpus
    query = form("flatten the zzz plan")
    for field, name in ((corpus.lexical[0], "bm25_metadata"), (corpus.lexical[-1], "bm25_full")):
        weights = field.weigh(query.counts)
        everything = np.arange(field.statistics.documents)
        expected = field.best(weights, 1, NOTHING).scores_of(everything) / weights.max_score
        for skill, values in features(corpus, query).items():
            (number,) = corpus.documents.named(skill)
            assert values[name] == pytest.approx(float(expected[number]))


def test_dense_features_are_cosines_no_less_than_zero(index):
    corpus = index.opened.corpus
    query = form("rotate the keys")
    for skill, values in features(corpus, query).items():
        (number,) = corpus.documents.named(skill)
        cosine = float(corpus.dense.vectors_of(np.array([number]))[0] @ query.vector)
        assert values["cosine_metadata"] == pytest.approx(max(cosine, 0.0), abs=1e-6)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("pdf-forms", 1.0),
        ("PDF forms", 1.0),
        ("pdf_FORMS", 1.0),
        ("pdf-form", 2 * 7 / (8 + 9)),
        ("pdforms", 0.75),
        ("tea", 0.0),
        ("fill in some pdf forms", 0.0),
    ],
)
def test_a_name_matches_exactly_or_nearly(index, query, expected):
    """Dice coefficient of letter trigrams with marked ends; a long query is not a name."""
    by_skill = features(index.opened.corpus, form(query))
    assert by_skill.get("pdf-forms", {"name": 0.0})["name"] == pytest.approx(expected)


def test_a_skill_asked_for_by_name_is_always_a_candidate(index):
    empty = QueryForm("PDF-Forms", "", Counter(), np.zeros(512, np.float32))
    assert features(index.opened.corpus, empty) == {
        "pdf-forms": dict.fromkeys(FEATURES, 0.0) | {"name": 1.0}
    }


def test_every_skill_of_a_small_corpus_is_a_candidate(index):
    """BM25Okapi gives a term in half of them the weight 0: no posting may be lost for that."""
    candidates = find(index.opened.corpus, form("xyzzy", has_vector=False), 5)
    assert candidates.documents.tolist() == [0, 1, 2, 3, 4]


def test_features_are_between_zero_and_one(index):
    for text in ("forms " * 500, "!?", "数据 forms", "pdf-forms", "a b c d e f g"):
        candidates = find(index.opened.corpus, form(text), 5)
        assert candidates.features.min(initial=0) >= 0
        assert candidates.features.max(initial=0) <= 1 + 1e-6


@pytest.fixture
def candidates():
    random = np.random.default_rng(5)
    return Candidates(np.arange(5), random.random((5, len(FEATURES))), random.random((5, 3)))


def test_systems_score_by_the_same_calibration(index, candidates):
    corpus, calibration = index.opened.corpus, default_calibration()
    weights = [calibration.weights[name] for name in ("bm25_metadata", "bm25_full", "name")]
    lexical = np.average(candidates.lexical, axis=1, weights=weights)
    dense = calibration.channel_scores(candidates.features, features_of("dense"))
    expected = {
        "hybrid": calibration.contributions(candidates.features).sum(axis=1),
        "bm25": lexical,
        "dense": dense,
        "rrf": reciprocal_rank_fusion([lexical, dense]),
    }
    assert sorted(expected) == sorted(SYSTEMS)
    for system in SYSTEMS:
        ranked = rank(corpus, candidates, system, calibration)
        np.testing.assert_allclose(ranked.scores, expected[system], rtol=1e-12)
        assert ranked.best.tolist() == np.argsort(-ranked.scores, kind="stable").tolist()
        assert ranked.documents is candidates.documents
        assert ranked.features is candidates.features


@pytest.mark.parametrize("system", SYSTEMS)
def test_no_candidates_have_no_scores(index, system):
    none = Candidates(np.zeros(0, np.int64), np.zeros((0, len(FEATURES))), np.zeros((0, 3)))
    ranked = rank(index.opened.corpus, none, system, default_calibration())
    assert ranked.scores.tolist() == ranked.best.tolist() == []


SCORES = st.lists(st.sampled_from([0.0, 1e-30, 2e-30, 1e-9, 0.1, 0.5, 0.5, 1.0]), max_size=30)


@given(SCORES, st.randoms())
def test_the_best_come_first_and_ties_by_document(scores, random):
    documents = list(range(len(scores)))
    random.shuffle(documents)
    order = best_first(np.array(scores, np.float64), np.array(documents, np.int64))
    expected = sorted(range(len(scores)), key=lambda row: (-scores[row], documents[row]))
    assert order.tolist() == expected


@pytest.mark.parametrize("size", [1e-200, 1e-9, 0.3, 0.5, 1.0, 47.0])
def test_a_difference_in_the_last_bits_is_none(size):
    near = np.array([size, np.nextafter(size, 100), np.nextafter(size, 0), size * (1 + 1e-12)])
    assert best_first(near, np.array([3, 2, 1, 0])).tolist() == [3, 2, 1, 0]
    assert best_first(np.array([size, size * 1.00001]), np.array([0, 1])).tolist() == [1, 0]


def test_excluded_documents_are_no_candidates(index):
    corpus = index.opened.corpus
    (number,) = corpus.documents.named("pdf-forms")
    every = find(corpus, form("pdf-forms"), 5)
    others = find(corpus, form("pdf-forms"), 5, np.array([number]))
    assert others.documents.tolist() == [n for n in every.documents.tolist() if n != number]
    staying = every.documents != number
    np.testing.assert_array_equal(others.features, every.features[staying])
    assert not len(find(corpus, form("tea"), 5, np.arange(5)).documents)


def test_what_is_best_after_many_excluded_is_a_candidate(tmp_path, build, add_skill):
    for number in range(300):
        words = "rotate keys " * 3 if number < 200 else "rotate " if number == 200 else ""
        add_skill(tmp_path / "s" / f"s{number:03}", f"s{number}", f"{words}thing {number}", words)
    corpus = build(tmp_path / "s").opened.corpus
    for query in (form("rotate keys", has_vector=False), without_terms("rotate keys")):
        assert 200 not in find(corpus, query, 5).documents
        assert find(corpus, query, 5, np.arange(200)).documents.min() == 200


def test_more_hits_wanted_make_a_larger_pool(tmp_path, build, add_skill):
    for number in range(150):
        add_skill(tmp_path / "s" / f"s{number}", f"skill-{number}", f"Common word number {number}.")
    corpus = build(tmp_path / "s", with_body=False).opened.corpus
    assert len(find(corpus, form("number 7", has_vector=False), 5).documents) == 150
    dense_only = without_terms("number 7")
    assert len(find(corpus, dense_only, 5).documents) == 50
    assert len(find(corpus, dense_only, 30).documents) == 120


PAIRS = st.lists(
    st.tuples(st.sampled_from([0, 0.1, 0.2, 0.5, 1.0]), st.sampled_from([0, 0.1, 0.5, 2.0])),
    min_size=1,
    max_size=12,
)


def fuse(*channels):
    return reciprocal_rank_fusion([np.array(scores, np.float64) for scores in channels]).tolist()


def test_fused_scores_are_sums_of_reciprocal_ranks():
    fused = fuse([0.9, 0.5, 0.1], [0.2, 0.8, 0.0])
    best = 2 / 61
    assert fused == pytest.approx(
        [(1 / 61 + 1 / 62) / best, (1 / 62 + 1 / 61) / best, (1 / 63) / best]
    )


def test_equal_scores_share_the_better_rank():
    fused = fuse([0.5, 0.5, 0.2])
    assert fused == pytest.approx([1.0, 1.0, 61 / 63])


@given(PAIRS, st.randoms())
def test_neither_the_order_of_candidates_nor_of_channels_counts(rows, random):
    words, vectors = (list(column) for column in zip(*rows, strict=True))
    order = list(range(len(rows)))
    random.shuffle(order)
    fused = fuse(words, vectors)
    assert fuse(vectors, words) == pytest.approx(fused)
    assert fuse([words[i] for i in order], [vectors[i] for i in order]) == [fused[i] for i in order]
    assert all(0 <= score <= 1 + 1e-12 for score in fused)
