"""Example requests in an index in Milvus: the same answers as from a local one, and updates."""

import json

import pytest

from skillsearch.index.skill_index import SkillIndex
from skillsearch.skills.example_requests import digest_of_skill, user_file
from skillsearch.types.answers import SYSTEMS

ASKED = "my leaves turned bitter"
QUERIES = (ASKED, "brew coffee", "is the crust done", "a", "영수증 정리")
TEA = ("steep-tea", "Steep green tea.")
BREAD = ("bake-bread", "Bake sourdough bread.")


@pytest.fixture
def keep(home):
    """Have examples of skills in the user's file."""

    def keep(examples):
        user_file().parent.mkdir(parents=True, exist_ok=True)
        lines = (
            json.dumps({"digest": digest_of_skill(*skill), "examples": texts})
            for skill, texts in examples.items()
        )
        new = user_file().with_suffix(".new")
        new.write_text("\n".join(lines))
        new.replace(user_file())

    return keep


def bring(root, *texts):
    """Have the coffee skill bring examples."""
    path = root / "brew-coffee" / "evals.json"
    path.write_text(json.dumps([{"query": text} for text in texts]))


def hits_of(index):
    return [
        [(hit.doc_id, pytest.approx(hit.score, abs=1e-5)) for hit in (*result, *result.perhaps)]
        for system in SYSTEMS
        for query in QUERIES
        for result in [index.search(query, n=5, threshold=0.0, system=system)]
    ]


def local(root, tmp_path):
    index_dir = tmp_path / "local"
    return SkillIndex.from_roots(root, index_dir=index_dir, model="hashing")


def test_answers_are_those_of_a_local_index(index_in, root, keep, tmp_path):
    for user_examples, brought in (
        ({}, ()),
        ({TEA: [ASKED, "영수증 정리"], BREAD: ["영수증 정리"]}, ("wake me up",)),
        ({BREAD: ["is the crust done"]}, ("wake me up", "two cups")),
    ):
        keep(user_examples)
        bring(root, *brought)
        remote, here = index_in(root)[0], local(root, tmp_path)
        assert hits_of(remote) == hits_of(here)
        for document in here.documents():
            assert remote.find(document.doc_id).examples == document.examples


def test_only_skills_with_other_examples_get_another_row(index_in, root, keep):
    keep({TEA: [ASKED]})
    before = index_in(root)[1]
    assert before.embedded == 6
    assert index_in(root)[1].generation == before.generation
    keep({TEA: [ASKED], BREAD: ["is the crust done"], ("nobody", ""): ["else"]})
    report = index_in(root)[1]
    assert (report.reused, report.embedded) == (4, 1)
    bring(root, "wake me up")
    report = index_in(root)[1]
    assert (report.reused, report.embedded) == (4, 1)
    assert index_in(root)[0].search(ASKED, n=1, threshold=0.0)[0].name == "steep-tea"


@pytest.mark.milvus
def test_milvus_finds_by_examples_what_a_local_index_does(build, root, keep, tmp_path):
    """The vector is a field of the collection."""
    keep({TEA: [ASKED], BREAD: ["is the crust done"]})
    bring(root, "wake me up")
    remote, _ = build(root)
    assert hits_of(remote) == hits_of(local(root, tmp_path))
    keep({BREAD: [ASKED]})
    remote, _ = build(root)
    assert hits_of(remote) == hits_of(local(root, tmp_path))
    assert remote.search(ASKED, n=1, threshold=0.0)[0].name == "bake-bread"
