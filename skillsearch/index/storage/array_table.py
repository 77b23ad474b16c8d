"""Records of arrays that number the same things, each array in a separate file."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import CacheError
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.files.arrays import map_array, save_array

_ARRAY = lazy_pattern(r"NDArray\[np\.(\w+)\]")


class ArrayTable:
    """Base of frozen dataclasses of arrays, maybe mapped from files.

    Its files are called ``NAME + KIND-ARRAY.npy``; only the `MATRIX` has two dimensions.
    """

    __slots__ = ()
    KIND: ClassVar[str] = ""
    MATRIX: ClassVar[str] = ""

    def is_consistent(self) -> bool:
        """Return whether the lengths of the arrays are what readers rely on."""
        raise NotImplementedError

    def save(self, folder: Path, name: str = "") -> None:
        """Write the arrays; `KIND` is appended to the name."""
        for path, array in zip(self.paths(folder, name), self.arrays().values(), strict=True):
            save_array(path, array)

    @classmethod
    def load(cls, folder: Path, name: str = "") -> Self:
        """Map what `save` wrote; a CacheError if an array is missing or does not fit the others."""
        arrays = dict(zip(cls.forms(), map(map_array, cls.paths(folder, name)), strict=True))
        forms = {name: (array.dtype, array.ndim) for name, array in arrays.items()}
        if forms != cls.forms() or not (table := cls.of(arrays)).is_consistent():
            raise CacheError(f"the arrays {name + cls.KIND!r} of the index do not fit each other")
        return table

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name."""
        return {name: getattr(self, name) for name in self._annotated()}

    @classmethod
    def of(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Make a table of arrays by name."""
        return cls(**arrays)

    @classmethod
    def forms(cls) -> dict[str, tuple[np.dtype[Any], int]]:
        """Return the type and the number of dimensions of each array, by its name."""
        return cls._annotated()

    @classmethod
    @cache
    def _annotated(cls) -> dict[str, tuple[np.dtype[Any], int]]:
        # As annotations are written: what they mean has another form from NumPy 2.5 on.
        hints = ((each.name, _ARRAY.fullmatch(str(each.type))) for each in fields(cls))  # type: ignore[arg-type]
        kinds = ((name, np.dtype(match[1])) for name, match in hints if match)
        return {name: (kind, 1 + (name == cls.MATRIX)) for name, kind in kinds}

    @classmethod
    def paths(cls, folder: Path, name: str = "") -> list[Path]:
        """Return the files of a table."""
        return [folder / f"{name}{cls.KIND}-{array}.npy" for array in cls.forms()]
