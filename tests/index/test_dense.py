"""The FAISS index of a segment against brute-force numpy."""

import numpy as np
import pytest

from skillsearch.errors import CacheError
from skillsearch.index.dense.vectors import DenseCodes


@pytest.fixture
def codes(clustered):
    """An index of 300 rows."""
    rows = clustered(300)
    index = DenseCodes.build(rows)
    index.add(rows[:200])
    index.add(rows[200:])
    return index


def test_of_coded_rows_about_the_nearest_are_found(clustered):
    """Of the ten nearest of 4,000, at least 99 in 100 are among 200."""
    rows, queries = np.split(clustered(4100, dimensions=384), [4000])
    index = DenseCodes.build(rows)
    index.add(rows)
    nearest = (np.argsort(-(rows @ query))[:10] for query in queries)
    found = [
        len(np.intersect1d(index.search(query, 200), best))
        for query, best in zip(queries, nearest, strict=True)
    ]
    assert sum(found) / 1000 >= 0.99


@pytest.mark.parametrize("dimensions", [7, 30, 50])
def test_rows_of_any_length_are_coded(clustered, dimensions):
    """Of a length that four does not divide a code stands for fewer: the nearest are among 100."""
    rows, queries = np.split(clustered(1020, dimensions=dimensions), [1000])
    index = DenseCodes.build(rows)
    index.add(rows)
    assert index.shape == (1000, dimensions)
    for query in queries:
        nearest = np.argsort(-(rows @ query))[:5]
        assert np.isin(nearest, index.search(query, 100)).all()


def test_a_saved_index_finds_the_same(tmp_path, codes, clustered):
    """Mapped rather than read."""
    codes.save(tmp_path / "d.faiss")
    loaded = DenseCodes.load(tmp_path / "d.faiss")
    assert loaded.shape == codes.shape == (300, 64)
    for query in clustered(5, seed=4):
        assert loaded.search(query, 7).tolist() == codes.search(query, 7).tolist()


@pytest.mark.parametrize("keep", [0, 3, 20, 0.5, -1])
def test_a_torn_file_is_a_cache_error(tmp_path, codes, keep):
    """Cut at once, in the header, in the middle, before the last byte."""
    path = tmp_path / "d.faiss"
    codes.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(CacheError, match=r"d\.faiss cannot be read"):
        DenseCodes.load(path)
    path.unlink()
    with pytest.raises(CacheError, match=r"d\.faiss cannot be read"):
        DenseCodes.load(path)
