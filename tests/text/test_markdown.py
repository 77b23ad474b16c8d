"""Lines, paragraphs and sections of Markdown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from skillsearch.text.markdown import lines, paragraphs, sections

BODY = """Intro about forms.

## Install
Run the installer.

```sh
# not a heading about passwords
```

### Recover passwords ###
Ask the owner, then   crack
the password.

#no heading
## Using C#
Write code.
"""
FENCES = MarkdownIt("zero").enable(["fence", "code"])
"""A parser of its own kind that knows fences and indented code, and no lists or quotes."""
LINES = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", " ", "   ", "    ", "\t"]),
        st.sampled_from(["", "word", "``", "```", "````", "~~", "~~~", "~~~~", "```~~~"]),
        st.sampled_from(["", " ", "\t", "sh", " a`b", " ~~~", "`"]),
    ),
)


def fenced(text):
    return [number for number, line in enumerate(lines(text)) if line.is_fenced]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n```\nb\n```\nc", [1, 2, 3]),
        ("```sh\nb\n````\nc", [0, 1, 2]),
        ("````\n```\n````", [0, 1, 2]),
        ("```\n~~~\nb", [0, 1, 2]),
        ("~~~ `a`\nb\n~~~ ", [0, 1, 2]),
        ("```\n```sh\nb", [0, 1, 2]),
        ("   ```\na\n  ```\nb", [0, 1, 2]),
        ("``` a`b\nc", []),
        ("``\na\n``", []),
        ("    ```\na", []),
        ("\t```\na", []),
        ("```\na\n    ```\nb", [0, 1, 2, 3]),
    ],
)
def test_a_fence_closes_with_as_many_of_its_own_marks(text, expected):
    assert fenced(text) == expected


@given(st.lists(LINES, max_size=8))
def test_fences_are_those_of_another_parser(written):
    text = "\n".join([*written, "end"])
    tokens = [token for token in FENCES.parse(text) if token.type == "fence"]
    assert fenced(text) == [number for token in tokens for number in range(*token.map)]


@given(st.text("a`~ #\n\r\u2028", max_size=60))
def test_lines_are_the_text(text):
    parsed = list(lines(text))
    assert "\n".join(line.text for line in parsed) == text.removesuffix("\n")
    for line in parsed:
        assert text.startswith(line.text, line.start)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n \n", []),
        ("a\nb\n\nc\n", ["a\nb", "c"]),
        ("a\n```\nb\n```\nc", ["a", "c"]),
        ("  a\n \t\n```\nb", ["  a"]),
    ],
)
def test_paragraphs_end_at_blank_lines_and_fences(text, expected):
    assert [text[begin:end] for begin, end in paragraphs(text)] == expected


def test_a_body_is_split_along_its_headings():
    parts = list(sections(BODY))
    assert [heading for heading, _ in parts] == ["", "Install", "Recover passwords", "Using C#"]
    assert parts[0][1] == "Intro about forms.\n"
    assert "not a heading" in parts[1][1]
    assert parts[3][1] == "Write code."


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("# One", "One"),
        ("###### Six", "Six"),
        ("####### Seven", None),
        ("#\tTab", "Tab"),
        ("## Closed ##  ", "Closed"),
        ("# F# #", "F#"),
        ("#", None),
        ("# ", None),
        (" # Indented", None),
        ("# a b  c", "a b  c"),
    ],
)
def test_a_heading_is_marks_a_blank_and_a_text(line, heading):
    headings = [title for title, _ in sections(f"text\n{line}\ntext")]
    assert headings == ([""] if heading is None else ["", heading])


@pytest.mark.parametrize("inside", ["```python", "~~~", "``` x", "# one"])
def test_what_does_not_close_a_fence_begins_no_section(inside):
    headings = [title for title, _ in sections(f"```\n{inside}\n# inside\n```\n# after\n")]
    assert headings == ["", "after"]


@pytest.mark.parametrize(
    "text",
    [
        "# a" + " " * 100_000 + "x",
        "# " + "# " * 100_000 + "x",
        "#" * 100_000,
        "`" * 100_000,
        "`" * 100_000 + "x`",
        "```" + " " * 100_000 + "x`",
        "```\n" + ("```" + " " * 100 + "x\n") * 5000,
        "\n" * 100_000,
    ],
)
@pytest.mark.timeout(120)
def test_a_hostile_text_takes_no_time(text):
    """A regular expression that tries all splits would take for ever."""
    list(sections(text))
    list(paragraphs(text))
