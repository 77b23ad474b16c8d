"""Members of archives become files below one folder, or are refused."""

import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.roots.unpacking import (
    Member,
    RefusedMemberError,
    UnpackLimits,
    name_fault,
    write_members,
)

NO_LIMITS = UnpackLimits()


def a_file(name, data=b"x", mode=0o644):
    return Member(name, False, mode, [data])


def a_folder(name):
    return Member(name, True)


@pytest.fixture
def unpack(tmp_path):
    def run(*members, limits=NO_LIMITS):
        into = tmp_path / "into"
        into.mkdir(exist_ok=True)
        write_members(members, into, limits)
        return {str(p.relative_to(into)): p for p in into.rglob("*")}

    return run


def refusal(unpack, *members, **kwargs):
    with pytest.raises(RefusedMemberError) as caught:
        unpack(*members, **kwargs)
    return caught.value.reason


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a/b.md", "a/b.md"),
        ("./a/./b.md", "a/b.md"),
        ("a//b/", "a/b"),
        ("a b/ä.md", "a b/ä.md"),
        ("...", "..."),
        ("%2e%2e/a", "%2e%2e/a"),
    ],
)
def test_empty_parts_and_dots_fall_away_and_nothing_is_decoded(unpack, name, path):
    assert unpack(a_file(name))[path].read_bytes() == b"x"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/etc/passwd", "is absolute"),
        ("../up", "climbs with '..'"),
        ("a/../../up", "climbs with '..'"),
        ("a:stream", "has a colon in its name"),
        ("a\\..\\b", "has a backslash in its name"),
        ("a\0b", "has hidden or undecodable characters in its name"),
        ("a\u202eb", "has hidden or undecodable characters in its name"),
        ("a\udcffb", "has hidden or undecodable characters in its name"),
        ("a\nb", "has a line break in its name"),
        ("a\tb", "has a tab in its name"),
        ("a" * 256, "has a part of more than 255 bytes"),
        ("ä" * 128, "has a part of more than 255 bytes"),
        ("ab/" * 342, "has more than 1,024 characters in its name"),
        ("a/" * 32 + "b", "is more than 32 folders deep"),
    ],
)
def test_a_name_that_no_file_should_have_is_refused(name, reason):
    assert name_fault(name) == reason


@given(st.lists(st.text(st.sampled_from("aA./\\:\0\n~% ä"), max_size=12), max_size=5))
def test_whatever_the_names_nothing_is_written_elsewhere(names):
    with tempfile.TemporaryDirectory() as base:
        into = Path(base, "in", "to")
        into.mkdir(parents=True)
        written = {}
        for name in names:
            try:
                write_members([a_file(name)], into, NO_LIMITS)
            except (RefusedMemberError, FileExistsError, NotADirectoryError, IsADirectoryError):
                continue
            written["/".join(part for part in name.split("/") if part not in ("", "."))] = b"x"
        files = {p.relative_to(into).as_posix(): p for p in into.rglob("*") if p.is_file()}
        assert {name: path.read_bytes() for name, path in files.items()} == written
        assert [p for p in Path(base).rglob("*") if into not in (p, *p.parents)] == [into.parent]


def test_files_get_their_bytes_and_folders_are_made_on_the_way(unpack):
    unpacked = unpack(a_folder("a"), a_file("a/b/c.md", b"1"), a_folder("a/b"), a_file("d", b"2"))
    files = {name: path.read_bytes() for name, path in unpacked.items() if path.is_file()}
    assert files == {"a/b/c.md": b"1", "d": b"2"}


@pytest.mark.parametrize(
    ("mode", "masked"),
    [(0o644, 0o644), (0o755, 0o755), (0o6777, 0o755), (0o1666, 0o644), (0, 0o600), (0o111, 0o711)],
)
def test_permissions_are_masked(unpack, mode, masked):
    unpacked = unpack(a_file("run.sh", mode=mode))
    assert stat.S_IMODE(unpacked["run.sh"].stat().st_mode) == masked


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (a_file("a"), a_file("a"), "occurs twice"),
        (a_file("a"), a_file("./a"), "occurs twice"),
        (a_file("a"), a_file("a/b"), "makes 'a' both a file and a folder"),
        (a_file("a/b"), a_file("a"), "makes 'a' both a file and a folder"),
        (a_folder("a"), a_file("a"), "makes 'a' both a file and a folder"),
        (a_file("a"), a_folder("a"), "makes 'a' both a file and a folder"),
    ],
)
def test_two_members_of_one_name_are_refused(unpack, first, second, reason):
    """Readers disagree on which of them counts."""
    assert refusal(unpack, first, second) == reason


@pytest.mark.parametrize(
    ("first", "second"),
    [("Read.md", "READ.md"), ("straße", "strasse"), ("\u00e9", "e\u0301"), ("D/a", "d/b")],
)
def test_of_names_that_some_file_systems_take_for_one_the_first_counts(tmp_path, first, second):
    (report,) = write_members([a_file(first, b"1"), a_file(second, b"2")], tmp_path, NO_LIMITS)
    assert "only in case or accents" in report
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert file == tmp_path / first
    assert file.read_bytes() == b"1"


def test_a_file_without_a_name_is_refused(unpack):
    """The top of the archive is a folder."""
    assert refusal(unpack, a_file("./")) == "names no file"


def test_sizes_are_counted_as_bytes_come(unpack):
    limits = UnpackLimits(file_bytes=3, total_bytes=5)
    assert set(unpack(a_file("a", b"123"), a_file("b", b"12"), limits=limits)) == {"a", "b"}
    assert refusal(unpack, a_file("c", b"1234"), limits=limits) == "is larger than 3 bytes"
    files = a_file("d", b"123"), a_file("e", b"123")
    assert refusal(unpack, *files, limits=limits) == "brings all files to over 5 bytes"


def test_an_endless_file_ends_at_the_limit(unpack):
    def endless():
        while True:
            yield b"0" * 65_536

    endlessly = Member("a", False, 0o644, endless())
    assert refusal(unpack, endlessly) == "is larger than 67,108,864 bytes"


def test_folders_count_as_members_named_or_not(unpack):
    limits = UnpackLimits(members=3)
    assert len(unpack(a_file("a/b/c"), limits=limits)) == 3
    assert refusal(unpack, *[a_folder("a")] * 4, limits=limits) == "is beyond 3 members"
    deep = a_file("x/y/z/1"), a_file("x/y/z/2")
    assert refusal(unpack, *deep, limits=limits) == "is beyond 3 members"


def test_a_link_that_someone_plants_meanwhile_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    into = tmp_path / "into"
    outside.mkdir()
    into.mkdir()
    (into / "a").symlink_to(outside)
    (into / "b").symlink_to(outside / "new")
    for name in ("a/x", "b"):
        with pytest.raises(OSError, match=r"symbolic links|File exists|Not a directory"):
            write_members([a_file(name)], into, NO_LIMITS)
    assert list(outside.iterdir()) == []
