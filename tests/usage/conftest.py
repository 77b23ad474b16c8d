"""Fixtures of the tests of usage."""

import numpy as np
import pytest

from skillsearch.types.answers import Hit, SearchResult
from skillsearch.usage.log import Origin, UsageLog

REQUEST = "Steep my green tea at the right temperature please"


@pytest.fixture
def log(tmp_path):
    """Make a log of an empty folder, which is not there yet."""
    return UsageLog(tmp_path / "data" / "usage")


@pytest.fixture
def origin(tmp_path):
    """Name where a request comes from."""
    return Origin(str(tmp_path), str(tmp_path / "index"), "model-1")


@pytest.fixture
def answer():
    """Make an answer that offers skills, each with its score; nothing fits below .65."""

    def make(request=REQUEST, **scores):
        hits = tuple(
            Hit(rank, skill, "", score, f"/{skill}/SKILL.md", "/", f"tea:{skill}")
            for rank, (skill, score) in enumerate(scores.items(), start=1)
        )
        fits = tuple(hit for hit in hits if hit.score >= 0.65)
        return SearchResult(request, 0.65, fits, not fits, 0.0, hits[len(fits) :])

    return make


@pytest.fixture
def vector():
    """Make a unit vector of 8 numbers by a seed; near one for the same seed and some noise."""

    def make(seed=0, noise=0.0):
        row = np.random.default_rng(seed).normal(size=8)
        row += noise * np.random.default_rng(seed + 1000).normal(size=8)
        return (row / np.linalg.norm(row)).astype(np.float32)

    return make
