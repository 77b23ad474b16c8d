"""Tests of making the many spellings of fields regular."""

import json

import pytest


def codes(diagnostics):
    return [diagnostic.code for diagnostic in diagnostics]


NAMES = {
    "missing": ("", "tea-timer", ["name-missing"]),
    "empty": ("name:", "tea-timer", ["name-missing"]),
    "other folder": ("name: coffee", "coffee", ["name-differs-from-folder"]),
    "blanks": ("name: Tea Timer", "Tea Timer", ["name-characters", "name-differs-from-folder"]),
    "hyphens": ("name: -tea--timer", "-tea--timer", ["name-hyphens", "name-differs-from-folder"]),
    "long": ("name: " + "a" * 65, "a" * 65, ["name-too-long", "name-differs-from-folder"]),
    "number": ("name: 12", "12", ["name-not-text", "name-differs-from-folder"]),
    "lines": ("name: |\n  a\n  b", "a b", ["name-characters", "name-differs-from-folder"]),
}


@pytest.mark.parametrize("case", NAMES.values(), ids=NAMES.keys())
def test_odd_names_are_kept_with_a_warning(parse, case):
    line, name, expected = case
    skill, diagnostics = parse(f"---\n{line}\ndescription: Times tea.\n---\n")
    assert skill.name == name
    assert codes(diagnostics) == expected
    assert {diagnostic.severity for diagnostic in diagnostics} == {"warning"}


def test_composed_and_decomposed_names_are_equal(parse):
    assert parse("---\nname: cafe\u0301\ndescription: x\n---\n", "caf\u00e9")[1] == ()


FIELDS = {
    "tools": ("allowed-tools: A, B(git a:*) C", "allowed_tools", ("A", "B(git a:*)", "C")),
    "tools as list": ("allowed_tools: [Read, 'Bash(a b)']", "allowed_tools", ("Read", "Bash(a b)")),
    "tools in metadata": ("metadata: {allowedTools: A B}", "allowed_tools", ("A", "B")),
    "tags": ("tags: [tea, tea, hot]\nkeywords: 'pot, cup'", "tags", ("tea", "hot", "pot", "cup")),
    "tags in metadata": ("metadata:\n  tags: tea, hot", "tags", ("tea", "hot")),
    "tags of a host": ("metadata:\n  hermes:\n    tags: [tea, 7]", "tags", ("tea", "7")),
    "tags as flow text": ("tags: '[tea, \"hot pot\"]'", "tags", ("tea", "hot pot")),
    "triggers": ("triggers:\n  - make tea\n  - boil: water", "triggers", ("make tea", "water")),
    "phrases": ("trigger-phrases: [a]\nmetadata: {triggers: 'c, d'}", "triggers", ("a", "c", "d")),
    "trigger mapping": ("Triggers: {keywords: [tea], other: cup}", "triggers", ("tea", "cup")),
    "when to use": ("when_to_use: At four.", "when_to_use", "At four."),
    "whenToUse": ("agentMetadata:\n  whenToUse: At four.", "when_to_use", "At four."),
    "when-to-use as list": ("when-to-use: [At four, at five]", "when_to_use", "At four at five"),
    "version": ("version: 1.10", "version", "1.10"),
    "version in metadata": ("metadata: {version: 2}", "version", "2"),
    "licence": ("license: MIT", "license", "MIT"),
    "compatibility": ("compatibility: {os: [linux]}", "compatibility", "os: linux"),
    "hidden": ("disable-model-invocation: true", "hidden", True),
    "hidden as text": ("disable_model_invocation: 'Yes'", "hidden", True),
    "not hidden": ("disable-model-invocation: false", "hidden", False),
    "needs": ("requires-skills: [pdf, 'ocr@^1.2']", "requires", ("pdf", "ocr@>=1.2,<2")),
    "needs in metadata": ("metadata: {required_skills: 'pdf, ocr'}", "requires", ("pdf", "ocr")),
    "needs beside tools": ("requires: {mcp: [rube], skills: [pdf]}", "requires", ("pdf",)),
    "needs of a host": ("metadata: {hermes: {requires-skills: [pdf]}}", "requires", ()),
    "packages and hints": ("dependencies: [numpy]\nrelated-skills: [pdf]", "requires", ()),
    "empty phrases": ("tags: ['', ~, tea]\ntriggers: ', ,x'", "tags", ("tea",)),
    "two spellings": ("when-to-use: At five.\nwhentouse: At four.", "when_to_use", "At four."),
    "two odd spellings": ("when-to-use: At four.\nWhen_To_Use: x", "when_to_use", "At four."),
    "null fields": ("tags:\ntriggers: ~\nversion: null", "tags", ()),
}


@pytest.mark.parametrize("case", FIELDS.values(), ids=FIELDS.keys())
def test_spellings_of_a_field_reach_the_same_place(parse_fields, case):
    lines, field, value = case
    skill, diagnostics = parse_fields(f"description: Tea.\n{lines}")
    assert getattr(skill.metadata, field) == value
    assert diagnostics == ()


def test_unknown_keys_are_kept_as_json(parse_fields):
    skill, _ = parse_fields("description: Tea.\nodd: {deep: [1, 2.5, ~, 2026-01-01]}\n7: x")
    assert json.loads(json.dumps(dict(skill.metadata.frontmatter)))["odd"] == {
        "deep": [1, 2.5, None, "2026-01-01"]
    }
    assert skill.metadata.frontmatter["7"] == "x"


def test_a_need_in_a_broken_version_is_kept_with_a_warning(parse_fields):
    skill, diagnostics = parse_fields("description: Tea.\nrequires-skills: {pot: new, cup: 1}")
    assert skill.metadata.requires == ("pot", "cup@==1")
    (warning,) = diagnostics
    assert (warning.code, warning.severity) == ("requirement-invalid", "warning")
    assert "'new'" in warning.message
    assert "'pot'" in warning.message
