"""A run of ``improve``: requests as people write them, and what it writes into a file."""

import pytest

from skillsearch.errors import QueryError, SkillError
from skillsearch.reports.improve_run import Improving, read_requests
from skillsearch.skills.parser import read_skill

REQUESTS = [
    "brew sencha in a kettle",
    "which kettle to brew sencha",
    "brew gyokuro leaves",
    "brew gyokuro for how long",
]


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        (b"one thing\n\n  another \n", ["one thing", "another"]),
        (b'{"request": "one"}\n{"query": "two", "n": 1}\n"three"\n', ["one", "two", "three"]),
        (b'{"request": null, "text": "one"}', ["one"]),
        (b"\xef\xbb\xbf{broken\n", ["{broken"]),
        (b"[" * 10_000, ["[" * 10_000]),
        (b"{" * 100_000, ["{" * 100_000]),
    ],
)
def test_requests_are_read_as_lines_or_json(data, texts):
    assert read_requests(data) == texts


@pytest.mark.parametrize("line", ['{"other": 1}', '{"text": 5}', '{"request": null}'])
def test_an_object_without_a_request_is_told_with_its_line(line):
    with pytest.raises(QueryError, match="Line 2 of the requests") as caught:
        read_requests(f"tea\n{line}\n".encode())
    assert line in str(caught.value)
    assert "request, query, text" in str(caught.value)


def test_requests_in_another_encoding_are_refused():
    with pytest.raises(
        QueryError, match=r"Line 2 of the requests is not UTF-8; save them as that\."
    ):
        read_requests("tea\ncafé\n".encode("latin-1"))


def test_a_file_that_cannot_be_edited_safely_is_refused_with_its_path(index, drinks):
    path = drinks / "steep-tea" / "SKILL.md"
    path.write_text("---\nname: steep-tea\n---\nSteep green tea.\n", "utf-8")
    index.refresh()
    with pytest.raises(SkillError, match=rf"{path} has no description of its own"):
        Improving.of(index, "steep-tea").improve(REQUESTS, "off")
    with pytest.raises(SkillError, match="There are no requests for squeeze-lemons"):
        Improving.of(index, "squeeze-lemons").improve([], "off")


def test_what_is_written_reads_as_proposed_and_keeps_its_examples(index, drinks):
    improving = Improving.of(index, "steep-tea")
    result = improving.improve(REQUESTS, "off")
    assert result.is_proposed
    improving.write(result)
    path = drinks / "steep-tea" / "SKILL.md"
    assert read_skill(path, doc_id="", root=drinks).description == result.description
