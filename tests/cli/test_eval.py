"""Tests of ``skillsearch eval``: what it prints and writes, its exit codes, and bad input."""

import json
import re
import sys
from datetime import UTC, datetime

import pytest
from jsonschema import Draft202012Validator

from skillsearch import __version__
from skillsearch.evaluation.measures import MEASURES
from skillsearch.settings.environ import install_extra

SUBJECTS = ("tea", "coffee", "lemonade", "cocoa", "juice", "cider")
HIDDEN = "\x1b[2J\u202e"


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def write_collection(folder, subjects=SUBJECTS, prefix=""):
    """Write a collection of a skill and a query for each subject."""
    folder.mkdir(parents=True)
    skills, queries, rows = [], [], ""
    for subject in subjects:
        texts = {"name": f"{prefix}make-{subject}", "description": f"How to make {subject}."}
        skills.append({"_id": f"{prefix}{subject}"} | texts)
        queries.append({"_id": f"q-{subject}", "text": f"{prefix}please make some {subject}"})
        rows += f"q-{subject}\t{prefix}{subject}\t1\n"
    write_lines(folder / "corpus.jsonl", skills)
    write_lines(folder / "queries.jsonl", queries)
    write_lines(folder / "negatives.jsonl", [{"_id": "none", "text": "fly a kite"}])
    (folder / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}", encoding="utf-8")
    return folder


@pytest.fixture
def drinks_collection(tmp_path):
    return write_collection(tmp_path / "collections" / "drinks")


@pytest.fixture
def metals(tmp_path):
    return write_collection(tmp_path / "collections" / "metals", ("steel", "iron", "brass"))


