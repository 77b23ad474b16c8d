"""Arrays on disk: written as .npy, read by mapping, never pickled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.errors import CacheError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as `numpy.save` does, but with every error of the disk.

    `numpy.save` leaves the data to the C library, where a full disk can swallow the end of a file
    without a word; the file would then be sealed as it is.

    Args:
        path: The file, ending in ``.npy``.
        array: The array, of numbers.

    Raises:
        OSError: When it cannot be written whole.
    """
    header = np.lib.format.header_data_from_array_1_0(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(np.ascontiguousarray(array).data)


def map_array(path: Path) -> NDArray[Any]:
    """Map an array that `save_array` wrote; its pages are read when they are touched.

    Args:
        path: The file.

    Returns:
        The array, read-only.

    Raises:
        CacheError: When the file is missing, damaged, or holds anything but numbers.
    """
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as exc:
        raise CacheError(f"{path} cannot be read: {exc}") from exc
    # np.memmap costs microseconds at each slice that a plain array does not.
    return np.asarray(mapped).view(np.ndarray)
