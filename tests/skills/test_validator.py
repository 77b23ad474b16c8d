"""Tests of strict validation, and of its agreement with the reference implementation."""

import itertools
import os
from pathlib import Path

import pytest
from skills_ref.validator import validate as reference_validate

from skillsearch.skills import validator

GOOD = "---\nname: tea-timer\ndescription: Times tea.\n---\n# Tea\n"


def validate(path, *options):
    return validator.validate(path, *options).problems


@pytest.fixture
def make_skill(tmp_path):
    """Write a SKILL.md, given as text or bytes, into a folder and return the folder."""

    def write(content, folder="tea-timer", name="SKILL.md"):
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / name).write_bytes(data)
        return tmp_path / folder

    return write


def errors(diagnostics):
    return [diagnostic.code for diagnostic in diagnostics if diagnostic.severity == "error"]


def advice(diagnostics):
    return [diagnostic.code for diagnostic in diagnostics if diagnostic.severity != "error"]


def fields(*lines, name="tea-timer", description="Times tea."):
    """Return a SKILL.md with these frontmatter lines below name and description."""
    return "\n".join(["---", f"name: {name}", f"description: {description}", *lines, "---", "Body"])


# The situations that the tests of the reference implementation cover, each with our verdict.
CASES = {
    "plain": (GOOD, "tea-timer", []),
    "no frontmatter": ("# Tea\n", "tea-timer", ["frontmatter-missing"]),
    "unclosed": ("---\nname: tea-timer\ndescription: x\n", "tea-timer", ["frontmatter-unclosed"]),
    "broken YAML": ("---\nname: tea\ndescription: x\nlicense: [\n---\n", "tea", ["yaml-invalid"]),
    "a list": ("---\n- tea\n- timer\n---\n", "tea-timer", ["yaml-not-a-mapping"]),
    "no name": ("---\ndescription: x\n---\n", "tea-timer", ["name-missing"]),
    "no description": ("---\nname: tea-timer\n---\n", "tea-timer", ["description-missing"]),
    "fields": (fields("license: MIT", "compatibility: x", "metadata:", "  a: I"), "tea-timer", []),
    "tools": (fields("allowed-tools: Bash(jq:*) Bash(git:*)"), "tea-timer", []),
    "tools as block list": (fields("allowed-tools:", "  - Read", "  - Bash"), "tea-timer", []),
    "unknown field": (fields("steeping: long"), "tea-timer", ["field-unknown"]),
    "capitals": (fields(name="TeaTimer"), "TeaTimer", ["name-characters"]),
    "long name": (fields(name="a" * 70), "a" * 70, ["name-too-long"]),
    "leading hyphen": (fields(name="-tea"), "-tea", ["name-hyphens"]),
    "trailing hyphen": (fields(name="tea-"), "tea-", ["name-hyphens"]),
    "two hyphens": (fields(name="tea--timer"), "tea--timer", ["name-hyphens"]),
    "underscore": (fields(name="tea_timer"), "tea_timer", ["name-characters"]),
    "other folder": (fields(), "coffee", ["name-differs-from-folder"]),
    "Chinese": (fields(name="泡茶"), "泡茶", []),
    "Russian": (fields(name="мой-чай"), "мой-чай", []),
    "Russian capitals": (fields(name="ЧАЙ"), "ЧАЙ", ["name-characters"]),
    "decomposed accent": (fields(name="the\u0301"), "th\u00e9", []),
    "long description": (fields(description="x" * 1025), "tea-timer", ["description-too-long"]),
    "longest description": (fields(description="x" * 1024), "tea-timer", []),
    "too long": (fields("compatibility: " + "x" * 501), "tea-timer", ["compatibility-too-long"]),
    "angle brackets": (fields(description="Use <tea> & <milk>"), "tea-timer", []),
    "number as name": (fields(name="42"), "42", []),
    "repeated key": (fields("license: a", "license: b"), "tea-timer", ["yaml-duplicate-key"]),
    "anchor": (fields("license: &a MIT"), "tea-timer", ["yaml-anchor"]),
    "tag": (fields("license: !x MIT"), "tea-timer", ["yaml-local-tag"]),
    "unquoted colon": (fields(description="Use when: tea"), "tea-timer", ["yaml-invalid"]),
    "blank line above": ("\n" + GOOD, "tea-timer", ["frontmatter-missing"]),
    "windows lines": (GOOD.replace("\n", "\r\n"), "tea-timer", []),
    "description as list": (fields(description="\n  - a"), "tea-timer", ["description-not-text"]),
    "name as list": (fields(name="\n  - a"), "tea-timer", ["name-not-text"]),
    "byte order mark": (b"\xef\xbb\xbf" + GOOD.encode(), "tea-timer", ["byte-order-mark"]),
    "flow list": (fields("allowed-tools: [Read, Bash]"), "tea-timer", ["yaml-flow-style"]),
    "flow mapping": (fields("metadata: {author: me}"), "tea-timer", ["yaml-flow-style"]),
    "empty flow list": (fields("metadata:", "  tags: []"), "tea-timer", ["yaml-flow-style"]),
    "brackets in quotes": (fields("license: '[MIT] {x}'"), "tea-timer", []),
    "empty compatibility": (fields("compatibility:"), "tea-timer", []),
    "as list": (fields("compatibility:", "  - a"), "tea-timer", ["compatibility-not-text"]),
}

