"""Files read line by line: what a line is, what is refused, and how values are shown."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import EvaluationError
from skillsearch.evaluation import lines
from skillsearch.evaluation.lines import (
    MAX_FILE_BYTES,
    MAX_LINE_BYTES,
    file_name,
    numbered_lines,
    shown,
    unknown_id,
)


def test_lines_keep_the_numbers_of_an_editor(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes("\ufeffa \n\n \t\r\nb\r\nc\x85\u2028".encode())
    assert list(numbered_lines(path)) == [(1, "a "), (4, "b"), (5, "c\x85\u2028")]


@given(st.binary(max_size=60))
def test_lines_are_those_of_the_text(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("lines") / "lines"
    path.write_bytes(data)
    expected, read, refused = [], [], None
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            refused = f"{path}:{number}: "
            break
        if text.strip():
            expected.append((number, text.rstrip("\r")))
    try:
        for line in numbered_lines(path):
            read.append(line)
        message = ""
    except EvaluationError as exc:
        message = str(exc)
    assert read == expected
    assert message.startswith(refused) if refused else not message


def test_what_is_no_plain_file_is_not_opened(tmp_path):
    """A folder gives no error of the system, and a pipe does not keep us waiting."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "absent", tmp_path, tmp_path / "pipe"):
        with pytest.raises(EvaluationError) as caught:
            list(numbered_lines(path, "Make one."))
        assert str(caught.value) == f"{path} is missing or not a file. Make one."


def test_what_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"a" * (MAX_LINE_BYTES - 1) + b"\n" + b"b" * MAX_LINE_BYTES)
    assert [len(text) for _, text in numbered_lines(path)] == [MAX_LINE_BYTES - 1, MAX_LINE_BYTES]
    path.write_bytes(b"a\n" + b"b" * MAX_LINE_BYTES + b"\n")
    with pytest.raises(EvaluationError, match=r"lines:2: this line has more than 16,777,216 bytes"):
        list(numbered_lines(path))
    os.truncate(path, MAX_FILE_BYTES + 1)
    with pytest.raises(EvaluationError, match=f"has {MAX_FILE_BYTES + 1:,} bytes, more than"):
        list(numbered_lines(path))


def test_an_unknown_id_comes_with_the_nearest_one():
    ids = {"postgres-migration", "mysql-migration"}
    assert unknown_id("postgres-migratoin", ids, "corpus.jsonl") == (
        "'postgres-migratoin' is not an _id in corpus.jsonl (nearest: 'postgres-migration')"
    )
    assert "nearest" not in unknown_id("tea", ids, "corpus.jsonl")
    many = {f"skill-{number}" for number in range(5001)}
    assert "nearest" not in unknown_id("skill-7x", many, "corpus.jsonl")
    assert len(unknown_id("x" * 10**6, ids, "corpus.jsonl")) < 150


VALUES = st.recursive(
    st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(VALUES)
@pytest.mark.slow
def test_a_value_is_shown_short_and_in_one_line(value):
    text = shown(value)
    assert len(text) <= 700
    assert "\n" not in text


def test_a_value_is_cut_in_the_middle_and_below_its_first_level():
    """Else a small file could make a message of megabytes."""
    assert shown([1, [2, [3]], {}]) == "[1, [...], {}]"
    assert shown("x" * 70) == repr("x" * 70)
    assert shown("a" * 50 + "b" * 50) == "'" + "a" * 37 + "..." + "b" * 38 + "'"


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file.txt"
    lines.replace_file(path, ["a\n", "é\n"])
    assert path.read_bytes() == "a\né\n".encode()

    def broken():
        yield "b\n"
        raise OSError("no more")

    with pytest.raises(EvaluationError, match=r"file\.txt cannot be written: no more; "):
        lines.replace_file(path, broken())
    assert path.read_bytes() == "a\né\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_replaced_keeps_its_mode_its_links_and_its_kind(tmp_path):
    """An administrator who wrote to /dev/null would have replaced it."""
    path, link, pipe = tmp_path / "file.txt", tmp_path / "link.txt", tmp_path / "pipe"
    path.write_text("a\n")
    path.chmod(0o600)
    link.symlink_to(path)
    lines.replace_file(link, ["b\n"])
    assert link.is_symlink()
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("b\n", 0o600)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)
    lines.replace_file(pipe, ["c\n"])
    assert pipe.is_fifo()
    assert os.read(reader, 10) == b"c\n"
    os.close(reader)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvidia", "nvidia"),
        ("own skills", "own_skills"),
        ("../../etc/passwd", "etc_passwd"),
        ("한국어 (2)", "한국어_2"),
        ("a\x1b[2J\u202eb\0", "a_2J_b"),
        ("..", "_"),
        ("", "_"),
    ],
)
def test_names_of_files_are_harmless(name, expected):
    assert file_name(name) == expected
    assert len(file_name("字" * 300).encode()) <= 80
