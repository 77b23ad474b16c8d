"""The script that fits the calibrated score."""

import importlib
import sys
from collections import Counter
from pathlib import Path

import ir_measures
import numpy as np
import pytest

from skillsearch.evaluation.collection import save_collection
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.index.calibration import EVIDENCE, FEATURES, OPPOSING, SUPPORTING
from skillsearch.index.fitted import load_calibration
from skillsearch.index.query_form import QueryForm
from skillsearch.index.ranker import Candidates

SCRIPTS = Path(__file__).parent.parent / "scripts"


@pytest.fixture(scope="module")
def scripts():
    """The modules ``fit_fusion`` and ``fusion_samples``."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield importlib.import_module("fit_fusion"), importlib.import_module("fusion_samples")
    finally:
        sys.path.remove(str(SCRIPTS))


@pytest.fixture
def fusion(scripts):
    """The module ``fit_fusion``."""
    return scripts[0]


@pytest.fixture
def make_sample(scripts):
    """Make a judged sample of features, with the relevant rows given."""

    def make(features, relevant, judged=None):
        features = np.asarray(features, float)
        mask = np.isin(np.arange(len(features)), relevant)
        form = QueryForm("", Counter(), np.zeros(1, np.float32), 1.0)
        candidates = Candidates(np.arange(len(features)), features)
        count = len(relevant) if judged is None else judged
        return scripts[1].Sample("c", "whole", "judged", "", None, form, candidates, mask, count)

    return make


def test_ndcg_is_that_of_ir_measures(fusion, make_sample):
    """On random features, with relevant documents that were not found."""
    random = np.random.default_rng(3)
    weights = random.random(len(FEATURES))
    samples, qrels, run = [], {}, {}
    for number in range(40):
        size = int(random.integers(1, 30))
        features = random.random((size, len(FEATURES)))
        relevant = random.permutation(size)[: int(random.integers(1, 4))]
        samples.append(make_sample(features, relevant, judged=len(relevant) + number % 3))
        qrels[str(number)] = {str(doc): 1 for doc in relevant}
        qrels[str(number)] |= {f"lost{i}": 1 for i in range(number % 3)}
        run[str(number)] = {str(doc): s for doc, s in enumerate((features @ weights).tolist())}
    expected = ir_measures.calc_aggregate([ir_measures.nDCG @ 10], qrels, run)
    found = fusion.RankingData(samples).ndcg(weights)
    assert found == pytest.approx(expected[ir_measures.nDCG @ 10], abs=1e-9)


def test_the_ascent_finds_the_feature_that_tells(fusion, make_sample):
    """Where one feature is right and another wrong, no collection ranks worse than it could."""
    random = np.random.default_rng(4)
    samples = []
    for _ in range(60):
        features = random.random((20, len(FEATURES)))
        features[:, FEATURES.index("bm25_full")] = 0.1 * random.random(20)
        features[7, FEATURES.index("bm25_full")] = 0.9
        samples.append(make_sample(features, [7]))
    data = [fusion.RankingData(samples)]
    start = np.array([fusion.START[name] for name in FEATURES])
    weights = fusion.fit_ranking(data)
    assert data[0].ndcg(weights) > max(data[0].ndcg(start), 0.95)
    assert weights.min() >= 0
    without = fusion.fit_ranking(data, ("bm25_full",))
    assert without[FEATURES.index("bm25_full")] == 0


def test_the_logistic_fit_finds_the_coefficients_that_made_the_data(fusion):
    """Within the noise of 20,000 outcomes."""
    random = np.random.default_rng(5)
    rows = random.random((20_000, len(EVIDENCE)))
    truth = np.array([-2.0 if name in OPPOSING else 3.0 for name in EVIDENCE])
    chance = 1 / (1 + np.exp(-(rows @ truth - 6.0)))
    outcomes = (random.random(len(rows)) < chance).astype(float)
    found, intercept = fusion.fit_logistic(rows, outcomes, np.ones(len(rows)))
    np.testing.assert_allclose(found, truth, atol=0.35)
    assert intercept == pytest.approx(-6.0, abs=0.5)


def test_signs_hold_where_the_data_say_otherwise(fusion):
    """Evidence for a skill never counts against it; what is left out counts nothing."""
    random = np.random.default_rng(6)
    rows = random.random((2_000, len(EVIDENCE)))
    truth = np.array([-3.0 if name in SUPPORTING else 3.0 for name in EVIDENCE])
    outcomes = (random.random(len(rows)) < 1 / (1 + np.exp(-(rows @ truth)))).astype(float)
    found, _ = fusion.fit_logistic(rows, outcomes, np.ones(len(rows)), ("distrust",))
    by_name = dict(zip(EVIDENCE, found.tolist(), strict=True))
    assert all(by_name[name] == 0 for name in (*SUPPORTING, *OPPOSING, "distrust"))


def test_the_lag_is_the_smallest_that_calibrates_the_hits(fusion, make_sample):
    """Five hits, of which only the first is ever right: those behind must fall far enough."""
    samples = [make_sample(np.zeros((5, len(FEATURES))), [0])] * 40
    gaps = np.tile([0.0, 4.0, 4.0, 4.0, 4.0], (40, 1))
    relevant = np.tile([True, False, False, False, False], (40, 1))
    answers = fusion.Answers(np.zeros((40, len(EVIDENCE))), gaps, relevant)
    sure = fusion.Confidence(np.zeros(len(EVIDENCE)), 3.0, 0.0)
    found = fusion.choose_lag(sure, samples, answers, np.ones(40, bool))
    behind = 1 / (1 + np.exp(4 * found.lag - 3.0))
    first = 1 - 1 / (1 + np.exp(-3.0))
    assert (first + 4 * behind) / 5 <= fusion.HIT_ERROR
    looser = 1 / (1 + np.exp(4 * (found.lag - 0.05) - 3.0))
    assert (first + 4 * looser) / 5 > fusion.HIT_ERROR


def test_the_threshold_is_the_lowest_with_few_false_answers(fusion, make_sample):
    """One foreign query in ten is answered, two are too many."""
    from dataclasses import replace

    samples = [replace(make_sample([[0.0] * len(FEATURES)], []), kind="foreign")] * 20
    tops = np.full(20, 0.2)
    tops[:2], tops[2] = 0.9, 0.5
    assert fusion.choose_threshold(samples, tops[:, np.newaxis]) == 0.55


def test_variants_keep_queries_answerable(scripts):
    """One line a skill; fewer skills with those queries whose answer is left."""
    samples = scripts[1]
    documents = tuple(
        JudgedDocument(f"d{i}", f"n{i}", f"First {i}. Second.", "body") for i in range(40)
    )
    queries = tuple(JudgedQuery(f"q{i}", f"text {i}") for i in range(30))
    qrels = {f"q{i}": {f"d{i}": 1} for i in range(30)}
    collection = Collection("c", documents, queries, qrels)
    lines = samples.one_line(collection)
    assert (lines.documents[3].description, lines.documents[3].body) == ("First 3.", "")
    few = samples.fewer(10)(collection)
    kept = {document.doc_id for document in few.documents}
    assert len(kept) == 10
    assert {q.query_id for q in few.queries} == set(few.qrels)
    assert {f"q{i}" for i in range(30) if f"d{i}" in kept} == set(few.qrels)
    assert len(samples.fewer(100)(collection).documents) == 40


@pytest.mark.parametrize(
    ("source", "collection", "expected"),
    [
        ("nvidia", "swe", True),
        ("swe", "swe", False),
        ("salesforce", "salesforce-variants", False),
        ("translated", "swe", False),
        ("nvidia", "skill-evals", False),
        ("skill-evals", "nvidia", True),
        ("new", "newer", True),
    ],
)
def test_foreign_is_what_no_document_of_a_collection_answers(scripts, source, collection, expected):
    """Neither the same documents, nor the same domain, nor a pool of everything."""
    assert scripts[1].is_foreign(source, collection) is expected


TOPICS = {
    "kitchen": ["bread", "soup", "salad", "cake", "stew", "pasta", "curry", "jam"],
    "garage": ["brake", "clutch", "engine", "tyre", "gearbox", "exhaust", "battery", "radiator"],
    "office": ["invoice", "payroll", "contract", "calendar", "meeting", "budget", "archive", "fax"],
}


@pytest.mark.slow
def test_it_writes_a_calibration_that_loads(fusion, tmp_path, monkeypatch, capsys):
    """From three small collections to a file with provenance, twice the same."""
    folders = []
    for topic, words in TOPICS.items():
        documents = tuple(
            JudgedDocument(w, f"{w}-helper", f"Handles {w} in the {topic}. Use it for any {w}.")
            for w in words
        )
        queries = tuple(JudgedQuery(w, f"please take care of my {w} today") for w in words)
        collection = Collection(topic, documents, queries, {w: {w: 1} for w in words})
        save_collection(collection, tmp_path / topic)
        folders.append(str(tmp_path / topic))
    output = tmp_path / "calibration.json"
    argv = ["fit_fusion.py", *folders, "--work", str(tmp_path / "work"), "--output", str(output)]
    monkeypatch.setattr(sys, "argv", argv)
    fusion.main()
    printed, first = capsys.readouterr().out, output.read_bytes()
    assert "left out of the fit" in printed
    assert "kitchen" in printed
    calibration = load_calibration(output)
    assert calibration.lag > 0
    assert b'"garage": {' in first
    fusion.main()
    assert output.read_bytes() == first
