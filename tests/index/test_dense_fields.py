"""The vectors of an index against brute-force numpy, and half precision to float32."""

from dataclasses import replace

import faiss
import numpy as np
import pytest

from skillsearch.errors import CacheError
from skillsearch.index.dense.faiss_files import FaissWriter
from skillsearch.index.dense.vectors import (
    SECOND_SHARE,
    DenseFields,
    DenseIndex,
    DenseWriter,
    as_floats,
)

NOTHING = np.zeros(0, np.int64)


CODED = {"flat_limit": 10, "training_rows": 100}
"""Use codes from eleven documents on."""


def nearest_to(dense, query, k, excluded=NOTHING):
    """Return the documents of fields or of an index that are nearest to one query."""
    return dense.nearest_to_each(query[np.newaxis], k, excluded)[0]


@pytest.fixture
def fields(tmp_path_factory):
    def build(metadata, examples=None, block=70, **options):
        folder = tmp_path_factory.mktemp("dense")
        with_examples = examples is not None
        writer = DenseWriter(
            folder, "d", metadata.shape[1], len(metadata), with_examples=with_examples, **options
        )
        for first in range(0, len(metadata), block):
            rows = slice(first, first + block)
            writer.add(*(field[rows] for field in (metadata, examples)[: 1 + with_examples]))
        writer.finish()
        return DenseFields.load(folder, "d")

    return build


def both(metadata, examples):
    """Return what is searched: the metadata and its share of the second field, as a mean."""
    if examples is None:
        return metadata
    return (metadata + SECOND_SHARE * examples) / (1 + SECOND_SHARE)


def brute(metadata, examples, query, k, excluded=()):
    near = both(metadata, examples) @ query
    order = [number for number in np.argsort(-near, kind="stable") if number not in excluded]
    return sorted(order[:k])


@pytest.mark.parametrize("size", [1, 10, 11])
def test_every_file_is_an_index_of_faiss(tmp_path, clustered, size):
    writer = DenseWriter(tmp_path, "d", 64, size, with_examples=True, **CODED)
    writer.add(clustered(size), clustered(size, seed=8))
    writer.finish()
    kinds = {"d-metadata.faiss": "IndexFlatIP", "d-examples.faiss": "IndexScalarQuantizer"}
    if size > 10:
        kinds |= {"d-metadata.faiss": "IndexScalarQuantizer", "d-codes.faiss": "IndexPQFastScan"}
    indexes = {path.name: faiss.read_index(str(path)) for path in tmp_path.iterdir()}
    assert {name: type(index).__name__ for name, index in indexes.items()} == kinds
    assert {(index.ntotal, index.d) for index in indexes.values()} == {(size, 64)}


@pytest.mark.parametrize("with_examples", [True, False])
@pytest.mark.parametrize("k", [1, 5, 100, 1000])
def test_a_small_corpus_is_searched_exactly(fields, clustered, with_examples, k):
    metadata, examples = clustered(300), clustered(300, seed=8) if with_examples else None
    dense = fields(metadata, examples)
    assert dense.codes is None
    assert dense.fields[0].dtype == np.float32
    for query in clustered(10, seed=4):
        nearest = nearest_to(dense, query, k)
        assert nearest.tolist() == brute(metadata, examples, query, k)


def test_a_large_corpus_is_searched_by_codes(fields, clustered):
    """Of the ten nearest of 4,000, at least 99 in 100 are found, scored to 0.0003."""
    metadata, queries = np.split(clustered(1530, dimensions=384), [1500])
    examples = metadata + clustered(1500, dimensions=384, seed=8)
    examples /= np.linalg.norm(examples, axis=1, keepdims=True)
    dense = fields(metadata, examples, block=512, **CODED)
    assert dense.codes is not None
    assert [rows.dtype for rows in dense.fields] == [np.float16] * 2
    right = 0
    for query in queries:
        nearest = nearest_to(dense, query, 10)
        exact = both(metadata, examples) @ query
        near = dense.similarities(query, nearest)
        np.testing.assert_allclose(near, exact[nearest], atol=3e-4)
        right += len(np.intersect1d(nearest, brute(metadata, examples, query, 10)))
    assert right / (10 * len(queries)) >= 0.99


def test_among_many_alike_more_are_looked_at(fields, clustered):
    """Ten thousand copies of ten texts with noise: a share of all, beside which 200 are too few."""
    texts = clustered(10, dimensions=384)
    random = np.random.default_rng(5)
    rows = np.repeat(texts, 1000, axis=0) + 0.02 * random.normal(size=(10_000, 384))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    whole, shares = fields(rows, block=4096, **CODED), {}
    for share in (500, 10):
        dense = replace(whole, coded_share=share)
        right = [
            len(np.intersect1d(nearest_to(dense, text, 10), brute(rows, None, text, 10)))
            for text in texts
        ]
        shares[share] = sum(right) / 100
    assert shares[10] >= 0.95
    assert shares[10] > shares[500]


