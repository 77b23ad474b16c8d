"""Tests of the commands with an index in Milvus."""

import json
import shutil
import zipfile

import pytest

from skillsearch.settings import config


@pytest.fixture
def run(cli, milvus, collection):
    def run(command, *args, **options):
        backend = ("--backend", "milvus", "--uri", milvus, "--collection", collection)
        return cli(command, *args, *backend, **options)

    return run


@pytest.mark.milvus
def test_what_was_indexed_is_found(run, root):
    report = json.loads(run("index", root, "--model", "hashing", "--json").stdout)
    assert (report["indexed"], report["embedded"]) == (5, 5)
    answer = json.loads(run("query", "brew filter coffee", "--json").stdout)
    assert [hit["name"] for hit in answer["hits"]] == ["brew-coffee"]
    facts = json.loads(run("status", "--json").stdout)
    assert (facts["indexed"], facts["model"], facts["roots"]) == (5, "hashing", [str(root)])
    assert facts["generation"] == report["generation"]


@pytest.mark.milvus
def test_the_trust_of_a_root_is_kept_there_too(run, root):
    run("index", root, "--model", "hashing", "--trust", "fetched")
    report = json.loads(run("index", "--json").stdout)
    assert (report["roots"], report["trust"]) == ([str(root)], ["fetched"])
    (hit,) = json.loads(run("query", "brew filter coffee", "--json").stdout)["hits"]
    assert hit["trust"] == "fetched"
    assert json.loads(run("status", "--json").stdout)["roots"] == [f"{root} [fetched]"]
    report = json.loads(run("index", "--trust", f"{root}=vetted", "--json").stdout)
    assert (report["trust"], report["embedded"]) == (["vetted"], 0)


@pytest.mark.milvus
def test_an_index_in_milvus_adds_as_a_local_one_does(run, root, tmp_path, make_skill):
    make_skill(tmp_path / "more", "play-chess")
    run("index", root, "--model", "hashing")
    report = json.loads(run("index", tmp_path / "more", "--json").stdout)
    assert (report["indexed"], report["roots"]) == (6, [str(root), str(tmp_path / "more")])
    root.rename(root.with_name("away"))
    result = run("index")
    assert result.exit_code == 2
    command = f"skillsearch index --replace {tmp_path / 'more'} --backend milvus --uri URI"
    assert f"bring it back, or leave its skills out: {command}" in result.stderr
    report = json.loads(run("index", "--replace", tmp_path / "more", "--json").stdout)
    assert (report["indexed"], report["removed"]) == (1, 5)


@pytest.mark.milvus
def test_an_archive_in_milvus_is_looked_at_again(run, root, tmp_path):
    path = tmp_path / "packed.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("one/SKILL.md", "---\nname: one\ndescription: One.\n---\n")
    run("index", path, "--model", "hashing")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("two/SKILL.md", "---\nname: two\ndescription: Two.\n---\n")
    report = json.loads(run("index", root, "--json").stdout)
    assert (report["indexed"], report["roots"]) == (7, [str(root), str(path)])


@pytest.mark.milvus
def test_many_queries_are_answered_with_one_connection(run, root):
    run("index", root, "--model", "hashing")
    lines = '{"_id": 1, "text": "steep green tea"}\n{"_id": 2, "text": "mend a roof"}\n'
    answers = [
        json.loads(line) for line in run("query", "--batch", "-", stdin=lines).stdout.splitlines()
    ]
    assert [(answer["_id"], [hit["name"] for hit in answer["hits"]]) for answer in answers] == [
        (1, ["steep-tea"]),
        (2, []),
    ]


@pytest.mark.milvus
def test_an_archive_that_an_index_in_milvus_is_over_is_not_removed(
    run, cli, root, tmp_path, collection
):
    archive = shutil.make_archive(str(tmp_path / "skills"), "zip", root)
    run("index", archive, "--model", "hashing")
    (left,) = json.loads(cli("cache", "--clear", "--json").stdout)["entries"]
    assert (left["kind"], left["about"]) == ("archive", archive)
    assert left["used_by"] == [f"the collection {collection} in Milvus"]


@pytest.mark.milvus
def test_an_index_that_is_missing_is_exit_code_4(run):
    result = run("query", "tea")
    assert result.exit_code == 4
    assert "There is no index" in result.stderr


@pytest.mark.milvus
def test_a_server_that_is_down_is_exit_code_1(cli):
    pytest.importorskip("pymilvus")
    result = cli("query", "tea", "--backend", "milvus", "--uri", "http://127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "Milvus at http://127.0.0.1:1 could not connect" in result.stderr


def test_the_backend_needs_an_address(cli):
    result = cli("query", "tea", "--backend", "milvus")
    assert result.exit_code == 2
    assert "--uri" in result.stderr


def test_an_address_alone_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_URI", "http://127.0.0.1:1")
    assert config.load_settings(tmp_path).backend == "local"


def test_doctor_shows_the_address_without_its_password(cli, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_URI", "http://somebody:s3cret@127.0.0.1:19530")
    output = cli("doctor").stdout
    assert "uri = http://127.0.0.1:19530" in output
    assert "s3cret" not in output
