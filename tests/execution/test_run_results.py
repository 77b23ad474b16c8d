"""What the caller is told of a run: streams, files, the primary output."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.execution.capture import Kept
from skillsearch.execution.outputs import CollectedFile
from skillsearch.execution.program import Finished
from skillsearch.execution.request import OutputFile
from skillsearch.execution.results import (
    output_file,
    primary_output,
    run_warnings,
    stream_text,
    whole_characters,
    without_empty,
)


def collected(name, data, *, size=None, media_type="text/plain"):
    """Return a collected file; of a larger size than its data it is truncated."""
    size = len(data) if size is None else size
    return CollectedFile(name, data, size, media_type, size > len(data))


def told(name, content, size=None):
    """Return the description of a file."""
    return OutputFile(name, "text/plain", len(content or "") if size is None else size, content)


def test_a_short_stream_is_its_text():
    """With its lines and tabs."""
    assert stream_text("a\tb\nç\n".encode(), 0) == "a\tb\nç\n"


def test_of_a_long_stream_the_middle_says_what_is_missing():
    """In bytes, with a separator."""
    assert stream_text(b"abcdef", 1234) == "abc\n[... 1,234 bytes left out ...]\ndef"


def test_characters_that_are_cut_on_both_sides_are_left_out_and_counted():
    """The first half ends within one of four bytes, the second begins within one of three."""
    data = b"ab" + "😀".encode()[:3] + "한".encode()[1:] + b"cde"
    assert stream_text(data, 10) == "ab\n[... 15 bytes left out ...]\ncde"


@given(st.text("a é한😀", min_size=1), st.integers(0, 40))
def test_a_cut_loses_whole_characters_and_counts_their_bytes(text, limit):
    """What is shown is beginning and end of the stream, and all is accounted for."""
    kept = Kept(limit)
    kept.add(text.encode())
    data, dropped = kept.result()
    shown = stream_text(data, dropped)
    if not dropped:
        assert shown == text
        return
    head, count, tail = re.split(r"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n", shown)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len((head + tail).encode()) + int(count) == len(text.encode())


def test_bytes_that_are_no_text_are_replaced():
    """And none of them can fail."""
    assert stream_text(b"a\xff\xfeb", 0) == "a\ufffd\ufffdb"


def test_a_stream_cannot_move_a_cursor_or_hide_text():
    """Escapes, carriage returns and marks of direction do nothing to who reads them."""
    assert stream_text("50%\r100%\x1b[2J\u202eevil\0".encode(), 0) == "50%\n100%[2Jevil"


@given(st.text(), st.integers(0, 200))
def test_a_beginning_ends_with_a_whole_character(text, length):
    """And is the longest that does."""
    data = text.encode("utf-8", "replace")
    whole = whole_characters(data[:length])
    whole.decode()
    assert 0 <= len(data[:length]) - len(whole) < 4


def test_a_text_file_is_told_with_its_content():
    """When that is wanted."""
    file = output_file(collected("out/a.csv", b"x,y\n", media_type="text/csv"), inline=True)
    assert file == OutputFile("out/a.csv", "text/csv", 4, "x,y\n", truncated=False)


@pytest.mark.parametrize(
    ("data", "media_type", "inline"),
    [
        (b"abc", "text/plain", False),
        (b"abc", "application/pdf", True),
        (b"a\0c", "text/plain", True),
        (b"a\xffc", "text/plain", True),
    ],
    ids=["not wanted", "no text", "NUL", "no UTF-8"],
)
def test_other_files_are_told_without_content(data, media_type, inline):
    """Name, type and size are all."""
    file = output_file(collected("out/a", data, media_type=media_type), inline=inline)
    assert (file.content, file.size_bytes, file.mime_type) == (None, 3, media_type)


def test_a_truncated_text_ends_with_a_whole_character():
    """It would not be text otherwise."""
    file = output_file(collected("out/a.txt", "añ".encode()[:2], size=90), inline=True)
    assert (file.content, file.truncated, file.size_bytes) == ("a", True, 90)


def test_a_character_that_is_broken_in_the_file_itself_makes_it_no_text():
    """Only a cut is forgiven."""
    file = output_file(collected("out/a.txt", "añ".encode()[:2]), inline=True)
    assert (file.content, file.truncated) == (None, False)


def test_a_file_cannot_hide_text_either():
    """Its exact bytes are in the workspace."""
    file = output_file(collected("out/a.txt", b"a\x1b[8mb\r\n"), inline=True)
    assert (file.content, file.size_bytes) == ("a[8mb\n", 8)


def test_the_primary_output_is_the_first_short_text_by_name():
    """Not empty, not binary, not too long, in whatever order they come."""
    files = [
        told("out/z.txt", "z"),
        told("out/a.txt", ""),
        told("out/b.png", None, size=9),
        told("out/c.txt", "long", size=(32 << 10) + 1),
        told("out/d.txt", "short", size=32 << 10),
    ]
    assert primary_output(files).name == "out/d.txt"
    assert primary_output(files[1:4]) is None


def test_empty_files_of_a_failed_run_are_left_out_with_a_warning():
    """It names five of them, and says how many there are more."""
    empty = [collected(f"out/{number}", b"") for number in range(7)]
    full = [collected("out/full", b"x")]
    named = ", ".join(f"'out/{number}'" for number in range(5))
    warning = f"The command failed, and files that are empty are left out: {named} and 2 more."
    assert without_empty([*empty, *full]) == (full, [warning])
    assert without_empty(full) == (full, [])


def test_a_file_name_cannot_break_a_warning():
    """It is one line, whatever it is called."""
    _, (warning,) = without_empty([collected("out/a\nb\x1b[2J", b"")])
    assert warning.endswith(r": 'out/a\nb\x1b[2J'.")


def test_problems_and_truncated_streams_are_warnings():
    """In this order, a line each."""
    finished = Finished(b"", b"", 3, 4, 0, False, 5, problems=("two\nlines",))
    assert run_warnings(finished) == ["two lines", "stdout truncated", "stderr truncated"]
    assert run_warnings(Finished(b"", b"", 0, 0, 0, False, 5)) == []
