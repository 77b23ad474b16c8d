"""Reads calibrations; the package's is ``calibration.json``, with its provenance."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from skillsearch.errors import ConfigError, UnusableError
from skillsearch.index.search.calibration import Calibration

# Coefficients with their provenance: collections, date, measures.
PACKAGED = Path(__file__).with_name("calibration.json")
_MAX_BYTES = 1 << 20


@cache
def default_calibration() -> Calibration:
    """Return the calibration that comes with the package."""
    return load_calibration(PACKAGED)


def load_calibration(path: Path) -> Calibration:
    """Read a calibration; a ConfigError if the file cannot be read or does not hold one."""
    try:
        with path.open("rb") as file:
            values = json.loads(file.read(_MAX_BYTES))
        if not isinstance(values, dict):
            raise UnusableError("it is not a JSON object")
        return Calibration.from_dict(values)
    except (OSError, ValueError, RecursionError) as exc:
        raise ConfigError(
            f"{path} holds no calibration that can be used: {exc}. "
            "Make one: python scripts/fit_fusion.py COLLECTION... --output FILE"
        ) from exc
