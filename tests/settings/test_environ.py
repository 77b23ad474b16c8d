"""Tests of what a process finds around it: its variables, and the command for an extra."""

import json
import os
import shlex
import shutil
import sys
from importlib import util
from pathlib import Path

import pytest

from skillsearch.errors import MissingDependencyError
from skillsearch.settings import environ

PIP = [sys.executable, "-m", "pip", "install"]
FROM_FOLDER = "path/to/skillsearch[mcp]"


def copy_to(site):
    """Return the module, loaded from a copy of it in another folder."""
    path = site / "skillsearch" / "settings" / "environ.py"
    path.parent.mkdir(parents=True)
    shutil.copyfile(Path(environ.__file__), path)
    spec = util.spec_from_file_location("copied_environ", path)
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return a function that installs a copy in an environment, with the record of its origin."""
    site = tmp_path / "an env" / "site"
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "an env"))
    monkeypatch.syspath_prepend(str(site))

    def install(record=None, *, beside=None):
        dist_info = site / "skillsearch-0.1.0.dist-info"
        dist_info.mkdir(parents=True)
        (dist_info / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: skillsearch\nVersion: 0.1.0\n"
        )
        if record is not None:
            text = record if isinstance(record, str) else json.dumps(record)
            (dist_info / "direct_url.json").write_text(text)
        for name, text in (beside or {}).items():
            (tmp_path / "an env" / name).write_text(text)
        return copy_to(site)

    return install


def typed(command):
    """Return the words of a command, as a shell reads them."""
    return shlex.split(command)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (None, FROM_FOLDER),
        ("{broken", FROM_FOLDER),
        ("[]", FROM_FOLDER),
        ({"url": "file:///no/such/checkout", "dir_info": {}}, FROM_FOLDER),
        (
            {
                "url": "https://git.example/us/skillsearch.git",
                "vcs_info": {"vcs": "git", "requested_revision": "main", "commit_id": "abc"},
            },
            "skillsearch[mcp] @ git+https://git.example/us/skillsearch.git@main",
        ),
        (
            {
                "url": "ssh://git@git.example/us/all.git",
                "vcs_info": {"vcs": "git", "commit_id": "abc"},
                "subdirectory": "python",
            },
            "skillsearch[mcp] @ git+ssh://git@git.example/us/all.git@abc#subdirectory=python",
        ),
        (
            {"url": "file:///w/skillsearch-0.1.0-py3-none-any.whl", "archive_info": {}},
            "skillsearch[mcp] @ file:///w/skillsearch-0.1.0-py3-none-any.whl",
        ),
    ],
    ids=["index", "broken", "odd", "gone", "branch", "commit", "wheel"],
)
def test_an_extra_is_installed_from_where_the_copy_came_from(installed, record, expected):
    copy = installed(record)
    assert typed(copy.install_extra("mcp")) == [*PIP, expected]


def test_a_copy_of_a_folder_is_installed_from_that_folder(installed, tmp_path):
    folder = tmp_path / "my checkout"
    folder.mkdir()
    copy = installed({"url": folder.as_uri(), "dir_info": {}})
    assert typed(copy.install_extra("watch")) == [*PIP, f"{folder}[watch]"]
    assert typed(copy.install_again()) == [*PIP, "--force-reinstall", str(folder)]


def test_a_checkout_stays_one(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    copy = copy_to(tmp_path)
    assert typed(copy.install_extra("mcp")) == [*PIP, "-e", f"{tmp_path}[mcp]"]


UV = ["uv", "tool", "install"]
RECEIPT = 'requirements = [{ name = "skillsearch", extras = ["watch"] }, { name = "rich" }]'


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        # uv rebuilds the environment from the packages it is given
        ("uv-receipt.toml", f"[tool]\n{RECEIPT}\n", [*UV, "path/to/skillsearch[mcp,watch]"]),
        ("uv-receipt.toml", "[", [*UV, FROM_FOLDER]),
        ("pipx_metadata.json", "{}", ["pipx", "runpip", "an env", "install", FROM_FOLDER]),
    ],
    ids=["uv keeps the extras", "a broken receipt is of uv", "pipx knows its environment by name"],
)
def test_an_environment_of_a_tool_is_changed_by_that_tool(installed, file, text, expected):
    copy = installed(beside={file: text})
    assert typed(copy.install_extra("mcp")) == expected


def test_an_environment_without_pip_is_one_of_uv(installed, monkeypatch):
    copy = installed()
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    expected = ["uv", "pip", "install", "--python", sys.executable, FROM_FOLDER]
    assert typed(copy.install_extra("mcp")) == expected


def test_what_lacks_a_library_says_this_command():
    error = MissingDependencyError("mcp", "mcp", "The MCP server")
    assert str(error) == f"The MCP server needs mcp: {environ.install_extra('mcp')}"


@pytest.mark.parametrize(("value", "wanted"), [(None, False), ("", False), ("1", True)])
def test_no_color_counts_where_it_is_not_empty(monkeypatch, value, wanted):
    if value is not None:
        monkeypatch.setenv("NO_COLOR", value)
    assert environ.no_color() is wanted


def test_blas_threads_are_off_unless_the_user_wants_them(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    environ.use_one_blas_thread()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    environ.use_one_blas_thread()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "4"


@pytest.mark.parametrize(("before", "after"), [(None, "1"), ("", "1"), ("0", "0")])
def test_telemetry_is_forbidden_unless_the_user_allows_it(monkeypatch, before, after):
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", before or "")
    if before is None:
        monkeypatch.delenv("ORT_DISABLE_TELEMETRY")
    environ.forbid_telemetry()
    assert os.environ["ORT_DISABLE_TELEMETRY"] == after


@pytest.mark.parametrize("before", [None, "/theirs"])
def test_variables_are_set_for_a_block_alone(monkeypatch, before):
    monkeypatch.setenv("MPLCONFIGDIR", before or "")
    if before is None:
        monkeypatch.delenv("MPLCONFIGDIR")
    with environ.Variables({"MPLCONFIGDIR": "/ours"}):
        assert os.environ["MPLCONFIGDIR"] == "/ours"
    assert os.environ.get("MPLCONFIGDIR") == before
