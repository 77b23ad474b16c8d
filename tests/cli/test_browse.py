"""Tests of ``skillsearch list`` and ``show``, and of what a terminal is spared."""

import base64
import io
import itertools
import json
import shutil
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from skillsearch.budget.costs import report_budget
from skillsearch.budget.tables import levels
from skillsearch.cli import tables
from skillsearch.cli.tables import print_hits
from skillsearch.types.answers import Family, Hit, Relative, SearchResult

HOSTILE = (
    "Red \x1b[31m\x1b]0;title\x07 \u202egnp.exe\u202c \u200b[bold]loud[/bold] \U000e0041\nnext"
)
SHOWN = "Red [31m]0;title gnp.exe [bold]loud[/bold] next"


def test_list_as_json_is_one_object(indexed, drinks):
    record = json.loads(indexed("list", "--json").stdout)
    assert record["count"] == len(record["skills"]) == 3
    assert record["skills"][0] == {
        "name": "brew-coffee",
        "description": "Brew filter coffee with a scale. Use for espresso and roasting questions.",
        "doc_id": "drinks:brew-coffee",
        "alias": "drinks",
        "root": str(drinks),
        "path": str(drinks / "brew-coffee" / "SKILL.md"),
        "hidden": False,
        "tags": [],
        "trust": "vetted",
        "origin": "",
    }


def test_an_empty_index_lists_nothing_and_says_so(cli, tmp_path):
    (tmp_path / "none").mkdir()
    cli("index", tmp_path / "none", "--index-dir", "i", "--model", "hashing")
    result = cli("list", "--index-dir", "i")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "holds no skill" in result.stderr


def test_show_gives_an_overview(indexed, drinks):
    (drinks / "brew-coffee" / "references").mkdir()
    (drinks / "brew-coffee" / "references" / "beans.md").write_text("Beans\n")
    rows = [line.split("\t") for line in indexed("show", "BREW-coffee").stdout.splitlines()]
    assert ["name", "brew-coffee"] in rows
    assert ["license", "MIT"] in rows
    assert ["path", str(drinks / "brew-coffee" / "SKILL.md")] in rows
    assert rows[-1] == ["file", "references/beans.md"]


def test_show_as_json_holds_frontmatter_and_files(indexed):
    record = json.loads(indexed("show", "brew-coffee", "--json").stdout)
    assert record["frontmatter"]["license"] == "MIT"
    assert (record["files"], record["files_truncated"], record["stale"]) == ([], False, False)
    assert "body" not in record
    with_body = json.loads(indexed("show", "brew-coffee", "--json", "--body").stdout)
    assert with_body["body"].lstrip().startswith("# Coffee\n")


def test_show_prints_a_body_the_files_or_a_text_as_it_is(indexed, drinks):
    (drinks / "steep-tea" / "notes.md").write_text("one\n\ttwo\n")
    assert indexed("show", "steep-tea", "--body").stdout.strip() == "# Tea\n\nUse 80 C."
    assert indexed("show", "steep-tea", "--files").stdout == "notes.md\n"
    assert indexed("show", "steep-tea", "--file", "notes.md").stdout == "one\n\ttwo\n"
    record = json.loads(indexed("show", "steep-tea", "--file", "notes.md", "--json").stdout)
    assert record == {"name": "steep-tea", "file": "notes.md", "bytes": 9, "text": "one\n\ttwo\n"}


PARTS = (("--body",), ("--files",), ("--file", ""), ("--chunk", ""))


@pytest.mark.parametrize("parts", list(itertools.combinations(PARTS, 2)))
def test_show_refuses_two_parts_at_once(indexed, parts):
    done = indexed("show", "steep-tea", *itertools.chain(*parts))
    assert done.exit_code == 2
    assert f"{parts[0][0]} and {parts[1][0]} ask for different things" in done.stderr


@pytest.mark.parametrize("data", [b"\x89PNG\x00\x01", b"caf\xe9"])
def test_show_file_refuses_what_is_no_text(indexed, drinks, data):
    (drinks / "steep-tea" / "logo.png").write_bytes(data)
    result = indexed("show", "steep-tea", "--file", "logo.png")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"'logo.png' is not text ({len(data)} bytes)" in result.stderr
    record = json.loads(indexed("show", "steep-tea", "--file", "logo.png", "--json").stdout)
    assert base64.b64decode(record["base64"]) == data


