"""Tests of the connection to a server: addresses, secrets, what is missing or does not answer."""

import inspect
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from skillsearch.errors import ConfigError, MissingDependencyError, RemoteError
from skillsearch.remote import client
from skillsearch.remote.client import MilvusServer, _Client
from skillsearch.remote.remote_index import RemoteIndex

NOBODY = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    "uri", ["", "skills.db", "127.0.0.1:19530", "http://", "ftp://host:1", "http://host:99999"]
)
def test_an_address_that_cannot_be_one_is_refused(uri):
    with pytest.raises(ConfigError, match="--uri http://127"):
        MilvusServer(uri)


@pytest.mark.parametrize("name", ["", "1st", "with space", "käse", "x" * 201, 'a" or id > "'])
def test_a_name_that_milvus_does_not_take_is_refused(name):
    with pytest.raises(ConfigError, match="letters, digits and underscores"):
        RemoteIndex.open(NOBODY, collection=name)


def test_without_pymilvus_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "pymilvus"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(MissingDependencyError, match=r"install .*\[milvus\]"):
        MilvusServer(NOBODY)


def test_pymilvus_is_not_imported_before_a_server_is_asked():
    code = (
        "import sys, skillsearch.remote.remote_index, skillsearch.remote.indexing;"
        "print([name for name in ('pymilvus', 'grpc', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.milvus
def test_a_server_that_is_down_is_an_error_without_secrets(monkeypatch, caplog, capsys):
    pytest.importorskip("pymilvus")
    monkeypatch.setenv("SKILLSEARCH_MILVUS_TOKEN", "root:hush-hush")
    caplog.set_level(logging.DEBUG)
    with pytest.raises(RemoteError) as caught:
        RemoteIndex.open("http://somebody:s3cret@127.0.0.1:1/db")
    output = f"{caught.value}{caplog.text}{capsys.readouterr()}"
    assert "http://127.0.0.1:1/db could not connect" in str(caught.value)
    assert "Check that the server is running" in str(caught.value)
    assert not [word for word in ("hush", "s3cret", "somebody") if word in output]


@pytest.mark.milvus
def test_what_a_server_says_is_told_on_one_line_without_secrets(milvus, capfd):
    server = MilvusServer(milvus, token="root:nowhere")
    with pytest.raises(RemoteError, match=r"could not read: .*\*\*\*") as caught:
        server.query("nowhere", "", ["id"], 1)
    server.close()
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.milvus
def test_what_is_passed_to_milvus_has_the_names_that_it_reads():
    """It takes any other keyword, and ignores it; a few it takes so and reads."""
    theirs = pytest.importorskip("pymilvus").MilvusClient
    by_name = {"limit", "sync", "consistency_level", "partial_update", "timeout"}
    for name, ours in inspect.getmembers(_Client, inspect.isfunction):
        if not name.startswith("_"):
            milvus, own = map(inspect.signature, (getattr(theirs, name), ours))
            keywords = [p.name for p in own.parameters.values() if p.kind == p.KEYWORD_ONLY]
            passed = set(keywords)
            for how in re.findall(r"Unpack\[(\w+)\]", str(own)):
                passed |= getattr(client, how).__annotations__.keys()
            assert passed - milvus.parameters.keys() <= by_name, name


@pytest.mark.milvus
def test_no_env_file_gets_into_the_environment(tmp_path):
    pymilvus = pytest.importorskip("pymilvus")
    (tmp_path / "pymilvus").symlink_to(Path(pymilvus.__file__).parent)
    (tmp_path / ".env").write_text("SKILLSEARCH_URI=http://evil.example\n")
    code = (
        "import os;from skillsearch.remote.client import import_pymilvus;"
        "print(import_pymilvus().__file__, os.environ.get('SKILLSEARCH_URI'),"
        "os.environ.get('PYTHON_DOTENV_DISABLED'))"
    )
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=variables
    )
    assert done.stdout.split() == [str(tmp_path / "pymilvus" / "__init__.py"), "None", "None"]
