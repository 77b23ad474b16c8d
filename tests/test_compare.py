"""The comparison with peers, where no peer is needed, and the mutations of lines."""

import ast
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.skills.parser import read_skill

PEERS = Path(__file__).parents[1] / "scripts" / "comparison" / "peers"
SERVER = """
import time
while time.process_time() < 0.05:  # a clock of CPU ticks has to see it
    pass
import json, sys
def say(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    params = asked.get("params", {})
    if "id" not in asked:
        say({"method": "notifications/message", "params": {}})
        continue
    answers = {
        "initialize": {"instructions": "ask me", "protocolVersion": params.get("protocolVersion")},
        "tools/list": {"tools": [{"name": "find", "description": "finds", "hidden": "x" * 500}]},
    }
    if asked["method"] in answers:
        say({"id": asked["id"], "result": answers[asked["method"]]})
    elif params["name"] != "find":
        say({"id": asked["id"], "error": {"code": -32602, "message": "no such tool"}})
    else:
        text = " ".join([params["arguments"]["words"], *params["arguments"]["roots"]])
        is_bad = params["arguments"]["words"] == "bad"
        content = [{"type": "text", "text": text}]
        say({"id": asked["id"], "result": {"content": content, "isError": is_bad}})
"""
"""An MCP server that answers with what it was asked, and says more than it has to."""


def script(name):
    """Make a fixture that imports a script."""

    @pytest.fixture
    def module(import_script):
        return import_script(name)

    return module


compare = script("compare")
jobs, measure, judging, interfaces = (
    script(f"comparison.{part}") for part in ("jobs", "measure", "judge", "interfaces")
)


@pytest.fixture
def adapters(monkeypatch, tmp_path):
    """The functions that ask peers, with an empty home folder."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.syspath_prepend(PEERS)
    monkeypatch.delitem(sys.modules, "adapters", raising=False)
    import adapters

    return adapters


@pytest.fixture
def collection():
    """Two skills of one name, one whose name is no folder, two requests, and four for nothing."""
    documents = (
        JudgedDocument("a", "brew-tea", "Make tea: green or black.", "# Tea\n---\nHot water."),
        JudgedDocument("b", "brew-tea", "Other tea"),
        JudgedDocument("c", "Café/../crème", 'Foam "milk"\nwell'),
    )
    queries = (JudgedQuery("1", "tea"), JudgedQuery("2", "coffee"))
    none = tuple(JudgedQuery(f"n{number}", "zeppelin") for number in range(4))
    return Collection("made", documents, queries, {"1": {"a": 1}, "2": {"c": 1}}, negatives=none)


def answer(*hits, fits=True, named=True):
    return {"hits": hits, "fits": fits, "named": named}


def test_skills_are_written_as_folders_that_every_parser_reads(jobs, collection, tmp_path):
    ids = jobs.write_skills(collection, tmp_path)
    skills = {}
    for path in tmp_path.glob("*/SKILL.md"):
        skill = read_skill(path, doc_id="x", root=tmp_path)
        skills[ids[path.parent.name]] = skill.name, skill.description, skill.body.strip()
    assert skills == {
        document.doc_id: (document.name, document.description, document.body)
        for document in collection.documents
    }
    assert ids["brew-tea"] == "a"


@pytest.mark.parametrize("name", ["sqlite-fts5", "bm25s", "rank-bm25"])
def test_a_peer_answers_alike_from_a_new_index_and_an_opened_one(
    jobs, measure, collection, adapters, tmp_path, name
):
    """The keys of its hits are folders of skills, the best first; other peers need their own."""
    ids = jobs.write_skills(collection, tmp_path / "skills")
    ask = getattr(adapters, measure.adapter_of(name))
    made, opened = (ask(tmp_path / "skills", fresh) for fresh in (True, False))
    for text in ("hot water", '"FOAM" AND (milk', "?", "zeppelin"):
        hits, fits, named = made(text)
        assert opened(text) == (hits, fits, named)
        assert [score for _, score in hits] == sorted((score for _, score in hits), reverse=True)
        assert fits == named == bool(hits)
        if "milk" in text:
            assert ids[hits[0][0]] == "c"
    assert made("zeppelin") == ([], False, False)


def test_every_peer_has_an_adapter_and_every_interface_a_peer(compare, measure, interfaces):
    tree = ast.parse((PEERS / "adapters.py").read_text("utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {measure.adapter_of(name) for name in compare.PEERS} <= functions
    assert interfaces.SERVERS.keys() | interfaces.HOOKS.keys() <= compare.PEERS.keys()


@pytest.fixture
def installation(interfaces, tmp_path):
    """A folder with the server."""
    (tmp_path / "server.py").write_text(SERVER)
    folders = {"bin": str(tmp_path), "home": str(tmp_path), "skills": str(tmp_path / "skills")}
    return interfaces.Installation(folders, [sys.executable], {})


def test_a_server_is_asked_as_a_host_does_and_its_texts_are_counted(interfaces, installation):
    server = interfaces.Server(("{bin}/server.py",), "find", "words", {"roots": ["{skills}"]})
    with interfaces.Session(server, installation) as session:
        assert session.greet()["protocolVersion"] == interfaces.PROTOCOL
        assert session.search("tea") == f"tea {installation.folders['skills']}"
        with pytest.raises(interfaces.InterfaceError, match="bad"):
            session.search("bad")
        with pytest.raises(interfaces.InterfaceError, match="no such tool"):
            session.call("lose", {})
        assert session.cpu_s() > 0
    tokens = interfaces.tokens_of_server(server, installation, ["tea", "tea pot", "a b c d e"], len)
    assert tokens["answer"] == len("tea pot ~")
    assert len("ask me find finds") < tokens["definitions"] < 200


def test_a_server_that_ends_or_is_silent_is_an_error(interfaces, installation, monkeypatch):
    monkeypatch.setattr(interfaces, "ANSWER_S", 0.2)
    for code in ("", "import time; time.sleep(9)"):
        server = interfaces.Server(("-c", code), "find")
        with (
            interfaces.Session(server, installation) as session,
            pytest.raises(interfaces.InterfaceError),
        ):
            session.greet()


def test_a_hook_reads_the_prompt_of_a_host_and_what_it_adds_is_counted(interfaces, installation):
    code = """
