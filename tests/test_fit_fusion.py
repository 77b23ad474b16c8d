"""The script that fits the calibrated score."""

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import ir_measures
import numpy as np
import pytest

from skillsearch.evaluation.collection import save_collection
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.index.search.calibration import NAMED, Calibration, probability
from skillsearch.index.search.calibration_file import load_calibration
from skillsearch.index.search.candidates import Candidates
from skillsearch.index.search.evidence import EVIDENCE, READER
from skillsearch.index.search.features import FEATURES
from skillsearch.index.search.query import QueryForm
from skillsearch.index.search.reading import DOUBT

AGAINST = tuple(name for name, row in FEATURES.items() if row.sign < 0)
SUPPORTING = tuple(name for name, row in EVIDENCE.items() if row.sign > 0)
SCRIPTS = Path(__file__).parent.parent / "scripts"


@pytest.fixture(scope="module")
def fusion(import_script):
    """Give the modules of the fit."""
    names = ("samples", "ranking", "answers", "calibration", "measures")
    modules = {name: import_script(f"fusion_{name}") for name in names}
    return SimpleNamespace(**modules, fit=import_script("fit_fusion"))


@pytest.fixture
def make_sample(fusion):
    """Make a judged sample of features, with the relevant rows given."""

    def make(features, relevant, judged=None):
        features = np.asarray(features, float)
        mask = np.isin(np.arange(len(features)), relevant)
        form = QueryForm("", "", Counter(), np.zeros(1, np.float32))
        candidates = Candidates(np.arange(len(features)), features, features[:, :3])
        count = len(relevant) if judged is None else judged
        return fusion.samples.Sample(
            "c", "whole", "judged", "", None, form, candidates, mask, count
        )

    return make


def test_ndcg_is_that_of_ir_measures(fusion, make_sample):
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
    ndcg = fusion.ranking.RankingData(samples).ndcg(weights)
    assert ndcg == pytest.approx(expected[ir_measures.nDCG @ 10], abs=1e-9)


def test_the_ascent_finds_the_feature_that_tells(fusion, make_sample):
    random = np.random.default_rng(4)
    samples = []
    for _ in range(60):
        features = random.random((20, len(FEATURES)))
        features[:, list(FEATURES).index("bm25_full")] = 0.1 * random.random(20)
        features[7, list(FEATURES).index("bm25_full")] = 0.9
        samples.append(make_sample(features, [7]))
    data = [fusion.ranking.RankingData(samples)]
    start = np.array([fusion.ranking.START[name] for name in FEATURES])
    weights = fusion.ranking.fit_ranking(data)
    assert data[0].ndcg(weights) > max(data[0].ndcg(start), 0.95)
    signs = dict(zip(FEATURES, weights < 0, strict=True))
    assert {name for name, is_against in signs.items() if is_against} == {*AGAINST}
    without = fusion.ranking.fit_ranking(data, ("bm25_full",))
    assert without[list(FEATURES).index("bm25_full")] == 0


def outcomes_of(rows, truth, intercept, random):
    """Draw outcomes of evidence by log-odds."""
    chance = 1 / (1 + np.exp(-(rows @ truth + intercept)))
    return (random.random(len(rows)) < chance).astype(float)


def test_the_logistic_fit_finds_the_coefficients_that_made_the_data(fusion):
    random = np.random.default_rng(5)
    names = ("name", "lead", READER, "words_alone")
    rows = random.random((60_000, 4)) * [1, 6, 12, 1] - [0, 3, 6, 0]
    truth = np.array([3.0, 0.5, 0.25, -2.0])
    outcomes = outcomes_of(rows, truth, -1.0, random)
    coefficients = fusion.calibration.fit_logistic(rows, outcomes, np.ones(len(rows)), names)
    assert list(coefficients) == [*names, "intercept"]
    assert list(coefficients.values()) == pytest.approx([*truth, -1.0], abs=0.2)


