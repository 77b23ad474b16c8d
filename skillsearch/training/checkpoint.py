"""Checkpoints of a training run: one file of arrays to continue from; nothing is pickled."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import TrainingError

Arrays = Mapping[str, NDArray[Any]]

_FILE = "state.npz"


def save_checkpoint(folder: Path, key: str, arrays: Arrays) -> None:
    """Replace the checkpoint in a folder in one step; the folder is created if missing.

    The key identifies the run. Raises TrainingError if it cannot be written; the old one stays.
    """
    fresh = folder / f"{_FILE}.new"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with fresh.open("wb") as file:
            np.savez(file, key=np.array(key), **arrays)  # type: ignore[arg-type]  # taken for options
        fresh.replace(folder / _FILE)
    except OSError as exc:
        raise TrainingError(
            f"The checkpoint {folder / _FILE} cannot be written: {exc.strerror or exc}; free some "
            "space."
        ) from exc


def load_checkpoint(folder: Path, key: str) -> dict[str, NDArray[Any]] | None:
    """Read the arrays of the checkpoint in a folder; None if it is missing or of another run.

    Raises TrainingError if the file is damaged.
    """
    path = folder / _FILE
    if not path.exists():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays) if str(arrays["key"]) == key else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as exc:
        raise TrainingError(
            f"The checkpoint {path} is damaged ({exc}); remove it to begin again."
        ) from exc
