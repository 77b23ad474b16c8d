"""The terms of documents to the arrays of a lexical field, against a naive count and rank_bm25."""

import tempfile
from collections import Counter
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from skillsearch.index.lexical.builder import LexicalWriter
from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.lexical.postings import K1, B, LexicalSegment, average_idf
from skillsearch.text.tokenizer import term_hash

TERMS = st.sampled_from(["alpha", "beta", "gamma", "delta", "数据", "c++", "x", "y", "\ud800"])
TEXTS = st.lists(TERMS, max_size=12)
CORPORA = st.lists(TEXTS, max_size=20)


NOTHING = np.zeros(0, np.int64)


def all_scores(field, query):
    size = field.statistics.documents
    return field.best(field.weigh(Counter(query)), 1, NOTHING).scores_of(np.arange(size))


@pytest.fixture(scope="session")
def written(segment_of):
    return lambda texts, **options: lists(segment_of(texts, **options))


def lists(segment):
    return {field.name: getattr(segment, field.name).tolist() for field in fields(segment)}


def naive(texts):
    """Return the arrays of a segment of texts, counted one posting at a time."""
    counts = [Counter(text) for text in texts]
    postings = sorted(
        (term_hash(term), number, count)
        for number, terms in enumerate(counts)
        for term, count in terms.items()
    )
    hashes = sorted({posting[0] for posting in postings})
    sizes = [sum(posting[0] == hash_ for posting in postings) for hash_ in hashes]
    mean = max(sum(map(len, texts)) / max(len(texts), 1), 1e-9)
    peaks = dict.fromkeys(hashes, 0.0)
    for hash_, number, tf in postings:
        damping = K1 * (1 - B + B * len(texts[number]) / mean)
        peaks[hash_] = max(peaks[hash_], tf * (K1 + 1) / (tf + damping))
    return {
        "hashes": hashes,
        "starts": np.cumsum([0, *sizes]).tolist(),
        "documents": [posting[1] for posting in postings],
        "frequencies": [posting[2] for posting in postings],
        "peaks": pytest.approx(list(peaks.values()), rel=1e-6),
        "lengths": [len(text) for text in texts],
        "statistics": pytest.approx([mean, average_idf(np.array(sizes), len(texts))]),
        "words": [],
        "word_ends": [],
    }


@given(CORPORA, st.integers(1, 30))
@pytest.mark.slow
def test_a_segment_holds_what_a_naive_count_finds(written, texts, run_terms):
    arrays = written(texts, run_terms=run_terms)
    assert arrays == naive(texts)
    assert arrays == written(texts)


def test_a_large_corpus_scores_as_bm25okapi(segment_of, zipf_texts):
    texts = zipf_texts(3000)
    field = LexicalField.of(segment_of(texts, run_terms=10_000))
    okapi = BM25Okapi(texts)
    for query in (["w1"], ["w2", "w3", "w2"], ["w40", "w9", "w700"], [f"w{i}" for i in range(30)]):
        scores = all_scores(field, query)
        np.testing.assert_allclose(scores, okapi.get_scores(query), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_blocks_of_any_size_give_the_same_arrays(written, zipf_texts):
    texts = zipf_texts(150, 300)
    whole = written(texts)
    for block in ((3, 1_000_000), (1_000_000, 3)):
        assert written(texts, run_terms=500, block=block) == whole


@given(CORPORA, CORPORA, st.data())
@pytest.mark.slow
def test_documents_taken_over_are_as_if_they_were_added(segment_of, written, old, new, data):
    staying = sorted(data.draw(st.sets(st.integers(0, max(len(old) - 1, 0))))) if old else []
    order = data.draw(st.permutations([True] * len(staying) + [False] * len(new)))
    positions = np.flatnonzero(order) if order else np.zeros(0, np.int64)
    renumber = np.full(len(old), -1, np.int32)
    renumber[staying] = positions
    sources = iter(staying), iter(new)
    texts = [old[next(sources[0])] if is_old else next(sources[1]) for is_old in order]
    with tempfile.TemporaryDirectory() as folder:
        writer = LexicalWriter(Path(folder), "field", run_terms=9)
        writer.take_over(segment_of(old), renumber)
        for number, is_old in enumerate(order):
            if not is_old:
                writer.add(number, texts[number])
        writer.finish(len(texts))
        assert lists(LexicalSegment.load(Path(folder), "field")) == written(texts)


def test_a_frequency_is_cut_to_what_16_bits_hold(segment_of):
    segment = segment_of([["a"] * 70_000 + ["b"], []])
    assert sorted(segment.frequencies.tolist()) == [1, 65_535]
    assert segment.lengths.tolist() == [65_536, 0]


def test_only_the_arrays_are_left_in_the_folder(tmp_path, zipf_texts):
    writer = LexicalWriter(tmp_path, "field", run_terms=100)
    for number, text in enumerate(zipf_texts(100, 50)):
        writer.add(number, text)
    writer.finish(100)
    names = {f"field-{field.name}.npy" for field in fields(LexicalSegment)}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_the_types_are_those_that_searches_rely_on(segment_of):
    for texts in ([], [["a"], ["a", "b"]]):
        segment = segment_of(texts)
        types = [getattr(segment, field.name).dtype.name for field in fields(segment)]
        assert types == [
            *("uint64", "int64", "int32", "uint16", "float32", "int32", "float64"),
            *("uint8", "int64"),
        ]