def test_signs_hold_where_the_data_say_otherwise(fusion):
    random = np.random.default_rng(6)
    names = (*EVIDENCE, READER)
    rows = random.random((4_000, len(names)))
    outcomes = outcomes_of(rows, np.full(len(names), -3.0), 1.5 * len(names), random)
    coefficients = fusion.calibration.fit_logistic(rows, outcomes, np.ones(len(rows)), names)
    assert all(coefficients[name] == 0 for name in (*SUPPORTING, READER))
    assert all(coefficients[name] < -1 for name in EVIDENCE if name not in SUPPORTING)


@pytest.fixture
def make_answers(fusion):
    """Make answers of one piece of evidence for each hit, with their sums and logits."""

    def make(names, sums, relevant, logits=None):
        size = len(names)
        evidence = np.full((size, fusion.answers.HITS, len(EVIDENCE)), np.nan)
        shape = (size, fusion.answers.HITS)
        rest = (np.full(shape, -1e9), np.zeros(shape, bool), np.full(shape, np.nan))
        answers = fusion.answers.Answers(evidence, *rest)
        for row in range(size):
            hits = len(names[row])
            evidence[row, :hits] = 0.0
            evidence[row, :hits, list(EVIDENCE).index("name")] = names[row]
            answers.sums[row, :hits] = sums[row]
            answers.relevant[row, :hits] = relevant[row]
            if logits is not None:
                answers.logits[row, : len(logits[row])] = logits[row]
        return answers

    return make


def by_name(fusion, reader=1.0):
    """Return a calibration by twice the name less one, or by the logit alone."""
    nothing = dict.fromkeys(EVIDENCE, 0.0)
    return fusion.calibration.ScoreCalibration(
        nothing | {"name": 2.0, "intercept": -1.0},
        nothing | {READER: 1.0, "intercept": 0.0},
        reader,
    )


def test_answers_are_scored_by_the_sum_of_their_evidence(fusion, make_answers):
    names = [[0.2, 0.25, 0.9, 0.1], [], [0.5, 1.0]]
    answers = make_answers(names, [[4, 3, 2, 1], [], [2, 1]], [[0, 1, 0, 0], [], [0, 1]])
    scores, relevant = by_name(fusion).scores(answers, 0.65)
    expected = [*(probability(odds) for odds in (0.8, -0.6, -0.6, -0.8)), *[0.0] * 6]
    named = [probability(NAMED), 0.5, *[0.0] * 8]
    assert scores.tolist() == [pytest.approx(expected), [0.0] * 10, pytest.approx(named)]
    assert relevant[0].tolist() == [False, False, True, *[False] * 7]
    scores, _ = by_name(fusion).scores(answers)
    own = [probability(odds) for odds in (0.8, -0.5, -0.6, -0.8)]
    assert scores[0, :4].tolist() == pytest.approx(own)


def test_answers_in_doubt_are_scored_by_the_reader_as_a_search_does(fusion, make_answers):
    """In the order that it gives them; the sure one and the hopeless one are not read."""
    sure, hopeless = (np.log(p / (1 - p)) / 2 + 0.5 for p in (DOUBT[1] + 0.06, DOUBT[0] / 2))
    answers = make_answers(
        [[0.5, 0.5, 0.5], [sure], [hopeless]],
        [[3.0, 2.5, 2.0], [1.0], [1.0]],
        [[False, True, False], [True], [False]],
        [[-2.0, 1.5], [-5.0], [5.0]],
    )
    scores, relevant = by_name(fusion).scores(answers, 0.65)
    assert scores[:, :3].tolist() == [
        pytest.approx([probability(1.5), *[probability(-2)] * 2]),
        pytest.approx([DOUBT[1] + 0.06, 0, 0]),
        pytest.approx([DOUBT[0] / 2, 0, 0]),
    ]
    assert relevant[0, :3].tolist() == [True, False, False]
    scores, relevant = by_name(fusion).scores(answers, with_reader=False)
    assert scores[0, :3].tolist() == pytest.approx([0.5] * 3)
    assert relevant[0, :3].tolist() == [False, True, False]


