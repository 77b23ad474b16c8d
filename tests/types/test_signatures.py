"""What callers in Python may pass, and what ``help`` tells them of it."""

import inspect
import pydoc
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import skillsearch
from skillsearch import SkillIndex, SkillLibrary, SkillSearchError, SkillSession
from skillsearch.agents.tool import Toolset
from skillsearch.index.search.options import SearchOptions

WRONG = [42, 3.5, True, b"x", object, [None], {"a": 1}.items]
TEXTS = {"str", "str | None", "str | Path", "str | Path | None"}
CHECKED = TEXTS | {
    "Sequence[str]",
    "str | Path | Iterable[str | Path]",
    "Iterable[str]",
    "Iterable[str] | None",
    "Executor | None",
}


@pytest.fixture
def objects(drinks, tmp_path):
    index = SkillIndex.from_roots(drinks, index_dir=tmp_path / "index", model="hashing")
    return [index, SkillLibrary.of_index(index), SkillSession()]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_what_is_no_text_or_path_is_told_by_name(objects, wrong):
    tried = set()
    for owner in objects:
        for name, method in inspect.getmembers(owner, inspect.ismethod):
            if name.startswith("_"):
                continue
            rows = inspect.signature(method).parameters.values()
            needed = {
                row.name: "x" if row.annotation in TEXTS else ["x"]
                for row in rows
                if row.default is row.empty
            }
            for parameter in [row.name for row in rows if row.annotation in CHECKED]:
                with pytest.raises(SkillSearchError, match=f"{name}: {parameter} is .*; give "):
                    method(**needed | {parameter: wrong})
                tried.add((type(owner).__name__, name, parameter))
    assert len(tried) > 30


OPTIONS = {
    "threshold": ["x", [1]],
    "selection": ["x", 3, [("a",)]],
    "exclude": ["tea", 5, [5]],
    "folder": [5],
    "n": ["x", None],
    "face": ["zz", 3],
    **{key: ["yes", 2, None] for key in ("explain", "include_hidden", "vetted_only")},
}


@pytest.mark.parametrize(("option", "value"), [(k, v) for k, vs in OPTIONS.items() for v in vs])
def test_an_option_of_no_use_is_told(objects, option, value):
    for owner in objects[:2]:
        with pytest.raises(SkillSearchError, match=rf"{option} is "):
            owner.search("steep tea", **{option: value})


@pytest.mark.parametrize("path", ["a\0b", Path("a\0b")])
def test_a_path_that_no_file_can_have_is_told(path):
    for call in (SkillIndex.open, SkillLibrary.open):
        with pytest.raises(SkillSearchError, match=r"index_dir is .*a\\x00b.*; give str or Path"):
            call(path)


def test_what_is_neither_true_nor_false_is_told(objects):
    index, library, session = objects
    calls = [(index.refresh, "verify"), (library.list, "include_hidden")]
    for call, option in calls:
        with pytest.raises(SkillSearchError, match=f"{option} is 'no'; give bool"):
            call(**{option: "no"})
    with pytest.raises(SkillSearchError, match="include_all_docs is 'no'; give bool"):
        session.load("steep-tea", include_all_docs="no")


def test_many_are_not_given_as_one_text(objects):
    with pytest.raises(SkillSearchError, match="queries is 'tea'; give Sequence"):
        objects[0].search_many("tea")
    with pytest.raises(SkillSearchError, match="names is 'tea'; give Iterable"):
        objects[1].load_order("tea")
    for owner in (SkillIndex, SkillLibrary):
        with pytest.raises(
            TypeError, match=r"\.search\(\) got an unexpected keyword argument 'nonsense'"
        ):
            owner.search(None, "tea", nonsense=1)


def test_what_can_be_read_but_once_is_refused_where_it_is_counted_or_read_again(objects):
    with pytest.raises(SkillSearchError, match=r"queries is <generator .*; give Sequence\[str\]"):
        objects[0].search_many(text for text in ["tea"])
    with pytest.raises(SkillSearchError, match=r"exclude is <generator .*; give Collection\[str\]"):
        objects[0].search("tea", exclude=(doc_id for doc_id in ["drinks:steep-tea"]))


