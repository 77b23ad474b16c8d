"""Tests of letters and hyphens that pass for others."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.index.documents.document import name_hash
from skillsearch.text.lookalikes import _LATIN, look, lookalikes

NAMES = st.text(string.ascii_lowercase + "-", min_size=1, max_size=20)
PASSING = {latin: [] for latin in string.ascii_lowercase + "-"}
for char, latin in _LATIN.items():
    PASSING[latin].append(chr(char))


@given(NAMES, st.data())
def test_a_name_and_what_passes_for_it_are_the_same_name(name, data):
    spelt = [data.draw(st.sampled_from([char, *PASSING[char]])) for char in name]
    passing = "".join(data.draw(st.sampled_from([char, char.upper()])) for char in spelt)
    assert look(passing) == name
    assert name_hash(passing) == name_hash(name)


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        ("\u0440df-fill", ["\u0440"]),
        ("pdf\u2010fill", ["\u2010"]),
        ("pdf\u2011fill", ["\u2010"]),
        ("\u0420DF", ["\u0440"]),
        ("d\u03bfcx", ["\u03bf"]),
        ("pdf-fill", []),
        ("отчёт-pdf", []),
        ("Отчёт", []),
        ("β-lactam", []),
        ("周报", []),
        ("résumé", []),
        ("c++", []),
    ],
)
def test_what_passes_for_latin_in_a_name_is_told(name, odd):
    assert lookalikes(name) == odd
