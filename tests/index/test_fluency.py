"""How well the first of two channels knows a query, and which of them are asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.index.search.calibration import CLUES
from skillsearch.index.search.fluency import query_clues, trusts


@pytest.mark.parametrize(
    ("fluency", "expected"),
    [
        (1.0, (1.0, 0.0)),
        (0.95, (1.0, 0.0)),
        (0.9, (1.0, 0.0)),
        (0.89, (0.89, 1.0)),
        (0.5, (0.5, 1.0)),
        (0.11, (0.11, 1.0)),
        (0.05, (0.0, 1.0)),
        (0.0, (0.0, 1.0)),
    ],
)
def test_who_is_sure_answers_alone(fluency, expected):
    """In a corpus of English skills; between the bounds both have a say."""
    assert trusts(fluency, 0.0) == expected


@pytest.mark.parametrize(("share", "is_asked"), [(0, 0.0), (0.29, 0.0), (0.3, 1.0), (1, 1.0)])
def test_in_a_mixed_corpus_the_second_channel_always_has_a_say(share, is_asked):
    """From three tenths of the skills on; the trust in the first is what it was."""
    assert trusts(1.0, share) == (1.0, is_asked)
    assert trusts(0.6, share) == (0.6, 1.0)
    assert trusts(0.0, share) == (0.0, 1.0)


@given(st.floats(0, 1), st.floats(0, 1))
def test_some_channel_always_has_a_say(fluency, share):
    """Whatever the query and the corpus; the second wherever the first is in doubt."""
    first, second = trusts(fluency, share)
    assert 0 <= first <= 1
    assert second in (0.0, 1.0)
    assert first == 1.0 or second == 1.0


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("cut the video", "en", (1, 0, 0)),
        ("ffmpeg h264", "", (0, 0, 0)),
        ("剪辑视频", "zh", (0, 1, 1)),
        ("剪辑 mp4", "zh", (0, 1, 2 / 4)),
        ("Äpfel schälen", "de", (0, 1, 2 / 12)),
        ("café", "", (0, 0, 1 / 4)),
        ("!? 42", "", (0, 0, 0)),
        ("", "", (0, 0, 0)),
    ],
)
def test_the_clues_of_a_query_by_hand(text, language, expected):
    """Its language, known to be English or not to be, and its share of other letters."""
    values = [*map(float, expected), 0.25]
    assert query_clues(text, language, 0.25) == pytest.approx(dict(zip(CLUES, values, strict=True)))
