"""Tests of what hosts leave of a listing."""

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.budget.hosts import FATES, HOSTS, ListedSkill, codex_kept, list_in


def listed(name, description, root="/r", **more):
    path = f"{root}/{name}/SKILL.md"
    return ListedSkill(name, description, path=path, root=root, short_path=path, **more)


def fates(listing):
    return {fate: list(names) for fate, names in listing.fates.items() if names}


def test_claude_code_keeps_every_name_and_the_descriptions_that_fit():
    """Two lines of 10 characters and a line end are 21, which is 1 % of 525 tokens of 4.

    Names take 14 of 24 characters; of the 10 left, 6 go to the first, 3 to the last.
    """
    listing = list_in("claude-code", [listed("ab", "cdef"), listed("gh", "ijkl")], 525)
    assert (listing.unit, listing.limit, listing.needed) == ("characters", 21, 21)
    assert fates(listing) == {"whole": ["ab", "gh"]}
    listing = list_in("claude-code", [listed("ab", "cdef"), listed("gh", "i")], 25)
    assert (listing.limit, fates(listing)) == (1, {"name only": ["ab", "gh"]})
    skills = [listed("ab", "cdef"), listed("gh", "ijkl"), listed("mn", "o")]
    listing = list_in("claude-code", skills, 600)
    assert (listing.limit, listing.needed) == (24, 14 + 6 + 6 + 3)
    assert fates(listing) == {"whole": ["ab", "mn"], "name only": ["gh"]}


def test_claude_code_cuts_one_entry_with_its_when_to_use():
    """1,536 characters with the three between the two texts; a hidden skill is not there."""
    skills = [
        listed("fits", "d" * 1533),
        listed("long", "d" * 1000, when_to_use="w" * 534),
        listed("just", "d" * 1000, when_to_use="w" * 533),
        listed("mine", "d", hidden=True),
    ]
    listing = list_in("claude-code", skills, None)
    assert listing.limit == 8000
    assert listing.needed == sum((8 + 1533, 8 + 1536, 8 + 1536)) + 2
    assert fates(listing) == {"whole": ["fits", "just"], "shortened": ["long"], "hidden": ["mine"]}


@pytest.mark.parametrize(
    ("window", "limit"),
    [(None, ("characters", 8000)), (200_000, ("tokens", 4000)), (99, ("tokens", 1))],
)
def test_codex_counts_tokens_where_it_knows_the_window(window, limit):
    """2 % of it, at least one; else 8,000 characters."""
    assert HOSTS["codex"].budget(window) == limit


TWO = [
    ListedSkill("a", "xyz", path="/r/a", root="/r"),
    ListedSkill("b", "u", path="/r/b", root="/r"),
]
"""Lines of 18 characters with their line end and without description, 42 with both."""


@pytest.mark.parametrize(
    ("limit", "lengths"),
    [
        (42, [3, 1]),
        (41, [2, 1]),
        (40, [1, 1]),
        (39, [2, 0]),
        (36, [0, 0]),
        (35, [0, None]),
        (17, [None, None]),
    ],
)
def test_codex_shortens_evenly_then_omits_the_last(limit, lengths):
    """A first character costs a blank too, so of the three that 39 leaves, two go to one skill."""
    assert codex_kept(TWO, "characters", limit) == (42, lengths)


def test_codex_caps_a_description_before_it_deals():
    skills = [listed("long", "d" * 1025), listed("just", "d" * 1024)]
    listing = list_in("codex", skills, None)
    assert codex_kept(skills, "characters", 8000)[1] == [1021, 1024]
    assert fates(listing) == {"whole": ["just"], "shortened": ["long"]}


def test_codex_writes_paths_below_an_alias_where_that_keeps_more():
    """Two roots of 60 characters are written once in a table, instead of in six lines."""
    root = "/" + "x" * 59
    skills = [listed(f"s{number}", "d" * 40, root) for number in range(6)]
    line = len(f"- s0: {'d' * 40} (file: {root}/s0/SKILL.md)\n")
    table = len(f"### Skill roots\n- `r0` = `{root}`\n")
    short = line - 60 + 2
    enough = table + 6 * short
    assert enough < 6 * line
    assert codex_kept(skills, "characters", enough) == (6 * line, [40] * 6)
    assert codex_kept(skills, "characters", enough - 1)[1] == [40] * 5 + [39]


def test_codex_lists_hidden_skills_and_needs_no_description():
    """It reads name and description only, and a skill may have lost the latter to blanks."""
    skills = [listed("a", "A.", hidden=True), listed("b", "")]
    assert fates(list_in("codex", skills, 200_000)) == {"whole": ["a", "b"]}


