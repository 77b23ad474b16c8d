"""JSON with comments: what is read, what is refused, and that all of it is gone through once."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.text.jsonc import parse_jsonc, without_comments, without_last_commas

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
GAPS = st.sampled_from(["", " ", "\n", '// a "b" , ] }\n', '/* c\n" , } // */', "/**/", "/***/"])


@given(
    data=st.dictionaries(st.text(), VALUES), gaps=st.lists(GAPS, min_size=1), indent=st.booleans()
)
def test_comments_between_tokens_change_nothing(data, gaps, indent):
    decoder, pieces = json.JSONDecoder(), []
    text = json.dumps(data, indent=1 if indent else None)
    while text:
        size = decoder.raw_decode(text)[1] if text[0] == '"' else 1
        is_part = text[0].isalnum() or text[0] in "-."  # of a number or a word
        pieces += [text[:size], "" if is_part else gaps[len(pieces) % len(gaps)]]
        text = text[size:]
    assert parse_jsonc("".join(pieces)) == data


def test_settings_are_read_as_an_editor_writes_them():
    text = """// Main settings.
    {
      "url": "https://example.org/*no comment*/", // one
      "list": [1, 2,], /* and
      another */
      "name": "a, }", }
    """
    url = "https://example.org/*no comment*/"
    assert parse_jsonc(text) == {"url": url, "list": [1, 2], "name": "a, }"}


@pytest.mark.parametrize("text", ["", " \n", "// nothing", "/* nothing */"])
def test_a_text_that_holds_nothing_is_an_empty_object(text):
    assert parse_jsonc(text) == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "holds no object"),
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ("{" * 9, "Expecting"),
        ('{"a":' * 200_000, "nested too deeply"),
        ('{"a": 1} /* open', "Extra data"),
        ("{} /*/", "Extra data"),
        ('{"a": "b\n"}', "control character"),
        ('{"a": [1,,]}', "Expecting value|trailing comma"),
        ('{"a": ' + "9" * 5_000 + "}", "digits"),
    ],
)
def test_what_is_no_object_is_refused(text, reason):
    with pytest.raises(ValueError, match=reason):
        parse_jsonc(text)


@pytest.mark.parametrize("unit", ['"', '\\"', "/*", "/", ",", ", ", '/*"', "\n"])
def test_repeated_marks_are_gone_through_once(unit):
    """Each text keeps its length; a search that began anew at each mark would not end."""
    text = unit * ((1 << 18) // len(unit))
    assert len(without_last_commas(without_comments(text))) == len(text)
