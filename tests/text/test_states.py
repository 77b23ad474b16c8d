"""How much of a ranking is shown: what fits, and what may."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.text.states import BOUNDS, NEAR, count_shown
from skillsearch.types.answers import FACES

SHARES = st.floats(0, 1) | st.sampled_from([0.0, 0.3, 0.325, 0.65, 1.0])
SCORES = st.lists(SHARES, max_size=8).map(lambda some: sorted(some, reverse=True))


@given(SCORES, SHARES, SHARES)
def test_what_fits_is_never_hidden_and_nothing_is_shown_below_the_bound(scores, threshold, bound):
    fitting, shown = count_shown(scores, threshold, bound)
    assert fitting == len([score for score in scores if score >= threshold]) <= shown
    far = NEAR * scores[0] if fitting else 0.0
    assert all(score >= bound and score >= far for score in scores[fitting:shown])
    assert all(score < threshold and (score < bound or score < far) for score in scores[shown:])


@given(SCORES, SHARES, SHARES, SHARES)
def test_a_lower_bound_hides_no_hit(scores, threshold, first, second):
    low, high = sorted((first, second))
    more, less = (count_shown(scores, threshold, bound) for bound in (low, high))
    assert (more[0], more[1]) == (less[0], max(more[1], less[1]))


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.97, 0.05], (1, 1)),  # noise beside a clear answer
        ([0.97, 0.5, 0.4], (1, 2)),  # near it, and not
        ([0.66, 0.34, 0.32], (1, 2)),  # less clear, so more is near
        ([0.64, 0.3, 0.29], (0, 2)),  # nothing fits, so all that may is shown
        ([0.29], (0, 0)),
        ([], (0, 0)),
    ],
)
def test_a_list_shows_what_fits_and_what_comes_near(scores, expected):
    assert count_shown(scores, 0.65, BOUNDS["list"]) == expected


def test_every_face_has_a_bound_below_the_threshold():
    assert tuple(BOUNDS) == FACES
    assert BOUNDS["list"] == 0.3
    assert min(BOUNDS.values()) == BOUNDS["page"]
    assert max(BOUNDS.values()) < default_calibration().threshold
