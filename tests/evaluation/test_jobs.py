"""From folders of collections to outcomes, run files and a page."""

import pytest

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.collection import load_collection, save_collection
from skillsearch.evaluation.jobs import evaluate, load_jobs, make_own_job
from skillsearch.evaluation.reporting.page import save_page
from skillsearch.evaluation.reporting.report import Outcome
from skillsearch.evaluation.runs import save_runs
from skillsearch.evaluation.systems import parse_systems
from skillsearch.evaluation.types import (
    Collection,
    Job,
    JudgedDocument,
    JudgedQuery,
    SystemAnswers,
    SystemSpec,
)

DRINKS = ("tea", "coffee", "lemonade", "cocoa", "juice")


def make_collection(name="drinks", subjects=DRINKS):
    return Collection(
        name,
        tuple(
            JudgedDocument(drink, f"make-{drink}", f"How to make {drink}.") for drink in subjects
        ),
        tuple(JudgedQuery(f"q-{drink}", f"please make some {drink}") for drink in subjects),
        {f"q-{drink}": {drink: 1} for drink in subjects},
        negatives=(JudgedQuery("none", "fly a kite"),),
    )


@pytest.fixture
def folder(tmp_path):
    """Save a collection below a folder and return where."""

    def make(path="drinks", **fields):
        saved = tmp_path / path
        save_collection(make_collection(**fields), saved)
        return saved

    return make


@pytest.fixture
def run(work):
    def evaluate_jobs(jobs, *systems, **options):
        specs = parse_systems(systems, SystemSpec("", model="hashing"))
        return evaluate(jobs, specs, work=work, **options)

    return evaluate_jobs


def test_collections_are_loaded_in_order_with_distinct_names(folder, tmp_path):
    folders = [folder("a/drinks"), folder("metals"), folder("b/drinks")]
    names = [job.collection.name for job in load_jobs(folders)]
    assert names == ["drinks", "metals", "drinks (2)"]
    with pytest.raises(EvaluationError, match="nowhere is not a folder"):
        load_jobs([*folders, tmp_path / "nowhere"])
    with pytest.raises(EvaluationError, match="nowhere is not a folder"):
        load_jobs(folders, foreign=[tmp_path / "nowhere"])


def test_no_collection_is_foreign_to_itself(folder, tmp_path):
    drinks, metals = folder("drinks"), folder("metals", subjects=("steel", "iron"))
    same = tmp_path / "metals" / ".." / "drinks"
    first, second = load_jobs([drinks, metals], foreign=[same, metals])
    assert [name for name, _ in first.foreign] == ["metals"]
    assert [name for name, _ in second.foreign] == ["drinks"]
    assert second.foreign[0][1] == load_collection(drinks).queries


def test_an_outcome_holds_what_was_asked_for(folder, run):
    jobs = load_jobs([folder()], foreign=[folder("metals", subjects=("steel", "iron"))])
    (plain,) = run(jobs, "hybrid", "bm25")
    assert plain.report.collection == "drinks"
    assert [system.name for system in plain.report.systems] == ["hybrid", "bm25"]
    assert plain.report.unanswerable == {"negatives": 1, "foreign": 2}
    assert (plain.kinds, plain.confusions, plain.diagnostics) == ({}, None, ())
    (more,) = run(jobs, "dense", drop_relevant=True, with_confusions=True)
    assert more.report.unanswerable["dropped relevant"] == len(DRINKS)
    assert more.confusions == ()


def test_notes_of_the_search_are_in_the_report(run):
    broken = JudgedDocument("odd", "\x01", "")
    made = make_collection()
    collection = Collection("c", (*made.documents, broken), made.queries, made.qrels, notes=("n",))
    (outcome,) = run([Job(collection)], "bm25")
    assert outcome.report.notes[0] == "n"
    assert "'odd'" in outcome.report.notes[1]


def test_own_skills_are_measured_by_kind_too(run, make_skill, tmp_path):
    root = tmp_path / "mine"
    body = "## Dialing espresso grind size\n\n## When to use\n\n- Grind the beans finely\n"
    make_skill(root, "brew-coffee", "Brew coffee.", body=body)
    make_skill(root, "steep-tea", "Steep tea.")
    job = make_own_job([root], ["example", "heading"])
    (outcome,) = run([job], "bm25")
    assert outcome.report.queries == 2
    counts = [(kind, of.queries) for kind, of in outcome.kinds.items()]
    assert counts == [("example", 1), ("heading", 1)]


def test_run_files_have_distinct_harmless_names(run, tmp_path):
    made = make_collection(name="../\x1b[2Jdrinks")
    (outcome,) = run([Job(made)], "bm25")
    answers = {"q-tea": (("tea", 1.0),)}
    systems = tuple(SystemAnswers(name, "", answers) for name in ("a b", "a_b", "A/B", "a_b-2"))
    save_runs([Outcome(outcome.report, systems)], tmp_path)
    stem = "2Jdrinks.a_b"
    written = {path.name for path in tmp_path.glob("*.trec")}
    assert written == {f"{stem}.trec", f"{stem}-2.trec", "2Jdrinks.A_B-3.trec", f"{stem}-2-2.trec"}


@pytest.mark.slow
def test_a_page_replaces_the_one_before_in_one_step(folder, run, tmp_path):
    outcomes = run(load_jobs([folder()]), "bm25")
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "page.html"
    path.write_text("before")
    save_page(outcomes, path, made="today", version="1.2.3")
    html = path.read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    assert "today" in html
    assert "1.2.3" in html
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(EvaluationError, match="out cannot be written: Is a directory"):
        save_page(outcomes, tmp_path / "out", made="", version="")
