"""The written collection that comes with the package: what its card says of it is true."""

import hashlib
import json
import re
import shutil
from collections import Counter
from difflib import SequenceMatcher
from importlib.metadata import metadata
from pathlib import Path
from statistics import median

import pytest

import skillsearch
from skillsearch.evaluation import answering
from skillsearch.evaluation.collection import EXAMPLE, load_collection
from skillsearch.evaluation.pools import copies
from skillsearch.text.languages import language_of

WRITTEN = Path(skillsearch.__file__).parent / "evaluation" / "written"
CARD = (WRITTEN / "README.md").read_text(encoding="utf-8")
PROSE = " ".join(CARD.split())
NO_BLANKS = {"ja", "zh"}
"""Languages whose texts are measured in characters, not in words."""
WORD = re.compile(r"[\u3040-\u9fff]|(?:(?![\u3040-\u9fff])\w)+")
POINTS = 0.25
"""How far a figure in percent may be from the run."""
NOTHING_FITS = ("near", "far")
"""Kinds of negatives that are no twins: in the fields of the skills, and in others."""
LONG = {"task", "error", "mail"}
"""Kinds of requests of up to 200 words; all others have fewer than 80."""
FIRST = {"queries.jsonl": 300, "negatives.jsonl": 150, "qrels.tsv": 360}
"""So many lines of each file are the first edition."""


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
    requests = {query.query_id: query for query in written.queries}
    return [(requests[twin.twin_of], twin) for twin in written.negatives if twin.kind == "twin"]


@pytest.fixture(scope="module")
def matched(written):
    """Return each other negative, below the request that it is matched with."""
    requests = {query.query_id: query for query in written.queries}
    lines = (WRITTEN / "negatives.jsonl").read_text(encoding="utf-8").splitlines()
    matches = {record["_id"]: record.get("matches") for record in map(json.loads, lines)}
    others = [negative for negative in written.negatives if negative.kind != "twin"]
    return [(requests[matches[negative.query_id]], negative) for negative in others]


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
    assert (len(own), len(written.queries), len(written.negatives)) == (150, 600, 435)
    taken = [document for document in written.documents if not document.language]
    assert taken == list(load_collection(EXAMPLE).documents)
    assert written.unjudged == frozenset()


def test_the_first_edition_is_the_first_lines():
    """Its figures can be measured again: lines are added below them, and none is changed."""
    state = hashlib.sha256()
    for name, count in FIRST.items():
        state.update(b"".join((WRITTEN / name).read_bytes().splitlines(keepends=True)[:count]))
        assert f"head -n {count} $W/{name}" in CARD
    assert state.hexdigest()[:16] == "2a71159aa897797f"


