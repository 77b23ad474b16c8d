"""A judged collection of the user's own skills."""

import json
from pathlib import Path

import pytest

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.own_skills import KINDS, own_collection
from skillsearch.evaluation.types import JudgedDocument
from skillsearch.types.skills import Skill, SkillMetadata


def make(folder, name=None, description="Does things.", body=""):
    """Make a skill without a file; its id is its folder."""
    path = Path("/skills") / folder / "SKILL.md"
    metadata = SkillMetadata(name=name or path.parent.name, description=description)
    return Skill(folder, metadata, body, path, Path("/skills"), "0" * 64)


def collect(skills, files=None, **options):
    """Make a collection; files are JSON values by skill and path."""

    def eval_files(skill):
        for path, values in (files or {}).get(skill.doc_id, {}).items():
            data = values if isinstance(values, bytes) else json.dumps(values).encode()
            yield path, data

    return own_collection(skills, eval_files, **options)


def relevant(collection):
    return {query.text: set(collection.qrels[query.query_id]) for query in collection.queries}


def trigger(*positives, no=()):
    texts = [(text, True) for text in positives] + [(text, False) for text in no]
    return [{"query": text, "should_trigger": flag} for text, flag in texts]


BODY = "## When to use\n- Grind the beans finely\n\n## Dialing espresso grind size\n"


def test_queries_of_every_kind_come_in_order():
    skills = [make("tea"), make("coffee", body=BODY)]
    values = [*trigger("make an espresso", "pull a shot"), {"prompt": "brew for two"}]
    collection, diagnostics = collect(skills, {"coffee": {"evals/evals.json": values}})
    assert [(query.query_id, query.text, query.kind) for query in collection.queries] == [
        ("trigger:coffee#0", "make an espresso", "trigger"),
        ("trigger:coffee#1", "pull a shot", "trigger"),
        ("task:coffee#0", "brew for two", "task"),
        ("example:coffee#0", "Grind the beans finely", "example"),
        ("heading:coffee#0", "Dialing espresso grind size", "heading"),
    ]
    assert collection.qrels == {query.query_id: {"coffee": 1} for query in collection.queries}
    assert collection.documents == (
        JudgedDocument("tea", "tea", "Does things.", ""),
        JudgedDocument("coffee", "coffee", "Does things.", BODY),
    )
    assert (collection.name, diagnostics) == ("own skills", ())


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_can_be_chosen(kind):
    values = [*trigger("make an espresso", no=["x"]), {"prompt": "brew for two"}]
    files = {"coffee": {"evals/evals.json": values}}
    collection, _ = collect([make("coffee", body=BODY)], files, kinds=[kind])
    assert [query.kind for query in collection.queries] == [kind]
    assert len(collection.negatives) == (kind == "trigger")


def test_files_are_not_read_for_queries_of_the_text():
    def fail(skill):
        raise AssertionError(skill)

    collection, _ = own_collection([make("coffee", body=BODY)], fail, kinds=["heading"])
    assert len(collection.queries) == 1


def test_a_text_that_several_skills_claim_is_one_query():
    skills = [make("a", body="## When to use\n- Grind the  beans\n"), make("b"), make("c")]
    files = {
        "b": {"evals.json": trigger("grind the beans")},
        "c": {"evals.json": [{"prompt": "GRIND THE BEANS"}]},
    }
    collection, _ = collect(skills, files)
    (query,) = collection.queries
    assert (query.query_id, query.text) == ("trigger:b#0", "grind the beans")
    assert collection.qrels == {"trigger:b#0": {"a": 1, "b": 1, "c": 1}}


def test_a_query_of_one_copy_is_right_with_all():
    skills = [make("x/coffee", body="Brew."), make("y/coffee", "Coffee", "Other.", "brew. ")]
    collection, _ = collect(skills, {"x/coffee": {"evals.json": trigger("a b c", no=["d e f"])}})
    assert relevant(collection) == {"a b c": {"x/coffee", "y/coffee"}}
    assert any("copies of others: 1;" in note for note in collection.notes)


def test_a_file_can_name_another_skill():
    skills = [make("x/coffee"), make("y/coffee", description="Other."), make("tea")]
    files = {
        "tea": {"evals.json": [{"query": "make an espresso", "expected_skill": "coffee"}]},
        "x/coffee": {"evals.json": [{"query": "pull a shot", "expected_skill": "coffee"}]},
    }
    collection, _ = collect(skills, files)
    actual = relevant(collection)
    assert actual == {"pull a shot": {"x/coffee"}, "make an espresso": {"x/coffee", "y/coffee"}}


def test_a_negative_is_a_query_that_no_skill_claims():
    skills = [make("coffee"), make("tea", body="## When to use\n- Steep green leaves slowly\n")]
    denied = ["make tea", "Steep green leaves slowly", "fly a kite", "Fly a  kite"]
    files = {
        "coffee": {"evals.json": trigger("make coffee", no=denied)},
        "tea": {"evals.json": trigger("Make tea", no=["make coffee", "fly a kite"])},
    }
    collection, _ = collect(skills, files)
    (negative,) = collection.negatives
    assert (negative.text, negative.kind) == ("fly a kite", "trigger")
    assert negative.query_id not in collection.qrels
    ids = [query.query_id for query in (*collection.queries, *collection.negatives)]
    assert len(ids) == len(set(ids))


def test_a_file_counts_for_the_innermost_skill():
    """A root that is a skill itself holds the files of the skills below it."""
    skills = [make("all"), make("all/skills/tea")]
    files = {
        "all": {"evals/evals.json": trigger("everything"), "skills/tea/evals.json": trigger("tea")},
        "all/skills/tea": {"evals.json": trigger("tea")},
    }
    collection, _ = collect(skills, files)
    assert relevant(collection) == {"everything": {"all"}, "tea": {"all/skills/tea"}}


def test_what_cannot_be_read_is_told_with_its_path():
    files = {"coffee": {"evals/a.json": b"{", "evals/b.json": trigger("pull a shot")}}
    collection, (diagnostic,) = collect([make("coffee")], files)
    assert relevant(collection) == {"pull a shot": {"coffee"}}
    assert (diagnostic.code, diagnostic.path) == ("eval-unreadable", "/skills/coffee/evals/a.json")


def test_the_notes_say_what_the_queries_are_worth():
    files = {"coffee": {"evals.json": trigger("make an espresso", no=["make tea"])}}
    collection, _ = collect([make("coffee", body=BODY)], files)
    notes = "\n".join(collection.notes)
    assert "1 trigger, 1 example, 1 heading" in notes
    assert "easier than what users ask" in notes
    assert "not that no skill fits" in notes
    assert "copies" not in notes
    collection, _ = collect([make("coffee")], {"coffee": {"evals.json": trigger("espresso")}})
    assert not [note for note in collection.notes if "known-item" in note or "Negatives" in note]


def test_no_query_is_an_error_with_a_cure():
    with pytest.raises(EvaluationError, match=r"from 1 skill .*trigger-evals\.json.*query"):
        collect([make("coffee")])
    with pytest.raises(EvaluationError, match="none"):
        collect([make("coffee", body=BODY)], kinds=[])
    with pytest.raises(EvaluationError, match="0 skills"):
        collect([])
    with pytest.raises(EvaluationError):
        collect([make("coffee")], {"coffee": {"evals.json": trigger(no=["make tea"])}})
    with pytest.raises(EvaluationError, match="'triggers'; choose from: trigger, task"):
        collect([make("coffee")], kinds=["triggers"])
