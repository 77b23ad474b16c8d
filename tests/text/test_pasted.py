"""Tests of what a request says about the text that is pasted into it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.index.search.query import split_terms
from skillsearch.text.pasted import instruction

SOURCE = (
    "The harbour was closed for three weeks after the storm, and the fishermen sold their catch in "
    "the next village, where the road was still open and a lorry came twice a day."
)
CODE = "for each in found:\n    total = total + each.price\n    print(total, each.name)\n" * 4
FOUND = [
    (f"Summarise this source: {SOURCE}", "Summarise this source"),
    (f'Translate to Greek: "{SOURCE}"', "Translate to Greek"),
    (f"Summarise the report.\n\n{SOURCE}", "Summarise the report."),
    (f"This is slow. Why?\n\n{SOURCE}\n\n{SOURCE}", "This is slow. Why?"),
    (f"Make this faster.\n```python\n{CODE}```", "Make this faster."),
    (f"```\n{CODE}```\nMake this faster.", "Make this faster."),
    (f"{SOURCE} {SOURCE}\n\nTurn this into a headline", "Turn this into a headline"),
    (f"翻译下面的文字成英文\uff1a {'今天的天气很好我们去公园散步吧' * 6}", "翻译下面的文字成英文"),
]
NOTHING = [
    "",
    "draw a bar chart",
    "Convert these: a.png, b.png, c.png",  # a list, no pasted text
    SOURCE,
    f"Our harbour: {SOURCE}",  # tells, and orders nothing
    f"The harbour has a problem. I wonder what to do about it: {SOURCE}",
    f"Look at the harbour and say what a fisherman can do in the first week or two: {SOURCE}",
    "Add three columns to the table of boats:\n\n- name\n- length\n- harbour",
]


@pytest.mark.parametrize(("text", "said"), FOUND)
def test_the_instruction_is_told_from_what_is_pasted(text, said):
    assert instruction(text) == said


@pytest.mark.parametrize("text", NOTHING)
def test_a_request_without_pasted_text_has_none(text):
    assert instruction(text) == ""


@given(st.text("ab \n:`.", max_size=400))
def test_it_is_a_part_of_the_text_and_the_lesser_one(text):
    said = instruction(text)
    assert set(said.split()) <= set(text.split()) | {word.rstrip(":") for word in text.split()}
    assert 2 * len(said.split()) <= len(text.split())


def test_what_is_said_counts_twice_and_comes_first():
    text = f"Summarise this source: {SOURCE}"
    asked, counts, _ = split_terms(text, "en")
    assert asked == f"Summarise this source\n{text}"
    plain = split_terms(SOURCE, "en")[1]
    assert {term: n - plain[term] for term, n in counts.items() if n > plain[term]} == {
        "summaris": 2,
        "sourc": 2,
    }


def test_a_request_of_a_megabyte_is_read_in_linear_time():
    assert instruction("Summarise this: " + "word " * 200_000) == ""
