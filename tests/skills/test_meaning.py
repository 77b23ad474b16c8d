"""Tests that a frontmatter means what its author wrote, or that a diagnostic says otherwise."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from skillsearch.errors import ParseError
from skillsearch.skills import validator
from skillsearch.skills.parser import parse_skill

ROOT = Path("skills")
BODY = "Steep, then pour."


def validate(path, *options):
    return validator.validate(path, *options).problems


def parse(lines, folder="tea-timer"):
    """Return the skill of these frontmatter lines and its diagnostics, but for those on names."""
    path = ROOT / folder / "SKILL.md"
    data = f"---\n{lines}\n---\n{BODY}\n".encode()
    skill, diagnostics = parse_skill(data, doc_id="x", path=path, root=ROOT)
    about_names = ("name-missing", "name-characters", "name-hyphens", "name-differs-from-folder")
    return skill, [diagnostic for diagnostic in diagnostics if diagnostic.code not in about_names]


def codes(diagnostics):
    return [diagnostic.code for diagnostic in diagnostics]


def codes_and_lines(diagnostics):
    return [(diagnostic.code, diagnostic.line) for diagnostic in diagnostics]


def described(written):
    """Return the description of a skill in which it is written so, and codes with lines."""
    skill, diagnostics = parse(f"name: tea-timer\ndescription: {written}\nversion: 1.10")
    assert (skill.name, skill.metadata.version) == ("tea-timer", "1.10")
    return skill.description, codes_and_lines(diagnostics)


# What is written after "description: ", what its author meant, and the code that tells it.
MENDED = {
    "channel": ("Write to the #ops channel.", "Write to the #ops channel.", "yaml-comment"),
    "first word": ("#deployments posts", "#deployments posts", "yaml-comment"),
    "number": ("Fix issue #12 at once", "Fix issue #12 at once", "yaml-comment"),
    "number apart": ("Fix issue # 12 at once", "Fix issue # 12 at once", "yaml-comment"),
    "colon in the comment": ("Tag posts #new: and old", "Tag posts #new: and old", "yaml-comment"),
    "hashtags": ("Posts. #tea #milk", "Posts. #tea #milk", "yaml-comment"),
    "hashtag of a remark": ("Sort #todo items", "Sort #todo items", "yaml-comment"),
    "heading": ("Tea ### Use when thirsty", "Tea ### Use when thirsty", "yaml-comment"),
    "open quote": ('Trade "Elon # tweets" now', 'Trade "Elon # tweets" now', "yaml-comment"),
    "open bracket": ("Headings (with # marks)", "Headings (with # marks)", "yaml-comment"),
    "wrapped line": ("Notes for the\n  #tea channel", "Notes for the #tea channel", "yaml-comment"),
    "second line": ("Notes for\n  the #tea channel", "Notes for the #tea channel", "yaml-comment"),
    "truth value": ("True", "True", "description-not-text"),
    "whole number": ("42", "42", "description-not-text"),
    "trailing zero": ("1.10", "1.10", "description-not-text"),
    "hexadecimal": ("0x1F", "0x1F", "description-not-text"),
    "underscores": ("1_000", "1_000", "description-not-text"),
    "sixties": ("1:30", "1:30", "description-not-text"),
    "infinity": ("-.inf", "-.inf", "description-not-text"),
    "date": ("2024-01-01", "2024-01-01", "description-not-text"),
    "no": ("no", "no", "description-not-text"),
    "list in brackets": ("[tea, milk]", "[tea, milk]", "description-not-text"),
    "mapping in braces": ("{tea: hot}", "{tea: hot}", "description-not-text"),
    "bar": ("| Use it", "Use it", "yaml-salvaged"),
    "bar without a blank": ("|Use it", "Use it", "yaml-salvaged"),
    "angle": ("> Use it", "Use it", "yaml-salvaged"),
    "angle and strip": (">- Use it\n  when thirsty", "Use it when thirsty", "yaml-salvaged"),
    "bar and depth": ("|2- Use it", "Use it", "yaml-salvaged"),
    "bar and colon": ("| Use: it", "Use: it", "yaml-unquoted-colon"),
    "more than": ("> 100 users", "> 100 users", "yaml-salvaged"),
    "table": ("| a | b |", "| a | b |", "yaml-salvaged"),
    "tag alone": ("! Hot tea", "! Hot tea", "yaml-salvaged"),
    "JSON quotes": ('Says \\"tea\\"', 'Says "tea"', "yaml-escape"),
    "JSON quotes in quotes": ("'Says \\\"tea\\\"'", 'Says "tea"', "yaml-escape"),
    "JSON quotes in a block": ('|\n  Says \\"tea\\"', 'Says "tea"', "yaml-escape"),
    "long letter": ("Tea \\U0001F375", "Tea 🍵", "yaml-escape"),
    "behind code": ("Runs `tea`.\\nUse `pot`\\nGo", "Runs `tea`.\nUse `pot`\nGo", "yaml-escape"),
    "letters": ("Tea \\u8336 \\ud83c\\udf75", "Tea 茶 🍵", "yaml-escape"),
    "half a letter": ("Tea \\ud83c", "Tea ?", "yaml-escape"),
    "line ends": ("Tea.\\n\\n- Steep\\nPour", "Tea.\n\n- Steep\nPour", "yaml-escape"),
    "Markdown": ("The tea\\_timer", "The tea_timer", "yaml-escape"),
    "surrogates in double quotes": ('"Tea \\ud83c\\udf75 \\u8336"', "Tea 🍵 茶", "yaml-salvaged"),
}


# What is written after "description: ", and what remains although it may have been meant otherwise.
TOLD = {
    "remark": ("Times tea # keep it short", "Times tea", "yaml-comment"),
    "sign": ("Use # in names", "Use", "yaml-comment"),
    "two blanks": ("Times tea  #required", "Times tea", "yaml-comment"),
    "to do": ("Times tea #TODO: more", "Times tea", "yaml-comment"),
    "below": ("Times tea\n  # and coffee", "Times tea", "yaml-comment"),
    "template": ("Times {{drink}} for you", "Times {{drink}} for you", "placeholder"),
    "only a template": ("'{{ description }}'", "{{ description }}", "placeholder"),
    "embedded code": ("Times <%= drink %>", "Times <%= drink %>", "placeholder"),
    "variable": ("${DESCRIPTION}", "${DESCRIPTION}", "placeholder"),
    "input": ("Refactor ${input:method}", "Refactor ${input:method}", "placeholder"),
    "to be done": ("'[TODO: say what it does]'", "[TODO: say what it does]", "placeholder"),
    "angles": ("<what it does>", "<what it does>", "placeholder"),
    "default": ("A brief description of what this skill does", None, "placeholder"),
    "default of a template": ("Replace with description of the skill.", None, "placeholder"),
    "order": ("Describe what this skill does and when to use it", None, "placeholder"),
    "insert": ("Insert your description here", None, "placeholder"),
    "underscores": ("__DESCRIPTION__", None, "placeholder"),
    "to be done, with a stop": ("TBD.", None, "placeholder"),
    "dots": ("'...'", "...", "placeholder"),
    "filler": ("Lorem ipsum dolor sit amet", None, "placeholder"),
}


SILENT = {
    "comment behind quotes": ('"Times tea" #1', "Times tea"),
    "comment behind a block sign": ("| # text\n  Times tea", "Times tea"),
    "sign in a block": (">\n  Times tea in\n  #kitchen", "Times tea in #kitchen"),
    "sign in quotes": ("'Times #tea: 1'", "Times #tea: 1"),
    "sign in a word": ("Times C#, tea#1", "Times C#, tea#1"),
    "field left out": ("Times tea\n  #license: MIT", "Times tea"),
    "item left out": ("Times tea\n  #- milk", "Times tea"),
    "comment at the margin": ("Times tea\n#kitchen", "Times tea"),
    "bar in quotes": ("'| Times tea'", "| Times tea"),
    "escapes in double quotes": ('"Says \\\\\\"tea\\\\u8336"', 'Says \\"tea\\u8336'),
    "path": ("Opens C:\\new\\table\\users", "Opens C:\\new\\table\\users"),
    "words on line ends": ("Turns \\r\\n into \\n, all of them", None),
    "LaTeX": ("Fixes \\cite, \\ref and \\nocite", None),
    "words on templates": ("Writes ${{ x }} and {{}} in workflows", None),
    "words on variables": ("Sets ${HOME} and <b> in [TODO] lists", None),
    "words on descriptions": ("Description of rooms, written well", None),
    "to do": ("TODO lists, kept well", None),
    "code on templates": ("Writes `{{ name }}` and `<%= tea %>`", None),
    "code on variables": ("Sets `${input:x}`", None),
    "code on escapes": ("Turns `&amp;` into `\\u0026`, `\\n` Next", None),
    "expression": ("Matches tea\\n[A-Z]+ in notes", None),
    "words on changes": ("A description of what changed in a pull request", None),
    "words on functions": ("Describe what this function does in a docstring", None),
}


CODED = [*MENDED.items(), *TOLD.items(), *((name, (*case, None)) for name, case in SILENT.items())]


@pytest.mark.parametrize("case", [case for _, case in CODED], ids=[name for name, _ in CODED])
def test_what_is_certain_is_mended_and_what_is_not_is_told_with_its_line(case):
    """What is meant so stays without a word: a false alarm is worse than none."""
    written, meant, code = case
    assert described(written) == (meant or written, [(code, 3)] if code else [])


NAMES = {
    "truth value": ("True", "True", ["name-not-text"]),
    "off": ("off", "off", ["name-not-text"]),
    "version": ("1.10", "1.10", ["name-not-text"]),
    "date": ("2024-01-01", "2024-01-01", ["name-not-text"]),
    "template": ("{{name}}", "{{name}}", ["name-not-text", "placeholder"]),
    "title with a number": ("Fix Issue #12", "Fix Issue #12", ["yaml-comment"]),
    "slug with a number": ("fix-issue #12", "fix-issue", ["yaml-comment"]),
    "slug with a remark": ("tea # lower case", "tea", []),
    "default": ("your-skill-name", "your-skill-name", ["placeholder"]),
    "like a default": ("figure-description", "figure-description", []),
    "to-do list": ("todo", "todo", []),
    "Markdown": ("tea\\_timer", "tea_timer", ["yaml-escape"]),
    "null": ("null", "tea-timer", []),
}


@pytest.mark.parametrize("case", NAMES.values(), ids=NAMES.keys())
def test_names_are_what_was_written(case):
    written, name, expected = case
    skill, diagnostics = parse(f"name: {written}\ndescription: Times tea.")
    assert skill.name == name
    assert codes(diagnostics) == expected


def test_items_of_lists_are_mended_too():
    skill, diagnostics = parse(
        "description: Tea\ntriggers:\n  - post to #tea\n  - #milk\n  - pot # round\n"
        "tags: [a, b] # few\nargument: x #1"
    )
    assert skill.metadata.triggers == ("post to #tea", "#milk", "pot")
    assert skill.metadata.tags == ("a", "b")
    assert skill.metadata.frontmatter["argument"] == "x"
    assert codes_and_lines(diagnostics) == [("yaml-comment", 3)] * 2


# Frontmatter around fields at another depth than the top.
DEPTHS = {
    "metadata": "metadata:\n  name: tea\n  version: 1\n{}",
    "metadata in the specification's other words": "skill:\n  name: tea\n{}",
    "all indented": "  name: tea\n{}",
}


@pytest.mark.parametrize("around", DEPTHS.values(), ids=DEPTHS.keys())
def test_fields_mean_the_same_at_every_depth(around):
    lines = (
        "  description: Post to #tea now\n  when_to_use: Line.\\nNext\n"
        "  triggers:\n    - on\n    - post to\n      #milk now\n  tags: [a] # few"
    )
    skill, diagnostics = parse(around.format(lines))
    assert (skill.name, skill.description) == ("tea", "Post to #tea now")
    assert skill.metadata.when_to_use == "Line.\nNext"
    assert skill.metadata.triggers == ("on", "post to #milk now")
    assert skill.metadata.tags == ("a",)
    first = around.count("\n") + 2
    warnings = [line for line in codes_and_lines(diagnostics) if line[0] != "field-nested"]
    expected = [("yaml-comment", first), ("yaml-escape", first + 1), ("yaml-comment", first + 2)]
    assert warnings == expected


def test_fields_that_no_search_reads_stay_as_yaml_reads_them():
    lines = "metadata:\n  author:\n    name: yes # first\n    description: Bob #1\n  mcp: a #1"
    skill, diagnostics = parse(f"name: tea\ndescription: Hot tea\n{lines}")
    actual = skill.metadata.frontmatter["metadata"]
    assert actual == {"author": {"name": "yes", "description": "Bob"}, "mcp": "a"}
    assert diagnostics == []


def test_tags_that_are_lost_in_a_comment_are_told():
    skill, diagnostics = parse("description: Hot tea\ntags: #tea #milk")
    assert skill.metadata.tags == ()
    assert codes_and_lines(diagnostics) == [("yaml-comment", 3)]


# Lines that a person reads as name "tea", description "Hot: tea" or "Hot tea", maybe a version.
KEYS = {
    "capitals": ("Name: tea\nDESCRIPTION: Hot tea", ["yaml-key"] * 2),
    "full-width colons": (
        "name\uff1atea\ndescription\uff1aHot tea\nversion\uff1a2",
        ["yaml-key"] * 3,
    ),
    "a full-width colon": ("name: tea\ndescription \uff1a Hot tea\nversion: 2", ["yaml-key"]),
    "no blank": ("name: tea\ndescription:Hot tea\nversion: 2", ["yaml-key"]),
    "no blanks": ("name:tea\ndescription:Hot tea", ["yaml-key"] * 2),
    "Markdown": ("**name**: tea\n**description:** Hot tea", ["yaml-key"] * 2),
    "curly quotes": ("name: tea\n“description”: Hot tea", ["yaml-key"]),
    "one blank": ("name: tea\n description: Hot tea\nversion: 2", ["yaml-key"]),
    "name with one blank": ("description: Hot tea\n name: tea\nversion: 2", ["yaml-key"]),
    "tab": ("name: tea\n\tdescription: Hot tea", ["yaml-key"]),
    "tab and no blank": ("name: tea\n\tdescription:Hot tea", ["yaml-key"]),
    "first line": (" name: tea\ndescription: Hot tea", ["yaml-salvaged"]),
    "an item": ("- name: tea\n  description: Hot tea\n  version: 2", ["yaml-salvaged"]),
    "items": ("- name: tea\n- description: Hot tea\n- version: 2", ["yaml-salvaged"]),
    "in metadata": ("metadata:\n  name: tea\n  description: Hot tea", ["field-nested"] * 2),
    "in another key": ("skill:\n  name: tea\n  description: Hot tea", ["field-nested"] * 2),
    "unseen characters": ("\u200bname: tea\n\ufeffdescription: Hot tea", ["yaml-key"] * 2),
    "hard blanks": ("name:\u00a0tea\ndescription:\u3000Hot tea", ["yaml-key"] * 2),
    "quoted": ("\"name\": tea\n'description': Hot tea", []),
    "blank before the colon": ("name : tea\ndescription : Hot tea", []),
    "all indented": ("  name: tea\n  description: Hot tea\n  version: 2", []),
}


@pytest.mark.parametrize("case", KEYS.values(), ids=KEYS.keys())
def test_lines_that_people_read_as_keys_are_keys(case):
    lines, expected = case
    skill, diagnostics = parse(lines)
    assert (skill.name, skill.description) == ("tea", "Hot tea")
    assert skill.metadata.version == ("2" if "ersion" in lines else "")
    assert codes(diagnostics) == expected


NO_KEYS = {
    "field of another key": "author:\n  name: Bob\n  description: no\ndescription: Hot tea",
    "text of a block": "description: |\n  Hot tea\n  name: Bob\nx: 1",
    "text with a colon": "description: Hot tea\n  name: the name of the pot",
    "list of inputs": "description: Hot tea\ninputs:\n  - name: pot\n    description: no",
    "body": "description: Hot tea\n\n# Tea\n\nName: Bob\n**Name:** Bob",
}


@pytest.mark.parametrize("lines", NO_KEYS.values(), ids=NO_KEYS.keys())
def test_lines_inside_other_things_are_no_keys(lines):
    skill, diagnostics = parse(lines)
    assert skill.name == "tea-timer"
    assert skill.description.startswith("Hot tea")
    assert "yaml-key" not in codes(diagnostics)


def test_lines_of_keys_count_from_the_start_of_the_file():
    _, (diagnostic,) = parse("version: 1\nname: tea\ndescription:Hot tea")
    assert (diagnostic.line, "'description: '" in diagnostic.message) == (4, True)


def test_the_first_line_of_a_block_alone_is_no_description():
    for left in ("'|'", '">-"', "'>'"):
        skill, diagnostics = parse(f"name: tea-timer\ndescription: {left}")
        assert skill.description == BODY
        assert codes(diagnostics) == ["description-missing"]


def test_only_the_last_of_a_repeated_key_is_looked_at():
    skill, diagnostics = parse("description: Hot #tea\ndescription: Tea\nname: tea-timer")
    assert skill.description == "Tea"
    assert codes(diagnostics) == ["yaml-duplicate-key"]


VALIDATED = {
    name: case
    for name, case in {**MENDED, **TOLD}.items()
    if name in "channel number date bar Markdown table letters template dots remark".split()
    or name in ("list in brackets", "bar and colon", "JSON quotes", "wrapped line")
}
REFUSED_BY_THE_REFERENCE = {"yaml-salvaged", "yaml-unquoted-colon"}


@pytest.mark.parametrize("case", VALIDATED.values(), ids=VALIDATED.keys())
def test_validation_warns_of_the_same(case, tmp_path):
    """A file that is YAML stays valid; one that is not has its error."""
    written, _, code = case
    folder = tmp_path / "tea-timer"
    folder.mkdir()
    content = f"---\nname: tea-timer\ndescription: {written}\n---\n{BODY}\n"
    (folder / "SKILL.md").write_text(content, encoding="utf-8")
    problems = [(problem.code, problem.severity, problem.line) for problem in validate(folder)]
    if code in REFUSED_BY_THE_REFERENCE:
        assert "error" in {severity for _, severity, _ in problems}
    elif written[0] in "[{":
        assert problems == [("yaml-flow-style", "error", 3), (code, "warning", 3)]
    else:
        assert problems == [(code, "warning", 3)]


def test_validation_names_lines_that_are_no_keys(tmp_path):
    folder = tmp_path / "tea"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: tea\n description:Hot tea\n---\n", "utf-8")
    problems = [(problem.code, problem.severity, problem.line) for problem in validate(folder)]
    assert ("yaml-key", "warning", 3) in problems
    assert ("description-missing", "error", None) in problems


WORDS = st.sampled_from(
    "Tea tea: #tea # ## #1 | > >- |- True no on null 1.10 0x1F 1_000 1:30 2024-01-01 .inf - ? "
    "@tea *tea* &tea !tea %tea `tea` {tea} [tea] {{tea}} (tea 'tea' tea's \"tea\" , é 茶 🍵 name: "
    '\\n \\u8336 \\" C:\\new C# <tea> ~ ... --- = <<'.split()
)
ENTRIES = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
ABOUT_MEANING = ("yaml-", "description-", "name-not-text", "name-missing", "placeholder")


@settings(max_examples=400, deadline=None)
@given(ENTRIES, st.sampled_from(["description", "name"]))
@example("Tea # tea", "description")
@example("#tea", "description")
@example("on", "name")
def test_plain_text_is_read_as_written_or_a_diagnostic_says_otherwise(text, key):
    # Text in quotes throughout is quoted; a slug has a comment behind it, and a name no other.
    assume(text[0] not in "\"'" and not (key == "name" and "#" in text))
    lines = {"name": "name: tea-timer", "description": "description: Hot tea"}
    lines[key] = f"{key}: {text}"
    path = ROOT / "tea-timer" / "SKILL.md"
    data = f"---\n{lines['name']}\n{lines['description']}\n---\n{BODY}\n".encode()
    try:
        skill, diagnostics = parse_skill(data, doc_id="x", path=path, root=ROOT)
    except ParseError:  # told as an error, such as for an alias
        return
    warnings = [code for code in codes(diagnostics) if code.startswith(ABOUT_MEANING)]
    assert " ".join(getattr(skill, key).split()) == text or warnings
    assert skill.name == "tea-timer" or key == "name"
    assert skill.description == "Hot tea" or key == "description"


PLAIN_WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="\\&{}<>[]$"),
    min_size=1,
    max_size=12,
)
TEXTS = st.lists(st.one_of(PLAIN_WORDS, st.sampled_from("# #1 | > : - True 1.10 '' \"".split())))


@settings(max_examples=400, deadline=None)
@given(TEXTS.map(" ".join), st.sampled_from([None, '"', "'", "|", ">"]), st.integers(10, 200))
@example("Tea #tea: | 'x", None, 80)
@example("True", None, 80)
@example("| Use it", None, 80)
def test_what_yaml_writers_write_is_never_mended_or_told(text, style, width):
    text = f"Tea {text} tea." if style is None else f"{text} tea."
    name = "tea-timer"
    lines = yaml.dump(
        {"name": name, "description": text, "triggers": [text, "x"]},
        Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper),
        default_style=style,
        width=width,
        allow_unicode=True,
        sort_keys=False,
    )
    skill, diagnostics = parse(lines)
    assert skill.description == text.strip()
    assert skill.metadata.frontmatter["triggers"] == [text, "x"]
    assert diagnostics == []


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=60))
@example('Says \\"tea\\" \\u8336\\nTea &amp; milk')
def test_text_in_double_quotes_means_what_it_says(text):
    text = f"Tea {text} tea."
    skill, diagnostics = parse(f"name: tea-timer\ndescription: {json.dumps(text)}")
    assert skill.metadata.frontmatter["description"] == text
    expected = {"placeholder", "yaml-salvaged", "yaml-unquoted-colon"}  # the last two: surrogates
    assert set(codes(diagnostics)) <= expected


UNITS = [
    "#", " #", "\\n", "\\u8336", '\\"', "{{", "{{x", "<%", "&amp;", " ", "\t", "name:", "'", "[",
    "|",
]  # fmt: skip


@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", [6_000, pytest.param(60_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("start", ["description: x", "description: |\n  x", "x: 1\n", "name: x\n "])
def test_hostile_text_does_not_hang(start, size):
    for unit in UNITS:
        for filler in (unit, f"{unit}\n  ", f"{unit}\n"):
            text = start + filler * (size // len(filler))
            with suppress(ParseError):
                assert parse(text)[0].description
