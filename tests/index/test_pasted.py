"""Tests of what a request says about the text that is pasted into it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.index.search.pasted import instruction
from skillsearch.index.search.query import INSTRUCTION_REPEATS, split_terms

SOURCE = (
    "The harbour was closed for three weeks after the storm, and the fishermen sold their catch in "
    "the next village, where the road was still open and a lorry came twice a day."
)
CODE = "for each in found:\n    total = total + each.price\n    print(total, each.name)\n" * 4
LETTER = """Dear Ms Brandt,

the windows that you ordered will be two weeks late. Could you tell us whether the 12th of June is
possible, and who will be on site? Please answer by Friday.

Kind regards
Jens Otto"""
MAIL = f"""From: Jens Otto <jens@example.org>
To: orders@example.org
Subject: windows
{LETTER}"""
LOG = "\n".join(
    f"2026-03-0{day} 10:12:01 {level} worker-{day} job {3000 + day} took {day} seconds"
    for day, level in enumerate(("INFO", "ERROR", "INFO", "WARN"), start=1)
)
TRACE = """Traceback (most recent call last):
  File "/srv/app/main.py", line 41, in <module>
    run(load(path))
  File "/srv/app/core.py", line 118, in run
    total = sum(row["price"] for row in rows)
KeyError: 'price'"""
TABLE = "name,city,amount\n" + "\n".join(f"boat{n},port{n},{n * 7}" for n in range(12))
PASTES = {"code": CODE, "letter": LETTER, "mail": MAIL, "log": LOG, "trace": TRACE, "table": TABLE}
ORDERS = [
    "Make this shorter",
    "I would like a friendly answer to it in Spanish, with the dates as a table at the end.",
    "Welche Zeilen sind auffällig?",
    "Pourquoi cela ne marche-t-il pas ?",
    "Resume esto en tres puntos",
    "Переведи это на английский",
    "总结下面的内容",
    "この内容を三行にまとめてください",
    "이 내용을 요약해 줘",
]
WITH_ORDER = [
    (f"Summarise this source: {SOURCE}", "Summarise this source"),
    (f'Translate to Greek: "{SOURCE}"', "Translate to Greek"),
    (f"Summarise the report.\n\n{SOURCE}", "Summarise the report."),
    (f"Summarise the report. ⏎ ⏎ {SOURCE} ⏎ {SOURCE}", "Summarise the report."),
    (f"This is slow. Why?\n\n{SOURCE}\n\n{SOURCE}", "This is slow. Why?"),
    (f"It fails since Monday.\n```\n{CODE}```\nWhy?", "It fails since Monday.\nWhy?"),
    (f"{SOURCE} {SOURCE}\n\nTurn this into a headline", "Turn this into a headline"),
    (f"{LETTER}\n\nDraft a polite answer.\n\n{LOG}", "Draft a polite answer."),
    (f"Make it shorter\n<text>\n{SOURCE}\n</text>", "Make it shorter"),
    (f"Make it shorter\n---\n{LOG}\n---", "Make it shorter"),
    (f"Make it shorter\n> {SOURCE}\n> {SOURCE}", "Make it shorter"),
    (f"翻译下面的文字成英文\uff1a {'今天的天气很好我们去公园散步吧' * 6}", "翻译下面的文字成英文"),
]
WITHOUT_ORDER = [
    "",
    "draw a bar chart",
    "Convert these: a.png, b.png, c.png",  # a list, no pasted text
    SOURCE,
    LETTER,
    f"Hi Claude,\n\n{SOURCE} {SOURCE}",
    f"Hello,\n\n{SOURCE} {SOURCE}",
    f"Our harbour: {SOURCE}",  # tells, and orders nothing
    f"The harbour has a problem. I wonder what to do about it: {SOURCE}",
    "Build the header of our site: logo at the left, menu on the right that turns into a drawer"
    " below 800 pixels, a search field that opens on a click, and usable with the keyboard alone",
    "# Task: mend the harbour\n\n## Background\n\n" + SOURCE,
    "Add three columns to the table of boats:\n\n- name\n- length\n- harbour",
]


@pytest.mark.parametrize(("text", "order"), WITH_ORDER)
def test_the_order_is_told_from_what_is_pasted(text, order):
    assert instruction(text) == order


@pytest.mark.parametrize("paste", PASTES)
@pytest.mark.parametrize("order", ORDERS)
def test_an_order_is_found_before_and_behind_whatever_is_pasted(order, paste):
    for text in (f"{order}\n\n{PASTES[paste]}", f"{PASTES[paste]}\n\n{order}"):
        assert instruction(text) == order


@pytest.mark.parametrize("text", WITHOUT_ORDER)
def test_a_request_without_pasted_text_has_none(text):
    assert instruction(text) == ""


@given(st.text("ab \n:`.>?", max_size=400))
def test_it_is_a_part_of_the_text_and_the_lesser_one(text):
    order = instruction(text)
    assert set(order.split()) <= set(text.split()) | {word.rstrip(":") for word in text.split()}
    assert 2 * len(order.split()) <= len(text.split())


def test_an_order_counts_more_often_and_leads():
    text = f"Summarise this source: {SOURCE}"
    query = split_terms(text, instruction(text), "en")
    plain = split_terms(SOURCE, "", "en").counts
    more = {term: n - plain[term] for term, n in query.counts.items() if n > plain[term]}
    assert (query.text, query.instruction) == (text, "Summarise this source")
    assert more == dict.fromkeys(("summaris", "sourc"), INSTRUCTION_REPEATS + 1)


def test_what_is_pasted_excludes_nothing():
    text = f"Summarise this mail without names.\n\n{LETTER}\nDo not use Docker."
    query = split_terms(text, instruction(text), "en")
    assert "docker" in query.counts


@pytest.mark.parametrize(
    "piece", ["word ", '"', "“", "a,", "a;", "<a>", "> ", "Hi, ", "- ", "(", "#\n"]
)
def test_a_long_request_is_read_in_linear_time(piece):
    """An expression that backtracks would take minutes."""
    begin = time.process_time()
    instruction("Summarise this:\n" + piece * (90_000 // len(piece)))
    assert time.process_time() - begin < 5
