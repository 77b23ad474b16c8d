"""A reader: request and skill, read together → the log-odds that the skill fits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import EmbedderError

Logits = NDArray[np.float64]


class Reader(Protocol):
    """Tells how well skills fit a request, from the words of both."""

    @property
    def name(self) -> str:
        """Name for people."""

    def read(self, request: str, texts: Sequence[str]) -> Logits:
        """Return the log-odds that the skill of each text fits, in order."""


def checked_logit(model: Path | str, logits: NDArray[np.floating]) -> float:
    """Return the logit of a pair; an EmbedderError unless it is one finite number."""
    if logits.size != 1 or not np.isfinite(logits).all():
        raise EmbedderError(no_logit(model, logits))
    return float(logits.reshape(()))


def no_logit(model: Path | str, logits: NDArray[np.floating]) -> str:
    """Say that a model gave something else than a logit for each skill."""
    return (
        f"The reader {str(model)!r} gave numbers of shape {logits.shape}, or NaN or infinity, "
        "where one finite number is due for each skill; use a model with one label"
    )
