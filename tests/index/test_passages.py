"""What a reader is shown of a skill."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.index.search.passages import (
    BODY_CHARS,
    DESCRIPTION_CHARS,
    PASSAGE_CHARS,
    best_passage,
    passage_text,
    passages,
)

FILL = ("word " * PASSAGE_CHARS)[: PASSAGE_CHARS // 2] + "s"
"""A line so long that two of them do not fit into a passage, but more words do."""
TEA, FORMS, BOTH = (f"{FILL} {words}" for words in ("tea", "forms", "forms tea"))


@pytest.mark.parametrize(
    ("lines", "weights", "best"),
    [
        ([TEA, FORMS], {"tea": 1.0, "form": 2.0}, FORMS),
        ([TEA, FORMS], {"tea": 2.0, "form": 1.0}, TEA),
        ([TEA, FORMS], {"tea": 1.0, "form": 1.0}, TEA),
        ([FORMS, TEA], {"tea": 1.0, "form": 1.0}, FORMS),
        ([TEA, FORMS, BOTH], {"tea": 1.0, "form": 1.5}, BOTH),
        ([f"{TEA} tea tea tea", FORMS], {"tea": 1.0, "form": 2.0}, FORMS),
        ([TEA, FORMS], {"zebra": 5.0}, TEA),
        ([TEA, FORMS], {}, TEA),
    ],
)
def test_the_best_passage_holds_the_weightiest_terms(lines, weights, best):
    assert best_passage("\n".join(lines), weights) == best


@pytest.mark.parametrize("body", ["", "\n", " \n\t\n"])
def test_an_empty_body_has_no_passage(body):
    assert best_passage(body, {"tea": 1.0}) == ""


def test_terms_are_those_of_the_language_of_the_skill():
    body = f"{FILL} casas\n{FILL} perros"
    assert best_passage(body, {"perr": 1.0}, "es").endswith("perros")
    assert best_passage(body, {"perr": 1.0}, "en").endswith("casas")


def test_of_a_long_body_only_the_beginning_is_looked_at():
    late = "x\n" * (BODY_CHARS // 2)
    assert "zebra" not in best_passage(f"{late}zebra", {"zebra": 1.0})
    assert "zebra" in best_passage(f"{late[:-6]}zebra", {"zebra": 1.0})


def test_a_passage_takes_lines_up_to_its_size():
    short = "a" * (PASSAGE_CHARS // 3 - 1)
    body = f"  {short}\n{short}  \n{short}\n{short}\n\nlast"
    assert list(passages(body)) == ["\n".join([short] * 3), f"{short}\n\nlast"]


def test_lines_that_would_fill_a_passage_to_its_last_character_are_two():
    """The line break between them is a character of the passage, too."""
    long, short = "a" * (PASSAGE_CHARS - 9), "b" * 8
    assert list(passages(f"{long}\n{short}")) == [f"{long}\n{short}"]
    assert list(passages(f"{long}\n{short}b")) == [long, f"{short}b"]


def test_a_longer_line_is_cut():
    line = "".join(map(str, range(PASSAGE_CHARS)))[: 3 * PASSAGE_CHARS - 40]
    parts = [line[:PASSAGE_CHARS], line[PASSAGE_CHARS : 2 * PASSAGE_CHARS]]
    rest = line[2 * PASSAGE_CHARS :]
    shown = list(passages(f"before\n{line}\nafter"))
    assert shown == ["before", *parts, f"{rest}\nafter"]


@given(st.text(alphabet="ab \n", max_size=3000))
def test_passages_hold_all_of_a_body(body):
    shown = list(passages(body))
    assert all(0 < len(passage) <= PASSAGE_CHARS for passage in shown)
    assert "".join("".join(shown).split()) == "".join(body.split())


@given(st.lists(st.text(alphabet="abc ", max_size=PASSAGE_CHARS // 3), max_size=30))
def test_passages_break_no_shorter_line(lines):
    shown = [line for passage in passages("\n".join(lines)) for line in passage.split("\n")]
    assert [line for line in shown if line] == [line.strip() for line in lines if line.strip()]


@pytest.mark.parametrize(
    ("name", "description", "passage", "expected"),
    [
        (
            "pdf-forms",
            "Fill in forms.",
            "# Fields\nList  them.",
            "pdf forms. Fill in forms. | # Fields List them.",
        ),
        ("pdf_forms", " Fill\n in ", "", "pdf forms. Fill in"),
        ("a", "", " \n ", "a."),
        ("a", "x" * (DESCRIPTION_CHARS + 1), "", f"a. {'x' * DESCRIPTION_CHARS}"),
    ],
)
def test_a_reader_is_shown_metadata_and_passage_on_one_line(name, description, passage, expected):
    assert passage_text(name, description, passage) == expected
