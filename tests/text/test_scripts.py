"""The part of a text that an embedder can read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.text.scripts import is_legible, readable, script, trust

LATIN = frozenset({"Latin"})


@pytest.mark.parametrize(
    ("char", "expected"),
    [
        ("a", "Latin"),
        ("é", "Latin"),
        ("\uff21", "Latin"),
        ("ª", "Latin"),
        ("µ", "Latin"),
        ("ж", "Cyrillic"),
        ("λ", "Greek"),
        ("字", "Cjk"),
        ("한", "Hangul"),
        ("あ", "Hiragana"),
        ("ア", "Katakana"),
        ("ش", "Arabic"),
        ("\ue000", "Unknown"),
    ],
)
def test_a_letter_belongs_to_the_script_of_its_name(char, expected):
    """Wide and ordinal letters are Latin; a letter without a name is of no script."""
    assert script(char) == expected


@pytest.mark.parametrize(
    ("text", "scripts", "expected"),
    [
        ("plain words", LATIN, 1.0),
        ("", LATIN, 1.0),
        ("123 !? 🚀", LATIN, 1.0),
        ("한국어", LATIN, 0.0),
        ("한국어", None, 1.0),
        ("한국어", frozenset({"Hangul"}), 1.0),
        ("abc", frozenset({"Hangul"}), 0.0),
        ("ab 한국", LATIN, 1.0),
        ("a 한국어", LATIN, 0.5),
        ("a 한국어 한국어말", LATIN, 0.25),
    ],
)
def test_trust_is_the_readable_share_of_the_letters_doubled(text, scripts, expected):
    assert trust(text, scripts) == expected


@pytest.mark.parametrize(
    ("text", "scripts", "expected"),
    [
        ("plain\nwords", LATIN, "plain\nwords"),
        ("한국어", None, "한국어"),
        ("한국어", LATIN, ""),
        ("use 파이썬 now", LATIN, "use now"),
        ("PDF를 2개 만들기", LATIN, "PDF 2"),
        ("한국어!?", LATIN, ""),
        ("déjà vu", LATIN, "déjà vu"),
    ],
)
def test_foreign_letters_are_left_out_of_what_is_embedded(text, scripts, expected):
    assert readable(text, scripts) == expected


@given(st.text())
def test_what_is_readable_is_trusted_in_full(text):
    kept = readable(text, LATIN)
    assert all(script(char) == "Latin" for char in kept if char.isalpha())
    assert trust(kept, LATIN) == 1.0
    assert 0.0 <= trust(text, LATIN) <= 1.0


@pytest.mark.parametrize(
    ("text", "scripts", "expected"),
    [
        ("", LATIN, True),
        ("123 !? 🚀", LATIN, True),
        ("plain words", LATIN, True),
        ("ninesigns 한", LATIN, True),
        ("eightlet 한", LATIN, False),
        ("한국어", LATIN, False),
        ("한국어", None, True),
        ("한국어", frozenset({"Hangul"}), True),
        ("abc", frozenset({"Hangul"}), False),
        ("déjà vu", LATIN, True),
    ],
)
def test_a_text_is_legible_if_few_of_its_letters_are_foreign(text, scripts, expected):
    """A tenth of them at most; one of ten is, one of nine is not."""
    assert is_legible(text, scripts) is expected


@given(st.text(), st.sampled_from([LATIN, frozenset({"Hangul"}), None]))
def test_what_is_legible_is_trusted_in_full(text, scripts):
    if is_legible(text, scripts):
        assert trust(text, scripts) == 1.0
    assert is_legible(readable(text, scripts), scripts)
