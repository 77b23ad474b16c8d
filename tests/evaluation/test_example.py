"""The collection that comes with the package."""

from collections import Counter
from pathlib import Path

import skillsearch
from skillsearch.evaluation.collection import EXAMPLE, load_collection
from skillsearch.skills.parser import parse_skill

SKILLS = Path(skillsearch.__file__).parent / "examples"


def test_its_documents_are_the_example_skills():
    """As they are now: change a skill, and this collection must be made anew."""
    expected = {}
    for path in SKILLS.glob("*/SKILL.md"):
        doc_id = path.parent.name
        skill, _ = parse_skill(path.read_bytes(), doc_id=doc_id, path=path, root=SKILLS)
        expected[doc_id] = (skill.name, skill.description, skill.body)
    documents = load_collection(EXAMPLE).documents
    assert {d.doc_id: (d.name, d.description, d.body) for d in documents} == expected


def test_every_skill_is_asked_for_without_its_name_and_some_queries_have_no_answer():
    collection = load_collection(EXAMPLE)
    names = {document.doc_id: document.name.replace("-", " ") for document in collection.documents}
    relevant = [doc_id for grades in collection.qrels.values() for doc_id in grades]
    assert set(relevant) == names.keys()
    assert len(relevant) == len(collection.queries) == 126
    assert len(collection.negatives) == 39
    texts = [query.text for query in (*collection.queries, *collection.negatives)]
    assert len(set(texts)) == len(texts)
    for query in collection.queries:
        (right,) = collection.qrels[query.query_id]
        assert names[right] not in query.text.casefold()


def test_english_skills_are_asked_for_in_other_languages():
    collection = load_collection(EXAMPLE)
    english = {d.doc_id for d in collection.documents if d.description.isascii()}
    foreign = [query for query in collection.queries if query.language != "en"]
    crossing = [
        query for query in foreign if not english.isdisjoint(collection.qrels[query.query_id])
    ]
    answerable = Counter(query.language for query in crossing)
    unanswerable = Counter(query.language for query in collection.negatives)
    for language in ("zh", "ja", "ko", "es", "ru", "ar", "th"):
        assert answerable[language] >= 6
        assert unanswerable[language] >= 2
    for language in ("pt", "fr", "de", "hi", "vi", "tr"):
        assert answerable[language] >= 3
    scripts = ("zh", "ja", "ko", "ru", "ar", "th", "hi")
    other_script = [query.text for query in crossing if query.language in scripts]
    with_latin = [text for text in other_script if any(c.isascii() and c.isalpha() for c in text)]
    assert len(with_latin) < len(other_script) / 3
