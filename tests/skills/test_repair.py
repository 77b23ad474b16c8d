"""Tests of reading frontmatter that is not YAML."""

from pathlib import Path

import pytest

from skillsearch.skills.parser import parse_skill


def parse(text, folder="tea-timer"):
    """Parse a text as the SKILL.md of a folder."""
    path = Path("skills") / folder / "SKILL.md"
    return parse_skill(text.encode(), doc_id=f"skills:{folder}", path=path, root=Path("skills"))


def parse_fields(lines, folder="tea-timer"):
    """Parse frontmatter lines with a name and a body around them."""
    return parse(f"---\nname: {folder}\n{lines}\n---\nSteep, then pour.\n", folder)


def codes(diagnostics):
    """Return the codes of diagnostics."""
    return [diagnostic.code for diagnostic in diagnostics]


DESCRIPTIONS = {
    "three dashes": ("Times tea --- and coffee", "Times tea --- and coffee", []),
    "unquoted colon": ("Use when: tea is made", "Use when: tea is made", ["yaml-unquoted-colon"]),
    "colon at the end": ("Use when:", "Use when:", ["yaml-unquoted-colon"]),
    "two lines with colons": (
        "Use when: tea\n  or else: coffee",
        "Use when: tea or else: coffee",
        ["yaml-unquoted-colon"],
    ),
    "at sign": ("@teapot watches", "@teapot watches", ["yaml-salvaged"]),
    "backtick": ("`tea` command", "`tea` command", ["yaml-salvaged"]),
    "bold": ("**Tea** timer", "**Tea** timer", ["yaml-salvaged"]),
    "ampersand": ("&tea and more", "&tea and more", ["yaml-salvaged"]),
    "exclamation mark": ("!important tea", "!important tea", ["yaml-salvaged"]),
    "percent": ("%tea", "%tea", ["yaml-salvaged"]),
    "comma": (", then tea", ", then tea", ["yaml-salvaged"]),
    "open quote": ('"Times tea', "Times tea", ["yaml-salvaged"]),
    "quotes in quotes": ('"Say "tea" now"', 'Say "tea" now', ["yaml-salvaged"]),
    "quoted start": ('"Tea" and "milk"', '"Tea" and "milk"', ["yaml-salvaged"]),
    "escaped quotes": ('"Say \\"tea\\": now" x', 'Say "tea": now" x', ["yaml-unquoted-colon"]),
    "open bracket": ("[draft] Times tea", "[draft] Times tea", ["yaml-salvaged"]),
    "open brace": ("{{TEA}} timer", "{{TEA}} timer", ["yaml-salvaged"]),
    "list": ("\n  - Times tea\n  - and milk", "Times tea and milk", ["description-not-text"]),
    "mapping": (
        "\n  short: tea\n  more: [milk]",
        "short: tea; more: milk",
        ["description-not-text"],
    ),
    "broken list": (
        '\n  - "Times" tea\n  - milk',
        '"Times" tea milk',
        ["yaml-salvaged", "description-not-text"],
    ),
    "number": ("42", "42", []),
    "boolean": ("true", "true", []),
    "date": ("2026-01-31", "2026-01-31", []),
    "block": ("|\n  Times tea.\n\n  And milk.", "Times tea.\n\nAnd milk.", []),
    "block with a tab": (
        "|\n\tTimes tea.\n\tAnd milk.",
        "Times tea.\nAnd milk.",
        ["yaml-salvaged"],
    ),
    "block with a line at the margin": (
        "|\n  Times tea.\nand milk, too",
        "Times tea.\nand milk, too",
        ["yaml-salvaged"],
    ),
    "unindented lines": ("Times tea\nand milk, too", "Times tea and milk, too", ["yaml-salvaged"]),
    "tab indent": ("Times tea\nextra:\n\tdeep: 1", "Times tea", ["yaml-salvaged"]),
    "tab before the value": ("\tTimes tea", "Times tea", []),
    "control character": ("Times\x07 tea", "Times  tea", ["control-characters"]),
    "escaped control character": ('"Times\\e tea"', "Times  tea", []),
    "long": ("x" * 1025, "x" * 1025, ["description-too-long"]),
}


@pytest.mark.parametrize("case", DESCRIPTIONS.values(), ids=DESCRIPTIONS.keys())
def test_readable_description_survives_whatever_is_wrong(case):
    """What a person would read as the description is the description."""
    written, description, expected = case
    skill, diagnostics = parse_fields(f"description: {written}")
    assert skill.description == description
    assert skill.name == "tea-timer"
    assert skill.body == "Steep, then pour."
    assert codes(diagnostics) == expected


def test_salvage_keeps_the_sound_entries_as_they_are():
    """One broken entry does not turn its neighbours into text."""
    skill, diagnostics = parse_fields(
        "description: Tea: hot\nmetadata:\n  version: 1.10\n  note: a: b\n  tags: [x, y]\nn: 3"
    )
    assert skill.metadata.frontmatter == {
        "name": "tea-timer",
        "description": "Tea: hot",
        "metadata": {"version": "1.10", "note": "a: b", "tags": ["x", "y"]},
        "n": 3,
    }
    assert [(d.code, d.line) for d in diagnostics] == [
        ("yaml-unquoted-colon", 3),
        ("yaml-unquoted-colon", 6),
    ]
    assert skill.metadata.tags == ("x", "y")


def test_repeated_key_beside_a_broken_entry_is_reported():
    """Repair keeps the rule for repeated keys: the last counts, with a warning."""
    skill, diagnostics = parse_fields("description: Tea: hot\nversion: 1\nversion: 2")
    assert skill.metadata.version == "2"
    assert [(d.code, d.line) for d in diagnostics] == [
        ("yaml-unquoted-colon", 3),
        ("yaml-duplicate-key", 5),
    ]
