"""The FAISS index of a segment against brute-force numpy."""

import numpy as np
import pytest

from skillsearch.errors import CacheError
from skillsearch.index.dense.vectors import load_codes, save_codes, search_codes, train_codes


@pytest.fixture
def codes(clustered):
    rows = clustered(300)
    index = train_codes(rows)
    index.add(rows[:200])
    index.add(rows[200:])
    return index


@pytest.mark.parametrize("dimensions", [7, 30, 50])
def test_rows_of_any_length_are_coded(clustered, dimensions):
    """Of a length that four does not divide a code stands for fewer: the nearest are among 100."""
    rows, queries = np.split(clustered(1020, dimensions=dimensions), [1000])
    index = train_codes(rows)
    index.add(rows)
    assert (index.ntotal, index.d) == (1000, dimensions)
    for query in queries:
        nearest = np.argsort(-(rows @ query))[:5]
        assert np.isin(nearest, search_codes(index, query, 100)).all()


def test_a_saved_index_finds_the_same(tmp_path, codes, clustered):
    save_codes(codes, tmp_path / "d.faiss")
    loaded = load_codes(tmp_path / "d.faiss")
    for index in (loaded, codes):
        assert (index.ntotal, index.d) == (300, 64)
    for query in clustered(5, seed=4):
        nearest = search_codes(loaded, query, 7)
        assert nearest.tolist() == search_codes(codes, query, 7).tolist()


@pytest.mark.parametrize("keep", [0, 3, 20, 0.5, -1])
def test_a_torn_file_is_a_cache_error(tmp_path, codes, keep):
    path = tmp_path / "d.faiss"
    save_codes(codes, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(CacheError, match=r"d\.faiss cannot be read"):
        load_codes(path)
    path.unlink()
    with pytest.raises(CacheError, match=r"d\.faiss cannot be read"):
        load_codes(path)
