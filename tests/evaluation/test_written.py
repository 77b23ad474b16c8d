"""The written collection that comes with the package: what its card says of it is true."""

import json
import re
from collections import Counter
from difflib import SequenceMatcher
from importlib.metadata import metadata
from pathlib import Path
from statistics import median

import pytest

import skillsearch
from skillsearch.evaluation.collection import EXAMPLE, copies, load_collection
from skillsearch.text.languages import LANGUAGE_NAMES, language_of

WRITTEN = Path(skillsearch.__file__).parent / "evaluation" / "written"
CARD = (WRITTEN / "README.md").read_text(encoding="utf-8")
PROSE = " ".join(CARD.split())
NO_BLANKS = {"ja", "zh"}
"""Languages whose texts are measured in characters, not in words."""
WORD = re.compile(r"[\u3040-\u9fff]|(?:(?![\u3040-\u9fff])\w)+")
POINTS = 0.25
"""How far a figure in percent may be from the run."""


@pytest.fixture(scope="module")
def written():
    """Load the collection as `eval` does, which checks every id."""
    return load_collection(WRITTEN)


@pytest.fixture(scope="module")
def own(written):
    """Return the skills that were written for it: those with a language."""
    return [document for document in written.documents if document.language]


@pytest.fixture(scope="module")
def pairs(written):
    """Return each request that has a twin, and the twin."""
    asked = {query.query_id: query for query in written.queries}
    return [(asked[twin.twin_of], twin) for twin in written.negatives]


def on_the_card(head):
    """Return the rows of the table with that head, by their first cell."""
    rows = CARD.split(f"| {head} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("| ").split("|")] for row in rows]
    return {first: rest for first, *rest in cells}


def words_of(text):
    """Return the words of a text in small letters; of Chinese and Japanese the characters."""
    return set(WORD.findall(text.casefold()))


def length_of(text, language):
    """Return the number of words, or of characters where there are no blanks."""
    return len(text) if language in NO_BLANKS else len(text.split())


def test_it_has_the_example_skills_and_150_of_its_own(written, own):
    assert (len(own), len(written.queries), len(written.negatives)) == (150, 300, 150)
    taken = [document for document in written.documents if not document.language]
    assert taken == list(load_collection(EXAMPLE).documents)
    assert written.unjudged == frozenset()


def test_the_card_counts_what_is_there(written, own, pairs):
    kinds = Counter(query.kind for query in written.queries)
    twins = Counter(query.kind for query, _ in pairs)
    assert on_the_card("kind") == {kind: [str(kinds[kind]), str(twins[kind])] for kind in kinds}
    counts = [Counter(one.language for one in some) for some in (own, written.queries)]
    counts.append(Counter(twin.language for twin in written.negatives))
    assert on_the_card("language") == {
        LANGUAGE_NAMES[code]: [str(count[code]) for count in counts] for code in counts[0]
    }
    languages = {
        one.doc_id: one.language or language_of(f"{one.description}\n{one.body}")
        for one in written.documents
    }
    several = crossing = 0
    for query in written.queries:
        right = written.qrels[query.query_id]
        several += len(right) > 1
        crossing += query.language not in {languages[doc_id] for doc_id in right}
    assert several >= 50
    assert crossing >= 40
    assert f"{several} requests have several right skills" in PROSE
    assert f"{crossing} are in another language than all of theirs" in PROSE


def test_no_two_skills_are_the_same(written, own):
    assert all(len(group) == 1 for group in copies(written.documents).values())
    for texts in zip(*((one.name, one.description, one.body) for one in own), strict=True):
        assert len({text.casefold() for text in texts}) == len(own)
    texts = [one.text for one in (*written.queries, *written.negatives)]
    assert len(set(texts)) == len(texts)


def test_every_skill_is_asked_for_and_every_request_has_a_best_one(written):
    graded = [(doc_id, grade) for row in written.qrels.values() for doc_id, grade in row.items()]
    assert {doc_id for doc_id, _ in graded} == {one.doc_id for one in written.documents}
    assert {grade for _, grade in graded} == {1, 2}
    assert all(2 in row.values() for row in written.qrels.values())


def test_a_twin_is_its_request_but_for_a_detail_that_the_right_skills_lack(written, pairs):
    """It keeps most letters and says something that no skill that answers the request says."""
    texts = {one.doc_id: f"{one.name} {one.description} {one.body}" for one in written.documents}
    assert len({twin.twin_of for _, twin in pairs}) == len(pairs)
    kept = []
    for query, twin in pairs:
        assert (twin.kind, twin.language) == ("twin", query.language)
        blocks = SequenceMatcher(None, query.text, twin.text, autojunk=False).get_matching_blocks()
        kept.append(sum(block.size for block in blocks) / max(len(query.text), len(twin.text)))
        right = " ".join(texts[doc_id] for doc_id in written.qrels[query.query_id])
        assert words_of(twin.text) - words_of(query.text) - words_of(right), twin
    assert min(kept) > 0.4
    assert median(kept) > 0.8


def test_the_detector_reads_the_languages_that_are_claimed(written, own):
    """All skills are told, and requests that are long enough to tell; pasted errors mislead."""
    for one in own:
        assert language_of(f"{one.description}\n{one.body}") == one.language, one.doc_id
    requests = [*written.queries, *written.negatives]
    told = [(language_of(one.text), one.language) for one in requests]
    assert sum(not found for found, _ in told) < len(told) / 6
    assert sum(found not in ("", language) for found, language in told) < len(told) / 60


def test_texts_are_as_long_as_the_card_says(written, own):
    assert "bodies of 60 to 200 words (200 to 520 characters in Chinese and Japanese)" in PROSE
    for one in own:
        least, most = (200, 520) if one.language in NO_BLANKS else (60, 200)
        assert least <= length_of(one.body, one.language) <= most, one.doc_id
    assert "tasks of 80 to 200 words" in PROSE
    for query in written.queries:
        length = length_of(query.text, query.language)
        assert (80 <= length <= 200) if query.kind == "task" else length < 80, query.query_id


def test_the_card_names_the_licence_of_the_project():
    assert f"License: {metadata('skillsearch')['License-Expression']}" in CARD


@pytest.mark.slow
def test_eval_reads_it_and_finds_what_the_card_says_of_bm25(cli, tmp_path):
    spec = "bm25=system:bm25,model:hashing"
    done = cli("eval", WRITTEN, "--system", spec, "--work", tmp_path, "--json")
    means = json.loads(done.stdout)["systems"]["bm25"]
    found = [100 * means[measure] for measure in ("nDCG@10", "R@5", "Success@1")]
    row = on_the_card("system")["bm25"]
    assert [float(row[place].split()[0]) for place in (0, 3, 4)] == pytest.approx(found, abs=POINTS)
