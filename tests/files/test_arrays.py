"""Tests of arrays on disk, against NumPy's own reader."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from skillsearch.errors import CacheError
from skillsearch.files.arrays import ArrayWriter, map_array, save_array

TYPES = st.sampled_from([np.int64, np.uint8, np.float16, np.float32, np.bool_])
ARRAYS = arrays.arrays(TYPES, arrays.array_shapes(max_dims=2, min_side=0, max_side=9))


@given(array=ARRAYS, parts=st.integers(1, 3))
def test_what_is_written_is_what_numpy_reads_and_what_is_mapped(tmp_path_factory, array, parts):
    folder = tmp_path_factory.mktemp("arrays")
    save_array(folder / "whole.npy", array)
    writer = ArrayWriter(folder / "parts.npy", array.dtype, array.shape[1:])
    for part in np.array_split(array, parts):
        writer.append(part)
    writer.close()
    assert (folder / "parts.npy").read_bytes() == (folder / "whole.npy").read_bytes()
    mapped = map_array(folder / "whole.npy")
    for read in (mapped, np.load(folder / "whole.npy")):
        np.testing.assert_array_equal(read, array, strict=True)
    assert type(mapped) is np.ndarray
    assert not mapped.flags.writeable


def test_a_file_that_ends_early_is_damaged(tmp_path):
    path = tmp_path / "a.npy"
    save_array(path, np.arange(6, dtype=np.int32).reshape(3, 2))
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(CacheError):
            map_array(path)
    path.unlink()
    with pytest.raises(CacheError):
        map_array(path)


@pytest.mark.parametrize(
    "array",
    [np.array([{}], object), np.asfortranarray(np.ones((2, 3)))],
    ids=["pickled objects", "by column"],
)
def test_what_we_never_write_is_not_read(tmp_path, array):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(CacheError):
        map_array(tmp_path / "a.npy")


@pytest.mark.filterwarnings("ignore:Reading")  # NumPy takes some for files of Python 2
@given(position=st.integers(0, 127), byte=st.binary(min_size=1, max_size=4))
def test_a_damaged_header_is_an_error_of_the_cache_or_harmless(tmp_path_factory, position, byte):
    path = tmp_path_factory.mktemp("arrays") / "a.npy"
    save_array(path, np.arange(50, dtype=np.int32))
    whole = bytearray(path.read_bytes())
    whole[position : position + len(byte)] = byte
    path.write_bytes(whole)
    try:
        mapped = map_array(path)
    except CacheError:
        return
    assert mapped.nbytes <= len(whole)
    mapped.tolist()