@pytest.fixture
def evaluate(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")

    def run(*args):
        return cli("eval", "--work", tmp_path / "evaluations", *args)

    return run


@pytest.fixture
def parsed(evaluate):
    def run(*args):
        result = evaluate("--json", *args)
        assert result.exit_code == 0, result.stderr
        assert result.stdout.count("\n") == 1
        return json.loads(result.stdout)

    return run


@pytest.fixture
def own(tmp_path, make_skill):
    """A root of skills with evals and headings; two of them steal each other's queries."""
    root = tmp_path / "mine"
    make_skill(root, "brew-coffee", "Brew coffee.", body="## Dialing espresso grind size\n")
    make_skill(root, "steep-tea", "Steep tea.", body="## Choosing sencha water temperature\n")
    make_skill(root, "press-juice", "Press juice.")
    cases = [{"query": f"steep tea number {n}", "should_trigger": True} for n in range(3)]
    (root / "brew-coffee" / "trigger-evals.json").write_text(json.dumps(cases), encoding="utf-8")
    return root


@pytest.mark.usefixtures("default_reader")
def test_json_of_one_collection_has_the_keys_of_the_contract(parsed, drinks_collection):
    before = datetime.now(UTC).replace(microsecond=0)
    report = parsed(drinks_collection)
    assert (report["collection"], report["queries"], report["documents"]) == ("drinks", 6, 6)
    assert list(report["systems"]) == ["hybrid", "bm25", "dense"]
    assert all(tuple(means) == MEASURES for means in report["systems"].values())
    assert report["systems"]["bm25"]["Success@1"] == 1.0
    assert report["unanswerable"] == {"negatives": 1}
    assert report["version"] == __version__
    assert before <= datetime.fromisoformat(report["made"]) <= datetime.now(UTC)
    assert report["settings"]["hybrid"] == "hybrid, model hashing, fields full"
    assert {row["baseline"] for row in report["comparisons"]} == {"hybrid"}
    assert not report.keys() & {"kinds", "confusables", "diagnostics"}


def test_json_of_several_collections_has_each_and_their_mean(parsed, drinks_collection, metals):
    report = parsed(drinks_collection, metals, "--system", "dense", "--confusables")
    assert report.keys() == {"collections", "made", "mean", "version"}
    assert [row["collection"] for row in report["collections"]] == ["drinks", "metals"]
    assert all(row["confusables"] == [] for row in report["collections"])
    values = [row["systems"]["dense"]["nDCG@10"] for row in report["collections"]]
    assert report["mean"]["dense"]["nDCG@10"] == pytest.approx(sum(values) / 2, abs=1e-6)


def test_rows_for_other_programs_are_parted_by_tabs(evaluate, drinks_collection):
    with (drinks_collection / "queries.jsonl").open("a") as file:
        file.write('{"_id": "extra", "text": "nobody judged this"}\n')
    result = evaluate(drinks_collection, "--system", "bm25")
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    means, others = rows[: len(MEASURES)], rows[len(MEASURES) :]
    assert [row[:3] for row in means] == [["drinks", "bm25", name] for name in MEASURES]
    assert others[0] == ["drinks", "bm25", "AUROC negatives", "1.000000", "", ""]
    assert [float(cell) for cell in rows[0][3:]] == [1.0, 1.0, 1.0]
    assert result.stderr.startswith("note: drinks: 1 of 7 queries has no relevant document")


def test_a_terminal_gets_tables(evaluate, drinks_collection, metals, terminal):
    terminal()
    result = evaluate(drinks_collection, metals, "--confusables")
    assert result.stdout.count("Means in percent") == 2
    assert result.stdout.count("Under hybrid no skill steals several queries") == 2
    assert result.stdout.rstrip().splitlines()[-1].startswith("mean ")


def test_hostile_texts_are_inert_on_a_terminal(evaluate, tmp_path, terminal):
    folder = write_collection(tmp_path / f"a{HIDDEN}b", prefix="\u202e")
    terminal()
    table = evaluate(folder, "--confusables", "--drop-relevant")
    terminal(False)
    rows = evaluate(folder, "--confusables", "--save-runs", tmp_path / "runs")
    for result in (table, rows):
        assert result.exit_code == 0
        assert not set(HIDDEN[:1] + "\u202e") & set(result.stdout + result.stderr)
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {
        f"a_2J_b.{system}.trec" for system in ("hybrid", "bm25", "dense")
    }


def test_foreign_queries_and_dropped_relevant_are_counted(parsed, drinks_collection, metals):
    report = parsed(
        drinks_collection, "--foreign", metals, "--foreign", drinks_collection, "--drop-relevant"
    )
    assert report["unanswerable"] == {"negatives": 1, "foreign": 3, "dropped relevant": 6}
    assert report["abstention"]["hybrid"]["auroc"].keys() == report["unanswerable"].keys()


def test_run_files_can_be_written_and_compared(parsed, drinks_collection, tmp_path):
    runs = tmp_path / "deep" / "runs"
    first = parsed(drinks_collection, "--save-runs", runs)
    report = parsed(drinks_collection, "--system", f"x=@{runs / 'drinks.dense.trec'}")
    assert report["systems"]["x"] == first["systems"]["dense"]
    assert report["per_query"]["x"] == first["per_query"]["dense"]


@pytest.mark.slow
def test_the_page_is_written(evaluate, drinks_collection, tmp_path):
    result = evaluate(drinks_collection, "--html", tmp_path / "page.html", "--system", "bm25")
    assert result.exit_code == 0
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert result.stdout.startswith("drinks\tbm25\tnDCG@10")


@pytest.fixture
def saved(evaluate, drinks_collection, metals, tmp_path):
    """Save results of two systems on two collections: a later one, then an earlier one."""
    paths = []
    for name, day, systems in (("late", 20, ("dense", "bm25")), ("early", 3, ("bm25", "dense"))):
        requests = [part for system in systems for part in ("--system", system)]
        report = json.loads(evaluate("--json", drinks_collection, metals, *requests).stdout)
        report["made"] = f"2026-05-{day:02}T12:00:00+02:00"
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps(report), encoding="utf-8")
    return paths


def test_saved_results_are_shown_side_by_side(cli, saved, tmp_path, terminal):
    page = tmp_path / "page.html"
    rows = cli("eval", "--compare", *saved, "--system", "bm25", "--html", page).stdout
    assert rows.startswith("drinks\t2026-05-03 early\tnDCG@10\t1.000000\t")
    assert "drinks\t2026-05-20 late\tnDCG@10 from 2026-05-03 early\t0.000000" in rows
    report = json.loads(cli("eval", "--compare", *saved, "--json").stdout)
    assert [row["collection"] for row in report["collections"]] == ["drinks", "metals"]
    assert list(report["mean"]) == ["2026-05-03 early", "2026-05-20 late"]
    schema = Draft202012Validator(json.loads(cli("eval", "--json-schema").stdout))
    for printed in (report, json.loads(saved[0].read_text(encoding="utf-8"))):
        assert printed.keys() == {"collections", "made", "mean", "version"}
        schema.validate(printed)
    html = page.read_text(encoding="utf-8")
    assert "Search quality on <bdi>drinks, metals over time</bdi>" in html
    terminal()
    shown = cli("eval", "--compare", *saved).stdout
    assert shown.count("Means in percent") == 2
    assert "run " in shown
    assert "2026-05-20 late has an nDCG@10 of" in " ".join(shown.split())


