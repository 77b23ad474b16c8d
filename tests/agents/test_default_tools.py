"""Tests of the default tools: find a skill, load it, read its files, list them all."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillsearch.agents.bounds import MAX_CHARS
from skillsearch.agents.default_tools import as_list, library_tools
from skillsearch.agents.prompt import MAX_SHOWN_FILES
from skillsearch.agents.tool import Toolset
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.text.states import NO_HIT, PERHAPS, PERHAPS_TOO

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = {
    "search_skills": ("query", "n", "threshold"),
    "load_skill": ("name", "chunk"),
    "read_skill_file": ("name", "path", "offset", "limit"),
    "list_skills": ("cursor", "n"),
}


def row_of(hit):
    return {"name": hit.name, "description": hit.description, "score": hit.score, "path": hit.path}


QUERY = "steep green tea or brew filter coffee"
NOTHING = {"skills": [], "perhaps": [], "note": NO_HIT}
CHUNKED = """\
Always warm the pot.

<chunk id="oolong" description="For oolong.">Steep it five times.</chunk>
"""


@pytest.fixture
def open_library(tmp_path):
    def open_library(*roots, **options):
        folder = tmp_path / "index"
        return SkillLibrary.from_roots(roots, index_dir=folder, model="hashing", **options)

    return open_library


@pytest.fixture
def library(drinks, open_library):
    return open_library(drinks)


@pytest.fixture
def call(drinks, open_library):
    def call(tool, /, **arguments):
        answer = Toolset(library_tools(open_library(drinks))).call(tool, arguments)
        return answer["result"] if "result" in answer else answer["error"]

    return call


def test_every_tool_only_reads():
    assert all(tool.read_only for tool in library_tools(SkillLibrary.from_roots([])))


def test_what_may_fit_is_told_beside_what_fits(call, library, fits_from):
    best, second, *others = library.search(QUERY, threshold=0.0)
    rest = list(map(row_of, (second, *others)))
    fits_from((best.score + second.score) / 2)
    expected = {"skills": [row_of(best)], "perhaps": rest, "note": PERHAPS_TOO}
    assert call("search_skills", query=QUERY) == expected
    fits_from(1.0)
    expected = {"skills": [], "perhaps": [row_of(best), *rest], "note": PERHAPS}
    assert call("search_skills", query=QUERY) == expected


def test_one_list_has_what_fits_and_then_what_may_marked(call, fits_from):
    every = call("search_skills", query=QUERY, threshold=0.0)["skills"]
    fits_from((every[0]["score"] + every[1]["score"]) / 2)
    rows = as_list(call("search_skills", query=QUERY))
    assert rows == [every[0], *({**row, "state": "perhaps"} for row in every[1:])]
    assert len(rows) > 1


@pytest.mark.parametrize("name", ["Brew\nTea\u202e", "x" * 500, "tea@>>1"])
def test_a_name_is_shown_on_one_safe_line_that_still_loads(name, drinks, make_skill, open_library):
    path = drinks / "odd" / "SKILL.md"
    path.parent.mkdir()
    path.write_text(f"---\nname: {json.dumps(name)}\ndescription: Odd.\n---\nBody\n")
    library = open_library(drinks)
    names = [
        row["name"]
        for row in Toolset(library_tools(library)).call("list_skills")["result"]["skills"]
    ]
    (shown,) = set(names) - {"brew-coffee", "steep-tea", "squeeze-lemons"}
    assert shown.isprintable()
    assert len(shown) <= 256
    assert library.find(shown).path == str(path)


def test_loading_gives_the_instructions_and_what_there_is_to_read(call, drinks):
    (drinks / "steep-tea" / "references").mkdir()
    (drinks / "steep-tea" / "references" / "oolong.md").write_text("Hot.")
    assert call("load_skill", name="Steep-Tea") == {
        "name": "steep-tea",
        "description": "Steep green tea at the right temperature.",
        "body": "# Tea\n\nUse 80 C.",
        "directory": str(drinks / "steep-tea"),
        "files": ["references/oolong.md"],
        "files_truncated": False,
        "stale": False,
    }


def test_a_hit_names_the_chunk_that_fits_best(call, drinks, make_skill):
    make_skill(drinks, "gongfu", "Brew gongfu tea.", body=CHUNKED)
    hits = call("search_skills", query="steep oolong five times", threshold=0.0)["skills"]
    (hit,) = [hit for hit in hits if hit["name"] == "gongfu"]
    assert hit["chunk"] == "oolong"
    body = call("load_skill", name=hit["name"], chunk=hit["chunk"])["body"]
    assert body == "Steep it five times."
    assert all("chunk" not in hit for hit in hits if hit["name"] != "gongfu")


def test_a_huge_body_and_a_huge_list_are_cut_and_say_so(call, drinks, make_skill):
    path = make_skill(drinks, "huge", "Huge.", body="é" * (MAX_CHARS + 1))
    for number in range(MAX_SHOWN_FILES + 1):
        (path.parent / f"{number:04}.md").write_text("x")
    loaded = call("load_skill", name="huge")
    assert loaded["body"] == "é" * MAX_CHARS
    assert loaded["body_truncated"] is True
    assert loaded["files_truncated"] is True
    assert loaded["files"] == [f"{number:04}.md" for number in range(MAX_SHOWN_FILES)]


def test_a_folder_of_many_files_takes_one_line(call, drinks):
    names = [f"schemas/ooxml/part{number:03}.xsd" for number in range(MAX_SHOWN_FILES)]
    for name in (*names, "scripts/pack.py", "references/a.md", "references/b.md"):
        path = drinks / "steep-tea" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    loaded = call("load_skill", name="steep-tea")
    assert loaded["files"] == [
        "references/a.md",
        "references/b.md",
        f"schemas/ooxml/ ({MAX_SHOWN_FILES} files)",
        "scripts/pack.py",
    ]
    assert loaded["files_truncated"] is False
    for path in ("schemas/ooxml", "schemas/ooxml/", "schemas\\ooxml"):
        error = call("read_skill_file", name="steep-tea", path=path)
        assert "is not a regular file but a folder of schemas/ooxml/part000.xsd" in error["message"]
    assert call("read_skill_file", name="steep-tea", path=names[-1])["content"] == "x"


@pytest.mark.parametrize("checks_disk", [True, False])
def test_a_skill_that_is_gone_is_told_without_its_path(open_library, drinks, tmp_path, checks_disk):
    """The file is gone since the library looked, which does not make it a broken one."""
    library = open_library(drinks, checks_disk=checks_disk)
    (drinks / "steep-tea" / "SKILL.md").unlink()
    error = Toolset(library_tools(library)).call("load_skill", {"name": "steep-tea"})["error"]
    assert error["code"] == "skill-not-found"
    assert "'steep-tea' is gone: its SKILL.md was deleted or moved" in error["message"]
    assert str(tmp_path) not in json.dumps(error)


def test_a_page_has_64_kib_unless_asked(call, drinks):
    (drinks / "steep-tea" / "long.txt").write_text("x" * 100_000)
    assert call("read_skill_file", name="steep-tea", path="long.txt")["next_offset"] == 65_536


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../brew-coffee/SKILL.md", "unsafe-path"),
        ("link.md", "unsafe-path"),
        ("absent.md", "skill-error"),
        ("x" * 2_000, "invalid-arguments"),
    ],
)
def test_no_path_leads_out_of_a_skill(call, drinks, path, code):
    (drinks / "steep-tea" / "link.md").symlink_to("/etc/hostname")
    assert call("read_skill_file", name="steep-tea", path=path)["code"] == code


def test_all_skills_are_listed_in_pages(call):
    first = call("list_skills", n=2)
    assert first["skills"] == [
        {
            "name": "brew-coffee",
            "description": "Brew filter coffee with a scale. "
            "Use for espresso and roasting questions.",
        },
        {"name": "squeeze-lemons", "description": "Squeeze lemons for lemonade."},
    ]
    assert first["total"] == 3
    last = call("list_skills", n=2, cursor=first["next_cursor"])
    assert [row["name"] for row in last["skills"]] == ["steep-tea"]
    assert last["next_cursor"] is None


def test_a_page_stays_in_place_while_skills_come(call, drinks, make_skill):
    cursor = call("list_skills", n=1)["next_cursor"]
    make_skill(drinks, "ale", "Brew ale.")
    names = [row["name"] for row in call("list_skills", cursor=cursor)["skills"]]
    assert names == ["squeeze-lemons", "steep-tea"]


def test_an_unknown_cursor_says_to_start_again(call):
    error = call("list_skills", cursor="drinks:gone")
    assert error["code"] == "query-invalid"
    assert "start again without one" in error["message"]


def test_a_library_without_skills_answers_all_tools(tmp_path):
    toolset = Toolset(library_tools(SkillLibrary.from_roots(tmp_path / "none")))
    assert toolset.call("search_skills", {"query": "tea"}) == {"result": NOTHING}
    empty = {"skills": [], "next_cursor": None, "total": 0}
    assert toolset.call("list_skills") == {"result": empty}
    assert toolset.call("load_skill", {"name": "tea"})["error"]["code"] == "skill-not-found"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
@given(data=st.data())
@pytest.mark.slow
def test_nothing_that_a_model_sends_breaks_a_tool(library, data):
    name = data.draw(st.sampled_from(sorted(ARGUMENTS)))
    values = st.sampled_from(["steep-tea", "SKILL.md", "drinks:steep-tea", 1, 0.5]) | JSON
    keys = st.sampled_from(ARGUMENTS[name])
    arguments = data.draw(st.dictionaries(keys, values) | JSON)
    answer = Toolset(library_tools(library)).call(name, arguments)
    json.dumps(answer, allow_nan=False, ensure_ascii=False).encode()
    if "error" in answer:
        assert answer["error"]["code"] != "internal"
