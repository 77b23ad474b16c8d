"""Dense retrieval against brute-force numpy."""

import numpy as np
import pytest

from skillsearch.errors import CacheError
from skillsearch.index import dense
from skillsearch.index.dense import DenseIndex


def unit(rows):
    """Scale rows to unit length."""
    rows = np.asarray(rows, np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def clustered(size, dimensions=64, seed=3):
    """Unit vectors around 50 centres, as texts of some 50 topics have them."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(50, dimensions))
    noise = random.normal(size=(size, dimensions)) * 0.6
    return unit(centres[random.integers(0, 50, size)] + noise)


def brute(vectors, query, k):
    """Sort all similarities: best first, ties by number."""
    similarities = vectors @ query
    order = np.lexsort((np.arange(len(vectors)), -similarities))[:k]
    return order, similarities[order]


@pytest.fixture
def coded(monkeypatch):
    """Use codes from eleven vectors on."""
    monkeypatch.setattr(dense, "FLAT_LIMIT", 10)


@pytest.mark.parametrize("k", [1, 5, 100, 1000])
def test_a_small_corpus_is_searched_exactly(k):
    """Numbers and similarities are those of a sort of all."""
    vectors = clustered(300)
    index = DenseIndex.build(vectors)
    assert index.is_exact
    for query in clustered(20, seed=4):
        documents, similarities = index.search(query, k)
        expected, scores = brute(vectors, query, k)
        np.testing.assert_allclose(similarities, scores, atol=1e-6)
        np.testing.assert_allclose(vectors[documents] @ query, vectors[expected] @ query, atol=1e-6)
        assert len(set(documents.tolist())) == min(k, 300)


def test_a_large_corpus_is_searched_by_codes(coded):
    """Of the ten nearest of 4,000 vectors, at least 99 in 100 are found, scored to 0.0002."""
    vectors, queries = np.split(clustered(4100, dimensions=384), [4000])
    index = DenseIndex.build(vectors)
    assert not index.is_exact
    found = 0
    for query in queries:
        documents, similarities = index.search(query, 10)
        np.testing.assert_allclose(similarities, vectors[documents] @ query, atol=2e-4)
        assert (np.diff(similarities) <= 0).all()
        found += len(np.intersect1d(documents, brute(vectors, query, 10)[0]))
    assert found / 1000 >= 0.99


@pytest.mark.parametrize("limit", [10, 1000])
def test_equal_vectors_come_in_order_of_their_numbers(monkeypatch, limit):
    """Whether searched exactly or by codes."""
    monkeypatch.setattr(dense, "FLAT_LIMIT", limit)
    index = DenseIndex.build(np.repeat(unit(np.eye(4)), 5, axis=0))
    documents, similarities = index.search(np.array([0, 1, 0, 0], np.float32), 7)
    assert documents[:5].tolist() == [5, 6, 7, 8, 9]
    assert similarities.tolist() == [1, 1, 1, 1, 1, 0, 0]


def test_a_zero_vector_is_similar_to_nothing():
    """A text without any token has no meaning, and neither has such a query."""
    index = DenseIndex.build(unit([[0, 0], [1, 0], [-1, 0]]))
    documents, similarities = index.search(np.array([1, 0], np.float32), 3)
    assert documents.tolist() == [1, 0, 2]
    assert similarities.tolist() == [1, 0, -1]
    assert index.search(np.zeros(2, np.float32), 3)[1].tolist() == [0, 0, 0]


@pytest.mark.parametrize(("size", "k"), [(0, 5), (3, 0), (3, -1)])
def test_nothing_is_found_in_nothing_or_for_no_hits(size, k):
    """Empty arrays of the usual types."""
    documents, similarities = DenseIndex.build(clustered(3)[:size]).search(clustered(1)[0], k)
    assert (documents.tolist(), similarities.tolist()) == ([], [])
    assert (documents.dtype, similarities.dtype) == (np.int64, np.float32)


@pytest.mark.parametrize(("size", "files"), [(0, ["d.faiss"]), (9, ["d.faiss"]), (300, None)])
def test_a_saved_index_finds_the_same(tmp_path, coded, size, files):
    """Exact or coded, empty or not; only codes need the vectors in a file of their own."""
    index = DenseIndex.build(clustered(size))
    index.save(tmp_path, "d")
    loaded = DenseIndex.load(tmp_path, "d")
    assert sorted(path.name for path in tmp_path.iterdir()) == (files or ["d.faiss", "d.npy"])
    assert loaded.is_exact == index.is_exact
    np.testing.assert_array_equal(loaded.vectors, index.vectors)
    for query in clustered(5, seed=4):
        for mine, other in zip(loaded.search(query, 7), index.search(query, 7), strict=True):
            np.testing.assert_array_equal(mine, other)


def test_similarities_are_in_the_order_asked_for():
    """Of any documents, repeats included."""
    vectors = clustered(20)
    index = DenseIndex.build(vectors)
    wanted = np.array([7, 3, 3, 19])
    query = clustered(1, seed=4)[0]
    np.testing.assert_allclose(
        index.similarities(query, wanted), vectors[wanted] @ query, atol=1e-6
    )


@pytest.mark.parametrize("size", [9, 300])
def test_the_same_vectors_give_the_same_bytes(tmp_path, coded, files_of, size):
    """Equal indexes have equal names."""
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        DenseIndex.build(clustered(size)).save(folder, "d")
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


@pytest.mark.parametrize("size", [9, 300])
@pytest.mark.parametrize("keep", [0, 3, 20, 0.5, -1])
def test_a_torn_file_is_a_cache_error(tmp_path, coded, size, keep):
    """Cut at once, in the header, in the middle, before the last byte."""
    DenseIndex.build(clustered(size)).save(tmp_path, "d")
    for path in tmp_path.iterdir():
        whole = path.read_bytes()
        path.write_bytes(whole[: int(len(whole) * keep) if isinstance(keep, float) else keep])
        with pytest.raises(CacheError):
            DenseIndex.load(tmp_path, "d")
        path.write_bytes(whole)
    DenseIndex.load(tmp_path, "d")


@pytest.mark.parametrize("name", ["d.faiss", "d.npy"])
def test_a_missing_file_is_a_cache_error(tmp_path, coded, name):
    """Either of the two."""
    DenseIndex.build(clustered(300)).save(tmp_path, "d")
    (tmp_path / name).unlink()
    with pytest.raises(CacheError, match="cannot be read"):
        DenseIndex.load(tmp_path, "d")


@pytest.mark.parametrize(
    "change", [lambda v: v[:-1], lambda v: v[:, :-1], lambda v: v.astype(np.float32)]
)
def test_vectors_that_do_not_fit_the_codes_are_a_cache_error(tmp_path, coded, change):
    """Too few, too short, of another type."""
    vectors = clustered(300)
    DenseIndex.build(vectors).save(tmp_path, "d")
    np.save(tmp_path / "d.npy", change(vectors.astype(np.float16)))
    with pytest.raises(CacheError, match="do not fit"):
        DenseIndex.load(tmp_path, "d")
