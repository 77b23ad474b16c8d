"""BM25 over one field of a corpus, against rank_bm25, brute force and sorts."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from skillsearch.index.lexical.field import (
    SATURATION_LIMIT,
    UNKNOWN_BIGRAM_WEIGHT,
    LexicalField,
    lowest_of_best,
    top_documents,
)
from skillsearch.index.lexical.postings import (
    NO_MEAN,
    LexicalStatistics,
    TermTally,
    average_idf,
)
from skillsearch.text.tokenizer import term_hash

TERMS = st.sampled_from(["alpha", "beta", "gamma", "delta", "数据", "c++", "x", "y", "z"])
TEXTS = st.lists(TERMS, max_size=12)
CORPORA = st.lists(TEXTS, min_size=3, max_size=20).filter(any)
NOTHING = np.zeros(0, np.int64)


@pytest.fixture(scope="session")
def index_of(segment_of):
    return lambda texts: LexicalField.of(segment_of(texts))


def holds(index, term, document):
    return term in index.held_terms(index.weigh(Counter([term])), document)


def idf_of(index, terms):
    return index.weigh(Counter(dict.fromkeys(terms, 1))).known_idf()


def all_scores(index, query):
    size = sum(segment.size for segment in index.segments)
    whole = replace(index, worth_pruning=1 << 62)
    return whole.best(whole.weigh(Counter(query)), 1, NOTHING).scores_of(np.arange(size))


def parts_of(weights):
    return weights.known_score, weights.unknown_score


@pytest.fixture(scope="session")
def in_two(segment_of):
    """Index texts as a large segment, some of it gone, and a small one."""

    def in_two(texts, added, gone):
        living = [text for number, text in enumerate(texts) if number not in gone] + added
        counts = Counter(term for text in living for term in set(text))
        lost = Counter(term for number in gone for term in set(texts[number]))
        terms = sorted(lost, key=term_hash)
        statistics = LexicalStatistics(
            len(living),
            max(sum(map(len, living)) / len(living), 1e-9),
            average_idf(np.array(list(counts.values()), np.int64), len(living)),
        )
        corrections = TermTally(
            np.array([term_hash(term) for term in terms], np.uint64),
            np.array([-lost[term] for term in terms], np.int64),
        )
        return LexicalField((segment_of(texts), segment_of(added)), statistics, corrections), living

    return in_two


def split(*texts):
    return [text.split() for text in texts]


@given(CORPORA, st.lists(TERMS | st.just("unknown"), max_size=6))
def test_scores_are_those_of_bm25okapi(index_of, texts, query):
    okapi = BM25Okapi(texts)
    assume(okapi.average_idf > NO_MEAN)
    scores = all_scores(index_of(texts), query)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, okapi.get_scores(query), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("texts", "query", "expected"),
    [
        ([], "a", []),
        ([[]], "a", [0.0]),
        ([["a"]], "a", [1.0]),
        ([["a"]], "b", [0.0]),
        ([["a"], ["b"]], "a", [1.0, 0.0]),
        ([["a"], ["a"]], "a a", [2.0, 2.0]),
        ([[], [], []], "a", [0.0, 0.0, 0.0]),
        ([["a"], ["a"], ["a"]], "a", [1.0, 1.0, 1.0]),
        ([["a"], []], "a", [2.5 / (1 + 1.5 * 1.75), 0.0]),
    ],
)
def test_tiny_corpora_score_a_match_above_zero(index_of, texts, query, expected):
    scores = all_scores(index_of(texts), query.split())
    assert scores.tolist() == pytest.approx(expected)


def test_a_match_is_decided_by_postings(index_of):
    index = index_of(split("a b", "a c", "d e", "f g"))
    assert all_scores(index, ["a"]).tolist() == [0.0] * 4
    assert [holds(index, "a", document) for document in range(4)] == [True, True, False, False]
    assert not holds(index, "unknown", 0)
    assert not holds(index, "g", 2)
    with pytest.raises(IndexError):
        holds(index_of([]), "a", 0)


@given(CORPORA, TEXTS.filter(bool))
def test_no_document_scores_more_than_the_maximum(index_of, texts, query):
    texts = [*texts, query * 1000]
    index, counts = index_of(texts), Counter(query)
    max_score = index.weigh(counts).max_score
    assert all_scores(index, counts).max() <= max_score * (1 + 1e-6)


def test_unknown_terms_raise_the_maximum_as_the_rarest_would(index_of, counted):
    """Two and a half times log((n + .5) / .5) each; a piece of a word by a share of that."""
    index = index_of(split("a b", "c d", "e 数据"))
    assert index.rarest_idf == pytest.approx(np.log(3.5 / 0.5))
    rarest = SATURATION_LIMIT * index.rarest_idf
    assert index.weigh(counted("zz")).max_score == pytest.approx(rarest)
    assert index.weigh(counted("zz zz yy")).max_score == pytest.approx(3 * rarest)
    assert index.weigh(counted("据库 zz 据库")).max_score == pytest.approx(
        (1 + 2 * UNKNOWN_BIGRAM_WEIGHT) * rarest
    )
    assert index.weigh(Counter()).max_score == 0
    maximum = index.weigh(counted("数据")).max_score
    assert maximum == pytest.approx(SATURATION_LIMIT * idf_of(index, ["数据"])["数据"])


@given(CORPORA, st.lists(TERMS | st.sampled_from(["unknown_part", "据库"]), max_size=6))
def test_the_maximum_has_a_known_and_an_unknown_part(index_of, texts, query):
    index = index_of(texts)
    vocabulary = {term for text in texts for term in text}
    known_part, unknown_part = parts_of(index.weigh(Counter(query)))
    assert known_part + unknown_part == index.weigh(Counter(query)).max_score
    ours, others = ([t for t in query if (t in vocabulary) == is_ours] for is_ours in (True, False))
    assert parts_of(index.weigh(Counter(ours))) == pytest.approx((known_part, 0))
    assert parts_of(index.weigh(Counter(others))) == pytest.approx((0, unknown_part))


@given(CORPORA)
def test_no_term_of_a_corpus_weighs_more_than_an_unknown_one(index_of, texts):
    """So that a weight over `rarest_idf` is a share."""
    index = index_of(texts)
    weights = idf_of(index, (term for text in texts for term in text))
    assert max(weights.values()) <= index.rarest_idf


@given(
    CORPORA,
    st.lists(TEXTS, max_size=5),
    st.lists(TERMS | st.just("unknown"), min_size=1, max_size=6),
    st.data(),
)
def test_a_corpus_of_two_segments_scores_as_one_of_all_living_documents(
    in_two, index_of, texts, added, query, data
):
    gone = data.draw(st.sets(st.integers(0, len(texts) - 1), max_size=len(texts) - 1))
    both, living = in_two(texts, added, gone)
    alone = index_of(living)
    staying = [number for number in range(len(texts) + len(added)) if number not in gone]
    query = Counter(query)
    assert all_scores(both, query)[staying].tolist() == all_scores(alone, query).tolist()
    assert parts_of(both.weigh(query)) == parts_of(alone.weigh(query))
    assert idf_of(both, query) == idf_of(alone, query)
    everything = np.arange(sum(segment.size for segment in both.segments))
    assert (
        both.best(both.weigh(query), 1, NOTHING).scores_of(everything).tolist()
        == all_scores(both, query).tolist()
    )
    best = both.best(both.weigh(query), 3, np.array(sorted(gone), np.int64)).documents
    positions = {number: position for position, number in enumerate(staying)}
    expected = alone.best(alone.weigh(query), 3, NOTHING).documents
    assert sorted(positions[number] for number in best.tolist()) == expected.tolist()


@pytest.fixture(scope="module")
def large_index(index_of, zipf_texts):
    return index_of(zipf_texts(3000))


@pytest.mark.parametrize("worth", [0, 50, 10**9])
@pytest.mark.parametrize("k", [1, 50])
@pytest.mark.parametrize("left_out", [0, 1, 3])
def test_the_best_are_those_of_a_sort_of_all_scores(large_index, worth, k, left_out):
    index = replace(large_index, worth_pruning=worth)
    random = np.random.default_rng(k)
    excluded = np.arange(0, 3000, left_out) if left_out else NOTHING
    for _ in range(10):
        query = Counter(f"w{term}" for term in random.zipf(1.2, 8) if term < 5000)
        scores = all_scores(index, query)
        scores[excluded] = 0
        positive = np.sort(scores[scores > 0])[::-1]
        matches = index.best(index.weigh(query), k, excluded)
        best = matches.documents
        others = np.setdiff1d(np.arange(0, 3000, 7), excluded)
        assert matches.scores_of(others).tolist() == scores[others].tolist()
        assert (np.diff(best) > 0).all()
        assert not np.isin(best, excluded).any()
        assert len(best) >= min(k, len(positive))
        # Sums in another order differ in their last bits: ties may be cut there.
        lowest = positive[min(k, len(positive)) - 1] if len(positive) else 0
        assert (scores[best] >= lowest * (1 - 1e-5)).all()
        assert set(np.flatnonzero(scores > lowest * (1 + 1e-5)).tolist()) <= set(best.tolist())


def test_few_postings_are_read_of_a_query_with_rare_and_common_words(segment_of):
    read = []

    class Counted(np.ndarray):
        def __getitem__(self, selection):
            rows = np.asarray(self)[selection]
            read.append(rows.size)
            return rows

    random = np.random.default_rng(1)
    texts = [
        ["the", "of"] + [f"w{term}" for term in random.integers(0, 300, 8)] for _ in range(3000)
    ]
    segment = segment_of(texts)
    counted = replace(segment, frequencies=segment.frequencies.view(Counted))
    index = replace(LexicalField.of(counted), worth_pruning=0)
    query = index.weigh(Counter(["the", "of", "w1", "w2", "w3"]))
    assert len(index.best(query, 3, NOTHING).documents) >= 3
    assert 0 < sum(read) < 1000


@given(CORPORA, st.lists(TERMS | st.just("unknown"), min_size=1, max_size=5))
@pytest.mark.slow
def test_the_terms_that_a_document_has_and_their_weights(segment_of, index_of, texts, query):
    both = LexicalField(
        (segment_of([["x"]]), segment_of(texts)), index_of(texts).statistics, TermTally.empty()
    )
    weights = idf_of(both, query)
    for number, text in enumerate(texts):
        expected = {term: weight for term, weight in weights.items() if term in text}
        assert both.held_terms(both.weigh(Counter(query)), number + 1) == expected


def test_weights_are_those_of_the_query_as_it_is(index_of):
    index, query = index_of(split("b a", "c", "d")), Counter(["a"])
    assert index.weigh(query).terms == ("a",)
    query["c"] += 1
    assert index.weigh(query).terms == ("a", "c")


def test_weights_are_of_the_terms_that_are_there(index_of):
    index = index_of(split("b a", "c", "d"))
    assert list(idf_of(index, ["d", "zz", "a", "d"])) == ["d", "a"]
    assert idf_of(index, []) == {}
    assert idf_of(index_of([[]]), ["a"]) == {}


@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.5, 1.0, 2.0]), max_size=300), st.integers(1, 400)
)
def test_top_documents_are_those_of_a_sort(values, k):
    scores = np.array(values, np.float32)
    assert_top(scores, k)


@pytest.mark.parametrize("size", [31, 32, 33, 3200, 3232, 65_535, 65_536, 66_000, 70_001, 120_000])
@pytest.mark.parametrize("k", [1, 100])
@pytest.mark.parametrize("density", [0.001, 0.5])
def test_top_documents_of_many_are_those_of_a_sort(size, k, density):
    random = np.random.default_rng(size + k)
    scores = random.integers(1, 1000, size).astype(np.float32)
    scores[random.random(size) >= density] = 0
    assert_top(scores, k)


def assert_top(scores, k):
    top = top_documents(scores, k)
    positive = np.sort(scores[scores > 0])[::-1]
    lowest = positive[min(k, len(positive)) - 1] if len(positive) else 1
    expected = np.flatnonzero((scores >= lowest) & (scores > 0))
    assert top.tolist() == expected.tolist()


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, -np.inf]), max_size=300), st.integers(1, 400))
def test_no_document_below_the_bound_is_among_the_best(values, k):
    scores = np.array(values, np.float32)
    bound = lowest_of_best(scores, k)
    best = np.sort(scores)[::-1][:k]
    assert bound >= 0
    assert bound <= max(best[-1], 0) if len(best) == k else bound == 0


@given(CORPORA, TEXTS, TEXTS)
def test_the_rarest_term_that_a_document_holds_has_the_most_weight(in_two, texts, added, query):
    assume(any(added))
    field, _ = in_two(texts, [added], set())
    weights = field.weigh(Counter(query))
    documents = range(len(texts), -1, -1)
    rarest = [max(field.held_terms(weights, number).values(), default=0.0) for number in documents]
    assert field.rarest_held(weights, np.array(documents)).tolist() == pytest.approx(
        rarest, abs=1e-7
    )


@given(CORPORA, CORPORA, TEXTS)
def test_the_documents_that_hold_all_terms_are_told(in_two, texts, added, query):
    field, all_texts = in_two(texts, added, set())
    expected = [n for n, text in enumerate(all_texts) if query and {*query} <= {*text}]
    assert field.holding(set(query)).tolist() == expected
