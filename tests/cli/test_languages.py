"""Tests of what a user is told about languages: ``index``, ``query``, ``status``, ``doctor``."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from skillsearch.index import opening
from skillsearch.index.languages import advice
from skillsearch.index.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.skill_library import SkillLibrary

KOREAN = "회의 녹음을 글로 옮겨 주세요"


@pytest.fixture
def index(cli, two_models, index_dir):
    """Run ``index`` with the hashing embedder, which here reads Latin letters alone."""

    def run(*args):
        return cli("index", "--index-dir", index_dir, "--model", "hashing", *args)

    return run


@pytest.fixture
def query(cli, index_dir):
    return lambda *args: cli("query", "--index-dir", index_dir, *args)


def models(index_dir):
    """Return what the embedders of an index are loaded by."""
    return [one.model for one in SkillIndex.open(index_dir).opened.settings.channels]


# Which channels an index gets.


@pytest.mark.parametrize(
    ("languages", "expected"), [("auto", ["hashing", "multilingual"]), ("english", ["hashing"])]
)
def test_a_flag_decides_about_the_second_channel(index, mixed, index_dir, languages, expected):
    assert index(mixed, "--languages", languages).exit_code == 0
    assert models(index_dir) == expected


def test_the_index_made_again_keeps_its_languages(index, mixed, index_dir, cli):
    index(mixed, "--languages", "english")
    cli("index", "--index-dir", index_dir)
    assert IndexRequest.load(index_dir).languages == "english"
    assert models(index_dir) == ["hashing"]
    cli("index", "--index-dir", index_dir, "--languages", "all")
    assert models(index_dir) == ["hashing", "multilingual"]


# What is told of skills.


def test_who_wants_english_is_told_nothing(index, mixed):
    assert index(mixed, "--languages", "english").stderr == ""


def test_few_skills_need_all_to_be_asked_for(tmp_path, make_skill, index):
    for number in range(120):
        make_skill(tmp_path / "r", f"brew-{number}", f"Brew the coffee number {number} with care.")
    make_skill(tmp_path / "r", "회의록", "회의 녹음을 글로 옮기고 요점을 정리합니다.")
    first, second = index(tmp_path / "r"), index(tmp_path / "r")
    assert "1 skill is in languages that the embedder does not know (ko 1)" in first.stderr
    assert "To search by meaning: skillsearch index --languages all\n" in first.stderr
    assert second.stderr == ""


def test_status_lists_channels_and_languages(index, mixed, index_dir, cli):
    index(mixed)
    record = json.loads(cli("status", "--index-dir", index_dir, "--json").stdout)
    assert record["languages"] == "auto"
    assert record["skills_by_language"] == {"en": 2, "ko": 1, "unknown": 1, "zh": 1}
    assert record["advice"] == ""
    first, second = record["channels"]
    assert first == {
        "model": "hashing",
        "name": "hashing",
        "dimensions": 512,
        "vectors": 5,
        "asked_about": "English",
    }
    assert (second["name"], second["dimensions"]) == ("skillsearch-e5", 256)
    assert second["vectors"] == 10
    assert second["asked_about"] == "all other languages"
    plain = cli("status", "--index-dir", index_dir).stdout
    assert "languages\ten 2, ko 1, unknown 1, zh 1\n" in plain
    assert "channel\thashing (hashing), 512 dimensions, vectors: 5, for English\n" in plain


def test_status_and_doctor_tell_the_remedy(index, drinks, query, request, index_dir, cli):
    """A query that finds new skills does not embed all of them for it."""
    index(drinks)
    request.getfixturevalue("mixed")
    query("brew coffee")
    wanted = advice(SkillIndex.open(index_dir))
    assert wanted.endswith("To search by meaning: skillsearch index")
    status = cli("status", "--index-dir", index_dir)
    assert (status.exit_code, status.stderr) == (0, f"note: {wanted}\n")
    assert (
        f"warning\tlanguages\ten 2, ko 1, unknown 1, zh 1; {wanted}\n"
        in cli("doctor", "--index-dir", index_dir).stdout
    )


# What is told of a query.


@pytest.fixture
def many(monkeypatch):
    """Let two skills be more than a query waits for."""
    monkeypatch.setattr(opening, "MAX_FOUND_SKILLS", 1)


@pytest.mark.usefixtures("many")
def test_a_query_in_another_language_is_told_once(index, drinks, query):
    index(drinks)
    first, second = query(KOREAN), query(KOREAN)
    assert "note: the embedder of this index does not know Korean" in first.stderr
    assert "To search by meaning: skillsearch index (told once)" in first.stderr
    assert "note: " not in second.stderr


@pytest.mark.usefixtures("many")
def test_after_a_query_in_another_language_index_adds_the_channel(index, drinks, query, index_dir):
    index(drinks)
    query("brew coffee")
    index(drinks)
    assert models(index_dir) == ["hashing"]
    query(KOREAN)
    index(drinks)
    assert models(index_dir) == ["hashing", "multilingual"]


def test_the_first_query_in_another_language_waits_for_the_channel_of_few_skills(
    index, drinks, query, index_dir
):
    index(drinks)
    first, second = query(KOREAN), query(KOREAN)
    assert first.stderr.startswith("index refreshed: other languages are read now\n")
    assert "refreshed" not in second.stderr
    assert models(index_dir) == ["hashing", "multilingual"]


def test_a_query_that_does_not_look_at_the_disk_adds_no_channel(index, drinks, query, index_dir):
    index(drinks)
    assert "note: the embedder" in query(KOREAN, "--no-refresh").stderr
    assert models(index_dir) == ["hashing"]


def test_an_agent_that_asks_in_another_language_brings_the_channel(index, drinks, index_dir):
    """Its answer does not wait; it comes with a look at the disk after the next one."""
    index(drinks)
    with ThreadPoolExecutor(1) as executor:
        for text in (KOREAN, "brew coffee"):
            SkillLibrary.open(index_dir, executor=executor).search(text)
    assert models(index_dir) == ["hashing", "multilingual"]


@pytest.mark.usefixtures("many")
def test_a_batch_is_told_once(index, drinks, query, tmp_path):
    index(drinks)
    lines = [json.dumps({"_id": n, "text": KOREAN if n else "brew coffee"}) for n in range(3)]
    (tmp_path / "queries").write_text("\n".join(lines))
    result = query("--batch", tmp_path / "queries")
    assert result.stderr.count("note: ") == 1
    assert len(result.stdout.splitlines()) == 3


@pytest.mark.parametrize("text", ["brew filter coffee", "xq zt", "42"])
def test_a_query_that_may_be_english_is_told_nothing(index, drinks, query, text):
    index(drinks)
    assert "note: " not in query(text).stderr


def test_a_query_is_told_nothing_where_english_was_wanted(index, drinks, query):
    index(drinks, "--languages", "english")
    assert "note: " not in query(KOREAN).stderr


def test_a_query_is_told_nothing_where_a_channel_knows_its_language(index, mixed, query):
    index(mixed)
    result = query(KOREAN, "--threshold", "0")
    assert result.stderr == ""
    assert result.stdout.splitlines()[0].split("\t")[2] == "회의록"


def test_what_cannot_be_marked_is_not_told(index, drinks, query, index_dir):
    index(drinks)
    (index_dir / "asked-in-another-language").symlink_to("nowhere")
    assert "note: " not in query(KOREAN).stderr
    assert not (index_dir / "nowhere").exists()


def test_a_query_does_not_stop_to_embed_all_skills_anew(index, drinks, query, request, index_dir):
    index(drinks)
    mixed = request.getfixturevalue("mixed")
    (mixed / "steep-tea" / "SKILL.md").unlink()
    told = query("brew filter coffee").stderr
    assert "index refreshed: 2 added, 0 changed, 1 removed" in told
    assert models(index_dir) == ["hashing"]
    index(mixed)
    assert models(index_dir) == ["hashing", "multilingual"]


# Why.


def test_explain_tells_the_channels_once_for_all_hits(index, mixed, query):
    index(mixed)
    record = json.loads(query(KOREAN, "--json", "--explain", "--threshold", "0").stdout)
    assert [vote["channel"] for vote in record["channels"]] == ["bm25", "hashing", "multilingual"]
    assert [vote["trust"] for vote in record["channels"]] == [1, 0, 1]
    assert record["channels"][2]["reason"] == "it knows every language"
    lines = query(KOREAN, "--explain", "--threshold", "0").stdout.splitlines()
    assert lines[2] == "\tchannel\tmultilingual 1.00: it knows every language"
    assert lines[3].startswith("1\t")
    assert "channels" not in json.loads(query(KOREAN, "--json").stdout)


def test_explain_tells_the_channels_where_nothing_fits(index, mixed, query):
    index(mixed)
    result = query("who won the world cup", "--explain", "--threshold", "1")
    assert [line.split("\t")[1] for line in result.stdout.splitlines()] == ["channel"] * 3


@pytest.mark.slow
def test_queries_find_english_skills_from_other_languages(cli):
    assert cli("index", "--examples", "--index-dir", "i", "--languages", "all").exit_code == 0
    for text, name in (
        ("쿠버네티스 파드가 계속 재시작돼요", "kubernetes-crashloop"),
        ("我的 pod 一直在重启", "kubernetes-crashloop"),
        ("¿por qué esta consulta SQL va tan lenta?", "sql-query-tuning"),
    ):
        record = json.loads(cli("query", text, "--index-dir", "i", "--json", "--explain").stdout)
        assert record["hits"][0]["name"] == name
        assert record["channels"][-1]["trust"] == 1