def test_the_card_counts_what_is_there(written):
    languages = {
        skill.doc_id: skill.language or language_of(f"{skill.description}\n{skill.body}")
        for skill in written.documents
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
    fields = ((skill.name, skill.description, skill.body) for skill in own)
    for texts in zip(*fields, strict=True):
        assert len({text.casefold() for text in texts}) == len(own)
    texts = [request.text for request in (*written.queries, *written.negatives)]
    assert len(set(texts)) == len(texts)


def test_every_skill_is_asked_for_and_every_request_has_a_best_one(written):
    graded = [(doc_id, grade) for row in written.qrels.values() for doc_id, grade in row.items()]
    assert {doc_id for doc_id, _ in graded} == {skill.doc_id for skill in written.documents}
    assert {grade for _, grade in graded} == {1, 2}
    assert all(2 in row.values() for row in written.qrels.values())


def test_a_twin_is_its_request_but_for_a_detail_that_the_right_skills_lack(written, pairs):
    texts = {
        skill.doc_id: f"{skill.name} {skill.description} {skill.body}"
        for skill in written.documents
    }
    assert len({twin.twin_of for _, twin in pairs}) == len(pairs)
    shares = []
    for query, twin in pairs:
        assert (twin.kind, twin.language) == ("twin", query.language)
        blocks = SequenceMatcher(None, query.text, twin.text, autojunk=False).get_matching_blocks()
        shares.append(sum(block.size for block in blocks) / max(len(query.text), len(twin.text)))
        right = " ".join(texts[doc_id] for doc_id in written.qrels[query.query_id])
        assert words_of(twin.text) - words_of(query.text) - words_of(right), twin
    assert min(shares) > 0.4
    assert median(shares) > 0.8


def test_what_nothing_fits_is_matched_in_language_and_length(matched):
    assert Counter(request.kind for _, request in matched) == dict.fromkeys(NOTHING_FITS, 80)
    assert len({query.query_id for query, _ in matched}) == len(matched)
    ratios = []
    for query, negative in matched:
        assert query.language == negative.language
        lengths = sorted(length_of(request.text, request.language) for request in (query, negative))
        ratios.append(lengths[1] / lengths[0])
    assert median(ratios) < 1.1
    assert max(ratios) < 2.5


def test_a_contrast_is_a_request_but_for_a_detail_for_which_other_skills_are_best(written):
    requests = {query.query_id: query for query in written.queries}
    contrasts = [query for query in written.queries if query.twin_of]
    assert len(contrasts) > 50
    assert all((query.kind == "contrast") == bool(query.twin_of) for query in written.queries)
    for query in contrasts:
        original = requests[query.twin_of]
        assert original.language == query.language
        grades = [written.qrels[request.query_id].items() for request in (query, original)]
        best = [{doc_id for doc_id, grade in row if grade == 2} for row in grades]
        assert best[0].isdisjoint(best[1]), query


def test_the_detector_reads_the_languages_that_are_claimed(written, own):
    """All skills are told, and requests that are long enough to tell; pasted errors mislead."""
    for skill in own:
        assert language_of(f"{skill.description}\n{skill.body}") == skill.language, skill.doc_id
    requests = [*written.queries, *written.negatives]
    pairs = [(language_of(request.text), request.language) for request in requests]
    assert sum(not detected for detected, _ in pairs) < len(pairs) / 6
    assert sum(detected not in ("", language) for detected, language in pairs) < len(pairs) / 60


def test_texts_are_as_long_as_the_card_says(written, own):
    assert "bodies of 60 to 200 words (200 to 520 characters in Chinese and Japanese)" in PROSE
    for skill in own:
        least, most = (200, 520) if skill.language in NO_BLANKS else (60, 200)
        assert least <= length_of(skill.body, skill.language) <= most, skill.doc_id
    assert "tasks of 80 to 200 words" in PROSE
    for query in written.queries:
        length = length_of(query.text, query.language)
        least, most = (80 if query.kind == "task" else 1), (200 if query.kind in LONG else 79)
        assert least <= length <= most, query.query_id


def test_the_card_names_the_licence_of_the_project():
    assert f"License: {metadata('skillsearch')['License-Expression']}" in CARD


@pytest.mark.slow
def test_eval_finds_what_the_card_says_of_bm25_in_both_editions(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(answering, "MAX_TIMED", 1)  # the card has no times
    whole, first = tmp_path / "whole", tmp_path / "first"
    for folder in (whole, first):
        shutil.copytree(WRITTEN, folder, ignore=shutil.ignore_patterns("negatives.jsonl"))
    for name in ("queries.jsonl", "qrels.tsv"):
        lines = (WRITTEN / name).read_bytes().splitlines(keepends=True)[: FIRST[name]]
        (first / name).write_bytes(b"".join(lines))
    for folder, name in ((whole, "bm25"), (first, "bm25, first edition")):
        spec = "bm25=system:bm25,model:hashing"
        done = cli("eval", folder, "--system", spec, "--work", tmp_path / "work", "--json")
        means = json.loads(done.stdout)["systems"]["bm25"]
        percents = [100 * means[measure] for measure in ("nDCG@10", "R@5", "Success@1")]
        row = on_the_card("system")[name]
        assert [float(row[column]) for column in (0, 2, 3)] == pytest.approx(percents, abs=POINTS)