@pytest.mark.parametrize(
    "path", ["../brew-coffee/SKILL.md", "/etc/passwd", "a/../../x", "link", ""]
)
def test_show_file_never_leaves_the_skill(indexed, drinks, path):
    (drinks / "steep-tea" / "link").symlink_to("/etc/passwd")
    result = indexed("show", "steep-tea", "--file", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "ask for a file inside the skill folder" in result.stderr


CHUNKED = """# Tea

<chunk id="green" description="How long green tea takes">
Two minutes.
</chunk>
<chunk id=black>Four \x1b[31mminutes.</chunk>
"""


@pytest.fixture
def chunked(indexed, drinks, make_skill):
    """Run commands on an index that lacks the chunks that a skill got since."""
    make_skill(drinks, "steep-tea", "Steep tea.", CHUNKED)
    return indexed


def test_show_lists_the_chunks_of_a_skill(chunked):
    rows = [line.split("\t") for line in chunked("show", "steep-tea").stdout.splitlines()]
    chunks = [row for row in rows if row[0] == "chunk"]
    assert chunks == [["chunk", "green: How long green tea takes"], ["chunk", "black"]]
    record = json.loads(chunked("show", "steep-tea", "--json").stdout)
    assert record["chunks"] == [
        {"id": "green", "description": "How long green tea takes"},
        {"id": "black", "description": ""},
    ]
    assert "\nchunk\t" not in chunked("show", "brew-coffee").stdout
    assert "chunks" not in json.loads(chunked("show", "brew-coffee", "--json").stdout)


def test_show_body_leaves_chunks_out(chunked):
    done = chunked("show", "steep-tea", "--body")
    assert "minutes." not in done.stdout
    assert "the chunks green, black are left out (--chunk ID prints one" in done.stderr
    record = json.loads(chunked("show", "steep-tea", "--body", "--json").stdout)
    assert record["body"].split() == done.stdout.split()
    assert "Two minutes." in chunked("show", "steep-tea", "--file", "SKILL.md").stdout
    assert chunked("show", "brew-coffee", "--body").stderr == ""


def test_show_chunk_prints_one_chunk(chunked):
    assert chunked("show", "steep-tea", "--chunk", "green").stdout == "Two minutes.\n"
    assert chunked("show", "steep-tea", "--chunk", "black").stdout == "Four [31mminutes.\n"
    record = json.loads(chunked("show", "steep-tea", "--chunk", "black", "--json").stdout)
    assert record == {
        "name": "steep-tea",
        "chunk": "black",
        "description": "",
        "text": "Four [31mminutes.",
    }
    both = chunked("show", "steep-tea", "--chunk", "green", "--file", "notes.md")
    assert both.exit_code == 2
    assert "--file and --chunk" in both.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("steep-tea", "has no chunk 'red'; ask for one of: green, black."),
        ("brew-coffee", "no chunks at all"),
    ],
)
def test_an_unknown_chunk_exits_with_1_and_gets_those_that_there_are(chunked, name, message):
    result = chunked("show", name, "--chunk", "red")
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr


@pytest.mark.parametrize("refresh", ["true", "false"])
def test_a_file_that_changed_since_is_shown_and_flagged_if_it_is_not_indexed(
    indexed, drinks, make_skill, monkeypatch, refresh
):
    monkeypatch.setenv("SKILLSEARCH_REFRESH", refresh)
    make_skill(drinks, "steep-tea", "Steep black tea.")
    result = indexed("show", "steep-tea", "--json")
    record = json.loads(result.stdout)
    assert (record["stale"], record["description"]) == (refresh == "false", "Steep black tea.")
    assert ("has changed since it was indexed" in result.stderr) == (refresh == "false")


@pytest.mark.parametrize(
    ("refresh", "said"), [("true", "No skill is named"), ("false", "cannot be read")]
)
def test_a_skill_that_is_unknown_or_gone_exits_with_1(indexed, drinks, monkeypatch, refresh, said):
    result = indexed("show", "brew-cofee")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "No skill is named 'brew-cofee'. Did you mean: brew-coffee" in result.stderr
    monkeypatch.setenv("SKILLSEARCH_REFRESH", refresh)
    (drinks / "steep-tea" / "SKILL.md").unlink()
    result = indexed("show", "steep-tea")
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr


def make_result(count=2, **changes):
    values = {"name": "red-ink", "description": HOSTILE, "path": "/r/red-ink/SKILL.md", **changes}
    hits = [
        Hit(rank=n, score=0.5, root="/r", doc_id=f"r:{n}", **values) for n in range(1, count + 1)
    ]
    return SearchResult("q", 0.3, tuple(hits), False, 0.0)


def table_of(result, width=80, **options):
    file = io.StringIO()
    print_hits(result, Console(file=file, width=width, **{"highlight": False, **options}))
    return file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_table_of_hits_is_harmless_and_fits(width):
    colourful = table_of(make_result(), width, force_terminal=True, highlight=True)
    assert "]0;" in colourful
    assert "\x1b]" not in colourful
    plain = table_of(make_result(), width)
    assert SHOWN in " ".join(plain.split())
    assert max(map(len, plain.splitlines())) <= width


def test_a_hit_is_told_by_its_handle_with_its_description_chunk_and_family():
    handles = [("pdf", "r:a/pdf"), ("pdf", "s:pdf"), ("tea", "")]
    location = {"path": "/r/p", "root": "/r", "doc_id": "r:x"}
    hits = [
        Hit(rank=n, name=name, description="x", score=0.5, handle=handle, **location)
        for n, (name, handle) in enumerate(handles)
    ]
    table = table_of(SearchResult("q", 0.3, tuple(hits), False, 0.0))
    named = [line.split()[2:] for line in table.splitlines() if "0.50" in line]
    assert named == [["r:a/pdf"], ["s:pdf"], ["tea"]]
    long = table_of(make_result(1, description="lorem ipsum " * 100), 60).splitlines()
    assert long[3].strip().endswith("…")
    assert long[4].strip() == "/r/red-ink/SKILL.md"
    chunk = table_of(make_result(1, description="Tea.", chunk="gre\x1ben [bold]")).splitlines()
    below = [line.strip() for line in chunk[1:]]
    assert below == ["Tea.", "chunk: green [bold]", "/r/red-ink/SKILL.md"]
    assert "chunk" not in table_of(make_result(1))
    members = [
        Relative(f"ink-{n}", f"/s/{n}/SKILL.md", "/s", ("name", "body"), f"s:{n}") for n in range(3)
    ]
    family = Family(4, 2, (replace(members[0], differs=(), handle="s:0"), *members[1:]))
    assert table_of(make_result(1, family=family), 200).splitlines()[-1].strip() == (
        "4 near-copies, a family across 2 roots: "
        "s:0 (the same), ink-1 (name, body), ink-2 (name, body), 1 more"
    )


def printed_at(width, rows, headers=()):
    """Return the lines of a table on a terminal, without the blanks at their ends."""
    file = io.StringIO()
    tables.print_rows(rows, headers, console=Console(file=file, width=width, highlight=False))
    return [line.rstrip() for line in file.getvalue().splitlines()]


LEVELS = [
    ("bodies", "25,980,907", "7,415,330", "43 %", "1,740", "27,005", "azure-machine-learning"),
    ("search: one body", "6,241", "1,740", "0 %", "", "", ""),
]


@pytest.mark.parametrize("name", ["a" * 64, "表" * 32])
def test_one_long_word_takes_no_room_that_others_need(name):
    heads = levels(report_budget([], n=5, window=None)).heads
    lines = printed_at(80, [(*LEVELS[0][:-1], name), LEVELS[1]], heads)
    assert max(map(cell_len, lines)) <= 80
    assert {*" ".join(heads).split(), *LEVELS[0][1:3]} <= set(" ".join(lines).split())
    assert "".join(lines).count(name[0]) >= len(name)


def test_a_number_keeps_its_unit_and_a_short_label_its_line_next_to_a_long_word():
    rows = [("ok", "index folder", "100 %", "/home/ada/" + "long-folder/" * 6), ("ok", "root")]
    assert "index folder  100 %" in printed_at(80, rows)[0]


