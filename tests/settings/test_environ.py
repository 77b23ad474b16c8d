"""Tests of what a process finds around it: by which command this copy gets an extra."""

import json
import shlex
import shutil
import sys
from importlib import util
from pathlib import Path

import pytest

from skillsearch.errors import MissingDependencyError
from skillsearch.settings import environ

PIP = [sys.executable, "-m", "pip", "install"]


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
        place = site / "skillsearch-0.1.0.dist-info"
        place.mkdir(parents=True)
        (place / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: skillsearch\nVersion: 0.1.0\n"
        )
        if record is not None:
            text = record if isinstance(record, str) else json.dumps(record)
            (place / "direct_url.json").write_text(text)
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
        (None, "path/to/skillsearch[mcp]"),
        ("{broken", "path/to/skillsearch[mcp]"),
        ("[]", "path/to/skillsearch[mcp]"),
        ({"url": "file:///no/such/checkout", "dir_info": {}}, "path/to/skillsearch[mcp]"),
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


def test_a_tool_of_uv_keeps_the_extras_that_it_has(installed):
    """Uv rebuilds the environment from the packages it is given."""
    receipt = 'requirements = [{ name = "skillsearch", extras = ["watch"] }, { name = "rich" }]'
    copy = installed(beside={"uv-receipt.toml": f"[tool]\n{receipt}\n"})
    expected = ["uv", "tool", "install", "path/to/skillsearch[mcp,watch]"]
    assert typed(copy.install_extra("mcp")) == expected


def test_a_receipt_that_cannot_be_read_still_says_that_uv_made_it(installed):
    copy = installed(beside={"uv-receipt.toml": "["})
    assert typed(copy.install_extra("mcp")) == ["uv", "tool", "install", "path/to/skillsearch[mcp]"]


def test_pipx_installs_into_its_environment_by_its_name(installed, tmp_path):
    copy = installed(beside={"pipx_metadata.json": "{}"})
    expected = ["pipx", "runpip", "an env", "install", "path/to/skillsearch[mcp]"]
    assert typed(copy.install_extra("mcp")) == expected


def test_an_environment_without_pip_is_one_of_uv(installed, monkeypatch):
    copy = installed()
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    expected = ["uv", "pip", "install", "--python", sys.executable, "path/to/skillsearch[mcp]"]
    assert typed(copy.install_extra("mcp")) == expected


def test_what_lacks_a_library_says_this_command():
    error = MissingDependencyError("mcp", "mcp", "The MCP server")
    assert str(error) == f"The MCP server needs mcp: {environ.install_extra('mcp')}"
