"""Tests that the documentation is complete and true."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from skillsearch.cli.app import app
from skillsearch.evaluation import answering
from skillsearch.index.roots.root_change import EXAMPLES
from skillsearch.index.skill_index import SkillIndex
from skillsearch.settings.table import SETTINGS, text_of

COMMANDS = {
    name: app.get_command(click.Context(app), name)
    for name in app.list_commands(click.Context(app))
}
CHECKOUT = Path(__file__).parents[1]
README = CHECKOUT / "README.md"
NEEDS_README = pytest.mark.skipif(not README.exists(), reason="an installed copy has no README")
PAGES = [
    path
    for path in (
        README,
        *sorted(CHECKOUT.glob("scripts/README.md")),
        *EXAMPLES.parent.rglob("*.md"),
    )
    if path.exists() and "examples" not in path.parts and "example" not in path.parts
]
"""README.md and the pages beside the code."""
RUN_PAGES = Path(__file__).with_name("page_blocks.py")
page_blocks = runpy.run_path(str(RUN_PAGES))
TOOLSETS = EXAMPLES.parent / "agents" / "toolsets" / "README.md"
LOCAL_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


def read_all():
    """Return the texts of all pages as one."""
    return "\n".join(path.read_text(encoding="utf-8") for path in PAGES)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name):
    command = COMMANDS[name]
    assert command.help
    assert command.help.splitlines()[0].endswith((".", ":"))
    options = [item for item in command.params if isinstance(item, click.Option)]
    assert [option.name for option in options if not option.help] == []


@NEEDS_README
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_stands_in_the_readme(name):
    assert f"skillsearch {name}" in README.read_text(encoding="utf-8")


@NEEDS_README
def test_the_readme_is_read_in_three_minutes():
    """Details have their place beside the code."""
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 200


@NEEDS_README
def test_every_command_in_the_pages_exists():
    promised = set(re.findall(r"^\$? *skillsearch ([a-z]+)", read_all(), re.MULTILINE))
    assert promised <= set(COMMANDS)


@NEEDS_README
def test_every_option_in_the_pages_exists():
    """Only options of our commands; other programs' are on other lines."""
    options = {
        name for command in COMMANDS.values() for item in command.params for name in item.opts
    }
    options |= {"--help", "-h", "--version"}
    for line in re.findall(r"^\$? *skillsearch .*$", read_all(), re.MULTILINE):
        used = set(re.findall(r"(?<!\S)--[a-z-]+", line.partition("#")[0]))
        assert used <= options, line


@NEEDS_README
def test_nothing_tells_to_install_a_name_that_nobody_has_registered():
    """Whoever registers it would be run by all who follow us."""
    by_name = re.compile(r"install(?: -\S+)* [\"']?skillsearch\b(?![/@])")
    texts = [*PAGES, *CHECKOUT.glob("skillsearch/**/*.py"), *CHECKOUT.glob("skillsearch/**/*.md")]
    assert [path for path in texts if by_name.search(path.read_text(encoding="utf-8"))] == []


def test_links_to_files_lead_somewhere():
    links = [(page, link) for page in PAGES for link in LOCAL_LINK.findall(page.read_text("utf-8"))]
    assert [(page, link) for page, link in links if not (page.parent / link).exists()] == []


@pytest.fixture(scope="module")
def example_index(tmp_path_factory):
    """Index the example skills once, and return the folder."""
    folder = tmp_path_factory.mktemp("example") / "index"
    SkillIndex.from_roots(EXAMPLES, index_dir=folder, model="hashing")
    return folder


@pytest.mark.parametrize(("code", "output"), page_blocks["blocks_of"](read_all()) or [("", None)])
@pytest.mark.slow
def test_python_in_the_pages_runs(code, output, example_index, tmp_path, monkeypatch, home):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "skillsearch").mkdir()
    (tmp_path / "skillsearch" / "examples").symlink_to(EXAMPLES)
    (home / ".claude").mkdir()
    (home / ".claude" / "skills").symlink_to(EXAMPLES)
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(tmp_path / "index"))
    shutil.copytree(example_index, tmp_path / "index")
    page_blocks["run_block"](code, output)