@pytest.mark.parametrize("is_coded", [False, True])
@pytest.mark.parametrize("left_out", [1, 50, 250, 300])
def test_what_is_excluded_is_made_up_for(fields, clustered, is_coded, left_out):
    metadata = clustered(300)
    dense = fields(metadata, flat_limit=10 if is_coded else 5000)
    query = clustered(1, seed=4)[0]
    excluded = np.sort(np.argsort(-(metadata @ query))[:left_out])
    nearest = nearest_to(dense, query, 20, excluded).tolist()
    expected = brute(metadata, None, query, 20, set(excluded.tolist()))
    assert len(nearest) == len(expected)
    assert len(set(nearest) & set(expected)) >= 0.9 * len(expected)


@pytest.mark.parametrize("is_coded", [False, True])
def test_of_equal_vectors_the_first_are_found(fields, is_coded):
    rows = np.repeat(np.eye(4, dtype=np.float32), 5, axis=0)
    dense = fields(rows, flat_limit=5 if is_coded else 5000)
    query = np.array([0, 1, 0, 0], np.float32)
    assert nearest_to(dense, query, 5).tolist() == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("is_coded", [False, True])
def test_cosines_are_the_same_in_blocks(fields, clustered, is_coded):
    metadata, query = clustered(600), clustered(1, seed=4)[0]
    numbers = np.arange(599, -1, -1)
    (cosines,) = fields(metadata, flat_limit=10 if is_coded else 5000).cosines(query, numbers)
    np.testing.assert_allclose(cosines, metadata[numbers] @ query, atol=3e-4 if is_coded else 1e-6)


@pytest.mark.parametrize("size", [9, 300])
def test_the_blocks_of_writing_make_no_difference(fields, clustered, size):
    metadata, examples = clustered(size), clustered(size, seed=8)
    first, second = (fields(metadata, examples, block=block, **CODED) for block in (7, 150))
    for rows, other_rows in zip(first.fields, second.fields, strict=True):
        np.testing.assert_array_equal(rows, other_rows)
    for query in clustered(5, seed=4):
        assert nearest_to(first, query, 7).tolist() == nearest_to(second, query, 7).tolist()


@pytest.mark.parametrize("change", [lambda v: v[:-1], lambda v: v[:, :-1]])
@pytest.mark.parametrize("name", ["d-metadata.faiss", "d-examples.faiss"])
@pytest.mark.parametrize("flat_limit", [10, 20])
def test_vectors_that_do_not_fit_the_index_are_a_cache_error(
    tmp_path, clustered, change, name, flat_limit
):
    writer = DenseWriter(tmp_path, "d", 64, 20, with_examples=True, flat_limit=flat_limit)
    writer.add(clustered(20), clustered(20))
    writer.finish()
    rows = change(clustered(20))
    other = FaissWriter(tmp_path / name, np.float32, rows.shape[1:])
    other.append(rows)
    other.close()
    with pytest.raises(CacheError, match="do not fit"):
        DenseFields.load(tmp_path, "d")


def test_two_segments_are_searched_as_one(fields, clustered):
    metadata, examples = clustered(330), clustered(330, seed=8)
    large = fields(metadata[:300], examples[:300], flat_limit=100)
    small = fields(metadata[300:], examples[300:], beside_codes=True)
    assert (large.codes is None, small.codes is None) == (False, True)
    index = DenseIndex((large, small))
    whole = fields(metadata, examples, flat_limit=100)
    everything = np.arange(330)
    excluded = np.array([5, 6, 299, 300, 310])
    for query in clustered(10, seed=4):
        for cosines, whole_cosines in zip(
            index.cosines(query, everything), whole.cosines(query, everything), strict=True
        ):
            np.testing.assert_allclose(cosines, whole_cosines, atol=1e-6)
        nearest = nearest_to(index, query, 10, excluded).tolist()
        expected = brute(metadata, examples, query, 10, set(excluded.tolist()))
        assert len(set(nearest) & set(expected)) >= 9
    numbers = np.array([300, 0, 329, 299, 0])
    expected = whole.fields[0][numbers].astype(np.float32)
    np.testing.assert_array_equal(index.vectors_of(numbers), expected)
    for beyond in (330, -1):
        with pytest.raises(IndexError):
            index.vectors_of(np.array([0, beyond]))


def test_every_finite_half_is_converted_exactly():
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    assert len(halves) == 63_488
    assert as_floats(halves).tobytes() == halves.astype(np.float32).tobytes()


def test_no_rows_one_and_rows_that_do_not_lie_side_by_side_keep_their_shape():
    halves = np.random.default_rng(1).normal(size=(8, 6)).astype(np.float16)
    for view in (halves, halves[:0], halves[0], halves[::2], halves.T, halves[:, ::3]):
        np.testing.assert_array_equal(as_floats(view), view.astype(np.float32), strict=True)
