"""Files of FAISS that are written and mapped without it, against FAISS."""

import faiss
import numpy as np
import pytest

from skillsearch.errors import CacheError
from skillsearch.index.dense.faiss_files import FaissWriter, map_rows

KINDS = {np.float32: faiss.IndexFlatIP, np.float16: faiss.IndexScalarQuantizer}


@pytest.fixture
def write(tmp_path):
    def write(rows, block=3):
        path = tmp_path / "rows.faiss"
        writer = FaissWriter(path, rows.dtype, rows.shape[1:])
        for begin in range(0, len(rows), block):
            writer.append(rows[begin : begin + block])
        writer.close()
        writer.close()
        return path

    return write


@pytest.fixture(params=[(0, 7), (1, 384), (10, 7), (300, 64)])
def floats(request, clustered):
    """Unit vectors, as many and as long as a case has it."""
    size, dimensions = request.param
    return clustered(size + 1, dimensions)[1:]


@pytest.mark.parametrize("dtype", KINDS)
def test_faiss_reads_the_file_and_writes_the_same_bytes(write, floats, dtype, tmp_path):
    rows = floats.astype(dtype)
    index = faiss.read_index(str(write(rows)))
    assert isinstance(index, KINDS[dtype])
    assert (index.ntotal, index.d, index.metric_type) == (*rows.shape, faiss.METRIC_INNER_PRODUCT)
    faiss.write_index(index, str(tmp_path / "theirs"))
    assert (tmp_path / "theirs").read_bytes() == write(rows).read_bytes()
    theirs = KINDS[dtype](rows.shape[1], *_how(dtype))
    theirs.add(rows.astype(np.float32))
    faiss.write_index(theirs, str(tmp_path / "made"))
    assert (tmp_path / "made").read_bytes() == write(rows).read_bytes()
    if len(rows):
        np.testing.assert_array_equal(index.reconstruct_n(0, len(rows)), rows.astype(np.float32))
        nearest = index.search(floats[:1], 1)
        products = rows.astype(np.float32) @ floats[0]
        assert nearest[1][0, 0] == products.argmax()
        assert nearest[0][0, 0] == pytest.approx(products.max(), abs=1e-6)


def _how(dtype):
    halves = (faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    return halves if dtype is np.float16 else ()


@pytest.mark.parametrize("dtype", KINDS)
def test_what_faiss_writes_is_mapped(floats, dtype, tmp_path):
    floats = floats.astype(dtype).astype(np.float32)  # FAISS rounds some halves otherwise
    index = KINDS[dtype](floats.shape[1], *_how(dtype))
    index.add(floats)
    faiss.write_index(index, str(tmp_path / "theirs"))
    rows = map_rows(tmp_path / "theirs")
    assert (rows.dtype, rows.shape) == (dtype, floats.shape)
    assert not rows.flags.writeable
    np.testing.assert_array_equal(rows, floats.astype(dtype))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("keep", [0, 3, 44, 80, -1])
def test_a_torn_file_is_a_cache_error(write, clustered, dtype, keep):
    path = write(clustered(9).astype(dtype))
    whole = path.read_bytes()
    for data in (whole[:keep], whole + b"\0"):
        path.write_bytes(data)
        with pytest.raises(CacheError, match=r"rows\.faiss cannot be read"):
            map_rows(path)
    path.unlink()
    with pytest.raises(CacheError, match=r"rows\.faiss cannot be read"):
        map_rows(path)


@pytest.mark.parametrize("dtype", KINDS)
def test_any_other_header_is_a_cache_error(write, clustered, dtype):
    rows = clustered(9).astype(dtype)
    path = write(rows)
    whole = path.read_bytes()
    for bit in range(8 * (len(whole) - rows.nbytes)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        with pytest.raises(CacheError, match="cannot be read"):
            map_rows(path)
