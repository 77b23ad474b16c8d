"""Tests that the documentation is complete and true."""

import re
from pathlib import Path

import click
import pytest

from skillsearch.cli.app import app
from skillsearch.cli.indexing import EXAMPLES
from skillsearch.index.skill_index import SkillIndex

COMMANDS = {
    name: app.get_command(click.Context(app), name)
    for name in app.list_commands(click.Context(app))
}
README = Path(__file__).parents[1] / "README.md"
NEEDS_README = pytest.mark.skipif(not README.exists(), reason="an installed copy has no README")
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LOCAL_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


def read_readme():
    """Return the text of README.md, empty where there is none."""
    return README.read_text(encoding="utf-8") if README.exists() else ""


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name):
    """The first line is a sentence, and so is that of every option."""
    command = COMMANDS[name]
    assert command.help
    assert command.help.splitlines()[0].endswith((".", ":"))
    options = [item for item in command.params if isinstance(item, click.Option)]
    assert [option.name for option in options if not option.help] == []


@NEEDS_README
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_stands_in_the_readme(name):
    """With the program's name before it, as it is typed."""
    assert f"skillsearch {name}" in read_readme()


@NEEDS_README
def test_every_command_in_the_readme_exists():
    """No command is promised that is not there."""
    promised = set(re.findall(r"^\$? *skillsearch ([a-z]+)", read_readme(), re.MULTILINE))
    assert promised <= set(COMMANDS)


@NEEDS_README
def test_every_option_in_the_readme_exists():
    """Options of our commands only; those of other programs stand on other lines."""
    known = {name for command in COMMANDS.values() for item in command.params for name in item.opts}
    known |= {"--help", "-h", "--version"}
    for line in re.findall(r"^\$? *skillsearch .*$", read_readme(), re.MULTILINE):
        used = set(re.findall(r"(?<!\S)--[a-z-]+", line.partition("#")[0]))
        assert used <= known, line


@NEEDS_README
def test_links_to_files_lead_somewhere():
    """Every relative link is a file or folder of the repository."""
    targets = LOCAL_LINK.findall(read_readme())
    assert [target for target in targets if not (README.parent / target).exists()] == []


@pytest.mark.parametrize("block", PYTHON_BLOCK.findall(read_readme()) or [""])
def test_python_in_the_readme_runs(block, tmp_path, monkeypatch, home):
    """Each block runs in an empty folder with the example skills indexed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "skillsearch").mkdir()
    (tmp_path / "skillsearch" / "examples").symlink_to(EXAMPLES)
    (home / ".claude").mkdir()
    (home / ".claude" / "skills").symlink_to(EXAMPLES)
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(tmp_path / "index"))
    SkillIndex.from_roots(EXAMPLES, index_dir=tmp_path / "index", model="hashing")
    exec(compile(block, "README.md", "exec"), {"__name__": "__main__"})
