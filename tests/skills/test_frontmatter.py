"""Tests of cutting frontmatter off and loading it in bounded time."""

import pytest
import yaml

from skillsearch.errors import ParseError
from skillsearch.skills import frontmatter
from skillsearch.skills.frontmatter import end_of_keys, load_yaml, split_frontmatter

MERGE_BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 12)
)
ALIAS_BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 20)
)

REFUSED = {
    "merge keys": (MERGE_BOMB, "yaml-anchor"),
    "aliases": (ALIAS_BOMB, "yaml-anchor"),
    "a lone anchor": ("a: &x 1", "yaml-anchor"),
    "deep flow lists": ("a: " + "[" * 60_000, "yaml-too-deep"),
    "deep flow mappings": ("a: " + "{x: " * 16_000, "yaml-too-deep"),
    "deep block lists": ("- " * 30_000, "yaml-too-deep"),
    "deep keys": ("? " * 30_000, "yaml-too-deep"),
    "many values": ("a: [" + "1," * 6_000 + "]", "yaml-too-many-values"),
    "many keys": ("".join(f"k{n}: 1\n" for n in range(3_000)), "yaml-too-many-values"),
    "python tag": ("a: !!python/object/apply:os.getcwd []", "yaml-tag"),
    "binary tag": ("a: !!binary aGVsbG8=", "yaml-local-tag"),
    "local tag": ("a: !secret x", "yaml-local-tag"),
    "tag without a name": ("a: ! x", "yaml-local-tag"),
    "100,000 brackets": ("[" * 100_000, "frontmatter-too-large"),
    "4 MB scalar": ("a: " + "x" * 4_000_000, "frontmatter-too-large"),
    "64 KiB of three-byte characters": ("a: " + "技" * 22_000, "frontmatter-too-large"),
    "list": ("- a\n- b", "yaml-not-a-mapping"),
    "scalar": ("hello", "yaml-not-a-mapping"),
    "two documents": ("a: 1\n--- x\nb: 2", "yaml-invalid"),
    "unquoted colon": ("description: Use when: x", "yaml-invalid"),
    "tab indent": ("a:\n\tb: 1", "yaml-invalid"),
    "control character": ("a: \x01", "yaml-invalid"),
    "lone surrogate": ("a: \ud800", "yaml-invalid"),
}


@pytest.mark.parametrize(("text", "code"), REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.timeout(120)
def test_harmful_or_broken_yaml_is_refused_at_once(text, code):
    with pytest.raises(ParseError) as caught:
        load_yaml(text)
    assert caught.value.code == code


def test_brackets_are_refused_while_the_events_stream(monkeypatch):
    """Depth stops the parser itself, which is quadratic in brackets, not just the result."""
    seen, events = [], frontmatter._events

    def counted(text):
        for event in events(text):
            seen.append(event)
            yield event

    monkeypatch.setattr(frontmatter, "_events", counted)
    with pytest.raises(ParseError) as caught:
        load_yaml("[" * 65_000)
    assert caught.value.code == "yaml-too-deep"
    assert 0 < len(seen) < 30


def test_sixteen_levels_are_accepted_and_seventeen_are_not():
    """The depth limit counts the top mapping as the first level."""
    value, _ = load_yaml("a: " + "[" * 15 + "]" * 15)
    assert value["a"] != []
    with pytest.raises(ParseError):
        load_yaml("a: " + "[" * 16 + "]" * 16)


VALUES = {
    "text": ("plain words", "plain words"),
    "integer": ("12", 12),
    "negative": ("-3", -3),
    "decimal": ("1.5", 1.5),
    "version with a trailing zero": ("1.10", "1.10"),
    "leading zero": ("007", "007"),
    "huge integer": ("9" * 5_000, "9" * 5_000),
    "not a number": (".nan", ".nan"),
    "infinity": ("-.inf", "-.inf"),
    "exponent": ("1e400", "1e400"),
    "date": ("2026-01-31", "2026-01-31"),
    "time": ("2026-01-31 10:00:00", "2026-01-31 10:00:00"),
    "sexagesimal": ("12:30", "12:30"),
    "true": ("true", True),
    "False": ("False", False),
    "yes": ("yes", "yes"),
    "null": ("null", None),
    "tilde": ("~", None),
    "nothing": ("", None),
    "quoted number": ('"12"', "12"),
    "quoted nothing": ("''", ""),
    "text by tag": ("!!str 12", "12"),
    "flow": ("{a: [1, b], c: {}}", {"a": [1, "b"], "c": {}}),
    "block text": ("|\n  one\n  two\n", "one\ntwo\n"),
    "folded text": (">-\n  one\n  two\n", "one two"),
    "inert merge key": ("{<<: {b: 1}}", {"<<": {"b": 1}}),
    "odd keys": ("{1: a, true: b, ? [x, 2] : c}", {"1": "a", "true": "b", '["x", 2]': "c"}),
}


@pytest.mark.parametrize(("written", "value"), VALUES.values(), ids=VALUES.keys())
def test_values_are_json_and_keep_their_written_form(written, value):
    loaded, findings = load_yaml(f"key: {written}")
    assert loaded == {"key": value}
    assert type(loaded["key"]) is type(value)
    assert findings == ()


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "~"])
def test_empty_yaml_is_an_empty_mapping(text):
    assert load_yaml(text) == ({}, ())


