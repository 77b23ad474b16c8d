"""Every script runs, at a tiny size: here, or in the tests of what it is for."""

import ast
import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from skillsearch.budget.hosts import HOSTS
from skillsearch.evaluation.collection import EXAMPLE, load_collection, save_collection
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery

CHECKOUT = Path(__file__).parents[1]
SCRIPTS = CHECKOUT / "scripts"
PEERS = SCRIPTS / "comparison" / "peers"
"""Runs in environments of others."""
pytestmark = pytest.mark.skipif(not SCRIPTS.exists(), reason="an installed copy has no scripts")
THINGS = "kettle pump ladder lantern anvil violin compass saddle".split()
SKILLS = [
    {
        "name": f"mend-{thing}",
        "description": f"Helps to mend an old {thing} at home. Use it for a {thing} and postgres.",
        "body": f"# Mend a {thing}\n\nLook at the {thing} in daylight and note each defect.\n",
        "lang": "en",
    }
    for thing in THINGS
]
REQUESTS = [
    {
        "text": f"my {thing} leaks into the postgres database",
        "kind": kind,
        "lang": "en",
        "writer": "w00",
        "cluster": number,
        "rows": [(number + step) % len(THINGS) for step in range(3)],
        "grades": {str(number): 2},
    }
    for number, thing in enumerate(THINGS)
    for kind in "sp"
]
OF_MODELS = ("training/test_model_scripts.py", "test_an_embedder_is_trained_and_built")
ELSEWHERE = {
    "attack": ("test_attack.py", "test_the_script_prints_tables_and_writes_json"),
    "bench_scale": (
        "test_bench_scale.py",
        "test_milvus_answers_as_a_local_index_and_ray_is_timed",
    ),
    **dict.fromkeys(("build_model", "model_base", "train_embedder"), OF_MODELS),
    "train_reader": ("training/test_model_scripts.py", "test_a_reader_is_trained_and_built"),
    "count_request_words": ("index/test_hubness.py", "test_the_script_counts_words_of_requests"),
    "embed_ray": (
        "test_embed_ray.py",
        "test_the_index_after_it_embeds_nothing_and_has_the_vectors_of_a_plain_one",
    ),
    "measure_improve": (
        "test_measure_improve.py",
        "test_each_skill_with_room_gets_a_row_and_the_table_counts_them",
    ),
    "fit_fusion": ("test_fit_fusion.py", "test_it_writes_a_calibration_that_loads"),
    "hosts_tour": ("scope/test_interfaces.py", "test_the_tour_of_hosts_finds_nothing_wrong"),
    "soak_pairs": (
        "test_soak_pairs.py",
        "test_two_commands_at_once_lose_nothing_and_say_what_is_true",
    ),
}
"""Scripts that tests of what they are for run, and these."""


def runs(name):
    """Mark a test that runs a script; a script must have one."""

    def mark(function):
        HERE[name] = function
        return function

    return mark


HERE = {}
MOST_VAGUE = {"names": 3, "variables": 65}
"""Of 10,000, how many may say nothing; both only fall."""


def run_script(name, *words, code=0, **variables):
    """Run a script as a process, and return what it printed."""
    command = [sys.executable, str(SCRIPTS / f"{name}.py"), *map(str, words)]
    env = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.fixture
def material(tmp_path):
    """Write requests and skills as the scripts that learn from them read them."""

    def write(name, records):
        with gzip.open(tmp_path / name, "wt", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(record)}\n" for record in records)
        return tmp_path / name

    return write("requests.jsonl.gz", REQUESTS), write("skills.jsonl.gz", SKILLS)


def sources():
    """Return the scripts and their parts, by the name that imports them; packages have no code."""
    paths = [path for path in SCRIPTS.rglob("*.py") if PEERS not in path.parents]
    names = {path.relative_to(SCRIPTS).with_suffix("").as_posix(): path for path in paths}
    return {
        name.replace("/", "."): ast.parse(path.read_text(encoding="utf-8"))
        for name, path in names.items()
        if path.name != "__init__.py"
    }


