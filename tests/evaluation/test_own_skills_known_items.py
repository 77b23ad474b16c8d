"""Queries from a skill's own text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.evaluation.own_skills import MAX_PER_KIND, common_headings, known_item_queries
from skillsearch.types.skills import Skill, SkillMetadata


def make(body="", description="Brews.", name="brew-coffee", **fields):
    metadata = SkillMetadata(name=name, description=description, **fields)
    folder = Path("/skills") / name
    return Skill(f"skills:{name}", metadata, body, folder / "SKILL.md", folder.parent, "0" * 64)


def examples(*args, **fields):
    queries = known_item_queries(make(*args, **fields))
    return [query.text for query in queries if query.kind == "example"]


def headings(body, common=frozenset(), **fields):
    queries = known_item_queries(make(body, **fields), common=common)
    return [query.text for query in queries if query.kind == "heading"]


@pytest.mark.parametrize(
    "description",
    [
        'Use when the user says "grind these beans please".',
        "Use when asked to 'grind these beans please' or similar.",
        "Bei „grind these beans please“ verwenden.",
        "À utiliser pour «grind these beans please».",
        "用户说「grind these beans please」时使用。",
        "『grind these beans please』と言われたら使う。",
        'Not for "making green tea now"; use for "grind these beans please".',
    ],
)
def test_phrases_in_quotes_are_examples(description):
    assert examples(description=description) == ["grind these beans please"]


@pytest.mark.parametrize(
    "description",
    [
        'Do NOT use for "making green tea now".',
        'Use for beans, not for "making green tea now" or "making black tea now".',
        'Nicht für "grünen Tee jetzt kochen".',
        "不要用于「今天下午泡绿茶」。",
    ],
)
def test_phrases_that_are_said_to_be_none_of_the_uses_are_no_examples(description):
    assert examples(description=description) == []


def test_an_apostrophe_is_no_quote():
    assert examples(description="Coffee's best friend, the barista's own choice of beans.") == []
    assert examples(description="Use for 'what's in my cup'.") == ["what's in my cup"]


def test_when_to_use_and_triggers_hold_examples():
    fields = {"when_to_use": 'On "make me a flat white".', "triggers": ('"pull an espresso shot"',)}
    assert examples(**fields) == ["make me a flat white", "pull an espresso shot"]


@pytest.mark.parametrize(
    "line",
    [
        "## When to use", "## 2. When to Use This Skill", "Use this skill when:",
        "**When to activate**", "### Example prompts", "## Trigger phrases", "## Wann verwenden",
        "## 使用场景", "## いつ使うか", "## 언제 사용", "## Cuándo usar",
    ],
)  # fmt: skip
def test_a_list_below_a_line_about_when_to_use_holds_requests(line):
    body = f"{line}\n\n- Grinding beans for espresso\n* Fix a sour shot — see below\n"
    assert examples(body) == ["Grinding beans for espresso", "Fix a sour shot"]


@pytest.mark.parametrize(
    "line", ["## When NOT to use", "**Do not use when:**", "## 不适用场景", "## Examples"]
)
def test_other_lists_hold_no_requests(line):
    assert examples(f"## When to use\n\n{line}\n\n- Grinding beans for espresso\n") == []


LISTS = {
    "quoted items below examples": (
        '## Examples\n\n- **User says:** "make it less bitter" → coarser grind\n- Grind beans\n',
        ["make it less bitter"],
    ),
    "what the user asks": (
        "## When to use\n\n- User asks to **descale** the [machine](care.md)\n"
        "- When the user wants a weaker cup\n",
        ["descale the machine", "a weaker cup"],
    ),
    "indented lines": (
        "## When to use\n- Grind beans\n  for the moka pot\n\n- Two words\n- Froth milk by\n  hand",
        ["Grind beans for the moka pot", "Froth milk by hand"],
    ),
    "two letters of a word": ("## 使用场景\n- 磨咖啡豆子\n- 帮我磨咖啡豆\n", ["帮我磨咖啡豆"]),
}


@pytest.mark.parametrize(("body", "expected"), LISTS.values(), ids=LISTS)
def test_items_of_lists_are_cut_down_to_the_request(body, expected):
    assert examples(body) == expected


@pytest.mark.parametrize(
    "item",
    [
        "Run `grind --fine beans`",
        "Grind [kind of beans] very fine",
        "See https://example.com for more",
        "two words",
        "磨豆",
        "word " * 50,
    ],
)
def test_commands_gaps_and_texts_of_odd_length_are_no_queries(item):
    assert examples(f"## When to use\n- {item}\n") == []


def test_fenced_code_is_no_text():
    inside = "## Grind Beans Very Fine\n```\n~~~\n## Heat Water Very Slowly\n"
    body = f"````\n{inside}````\n## Clean Portafilter Baskets Daily\n"
    assert headings(body) == ["Clean Portafilter Baskets Daily"]
    assert headings("~~~sh\n## Grind Beans Very Fine\n```\n") == []


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("### Step 3: Dial espresso grind size ##", "Dial espresso grind size"),
        ("## 1.2 Dial espresso grind size", "Dial espresso grind size"),
        ("## 🎯 Dial **espresso** grind size:", "Dial espresso grind size"),
        ("## 第三步\uff1a调整咖啡研磨度", "调整咖啡研磨度"),
        ("## 8-bar pressure profile tuning", "8-bar pressure profile tuning"),
    ],
)
def test_headings_that_name_a_subject_are_queries(line, heading):
    assert headings(f"{line}\n") == [heading]


@pytest.mark.parametrize(
    "line",
    [
        "# Dial espresso grind size", "#### Dial espresso grind size", "## Overview",
        "## Quick start guide", "## How to use this skill", "## Common issues and troubleshooting",
        "## Step 2: Output format", "## The `grind` command in detail",
        "##Dial espresso grind size",
    ],
)  # fmt: skip
def test_titles_details_and_boilerplate_are_no_queries(line):
    assert headings(f"{line}\n") == []


def test_a_heading_of_several_skills_tells_none_from_another():
    body = "## Dial Espresso Grind Size\n## {} hot milk pitchers\n"
    skills = [
        make(body.format("Steaming")),
        make(body.format("Washing"), name="wash-up"),
        make(body.format("Steaming"), name="copy"),
    ]
    common = common_headings(skills)
    assert "dial espresso grind size" in common
    assert headings(skills[0].body, common) == ["Steaming hot milk pitchers"]


@pytest.mark.parametrize(
    ("name", "text", "is_query"),
    [
        ("brew-coffee", "how to Brew Coffee slowly", False),
        ("pdf", "fill this pdf form", False),
        ("周报", "帮我写一份周报吧", False),
        ("app", "peel apples for cider", True),
    ],
)
def test_a_text_that_holds_the_name_is_no_query(name, text, is_query):
    """Finding a skill by its name proves nothing; a part of a word is not the name."""
    assert examples(f"## When to use\n- {text}\n", name=name) == [text] * is_query


def test_each_kind_has_a_limit_and_its_own_numbers():
    words = "one two three four five six".split()
    items = "".join(f"- Make drink number {word}\n" for word in words)
    titles = "".join(f"## Clean machine part {word}\n" for word in ("a", *words))
    body = f"## Make Drink Number Two\n## When to use\n{items}{titles}"
    queries = known_item_queries(make(body))
    assert [query.query_id for query in queries] == [
        f"{kind}:skills:brew-coffee#{number}"
        for kind in ("example", "heading")
        for number in range(MAX_PER_KIND)
    ]
    assert "Make Drink Number Two" not in [query.text for query in queries]


@pytest.mark.parametrize(
    "text", ["“" * 9_000, "'a" * 9_000, "a" * 60_000, "[" * 9_000, "ne " * 9_000, "*_" * 9_000]
)
@pytest.mark.timeout(120)
def test_hostile_text_costs_little_time(text):
    known_item_queries(make(f"## When to use {text}\n- {text}\n{text}:\n", description=text))


@given(st.text(alphabet="#-*`~\"“”'「」: \nab不磨[](){}<>_1.\x00\ud800", max_size=300))
def test_any_text_gives_queries_of_the_text(text):
    skill = make(text, description=text or "x")
    queries = known_item_queries(skill)
    assert queries == known_item_queries(skill)
    assert len({query.query_id for query in queries}) == len(queries)
    assert len({query.text for query in queries}) == len(queries)
