"""Tests of reading SKILL.md bytes leniently, and frontmatter that is not YAML."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skillsearch.errors import ParseError
from skillsearch.skills.parser import read_skill_text
from skillsearch.types.skills import Diagnostic, Skill

ROOT = Path("skills")


def codes(diagnostics):
    return [diagnostic.code for diagnostic in diagnostics]


def codes_and_severities(diagnostics):
    return [(diagnostic.code, diagnostic.severity) for diagnostic in diagnostics]


def codes_and_lines(diagnostics):
    return [(diagnostic.code, diagnostic.line) for diagnostic in diagnostics]


def test_sound_skill_is_read_without_a_word(parse):
    data = b"---\nname: tea-timer\ndescription: Times tea.\n---\n\n# Tea\n\nSteep.\n"
    skill, diagnostics = parse(data)
    assert diagnostics == ()
    assert (skill.name, skill.description) == ("tea-timer", "Times tea.")
    assert skill.body == "# Tea\n\nSteep."
    assert (skill.doc_id, skill.root) == ("skills:tea-timer", ROOT)
    assert skill.path == ROOT / "tea-timer" / "SKILL.md"
    assert skill.content_hash == hashlib.sha256(data).hexdigest()
    assert skill.metadata.frontmatter == {"name": "tea-timer", "description": "Times tea."}


@pytest.mark.parametrize(
    "line", ["", "description:\n", "description: ' '\n", "description: null\n"]
)
def test_without_a_description_the_first_paragraph_stands_for_it(parse, line):
    body = "# Tea\n\n- steep\n\n```\nboil\n```\n\nBrews tea\nfor guests.\n\nThen more.\n"
    skill, diagnostics = parse(f"---\nname: tea-timer\n{line}---\n{body}")
    assert skill.description == "Brews tea for guests."
    assert codes_and_severities(diagnostics) == [("description-missing", "warning")]
    skill, _ = parse(f"---\nname: tea-timer\n{line}---\n" + "steep " * 1_000)
    assert len(skill.description) <= 1024
    assert skill.description.startswith("steep steep")


BODIES = {
    "a heading and a paragraph": ("# Tea\n\nTimes tea.\n", "Times tea."),
    "words alone": ("Times tea.", "Times tea."),
    "marks for a paragraph": ("# Tea\n\n**Version:** 1\n", "Version:** 1"),
    "an example of frontmatter": (
        "# Doc\n\nTimes tea.\n\n```\n---\nname: a\ndescription: b\n---\n```\n",
        "Times tea.",
    ),
}


@pytest.mark.parametrize(("text", "description"), BODIES.values(), ids=BODIES.keys())
def test_without_frontmatter_folder_and_first_paragraph_stand_for_it(parse, text, description):
    skill, diagnostics = parse(text)
    assert (skill.name, skill.description, skill.body) == ("tea-timer", description, text.strip())
    assert codes_and_severities(diagnostics) == [("frontmatter-missing", "warning")]
    assert skill.lapses == ("frontmatter-missing",)


KEYS = "name: tea-timer\ndescription: Times tea.\n"
CODE = "```sh\nsteep\n```\n"
FENCED = {
    "all, in the manner of an editor": (f"```skill\n---\n{KEYS}---\n# Tea\n```\n", "# Tea"),
    "all, with tildes and blank lines": (f"\n~~~ md\n\n---\n{KEYS}---\n# Tea\n~~~", "# Tea"),
    "all, by more than inner code": (f"````markdown\n---\n{KEYS}---\n{CODE}````", CODE.strip()),
    "all, by as much as inner code": (f"```md\n---\n{KEYS}---\n{CODE}```", CODE.strip()),
    "all, never closed": (f"```md\n---\n{KEYS}---\n{CODE}", CODE.strip()),
    "its frontmatter": (f"```yaml\n---\n{KEYS}---\n```\n\n# Tea\n{CODE}", f"# Tea\n{CODE}".strip()),
    "its keys": (f"```yaml\n{KEYS}```\n# Tea\n", "# Tea"),
    "its keys below a line": (f"```yaml\n---\n{KEYS}```\n# Tea\n", "# Tea"),
}


@pytest.mark.parametrize(("text", "body"), FENCED.values(), ids=FENCED.keys())
def test_a_code_fence_around_a_skill_is_no_part_of_it(parse, text, body):
    skill, diagnostics = parse(text)
    assert (skill.name, skill.description) == ("tea-timer", "Times tea.")
    assert skill.body == body
    assert codes(diagnostics) == ["frontmatter-offset"]
    _, (_, odd) = parse(text.replace("Times", "Times:"))
    assert text.split("\n")[odd.line - 1] == "description: Times tea."


def test_frontmatter_may_be_toml(parse):
    text = '+++\nname = "tea-timer"\ndescription = "Times tea."\ndate = 2026-01-02\n+++\n# Tea\n'
    skill, diagnostics = parse(text)
    assert (skill.name, skill.description, skill.body) == ("tea-timer", "Times tea.", "# Tea")
    assert skill.metadata.frontmatter["date"] == "2026-01-02"
    assert codes(diagnostics) == ["frontmatter-toml"]
    for wrong in ("name =", "a = " + "[" * 9_000):
        broken = f"+++\n{wrong}\n+++\n\nTimes tea."
        assert codes(parse(broken)[1]) == ["frontmatter-missing"]


def test_a_closing_line_may_be_indented(parse):
    skill, _ = parse("  ---\n  name: tea-timer\n  description: Times tea.\n  ---\n  # Tea\n")
    assert (skill.description, skill.body) == ("Times tea.", "# Tea")
    skill, _ = parse("---\ndescription: |\n  Times\n  ---\n  tea.\n---\n# Tea\n")
    assert (skill.description, skill.body) == ("Times\n---\ntea.", "# Tea")


ANCHORED = {
    "a field": ("defaults: &d\n  a: 1\nother: *d", {}),
    "merged": ("base: &b {a: 1}\nother:\n  <<: *b\n  c: 2", {"base": {"a": 1}}),
    "inside the metadata": (
        "metadata:\n  a: &d [1]\n  b: *d\n  version: 1.0",
        {"metadata": {"a": [1], "version": 1.0}},
    ),
    "a list": ("tags: &t [hot]\nkeywords: [*t, *t]", {"tags": ["hot"]}),
}


@pytest.mark.parametrize(("lines", "sound_fields"), ANCHORED.values(), ids=ANCHORED.keys())
def test_fields_with_anchors_are_left_out_and_the_rest_is_kept(parse_fields, lines, sound_fields):
    skill, diagnostics = parse_fields(f"description: Times tea.\n{lines}")
    expected = {"name": "tea-timer", "description": "Times tea.", **sound_fields}
    assert skill.metadata.frontmatter == expected
    assert "yaml-anchor" in codes(diagnostics)


@pytest.mark.timeout(60)
def test_a_bomb_of_aliases_costs_the_fields_that_hold_it(parse_fields):
    bomb = "\n".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, 900))
    skill, _ = parse_fields(f"description: Times tea.\na0: &a0 [x, x]\n{bomb}")
    assert skill.description == "Times tea."
    assert set(skill.metadata.frontmatter) == {"name", "description", "a0"}


REFUSED = {
    "nothing": (b"", "frontmatter-missing"),
    "a web page": (b"<!DOCTYPE html>\n<p>Steep.</p>", "frontmatter-missing"),
    "a lost page": (b"404: Not Found", "frontmatter-missing"),
    "bytes": (b"PK\x03\x04\0\0 tea", "frontmatter-missing"),
    "Git LFS": (b"version https://git-lfs.github.com/spec/v1\noid a:1\n", "frontmatter-missing"),
    "in a fence": (b"# Doc\n```\n---\nname: a\ndescription: b\n---\n```", "frontmatter-missing"),
    "no description": (b"---\nname: tea\n---\n# Body", "description-missing"),
    "empty frontmatter": (b"---\n---\n# Body", "description-missing"),
    "prose as frontmatter": (b"---\nJust words.\n---\nBody", "yaml-not-a-mapping"),
    "alias bomb": (b"---\na: &a [x: y: z]\nb: [*a, *a]\n---\n", "description-missing"),
    "brackets behind broken YAML": (
        b"---\ndescription: x: y\na: " + b"[" * 60_000 + b"\n---\n",
        "yaml-too-deep",
    ),
    "large": (b"---\ndescription: " + b"x" * 70_000 + b"\n---\n", "frontmatter-too-large"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.timeout(120)
def test_what_cannot_be_a_skill_is_refused_with_its_code(parse, case):
    data, code = case
    with pytest.raises(ParseError) as caught:
        parse(data)
    assert caught.value.code == code


ENCODINGS = {
    "utf-8 with a mark": ("utf-8-sig", [("byte-order-mark", "note")]),
    "latin-1": ("latin-1", [("not-utf8", "warning")]),
    "utf-16": ("utf-16", [("not-utf8", "warning")]),
    "utf-16 big endian": ("utf-16-be", [("not-utf8", "warning")]),
}


@pytest.mark.parametrize(("encoding", "expected"), ENCODINGS.values(), ids=ENCODINGS.keys())
def test_other_encodings_are_read_and_reported(parse, encoding, expected):
    text = "---\nname: café\ndescription: Thé brûlant\n---\nBody\n"
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    skill, diagnostics = parse((mark + text).encode(encoding), "café")
    assert (skill.name, skill.description) == ("café", "Thé brûlant")
    assert codes_and_severities(diagnostics) == expected


def test_one_bad_byte_does_not_garble_the_other_letters(parse):
    data = "---\nname: t\ndescription: 泡茶计时器\n---\n".encode() + b"bad \xe6 byte"
    skill, diagnostics = parse(data, "t")
    assert skill.description == "泡茶计时器"
    assert skill.body == "bad \ufffd byte"
    assert codes_and_lines(diagnostics) == [("not-utf8", 5)]


TEA = "name: t\ndescription: Tea\n"
PROSE = "# Title\nSome prose.\n\n---\nEnd: y"
OFFSETS = {
    "blank lines": (f"\n\n---\n{TEA}---\nBody", "Body", ["offset"]),
    "preamble": (f"From: me\n\n---\n{TEA}---\nBody", "From: me\n\nBody", ["offset"]),
    "no dashes": (f"{TEA}\nBody text.\n", "Body text.", ["offset", "unclosed"]),
    "not closed": (f"---\n{TEA}\n# Title\nBody", "# Title\nBody", ["unclosed"]),
    "closed by a ruler far below": (f"---\n{TEA}\n{PROSE}", PROSE, ["unclosed"]),
}


@pytest.mark.parametrize("case", OFFSETS.values(), ids=OFFSETS.keys())
def test_misplaced_frontmatter_is_found(parse, case):
    text, body, expected = case
    skill, diagnostics = parse(text, "t")
    assert (skill.name, skill.description, skill.body) == ("t", "Tea", body)
    assert codes(diagnostics) == [f"frontmatter-{code}" for code in expected]


def test_lines_are_right_below_a_preamble(parse):
    _, diagnostics = parse("Title\n\n---\nname: t\ndescription: a: b\n---\n", "t")
    assert codes_and_lines(diagnostics)[-1] == ("yaml-unquoted-colon", 5)
    _, diagnostics = parse("Title\n\nname: t\ndescription: a: b\n\nBody.\n", "t")
    assert codes_and_lines(diagnostics)[-1] == ("yaml-unquoted-colon", 4)


FRAGMENTS = st.one_of(
    st.sampled_from("-:|>#?%@`~[]{}\"'\\é技\t\n\ufeff\x00"),
    st.sampled_from(["---", "name", "description", "&a", "*a", "!!str", "!x", "<<", "\r\n"]),
    st.sampled_from([": ", "- ", "  "]),
)


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=400),
        st.lists(FRAGMENTS, max_size=60).map(lambda parts: "".join(parts).encode()),
        st.lists(FRAGMENTS, max_size=60).map(
            lambda parts: f"---\ndescription: x\n{''.join(parts)}\n---\nBody".encode()
        ),
    )
)
@example(b"\xff\xfe-")
@example(b"---\n? \n---\n")
@example(b"---\n\xed\xa0\x80: x\n---\n")
def test_any_bytes_are_a_skill_or_a_parse_error(parse, data):
    try:
        skill, diagnostics = parse(data)
    except ParseError:
        return
    assert isinstance(skill, Skill)
    assert skill.description.strip()
    assert skill.name.strip()
    assert all(isinstance(diagnostic, Diagnostic) for diagnostic in diagnostics)
    json.dumps(dict(skill.metadata.frontmatter), allow_nan=False).encode()
    f"{skill.name}{skill.description}{skill.body}".encode()


@settings(max_examples=100, deadline=None)
@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=80)
)
def test_any_one_line_description_is_found(parse, words):
    try:
        skill, _ = parse(f"---\nname: tea-timer\ndescription: Tea {words}\n---\n")
    except ParseError:
        pytest.fail(f"refused: {words!r}")
    assert skill.description.startswith("Tea")


UNITS = [
    "a: b: c\n", "a:\n", "- x\n", "\t", "---\n", "a: [", "&a *b ", "'", '"a" ', "# x\n", "\x01",
    "é",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("start", ["---\ndescription: x\n", "---\ndescription: x: y\nk: ", ""])
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_parsing_takes_bounded_time(parse, start, unit):
    for size in (60_000, 900_000):
        data = (start + unit * (size // len(unit)) + "\n---\nBody\n").encode()
        with suppress(ParseError):
            parse(data)


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ("---\nname: tea-timer\ndescription: Tea.\n---\n", ""),
        ("\ufeff\n---\nname: tea-timer\ndescription: Tea.\n---\n\n\n# Tea\n\n", "\n\n"),
        ("---\r\nname: tea-timer\r\ndescription: Tea.\r\n---\r\n\r\n# Tea\r\n", "\r\n"),
        ("name: tea-timer\ndescription: Tea.\n---\n# Tea\n", "\n"),
        ("---\nname: tea-timer\ndescription: Tea.\n\n# Tea\n", "\n---\n\nMore.\n"),
    ],
)
def test_oddities_of_chunks_carry_the_line_of_the_file(parse, head, tail):
    skill, diagnostics = parse(f"{head}<chunk id=a description=d>\n</chunk></chunk>{tail}")
    line = head.count("\n") + 1
    warnings = [(d.code, d.line, d.severity) for d in diagnostics if d.code.startswith("chunk")]
    assert warnings == [("chunk-empty", line, "warning"), ("chunk-stray-end", line + 1, "warning")]
    assert "<chunk id=a description=d>" in skill.body


DESCRIPTIONS = {
    "three dashes": ("Times tea --- and coffee", "Times tea --- and coffee", []),
    "unquoted colon": ("Use when: tea is made", "Use when: tea is made", ["yaml-unquoted-colon"]),
    "colon at the end": ("Use when:", "Use when:", ["yaml-unquoted-colon"]),
    "two lines": ("Use: tea\n  or: milk", "Use: tea or: milk", ["yaml-unquoted-colon"]),
    "at sign": ("@teapot watches", "@teapot watches", ["yaml-salvaged"]),
    "exclamation mark": ("!important tea", "!important tea", ["yaml-salvaged"]),
    "percent": ("%tea", "%tea", ["yaml-salvaged"]),
    "comma": (", then tea", ", then tea", ["yaml-salvaged"]),
    "open quote": ('"Times tea', "Times tea", ["yaml-salvaged"]),
    "quotes in quotes": ('"Say "tea" now"', 'Say "tea" now', ["yaml-salvaged"]),
    "quoted start": ('"Tea" and "milk"', '"Tea" and "milk"', ["yaml-salvaged"]),
    "escaped quotes": ('"Say \\"tea\\": now" x', 'Say "tea": now" x', ["yaml-unquoted-colon"]),
    "open bracket": ("[draft] Times tea", "[draft] Times tea", ["yaml-salvaged"]),
    "open brace": ("{{TEA}} timer", "{{TEA}} timer", ["yaml-salvaged", "placeholder"]),
    "list": ("\n  - Times tea\n  - and milk", "Times tea and milk", ["description-not-text"]),
    "mapping": ("\n  a: tea\n  b: [milk]", "a: tea; b: milk", ["description-not-text"]),
    "broken list": ('\n  - "T" x\n  - y', '"T" x y', ["yaml-salvaged", "description-not-text"]),
    "block": ("|\n  Times tea.\n\n  And milk.", "Times tea.\n\nAnd milk.", []),
    "block with a tab": ("|\n\tTimes tea.\n\tMilk.", "Times tea.\nMilk.", ["yaml-salvaged"]),
    "block and margin": ("|\n  Times tea.\nand milk", "Times tea.\nand milk", ["yaml-salvaged"]),
    "unindented lines": ("Times tea\nand milk, too", "Times tea and milk, too", ["yaml-salvaged"]),
    "tab indent": ("Times tea\nextra:\n\tdeep: 1", "Times tea", ["yaml-salvaged"]),
    "tab before the value": ("\tTimes tea", "Times tea", []),
    "control character": ("Times\x07 tea", "Times  tea", ["control-characters"]),
    "escaped control character": ('"Times\\e tea"', "Times  tea", []),
    "long": ("x" * 1025, "x" * 1025, ["description-too-long"]),
}


@pytest.mark.parametrize("case", DESCRIPTIONS.values(), ids=DESCRIPTIONS.keys())
def test_readable_description_survives_whatever_is_wrong(parse_fields, case):
    written, description, expected = case
    skill, diagnostics = parse_fields(f"description: {written}")
    assert skill.description == description
    assert skill.name == "tea-timer"
    assert skill.body == "Steep, then pour."
    assert codes(diagnostics) == expected


def test_salvage_keeps_the_sound_entries_as_they_are(parse_fields):
    skill, diagnostics = parse_fields(
        "description: Tea: hot\nmetadata:\n  version: 1.10\n  note: a: b\n  tags: [x, y]\nn: 3"
        "\nversion: 1\nversion: 2"
    )
    assert skill.metadata.frontmatter == {
        "name": "tea-timer",
        "description": "Tea: hot",
        "metadata": {"version": "1.10", "note": "a: b", "tags": ["x", "y"]},
        "n": 3,
        "version": 2,
    }
    assert codes_and_lines(diagnostics) == [
        ("yaml-unquoted-colon", 3),
        ("yaml-unquoted-colon", 6),
        ("yaml-duplicate-key", 10),
    ]
    assert (skill.metadata.tags, skill.metadata.version) == (("x", "y"), "2")


def test_the_text_of_a_file_is_read_with_its_hash(tmp_path):
    path = tmp_path / "SKILL.md"
    path.write_bytes("\ufeff---\nname: tea\n---\nSteep.\n".encode())
    text, content_hash = read_skill_text(path)
    assert text == "---\nname: tea\n---\nSteep.\n"
    assert content_hash == hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(ParseError, match="cannot be read"):
        read_skill_text(tmp_path / "none" / "SKILL.md")


@pytest.mark.parametrize(
    ("lines", "is_hidden"),
    [
        ("metadata:\n  internal: true", True),
        ("metadata:\n  internal: 'yes'", True),
        ("metadata:\n  internal: false", False),
        ("disable-model-invocation: true", True),
        ("internal: true", False),
    ],
)
def test_an_internal_skill_asks_not_to_be_offered(parse_fields, lines, is_hidden):
    skill, _ = parse_fields(f"description: Times tea.\n{lines}")
    assert skill.metadata.hidden is is_hidden
