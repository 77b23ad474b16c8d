"""Which channels vote in a query, and the words that say why."""

import pytest

from skillsearch.index.skill_index import SkillIndex


@pytest.fixture
def votes(build, polyglot):
    """Return the votes of a query in an index of roots: trust by channel, and reason by channel."""

    def ask(query, *roots, **options):
        found = build(*roots, **options).search(query, explain=True).channels
        return {v.channel: v.trust for v in found}, {v.channel: v.reason for v in found}

    return ask


def test_a_search_that_does_not_explain_tells_no_votes(build, root, polyglot):
    """Nor does one of an empty index, which has nothing to ask."""
    assert build(root).search("forms").channels == ()


def test_an_empty_index_asks_no_channel(build, tmp_path, polyglot):
    """There is nothing to find."""
    (tmp_path / "empty").mkdir()
    assert build(tmp_path / "empty").search("forms", explain=True).channels == ()


def test_the_only_channel_is_trusted_by_its_letters(votes, root):
    """With all, some and none of them in its script."""
    trust, reason = votes("fill forms", root, languages="english")
    assert trust == {"bm25": 1, "hashing": 1}
    assert reason["hashing"] == "it reads Latin letters"
    assert reason["bm25"] == "always asked; 100 % of its terms are in the index"
    trust, reason = votes("填写所有的表单 pdf", root, languages="english")
    assert trust["hashing"] == pytest.approx(3 / 10 / 0.5)
    assert reason["hashing"] == "it reads Latin letters, and less than half of the query's are"
    trust, reason = votes("填写所有的表单", root, languages="english")
    assert trust["hashing"] == 0
    assert reason["hashing"] == "not asked: it reads Latin letters, and the query has none"


def test_a_channel_that_reads_all_says_so(root, build):
    """Whatever the query is in."""
    (_, vote) = build(root).search("填写表单", explain=True).channels
    assert (vote.channel, vote.trust, vote.reason) == ("hashing", 1, "it reads every script")


def test_an_english_query_of_english_skills_asks_the_first_alone(votes, root):
    """The words tell its language."""
    trust, reason = votes("list the fields of a form, please", root, languages="all")
    assert trust == {"bm25": 1, "hashing": 1, "multilingual": 0}
    assert reason["hashing"].startswith("the words and letters are English; ")
    assert reason["multilingual"].startswith("not asked: hashing knows the language of the query")


def test_a_chinese_query_asks_the_second_alone(votes, root):
    """Of its letters none is known to the first."""
    trust, reason = votes("填写所有的表单", root, languages="all")
    assert trust == {"bm25": 1, "hashing": 0, "multilingual": 1}
    assert reason["hashing"].startswith("not asked: the words and letters are Chinese; ")
    assert reason["multilingual"] == "it knows every language"


def test_in_a_mixed_corpus_both_are_asked(votes, root, add_chinese, make_skill):
    """Three of eight skills are Chinese."""
    add_chinese(root)
    make_skill(root, "周报", "汇总本周的工作并写成周报。", body="# 步骤")
    trust, reason = votes("list the fields of a form, please", root)
    assert trust == {"bm25": 1, "hashing": 1, "multilingual": 1}
    assert reason["multilingual"] == "38 % of the skills are in other languages, so both are asked"


def test_a_language_that_cannot_be_told_is_not_guessed(votes, root):
    """The share of other letters is what is left to say."""
    _, reason = votes("pdf \u13a0\u13a1", root, languages="all")
    assert "its language cannot be told, 40 % of its letters are not ASCII; " in reason["hashing"]


def test_a_channel_that_cannot_be_asked_is_named(root, build, polyglot):
    """With where to look."""
    place = build(root, languages="all").folder
    polyglot.is_installed = False
    *_, last = SkillIndex.open(place).search("list forms", explain=True).channels
    assert (last.channel, last.trust) == ("multilingual", 0)
    assert last.reason.endswith("skillsearch doctor says why")


@pytest.mark.parametrize("system", ["bm25", "dense", "rrf"])
def test_only_a_hybrid_result_has_votes(build, root, polyglot, system):
    """The other systems do as they are told."""
    found = build(root, languages="all").search("list forms", explain=True, system=system)
    assert found.channels == ()
