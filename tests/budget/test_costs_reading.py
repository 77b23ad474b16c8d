"""Tests of reading and measuring the skills of roots and of an index."""

import os

import pytest

from skillsearch.budget import costs
from skillsearch.budget.costs import Size, report_budget
from skillsearch.embedders.embedder import TokenCounter
from skillsearch.index.skill_index import SkillIndex
from skillsearch.skills.resources import MAX_LISTED_FILES


def test_documents_are_text_files_and_count_for_the_inner_skill(tmp_path, make_skill, count_words):
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
    sources, problems = costs.sources_of_roots([tmp_path])
    skills, more = costs.measure(sources, count_words)
    assert (problems, more) == ((), ())
    assert {skill.skill.name: (skill.body, skill.documents) for skill in skills} == {
        "outer": (Size(8, 2), Size(18, 4)),
        "inner": (Size(6, 1), Size(8, 2)),
    }


def test_skills_are_measured_and_listed_by_root_and_then_by_name(tmp_path, make_skill, count_words):
    """The first root's skills are the last that a host would cut."""
    for root, name in (("b", "Zebra"), ("b", "ant"), ("a", "bee")):
        make_skill(tmp_path / root, name)
    make_skill(tmp_path / "a", "broken", description="")
    sources, _ = costs.sources_of_roots([tmp_path / "b", tmp_path / "a"])
    skills, _ = costs.measure(sources, count_words)
    assert [skill.skill.name for skill in skills] == ["ant", "Zebra", "bee"]
    assert costs.listed_skills(sources) == tuple(skill.skill for skill in skills)


def test_an_index_gives_the_same_skills_as_its_roots(tmp_path, drinks, count_words):
    index = SkillIndex.from_roots(drinks, index_dir=tmp_path / "index", model="hashing")
    from_index = costs.measure(costs.sources_of_index(index), count_words)
    assert from_index == costs.measure(costs.sources_of_roots([drinks])[0], count_words)


def test_a_location_in_the_home_folder_is_short(home, make_skill, count_words):
    path = make_skill(home / "skills", "tea")
    skills, _ = costs.measure(costs.sources_of_roots([home])[0], count_words)
    skill = skills[0].skill
    assert (skill.path, skill.short_path) == (str(path), "~/skills/tea/SKILL.md")
    assert skill.root == str(home)


def test_what_cannot_be_read_is_reported_and_left_out(tmp_path, make_skill, count_words):
    good = make_skill(tmp_path / "root", "tea", body="Steep.").parent
    (tmp_path / "root" / "bad").mkdir()
    (tmp_path / "root" / "bad" / "SKILL.md").write_text("# Nothing")
    (good / "large.md").write_text("word " * 5)
    # A document in a wrong encoding has replacement characters, not an error.
    (good / "latin.md").write_bytes("é à".encode("latin-1"))
    with (good / "huge.txt").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    sources, problems = costs.sources_of_roots([tmp_path / "root", tmp_path / "none"])
    skills, more = costs.measure(sources, count_words)
    assert [(problem.code, problem.severity) for problem in problems] == [("root-missing", "error")]
    assert [(problem.code, problem.severity) for problem in more] == [
        ("frontmatter-missing", "error"),
        ("document-unreadable", "warning"),
    ]
    assert [(skill.skill.name, skill.documents) for skill in skills] == [("tea", Size(28, 7))]


def test_documents_beyond_those_listed_are_reported(tmp_path, make_skill, count_words):
    folder = make_skill(tmp_path, "tea").parent
    for number in range(MAX_LISTED_FILES + 1):
        (folder / f"{number}.md").write_text("one")
    skills, problems = costs.measure(costs.sources_of_roots([tmp_path])[0], count_words)
    assert skills[0].documents.tokens == MAX_LISTED_FILES
    assert [(problem.code, problem.path) for problem in problems] == [
        ("files-truncated", str(folder))
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_cannot_be_listed_has_no_documents(tmp_path, make_skill, count_words):
    folder = make_skill(tmp_path, "tea").parent
    sources, _ = costs.sources_of_roots([tmp_path])
    folder.chmod(0o111)
    skills, problems = costs.measure(sources, count_words)
    folder.chmod(0o755)
    assert (len(skills), [problem.code for problem in problems]) == (1, ["folder-unreadable"])


def test_the_packaged_examples_fit_where_they_should():
    from skillsearch.index.roots.root_change import EXAMPLES

    skills, problems = costs.measure(costs.sources_of_roots([EXAMPLES])[0], TokenCounter.load())
    report = report_budget(skills, n=5, window=200_000, hosts=["openclaw", "hermes"])
    assert problems == ()
    for listing in report.listings:
        assert {fate for fate, names in listing.fates.items() if names} == {"whole"}
    unmet = [(claim.name, claim.holds) for claim in report.claims if not claim.holds]
    assert unmet == [("format", False)]