def test_the_weight_of_the_reader_is_the_lowest_that_ranks_best(fusion, make_sample, make_answers):
    """It has to make up for 1 with a logit of 0.55: from 1.9 on, in steps of 0.1."""
    sample = make_sample(np.zeros((2, len(FEATURES))), [1])
    answers = make_answers(
        [[0.0, 0.0]] * 2, [[2.0, 1.0]] * 2, [[False, True]] * 2, [[0.0, 0.55]] * 2
    )
    is_read = np.ones(2, bool)
    assert fusion.calibration.fit_reader_weight([sample] * 2, answers, is_read) == 1.9
    assert fusion.calibration.fit_reader_weight([sample] * 2, answers, ~is_read) == 0
    unread = make_answers([[0.0, 0.0]], [[2.0, 1.0]], [[False, True]])
    assert fusion.calibration.fit_reader_weight([sample], unread, np.ones(1, bool)) == 0


def test_a_score_is_fitted_on_the_hits_that_exist_and_on_those_read(
    fusion, make_sample, make_answers
):
    """The name tells of the one, the reader of the other; nothing is learned without hits.

    How far a hit leads tells of the first alone, whatever it would tell of the other.
    """
    random = np.random.default_rng(10)
    size = 2_000
    sample = make_sample(np.zeros((2, len(FEATURES))), [0])
    names, logits = random.random((size, 2)), random.normal(0, 2, (size, 2))
    relevant = random.random((size, 2)) < 1 / (1 + np.exp(-(3 * names - 1.5 + logits)))
    answers = make_answers(names, [[2.0, 1.0]] * size, relevant, logits)
    leads = relevant + random.normal(0, 2, (size, 2))
    answers.evidence[:, :2, list(EVIDENCE).index("lead")] = leads
    is_read = np.ones(size, bool)
    score = fusion.calibration.fit_calibration([sample] * size, answers, is_read)
    assert score.alone["name"] == pytest.approx(1.9, abs=0.5)
    assert READER not in score.alone
    assert score.read["name"] == pytest.approx(3, abs=0.5)
    assert score.read[READER] == pytest.approx(1, abs=0.15)
    assert score.reader > 0
    assert score.alone["lead"] > 0 == score.read["lead"]
    without = fusion.calibration.fit_calibration([sample] * size, answers, is_read, ("name",))
    assert without.alone["name"] == without.read["name"] == 0
    nothing = fusion.calibration.fit_calibration([sample] * size, answers, ~is_read)
    assert {*nothing.read.values(), nothing.reader} == {0.0}


def test_a_kind_that_one_collection_has_counts_for_the_scale_as_the_mix_says(fusion, make_sample):
    sample = make_sample(np.zeros((1, len(FEATURES))), [0])
    others = [replace(sample, collection=name) for name in "abab"]
    nothing = [replace(sample, collection="a", kind="nothing")] * 3
    weights = fusion.calibration.shared_weights(
        [*others, *nothing], {"judged": 1.0, "nothing": 0.5}
    )
    assert weights[:4] == pytest.approx([2000 / 1.5 / 4] * 4)
    assert weights[4:] == pytest.approx([2000 / 3 / 3] * 3)


def test_log_odds_are_brought_to_the_scale_of_the_outcomes(fusion):
    random = np.random.default_rng(12)
    odds = random.normal(0, 2, 20_000)
    outcomes = (random.random(20_000) < 1 / (1 + np.exp(-(0.5 * odds + 1)))).astype(float)
    weights = np.ones(20_000)
    assert fusion.calibration.fit_scale(odds, outcomes, weights) == pytest.approx(
        (0.5, 1), abs=0.06
    )
    slope, _ = fusion.calibration.fit_scale(odds, 1 - outcomes, weights)
    assert 0 < slope < 0.1


def predicted(fusion, tops, relevant=None):
    """Return predictions of one hit each."""
    scores = np.array(tops, float)[:, np.newaxis]
    right = np.zeros(scores.shape, bool) if relevant is None else np.array(relevant)[:, np.newaxis]
    return fusion.measures.Predicted(scores, right, np.zeros(len(scores)))


