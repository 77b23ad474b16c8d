"""BM25 as a sparse matrix, against rank_bm25 and brute force."""

from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from skillsearch.errors import CacheError
from skillsearch.index.lexical import (
    SATURATION_LIMIT,
    UNKNOWN_BIGRAM_WEIGHT,
    LexicalIndex,
    TermCounter,
    TermCounts,
    build_lexical,
    term_hash,
    top_documents,
)
from skillsearch.index.okapi import NO_MEAN

TERMS = st.sampled_from(["alpha", "beta", "gamma", "delta", "数据", "c++", "x", "y", "z"])
TEXTS = st.lists(TERMS, max_size=12)
CORPORA = st.lists(TEXTS, min_size=3, max_size=20).filter(any)


def count(texts, order=None):
    """Count the terms of texts, in an order of the documents."""
    counter = TermCounter()
    for document in order or range(len(texts)):
        counter.add(document, texts[document])
    return counter.counts()


def index_of(texts):
    """Index texts."""
    return build_lexical(count(texts), len(texts))


def arrays(index):
    """Return the bytes of all arrays."""
    return {field.name: getattr(index, field.name).tobytes() for field in fields(index)}


def split(*texts):
    """Split texts at spaces."""
    return [text.split() for text in texts]


@given(CORPORA, st.lists(TERMS | st.just("unknown"), max_size=6))
def test_scores_are_those_of_bm25okapi(texts, query):
    """Empty documents, repeated query terms and frequent terms included."""
    okapi = BM25Okapi(texts)
    assume(okapi.average_idf > NO_MEAN)
    scores = index_of(texts).scores(Counter(query))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, okapi.get_scores(query), rtol=1e-4, atol=1e-6)


def test_scores_are_those_of_bm25okapi_on_a_large_corpus():
    """Two thousand documents with the word frequencies of a language."""
    random = np.random.default_rng(7)
    texts = [
        [f"w{term}" for term in random.zipf(1.3, random.integers(1, 60)) if term < 5000]
        for _ in range(2000)
    ]
    index, okapi = index_of(texts), BM25Okapi(texts)
    for query in (["w1"], ["w2", "w3", "w2"], ["w40", "w9", "w700"], [f"w{i}" for i in range(30)]):
        np.testing.assert_allclose(
            index.scores(Counter(query)), okapi.get_scores(query), rtol=1e-4, atol=1e-6
        )


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
def test_tiny_corpora_score_a_match_above_zero(texts, query, expected):
    """Where BM25Okapi divides by zero or goes below it, every term weighs 1."""
    scores = index_of(texts).scores(Counter(query.split()))
    assert scores.tolist() == pytest.approx(expected)


def test_a_match_is_decided_by_postings():
    """A term in half of the documents has no weight, but does occur."""
    index = index_of(split("a b", "a c", "d e", "f g"))
    assert index.scores(Counter(["a"])).tolist() == [0.0] * 4
    assert [index.matches("a", document) for document in range(4)] == [True, True, False, False]
    assert not index.matches("unknown", 0)
    assert not index.matches("g", 2)
    assert not index_of([]).matches("a", 0)


@given(CORPORA, TERMS)
def test_matches_tells_what_the_texts_hold(texts, term):
    """Term by term, document by document."""
    index = index_of(texts)
    assert [index.matches(term, i) for i in range(len(texts))] == [term in t for t in texts]


@given(CORPORA, st.randoms())
def test_the_order_of_counting_makes_no_difference(texts, random):
    """The same bytes come of documents counted in any order."""
    order = list(range(len(texts)))
    random.shuffle(order)
    assert arrays(build_lexical(count(texts, order), len(texts))) == arrays(index_of(texts))


@given(CORPORA, st.data())
def test_an_index_built_in_steps_equals_one_built_at_once(texts, data):
    """Postings given back under new numbers, others left out, new ones added."""
    kept = data.draw(st.lists(st.sampled_from(range(len(texts))), unique=True))
    fresh = data.draw(st.lists(TEXTS, max_size=5))
    renumber = np.full(len(texts), -1, np.int32)
    renumber[kept] = np.arange(len(kept))
    counter = TermCounter()
    for number, text in enumerate(fresh, start=len(kept)):
        counter.add(number, text)
    old = index_of(texts).counts(renumber)
    both = TermCounts.concatenate([old, counter.counts()])
    expected = [texts[number] for number in kept] + fresh
    assert arrays(build_lexical(both, len(expected))) == arrays(index_of(expected))


@given(CORPORA, TEXTS.filter(bool))
def test_no_document_attains_more_than_the_attainable(texts, query):
    """Not even one that repeats the query a thousand times."""
    texts = [*texts, query * 1000]
    index, counts = index_of(texts), Counter(query)
    attainable = index.attainable(counts)
    assert index.scores(counts).max() <= attainable * (1 + 1e-6)


def test_unknown_terms_raise_the_attainable_as_the_rarest_would(counted):
    """Two and a half times log((n + .5) / .5) each; a piece of a word by a share of that."""
    index = index_of(split("a b", "c d", "e 数据"))
    assert index.rarest_idf == pytest.approx(np.log(3.5 / 0.5))
    rarest = SATURATION_LIMIT * index.rarest_idf
    assert index.attainable(counted("zz")) == pytest.approx(rarest)
    assert index.attainable(counted("zz zz yy")) == pytest.approx(3 * rarest)
    assert index.attainable(counted("据库 zz 据库")) == pytest.approx(
        (1 + 2 * UNKNOWN_BIGRAM_WEIGHT) * rarest
    )
    assert index.attainable(Counter()) == 0
    known = index.attainable(counted("数据"))
    assert known == pytest.approx(SATURATION_LIMIT * index.idf[index.rows(["数据"])["数据"]])


