"""Vectors in files of FAISS, which are written and mapped here without importing it.

``faiss.read_index`` reads float32 as an ``IndexFlatIP`` and halves as an ``IndexScalarQuantizer``,
and ``faiss.write_index`` writes the same bytes. Importing FAISS takes 40 ms of CPU, a tenth of a
query in a process of its own, to save 0.07 ms of scanning 3,000 vectors; so only codes, for which
there is no other reader, are left to it.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import UnusableError
from skillsearch.files.arrays import ArrayWriter
from skillsearch.files.atomic_files import reading

Rows = NDArray[Any]

# Four letters for the kind of index, dimensions, vectors, two numbers that FAISS ignores, whether
# it is trained, the metric: 0 is the inner product.
_INDEX = struct.Struct("<4siqqq?i")
_IGNORED = 1 << 20
# A scalar quantizer to halves: type 4, its ranges, dimensions and bytes of a code, nothing learned.
_QUANTIZER = struct.Struct("<iifQQQ")
_HALVES = 4
_LENGTH = struct.Struct("<Q")
_KINDS: dict[bytes, np.dtype[Any]] = {b"IxFI": np.dtype(np.float32), b"IxSQ": np.dtype(np.float16)}


class FaissWriter(ArrayWriter):
    """Writes rows of float32 or float16 as a FAISS index, before their number is known."""

    def _header(self, count: int) -> bytes:
        return _header(self._dtype, count, *self._row)


def map_rows(path: Path) -> Rows:
    """Map what a `FaissWriter` wrote, read-only; it fails as `reading` does.

    No header of FAISS is a multiple of four bytes long, so the rows are not aligned: take some of
    them before they are calculated with, since NumPy would copy all.
    """
    with reading(path):
        data = np.memmap(path, np.uint8, "r").view(np.ndarray)
        code, dimensions, count, *_ = _INDEX.unpack(data[: _INDEX.size].tobytes())
        header = _header(_KINDS[code], count, dimensions)
        if data[: len(header)].tobytes() != header:
            raise UnusableError("its header is damaged")
        return data[len(header) :].view(_KINDS[code]).reshape(count, dimensions)


def _header(dtype: np.dtype[Any], count: int, dimensions: int) -> bytes:
    """Return the bytes before the rows; a struct.error for sizes that do not fit into it."""
    code = next(code for code, known in _KINDS.items() if known == dtype)
    index = _INDEX.pack(code, dimensions, count, _IGNORED, _IGNORED, True, 0)
    if dtype == np.float32:
        return index + _LENGTH.pack(count * dimensions)  # in numbers
    width = dtype.itemsize * dimensions
    quantizer = _QUANTIZER.pack(_HALVES, 0, 0.0, dimensions, width, 0)
    return index + quantizer + _LENGTH.pack(count * width)  # in bytes
