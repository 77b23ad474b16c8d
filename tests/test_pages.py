"""Runs the commands of every page in an empty home, and compares what they print with the page."""

import runpy
import tomllib
from pathlib import Path

import pytest

import skillsearch

PACKAGE = Path(skillsearch.__file__).parent
CHECKOUT = PACKAGE.parent
blocks = runpy.run_path(str(Path(__file__).with_name("page_blocks.py")))
TABLE = tomllib.loads(Path(__file__).with_name("pages.toml").read_text("utf-8"))
"""What the commands of a page need, and which are not run, with the reason."""
OUTSIDE = (
    *("README.md", "scripts/README.md"),
    *(".github/CONTRIBUTING.md", ".github/RELEASING.md"),
)
PAGES = {
    str(path.relative_to(CHECKOUT)): path.read_text("utf-8")
    for path in [*map(CHECKOUT.joinpath, OUTSIDE), *sorted(PACKAGE.rglob("README.md"))]
    if path.exists() and "examples" not in path.parts
}
KINDS = {"console", "diff", "python", "sh", "text", "toml", "yaml"}
KEYS = {"asks", "masks", "prepare", "skipped", "slow"}
pytestmark = pytest.mark.skipif("README.md" not in PAGES, reason="an installed copy has no README")


def row_of(command, table):
    """Return what a table says of a command, by the beginning of it; None if it says nothing."""
    return next((value for begin, value in table.items() if command.startswith(begin)), None)


def cases():
    """Return a case for each page with commands."""
    for page, text in PAGES.items():
        row = TABLE.get(page, {})
        if not blocks["commands_of"](text):
            continue
        marks = [pytest.mark.slow] if row.get("slow") else []
        yield pytest.param(page, marks=marks, id=page)


@pytest.mark.parametrize("page", list(cases()))
def test_the_commands_of_a_page_do_what_it_shows(page, tmp_path, runtime):
    row = TABLE.get(page, {})
    terminal = blocks["Terminal"](tmp_path / "home", PACKAGE, XDG_RUNTIME_DIR=str(runtime.parent))
    for command in row.get("prepare", []):
        code, printed = terminal.run(command)
        assert code == 0, (command, printed)
    try:
        for command, shown in blocks["commands_of"](PAGES[page]):
            if row_of(command, row.get("skipped", {})):
                continue
            agreed = " --yes" if command in row.get("asks", ()) else ""
            code, printed = terminal.run(command + agreed)
            if shown is None:
                assert code == 0, (command, printed)
            else:
                assert blocks["is_printed"](printed, shown, row.get("masks", ())), printed
    finally:
        terminal.run("skillsearch daemon stop")


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_what_it_is(page):
    """A block of another kind would be neither run nor known not to be."""
    assert {kind for kind, _ in blocks["fences_of"](PAGES[page])} <= KINDS
    assert PAGES[page].count("\n```") == 2 * len(blocks["fences_of"](PAGES[page]))


@pytest.mark.parametrize("page", TABLE)
def test_the_table_of_exceptions_has_no_row_too_many(page):
    assert TABLE[page].keys() <= KEYS
    commands = [command for command, _ in blocks["commands_of"](PAGES[page])]
    rows = TABLE[page].get("skipped", {})
    assert [begin for begin in rows if not any(c.startswith(begin) for c in commands)] == []


@pytest.mark.parametrize(
    ("printed", "shown", "masks", "expected"),
    [
        ("a\nb\n", "a\nb\n", (), True),
        ("a\nb\n", "a\n", (), False),
        ("a\nb\nc\nd\n", "a\n...\nd\n", (), True),
        ("a.c\n", "abc\n", (), False),
        ('{"seconds": 0.2}\n', '{"seconds": 1}\n', ("seconds",), True),
        ('{"seconds": 0.2, "n": 1}\n', '{"seconds": 1, "n": 2}\n', ("seconds",), False),
    ],
)
def test_what_a_page_shows_is_compared_line_by_line(printed, shown, masks, expected):
    assert blocks["is_printed"](printed, shown, masks) is expected
