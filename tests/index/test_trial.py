"""An index in which one skill says something else answers as if its file did."""

import pytest

from skillsearch.errors import ParseError
from skillsearch.index.indexing.trial import Trial
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.skills.example_requests import ExampleBook, digest_of_skill

QUERIES = ("keep the kettle warm", "lemonade", "brew filter coffee", "green tea for two")


def answers(opened, trial):
    """Return the ids and scores of the hits for each query."""
    index = SkillIndex(IndexFolder(opened.folder), opened, trial.embedder)
    results = index.search_many(QUERIES, n=5, threshold=0.0, reader="off")
    return [[(hit.doc_id, round(hit.score, 6)) for hit in result] for result in results]


def test_a_trial_answers_as_an_index_of_the_edited_file_and_touches_nothing(
    drinks, build, tmp_path
):
    index = build(drinks)
    document = index.find("steep-tea")
    path = drinks / "steep-tea" / "SKILL.md"
    before = path.read_bytes()
    edited = before.replace(b"Steep green", b"Keep the kettle warm. Steep green")
    trial = Trial.begin(index.opened, tmp_path / "trial")
    as_it_is, changed = trial.opened, trial.changed(document, edited)
    tried = answers(as_it_is, trial), answers(changed, trial)
    assert tried[0] != tried[1]
    assert path.read_bytes() == before
    path.write_bytes(edited)
    again = build(drinks, index_dir="again")
    assert answers(again.opened, trial) == tried[1]


def test_each_change_is_tried_alone_and_what_is_no_skill_is_refused(drinks, build, tmp_path):
    index = build(drinks)
    document, path = index.find("steep-tea"), drinks / "steep-tea" / "SKILL.md"
    trial = Trial.begin(index.opened, tmp_path / "trial")
    first = trial.changed(document, path.read_bytes().replace(b"Steep green", b"Pour lemonade"))
    same = trial.changed(document, path.read_bytes())
    assert answers(first, trial) != answers(trial.opened, trial)
    assert answers(same, trial) == answers(trial.opened, trial)
    with pytest.raises(ParseError):
        trial.changed(document, b"\0")


def test_no_skill_is_found_by_its_examples_in_a_trial(drinks, build, tmp_path):
    tea = "Steep green tea at the right temperature."
    book = ExampleBook(extra={digest_of_skill("steep-tea", tea): ("keep the kettle warm",)})
    index = build(drinks, examples=book)
    assert index.find("steep-tea").examples
    trial = Trial.begin(index.opened, tmp_path / "trial")
    assert not any(document.examples for document in trial.opened.corpus.documents)
