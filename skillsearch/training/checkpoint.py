"""Checkpoints of a training run: one file of arrays to continue from; nothing is pickled."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import TrainingError

Tensors = Mapping[str, NDArray[np.float32]]

_FILE = "state.npz"
_PARTS = ("weights", "best", "moments")


@dataclass(frozen=True, slots=True, eq=False)
class RunState:
    """A run between two steps.

    Attributes:
        key: Identity of the run by its weights, plan and settings.
        moments: The optimizer's state of each weight.
        best: The weights of the best validation so far; empty before the first.
        values: Value of each validation by its step.
    """

    key: str
    step: int
    weights: Tensors
    moments: Tensors
    best: Tensors
    values: Mapping[int, float]

    def save(self, folder: Path) -> None:
        """Replace the checkpoint in a folder in one step; the folder is created if missing.

        Raises TrainingError if it cannot be written; the old one stays.
        """
        arrays: dict[str, NDArray[np.generic]] = {
            "key": np.array(self.key),
            "step": np.array(self.step),
            "looks": np.array(list(self.values), np.int64),
            "values": np.array(list(self.values.values()), np.float64),
        }
        for part in _PARTS:
            arrays |= {f"{part}/{name}": one for name, one in getattr(self, part).items()}
        fresh = folder / f"{_FILE}.new"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with fresh.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]  # its stub takes the names for options
            fresh.replace(folder / _FILE)
        except OSError as exc:
            raise TrainingError(
                f"The checkpoint {folder / _FILE} cannot be written: {exc.strerror or exc}; free "
                "some space."
            ) from exc

    @classmethod
    def load(cls, folder: Path, key: str) -> RunState | None:
        """Read the checkpoint in a folder; None if it is missing or of another run.

        Raises TrainingError if the file is damaged.
        """
        path = folder / _FILE
        if not path.exists():
            return None
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                if str(arrays["key"]) != key:
                    return None
                parts: dict[str, dict[str, NDArray[np.float32]]] = {part: {} for part in _PARTS}
                for name in arrays.files:
                    part, _, rest = name.partition("/")
                    if rest:
                        parts[part][rest] = arrays[name]
                looks = zip(arrays["looks"].tolist(), arrays["values"].tolist(), strict=True)
                return cls(key, int(arrays["step"]), values=dict(looks), **parts)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as exc:
            raise TrainingError(
                f"The checkpoint {path} is damaged ({exc}); remove it to begin again."
            ) from exc
