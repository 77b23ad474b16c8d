"""The collection that comes with the package."""

from pathlib import Path

import skillsearch
from skillsearch.evaluation.collection import load_collection
from skillsearch.evaluation.jobs import EXAMPLE
from skillsearch.skills.parser import parse_skill

SKILLS = Path(skillsearch.__file__).parent / "examples"


def test_its_documents_are_the_example_skills():
    """As they are now: change a skill, and this collection must be made anew."""
    expected = {}
    for path in SKILLS.glob("*/SKILL.md"):
        doc_id = path.parent.name
        skill, _ = parse_skill(path.read_bytes(), doc_id=doc_id, path=path, root=SKILLS)
        expected[doc_id] = (skill.name, skill.description, skill.body)
    found = load_collection(EXAMPLE).documents
    assert {d.doc_id: (d.name, d.description, d.body) for d in found} == expected


def test_every_skill_is_asked_for_and_some_queries_have_no_answer():
    """With one right skill each; the negatives are no query of a skill in other words."""
    collection = load_collection(EXAMPLE)
    asked = [doc_id for grades in collection.qrels.values() for doc_id in grades]
    assert set(asked) == {document.doc_id for document in collection.documents}
    assert len(asked) == len(collection.queries) == 66
    assert len(collection.negatives) == 25
    texts = [query.text for query in (*collection.queries, *collection.negatives)]
    assert len(set(texts)) == len(texts)


def test_no_query_names_its_skill():
    """That would be too easy."""
    collection = load_collection(EXAMPLE)
    names = {document.doc_id: document.name.replace("-", " ") for document in collection.documents}
    for query in collection.queries:
        (right,) = collection.qrels[query.query_id]
        assert names[right] not in query.text.casefold()
