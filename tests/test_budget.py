"""Tests of what skills cost in a prompt, and of what hosts leave of a listing."""

import html
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.budget import reading
from skillsearch.budget.codex import deal, limit_of
from skillsearch.budget.hosts import FATES, HOSTS, list_in
from skillsearch.budget.levels import check_claims, measure_levels, measure_search
from skillsearch.budget.report import report_budget
from skillsearch.budget.sizes import ListedSkill, MeasuredSkill, Size, measure_skill
from skillsearch.embedders.token_counter import TokenCounter
from skillsearch.index.skill_index import SkillIndex
from skillsearch.skills.listing import MAX_LISTED_FILES


def count_words(text):
    """Count words, so that a reader can do the same."""
    return len(text.split())


def listed(name, description, root="/r", **more):
    """Make what a listing says of a skill in a root."""
    path = f"{root}/{name}/SKILL.md"
    return ListedSkill(name, description, path=path, root=root, short_path=path, **more)


def sized(name, overview, body, documents=0, *, xml=0, hidden=False):
    """Make a skill of so many tokens, each of ten characters."""
    sizes = (Size(10 * tokens, tokens) for tokens in (overview, xml, body, documents))
    return MeasuredSkill(ListedSkill(name, "", hidden=hidden), *sizes)


def fates(listing):
    """Return the fates that skills really have, with their names."""
    return {fate: list(names) for fate, names in listing.fates.items() if names}


def test_the_levels_of_a_skill_are_measured_in_the_forms_that_prompts_have():
    """A line of the overview, the same as XML, and the body; documents come measured."""
    skill = measure_skill(
        listed("tea", "Times tea & more."), "Use 80 C.", Size(7, 2), count=count_words
    )
    line = "- tea: Times tea & more."
    xml = (
        "<skill>\n<name>\ntea\n</name>\n<description>\nTimes tea &amp; more.\n</description>\n"
        "<location>\n/r/tea/SKILL.md\n</location>\n</skill>"
    )
    assert skill.overview == Size(len(line), 6)
    assert skill.xml == Size(len(xml), count_words(xml))
    assert (skill.body, skill.everything) == (Size(9, 3), Size(16, 5))


def test_a_hidden_skill_has_no_overview():
    """No prompt holds it before it is asked for."""
    skill = measure_skill(listed("tea", "Tea.", hidden=True), "Body.", Size(), count=count_words)
    assert (skill.overview, skill.xml, skill.body) == (Size(), Size(), Size(5, 1))


def test_levels_add_up():
    """Totals, shares of all, medians and the largest of each level."""
    skills = [sized("a", 4, 30), sized("b", 6, 50, 100), sized("c", 0, 20, hidden=True)]
    overview, bodies, everything = measure_levels(skills)
    assert (overview.total, overview.share) == (Size(100, 10), 0.05)
    assert (overview.median, overview.largest, overview.largest_skill) == (
        Size(50, 5),
        Size(60, 6),
        "b",
    )
    assert (bodies.total, bodies.share, bodies.median) == (Size(1000, 100), 0.5, Size(300, 30))
    assert (everything.total, everything.share) == (Size(2000, 200), 1.0)
    assert (everything.largest, everything.largest_skill) == (Size(1500, 150), "b")


def test_a_search_costs_the_average_overview_of_its_hits_and_one_body():
    """Of three skills on offer two are listed; the body is the median."""
    skills = [
        sized("a", 4, 30),
        sized("b", 6, 50),
        sized("c", 5, 40),
        sized("d", 0, 9, hidden=True),
    ]
    search = measure_search(skills, 2)
    assert (search.listing, search.body) == (Size(100, 10), Size(350, 35))
    assert search.to_dict()["total"] == {"characters": 450, "tokens": 45}


def test_a_search_lists_no_more_than_there_is():
    """Five hits of two skills are two hits."""
    assert measure_search([sized("a", 4, 30), sized("b", 6, 50)], 5).listing == Size(100, 10)


