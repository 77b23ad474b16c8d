"""Tests of making text safe to show."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.text.safe_text import hidden_runs, one_line, shorten, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("a\x1b[31mb\x9b2Jc\x07", "a[31mb2Jc"),
        ("one\r\ntwo\rthree\u2028four\x85five", "one two three four five"),
        ("abc\u202egpj.exe\u2069", "abcgpj.exe"),
        ("tag\U000e0041\U000e007fs", "tags"),
        ("zero\u200bwidth\ufeff\u2060 no\u00adbreak", "zerowidth nobreak"),
        ("\U000e0100hidden\U000e01ef", "hidden"),
        ("lone \ud800 half", "lone \ufffd half"),
        ("a\u200db \u200d end\u200d", "ab end"),
        ("👩‍👩‍👧 and 🏳️‍🌈", "👩‍👩‍👧 and 🏳️‍🌈"),
        ("नमस्‍ते می‌خواهم", "नमस्‍ते می‌خواهم"),
        ("北京 서울 café ☕️", "北京 서울 café ☕️"),
        ("1️⃣ \u2139\ufe0f ≨︀ ᠠ᠋", "1️⃣ \u2139\ufe0f ≨︀ ᠠ᠋"),
        ("a\ufe0fb\ufe01 \ufe0f\ufe02c", "ab c"),
        ("☕\ufe0f\ufe0e\ufe01\u200d\ufe0f tea\ufe05", "☕\ufe0f tea"),
        ("👨🏽‍🚀 🏃🏻‍♀️‍➡️ 🙂‍↔️ ❤️‍🔥 ⛓️‍💥 ‼️ ©️ 〰️", "👨🏽‍🚀 🏃🏻‍♀️‍➡️ 🙂‍↔️ ❤️‍🔥 ⛓️‍💥 ‼️ ©️ 〰️"),
        ("🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",) * 2,
        ("🏴\U000e0068\U000e0069\U000e007f 🏴\U000e0067", "🏴 🏴"),
        ("葛\U000e0100飾区 辻\U000e0101 邉\U000e010f",) * 2,
        ("葛\U000e0100\U000e0101 辻\U000e0120 a\U000e0100", "葛\U000e0100 辻 a"),
        ("می\u200cروم کتاب\u200cهایم",) * 2,
        ("क्\u200dष ক্\u200cষ അവന്\u200d ക്\u200cష ශ්\u200dරී",) * 2,
        ("שָׁלוֹם\u200f (עברית)\u200e مرحبا\u200f!", "שָׁלוֹם (עברית) مرحبا!"),
        (
            "漢\u200d字\u200c漢 あ\u200dい 서\u200c울 א\u200dב д\ufe0fж\ufe0f",
            "漢字漢 あい 서울 אב дж",
        ),
        ("漢\ufe00、\ufe01 漢\ufe0f ᠠ\u180b ж\u180b", "漢\ufe00、\ufe01 漢 ᠠ\u180b ж"),
        ("❤\ufe0f\u200d\u200d🔥 ❤\u200d\ufe0f🔥", "❤\ufe0f\u200d🔥 ❤🔥"),
        ("\u115f\u1160\u3164\uffa0\u034f\u17b4\U0001d173\U0001bca0 blank", "blank"),
        ("no\ufffe\uffff\ufff0 character", "no character"),
    ],
)
def test_what_is_hidden_or_obeyed_goes_and_what_is_read_stays(text, shown):
    """Emoji families and scripts that need joiners keep them."""
    assert one_line(text) == shown


def test_lines_and_tabs_stay_where_lines_are_wanted():
    """Every kind of line break becomes a line feed."""
    assert visible("a\r\n\tb\rc\x0cd") == "a\n\tb\nc\nd"


@pytest.mark.parametrize(
    ("limit", "shown"), [(None, "one two"), (7, "one two"), (6, "one t…"), (5, "one…")]
)
def test_a_long_line_is_cut_at_the_limit(limit, shown):
    """The ellipsis counts, and no blank is left before it."""
    assert one_line("one   two", limit) == shown


def test_a_cut_keeps_lines_and_leaves_no_loose_end():
    """Neither a blank nor a joiner stands before the ellipsis; what fits stays whole."""
    assert shorten("one\ntwo \n three", 10) == "one\ntwo…"
    assert shorten("स्\u200dते", 4) == "स्…"
    assert shorten(" as it is \n", 11) == " as it is \n"


@given(
    st.text(st.characters(), max_size=200)
    | st.text("ᠠ☕1a漢🏴ی \u180b\u200c\u200d\ufe00\ufe0f\u200b\U000e0067\U000e0100")
)
def test_nothing_harmful_is_left_of_any_text(text):
    """Whatever comes in can be encoded, has one line, and is stable when done again."""
    line = one_line(text)
    line.encode("utf-8")
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in line)
    assert len(line.splitlines()) <= 1
    assert one_line(visible(line)) == one_line(line)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", []),
        ("a\u200bb\u200b\u200cc", ["\u200b", "\u200b\u200c"]),
        ("tea\U000e0041\U000e0042", ["\U000e0041\U000e0042"]),
        ("\u202eaet", ["\u202e"]),
        ("\U0001f600\U000e0101\U000e0102", ["\U000e0101\U000e0102"]),
        ("\U0001f468\u200d\U0001f469 \u2615\ufe0f 1\ufe0f\u20e3", []),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u0915\u094d\u200d\u0937", []),
        ("tea\x1b[1m\r\ncup", []),
    ],
)
def test_hidden_runs_are_what_is_removed(text, expected):
    """But for breaks and controls; marks that a script or an emoji needs are not hidden."""
    assert list(hidden_runs(text)) == expected
