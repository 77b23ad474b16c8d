"""Tests of the command that says why a skill does not come."""

import json

import pytest

from skillsearch.cli.commands import COMMANDS
from skillsearch.index.skill_index import SkillIndex


def rows(done):
    return [tuple(line.split("\t")) for line in done.stdout.splitlines()]


def test_nothing_keeps_a_skill_out(indexed):
    done = indexed("why", "steep-tea")
    assert done.exit_code == 0
    assert {verdict for verdict, *_ in rows(done)} == {"ok"}
    assert rows(done)[0][1] == "skill"


def test_a_skill_that_is_not_there_exits_with_1(indexed):
    done = indexed("why", "steep-tee")
    assert done.exit_code == 1
    assert rows(done)[0] == ("error", "skill", "the index has no skill named 'steep-tee'")
    assert "steep-tea" in rows(done)[-1][2]


@pytest.mark.parametrize(("request_text", "code"), [("steep-tea", 0), ("sell a boat", 1)])
def test_a_request_that_the_skill_does_not_fit_exits_with_1(indexed, request_text, code):
    done = indexed("why", "steep-tea", request_text)
    assert done.exit_code == code
    assert [name for _, name, _ in rows(done)].count("score") == 1


@pytest.mark.parametrize("request_text", ["", "  ", "-"])
def test_an_empty_request_is_refused_as_by_query(indexed, request_text):
    done = indexed("why", "steep-tea", request_text, stdin="\n")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "empty; say in words what is to be done" in done.stderr


def test_a_request_may_be_several_words_or_stdin(indexed):
    words = indexed("why", "steep-tea", "green", "tea", "--json")
    piped = indexed("why", "steep-tea", "-", "--json", stdin="green tea\n")
    assert json.loads(words.stdout) == json.loads(piped.stdout)
    assert json.loads(words.stdout)["standing"]["request"] == "green tea"


def test_the_json_says_the_same_as_the_lines(indexed):
    record = json.loads(indexed("why", "steep-tea", "brew coffee", "--json").stdout)
    first, folded, *lines = rows(indexed("why", "steep-tea", "brew coffee"))
    checks = [(check["verdict"], check["name"], check["detail"]) for check in record["checks"]]
    names = {name for _, name, _ in checks if f" {name}," in folded[2] or f" {name};" in folded[2]}
    assert "trust" in names
    assert "score" not in names
    assert [first, *lines] == [check for check in checks if check[1] not in names]
    assert {verdict for verdict, name, _ in checks if name in names} == {"ok"}
    assert record["doc_id"] == "drinks:steep-tea"


def test_figures_are_those_of_query(indexed):
    more = ("--threshold", "0", "-n", "3")
    standing = json.loads(indexed("why", "steep-tea", "coffee or tea", *more, "--json").stdout)
    hits = json.loads(indexed("query", "coffee or tea", *more, "--json").stdout)["hits"]
    (hit,) = [hit for hit in hits if hit["name"] == "steep-tea"]
    assert standing["standing"]["rank"] == hit["rank"]
    assert standing["standing"]["score"] == hit["score"]
    assert standing["standing"]["best"] == hits[0]["name"]


def test_a_skill_that_options_leave_out_exits_with_1(indexed):
    done = indexed("why", "steep-tea", "--exclude", "steep*")
    assert done.exit_code == 1
    assert ("error", "settings") in [row[:2] for row in rows(done)]


def test_without_an_index_there_is_nothing_to_explain(cli, tmp_path):
    done = cli("why", "steep-tea", "--index-dir", tmp_path / "none")
    assert (done.exit_code, done.stdout) == (4, "")


def test_a_header_names_the_columns(indexed):
    assert rows(indexed("why", "steep-tea", "--header"))[0] == ("verdict", "name", "detail")


def test_a_terminal_gets_a_table(indexed, terminal):
    terminal()
    done = indexed("why", "steep-tea", "brew coffee")
    assert "\t" not in done.stdout
    assert "scope" in done.stdout


def test_hostile_names_and_requests_are_shown_cleaned(cli, make_skill, tmp_path, index_dir):
    hostile = "tea\u202e\x1b[31m"
    path = make_skill(tmp_path / "skills", "a", hostile)
    path.write_text(f'---\nname: "tea\\u202E\\e[31m"\ndescription: Steep {hostile}\n---\n', "utf-8")
    SkillIndex.from_roots(tmp_path / "skills", index_dir=index_dir, model="hashing")
    for name in ("skills:a", f"{hostile}-not"):
        for more in ([], ["--json"]):
            args = [name, f"steep {hostile}", *more, "--index-dir", index_dir]
            done = cli("why", *args)
            assert done.exit_code in (0, 1)
            assert done.stdout
            assert done.stdout.replace("\n", "").replace("\t", "").isprintable()


@pytest.mark.parametrize("word", ["explain", "debug"])
def test_other_words_for_it_lead_to_it(cli, word):
    assert word in COMMANDS["why"].intents.split()
    assert "why" in cli(word).stderr
