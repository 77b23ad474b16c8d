"""Tests of the names that a misspelt word may mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.text.near import near

NAMES = "brew-coffee find index pdf steep-tea write-changelog accessibility-audit".split()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("indx", ["index"]),
        ("BREW-COFEE", ["brew-coffee"]),
        ("tea", ["steep-tea"]),
        ("tea_steep", ["steep-tea"]),
        ("pdff", ["pdf"]),
        ("fnid", ["find"]),
        ("access-log", []),
        ("log", []),
        ("nope", []),
        ("", []),
    ],
)
def test_a_name_is_near_by_few_letters_or_by_all_words(word, expected):
    assert near(word, NAMES) == expected


def test_by_letters_alone_the_words_of_a_longer_name_do_not_count():
    assert near("tea", NAMES, by_words=False) == []


@given(st.text("ab-", min_size=1, max_size=9), st.text("ab-", min_size=1, max_size=9))
def test_the_distance_is_symmetric_and_one_error_is_always_near(word, name):
    ours = bool(near(word, [name], by_words=False))
    if len(word) // 4 == len(name) // 4:
        assert ours == bool(near(name, [word], by_words=False))
    assert near(word[:-1] + "z", [word]) == [word]
    assert near(word + "z", [word]) == [word]