@given(
    st.lists(st.text(st.sampled_from("aé漢 "), max_size=12), max_size=5),
    st.integers(0, 60),
    st.sampled_from(["characters", "tokens"]),
)
def test_codex_deals_as_one_who_asks_every_line_again(descriptions, limit, unit):
    """An oracle that gives one character at a time, and writes every line to know its cost."""
    skills = [
        ListedSkill(str(n), description, path=f"/{n}", root="/")
        for n, description in enumerate(descriptions)
    ]

    def cost(skill, chars):
        text = f" {skill.description[:chars]}" if chars else ""
        line = f"- {skill.name}:{text} (file: {skill.path})\n"
        return len(line) if unit == "characters" else -(-len(line.encode()) // 4)

    lengths = [0] * len(skills)
    if sum(cost(skill, 0) for skill in skills) <= limit:
        changed = True
        while changed:
            changed = False
            for number, skill in enumerate(skills):
                more = [chars + (n == number) for n, chars in enumerate(lengths)]
                used = sum(cost(other, chars) for other, chars in zip(skills, more, strict=True))
                if lengths[number] < len(skill.description) and used <= limit:
                    lengths, changed = more, True
        assert codex_kept(skills, unit, limit)[1] == lengths
    else:
        assert None in codex_kept(skills, unit, limit)[1]


def openclaw_length(skills, chars):
    """Return the length of OpenClaw's compact listing with descriptions of so many characters."""
    total = 370 + 130
    for skill in skills:
        text = skill.description
        text = text if len(text) <= chars else text[: chars - 3] + "..."
        total += len(
            f"  <skill>\n    <name>{skill.name}</name>\n"
            f"    <description>{html.escape(text)}</description>\n"
            f"    <location>{skill.short_path}</location>\n  </skill>\n"
        )
    return total


def test_openclaw_lists_the_first_150_by_name():
    skills = [listed(f"s{number:03}", "d", root="") for number in reversed(range(151))]
    listing = list_in("openclaw", [listed("a", "d", hidden=True), *skills], None)
    assert listing.limit == 18_000
    assert fates(listing)["whole"] == [f"s{number:03}" for number in range(150)]
    assert (listing.fates["omitted"], listing.fates["hidden"]) == (("s150",), ("a",))


def test_openclaw_cuts_all_descriptions_alike():
    skills = [listed(f"s{number:03}", "<" + "d" * 149) for number in range(100)]
    skills.append(listed("s100", "short"))
    chars = max(n for n in range(4, 221) if openclaw_length(skills, n) <= 18_000)
    assert 5 < chars < 150
    listing = list_in("openclaw", skills, None)
    assert fates(listing) == {"whole": ["s100"], "shortened": [f"s{n:03}" for n in range(100)]}
    longer = [listed(f"s{number:03}", "d" * chars) for number in range(100)]
    assert len(list_in("openclaw", [*longer, *skills[100:]], None).fates["shortened"]) == 0


def test_openclaw_drops_descriptions_and_then_skills():
    skills = [listed(f"s{n:02}", "d" * 50, "/" + "x" * 285) for n in range(60)]
    bare = 65 + 3 + len(skills[0].short_path)
    fit = (18_000 - 370 - 130) // bare
    listing = list_in("openclaw", skills, None)
    assert fates(listing) == {
        "name only": [f"s{n:02}" for n in range(fit)],
        "omitted": [f"s{n:02}" for n in range(fit, 60)],
    }


@pytest.mark.parametrize("host", ["hermes", "deepagents"])
def test_hosts_without_a_budget_cut_long_descriptions_only(host):
    """1,024 characters, whatever the window and however many skills."""
    skills = [listed("long", "d" * 1025), listed("just", "d" * 1024, hidden=True)]
    listing = list_in(host, skills, 1)
    assert (listing.unit, listing.limit, listing.needed) == ("characters each", 1024, 1025)
    assert fates(listing) == {"whole": ["just"], "shortened": ["long"]}


@given(
    st.lists(st.tuples(st.text(max_size=9), st.text(max_size=2000), st.booleans()), max_size=9),
    st.one_of(st.none(), st.integers(0, 10**12)),
    st.sampled_from(sorted(HOSTS)),
)
def test_every_skill_has_one_fate(skills, window, host):
    listed_skills = [listed(name, text, hidden=hidden) for name, text, hidden in skills]
    listing = list_in(host, listed_skills, window)
    names = [name for skill_names in listing.fates.values() for name in skill_names]
    assert sorted(names) == sorted(name for name, _, _ in skills)
    assert tuple(listing.fates) == FATES
    counts = listing.to_dict()["counts"]
    assert list(counts.values()) == [len(skill_names) for skill_names in listing.fates.values()]
    none = list_in(host, [], 200_000)
    assert (fates(none), none.needed <= none.limit) == ({}, True)
