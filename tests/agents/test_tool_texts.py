"""Tests of the results of the default tools as text."""

from skillsearch.agents.default_tools import library_tools
from skillsearch.agents.tool_texts import list_text, page_text, run_text, search_text
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
