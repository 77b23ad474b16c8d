"""An index in Milvus records and learns as one on this machine does, if the settings ask for it."""

import json

import pytest

from skillsearch.index.search.options import SearchOptions
from skillsearch.remote.remote_index import RemoteIndex
from skillsearch.settings.user_folders import data_dir
from skillsearch.usage.log import UsageLog
from skillsearch.usage.recording import learn, origin_of, record, record_load

REQUEST = "steep tea"
OPTIONS = SearchOptions(reader="off", explain=True)


@pytest.fixture
def remote(index_in, root):
    """Open an index of the kitchen in memory."""
    return index_in(root)[0]


@pytest.fixture
def ask(remote):
    """Return the answer of the index, which learns from a log and is recorded there."""

    def answer(log):
        learn(remote, log)
        (result,) = remote.answer([REQUEST], OPTIONS)
        record(log, remote, result)
        return result

    return answer


def best(result):
    return result.shown[0].doc_id, result.shown[0].explain.log_odds


def test_a_load_speaks_for_its_skill(ask, remote, tmp_path):
    log = UsageLog(tmp_path / "usage", "query")
    skill, before = best(ask(log))
    record_load(log, remote, skill)
    again, after = best(ask(log))
    request, load, _ = log.events()
    assert (request.kind, load.kind, load.skill) == ("asked", "loaded", skill)
    assert load.request_id == request.request_id
    assert again == skill
    assert after["usage"] > before["usage"] == 0
    assert {**after, "usage": 0} == before
    assert best(ask(None)) == (skill, before)


def test_it_costs_no_further_request_to_the_server(ask, remote, memory, tmp_path):
    def count(log):
        del memory.requested[:]
        ask(log)
        return len(memory.requested)

    len(remote)  # as opening it does
    log = UsageLog(tmp_path / "usage", "query")
    assert count(None) == count(log) == count(log)


def test_another_collection_learns_nothing_from_it(ask, remote, memory, tmp_path):
    log = UsageLog(tmp_path / "usage", "query")
    record_load(log, remote, best(ask(log))[0])
    other = RemoteIndex(memory, "others")
    memory.point("others", memory.target("skills"), is_new=True)
    learn(other, log)
    assert not other.usage
    learn(remote, log)
    assert remote.usage


@pytest.fixture
def in_memory(cli, remote, monkeypatch):
    """Run commands on the index in memory."""
    monkeypatch.setattr("skillsearch.remote.opening.open_in_milvus", lambda _settings: remote)
    return lambda *args: cli(*args, "--backend", "milvus", "--uri", "http://memory")


@pytest.fixture
def in_milvus(cli, milvus, collection, root):
    """Run commands on an index in Milvus."""
    where = ("--backend", "milvus", "--uri", milvus, "--collection", collection)
    cli("index", root, "--model", "hashing", *where)
    return lambda *args: cli(*args, *where)


@pytest.fixture(params=["in_memory", pytest.param("in_milvus", marks=pytest.mark.milvus)])
def run(request):
    return request.getfixturevalue(request.param)


def test_query_and_show_record_what_is_learned(run, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_USAGE", "hashes")
    first = json.loads(run("query", REQUEST, "--json").stdout)["hits"][0]
    assert "80 degrees" in run("show", "steep-tea", "--body").stdout
    second = json.loads(run("query", REQUEST, "--json").stdout)["hits"][0]
    assert first["name"] == second["name"] == "steep-tea"
    assert second["score"] > first["score"]
    events = UsageLog.own().events()
    assert [(event.kind, event.interface) for event in events] == [
        ("asked", "query"),
        ("loaded", "show"),
        ("asked", "query"),
    ]
    assert events[1].request_id == events[0].request_id


def test_nothing_is_written_unless_usage_is_on(run):
    run("query", REQUEST)
    run("show", "steep-tea")
    assert not data_dir().exists()


def test_a_skill_of_another_machine_is_shown_without_its_files(in_memory, root, tmp_path):
    (root / "steep-tea" / "notes.md").write_text("Mind the cup.")
    assert in_memory("show", "steep-tea", "--files").stdout == "notes.md\n"
    root.rename(tmp_path / "away")
    assert "80 degrees" in in_memory("show", "steep-tea", "--body").stdout
    record = json.loads(in_memory("show", "steep-tea", "--json").stdout)
    assert (record["root"], record["files"]) == (str(root), [])


def test_a_pinned_request_finds_its_skill_first(index_in, make_skill, tmp_path):
    """Even if neither its words nor its meaning bring it in."""
    request = "something hot in the afternoon"
    for number in range(120):
        make_skill(tmp_path / "crowd", f"tea-{number}", description=f"Makes {request} {number}.")
    make_skill(tmp_path / "crowd", "bake-cakes", description="Bakes sponge with lemon icing.")
    remote = index_in(tmp_path / "crowd")[0]
    options = SearchOptions(n=5, reader="off")
    assert "bake-cakes" not in {hit.name for hit in remote.answer([request], options)[0].shown}
    log = UsageLog(tmp_path / "usage", "query")
    skill = remote.find("bake-cakes").doc_id
    log.pin(origin_of(remote), request, remote.analyse(request).vector, skill)
    learn(remote, log)
    first, *others = remote.answer([request], options)[0].shown
    assert first.name == "bake-cakes"
    assert others
