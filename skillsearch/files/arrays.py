"""Arrays on disk: written as .npy, read by mapping, never pickled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.files.atomic_files import reading

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


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
        self._dtype = np.dtype(dtype)
        self._row = row
        self._count = 0
        self._file = path.open("wb")
        self._write_header()

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
            self._write_header()

    def _write_header(self) -> None:
        shape = (self._count, *self._row)
        described = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, described)


def map_array(path: Path) -> NDArray[Any]:
    """Map an array of numbers read-only; fails as `reading` does."""
    with reading(path):
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    # np.memmap costs microseconds at each slice that a plain array does not.
    return np.asarray(mapped).view(np.ndarray)
