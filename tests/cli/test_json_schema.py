"""Tests that what commands print with ``--json`` is what ``--json-schema`` says of it."""

import json

import click
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from skillsearch.cli.app import app
from skillsearch.cli.models import DRAFT
from skillsearch.daemon import client
from skillsearch.evaluation.collection import save_collection
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.training.gains import MeasuredChanges, QualityChange
from skillsearch.training.tuning import Tuned

CONTEXT = click.Context(app)
WITH_JSON = [
    name
    for name in app.list_commands(CONTEXT)
    if any("--json" in item.opts for item in app.get_command(CONTEXT, name).params)
]
BODY = "# Tea\n\n<chunk id=green description='Green tea'>Two minutes.</chunk>\n"
WRITING = ["sh", "-c", "mkdir -p out; echo 2 >out/a.txt"]
OF_INDEX = {
    "query": [
        ["brew filter coffee", "--explain"],
        ["a quantum computer"],
        ["brew-cofee"],
        ["steep green tea or brew filter coffee", "--threshold", "0"],
    ],
    "list": [[]],
    "families": [[]],
    "show": [
        ["steep-tea"],
        ["steep-tea", "--body"],
        ["steep-tea", "--chunk", "green"],
        ["steep-tea", "--file", "SKILL.md"],
        ["steep-tea", "--file", "assets/cup.bin"],
    ],
    "run": [
        ["brew-coffee", "--executor", "local", "--", "sh", "-c", "echo 1; echo 2 >out/a.txt"],
        ["brew-coffee", "--executor", "local", "--output", "out/*", "--", *WRITING],
        ["--list-executors"],
    ],
    "why": [["steep-tea"], ["nothing-like-it"], ["steep-tea", "brew filter coffee"]],
    "status": [[]],
    "doctor": [[]],
    "audit": [[]],
    "prompt": [["brew filter coffee"], ["--all"]],
    "enrich": [["--pending"], ["--list"], ["--accept", "-"], ["--forget", "--stale"]],
    "budget": [[]],
    "catalog": [["site", "--url", "https://skills.example.org"]],
}
"""Arguments beside ``--index-dir`` and ``--json``, for every form of what is printed."""


def schema_of(name):
    return json.loads(CliRunner().invoke(app, [name, "--json-schema"]).stdout)


def check(name, output, lines=1):
    schema = schema_of(name)
    Draft202012Validator.check_schema(schema)
    assert output.count("\n") == lines
    for line in output.splitlines():
        Draft202012Validator(schema).validate(json.loads(line))


def test_every_command_with_json_prints_its_schema_whatever_else_it_needs(cli):
    for name in WITH_JSON:
        done = cli(name, "--json-schema")
        schema = json.loads(done.stdout)
        assert (done.exit_code, schema["$schema"]) == (0, DRAFT)
        for node in objects_in(schema):
            assert node["additionalProperties"] is not True
            assert set(node.get("required", ())) <= set(node.get("properties", ()))


def objects_in(schema):
    """Yield every schema of an object with known keys in a schema."""
    if isinstance(schema, dict):
        if "properties" in schema and schema.get("type") == "object":
            yield schema
        schema = list(schema.values())
    for inner in schema if isinstance(schema, list) else ():
        yield from objects_in(inner)


@pytest.fixture
def teas(drinks, make_skill):
    """Give the drinks a chunk, a binary file and a near-copy."""
    path = make_skill(drinks, "steep-tea", "Steep green tea.", body=BODY)
    (path.parent / "assets").mkdir()
    (path.parent / "assets" / "cup.bin").write_bytes(b"\0\1")
    text = (
        "Grind the beans, wet the filter, pour slowly in circles and wait for the last drop. " * 9
    )
    for name in ("brew-coffee", "brew-coffee-too"):
        make_skill(drinks, name, "Brew filter coffee with a scale.", body=f"# Coffee\n\n{text}\n")
    return drinks


@pytest.mark.parametrize("name", OF_INDEX)
def test_what_a_command_prints_about_an_index_is_valid(name, teas, indexed):
    for args in OF_INDEX[name]:
        cut = args.index("--") if "--" in args else len(args)
        done = indexed(name, *args[:cut], "--json", *args[cut:])
        check(name, done.stdout)


def test_a_batch_is_valid_line_by_line_and_a_key_that_the_model_lacks_is_not(indexed):
    lines = '{"_id": 1, "text": "tea"}\n{"_id": "b", "text": "coffee"}\n'
    check("query", indexed("query", "--batch", "-", stdin=lines).stdout, lines=2)
    record = json.loads(indexed("list", "--json").stdout)
    record["skills"][0]["colour"] = "red"
    assert not Draft202012Validator(schema_of("list")).is_valid(record)
    del record["skills"][0]["colour"], record["skills"][0]["root"]
    assert not Draft202012Validator(schema_of("list")).is_valid(record)


