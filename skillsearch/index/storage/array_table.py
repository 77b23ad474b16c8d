"""Records of arrays that number the same things, each array in a separate file."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self, get_args, get_type_hints

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.files.arrays import map_array, save_array


class ArrayTable:
    """Base of frozen dataclasses whose fields are arrays, maybe mapped from files.

    Its files are called ``NAME + KIND-FIELD.npy``; only the `MATRIX` has two dimensions.
    """

    __slots__ = ()
    KIND: ClassVar[str] = ""
    MATRIX: ClassVar[str] = ""

    def fits(self) -> bool:
        """Return whether the lengths of the arrays are what readers rely on."""
        raise NotImplementedError

    def save(self, folder: Path, name: str = "") -> None:
        """Write the arrays; `KIND` is appended to the name."""
        for path, field in zip(self.paths(folder, name), fields(self), strict=True):  # type: ignore[arg-type]
            save_array(path, getattr(self, field.name))

    @classmethod
    def load(cls, folder: Path, name: str = "") -> Self:
        """Map what `save` wrote; a CacheError if an array is missing or does not fit the others."""
        arrays = list(map(map_array, cls.paths(folder, name)))
        ndims = [1 + (field.name == cls.MATRIX) for field in fields(cls)]  # type: ignore[arg-type]
        are_right = [array.dtype for array in arrays] == list(cls.types().values())
        table = cls(*arrays)
        if not are_right or [array.ndim for array in arrays] != ndims or not table.fits():
            raise CacheError(f"the arrays {name + cls.KIND!r} of the index do not fit each other")
        return table

    @classmethod
    @cache
    def types(cls) -> dict[str, np.dtype[Any]]:
        """Return the type of the numbers of each array, as its field is annotated."""
        hints = get_type_hints(cls)
        kinds = {field.name: get_args(hints[field.name])[1] for field in fields(cls)}  # type: ignore[arg-type]
        return {name: np.dtype(get_args(kind)[0]) for name, kind in kinds.items()}

    @classmethod
    def paths(cls, folder: Path, name: str = "") -> list[Path]:
        """Return the files of a table."""
        return [folder / f"{name}{cls.KIND}-{field.name}.npy" for field in fields(cls)]  # type: ignore[arg-type]
