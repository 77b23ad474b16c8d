"""Tests of hubness: skills made of requests have it, real ones do not, and the score shows it."""

import gzip
import json
from pathlib import Path

import pytest

import skillsearch
from skillsearch.index.documents.hubness import TABLE, hubness
from skillsearch.text.tables import read_tables
from skillsearch.text.tokenizer import terms

EXAMPLES = Path(skillsearch.__file__).parent / "examples"
WEIGHTS = {word: int(n) for word, (n,) in read_tables(TABLE)["request words"].items()}
REQUESTS = (
    "I want to look at the pictures of last week, put two of them on one page",
    "tell five people on Monday what we found, I have three pages of notes since last month",
    "four of nine answers are like nothing I know, look at them and say which to keep",
    "go through the mail of ten days and tell me whether anyone asked for the old picture",
)


def share(counted, length, mean):
    """Score the average request by the formula of BM25, one term at a time."""
    norm = 1.5 * (1 - 0.75 + 0.75 * length / mean)
    parts = [WEIGHTS[word] * tf / (tf + norm) for word, tf in counted.items()]
    return sum(parts) / sum(WEIGHTS.values())


def test_terms_that_requests_hold_count_by_bm25():
    light = ["two"] * 3 + ["page", "pictur", "look", "want", "five"]
    metadata = share(dict.fromkeys(light, 1) | {"two": 3}, 8, 40.0)
    assert metadata > 0.018
    assert hubness(light, []) == pytest.approx(metadata / 0.018 - 1)
    heavy = list(WEIGHTS)[:200]
    full = share(dict.fromkeys(heavy, 1), 200, 600.0)
    assert full > 0.16
    assert hubness([], heavy) == pytest.approx(full / 0.16 - 1)
    # Both fields count; what is usual counts nothing.
    assert hubness(light, heavy) == pytest.approx(metadata / 0.018 + full / 0.16 - 2)
    assert hubness(["kubernet", "pod", "two"], ["kubernet", "page"] * 9) == 0


def test_the_order_of_terms_does_not_matter_and_unknown_ones_dilute():
    asked_for = list(WEIGHTS)[:30]
    assert hubness(asked_for[::-1], asked_for) == pytest.approx(hubness(asked_for, asked_for))
    assert 0 < hubness(asked_for + ["zymurgy"] * 20, []) < hubness(asked_for, [])


def test_the_table_holds_terms_of_the_tokenizer():
    assert list(WEIGHTS.values()) == sorted(WEIGHTS.values(), reverse=True)
    assert sum(WEIGHTS.values()) == pytest.approx(100_000, rel=0.01)
    request_terms = set(terms("Two people want pictures of five pages; look, say, tell.", "en"))
    assert request_terms <= WEIGHTS.keys()


def test_skills_of_people_are_no_hubs(build):
    index = build(EXAMPLES)
    assert len(index) > 10
    assert {document.hubness for document in index.documents()} == {0.0}


def test_a_skill_made_of_requests_is_a_hub_and_loses(tmp_path, make_skill, build):
    root = tmp_path / "skills"
    make_skill(root, "photo-pages", "Arranges photographs on album pages for printing.")
    for topic in ("tar-files", "bread", "chess", "sailing"):
        make_skill(root, topic, f"Helps with {topic}.")
    make_skill(root, "do-it-all", ". ".join(REQUESTS), body="\n".join(REQUESTS * 3))
    index = build(root, model="onnx")
    hubs = {document.name: document.hubness for document in index.documents()}
    assert hubs.pop("do-it-all") > 0.2
    assert set(hubs.values()) == {0.0}
    request = "put two pictures of last week on one page"
    hits = {hit.name: hit for hit in index.search(request, n=6, threshold=0.0, explain=True)}
    assert next(iter(hits)) == "photo-pages"
    plain = hits["photo-pages"].explain
    assert (plain.features["hubness"], plain.log_odds["hubness"]) == (0.0, 0.0)
    if hub := hits.get("do-it-all"):
        value = hub.explain.features["hubness"]
        assert value == pytest.approx(hub.explain.contributions["hubness"] / -10)


def test_hubness_is_of_the_text_alone(tmp_path, make_skill, build):
    """Other skills come and go; it stays, and an update gives what a new index would."""
    root = tmp_path / "skills"
    make_skill(root, "do-it-all", ". ".join(REQUESTS))
    index = build(root)
    (alone,) = index.documents()
    make_skill(root, "another", "Says two things about five pages.")
    index.refresh()
    beside = {document.name: document.hubness for document in index.documents()}
    assert beside["do-it-all"] == alone.hubness > 0


def test_the_script_counts_words_of_requests(tmp_path, import_script, monkeypatch):
    script = import_script("count_request_words")
    requests = [
        {"lang": "en", "kind": "p", "cluster": 7, "text": "two pictures"},
        {"lang": "en", "kind": "s", "cluster": 8, "text": "two servers"},
        {"lang": "en", "kind": "x", "cluster": 7, "text": "violins"},
        {"lang": "de", "kind": "p", "cluster": 7, "text": "zwei Bilder"},
        {"lang": "en", "kind": "p", "cluster": 3, "text": "oboes"},
    ]
    skills = [{"lang": "en", "name": f"s{n}", "description": "servers"} for n in range(3)]
    skills += [{"lang": "en", "name": f"t{n}", "description": "trees"} for n in range(7)]
    for name, records in (("requests", requests), ("skills", skills)):
        with gzip.open(tmp_path / f"{name}.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
    output = tmp_path / "table.txt"
    arguments = [str(tmp_path / "requests.gz"), str(tmp_path / "skills.gz")]
    options = ["--leave-out", "0-6", "--terms", "2", "--output", str(output)]
    monkeypatch.setattr("sys.argv", ["count_request_words.py", *arguments, *options])
    script.main()
    # No skill has "two", which two requests ask for, nor "pictures".
    assert read_tables(output)["request words"] == {"two": ["66667"], "pictur": ["33333"]}