@pytest.mark.parametrize(
    ("foreign", "twins", "expected"),
    [
        ([0.9, 0.5, *[0.2] * 23], [], 0.51),
        ([0.9, 0.5, *[0.2] * 23], [0.8, 0.7, 0.605, *[0.1] * 22], 0.61),
        ([0.9, 0.5, *[0.2] * 23], [0.8, 0.7, 0.4, *[0.1] * 22], 0.51),
        ([], [0.0] * 5, 0.01),
        ([1.0] * 5, [], 0.99),
    ],
)
def test_the_threshold_is_the_lowest_with_few_false_answers(
    fusion, make_sample, foreign, twins, expected
):
    sample = make_sample([[0.0] * len(FEATURES)], [])
    samples = [replace(sample, kind="foreign")] * len(foreign)
    samples += [replace(sample, kind="twin")] * len(twins)
    assert fusion.measures.choose_threshold(samples, predicted(fusion, foreign + twins)) == expected


def test_every_collection_counts_the_same_for_the_threshold(fusion, make_sample):
    sample = replace(make_sample([[0.0] * len(FEATURES)], []), kind="foreign")
    other, lines = replace(sample, collection="other"), replace(sample, variant="lines")
    tops = [0.5, *[0.1] * 3, *[0.1] * 40, *[0.9] * 9]
    samples = [sample] * 4 + [other] * 40 + [lines] * 9
    assert fusion.measures.choose_threshold(samples, predicted(fusion, tops)) == 0.51


FIRST = Calibration(
    weights=dict.fromkeys(FEATURES, 2.0),
    reader=0.5,
    alone=dict.fromkeys(EVIDENCE, 1.0) | {"intercept": -4.0},
    read=dict.fromkeys(EVIDENCE, 0.5) | {READER: 0.75, "intercept": -3.0},
    threshold=0.3,
)


def test_a_free_feature_is_fitted_beside_others_that_are_held(fusion, make_sample):
    random = np.random.default_rng(7)
    samples = []
    for _ in range(40):
        features = 0.1 * random.random((20, len(FEATURES)))
        features[5, list(FEATURES).index("bm25_full")] = 0.5
        samples.append(make_sample(features, [5]))
    data = fusion.ranking.RankingData(samples)
    weights = fusion.ranking.fit_ranking([data], (), FIRST, ("bm25_full",))
    by_name = dict(zip(FEATURES, weights.tolist(), strict=True))
    assert all(by_name[name] == 2.0 for name in FEATURES if name != "bm25_full")
    assert by_name["bm25_full"] >= fusion.ranking.START["bm25_full"]
    assert data.ndcg(weights) == 1.0


def test_the_score_of_free_evidence_leaves_that_of_the_rest(fusion, make_sample, make_answers):
    random = np.random.default_rng(11)
    column = list(EVIDENCE).index("cosine_metadata")
    answers = make_answers(random.random((4_000, 1)), [[1.0]] * 4_000, [[False]] * 4_000)
    answers.evidence[:, 0, column] = random.random(4_000)
    odds = answers.evidence[:, 0] @ np.ones(len(EVIDENCE)) + 5 * answers.evidence[:, 0, column] - 4
    answers.relevant[:, 0] = random.random(4_000) < 1 / (1 + np.exp(-odds))
    samples = [make_sample(np.zeros((1, len(FEATURES))), [0])] * 4_000
    every, free = np.ones(4_000, bool), ("cosine_metadata",)
    score = fusion.calibration.fit_calibration(samples, answers, every, (), FIRST, free)
    held = [name for name in (*EVIDENCE, "intercept") if name not in free]
    assert [score.alone[name] for name in held] == pytest.approx([FIRST.alone[n] for n in held])
    assert [score.read[name] for name in held] == [FIRST.read[name] for name in held]
    assert (score.read[READER], score.reader) == (0.75, 0.5)
    assert score.alone["cosine_metadata"] == pytest.approx(6, abs=0.5)
    assert score.read["cosine_metadata"] == score.alone["cosine_metadata"]


def test_the_committed_queries_can_be_read(fusion):
    folders = sorted(path for path in fusion_folder().iterdir() if path.is_dir())
    assert len(folders) == 8
    for collection in fusion.samples.cross_language(fusion_folder(), []):
        ids = {document.doc_id for document in collection.documents}
        assert all(grades.keys() <= ids for grades in collection.qrels.values())
        assert all(query.language for query in collection.queries)


def fusion_folder():
    return SCRIPTS / "cross_language"


TOPICS = {
    "kitchen": ["bread", "soup", "salad", "cake", "stew", "pasta", "curry", "jam"],
    "garage": ["brake", "clutch", "engine", "tyre", "gearbox", "exhaust", "battery", "radiator"],
}


