"""What holders of the five documents ask for, each in the system of their document.

The collection has the form that `skillsearch eval` reads. The kind of a request is its document.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from skillsearch.agents import toolsets
from skillsearch.agents.toolsets import context
from skillsearch.evaluation.collection import load_collection

COLLECTION = load_collection(Path(__file__).parent)
DOCUMENTS = ("000", "001", "002", "003", "004")
RIGHT = {"000": 6, "001": 4, "002": 9, "003": 11, "004": 6}
"""For how many requests of a document the first skill is a right one, as measured: 36 of 46."""
LANGUAGES = {"zh", "en"}


def test_every_document_has_requests_in_both_languages():
    pairs = {(query.kind, query.language) for query in COLLECTION.queries}
    assert pairs == {(document, language) for document in DOCUMENTS for language in LANGUAGES}
    judged = {doc_id for grades in COLLECTION.qrels.values() for doc_id in grades}
    assert judged == {document.doc_id for document in COLLECTION.documents}


@pytest.mark.usefixtures("default_reader")
@pytest.mark.slow
def test_requests_find_their_skills(systems):
    right = Counter(
        query.kind
        for query in COLLECTION.queries
        if set(systems.search(query.kind, query.text)[:1]) & COLLECTION.qrels[query.query_id].keys()
    )
    assert {document: min(right[document], RIGHT[document]) for document in RIGHT} == RIGHT


@pytest.mark.usefixtures("default_reader")
@pytest.mark.slow
def test_nothing_fits_what_no_skill_is_for(systems):
    states = {
        query.text: systems.library.search(query.text).state for query in COLLECTION.negatives
    }
    assert [text for text, state in states.items() if state == "fits"] == []


def test_the_page_says_what_the_formula_of_document_002_finds():
    shelf = {
        document.doc_id: context.SkillMetadata(
            name=document.name, description=document.description, path="x"
        )
        for document in COLLECTION.documents
    }

    def best(text):
        scores = {
            key: context.calculate_match_score(text, metadata) for key, metadata in shelf.items()
        }
        first = max(scores, key=scores.__getitem__)
        return first if scores[first] >= 0.3 else None

    right = [
        query
        for query in COLLECTION.queries
        if best(query.text) in COLLECTION.qrels[query.query_id]
    ]
    answered = [query for query in COLLECTION.negatives if best(query.text)]
    page = Path(toolsets.__file__).with_name("README.md").read_text(encoding="utf-8")
    assert f"finds {len(right)} of {len(COLLECTION.queries)}" in page
    assert f"  {sum(RIGHT.values())} and calls none" in page
    assert f"answers {len(answered)} of {len(COLLECTION.negatives)}" in page


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_skill_loads(systems, corpus, document):
    for folder, row in corpus.items():
        first, last = row["body"].splitlines()[0], row["body"].splitlines()[-1]
        if document == "000":
            text = systems.call("000", "skill", skill=folder)["output"]
        elif document == "001":
            text = systems.chunks.skills[row["name"]].core_content
        elif document == "002":
            text = systems.call("002", "get_skill", name=row["name"])["output"]
        elif document == "003":
            text = systems.call("003", "load_skill", skill_name=row["name"].upper())
        else:
            systems.call("004", "skill_load", skill=row["name"])
            text = systems.workspace.system_prompt()
        assert first in text
        assert last in text


def test_chunks_are_loaded_one_by_one(systems):
    ids = list(systems.chunks.skills["data-analysis"].chunks)
    assert ids == ["cleaning", "charts", "tests"]
    for position, id in enumerate(ids):
        content = systems.call("001", "load_skill_chunk", skill_name="data-analysis", chunk_id=id)
        assert content in systems.chunks.skills["data-analysis"].chunks[id].content
        prompt = systems.chunks.get_skills_prompt()
        assert [f"- {id}: " in prompt for id in ids] == [False] * (position + 1) + [True] * (
            2 - position
        )


def test_every_file_is_read_and_every_script_has_a_path(systems, corpus):
    for row in corpus.values():
        files = row.get("files", {})
        listed = systems.call("003", "list_skill_assets", skill_name=row["name"])
        assert listed == sorted(path for path in files if "/" in path)
        for path in listed:
            arguments = {"skill_name": row["name"], "relative_path": path}
            assert systems.call("003", "load_skill_asset", **arguments) == files[path]
            folder, _, name = path.partition("/")
            if folder == "scripts":
                arguments = {"skill_name": row["name"], "script_name": name}
                script = Path(systems.call("003", "get_skill_script_path", **arguments))
                assert (script.is_absolute(), script.read_text("utf-8")) == (True, files[path])


def test_a_script_runs_by_its_path(systems, tmp_path):
    """Two files are compared as document 003 has an agent do it."""
    (tmp_path / "a.txt").write_text("一\n二\n", "utf-8")
    (tmp_path / "b.txt").write_text("一\n三\n", "utf-8")
    path = systems.manager.get_skill_script_path("file-diff", "compare.py")
    command = [sys.executable, "-X", "utf8", path, "a.txt", "b.txt"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stdout.decode()) == (1, "- 二\n+ 三\n")