def test_lines_are_those_of_the_file_and_the_last_of_repeated_keys_counts():
    with pytest.raises(ParseError) as caught:
        load_yaml("a: 1\nb: c: d", first_line=2)
    assert caught.value.line == 3
    loaded, (finding,) = load_yaml("a: 1\nb: 2\na: 3", first_line=2)
    assert loaded == {"a": 3, "b": 2}
    report = (finding.code, finding.line, finding.severity)
    assert report == ("yaml-duplicate-key", 4, "warning")


def test_pure_python_loader_gives_the_same_values(monkeypatch):
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    for written, value in VALUES.values():
        assert load_yaml(f"key: {written}")[0] == {"key": value}
    assert load_yaml('key: "\\ud800"')[0] == {"key": "?"}
    for name in ("merge keys", "python tag", "list", "two documents", "lone surrogate"):
        with pytest.raises(ParseError):
            load_yaml(REFUSED[name][0])


SPLITS = {
    "plain": ("---\na: 1\n---\nBody\n", "a: 1\n", "Body\n", 2, 4),
    "dashes in a value": ("---\na: b --- c\n---\nBody", "a: b --- c\n", "Body", 2, 4),
    "more dashes": ("---\na: |\n  x\n----\n---\nB", "a: |\n  x\n----\n", "B", 2, 6),
    "crlf": ("---\r\na: 1\r\n---\r\nBody", "a: 1\n", "Body", 2, 4),
    "old Mac": ("---\ra: 1\r---\rBody", "a: 1\n", "Body", 2, 4),
    "byte order mark": ("\ufeff---\na: 1\n---\nBody", "a: 1\n", "Body", 2, 4),
    "blanks after the dashes": ("--- \t\na: 1\n---  \nBody", "a: 1\n", "Body", 2, 4),
    "blank lines above": ("\n \n---\na: 1\n---\nBody", "a: 1\n", "Body", 4, 6),
    "end of file": ("---\na: 1\n---", "a: 1\n", "", 2, 3),
    "empty": ("---\n---\nBody", "", "Body", 2, 3),
    "ruler in the body": ("---\na: 1\n---\nx\n\n---\ny", "a: 1\n", "x\n\n---\ny", 2, 4),
}


@pytest.mark.parametrize("case", SPLITS.values(), ids=SPLITS.keys())
def test_frontmatter_is_cut_at_lines_of_three_dashes(case):
    text, expected, body, first_line, body_line = case
    sections = split_frontmatter(text)
    assert (sections.frontmatter, sections.body, sections.closed) == (expected, body, True)
    assert (sections.first_line, sections.body_line) == (first_line, body_line)


@pytest.mark.parametrize(
    "text", ["", "---", "# Title\n---\na: 1\n---\n", "----\na: 1\n----\n", "a: 1"]
)
def test_text_without_an_opening_line_has_no_frontmatter(text):
    sections = split_frontmatter(text)
    assert (sections.frontmatter, sections.body) == (None, text)


def test_end_of_unclosed_frontmatter_is_guessed():
    sections = split_frontmatter("---\na: 1\ntags:\n- x\n  y: 2\n\n# Title\nText: more\n")
    assert sections.frontmatter == "a: 1\ntags:\n- x\n  y: 2\n\n"
    assert sections.body == "# Title\nText: more\n"
    assert (sections.closed, sections.body_line) == (False, 7)
    assert end_of_keys("a: 1\nb: 2") == 9


@pytest.mark.parametrize("unit", ["\n---x", "---\n", "\n", " \n", "a: 1\n", "\r\n---\t", "- \n"])
@pytest.mark.timeout(120)
def test_cutting_takes_time_linear_in_the_text(unit):
    text = "---\n" + unit * (500_000 // len(unit))
    split_frontmatter(text)