@pytest.mark.slow
def test_the_toolsets_of_the_documents_need_no_extra():
    command = [sys.executable, RUN_PAGES, "--without-extras", TOOLSETS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    blocks = page_blocks["blocks_of"](TOOLSETS.read_text(encoding="utf-8"))
    assert (done.stdout, done.returncode) == (f"{len(blocks)} blocks ran\n", 0), done.stderr


EXAMPLE_SYSTEMS = ("hybrid", "bm25", "dense")
POINTS = 0.25
"""How far a figure in percent may be from the run: the last bits of a model differ by machine."""
POINTS_OF_VECTORS = 2.0
"""The same for systems that go by vectors: a first hit that the bits of a model change is a 63rd of
the cross-language requests."""


@pytest.mark.usefixtures("default_reader")
@NEEDS_README
@pytest.mark.slow
def test_the_example_in_the_page_says_what_a_run_finds(cli, tmp_path, monkeypatch):
    """Every cell of the table, so that the first thing a reader tries does not contradict it."""
    monkeypatch.setattr(answering, "MAX_TIMED", 1)  # the table has no times
    specs = [part for name in EXAMPLE_SYSTEMS for part in ("--system", name)]
    minimum = ("--min", "Success@5=0.6")
    done = cli(
        "eval", "--example", "--drop-relevant", *specs, *minimum, "--work", tmp_path, "--json"
    )
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["settings"]["hybrid"].startswith("hybrid, model onnx")
    assert report["languages"]["en"]["systems"]["hybrid"]["Success@5"] > 0.9
    assert report["cross_language"]["queries"] > 50
    lists = report["states"]["hybrid"]
    assert lists["answerable"]["shown"] > 0.66
    assert lists["negatives"]["none"] > 0.94
    table = read_all().split("AUROC negatives", 1)[1]
    rows = {cells[0]: cells[1:] for cells in map(cells_of, table.split("\n\n")[0].splitlines()[2:])}
    assert rows.keys() == {*EXAMPLE_SYSTEMS}
    for name, cells in rows.items():
        written = re.findall(r"[\d.]+", " ".join(cells))
        said = [
            float(figure) * (100 if re.fullmatch(r"0\.\d{3}", figure) else 1) for figure in written
        ]
        points = POINTS if name == "bm25" else POINTS_OF_VECTORS
        assert said == pytest.approx(example_figures(report, name), abs=points)


def cells_of(line):
    """Return the cells of a row of a Markdown table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def example_figures(report, name):
    """Return the figures of a system in the order of the table, all in percent."""
    parts = [report[part]["systems"] for part in ("same_language", "cross_language")]
    means, abstention = report["systems"][name], report["abstention"][name]
    shares = [means["nDCG@10"], *report["intervals"][name]["nDCG@10"]]
    shares += [part[name]["nDCG@10"] for part in parts]
    shares += [means["R@5"], means["Success@1"]]
    auroc = [abstention["auroc"]["negatives"], abstention["auroc"]["dropped relevant"]]
    at = report["states"].get(name)
    behind = [at["answerable"]["recall"], at["negatives"]["false"]] if at else []
    return [100 * figure for figure in (*shares, *auroc, *behind)]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_an_option_is_what_its_setting_says(command):
    """But for options that turn a setting off, and for models to begin with."""
    shown = {
        option.name: option.help
        for option in COMMANDS[command].params
        if option.name in SETTINGS
        and (command, option.name) != ("tune", "model")
        and not any(name.startswith("--no-") for name in option.opts)
        and type(option).__name__ in {"Setting", "SettingOption"}
    }
    assert shown == {name: text_of(name) for name in shown}