@pytest.mark.parametrize("width", [80, 120])
def test_a_list_keeps_its_columns_whatever_is_in_it(
    width, cli, tmp_path, make_skill, terminal, monkeypatch
):
    root = tmp_path / ("root-" * 12)
    names = ["n" * 64, "tea", "表格图表助手", "한국어-도우미", "été"]
    for number, name in enumerate(names):
        path = make_skill(root, f"s{number}", f"{name} 🎉 把销售表格做成图表 " * 40)
        path.write_text(path.read_text().replace(f"name: s{number}", f"name: {name}"))
    shutil.copytree(root / "s1", root / "s9")
    options = ("--index-dir", tmp_path / "i")
    cli("index", root, *options, "--model", "hashing", "--trust", "project")
    terminal()
    monkeypatch.setenv("COLUMNS", str(width))
    head, *lines = cli("list", *options).stdout.splitlines()
    assert len(lines) == 6
    assert all(cell_len(line.rstrip()) <= width for line in [head, *lines])
    assert {cell_len(line[: line.index("[project]")]) for line in lines} == {head.index("root")}
    shown = "".join(lines)
    assert all(name[: width // 2 - 1] in shown for name in names)
    family = cli("families", *options).stdout.splitlines()[1]
    assert cell_len(family.rstrip()) <= width
    assert "1 near-copy" in family


@given(
    st.lists(
        st.lists(st.text("ab字c ", max_size=30), min_size=4, max_size=4), min_size=1, max_size=5
    ),
    st.integers(40, 120),
)
def test_a_table_loses_nothing_and_breaks_no_word_that_it_has_room_for(rows, width):
    rows = [[" ".join(word[:9] for word in cell.split()) for cell in row] for row in rows]
    lines = printed_at(width, rows)
    assert all(cell_len(line) <= width for line in lines)
    shown, cells = " ".join(lines), " ".join(cell for row in rows for cell in row)
    assert Counter("".join(shown.split())) == Counter("".join(cells.split()))
    columns = [
        [word for cell in column for word in cell.split()] for column in zip(*rows, strict=True)
    ]
    longest = [max(map(cell_len, words), default=0) for words in columns]
    if sum(longest) + len(longest) - 1 <= width:
        assert Counter(shown.split()) == Counter(cells.split())


def test_lists_name_each_skill_as_it_is_loaded(cli, tmp_path, make_skill):
    for folder in ("a", "b"):
        make_skill(tmp_path / "r" / folder, "pdf", "Fills forms.", body="Fill. " * 60)
    cli("index", str(tmp_path / "r"), "--model", "hashing")
    listed = [line.split("\t")[0] for line in cli("list").stdout.splitlines()]
    assert listed == ["r:a/pdf", "r:b/pdf"]
    first, *_, members = cli("families").stdout.strip().split("\t")
    assert (first, members) == ("r:a/pdf", "r:b/pdf (the same)")
    assert all(cli("show", name).exit_code == 0 for name in listed)


def test_families_are_listed_the_largest_first(cli, tmp_path, make_skill):
    body = "Steep it, wait, pour it and enjoy it slowly. " * 8
    for name in ("a", "b", "c"):
        make_skill(tmp_path / "drinks", f"tea-{name}", "Makes tea.", body)
    make_skill(tmp_path / "drinks", "boots", "Polishes boots.", body + "x")
    make_skill(tmp_path / "drinks", "shoes", "Polishes boots.", body + "y")
    options = ["--index-dir", str(tmp_path / "index")]
    made = cli("index", str(tmp_path / "drinks"), "--model", "hashing", *options)
    assert made.exit_code == 0, made.stderr
    listed = cli("families", *options).stdout.splitlines()
    assert listed == [
        "tea-a\tdrinks\t2 near-copies\ttea-b (name), tea-c (name)",
        "boots\tdrinks\t1 near-copy\tshoes (name, body)",
    ]
    record = json.loads(cli("families", "--json", *options).stdout)
    assert (record["count"], record["families"][1]["size"]) == (2, 1)
    (member,) = record["families"][1]["members"]
    assert (member["name"], member["differs"]) == ("shoes", ["name", "body"])
    query = json.loads(cli("query", "polish boots", "--threshold", "0", "--json", *options).stdout)
    family = next(hit["family"] for hit in query["hits"] if hit["name"] in ("boots", "shoes"))
    assert family["size"] == 1