def test_claims_are_measured_as_they_are_worded():
    """Each by hand: 10 of overview, 120 of bodies, 200 of all, a median body of 40, 2 hits of 3."""
    skills = [sized("a", 3, 30, xml=4), sized("b", 4, 50, 80, xml=6), sized("c", 3, 40, xml=10)]
    claims = {claim.name: claim for claim in check_claims(skills, 2)}
    assert {name: claim.measured for name, claim in claims.items()} == pytest.approx(
        {
            "metadata": 1 - 10 / 200,
            "start": 10 / 120,
            "on demand": 1 - 50 / 120,
            "relevant": 1 - 7 / 10,
            "format": 1 - 10 / 20,
        }
    )
    assert {name: claim.holds for name, claim in claims.items()} == {
        "metadata": True,
        "start": True,
        "on demand": False,
        "relevant": False,
        "format": True,
    }
    assert {name: (claim.figure, claim.claimed) for name, claim in claims.items()} == {
        "metadata": ("saving", 0.9),
        "start": ("share", 0.2),
        "on demand": ("saving", 0.8),
        "relevant": ("saving", 0.7),
        "format": ("saving", 0.5),
    }


@pytest.mark.parametrize(("body", "holds"), [(50, True), (49, True), (48, False)])
def test_a_share_holds_in_whole_percent(body, holds):
    """10 of 49 are 20.4 %, which is 20; 10 of 48 are 20.8 %, which is 21."""
    start = check_claims([sized("a", 10, body)], 1)[1]
    assert start.holds is holds


@pytest.mark.parametrize("skills", [[], [sized("a", 0, 0, hidden=True)]])
def test_nothing_to_compare_is_said(skills):
    """No division by nothing, and no claim that holds by accident."""
    assert {claim.holds for claim in check_claims(skills, 5)} == {None}
    assert [level.share for level in measure_levels(skills)] == [None] * 3


def test_claude_code_lists_all_whole_up_to_the_last_character():
    """Two lines of 10 characters and a line end are 21, which is 1 % of 525 tokens of 4."""
    skills = [listed("ab", "cdef"), listed("gh", "ijkl")]
    listing = list_in("claude-code", skills, 525)
    assert (listing.unit, listing.limit, listing.needed) == ("characters", 21, 21)
    assert fates(listing) == {"whole": ["ab", "gh"]}


def test_claude_code_keeps_every_name_and_the_descriptions_that_fit():
    """Names take 14 of 24 characters; of the 10 left, 6 go to the first, 3 to the last."""
    skills = [listed("ab", "cdef"), listed("gh", "ijkl"), listed("mn", "o")]
    listing = list_in("claude-code", skills, 600)
    assert (listing.limit, listing.needed) == (24, 14 + 6 + 6 + 3)
    assert fates(listing) == {"whole": ["ab", "mn"], "name only": ["gh"]}


def test_claude_code_keeps_the_names_even_where_they_do_not_fit():
    """The list then is longer than its budget."""
    listing = list_in("claude-code", [listed("ab", "cdef"), listed("gh", "i")], 25)
    assert (listing.limit, fates(listing)) == (1, {"name only": ["ab", "gh"]})


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
    assert limit_of(window) == limit


TWO = [
    ListedSkill("a", "xyz", path="/r/a", root="/r"),
    ListedSkill("b", "u", path="/r/b", root="/r"),
]
"""Lines of 18 characters with their line end and without description, 42 with both."""


