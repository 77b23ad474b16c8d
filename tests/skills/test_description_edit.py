"""A description is put into a SKILL.md, and every other byte stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import EditError
from skillsearch.skills.description_edit import with_description
from skillsearch.skills.metadata import CONTROL_CHARACTERS, regular_metadata
from skillsearch.skills.parser import read_sections
from skillsearch.skills.resources import MAX_SKILL_MD_BYTES

NEW = 'Steeps tea: "green", black #1. Not for coffee — use it\'s rival.'
BODY = "\n# Tea\n\n---\ndescription: not this one\n"
VALUES = {
    "plain": "description: Steeps tea.",
    "plain of two lines": "description: Steeps tea,\n  and more.",
    "single quotes": "description: 'It''s tea.'",
    "double quotes": 'description: "Steeps \\"tea\\".\\nWell."',
    "double quotes of two lines": 'description: "Steeps\n  tea."',
    "folded": "description: >-\n  Steeps tea\n  in a pot.\n\n  Well.",
    "folded, kept": "description: >+\n  Steeps tea.\n\n",
    "literal": "description: |\n    Steeps tea.\n    # not a comment",
    "colon": "description: Steeps tea: all of it.",
    "key in quotes": '"description": Steeps tea.',
    "key in capitals": "Description: Steeps tea.",
    "list": "description:\n  - Steeps\n  - tea.",
    "list in brackets": "description: [Steeps, tea]",
    "number": "description: 42",
    "comment below": "description: Steeps tea.\n# a comment",
    "blank line below": "description: Steeps tea.\n",
}


def file_of(value, *, bom="", ending="\n", before="name: tea\n", after="license: MIT  # free\n"):
    """Return the bytes of a SKILL.md with an entry for the description."""
    text = f"---\n{before}{value}\n{after}---\n{BODY}"
    return (bom + text.replace("\n", ending)).encode()


def test_a_file_is_not_edited_to_be_larger_than_what_is_read():
    data = file_of("description: Steeps tea.")
    whole = data + b"x" * (MAX_SKILL_MD_BYTES - len(data))
    assert with_description(whole, "Steeps tee.") != whole
    with pytest.raises(EditError, match="would have more than 1,048,576 bytes"):
        with_description(whole, "Steeps teas.")


def described(data):
    """Return the description and the other values, as they are read."""
    values, body, _ = read_sections(data.decode("utf-8-sig"))
    metadata, _ = regular_metadata(values, "tea", body)
    others = {key: value for key, value in values.items() if key.lower() != "description"}
    return metadata.description, others, body


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_whatever_the_style_only_the_description_changes(value, bom, ending):
    data = file_of(value, bom=bom, ending=ending)
    _, others, body = described(data)
    edited = with_description(data, NEW)
    assert described(edited) == (NEW, others, body)
    end = ending.encode()
    lines, original = edited.split(end), data.split(end)
    assert lines[:2] == original[:2]
    below = file_of("", ending=ending).split(b"license")[1]
    assert edited.endswith(b"license" + below)
    assert (b"\n# a comment" in data) == (b"\n# a comment" in edited)


@given(st.text(max_size=300).map(lambda text: " ".join(text.split())))
def test_any_text_reads_as_it_was_given_unless_no_file_can_hold_it(text):
    for value in (VALUES["plain"], VALUES["folded"], VALUES["single quotes"]):
        try:
            edited = with_description(file_of(value), text)
        except EditError:
            assert not text.strip("|>+-") or CONTROL_CHARACTERS.search(text)
            continue
        assert described(edited)[0] == text


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_description_of_several_lines_stays_so(value):
    text = "Steeps tea.\n\nUse for:\n- green tea\n- black tea"
    assert described(with_description(file_of(value), text))[0] == text


def test_the_style_stays_where_it_can_hold_the_text():
    text = "Steeps tea."
    assert b"\ndescription: Steeps tea.\n" in with_description(file_of(VALUES["plain"]), text)
    folded = with_description(file_of(VALUES["folded"]), text)
    assert b"\ndescription: >-\n  Steeps tea.\nlicense" in folded
    assert b'\ndescription: "Steeps: tea."\n' in with_description(
        file_of(VALUES["plain"]), "Steeps: tea."
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"# Tea\n\nSteeps tea in a pot of water.\n", "frontmatter"),
        (file_of("tags: [tea]"), "no description of its own"),
        (file_of("metadata:\n  description: Steeps tea."), "no description of its own"),
        (file_of("description: Steeps tea.  # soon more"), "comment behind"),
        (file_of("description: >-  # folded\n  Steeps tea."), "comment behind"),
        (file_of("description: Steeps.\ndescription: Tea."), "more than one description"),
        (b"---\nname: tea\ndescription: Steeps tea.\n\n# Tea\n\nText.\n", "frontmatter"),
        (file_of("description: Caf\xe9.").decode().encode("latin-1"), "not UTF-8"),
        (b"+++\ndescription = 'Tea'\n+++\n\nBody.\n", "frontmatter"),
        (b"\n\n" + file_of("description: Steeps tea."), "frontmatter"),
        (file_of("description: Steeps \x01 tea."), "frontmatter"),
        (file_of("description: &a Steeps tea.\nwhen: *a"), "mend it first"),
    ],
)
def test_what_cannot_be_edited_safely_is_refused_with_the_reason(data, reason):
    with pytest.raises(EditError, match=reason):
        with_description(data, NEW)
