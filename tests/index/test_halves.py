"""Half precision to float32, against NumPy's own conversion."""

import numpy as np
import pytest

from skillsearch.index.dense.float16 import as_floats


def test_every_finite_half_is_converted_exactly():
    """All 63,488 of them: zeros of both signs, and those below the least normal one too."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    assert len(halves) == 63_488
    assert as_floats(halves).tobytes() == halves.astype(np.float32).tobytes()


@pytest.mark.parametrize("shape", [(0, 384), (3, 384), (7,)])
def test_the_shape_stays(shape):
    """Rows, one row, no row."""
    halves = np.full(shape, 0.5, np.float16)
    assert as_floats(halves).shape == shape
    assert as_floats(halves).dtype == np.float32


def test_rows_that_do_not_lie_side_by_side_are_converted_too():
    """Every other row, and columns in another order."""
    halves = np.random.default_rng(1).normal(size=(8, 6)).astype(np.float16)
    for view in (halves[::2], halves.T, halves[:, ::3]):
        np.testing.assert_array_equal(as_floats(view), view.astype(np.float32))


def test_floats_are_not_copied():
    """They are what is wanted."""
    floats = np.ones((2, 3), np.float32)
    assert as_floats(floats) is floats
