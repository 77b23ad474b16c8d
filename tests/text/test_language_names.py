"""Tests of the names of languages."""

import pytest

from skillsearch.text.languages import FUNCTION_WORDS, SCRIPTS, language_name


@pytest.mark.parametrize(
    ("code", "name"), [("ko", "Korean"), ("es", "Spanish"), ("", ""), ("x", "x")]
)
def test_a_language_is_called_as_in_english(code, name):
    assert language_name(code) == name


def test_every_language_that_can_be_told_has_a_name():
    told = {*FUNCTION_WORDS, *(main for _, main, *_ in SCRIPTS.values())}
    assert {code for code in told if language_name(code) == code} == set()