@pytest.mark.parametrize(
    ("limit", "kept"),
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
def test_codex_shortens_evenly_then_omits_the_last(limit, kept):
    """A first character costs a blank too, so of the three that 39 leaves, two go to one skill."""
    assert deal(TWO, "characters", limit) == (42, kept)


def test_codex_rounds_each_line_up_to_tokens_of_four_bytes():
    """19 bytes are 5 tokens; an umlaut is two bytes, so that "äö" brings the line to 24."""
    skill = ListedSkill("ab", "äö", path="/r/a", root="/r")
    assert deal([skill], "tokens", 6) == (6, [2])
    assert deal([skill], "tokens", 5) == (6, [0])


def test_codex_caps_a_description_before_it_deals():
    """Of 1,025 characters 1,021 are kept, and three dots."""
    skills = [listed("long", "d" * 1025), listed("just", "d" * 1024)]
    listing = list_in("codex", skills, None)
    assert deal(skills, "characters", 8000)[1] == [1021, 1024]
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
    assert deal(skills, "characters", enough) == (6 * line, [40] * 6)
    assert deal(skills, "characters", enough - 1)[1] == [40] * 5 + [39]


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

    kept = [0] * len(skills)
    if sum(cost(skill, 0) for skill in skills) <= limit:
        changed = True
        while changed:
            changed = False
            for place, skill in enumerate(skills):
                more = [chars + (n == place) for n, chars in enumerate(kept)]
                used = sum(cost(other, chars) for other, chars in zip(skills, more, strict=True))
                if kept[place] < len(skill.description) and used <= limit:
                    kept, changed = more, True
        assert deal(skills, unit, limit)[1] == kept
    else:
        assert None in deal(skills, unit, limit)[1]


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
    """Those beyond are omitted, however short all are; a hidden one takes no place."""
    skills = [listed(f"s{number:03}", "d", root="") for number in reversed(range(151))]
    listing = list_in("openclaw", [listed("a", "d", hidden=True), *skills], None)
    assert listing.limit == 18_000
    assert fates(listing)["whole"] == [f"s{number:03}" for number in range(150)]
    assert (listing.fates["omitted"], listing.fates["hidden"]) == (("s150",), ("a",))


def test_openclaw_cuts_all_descriptions_alike():
    """To the greatest length at which the listing fits, here counted on the text itself."""
    skills = [listed(f"s{number:03}", "<" + "d" * 149) for number in range(100)]
    skills.append(listed("s100", "short"))
    chars = max(n for n in range(4, 221) if openclaw_length(skills, n) <= 18_000)
    assert 5 < chars < 150
    listing = list_in("openclaw", skills, None)
    assert fates(listing) == {"whole": ["s100"], "shortened": [f"s{n:03}" for n in range(100)]}
    longer = [listed(f"s{number:03}", "d" * chars) for number in range(100)]
    assert len(list_in("openclaw", [*longer, *skills[100:]], None).fates["shortened"]) == 0


def test_openclaw_drops_descriptions_and_then_skills():
    """With a location of 300 characters, 48 bare entries fit, and no description with them."""
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
    """Whatever the texts and the window; and the JSON form counts the same."""
    given_skills = [listed(name, text, hidden=hidden) for name, text, hidden in skills]
    listing = list_in(host, given_skills, window)
    names = [name for found in listing.fates.values() for name in found]
    assert sorted(names) == sorted(name for name, _, _ in skills)
    assert tuple(listing.fates) == FATES
    counts = listing.to_dict()["counts"]
    assert list(counts.values()) == [len(found) for found in listing.fates.values()]


@pytest.mark.parametrize("host", sorted(HOSTS))
def test_no_skills_need_no_room(host):
    """An empty listing is within every limit."""
    listing = list_in(host, [], 200_000)
    assert (fates(listing), listing.needed <= listing.limit) == ({}, True)


def test_a_report_has_the_hosts_that_were_asked_for_once():
    """In the order asked."""
    report = report_budget([sized("a", 1, 2)], n=5, window=9, hosts=["codex", "hermes", "codex"])
    assert [listing.host for listing in report.listings] == ["codex", "hermes"]
    assert (report.skills, report.hidden, report.to_dict()["context"]) == (1, 0, 9)


def test_documents_are_text_files_and_count_for_the_inner_skill(tmp_path, make_skill):
    """Scripts and assets do not count, nor what a skill further in has."""
    outer = make_skill(tmp_path, "outer", body="One two.").parent
    inner = make_skill(outer / "more", "inner", body="Three.").parent
    for path, text in {
        outer / "references/a.md": "four five six",
        outer / "notes.TXT": "seven",
        outer / "scripts/run.py": "eight",
        inner / "b.md": "nine ten",
    }.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    sources, problems = reading.sources_of_roots([tmp_path])
    skills, more = reading.measure(sources, count_words)
    assert (problems, more) == ((), ())
    assert {skill.skill.name: (skill.body, skill.documents) for skill in skills} == {
        "outer": (Size(8, 2), Size(18, 4)),
        "inner": (Size(6, 1), Size(8, 2)),
    }


def test_skills_come_by_root_and_then_by_name(tmp_path, make_skill):
    """The first root's skills are the last that a host would cut."""
    for root, name in (("b", "Zebra"), ("b", "ant"), ("a", "bee")):
        make_skill(tmp_path / root, name)
    sources, _ = reading.sources_of_roots([tmp_path / "b", tmp_path / "a"])
    skills, _ = reading.measure(sources, count_words)
    assert [skill.skill.name for skill in skills] == ["ant", "Zebra", "bee"]


def test_an_index_gives_the_same_skills_as_its_roots(tmp_path, drinks):
    """Read from the disk as they are now."""
    index = SkillIndex.from_roots(drinks, index_dir=tmp_path / "index", model="hashing")
    from_index = reading.measure(reading.sources_of_index(index), count_words)
    assert from_index == reading.measure(reading.sources_of_roots([drinks])[0], count_words)


def test_a_location_in_the_home_folder_is_short(home, make_skill):
    """As a host writes it that shortens paths."""
    path = make_skill(home / "skills", "tea")
    skills, _ = reading.measure(reading.sources_of_roots([home])[0], count_words)
    skill = skills[0].skill
    assert (skill.path, skill.short_path) == (str(path), "~/skills/tea/SKILL.md")
    assert skill.root == str(home)


def test_a_description_is_one_line(tmp_path, make_skill):
    """Hosts write it as one."""
    make_skill(tmp_path, "tea", "Times\n  tea.\n", **{"when_to_use": "At\nfour."})
    skills, _ = reading.measure(reading.sources_of_roots([tmp_path])[0], count_words)
    skill = skills[0].skill
    assert (skill.description, skill.when_to_use) == ("Times tea.", "At four.")


def test_what_cannot_be_read_is_reported_and_left_out(tmp_path, make_skill):
    """A file without frontmatter, a root that is none, a document that leads out of the skill."""
    good = make_skill(tmp_path / "root", "tea", body="Steep.").parent
    (tmp_path / "root" / "bad").mkdir()
    (tmp_path / "root" / "bad" / "SKILL.md").write_text("nothing")
    (good / "large.md").write_text("word " * 5)
    with (good / "huge.txt").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    sources, problems = reading.sources_of_roots([tmp_path / "root", tmp_path / "none"])
    skills, more = reading.measure(sources, count_words)
    assert [(item.code, item.severity) for item in problems] == [("root-missing", "error")]
    assert [(item.code, item.severity) for item in more] == [
        ("frontmatter-missing", "error"),
        ("document-unreadable", "warning"),
    ]
    assert [(skill.skill.name, skill.documents.tokens) for skill in skills] == [("tea", 5)]


def test_documents_beyond_those_listed_are_reported(tmp_path, make_skill):
    """A folder of more files than anybody would read is measured in part."""
    folder = make_skill(tmp_path, "tea").parent
    for number in range(MAX_LISTED_FILES + 1):
        (folder / f"{number}.md").write_text("one")
    skills, problems = reading.measure(reading.sources_of_roots([tmp_path])[0], count_words)
    assert skills[0].documents.tokens == MAX_LISTED_FILES
    assert [(item.code, item.path) for item in problems] == [("files-truncated", str(folder))]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_cannot_be_listed_has_no_documents(tmp_path, make_skill):
    """Its SKILL.md may be open all the same."""
    folder = make_skill(tmp_path, "tea").parent
    sources, _ = reading.sources_of_roots([tmp_path])
    folder.chmod(0o111)
    skills, problems = reading.measure(sources, count_words)
    folder.chmod(0o755)
    assert (len(skills), [item.code for item in problems]) == (1, ["folder-unreadable"])


def test_bytes_that_are_no_text_are_measured_all_the_same(tmp_path, make_skill):
    """A document in a wrong encoding has replacement characters, not an error."""
    folder = make_skill(tmp_path, "tea").parent
    (folder / "latin.md").write_bytes("é à".encode("latin-1"))
    skills, problems = reading.measure(reading.sources_of_roots([tmp_path])[0], count_words)
    assert (skills[0].documents, problems) == (Size(3, 2), ())


def test_reading_tells_how_far_it_is(drinks):
    """Once for each skill."""
    seen = []
    sources, _ = reading.sources_of_roots([drinks])
    reading.measure(sources, count_words, lambda *step: seen.append(step))
    assert seen == [("read", 1, 3), ("read", 2, 3), ("read", 3, 3)]


def test_the_packaged_examples_fit_where_they_should():
    """All hosts list the examples whole at 200,000 tokens, and most claims hold."""
    from skillsearch.cli.indexing import EXAMPLES

    skills, problems = reading.measure(reading.sources_of_roots([EXAMPLES])[0], TokenCounter.load())
    report = report_budget(skills, n=5, window=200_000, hosts=["openclaw", "hermes"])
    assert problems == ()
    assert all(fates(listing).keys() == {"whole"} for listing in report.listings)
    holds = {claim.name: claim.holds for claim in report.claims}
    assert holds == {
        "metadata": True,
        "start": True,
        "on demand": True,
        "relevant": True,
        "format": False,
    }