@given(CORPORA, st.lists(TERMS | st.sampled_from(["unknown", "据库"]), max_size=6))
def test_the_attainable_has_a_known_and_an_unknown_part(texts, query):
    """They add up, and each is that of its own terms alone."""
    index = index_of(texts)
    held = {term for text in texts for term in text}
    known, unknown = index.attainable_parts(Counter(query))
    assert known + unknown == index.attainable(Counter(query))
    ours, others = ([t for t in query if (t in held) == is_ours] for is_ours in (True, False))
    assert index.attainable_parts(Counter(ours)) == pytest.approx((known, 0))
    assert index.attainable_parts(Counter(others)) == pytest.approx((0, unknown))


@given(CORPORA)
def test_no_term_of_a_corpus_weighs_more_than_an_unknown_one(texts):
    """So that a weight over `rarest_idf` is a share."""
    index = index_of(texts)
    assert index.idf.max() <= index.rarest_idf


@given(CORPORA)
def test_a_row_holds_the_documents_of_its_term(texts):
    """Row by row, document by document."""
    index = index_of(texts)
    rows = index.rows(term for text in texts for term in text)
    for term, row in rows.items():
        assert [index.holds(row, i) for i in range(len(texts))] == [term in t for t in texts]


def test_a_frequency_beyond_what_a_posting_holds_is_cut():
    """65,536 repeats count as 65,535, and so does the length."""
    index = index_of([["a"] * 70_000, ["b"], ["c"]])
    assert sorted(index.frequencies.tolist()) == [1, 1, 65_535]
    assert index.lengths.tolist() == [65_535, 1, 1]


def test_terms_are_known_by_a_hash_that_does_not_change():
    """Indexes outlive processes; lone surrogates have a hash too."""
    assert term_hash("skill") == 0x728DAB833726CC39
    assert term_hash("\ud800") != term_hash("\ud801")


def test_rows_keeps_the_order_of_the_query_and_leaves_out_the_unknown():
    """Repeats count once."""
    index = index_of(split("b a", "c", "d"))
    assert list(index.rows(["d", "zz", "a", "d"])) == ["d", "a"]
    assert index.rows([]) == {}
    assert index_of([[]]).rows(["a"]) == {}


@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.5, 1.0, 2.0]), max_size=300), st.integers(1, 400)
)
def test_top_documents_are_those_of_a_sort(values, k):
    """The k best above zero, and whatever ties with the last of them."""
    scores = np.array(values, np.float32)
    assert_top(scores, k)


@pytest.mark.parametrize("size", [31, 32, 33, 3200, 3232, 65_535, 65_536, 66_000, 70_001, 120_000])
@pytest.mark.parametrize("k", [1, 7, 100])
@pytest.mark.parametrize("density", [0.0, 0.001, 0.5, 1.0])
def test_top_documents_of_many_are_those_of_a_sort(size, k, density):
    """Around the sizes at which the blocks change, sparse and dense."""
    random = np.random.default_rng(size + k)
    scores = random.integers(1, 1000, size).astype(np.float32)
    scores[random.random(size) >= density] = 0
    assert_top(scores, k)


def assert_top(scores, k):
    """Compare `top_documents` with a sort."""
    found = top_documents(scores, k)
    positive = np.sort(scores[scores > 0])[::-1]
    lowest = positive[min(k, len(positive)) - 1] if len(positive) else 1
    expected = np.flatnonzero((scores >= lowest) & (scores > 0))
    assert found.tolist() == expected.tolist()


def test_a_saved_index_gives_the_same_scores(tmp_path, counted):
    """The arrays come back as they were, mapped rather than read."""
    index = index_of(split("a b a", "b c", "d", ""))
    index.save(tmp_path, "field")
    loaded = LexicalIndex.load(tmp_path, "field")
    assert arrays(loaded) == arrays(index)
    assert loaded.scores(counted("a b")).tolist() == index.scores(counted("a b")).tolist()
    assert len(list(tmp_path.iterdir())) == len(fields(LexicalIndex))


NAMES = [field.name for field in fields(LexicalIndex)]


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_array_is_a_cache_error(tmp_path, name):
    """Whichever it is."""
    index_of(split("a b", "c")).save(tmp_path, "field")
    (tmp_path / f"field-{name}.npy").unlink()
    with pytest.raises(CacheError, match=f"field-{name}.npy"):
        LexicalIndex.load(tmp_path, "field")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (name, damage)
        for name in NAMES
        for damage in ("dtype", "ndim", "length", "empty file", "torn file")
        if (name, damage) != ("lengths", "length")  # the size of the corpus: `Corpus` compares it
    ],
)
def test_an_array_that_does_not_fit_is_a_cache_error(tmp_path, name, damage):
    """Another type, another shape, one value too many, or half a file."""
    index = index_of(split("a b", "c d a"))
    array = getattr(index, name)
    index = {
        "dtype": lambda: replace(index, **{name: array.astype(np.float64)}),
        "ndim": lambda: replace(index, **{name: array[np.newaxis]}),
        "length": lambda: replace(index, **{name: np.append(array, array[-1:] + 1)}),
    }.get(damage, lambda: index)()
    index.save(tmp_path, "field")
    path = tmp_path / f"field-{name}.npy"
    if damage.endswith("file"):
        path.write_bytes(path.read_bytes()[: 0 if damage == "empty file" else -3])
    with pytest.raises(CacheError):
        LexicalIndex.load(tmp_path, "field")