# Where we differ from the reference implementation on purpose: (content, its verdict, our errors).
# True: valid; False: invalid; None: it raises an exception.
DELIBERATE_DIFFERENCES = {
    "three dashes do not cut a description": (
        fields(description="Tea --- " + "x" * 1024),
        True,
        ["description-too-long"],
    ),
    "three dashes do not close the frontmatter": (
        "---\nname: tea-timer\ndescription: a --- b\n",
        True,
        ["frontmatter-unclosed"],
    ),
    "dashes hide no field": (fields("license: a --- b", "x: long"), True, ["field-unknown"]),
    "a null is no name": (fields(name="null"), True, ["name-missing"]),
    "other encodings": (fields(description="Th\u00e9").encode("latin-1"), None, ["not-utf8"]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_cases_of_the_reference_tests_have_its_verdict(make_skill, case):
    content, folder, expected = case
    skill = make_skill(content, folder)
    assert errors(validate(skill)) == expected
    assert (reference_validate(skill) == []) == (expected == [])


@pytest.mark.parametrize("case", DELIBERATE_DIFFERENCES.values(), ids=DELIBERATE_DIFFERENCES.keys())
def test_differences_from_the_reference_are_deliberate(make_skill, case):
    content, reference_verdict, expected = case
    skill = make_skill(content, "null" if "name: null" in str(content) else "tea-timer")
    assert errors(validate(skill)) == expected
    if reference_verdict is None:
        with pytest.raises(UnicodeDecodeError):
            reference_validate(skill)
    else:
        assert (reference_validate(skill) == []) is reference_verdict
        assert reference_verdict is not (expected == [])


NAMES = ["tea", "Tea", "te--a", "7", "''"]
DESCRIPTIONS = ["Tea.", "Tea: hot", "''", "|\n  Two\n  lines", "y" * 1100]
EXTRAS = [
    "", "license: MIT", "compatibility: kettle", "version: 1", "metadata:\n  a: b",
    "metadata:\n  a: {b: [c]}", "compatibility: ''", "license: &a b",
]  # fmt: skip


def test_generated_corpus_has_the_verdicts_of_the_reference(make_skill):
    for name, description, extra in itertools.product(NAMES, DESCRIPTIONS, EXTRAS):
        content = f"---\nname: {name}\ndescription: {description}\n{extra}\n---\nBody\n"
        skill = make_skill(content, "tea")
        is_valid = errors(validate(skill)) == []
        assert is_valid == (reference_validate(skill) == []), content


def test_all_problems_are_returned_with_their_lines(make_skill):
    content = "---\nname: Tea\ndescription: Use when: tea\nsteeping: long\n---\n"
    problems = [(d.code, d.line) for d in validate(make_skill(content)) if d.severity == "error"]
    names = [("name-characters", 2), ("name-differs-from-folder", 2)]
    assert problems == [("yaml-invalid", 3), ("field-unknown", 4), *names]


def test_file_may_be_given_instead_of_its_folder(make_skill, monkeypatch):
    skill = make_skill(GOOD)
    assert validate(skill / "SKILL.md") == validate(skill) == ()
    (warning,) = validate(make_skill(GOOD, "lower/tea-timer", name="skill.md"))
    assert (warning.code, warning.severity) == ("file-name-case", "warning")
    monkeypatch.chdir(skill)
    assert validate(Path()) == ()
    assert validate(Path("SKILL.md")) == ()


def test_paths_that_hold_no_skill_are_errors(tmp_path, make_skill):
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    assert errors(validate(tmp_path / "gone")) == ["path-missing"]
    assert errors(validate(tmp_path / "notes.txt")) == ["not-a-folder"]
    assert errors(validate(tmp_path)) == ["skill-md-missing"]
    assert errors(validate(make_skill(GOOD, name="Skill.md"))) == ["skill-md-missing"]


def test_bombs_and_huge_files_are_errors(make_skill):
    assert errors(validate(make_skill("x" * (1 << 20) + "x"))) == ["file-too-large"]
    assert errors(validate(make_skill("---\njust: [words\n---\n")))[0] == "yaml-invalid"
    bomb = fields("a: &a {x: 1}", "b: {<<: [*a, *a]}")
    assert errors(validate(make_skill(bomb)))[0] == "yaml-anchor"


BODIES = {
    "short": ("Pour.", []),
    "many lines": ("x\n" * 501, ["body-too-long"]),
    "many words": ("tea " * 6_000, ["body-too-long"]),
    "known files": (
        "See [guide](references/guide.md#hot), [it](./references/guide.md),"
        " `references/guide.md`.\n"
        "All in [references](references/).",
        [],
    ),
    "missing link": ("See [guide](references/gide.md).", ["reference-missing"]),
    "missing script": ("Run `scripts/brew.py` now.", ["reference-missing"]),
    "link out": ("See [other](../coffee/SKILL.md).", ["reference-unsafe"]),
    "web": ("[a](https://example.org/a.md) [b](#top) [c](mailto:a@b) [d](<x y>) [e]({x})", []),
    "example in a fence": ("```\n[guide](references/gide.md)\nscripts/brew.py\n```\n", []),
    "part of a longer path": ("In other/scripts/brew.py and https://x.org/scripts/brew.py", []),
    "hidden tag characters": ("Tea\U000e0041\U000e0042", ["hidden-characters"]),
    "text direction": ("Tea \u202egnihtemos", ["hidden-characters"]),
    "zero-width space": ("Te\u200ba", ["hidden-characters"]),
    "escape": ("\x1b[31mTea", ["hidden-characters"]),
    "flag of Wales": ("\U0001f3f4\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f", []),
    "joined emoji": ("\U0001f469\u200d\U0001f4bb", []),
}


@pytest.mark.parametrize(("body", "expected"), BODIES.values(), ids=BODIES.keys())
def test_body_earns_advice_not_errors(make_skill, body, expected):
    skill = make_skill(GOOD + body)
    (skill / "references").mkdir()
    (skill / "references" / "guide.md").write_text("hot", encoding="utf-8")
    problems = validate(skill)
    assert errors(problems) == []
    assert advice(problems) == expected


def test_advice_names_the_line(make_skill):
    (problem,) = validate(make_skill(GOOD + "\nRead [x](assets/x.png).\n"))
    assert (problem.code, problem.line) == ("reference-missing", 7)


SHAPES = {
    "tools as mapping": ("allowed-tools:\n  a: b", ["allowed-tools-shape"]),
    "metadata as text": ("metadata: tea", ["metadata-shape"]),
    "nested metadata": ("metadata:\n  a:\n    b: c", ["metadata-nested"]),
}


@pytest.mark.parametrize(("lines", "expected"), SHAPES.values(), ids=SHAPES.keys())
def test_odd_shapes_earn_advice(make_skill, lines, expected):
    skill = make_skill(fields(lines))
    assert reference_validate(skill) == []
    assert errors(validate(skill)) == []
    assert advice(validate(skill)) == expected


def test_folder_that_cannot_be_listed_earns_no_advice_on_files(make_skill, monkeypatch):
    def fail(_fd):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", fail)
    assert validate(make_skill(GOOD + "Run `scripts/brew.py`.")) == ()