def imported_by(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_script_has_a_tiny_run():
    """Those without a command of their own are parts of one that has."""
    trees = sources()
    is_program = "__name__ == '__main__'"
    programs = {name for name, tree in trees.items() if is_program in ast.unparse(tree)}
    assert programs == HERE.keys() | ELSEWHERE.keys()
    assert not HERE.keys() & ELSEWHERE.keys()
    reached, waiting = set(), [*programs]
    while waiting:
        name = waiting.pop()
        if name in trees and name not in reached:
            reached.add(name)
            waiting += imported_by(trees[name])
    assert reached == trees.keys()


@pytest.mark.parametrize(("file", "test"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_tiny_run_elsewhere_is_there(file, test):
    text = (Path(__file__).parent / file).read_text(encoding="utf-8")
    assert f"def {test}(" in text


@pytest.fixture
def tiny_bench(import_script, monkeypatch):
    """The module ``bench``, which measures once what it measures often."""
    bench = import_script("bench")
    monkeypatch.setattr(bench, "SEARCH_ROUNDS", 1)
    monkeypatch.setattr(bench, "UPDATES", 1)
    monkeypatch.setattr(bench, "QUERIES", bench.QUERIES[:2])
    monkeypatch.setattr(bench, "OTHER_QUERIES", bench.OTHER_QUERIES[:1])
    measures = import_script("benchmark.measures")
    monkeypatch.setattr(measures, "COLD_RUNS", 1)
    monkeypatch.setattr(measures, "WARM_ROUNDS", 1)
    return bench


@pytest.fixture
def collection(tmp_path):
    """Save a collection of two skills, each with a request."""
    documents = (JudgedDocument("a", "tea", "Make tea."), JudgedDocument("b", "ink", "Make ink."))
    queries = (JudgedQuery("1", "tea"), JudgedQuery("2", "ink"))
    qrels = {"1": {"a": 1}, "2": {"b": 1}}
    save_collection(Collection("c", documents, queries, qrels), tmp_path / "collection")
    return tmp_path / "collection"


@runs("bench")
@pytest.mark.slow
@pytest.mark.usefixtures("default_reader")
def test_the_benchmark_measures_all_that_its_table_shows(
    tiny_bench, import_script, collection, tmp_path, monkeypatch, capsys
):
    results = tmp_path / "bench.json"
    options = ["--originals", "12", "--work", str(tmp_path / "work"), "--results", str(results)]
    tiny_bench.main([*options, "--sizes", "40"])
    first = json.loads(results.read_bytes())
    (row,) = first["sizes"]
    for part in ("throughput", "examples"):
        monkeypatch.setattr(tiny_bench, f"bench_{part}", lambda *_, part=part: first[part])
    monkeypatch.setattr(tiny_bench, "bench_size", lambda *_: {**row, "skills": 20})
    tiny_bench.main([*options, "--sizes", "20", "--eval", str(collection)])
    report = json.loads(results.read_bytes())
    assert [row["skills"] for row in report["sizes"]] == [20, 40]
    assert [row["families"] for row in report["sizes"]] == [0, 0]
    assert report["evaluation"][0]["queries"] == 2
    assert report["sizes"][0]["bm25"]["largest_difference"] < 1e-4
    assert all(row["warm_query"]["reader"].keys() == {"on", "off"} for row in report["sizes"])
    assert report["machine"]["import_numpy_cpu_s"] > 0
    shown = capsys.readouterr().out
    for row in import_script("benchmark.report").ROWS:
        assert f"| {row.name} |" in shown


@runs("replay_usage")
@pytest.mark.slow
def test_usage_is_replayed(import_script, collection, tmp_path, capsys):
    results = tmp_path / "usage.json"
    options = ["--work", str(tmp_path / "work"), "--seeds", "1", "--results", str(results)]
    import_script("replay_usage").main([str(collection), *options])
    row = json.loads(results.read_bytes())["collections"]["collection"]
    assert (row["requests"], len(row["loads"])) == (2, 6)
    assert row["without"] == {"nDCG@10": 1.0, "Success@1": 1.0}
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 2 + 2
    assert rows[2].startswith("| collection | 100.0 | 1 | +0.0 (+0.0 to +0.0) |")


@runs("answers")
@pytest.mark.slow
def test_answers_are_counted_with_examples_and_without(import_script, tmp_path, capsys):
    """By the command that users have; some requests of the package's collection stand for all."""
    whole, folder = load_collection(EXAMPLE), tmp_path / "example"
    some = {"queries": whole.queries[::9], "negatives": whole.negatives[::9]}
    qrels = {query.query_id: whole.qrels[query.query_id] for query in some["queries"]}
    save_collection(replace(whole, **some, qrels=qrels), folder)
    examples = tmp_path / "examples.jsonl"
    record = {"collection": "example", "_id": "kubernetes-crashloop", "examples": ["pods die"]}
    examples.write_text(json.dumps(record), "utf-8")
    results = tmp_path / "answers.json"
    options = ["--examples", str(examples), "--results", str(results)]
    import_script("answers").main([str(folder), *options])
    report = json.loads(results.read_bytes())
    assert [*report["collections"]] == ["example", "example, with examples"]
    for row in report["collections"].values():
        assert 0.3 < row["recall"] <= row["recall"] + row["perhaps"] + row["none"] <= 1
        for said in row["unanswerable"].values():
            none = said["none"]
            assert 0 <= none["page"] <= none["terminal"] <= none["prompt"] <= 1 - said["answered"]
            assert none["list"] == pytest.approx(none["prompt"])
    assert "pods die" not in results.read_text("utf-8")
    assert "| example, with examples: " in capsys.readouterr().out


@runs("end_to_end")
@pytest.mark.slow
def test_each_way_to_a_skill_is_measured(import_script, collection, tmp_path, make_skill, capsys):
    """By the real hook, daemon and server; the listing of three skills is whole everywhere."""
    pytest.importorskip("mcp")
    for name in ("wax-floors", "saw-oak"):
        make_skill(tmp_path / "fillers", name, f"How to {name}.")
    results = tmp_path / "end_to_end.json"
    options = ["--fillers", str(tmp_path / "fillers"), "--agent", str(collection), "--sizes", "3"]
    options += ["--timed", "1", "--requests", "2", "--results", str(results)]
    import_script("end_to_end").main([str(collection), *options])
    report = json.loads(results.read_bytes())
    (library,) = report["libraries"]
    counted = {key: library[key] for key in ("skills", "judged", "tasks", "agent", "nothing")}
    assert counted == {
        **{"skills": 3, "judged": 2, "tasks": 2, "agent": 2},
        "nothing": {"ordinary": 2, "twins": 0},
    }
    ways = library["ways"]
    for host in HOSTS:
        assert (ways[host]["right"]["whole"], ways[host]["wrong"]) == (1, 2)
        assert ways[host]["nothing"]["ordinary"]["skills"] == 3
    assert (ways["perfect choice"]["right"]["whole"], ways["perfect choice"]["wrong"]) == (1, 0)
    assert ways["hook"]["right"]["whole"] == ways["MCP search"]["right"]["whole"] == 1
    assert 0 < ways["hook"]["tokens"] < ways["MCP search"]["tokens"]
    assert all(ways[way]["time"]["wall_ms"] > 0 for way in ("hook", "MCP search"))
    assert import_script("turns.counts").table(report) in capsys.readouterr().out


@runs("vague_names")
def test_names_say_what_they_stand_for(import_script, capsys, tmp_path, monkeypatch):
    counting = import_script("vague_names")
    for counted, shares in counting.per_ten_thousand(counting.PACKAGE).items():
        assert sum(shares.values()) <= MOST_VAGUE[counted], (counted, shares)
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "skill.py").write_text("one = found = left = 1", encoding="utf-8")
    (tmp_path / "a.py").write_text(
        "# one\none = [1, 'found', 'kind']\nhit = one[0]\nx.kind = y.of(kind=said)\n"
        "def f(of): x: Kind",
        encoding="utf-8",
    )
    monkeypatch.setattr(counting, "PACKAGE", tmp_path)
    counting.main(["--list"])
    *lines, of_names, of_variables = capsys.readouterr().out.splitlines()
    vague = ((2, "one"), (3, "one"), (5, "of"))
    assert lines == [f"{tmp_path.name}/a.py:{number}: {name}" for number, name in vague]
    assert of_names.startswith(f"{1e4 * 2 / 14:.1f} of 10,000 names say nothing: one ")
    nothing = "kind 0.0, said 0.0, left 0.0"
    assert of_variables == f"2500.0 of 10,000 variables say nothing: {nothing}, of 2500.0"


@pytest.mark.slow
@pytest.mark.parametrize("folder", [SCRIPTS, SCRIPTS.parent / "tests"], ids=lambda path: path.name)
def test_names_of_scripts_and_tests_do_so_too(import_script, folder):
    counting = import_script("vague_names")
    names = Counter(name for _, _, name in counting.names(folder))
    vague = sum(names[name] for name in counting.VAGUE)
    assert 1e4 * vague / names.total() <= MOST_VAGUE["names"]


def test_the_table_of_speed_is_printed(import_script, capsys):
    report = import_script("benchmark.report")
    report.print_report(json.loads(report.RESULTS.read_bytes()))
    assert report.table(json.loads(report.RESULTS.read_bytes())) in capsys.readouterr().out


@runs("pages")
def test_pages_have_what_tables_and_results_say(import_script, capsys):
    with pytest.raises(SystemExit) as caught:
        import_script("pages").main(["--check"])
    assert caught.value.code is False
    assert capsys.readouterr().out == "All parts of the pages are as they should be.\n"


def test_an_old_part_is_named_and_then_written(import_script, tmp_path, monkeypatch, capsys):
    pages = import_script("pages")
    monkeypatch.setattr(pages, "CHECKOUT", tmp_path)
    monkeypatch.setattr(pages, "PARTS", [pages.Part("page.md", "tea", lambda: "green")])
    monkeypatch.setattr(pages.benchmark.report, "PLOT", tmp_path / "growth.png")
    page, old = tmp_path / "page.md", "a\n<!-- tea -->\nblack\n<!-- end of tea -->\nb\n"
    page.write_text(old, encoding="utf-8")
    (tmp_path / "growth.png").touch()
    with pytest.raises(SystemExit) as caught:
        pages.main(["--check"])
    assert (caught.value.code, page.read_text(encoding="utf-8")) == (True, old)
    assert capsys.readouterr().out == "page.md: tea\ngrowth.png\n"
    with pytest.raises(SystemExit):
        pages.main([])
    assert page.read_text(encoding="utf-8") == old.replace("black", "green")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(SystemExit, match="needs the marks of tea once; it has them 0 times"):
        pages.main([])


def test_made_skills_differ_as_real_ones_do(import_script, tmp_path):
    """Of hundreds, made of a dozen, next to none are near-copies; of real ones 7 % are."""
    from skillsearch.index.skill_index import SkillIndex

    corpus, vectors = import_script("benchmark.corpus"), import_script("benchmark.vectors")
    originals = import_script("bench").read_skills(None, 12)
    root, index_dir = vectors.make_corpus(originals, 120, tmp_path)
    index = SkillIndex.from_roots(root, index_dir=index_dir)
    assert len(index) == 120
    assert sum(len(family) - 1 for family in index.families()) <= 2
    made = list(corpus.mixtures(originals, 400))
    assert len({each.text.description for each in made}) == 400
    assert [each.sources[0] for each in made[:13]] == [*range(12), 0]
    mean = sum(len(each.text.body) for each in made) / 400
    usual = sum(len(each.body) for each in originals) / 12
    assert 0.7 < mean / usual < 1.4
    brief = [
        corpus.Text(f"n{n}", about, "words") for n, about in enumerate(("没有空格", "in 3 words"))
    ]
    assert all(each.text.description for each in corpus.mixtures(brief, 90))


@runs("compare")
@pytest.mark.slow
def test_our_own_row_of_the_comparison_has_quality_cost_and_tokens(
    import_script, collection, tmp_path, monkeypatch, capsys
):
    """In this environment: to make others, packages are downloaded, which a night does."""
    compare = import_script("compare")
    here = compare.Environment(Path(sys.executable), 1.0, [])
    monkeypatch.setattr(compare, "install", lambda *_args, **_options: here)
    monkeypatch.setattr(import_script("comparison.measure"), "COLD_RUNS", 1)
    file = tmp_path / "report.json"
    options = ["--peers", "skillsearch", "--collections", str(collection), "--json", str(file)]
    monkeypatch.setattr(sys, "argv", ["compare.py", *options, "--work", str(tmp_path / "work")])
    with pytest.raises(SystemExit) as ended:
        compare.main()
    assert ended.value.code == 0
    row = json.loads(file.read_bytes())["collections"]["collection"]["skillsearch"]
    assert row["ndcg"][0] == 1
    assert row["measured"].keys() == {"quality", "cost"}
    assert min(row[key] for key in ("cold_cpu_s", "server_cpu_s", "hook_cpu_s")) > 0
    assert row["tokens"].keys() == {"definitions", "answer", "hook"}
    assert "skillsearch" in capsys.readouterr().out


def test_a_comparison_is_plotted(import_script, tmp_path):
    report = json.loads((SCRIPTS / "results" / "compare.json").read_bytes())
    import_script("comparison.plot").draw(report, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


@runs("check_mcp")
def test_without_npm_nothing_is_checked_and_that_is_said(tmp_path):
    assert run_script("check_mcp", PATH=str(tmp_path), code=3).startswith("npm is not installed")


@runs("mutate")
@pytest.mark.slow
def test_every_mutant_asked_for_is_judged():
    report = json.loads(run_script("mutate", "--count", 1, "--seed", 3, "--least", 0, "--json"))
    assert (report["mutants"], report["noticed"] in (0, 1)) == (1, True)


@runs("measure_written")
@pytest.mark.slow
def test_both_editions_are_measured_by_the_same_figures(tmp_path):
    results = tmp_path / "written.json"
    run_script("measure_written", EXAMPLE, "--results", results)
    report = json.loads(results.read_bytes())
    figures = {tuple(key): values for *key, values in report["figures"]}
    whole, first = (
        {tuple(key): values for (name, *key), values in figures.items() if name == edition}
        for edition in (EXAMPLE.name, "first")
    )
    assert whole == first  # it has fewer lines than the first edition of the written collection
    assert whole["hybrid", "nDCG@10"][0] > whole["bm25", "nDCG@10"][0] > 0.5
    assert {"commit", "date"} <= report["machine"].keys()


@runs("real_collections")
def test_requests_over_real_skills_become_judged_collections(
    import_script, tmp_path, monkeypatch, capsys
):
    script = import_script("real_collections")
    skills = tmp_path / "skills"
    requests_of = {
        name: list(map(json.loads, (script.REQUESTS / f"{name}.jsonl").read_text().splitlines()))
        for name in ("development", "short", "nothing")
    }
    requests = [request for some in requests_of.values() for request in some]
    right = [request["skill"] for request in requests if request.get("skill")]
    for number, path in enumerate([*right, "zoe+home/copy/SKILL.md"]):
        (skills / path).parent.mkdir(parents=True, exist_ok=True)
        said = f"Does the {number % len(right)}th thing."
        (skills / path).write_text(f"---\ndescription: {said}\n---\nSteps.\n", "utf-8")
    (skills / "zoe+home" / "broken").mkdir()
    (skills / "zoe+home" / "broken" / "SKILL.md").write_text("", "utf-8")
    monkeypatch.setattr(sys, "argv", ["real_collections", str(skills), str(tmp_path / "out")])
    script.main()
    assert "left out" in capsys.readouterr().out
    for name, requests in requests_of.items():
        collection = load_collection(tmp_path / "out" / f"real-{name}")
        judged = [request for request in requests if request.get("skill")]
        assert len(collection.documents) == len(set(right))
        assert len(collection.queries) == max(len(judged), 1)
        assert len(collection.negatives) == len(requests) - len(judged)


@runs("near_twins")
def test_near_twins_of_requests_join_them(import_script, material, tmp_path, monkeypatch):
    out = tmp_path / "out.jsonl.gz"
    monkeypatch.setattr(sys, "argv", ["near_twins.py", *map(str, material), str(out)])
    import_script("near_twins").main()
    with gzip.open(out, "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    assert records[: len(REQUESTS)] == REQUESTS
    assert len(records) > len(REQUESTS)


@runs("nightly")
@runs("soak_index")
@runs("soak_run")
@pytest.mark.slow
def test_a_quick_night_passes_its_steps_and_saves_the_file_of_the_day(tmp_path):
    """Killed writers leave a whole index, killed callers no process; the file of the day says so.

    A step whose script finds anything else fails.
    """
    shown = run_script("nightly", "--quick", "--steps", "kills", "run", "--results", tmp_path)
    assert [line.split(",")[0] for line in shown.splitlines()] == ["kills: passed", "run: passed"]
    (file,) = tmp_path.glob("*-quick.json")
    steps = json.loads(file.read_bytes())["steps"]
    assert steps["kills"]["found"]["killed"] >= 2
    assert steps["run"]["found"]["local.callers_killed"] >= 1
    assert (tmp_path / "history-quick.png").exists()


@runs("figures")
@pytest.mark.slow
def test_figures_are_made_by_steps_whose_results_say_where_and_when(tmp_path):
    shown = run_script("figures", "--quick", "--only", "attacks", "pages", "--results", tmp_path)
    assert [line.split(",")[0] for line in shown.splitlines()] == ["attacks: made", "pages: made"]
    (file,) = tmp_path.glob("*.json")
    assert {"commit", "date", "cpus"} <= json.loads(file.read_bytes())["machine"].keys()


def test_a_figure_that_cannot_be_made_fails(import_script, tmp_path, monkeypatch, capsys):
    figures = import_script("figures")
    step = figures.Step("real_collections.py", "{material}/none {work}", "")
    monkeypatch.setattr(figures, "STEPS", {"speed": step, "pages": figures.STEPS["pages"]})
    with pytest.raises(SystemExit) as caught:
        figures.main(["--material", str(tmp_path), "--only", "speed", "--results", str(tmp_path)])
    assert caught.value.code is True
    assert capsys.readouterr().out.startswith("speed: ended with 1: IndexError")
    with pytest.raises(SystemExit, match="2"):
        figures.main([])


@runs("soak_mcp")
@pytest.mark.slow
def test_clients_at_once_get_no_wrong_answer():
    pytest.importorskip("mcp")
    report = json.loads(run_script("soak_mcp", "--minutes", 0.05, "--clients", 2))
    assert report["errors"] == 0


@runs("merge_examples")
def test_examples_are_checked_and_merged_into_the_package_s(import_script, tmp_path, capsys):
    merge = import_script("merge_examples")
    for skill in SKILLS:
        folder = tmp_path / "skills" / skill["name"]
        folder.mkdir(parents=True)
        head = f"name: {skill['name']}\ndescription: {skill['description']}"
        (folder / "SKILL.md").write_text(f"---\n{head}\n---\n\n{skill['body']}")
    examples = ["The spout leaks again", "my water boiler will not switch on"]
    examples.append("Grandma's copper pot has a dent, and tea is at four")
    examples.append("Which seal does a lid want?")
    record = {"name": "mend-kettle", "repository": "made/up", "examples": examples}
    new_file, output = tmp_path / "given.jsonl", tmp_path / "examples.jsonl.gz"

    def merged(record):
        new_file.write_text(json.dumps(record) + "\n", encoding="utf-8")
        words = ["merge_examples", str(new_file), "--skills", str(tmp_path / "skills")]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", [*words, "--output", str(output)])
            return merge.main()

    assert merged(record) == 0
    before, first = [*merge.read_examples(merge.PACKAGED)], output.read_bytes()
    new = {record["digest"]: record for record in merge.read_examples(output)}
    assert len(new) == len(before) + 1
    assert [row["examples"] for row in new.values() if row["name"] == "mend-kettle"] == [examples]
    assert merge.packed(new) == first
    assert merged(record | {"examples": [*examples[:3], SKILLS[0]["description"][:40]]}) == 1
    assert output.read_bytes() == first
    assert "given.jsonl:1: " in capsys.readouterr().err
