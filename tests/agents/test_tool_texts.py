"""Tests of the results of the default tools as text."""

from skillsearch.agents.default_tools import library_tools
from skillsearch.agents.tool_texts import body_text, list_text, page_text, run_text, search_text
from skillsearch.text.states import note_for_model

HIT = {"name": "tea", "description": "Brew tea.", "score": 0.8, "path": "/x/SKILL.md"}


def test_every_default_tool_writes_its_own_text():
    assert all(tool.text for tool in library_tools(lambda: None))


def test_skills_that_may_fit_stand_below_a_line_that_says_so():
    both = note_for_model(fits=True, perhaps=True)
    record = {"skills": [HIT], "perhaps": [{**HIT, "chunk": "deep"}], "note": both}
    assert search_text(record) == (
        f"tea (0.80): Brew tea.\n{both}\ntea (0.80): Brew tea. [chunk deep]"
    )
    assert search_text({"skills": [], "perhaps": [], "note": "Go on."}) == "Go on."


def test_a_page_that_is_not_a_whole_text_has_a_head():
    page = {"encoding": "text", "offset": 0, "next_offset": None, "size": 3, "content": "tea"}
    assert page_text(page) == "tea"
    assert page_text(page | {"next_offset": 3, "size": 9}) == "[from byte 0 of 9; next: 3]\ntea"
    binary = page | {"encoding": "base64", "content": "dGVh"}
    assert page_text(binary) == "[from byte 0 of 3, as base64; the end]\ndGVh"


def test_a_list_says_how_to_go_on():
    page = {"skills": [HIT], "next_cursor": "root:tea", "total": 2}
    assert list_text(page) == "tea: Brew tea.\n[2 skills; next_cursor: root:tea]"
    assert list_text({"skills": [], "next_cursor": None, "total": 0}) == "There are no skills."


BODY = {"name": "tea", "body": "Core.", "directory": "/x", "files": [], "files_truncated": False}


def test_what_nobody_has_vouched_for_says_so_before_what_a_skill_says():
    hit = HIT | {"trust": "project"}
    assert search_text({"skills": [hit], "perhaps": []}) == "tea (0.80) [project]: Brew tea."
    page = {"skills": [hit], "next_cursor": None, "total": 1}
    assert list_text(page) == "tea [project]: Brew tea."
    first, second = body_text(BODY | {"trust": "project"}).splitlines()[:2]
    assert first == "From a project root: nobody has vouched for it."
    assert second == '<skill_content name="tea">'


def test_the_text_of_a_body_names_chunks_and_needs():
    """A model that sees no structured content can load them all the same."""
    chunks = [{"id": "a1", "description": "How to pour"}]
    lines = body_text(BODY | {"chunks": chunks, "requires": ["milk", "cup"]}).splitlines()
    assert "- a1: How to pour" in lines
    assert "Needs these skills too: milk, cup" in lines
    cut = "(cut here)"
    assert cut not in lines
    assert body_text(BODY | {"left_out": [cut]}).splitlines()[-1] == cut


def test_each_part_of_the_output_of_a_command_has_a_line_before_it():
    file = {"name": "out/a.txt", "mime_type": "text/plain", "size_bytes": 2, "truncated": True}
    record = {
        "timed_out": False,
        "exit_code": 3,
        "duration_ms": 5,
        "executor": "local",
        "stdout": "one",
        "stderr": "two",
        "output_files": [file | {"content": "1"}],
        "warnings": ["cut"],
    }
    assert run_text(record).splitlines() == [
        "[exit code 3, 5 ms, executor local]",
        "one",
        "[stderr]",
        "two",
        "[file out/a.txt: text/plain, 2 bytes, cut]",
        "1",
        "[warning: cut]",
    ]
    assert run_text(record | {"timed_out": True}).startswith("[timed out, 5 ms, ")
