"""Requests in the text of a skill; tests of those who use them have the cases of each language."""

import pytest

from skillsearch.text.requests import (
    MarkdownBlock,
    blocks,
    fold_blanks,
    fold_words,
    plain,
    quoted,
    requests,
    section_headings,
)

BODY = """# Tea

## 1. When to use:

- Steep **green** tea
  for two
* Boil water — in a kettle

**Examples**

She said "warm the cup" and left.

```
## Not a heading
```
"""


def test_a_body_is_parted_into_blocks():
    assert list(blocks(BODY)) == [
        MarkdownBlock("heading", "Tea", 1),
        MarkdownBlock("heading", "1. When to use:", 2),
        MarkdownBlock("item", "Steep **green** tea for two"),
        MarkdownBlock("item", "Boil water — in a kettle"),
        MarkdownBlock("lead", "**Examples**"),
        MarkdownBlock("text", 'She said "warm the cup" and left.'),
    ]


def test_requests_are_items_below_uses_and_quotes_below_examples():
    assert list(requests(blocks(BODY))) == ["Steep green tea for two", "Boil water", "warm the cup"]


def test_headings_of_sections_have_no_number():
    assert list(section_headings(blocks(BODY))) == ["When to use"]


def test_quotes_that_are_denied_are_left_out():
    assert list(quoted('Not for "a" or "b". For "c".')) == ["c"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**Brew** the [tea](tea.md).", "Brew the tea"),
        ("  -- green_tea __now__ : ", "green_tea now"),
        ("`tea`", "`tea`"),
        ("...", ""),
    ],
)
def test_a_phrase_is_plain_without_its_marks(text, expected):
    assert plain(text) == expected


def test_folded_texts_are_equal_if_their_words_are():
    assert fold_words("Brew-Coffee,  NOW_please!") == "brew coffee now please"
    assert fold_blanks(" Brew-Coffee,\n NOW ") == "brew-coffee, now"
