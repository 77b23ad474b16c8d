"""The language taken out of vectors: the formula by hand, and what it is computed from."""

import json
from pathlib import Path

import numpy as np
import pytest

from skillsearch.embedders.multilingual.model import without_language

SENTENCES = Path(__file__).parents[2] / "scripts" / "parallel_sentences.json"

SMALL = np.array([[0.5, 0, 0], [0, 0.5, 0], [0.6, 0.8, 0]], dtype=np.float32)


@pytest.fixture
def script(import_script):
    return import_script("build_multilingual")


@pytest.mark.parametrize(
    ("role", "expected"), [("passage", [-0.48, 0.36, 1.0]), ("query", [0.08, -0.06, 1.0])]
)
def test_the_mean_of_the_role_and_then_the_direction_are_taken_out(role, expected):
    """(0.5, 1, 1) less its mean is (0, 1, 1) or (0.5, 0.5, 1); 0.8 or 0.7 of it is direction."""
    vector = np.array([0.5, 1, 1], dtype=np.float32)
    np.testing.assert_allclose(without_language(vector, role, SMALL), expected, atol=1e-6)


def test_the_directions_are_those_in_which_languages_lie_apart(script):
    passages = [[1, 4, 0], [1, -4, 0], [1, 0, 0]]
    queries = [[2, 0, -1], [2, 0, -3], [2, 0, -2]]
    fitted = script.fit_neutral(np.array([passages, queries], dtype=np.float64))
    np.testing.assert_allclose(fitted[:2], [[1, 0, 0], [2, 0, -2]], atol=1e-6)
    np.testing.assert_allclose(fitted[2:4], [[0, 1, 0], [0, 0, 1]], atol=1e-6)


def test_mirrored_vectors_have_the_same_directions(script):
    centroids = np.random.default_rng(2).normal(size=(2, 20, 40))
    ours, mirrored = script.fit_neutral(centroids), script.fit_neutral(-centroids)
    assert ours.shape == (2 + 16, 40)
    np.testing.assert_allclose(mirrored[2:], ours[2:], atol=1e-6)


def test_every_language_says_the_same_number_of_things():
    languages = json.loads(SENTENCES.read_bytes())
    assert {len(set(sentences)) for sentences in languages.values()} == {16}
    everything = [text for sentences in languages.values() for text in sentences]
    assert len(set(everything)) == len(everything) == 31 * 16