def test_indexing_and_checking_are_valid(cli, drinks, index_dir, make_skill):
    (make_skill(drinks, "broken").parent / "SKILL.md").write_text("no frontmatter", "utf-8")
    options = ("--index-dir", index_dir, "--model", "hashing")
    check("index", cli("index", drinks, *options, "--json").stdout)
    report = cli("validate", drinks, "--json").stdout
    assert json.loads(report)["diagnostics"]
    check("validate", report)
    check("cache", cli("cache", "--json").stdout)
    request = IndexRequest((drinks,), model="hashing", with_body=True)
    _, report = SkillIndex.build(request, index_dir.with_name("watched"))
    check("watch", json.dumps(report.to_dict()) + "\n")
    check("status", cli("status", "--index-dir", index_dir, "--json").stdout)


SKILLS = {
    "brew-coffee": "Brew filter coffee with a scale and a kettle.",
    "steep-tea": "Steep green tea at the right temperature.",
    "regar-plantas": "Riega las plantas de la casa cuando hace falta y avisa si están enfermas.",
}
REQUESTS = [
    *(("en", text, "brew-coffee") for text in ("steep green tea", "steep tea", "green tea now")),
    ("en", "steep green tea at home", "steep-tea"),
    ("es", "quiero regar las plantas de mi casa", "regar-plantas"),
    ("es", "cómo preparo un té verde a buena temperatura", "steep-tea"),
    ("zh", "用咖啡壶煮咖啡", "brew-coffee"),
]
TIMES = 3
"""How often each is made, so that there are enough for every part of a report."""


@pytest.fixture
def collection(tmp_path):
    """Save a collection in three languages, in which coffee loses to tea."""
    documents = [JudgedDocument(name, name, text, "# Use\n") for name, text in SKILLS.items()]
    queries, qrels = [], {}
    for number, (language, text, doc_id) in enumerate(REQUESTS * TIMES):
        queries.append(JudgedQuery(f"q{number}", text, language=language))
        qrels[f"q{number}"] = {doc_id: 1}
    negatives = [JudgedQuery(f"n{number}", f"fly kite number {number}") for number in range(20)]
    negatives.append(JudgedQuery("t", "steep black tea", kind="twin", twin_of="q0"))
    made = Collection("c", tuple(documents), tuple(queries), qrels, negatives=tuple(negatives))
    save_collection(made, tmp_path / "collection")
    return tmp_path / "collection"


@pytest.mark.slow
@pytest.mark.parametrize("more", [["--confusables", "--drop-relevant"], ["--system", "dense"]])
def test_an_evaluation_is_valid(cli, tmp_path, collection, more):
    args = ("eval", collection, "--work", tmp_path / "work", "--json")
    systems = ("--system", "a=model:hashing", "--system", "bm25")
    output = cli(*args, *systems, *more).stdout
    check("eval", output)
    report = json.loads(output)
    assert report["languages"].keys() == {"en", "es", "zh"}
    assert all(report[part] for part in ("abstention", "comparisons", "examples", "style"))
    assert report["cross_language"]["queries"] == 2 * TIMES
    assert bool(report.get("confusables")) is ("--confusables" in more)


@pytest.mark.parametrize("has_gain", [True, False])
def test_a_tuning_is_valid(has_gain, comparison, tmp_path, cli):
    means = {"nDCG@10": 0.5, "R@5": 1.0}
    changes = dict.fromkeys(
        ("dense", "hybrid") if has_gain else ("hybrid",), QualityChange(means, means, comparison)
    )
    measured = {"held_out": MeasuredChanges(3, 4, changes)} if has_gain else {}
    folder = tmp_path if has_gain else None
    tuned = Tuned(has_gain, folder, 3, 0, 5, 0.5, measured, 1.0, ("a note",))
    check("tune", json.dumps(tuned.to_dict()) + "\n")


@pytest.fixture
def comparison():
    from skillsearch.evaluation.types import Comparison

    return Comparison("after", "before", "nDCG@10", 0.1, (0.0, 0.2), 0.04, 0.05, 2, 1, 0)


def test_the_daemon_is_described_validly(cli, serve, indexed):
    check("daemon", cli("daemon", "status", "--json").stdout)
    serve()
    assert indexed("query", "tea").exit_code == 0
    output = cli("daemon", "status", "--json").stdout
    assert json.loads(output)["indexes"]
    assert client.ask("status", seconds=120)["indexes"]
    check("daemon", output)
