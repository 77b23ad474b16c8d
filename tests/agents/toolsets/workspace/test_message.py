"""Skills in a system message: those there are and those loaded, within bounds."""

import shutil

import pytest

from skillsearch.agents.session import LoadedEntry
from skillsearch.agents.toolsets import workspace
from skillsearch.agents.toolsets.workspace import (
    MAX_DOC_BYTES,
    MAX_DOCS_BYTES,
    all_names,
    describe_skills,
    doc_paths,
    read_loaded,
)
from skillsearch.errors import SkillNotFoundError
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.text.states import PERHAPS


@pytest.fixture
def library(drinks, tmp_path):
    return SkillLibrary.from_roots(drinks, index_dir=tmp_path / "index", model="hashing")


@pytest.fixture
def tea(drinks):
    return drinks / "steep-tea"


def entry(*docs, name="steep-tea", include_all=False):
    return LoadedEntry(name, None, docs, include_all, ())


def contents(library, *docs):
    """Return what is shown of documents; of all, where none is named."""
    return dict(read_loaded(library, entry(*docs, include_all=not docs)).docs)


def test_names_are_those_that_load_each_skill(library, drinks, make_skill):
    assert all_names(library) == ("brew-coffee", "squeeze-lemons", "steep-tea")
    for folder in ("a", "b"):
        make_skill(drinks / folder, "chai", "Cook chai.")
    library.refresh()
    assert all_names(library)[1:3] == ("drinks:a/chai", "drinks:b/chai")
    assert "\n- drinks:a/chai: Cook chai.\n- drinks:b/chai: Cook chai.\n" in describe_skills(
        library
    )


def test_each_name_is_there_once(library, drinks, make_skill):
    """Also where a hidden character tells two names apart: an enum must not repeat itself."""
    for folder in ("a", "b"):
        make_skill(drinks / folder, "chai", "Cook chai.")
    path = drinks / "b" / "chai" / "SKILL.md"
    path.write_text("---\nname: ch\u200bai\ndescription: Cook chai.\n---\n")
    library.refresh()
    assert [name for name in all_names(library) if "chai" in name] == [
        "drinks:a/chai",
        "drinks:b/chai",
    ]


def test_very_long_names_are_too_many(library):
    assert all_names(library, max_chars=33) is None
    assert all_names(library, max_chars=34) is not None


@pytest.mark.parametrize(
    ("query", "most", "text"),
    [
        (
            "brew filter coffee",
            None,
            "Available skills:\n"
            "- brew-coffee: Brew filter coffee with a scale. Use for espresso and roasting"
            " questions.\n"
            "(showing 1 of 3 skills; skill_load takes any other by its name)",
        ),
        (
            "who won the world cup",
            None,
            "Available skills: none seems to fit this request.\n"
            "(showing 0 of 3 skills; skill_load takes any other by its name)",
        ),
        (
            "who squeezes lime",
            None,
            f"{PERHAPS}\n- squeeze-lemons: Squeeze lemons for lemonade.\n"
            "(showing 1 of 3 skills; skill_load takes any other by its name)",
        ),
        (
            None,
            2,
            "Available skills: (showing 2 of 3; remaining names listed below)\n"
            "- brew-coffee: Brew filter coffee with a scale. Use for espresso and roasting"
            " questions.\n"
            "- squeeze-lemons: Squeeze lemons for lemonade.\n"
            "Additional skills (use skill_load by name to access): steep-tea",
        ),
    ],
)
def test_an_overview_says_what_it_leaves_out(library, query, most, text):
    assert describe_skills(library, query, most) == text


def test_an_overview_of_too_many_points_to_the_search(library, monkeypatch):
    monkeypatch.setattr(workspace, "MAX_NAMED", 2)
    assert describe_skills(library, n=1) == (
        "Available skills:\n"
        "- brew-coffee: Brew filter coffee with a scale. Use for espresso and roasting questions.\n"
        "(showing 1 of 3 skills; find the others with search_skills)"
    )
    assert "(showing 1 of 3 skills; find the" in describe_skills(library, "brew filter coffee")


def test_a_hundred_skills_are_described_unless_told_otherwise(tmp_path, make_skill):
    class Generous(SkillLibrary):
        def search(self, query, n, **how):
            return super().search(query, n, 0.0, **how)

    for number in range(102):
        make_skill(tmp_path / "r", f"tea-{number:03}", "Steep green tea.", body=f"{number}")
    library = Generous.from_roots(tmp_path / "r", index_dir=tmp_path / "i", model="hashing")
    text = describe_skills(library)
    assert text.startswith("Available skills: (showing 100 of 102; remaining names listed below)\n")
    assert text.endswith(
        "- tea-099: Steep green tea.\nAdditional skills (use skill_load by name to"
        " access): tea-100, tea-101"
    )
    overview = describe_skills(library, "steep green tea")
    assert overview.count("\n- tea-") == 5
    assert describe_skills(library, "steep green tea", 7).count("\n- tea-") == 7


