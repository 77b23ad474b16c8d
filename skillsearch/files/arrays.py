"""Arrays on disk: written as .npy, read by mapping, never pickled."""

from __future__ import annotations

import io
import math
import mmap
import os
import struct
from functools import lru_cache
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.errors import UnusableError
from skillsearch.files.atomic_files import reading
from skillsearch.files.openat import READ_FLAGS, using

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

_PREFIX = struct.Struct("<8sH")
"""Magic, version and the length of the header."""
_MOST_HEADER_BYTES = 4096


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array of numbers as ``.npy``, or raise `OSError` if it cannot be written whole.

    `numpy.save` leaves the data to the C library, in which a full disk can swallow the end of a
    file without a word.
    """
    writer = ArrayWriter(path, array.dtype, array.shape[1:])
    writer.append(array)
    writer.close()


class ArrayWriter:
    """Writes a ``.npy`` file row by row, before the number of rows is known."""

    def __init__(self, path: Path, dtype: DTypeLike, row: tuple[int, ...] = ()) -> None:
        self._dtype, self._row, self._count = np.dtype(dtype), row, 0
        self._file = path.open("wb")
        self._file.write(self._header(0))

    def append(self, rows: NDArray[Any]) -> None:
        """Append rows of the announced shape and type."""
        self._count += len(rows)
        self._file.write(np.ascontiguousarray(rows, self._dtype).data)

    def close(self) -> None:
        """Write the number of rows and close the file; closing twice does nothing."""
        if self._file.closed:
            return
        with self._file:
            # NumPy leaves as much room in a header as the largest count would take.
            self._file.seek(0)
            self._file.write(self._header(self._count))

    def _header(self, count: int) -> bytes:
        return _header(self._dtype, (count, *self._row))


@lru_cache(1_000)
def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the header of a ``.npy`` file."""
    file = io.BytesIO()
    described = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, described)
    return file.getvalue()


def map_array(path: Path) -> NDArray[Any]:
    """Map an array of numbers read-only; fails as `reading` does.

    `numpy.load` would take three times as long, which an index of some ninety arrays feels, and
    give a `numpy.memmap`, which costs microseconds at each slice that a plain array does not.
    """
    with reading(path), using(os.open(path, READ_FLAGS & ~os.O_NOFOLLOW)) as handle:
        head = os.read(handle, _MOST_HEADER_BYTES)
        start = _PREFIX.size + _PREFIX.unpack(head[: _PREFIX.size])[1]
        shape, dtype = _parse(head[:start])
        mapped = mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
        if start + math.prod(shape) * dtype.itemsize > len(mapped):
            raise UnusableError("it ends before its last row")
        return np.ndarray(shape, dtype, mapped, start)


@lru_cache(1_000)
def _parse(header: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and type that a header says, if it is one that `ArrayWriter` writes."""
    file = io.BytesIO(header)
    version = np.lib.format.read_magic(file)
    try:
        shape, is_by_column, dtype = np.lib.format.read_array_header_1_0(file)
    except (SyntaxError, TokenError) as exc:
        raise UnusableError(f"its header cannot be parsed: {exc}") from exc
    if version != (1, 0) or is_by_column or dtype.hasobject:
        raise UnusableError("it is not an array that skillsearch wrote")
    return shape, dtype
