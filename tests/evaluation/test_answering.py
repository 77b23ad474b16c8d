"""Systems answer as a search does, without hidden documents, and ask each query once."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from skillsearch.embedders.embedding import HashingEmbedder
from skillsearch.errors import ConfigError, EmbedderError, EvaluationError
from skillsearch.evaluation.answering import DEPTH, MAX_FOREIGN, Answered, answer_all
from skillsearch.evaluation.assess import assess
from skillsearch.evaluation.judged_index import Embedders, RememberingEmbedder
from skillsearch.evaluation.measures import measure
from skillsearch.evaluation.reporting.report import Outcome
from skillsearch.evaluation.runs import save_runs, write_run
from skillsearch.evaluation.systems import parse_systems
from skillsearch.evaluation.types import (
    Collection,
    Job,
    JudgedDocument,
    JudgedQuery,
    SystemAnswers,
    SystemSpec,
)
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.skill_index import SkillIndex
from skillsearch.types.answers import SYSTEMS

TEXTS = {
    "tea": ("steep-tea", "Steep green tea at the right temperature."),
    "tea-copy": ("steep-tea", "Steep green tea at the right temperature."),
    "coffee": ("brew-coffee", "Brew filter coffee with a scale and a kettle."),
    "lemon": ("squeeze-lemons", "Squeeze lemons for lemonade."),
    "forms": ("fill-forms", "Fill in PDF forms and flatten them."),
    "video": ("trim-video", "Cut and join video clips without encoding again."),
    "keys": ("rotate-keys", "Rotate API keys that leaked."),
    "sql": ("tune-sql", "Make slow SQL queries fast with an index."),
}
COLLECTION = Collection(
    name="drinks",
    documents=tuple(JudgedDocument(key, *texts) for key, texts in TEXTS.items()),
    queries=(
        JudgedQuery("q1", "steep some green tea"),
        JudgedQuery("q2", "coffee with a filter"),
        JudgedQuery("q3", "make lemonade from lemons"),
    ),
    qrels={"q1": {"tea": 1}, "q2": {"coffee": 2, "tea": 0}, "q3": {"lemon": 1, "keys": -1}},
    ignored={"q2": frozenset({"coffee"})},
    negatives=(JudgedQuery("n1", "fly a kite"), JudgedQuery("n2", "coffee without water")),
)


@pytest.fixture
def answer(work):
    """Let systems answer the collection above without a model."""

    def run(*systems, collection=COLLECTION, foreign=(), work=work, **options) -> Answered:
        specs = parse_systems(systems, SystemSpec("", model="hashing"))
        return answer_all(Job(collection, foreign), specs, work=work, **options)

    return run


def ids(ranking):
    return [doc_id for doc_id, _ in ranking]


@pytest.mark.usefixtures("default_reader")
def test_answers_are_those_of_the_index_without_ignored_documents(answer, tmp_path):
    answered = answer(*SYSTEMS, work=tmp_path / "work")
    (folder,) = (tmp_path / "work").glob("*/index-*")
    index = SkillIndex.open(folder)
    numbers = {f"documents:{number:05}": key for number, key in enumerate(TEXTS)}
    assert [system.name for system in answered.systems] == list(SYSTEMS)
    for system in answered.systems:
        for query in COLLECTION.queries:
            left_out = ["documents:00002"] if query.query_id == "q2" else []
            expected = []
            for hit in index.search(query.text, DEPTH, 0, system=system.name, exclude=left_out):
                for path in (hit.path, *hit.duplicates):
                    expected.append((numbers[f"documents:{Path(path).parent.name}"], hit.score))
            assert system.answers[query.query_id] == tuple(expected)
        assert "coffee" not in ids(system.answers["q2"])


def test_only_the_hybrid_search_has_probabilities_and_a_threshold_of_its_own(answer):
    hybrid, dense, strict = answer("hybrid", "dense", "strict=system:bm25,threshold:0.4").systems
    assert (hybrid.is_calibrated, hybrid.threshold) == (True, default_calibration().threshold)
    assert hybrid.has_states
    assert (dense.is_calibrated, dense.threshold) == (False, None)
    assert dense.has_states is strict.has_states is False
    assert (strict.is_calibrated, strict.threshold) == (False, 0.4)
    assert hybrid.settings == "hybrid, model hashing, fields full"
    assert hybrid.milliseconds > 0


def test_unanswerable_queries_come_from_three_sources(answer):
    assert answer("dense", collection=COLLECTION).systems[0].unanswerable.keys() == {"negatives"}
    foreign = [("metals", [JudgedQuery("q1", "weld a pipe"), JudgedQuery("q2", "cast iron")])]
    (system,) = answer("dense", foreign=foreign, drop_relevant=True).systems
    assert {source: list(of) for source, of in system.unanswerable.items()} == {
        "negatives": ["n1", "n2"],
        "foreign": ["metals:q1", "metals:q2"],
        "dropped relevant": ["q1", "q2", "q3"],
    }
    queries = [JudgedQuery(f"{number}", f"weld {number}") for number in range(1000)]
    (system,) = answer("bm25", foreign=[("metals", queries)]).systems
    expected = [f"metals:{number}" for number in range(0, 1000, 1000 // MAX_FOREIGN)]
    assert list(system.unanswerable["foreign"]) == expected


def test_negatives_of_a_kind_are_a_source_and_saved_with_the_run(answer, tmp_path):
    twin, other = COLLECTION.negatives
    kinds = replace(COLLECTION, negatives=(replace(twin, kind="twin", twin_of="q1"), other))
    (system,) = answer("dense", collection=kinds).systems
    sources = {source: list(of) for source, of in system.unanswerable.items()}
    assert sources == {"twin": ["n1"], "negatives": ["n2"]}
    save_runs([Outcome(assess(kinds, [system]), (system,))], tmp_path)
    (again,) = answer(f"r=@{tmp_path / 'drinks.dense.trec'}", collection=kinds).systems
    assert {key: ids(of["n1"]) for key, of in again.unanswerable.items() if "n1" in of} == {
        "twin": ids(system.unanswerable["twin"]["n1"])
    }


def test_a_run_with_dropped_relevant_says_what_the_system_said(answer, tmp_path):
    (own,) = answer("hybrid", drop_relevant=True).systems
    save_runs([Outcome(assess(COLLECTION, [own]), (own,))], tmp_path)
    path = tmp_path / "drinks.hybrid.trec"
    with path.open("a") as file:
        file.write("dropped:q1 Q0 tea 1 99 hybrid\n")
    (again,) = answer(f"hybrid=run:{path},threshold:{own.threshold},perhaps:0.3").systems
    before, after = (assess(COLLECTION, [system]).systems[0].abstention for system in (own, again))
    assert set(after.auroc) == {"negatives", "dropped relevant"}
    for name in ("auroc", "recall_at_few_false"):
        assert getattr(after, name) == pytest.approx(getattr(before, name))
    for name in ("answerable", "unanswerable", "threshold", "lower_bound"):
        assert getattr(after.default, name) == getattr(before.default, name)


def test_dropped_relevant_and_its_copies_are_not_in_any_answer(answer):
    systems = answer("hybrid", "dense", drop_relevant=True).systems
    for system in systems:
        dropped = system.unanswerable["dropped relevant"]
        assert not {"tea", "tea-copy"} & set(ids(dropped["q1"]))
        assert "tea" in ids(system.answers["q1"])
        assert "coffee" not in ids(dropped["q2"])
        assert "lemon" not in ids(dropped["q3"])
    assert "keys" in ids(systems[1].answers["q3"])
    qrels = {**COLLECTION.qrels, "q1": dict.fromkeys(TEXTS, 1)}
    (system,) = answer(
        "dense", collection=replace(COLLECTION, qrels=qrels), drop_relevant=True
    ).systems
    assert list(system.unanswerable["dropped relevant"]) == ["q2", "q3"]


def test_each_query_is_embedded_once_for_all_systems(answer):
    embedded = []

    class Counting(HashingEmbedder):
        def embed_stream(self, texts):
            embedded.extend(texts)
            return super().embed_stream(texts)

    embedders = Embedders(hashing=RememberingEmbedder(Counting()))
    answer("hybrid", "bm25", "dense", drop_relevant=True, embedders=embedders)
    queries = [query.text for query in (*COLLECTION.queries, *COLLECTION.negatives)]
    assert embedded == queries
    answer("rrf", embedders=embedders)
    assert embedded == queries


def test_progress_ends_with_all_searches(answer, tmp_path):
    steps = []
    options = {"work": tmp_path, "progress": lambda *step: steps.append(step)}
    answer("hybrid", "dense", drop_relevant=True, **options)
    searches = [step for step in steps if step[0] == "search"]
    assert {step[0] for step in steps} == {"read", "embed", "search"}
    assert searches == [("search", number, 16) for number in range(1, 17)]


def test_a_refused_query_counts_as_one_without_an_answer(answer):
    blank = (JudgedQuery("blank", " "), *COLLECTION.queries)
    qrels = {"blank": {"tea": 1}, **COLLECTION.qrels}
    answered = answer("dense", collection=Collection("odd", COLLECTION.documents, blank, qrels))
    assert answered.systems[0].answers["blank"] == ()
    assert answered.systems[0].answers["q1"]
    assert answered.notes == (
        "Queries that dense refused, which count as without an answer: 1, such as 'blank': "
        "The query is empty; say in words what is to be done.",
    )


def test_a_run_file_measures_the_same_as_the_system_that_it_came_from(answer, tmp_path):
    (own,) = answer("dense").systems
    path = tmp_path / "dense.trec"
    write_run(path, {**own.answers, **own.unanswerable["negatives"]}, "dense")
    with path.open("a") as file:
        file.write("q2 Q0 coffee 1 99 dense\n")
    theirs, again = answer(f"theirs=@{path}", "dense").systems
    assert measure(COLLECTION.qrels, theirs.answers) == measure(COLLECTION.qrels, own.answers)
    assert theirs.unanswerable.keys() == {"negatives"}
    rankings, expected = (of.unanswerable["negatives"].values() for of in (theirs, own))
    assert list(map(ids, rankings)) == list(map(ids, expected))
    assert again.answers == own.answers
    assert (theirs.threshold, theirs.is_calibrated, theirs.milliseconds) == (None, False, None)


def test_a_run_without_negatives_was_not_asked_them(answer, tmp_path):
    """So it is not said to keep silent where it must; nothing is indexed for it."""
    path = tmp_path / "run.trec"
    path.write_text("q1 Q0 tea 1 0.5 x\n")
    (system,) = answer(f"theirs=@{path}", work=tmp_path / "work").systems
    rankings = {"q1": (("tea", 0.5),), "q2": (), "q3": ()}
    assert system == SystemAnswers("theirs", f"run file {path}", rankings)
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    ("system", "error", "said"),
    [
        ("a=@nowhere.trec", EvaluationError, "nowhere.trec is missing"),
        ("a=calibration:nowhere.json", ConfigError, "nowhere.json holds no calibration"),
        ("a=model:nothing", EmbedderError, "No embedder is called 'nothing'"),
    ],
)
def test_what_cannot_work_fails_before_anything_is_indexed(answer, tmp_path, system, error, said):
    with pytest.raises(error, match=said):
        answer("hybrid", system, work=tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_a_calibration_of_ones_own_decides_scores_and_threshold(answer, tmp_path):
    values = default_calibration().to_dict()
    path = tmp_path / "mine.json"
    values["alone"]["intercept"] += 1
    path.write_text(json.dumps(values | {"threshold": 0.123}))
    usual, mine = answer("usual=reader:off", f"mine=reader:off,calibration:{path}").systems
    assert mine.threshold == 0.123
    assert mine.answers["q1"][0][1] > usual.answers["q1"][0][1]


@pytest.mark.usefixtures("default_reader")
def test_a_second_run_with_the_real_model_gives_the_same(answer, tmp_path):
    (first,), (second,) = (
        answer("hybrid=model:onnx", work=tmp_path, drop_relevant=True).systems for _ in range(2)
    )
    assert (second.answers, second.unanswerable) == (first.answers, first.unanswerable)