def test_a_blank_request_is_none(library):
    assert describe_skills(library, " \n\u2028") == describe_skills(library)


@pytest.mark.parametrize("query", ["brew filter coffee " * 9_000, "\ud800", "\0"])
def test_no_request_is_too_odd_to_be_searched(library, query):
    """Hosts pass on requests as users send them."""
    assert describe_skills(library, query).startswith("Available skills:")


def test_a_skill_that_cannot_be_read_is_told_in_its_place(library, tea, drinks):
    (tea / "SKILL.md").write_text("# Empty")
    loaded = read_loaded(library, entry("a.md"))
    assert loaded.body.startswith("[not shown: The file does not start with frontmatter and")
    assert loaded.docs == ()
    shutil.rmtree(tea)
    with pytest.raises(SkillNotFoundError):
        read_loaded(library, entry())


def test_a_name_that_has_become_ambiguous_is_told_in_its_place(library, drinks, make_skill):
    make_skill(drinks / "other", "steep-tea", "Steep black tea.")
    library.refresh()
    assert read_loaded(library, entry()).body == (
        "[not shown: 2 skills are named 'steep-tea'; ask for one of: drinks:other/steep-tea,"
        " drinks:steep-tea]"
    )


def test_a_long_document_is_cut_and_says_so(library, tea):
    (tea / "long.md").write_text("é" * MAX_DOC_BYTES)
    (tea / "fits.md").write_text("x" * MAX_DOC_BYTES)
    (tea / "odd.md").write_text("x" + "é" * MAX_DOC_BYTES)
    shown = contents(library)
    assert shown["fits.md"] == "x" * MAX_DOC_BYTES
    assert shown["long.md"] == (
        "é" * (MAX_DOC_BYTES // 2) + "\n[truncated: only the first 262,144 of 524,288 bytes]"
    )
    assert shown["odd.md"].endswith("é\n[truncated: only the first 262,143 of 524,289 bytes]")


def test_all_documents_of_a_skill_have_one_bound(library, tea):
    for number in range(7):
        (tea / f"{number}.md").write_text("x" * MAX_DOC_BYTES)
    shown = contents(library)
    assert list(shown) == ["0.md", "1.md", "2.md", "3.md", "4.md"]
    room = MAX_DOC_BYTES - 4 * len("0.md")
    assert shown["3.md"] == f"{'x' * room}\n[truncated: only the first {room:,} of 262,144 bytes]"
    assert shown["4.md"] == "[not shown: no room for this and 2 more]"
    assert 4 * MAX_DOC_BYTES == MAX_DOCS_BYTES


def test_what_is_no_text_takes_room_too(library, tea):
    """It has to be read to find out, and there may be two thousand of it."""
    for number in range(6):
        (tea / f"{number}.txt").write_bytes(b"\xff" * (MAX_DOC_BYTES + 1))
    shown = contents(library)
    assert shown["0.txt"] == "[not shown: 262,145 bytes, not UTF-8 text]"
    assert shown["4.txt"] == "[not shown: no room for this and 1 more]"


def test_a_document_that_cannot_be_read_is_told_in_its_place(library, tea):
    (tea / "a.md").write_text("here")
    with (tea / "huge.md").open("wb") as file:
        file.truncate(16 * 1024 * 1024 + 1)
    shown = contents(library)
    assert shown["a.md"] == "here"
    assert shown["huge.md"].startswith("[not shown: The file 'huge.md' is larger than 16777216")


def test_notes_take_room_too(library, tea):
    for name in ("\t1.md", "\t2.md", "\t3.md"):
        (tea / name).write_text("unsafe")
    shown = dict(read_loaded(library, entry(include_all=True), room=100).docs)
    assert shown["1.md"].startswith("[not shown: The path")
    assert shown["2.md"] == "[not shown: no room for this and 1 more]"


def test_links_are_no_documents(library, tea, tmp_path):
    (tmp_path / "secret.md").write_text("secret")
    (tea / "link.md").symlink_to(tmp_path / "secret.md")
    (tea / "folder").symlink_to(tmp_path)
    assert doc_paths(library, "steep-tea") == {}
    assert contents(library, "link.md", "folder/secret.md", "../brew-coffee/SKILL.md") == {}
