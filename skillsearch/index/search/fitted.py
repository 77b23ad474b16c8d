"""The calibration in use: read from what ``scripts/fit_fusion.py`` wrote into the package."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from skillsearch.errors import ConfigError
from skillsearch.index.search.calibration import Calibration

PACKAGED = Path(__file__).with_name("calibration.json")
"""Coefficients with their provenance: collections, date, measures."""
_MAX_BYTES = 1 << 20


@lru_cache(maxsize=1)
def default_calibration() -> Calibration:
    """Return the calibration that comes with the package."""
    return load_calibration(PACKAGED)


def load_calibration(path: Path) -> Calibration:
    """Read a calibration.

    Args:
        path: A JSON file that ``scripts/fit_fusion.py`` wrote.

    Returns:
        The calibration.

    Raises:
        ConfigError: When the file cannot be read, or holds no calibration.
    """
    try:
        with path.open("rb") as file:
            values = json.loads(file.read(_MAX_BYTES))
        if not isinstance(values, dict):
            raise ValueError("it is no JSON object")
        return Calibration.from_dict(values)
    except (OSError, ValueError, RecursionError) as exc:
        raise ConfigError(
            f"{path} holds no calibration that can be used: {exc}. "
            "Make one: python scripts/fit_fusion.py COLLECTION... --output FILE"
        ) from exc