def test_what_cannot_be_compared_is_named(cli, saved, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text('{"a": 1}', encoding="utf-8")
    result = cli("eval", "--compare", saved[0], bad)
    assert (result.exit_code, result.stdout) == (2, "")
    said = f"Error: {bad} is not a result of skillsearch eval: "
    assert result.stderr.startswith(f"{said}collections.0.collection: Field required")
    assert result.stderr.count("\n") == 1
    missing = cli("eval", "--compare", saved[0], tmp_path / "missing.json")
    assert missing.stderr.startswith(f"Error: {tmp_path}/missing.json is missing or not a file.")


@pytest.mark.parametrize(
    ("minima", "code"),
    [(["nDCG@10=1"], 0), (["R@5=0.5", "Success@1=1.0"], 0), (["nDCG@10=1", "Judged@10=0.9"], 1)],
)
def test_a_minimum_decides_the_exit_code(evaluate, drinks_collection, minima, code):
    options = [part for text in minima for part in ("--min", text)]
    result = evaluate(drinks_collection, "--system", "bm25", "--system", "dense", *options)
    assert result.exit_code == code
    assert result.stdout.count("\tnDCG@10\t") == 2
    said = result.stderr.strip().splitlines()
    assert len(said) == code
    if said:
        assert said[0].startswith("bm25 has a mean Judged@10 of 0.")
        assert said[0].endswith("less than the 0.9 asked for")


def test_own_skills_are_judged_by_kind(parsed, own):
    report = parsed("--self", own, "--system", "bm25")
    assert (report["collection"], report["documents"], report["queries"]) == ("own skills", 3, 5)
    assert {kind: of["queries"] for kind, of in report["kinds"].items()} == {
        "trigger": 3,
        "heading": 2,
    }
    assert report["kinds"]["heading"]["systems"]["bm25"]["Success@1"] == 1.0
    assert report["kinds"]["trigger"]["systems"]["bm25"]["Success@1"] == 0.0
    assert any("Nobody but the authors" in note for note in report["notes"])
    assert parsed("--self", own, "--kinds", "trigger, task")["queries"] == 3


def test_confusable_skills_are_told(parsed, evaluate, own, terminal):
    arguments = ("--self", own, "--system", "bm25", "--confusables", "--kinds", "trigger")
    (pair,) = parsed(*arguments)["confusables"]
    assert (pair["loser_name"], pair["winner_name"]) == ("brew-coffee", "steep-tea")
    assert (pair["queries"], pair["share"], pair["is_mutual"]) == (3, 1.0, False)
    assert {word["text"] for word in pair["words"]} == {"steep", "tea"}
    row = evaluate(*arguments).stdout.splitlines()[-1].split("\t")
    assert row[:8] == [
        "own skills",
        "confusable",
        "mine:brew-coffee",
        "brew-coffee",
        "mine:steep-tea",
        "steep-tea",
        "3",
        "1.000000",
    ]
    terminal()
    table = evaluate(*arguments).stdout
    assert "brew-coffee loses to steep-tea: 3 queries, 100.0 % of its own" in table
    assert "won by: " in table


def test_own_skills_are_those_of_the_settings_or_of_the_index(parsed, cli, own, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_ROOTS", str(own))
    assert parsed("--self")["documents"] == 3
    monkeypatch.delenv("SKILLSEARCH_ROOTS")
    assert cli("index", own).exit_code == 0
    assert parsed("--self")["documents"] == 3


def test_a_collection_of_own_skills_can_be_saved(parsed, own, tmp_path):
    folder = tmp_path / "saved"
    first = parsed("--self", own, "--save-collection", folder, "--system", "dense")
    second = parsed(folder, "--system", "dense")
    assert second["systems"] == first["systems"]


def test_what_is_wrong_with_own_skills_is_told(evaluate, own):
    (own / "steep-tea" / "evals.json").write_text("{")
    result = evaluate("--self", own, "--json")
    assert "steep-tea/evals.json" in result.stderr
    assert "eval-unreadable" in result.stderr
    (report,) = json.loads(result.stdout)["diagnostics"]
    assert report["code"] == "eval-unreadable"


def _times(index):
    """Return when each file was written, but for those that a look at the disk writes."""
    looked_at = {"lock", "snapshot.bin", "stat-cache.json"}
    files = (path for path in index.rglob("*") if path.is_file())
    return {p: p.stat().st_mtime_ns for p in files if p.name not in looked_at}


def test_a_second_run_embeds_no_document(evaluate, drinks_collection, tmp_path):
    evaluate(drinks_collection, "--system", "hybrid")
    (index,) = (tmp_path / "evaluations").glob("drinks-*/index-*")
    files = _times(index)
    assert any(path.suffix == ".faiss" for path in files)
    evaluate(drinks_collection, "--system", "hybrid", "--system", "bm25")
    assert _times(index) == files
    assert list((tmp_path / "evaluations").glob("drinks-*/index-*")) == [index]


def test_indexes_are_kept_in_the_users_cache(cli, drinks_collection, home, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")
    assert cli("eval", drinks_collection, "--system", "bm25").exit_code == 0
    assert list((home / "cache").glob("skillsearch/evaluation/drinks-*/documents/00000/SKILL.md"))


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("queries.jsonl", None, "queries.jsonl is missing or not a file"),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\n", "qrels.tsv: no query has a relevant"),
        (
            "qrels.tsv",
            "query-id\tcorpus-id\tscore\nq-tea\tte\t1\n",
            "qrels.tsv:2: 'te' is not an _id in corpus.jsonl",
        ),
    ],
)
def test_a_bad_collection_is_named_with_file_line_and_cure(
    evaluate, drinks_collection, file, content, said
):
    path = drinks_collection / file
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    result = evaluate(drinks_collection)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {drinks_collection}/{said}")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Name a collection: skillsearch eval FOLDER"),
        (["nowhere"], "nowhere is not a folder. A collection is a folder with corpus.jsonl"),
        (["{drinks}", "--system", "splade"], "--system 'splade': it is not a system; those"),
        (["{drinks}", "--system", "x=@nowhere"], "nowhere is missing"),
        (["{drinks}", "--system", "x=calibration:nowhere"], "nowhere holds no calibration"),
        (["{drinks}", "--min", "nDCG=1"], "'nDCG=1' is not a minimum"),
        (["{drinks}", "--min", "nDCG@10=2"], "'nDCG@10=2' is not a minimum"),
        (["{drinks}", "--foreign", "nowhere"], "nowhere is not a folder"),
        (["{drinks}", "--pool"], "name at least two"),
        (["--self", "{own}", "--pool"], "name at least two"),
        (
            ["{drinks}", "--example", "--pool", "--drop-relevant"],
            "--drop-relevant goes without --pool",
        ),
        (["{drinks}", "--system", "x=fields:body"], "use one of: full, metadata"),
        (["{drinks}", "--kinds", "task"], "--kinds goes with --self only"),
        (["--self", "{own}", "--example"], "one of the two"),
        (["{drinks}", "--save-collection", "x"], "--save-collection goes with --self only"),
        (["{drinks}", "--html", "{drinks}"], "is a directory"),
        (["--compare", "one.json"], "two or more results"),
        (["--compare", "a.json", "b.json", "--drop-relevant"], "measures nothing"),
        (["--compare", "a.json", "b.json", "--min", "R@5=1"], "measures nothing"),
        (["{drinks}", "--html", "nowhere/page.html"], "create it"),
        (["--self", "nowhere"], "nowhere: The folder does not exist"),
        (["--self", "{own}", "--kinds", "trigers"], "choose from: trigger, task, example, heading"),
        (["--self", "{own}", "--save-collection", "{own}"], "is not empty"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_indexed(
    evaluate, drinks_collection, own, tmp_path, arguments, said
):
    folders = {"drinks": drinks_collection, "own": own}
    result = evaluate(*(text.format(**folders) for text in arguments))
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in " ".join(result.stderr.split())
    assert not (tmp_path / "evaluations").exists()


def test_without_the_extra_all_is_measured(parsed, drinks_collection, monkeypatch):
    for module in ("ir_measures", "scipy", "matplotlib", "jinja2"):
        monkeypatch.setitem(sys.modules, module, None)
    report = parsed(drinks_collection, "--system", "hybrid", "--system", "bm25")
    assert set(MEASURES) - {"Judged@10"} <= set(report["systems"]["hybrid"])


@pytest.mark.parametrize("module", ["matplotlib", "jinja2"])
def test_a_missing_extra_is_named_before_anything_is_indexed(
    evaluate, drinks_collection, tmp_path, monkeypatch, module
):
    monkeypatch.setitem(sys.modules, module, None)
    result = evaluate(drinks_collection, "--html", tmp_path / "page.html")
    assert result.exit_code == 1
    assert f"needs {module}: {install_extra('eval')}" in result.stderr
    assert not (tmp_path / "evaluations").exists()


def test_a_work_folder_that_cannot_be_written_is_named(cli, drinks_collection, tmp_path):
    """A fault of the disk, not of the usage."""
    (tmp_path / "file").write_text("")
    result = cli("eval", drinks_collection, "--work", tmp_path / "file" / "below")
    assert result.exit_code == 1
    assert "--work" in result.stderr


@pytest.fixture
def chores(tmp_path):
    """A judged collection in four languages; the second query crosses languages."""
    folder = tmp_path / "collections" / "chores"
    folder.mkdir(parents=True)
    skills = {
        "tidy": "Helps to tidy up a room and tells where each of the things should go.",
        "plants": "Riega las plantas de la casa cuando hace falta y avisa si están enfermas.",
        "cook": "教你用家里现有的蔬菜做一顿简单的晚饭。",
        "wash": "빨래를 색깔별로 나누고 알맞은 세제를 골라 줍니다.",
    }
    queries = {
        "q1": ("how do I tidy up the room of my children", "tidy"),
        "q2": ("部屋の片付けを手伝ってください", "tidy"),
        "q3": ("quiero regar las plantas de mi casa", "plants"),
        "q4": ("用蔬菜做晚饭", "cook"),
        "q5": ("빨래 세제를 골라 줘", "wash"),
    }
    rows = [{"_id": key, "name": key, "description": text} for key, text in skills.items()]
    write_lines(folder / "corpus.jsonl", rows)
    requests = [{"_id": key, "text": text} for key, (text, _) in queries.items()]
    write_lines(folder / "queries.jsonl", requests)
    judged = "".join(f"{key}\t{doc_id}\t1\n" for key, (_, doc_id) in queries.items())
    (folder / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}", encoding="utf-8")
    return folder


def test_languages_have_rows_and_a_table(evaluate, chores, drinks_collection, terminal):
    result = evaluate(chores, drinks_collection, "--system", "bm25")
    names = list(dict.fromkeys(line.split("\t")[0] for line in result.stdout.splitlines()))
    groups = ("en", "es", "ja", "ko", "zh", "same language", "cross-language")
    assert names == ["chores", *(f"chores: {group}" for group in groups), "drinks", "mean"]
    terminal()
    table = evaluate(chores, drinks_collection, "--system", "bm25").stdout
    assert table.count("By language of the query") == 1
    assert re.search(r"^cross-language +1 +bm25 +0\.0 ", table, re.MULTILINE)


def test_a_pool_lets_the_documents_of_all_collections_compete(
    parsed, drinks_collection, metals, tmp_path
):
    report = parsed(drinks_collection, metals, "--pool", "--system", "bm25", "--foreign", metals)
    drinks, made_of_metal = report["collections"]
    assert (drinks["collection"], made_of_metal["collection"]) == ("drinks", "metals")
    assert (drinks["documents"], made_of_metal["documents"]) == (9, 9)
    assert (drinks["queries"], made_of_metal["queries"]) == (6, 3)
    assert drinks["unanswerable"] == {}
    assert drinks["notes"][0].startswith("Asked among the 9 documents of 2 collections together.")
    assert drinks["examples"]["bm25"]["worst"][0]["relevant"] == ["drinks/tea"]
    assert len(list((tmp_path / "evaluations").glob("*/index-*"))) == 1


@pytest.mark.usefixtures("default_reader")
def test_systems_of_other_fields_have_an_index_of_their_own(parsed, chores, tmp_path):
    report = parsed(chores, "--system", "before=fields:metadata", "--system", "hybrid")
    assert report["settings"] == {
        "before": "hybrid, model hashing, fields metadata",
        "hybrid": "hybrid, model hashing, fields full",
    }
    assert len(list((tmp_path / "evaluations").glob("*/index-*"))) == 2


@pytest.mark.usefixtures("default_reader")
@pytest.mark.slow
def test_a_skill_is_found_by_a_request_in_another_language(cli, chores, tmp_path):
    result = cli("eval", chores, "--work", tmp_path, "--system", "dense", "--json")
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["settings"] == {"dense": "dense, model onnx, fields full"}
    assert report["cross_language"]["systems"]["dense"]["Success@1"] == 1.0
    assert report["milliseconds"]["dense"] > 0