import json, sys
from pathlib import Path
event = json.load(sys.stdin)
late = Path(event["cwd"], event["prompt"])
if event["prompt"] == "late" and not late.exists():
    late.touch()
    sys.exit(print("no time", file=sys.stderr))
if event["prompt"] == "never":
    sys.exit(print("no index", file=sys.stderr))
if event["prompt"] != "quiet":
    added = {"additionalContext": event["prompt"] + " " + event["cwd"]}
    print(json.dumps({"hookSpecificOutput": added}))
"""
    hook = interfaces.Hook(("-c", code.replace("{", "{{").replace("}", "}}")))
    for prompt in ("tea", "late"):
        assert (
            interfaces.run_hook(hook, installation, prompt)[0]
            == f"{prompt} {installation.folders['home']}"
        )
    with pytest.raises(interfaces.InterfaceError, match="no index"):
        interfaces.run_hook(hook, installation, "never")
    tokens = interfaces.tokens_of_hook(hook, installation, ["tea", "quiet"], len)
    assert tokens["hook"] == len("tea ~") / 2


def test_figures_of_a_half_that_is_not_measured_stay(compare):
    old = {"ndcg": 1, "cold_cpu_s": 2, "measured": {"quality": "old", "cost": "old"}}
    new = {"ndcg": 3, "measured": {"quality": "new"}}
    about = {"sizes": {}, "packages": {}, "network": False}
    before = {"collections": {"c": {"bm25s": old, "gone": old}, "d": {"bm25s": old}}, **about}
    report = {"collections": {"c": {"bm25s": new}}, **about}
    rows = compare.joined(before, report)["collections"]
    measured = {"quality": "new", "cost": "old"}
    assert rows["c"] == {"bm25s": {"ndcg": 3, "cold_cpu_s": 2, "measured": measured}}
    assert rows["d"] == {"bm25s": old}
    assert compare.joined(None, report) == report
    assert compare.joined_row({}, {"failed": "why"})["failed"] == "why"
    assert "failed" not in compare.joined_row(old, {"failed": "why"})


def test_a_pair_is_right_if_a_best_skill_is_first_for_both_requests(judging, collection):
    queries = tuple(JudgedQuery(str(number), "tea") for number in range(4))
    qrels = {"0": {"a": 2, "b": 1}, "1": {"b": 2}, "2": {"c": 1}, "3": {"b": 1, "c": 1}}
    pairs = [("0", "1"), ("1", "2"), ("2", "3"), ("2", "n0")]
    several = replace(collection, queries=queries, qrels=qrels)
    first = {"0": "a", "1": "b", "2": "b", "3": "b"}
    answers = {key: {"hits": ((skill, 1.0),)} for key, skill in first.items()}
    verdict = judging.judge_pairs(several, answers, pairs)
    assert (verdict["contrast"][0], verdict["pairs"]) == (0.5, 2)
    answers["0"]["hits"] = (("b", 1.0),)
    assert judging.judge_pairs(several, answers, pairs)["contrast"][0] == 0
    assert judging.judge_pairs(several, answers, []) == {}


def test_a_page_says_when_each_half_was_measured_and_what_was_not(import_script):
    tables = import_script("comparison.tables")
    run = {"date": "2026-11-30", "commit": "abc", "cpus": 2}
    row = {"ndcg": (0.5, 0.4, 0.6), "measured": {"quality": run}}
    rows = {"skillsearch": row, "bm25s": {"cold_cpu_s": 1.0}, "other": {"failed": "not there"}}
    said = tables.when(rows, "quality")
    assert said == "Measured on 2026-11-30 at `abc`; not yet: bm25s, other."
    assert tables.run_of(run, "cost") == "2026-11-30 at `abc`, 2 cores"
    beside = tables.beside_table({"requests-hard": {"bm25s": {"contrast": (0.5, 0.4, 0.6)}}})
    assert beside[0] == "| system | hard ones | hard requests: nDCG@10 |"
    assert beside[2] == "| bm25s | 50.0 (40-60) |  |"
    lines = tables.table(rows, tables.QUALITY)
    assert [line.split(" | ")[:2] for line in lines[2:]] == [
        ["| skillsearch", "50.0 (40-60)"],
        ["| other", "not there"],
    ]


def test_a_threshold_passes_no_more_wrong_answers_than_allowed_and_keeps_what_is_above(judging):
    wrong = np.arange(40.0)  # two of forty are 5 %: 38 and 39 pass, so the threshold is 37
    right = np.array([-np.inf, 5.0, 37.0, 37.5, 38.0, 50.0])
    share, low, high = judging.keep(right, wrong)
    assert share == 3 / 6
    assert 0 <= low <= share <= high <= 1


def test_answers_are_judged_by_ranking_and_by_what_they_say_of_negatives(judging, collection):
    hits = (("a", 0.9), ("c", 0.5))
    none = {
        "n0": answer(("a", 0.2)),
        "n1": answer(fits=False),
        "n2": answer(fits=False, named=False),
        "n3": answer(fits=False, named=False),
    }
    answers = {
        "skillsearch": {"1": answer(*hits), "2": answer(*hits), **none},
        "blind": dict.fromkeys(["1", "2", *none], answer()),
    }
    spoken = zip(collection.queries, ("de", "fr"), strict=True)
    queries = tuple(replace(query, language=language) for query, language in spoken)
    judged = judging.judge(replace(collection, queries=queries), answers)
    ours = judged["skillsearch"]
    assert ours["success_1"][0] == 0.5
    assert ours["ndcg"][0] == pytest.approx((1 + 1 / np.log2(3)) / 2)
    assert (ours["fits"][0], ours["named"][0], ours["kept"][0]) == (0.25, 0.5, 1.0)
    assert ours["told"][0] == 0.5
    assert ours["languages"]["de"] == {"ndcg": 1.0, "recall": 1.0, "requests": 1}
    assert ours["languages"]["fr"]["ndcg"] == pytest.approx(1 / np.log2(3))
    assert judged["blind"]["ndcg"][0] == judged["blind"]["kept"][0] == 0
    assert judged["blind"]["p_holm"] <= 1
    others = judging.judge(collection, dict.fromkeys(["blind", "other"], answers["blind"]))
    assert "p_holm" not in others["other"]


def test_a_mutant_differs_in_one_place_and_numbers_of_docstrings_and_modules_stay(import_script):
    mutate = import_script("mutate")
    body = '    """Less than 3."""\n    return n < 5 and n > 0\n'
    source = f"LIMIT = 3\n\n\ndef is_few(n: int) -> bool:\n{body}"
    tree = ast.unparse(ast.parse(source))
    made = [mutate.mutant(source, at) for at in range(len(mutate.sites(ast.parse(source))))]
    assert sorted(change for _, change in made) == [
        "6: 0 -> 1",
        "6: 5 -> 6",
        "6: n < 5 -> n <= 5",
        "6: n < 5 and n > 0 -> n < 5 or n > 0",
        "6: n > 0 -> n >= 0",
    ]
    assert all(text != tree and text.startswith("LIMIT = 3\n") for text, _ in made)


@pytest.mark.parametrize(("low", "is_fault"), [(0.25, True), (0.15, False)])
def test_attackers_who_surely_gain_fail_the_night(import_script, low, is_fault):
    nightly = import_script("nightly")
    row = {"kind": "stuffing", "gain": 0.3, "gain_interval": [low, 0.5]}
    summary = nightly.summed_up("attacks", {"attacks": [row, {"kind": "none"}]})
    assert summary["worst_gain"] == 0.3
    assert bool(nightly.fault("attacks", 0, "", "", summary)) == is_fault


def test_a_step_that_fails_says_why(import_script, tmp_path, monkeypatch):
    nightly = import_script("nightly")
    monkeypatch.setattr(nightly.steps, "SCRIPTS", tmp_path)
    (tmp_path / "bad.py").write_text("import sys; sys.exit('the disk is full')")
    (tmp_path / "good.py").write_text(f"print({json.dumps(json.dumps({'errors': 0}))})")
    bad = nightly.carry_out("mcp", ["bad.py"], tmp_path / "none", 60)
    assert bad["fault"] == "soak_mcp.py ended with 1: the disk is full"
    (tmp_path / "slow.py").write_text("import os, time; os.fork(); time.sleep(60)")
    slow = nightly.carry_out("mcp", ["slow.py"], tmp_path / "none", 0.5)
    assert slow["fault"] == "not done within 0.5 s"
    good = nightly.carry_out("mcp", ["good.py"], tmp_path / "none", 60)
    assert (good["fault"], good["found"]) == ("", {"errors": 0.0})


@pytest.mark.parametrize(
    ("test", "counts", "fault"),
    [
        ("def test_a():\n    assert 1", {"passed": 1}, ""),
        ("def test_a():\n    assert 0", {"failed": 1}, "test_it.py::test_a']"),
    ],
)
def test_tests_of_the_night_are_counted_and_named(
    import_script, tmp_path, monkeypatch, test, counts, fault
):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # it takes longer than the rest
    (tmp_path / "test_it.py").write_text(test)
    words = ["-m", "pytest", "-rf", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", tmp_path]
    done = import_script("nightly").carry_out("tests", [*map(str, words)], tmp_path / "none", 60)
    assert (done["found"], bool(done["fault"])) == (counts, bool(fault))
    assert done["fault"].endswith(fault)


def test_twins_are_judged_apart_from_other_requests_that_nothing_fits(judging, collection):
    kinds = ("twin", "near", "near", "far")
    negatives = tuple(
        replace(negative, kind=kind)
        for negative, kind in zip(collection.negatives, kinds, strict=True)
    )
    none = {f"n{number}": answer(fits=number != 2) for number in range(4)}
    answers = {query.query_id: answer(("a", 0.9)) for query in collection.queries} | none
    shares_of = judging.judge_negatives(replace(collection, negatives=negatives), answers)
    assert shares_of["fits"][0] == 1
    assert {kind: shares["fits"][0] for kind, shares in shares_of["kinds"].items()} == {
        "twin": 1.0,
        "near": 0.5,
        "far": 1.0,
    }
