"""Tests of the first line that ``--header`` puts before rows."""

import re
from pathlib import Path

import pytest

import skillsearch

PAGE = Path(skillsearch.__file__).parent / "cli" / "README.md"
SAID = {
    name: re.findall(r"`([a-z_]+)`", columns.split(";")[0])
    for names, columns in re.findall(r"^\| (`.+?`) \| (`.+) \|$", PAGE.read_text("utf-8"), re.M)
    for name in re.findall(r"`([a-z -]+)`", names)
    if name in "query list families show status show --files doctor cache eval"
}
"""Commands, and the columns that the page says they have."""
ROWS = {
    "query": ("query", "coffee", "--threshold", "0"),
    "show": ("show", "steep-tea"),
    "show --files": ("show", "steep-tea", "--files"),
}


@pytest.mark.parametrize("name", sorted(SAID.keys() - {"cache", "eval"}))
def test_the_columns_are_those_of_the_page(name, indexed):
    args = ROWS.get(name, (name,))
    plain = indexed(*args).stdout.splitlines()
    head, *rows = indexed(*args, "--header").stdout.splitlines()
    assert head.split("\t") == SAID[name]
    assert all(row.count("\t") == head.count("\t") for row in rows)
    assert [re.sub("\t+$", "", row) for row in rows] == plain


@pytest.mark.slow
def test_the_cache_and_an_evaluation_have_a_header(cli, indexed, tmp_path):
    assert len(SAID) == 9
    head, *_ = cli("cache", "--header").stdout.splitlines()
    assert head.split("\t") == SAID["cache"]
    how = ("--system", "a=model:hashing", "--work", tmp_path / "w")
    head, *rows = cli("eval", "--example", *how, "--header").stdout.splitlines()
    assert head.split("\t") == SAID["eval"]
    assert {row.count("\t") for row in rows} == {head.count("\t")}


def test_tabs_and_line_ends_in_values_are_single_blanks(cli, tmp_path, make_skill):
    make_skill(tmp_path / "skills", "tabbed", "one\ttwo\n\nthree\u2028four \x1b[31mred")
    options = ("--index-dir", tmp_path / "index")
    cli("index", tmp_path / "skills", *options, "--model", "hashing")
    head, row = cli("list", *options, "--header").stdout.splitlines()
    assert dict(zip(head.split("\t"), row.split("\t"), strict=True)) == {
        "name": "tabbed",
        "alias": "skills",
        "description": "one two three four [31mred",
    }


@pytest.mark.parametrize(
    "args",
    [
        ("list", "--json", "--header"),
        ("list", "--header", "--json"),
        ("query", "--batch", "-", "--header"),
        ("eval", "--example", "--confusables", "--header"),
    ],
)
def test_what_prints_no_such_rows_refuses_a_header(args, cli):
    done = cli(*args, stdin="")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--header" in done.stderr
