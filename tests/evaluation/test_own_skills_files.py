"""Folders of one's own skills as a judged collection: what is read, and what is left alone."""

import json
import os
import shutil
from functools import partial

import pytest

from skillsearch.evaluation.own_skills import (
    own_collection,
    read_evals,
    read_own_collection,
    read_skills,
)
from skillsearch.index.skill_index import SkillIndex

CASES = [
    {"query": "make an espresso", "should_trigger": True},
    {"query": "boil an egg", "should_trigger": False},
]


@pytest.fixture
def root(tmp_path, make_skill):
    """A root with two skills, one of them with evals."""
    folder = tmp_path / "mine"
    make_skill(folder, "brew-coffee", "Brew coffee.", body="## Dialing espresso grind size\n")
    make_skill(folder, "steep-tea", "Steep tea.")
    write(folder / "brew-coffee" / "evals" / "trigger.json", json.dumps(CASES))
    return folder


def write(path, content):
    """Write a file below a folder that may not be there yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def relevant(collection):
    return {query.text: [*collection.qrels[query.query_id]] for query in collection.queries}


def problems_of(diagnostics):
    """Return code and path of each diagnostic."""
    return [(diagnostic.code, diagnostic.path) for diagnostic in diagnostics]


def test_skills_and_their_evals_become_a_collection(root):
    collection, diagnostics = read_own_collection([root])
    assert relevant(collection) == {
        "make an espresso": ["mine:brew-coffee"],
        "Dialing espresso grind size": ["mine:brew-coffee"],
    }
    assert [query.text for query in collection.negatives] == ["boil an egg"]
    assert diagnostics == ()
    index = SkillIndex.from_roots(root, index_dir=root.parent / "index", model="hashing")
    indexed = {document.doc_id for document in index.documents()}
    assert {document.doc_id for document in collection.documents} == indexed


def test_what_no_search_finds_is_not_evaluated(root, tmp_path, make_skill):
    theirs, body = tmp_path / "theirs", "## Turkish coffee pots\n"
    path = make_skill(theirs, "brew-coffee", "Brew it.", body=body)
    collection, diagnostics = read_own_collection([root, theirs])
    assert collection == read_own_collection([root])[0]
    assert problems_of(diagnostics) == [("shadowed", str(path))]
    collection, _ = read_own_collection([theirs, root])
    assert relevant(collection) == {"Turkish coffee pots": ["theirs:brew-coffee"]}


def test_evals_in_yaml_are_read(root):
    cases = "cases:\n  - query: steep sencha\n    expect: steep-tea\n"
    write(root / "steep-tea" / "evals.yaml", cases)
    bomb = write(root / "steep-tea" / "evals" / "bomb.yaml", "a: &a [x]\nb: *a\n")
    collection, diagnostics = read_own_collection([root])
    assert relevant(collection)["steep sencha"] == ["mine:steep-tea"]
    assert problems_of(diagnostics) == [("eval-unreadable", str(bomb))]


def test_no_link_is_followed(root, tmp_path):
    case = {"query": "leak", "should_trigger": True}
    secret = write(tmp_path / "secret.json", json.dumps([case]))
    (root / "steep-tea" / "evals").mkdir()
    (root / "steep-tea" / "evals" / "a.json").symlink_to(secret)
    (root / "steep-tea" / "trigger-evals").symlink_to(root / "brew-coffee" / "evals")
    collection, _ = read_own_collection([root])
    assert "leak" not in relevant(collection)
    assert relevant(collection)["make an espresso"] == ["mine:brew-coffee"]


@pytest.mark.parametrize("name", ["100%.json", "%2e%2e%2fa.json", "a%20b.json"])
def test_a_percent_sign_in_a_file_name_means_itself(root, name):
    cases = [{"query": "pour over", "should_trigger": True}]
    write(root / "steep-tea" / "evals" / name, json.dumps(cases))
    assert relevant(read_own_collection([root])[0])["pour over"] == ["mine:steep-tea"]


def test_what_cannot_be_read_is_reported_and_passed_over(root):
    write(root / "broken" / "SKILL.md", "# Empty")
    write(root / "steep-tea" / "evals" / "evals.json", b"\xff\x00{")
    write(root / "steep-tea" / "evals" / "odd\x07.json", "[]")
    collection, diagnostics = read_own_collection([root])
    assert len(collection.documents) == 2
    tea = root / "steep-tea"
    assert problems_of(diagnostics) == [
        ("frontmatter-missing", str(root / "broken" / "SKILL.md")),
        ("eval-not-listed", str(tea)),
        ("eval-unreadable", str(tea / "evals/evals.json")),
    ]
    assert diagnostics[0].severity == "error"


def test_what_is_too_large_or_too_deep_is_told(root):
    write(root / "brew-coffee" / "/".join("abcdefghijklmnop") / "evals.json", "[]")
    path = write(root / "steep-tea" / "evals" / "evals.json", "")
    os.truncate(path, 1 << 30)
    _, (unlisted, large) = read_own_collection([root])
    assert unlisted.code == "eval-not-listed"
    assert problems_of([large]) == [("eval-unreadable", str(path))]
    assert "larger than" in large.message


def test_a_skill_that_goes_away_meanwhile_is_reported(root):
    problems = []
    skills = read_skills([root], problems)
    shutil.rmtree(root / "steep-tea")
    collection, _ = own_collection(skills, partial(read_evals, problems=problems))
    assert "make an espresso" in relevant(collection)
    assert problems_of(problems) == [("eval-unreadable", str(root / "steep-tea"))]