@pytest.mark.parametrize("style", ["gemini", None, [], 5])
def test_an_unknown_style_of_definitions_is_told(style):
    message = re.escape(f"{style!r}; use 'openai' or 'anthropic'")
    with pytest.raises(SkillSearchError, match=message) as caught:
        Toolset([]).specs(style)
    assert isinstance(caught.value, ValueError)


def test_help_shows_every_option_with_its_default():
    options = inspect.signature(SearchOptions).parameters
    for owner in (SkillIndex, SkillLibrary, skillsearch.RemoteIndex):
        shown = inspect.signature(owner.search).parameters
        assert list(shown) == ["self", "query", *options]
        differ = {name for name in options if shown[name].default != options[name].default}
        assert differ <= ({"include_hidden"} if owner is SkillLibrary else set())


def test_nothing_public_shows_where_it_lies_in_memory(objects):
    assert set(skillsearch.__all__) <= set(dir(skillsearch))
    for name in skillsearch.__all__:
        assert "at 0x" not in pydoc.render_doc(getattr(skillsearch, name)), name
    assert not [shown for shown in map(repr, objects) if "at 0x" in shown]


MISSPELT = """
from dataclasses import replace

import click

from skillsearch.cli import options as of_commands
from skillsearch import RemoteIndex, SkillIndex, SkillLibrary
from skillsearch.agents.default_tools import ListSkillsArgs, LoadSkillArgs
from skillsearch.agents.schemas import with_names
from skillsearch.agents.tool import Tool
from skillsearch.agents.toolsets.context import SkillsLoader
from skillsearch.execution.executors import Registered
from skillsearch.execution.isolation.container import ContainerExecutor
from skillsearch.execution.isolation.local import LocalExecutor
from skillsearch.settings.config import load_only, load_settings
from skillsearch.settings.table import Settings
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.search.options import SearchOptions


def misspell(index: SkillIndex, library: SkillLibrary, remote: RemoteIndex) -> None:
    options = SearchOptions.of(load_settings(n=3))
    index.search(query="tea", n=3, threshold=0.5)
    index.search("tea", tresholt=0.5)
    index.search_many(["tea"], tresholt=0.5)
    library.search("tea", tresholt=0.5)
    remote.search("tea", tresholt=0.5)
    replace(options, tresholt=0.5)
    print(options.tresholt)
    SkillIndex.from_roots("skills", langauges="all")
    SkillLibrary.from_roots("skills", langauges="all")
    SkillsLoader("skills", langauges="all")
    load_settings(langauges="all")
    load_only("langauges")
    IndexOptions(verfiy=True)


def load(args: LoadSkillArgs) -> str:
    return args.name


def choose(row: Registered) -> None:
    if row.from_image:
        row.from_image(image="alpine")
        row.from_image(imgae="alpine")


Registered(ContainerExecutor, "container", ContainerExecutor)
Registered(LocalExecutor, "none", from_imgae=None)
Registered(LocalExecutor, "none", LocalExecutor)  # misspelt: it takes no image
Tool.of("load_skill", LoadSkillArgs, load)
Tool.of("load_skill", with_names(LoadSkillArgs, ()), load)
Tool.of("list_skills", ListSkillsArgs, load)  # misspelt: the arguments of another function

@click.command("some")
@of_commands.as_json(lambda: of_commands.models.STATUS)
@of_commands.as_json(lambda: of_commands.models.STATSU)
@click.option("--samples", is_flag=True)
@of_commands.threshold
def some_command(samples: bool) -> None:
    settings, flags = of_commands.read_settings(), of_commands.read_flags()
    click.echo((not samples, settings.threshold, flags["index_dir"]))
    click.echo(not smaples)
    click.echo(settings.tresholt)
    click.echo(flags["index_dri"])
"""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("mypy", path=Path(sys.executable).parent), reason="no mypy")
def test_a_misspelt_option_does_not_pass_mypy_in_any_layer(tmp_path):
    file = tmp_path / "misspelt.py"
    file.write_text(MISSPELT)
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(file)]
    checkout = Path(skillsearch.__file__).parents[1]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    wrong = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line}
    lines = enumerate(MISSPELT.splitlines(), start=1)
    misspelt = re.compile("tresholt|langauges|verfiy|smaples|index_dri|STATSU|imgae|misspelt:")
    assert wrong == {number for number, line in lines if misspelt.search(line)}