SPANISH = {
    "kitchen": ["cuece el pan de mi abuela", "haz una sopa", "prepara una ensalada", "una tarta"],
    "garage": ["me fallan los frenos", "cambia el embrague", "repara el motor", "un neumático"],
}


def test_without_the_feature_that_tells_the_order_is_worse(fusion, make_sample):
    random, telling = np.random.default_rng(11), list(FEATURES).index("bm25_full")
    samples = []
    for number in range(60):
        features = random.random((8, len(FEATURES)))
        features[3, telling] = 5
        name = "ab"[number % 2]
        samples.append(replace(make_sample(features, [3]), collection=name, source=name))
    families = np.array([sample.collection for sample in samples])
    folds = []
    for name in "ab":
        seen, held = families != name, families == name
        blocks = [fusion.ranking.blocks(samples, rows) for rows in (seen, held)]
        weights = fusion.ranking.fit_ranking(list(blocks[0].values()))
        folds.append(fusion.fit.Fold(held, seen, blocks[1], weights, None))
    rows = fusion.fit.without_features(samples, folds)
    changes = {name: row["hybrid"] for name, row in rows.items()}
    assert min(changes, key=changes.get) == "feature bm25_full"
    assert -1 < changes["feature bm25_full"] < -0.1
    assert rows["feature bm25_full"]["hybrid margin"] > 0


def test_a_margin_is_that_of_requests_drawn_anew(fusion):
    random = np.random.default_rng(7)
    groups = [random.random(60), random.normal(0.2, 1, 200)]
    drawn = [
        np.mean([random.choice(group, len(group)).mean() for group in groups]) for _ in range(4000)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert fusion.measures.margin(groups) == pytest.approx((high - low) / 2, rel=0.06)
    assert fusion.measures.margin([np.ones(5)]) == 0


@pytest.mark.parametrize(
    "again", [pytest.param(0, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.night)]
)
def test_it_writes_a_calibration_that_loads(fusion, tmp_path, monkeypatch, capsys, again):
    folders = []
    for topic, words in TOPICS.items():
        about = {w: f"Handles {w} in the {topic}. Use it for any {w}." for w in words}
        documents = [JudgedDocument(w, f"{w}-helper", text) for w, text in about.items()]
        queries = [JudgedQuery(w, f"take care of my {w} today", language="en") for w in words]
        qrels = {w: {w: 1} for w in words}
        collection = Collection(topic, tuple(documents), tuple(queries), qrels)
        save_collection(collection, tmp_path / topic)
        folders.append(str(tmp_path / topic))
    output = tmp_path / "calibration.json"
    other = tmp_path / "other"
    for topic, texts in SPANISH.items():
        words = TOPICS[topic][: len(texts)]
        (other / topic).mkdir(parents=True)
        pairs = zip(words, texts, strict=True)
        records = ({"_id": w, "text": text, "lang": "es"} for w, text in pairs)
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (other / topic / "queries.jsonl").write_text(lines, encoding="utf-8")
        judged = "".join(f"{w}\t{w}\t1\n" for w in words)
        (other / topic / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    argv = ["fit_fusion.py", *folders, "--work", str(tmp_path / "work"), "--output", str(output)]
    results = tmp_path / "results.json"
    argv += ["--cross-language", str(other), "--ablation", "--results", str(results)]
    monkeypatch.setattr(sys, "argv", argv)
    fusion.fit.main()
    printed, first = capsys.readouterr().out, output.read_bytes()
    assert "all, left out" in printed
    assert "kitchen" in printed
    calibration = load_calibration(output)
    assert 0 < calibration.threshold < 1
    assert calibration.reader == 0
    assert b'"garage": {' in first
    record = json.loads(results.read_bytes())
    assert record["margins"].keys() == record["collections"].keys()
    parts = {READER, *EVIDENCE, *(f"feature {name}" for name in FEATURES)}
    assert record["ablation"].keys() == parts
    assert not any(record["ablation"][READER].values())  # there is none
    for _ in range(again):
        fusion.fit.main()
        assert output.read_bytes() == first
