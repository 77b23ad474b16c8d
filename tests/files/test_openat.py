"""Tests of opening below a folder: whatever lies on the way, no link is followed."""

import os
import socket
import stat
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from skillsearch.files.openat import (
    CREATE_FLAGS,
    RACY_NS,
    UNKNOWN_STAT,
    is_foreign_link,
    is_racy,
    open_file,
    open_folder,
)
from skillsearch.types.skills import FileStat


@pytest.fixture
def folder(tmp_path):
    """Make a folder with a folder and a file in it, and a secret beside it."""
    inside = tmp_path / "inside"
    (inside / "a" / "b").mkdir(parents=True)
    (inside / "a" / "plain.txt").write_text("plain", encoding="utf-8")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "plain.txt").write_text("secret", encoding="utf-8")
    return inside


@pytest.fixture(autouse=True)
def no_leaks():
    """Check that a test leaves as many open files as it found."""
    before = len(list(Path("/dev/fd").iterdir()))
    yield
    assert len(list(Path("/dev/fd").iterdir())) == before


def is_same(fd, path):
    """Return whether an open file is the one at a path, and close it."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    finally:
        os.close(fd)


def read(fd):
    with os.fdopen(fd, "rb") as file:
        return file.read()


def test_a_folder_is_opened_below_a_path_a_link_or_another_that_stays_open(folder, tmp_path):
    assert is_same(open_folder(folder, ("a", "b")), folder / "a" / "b")
    (tmp_path / "link").symlink_to(folder)
    assert is_same(open_folder(tmp_path / "link", ("a",)), folder / "a")
    fd = open_folder(folder)
    assert os.get_inheritable(fd) is False
    assert is_same(open_folder(fd, ("a",)), folder / "a")
    assert is_same(fd, folder)


def test_a_missing_folder_is_an_error_unless_it_is_to_be_made(folder):
    with pytest.raises(FileNotFoundError):
        open_folder(folder, ("a", "c", "d"))
    assert not (folder / "a" / "c").exists()
    assert is_same(open_folder(folder, ("a", "c", "d"), make=True), folder / "a" / "c" / "d")
    assert (folder / "a" / "plain.txt").read_text(encoding="utf-8") == "plain"


@pytest.mark.parametrize("make", [False, True])
@pytest.mark.parametrize("target", ["../outside", "a", "nowhere", "link"])
def test_a_link_is_never_followed(folder, make, target):
    (folder / "link").symlink_to(target)
    for parts in (("link",), ("link", "new")):
        with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
            open_folder(folder, parts, make=make)
    assert not list(folder.parent.rglob("new"))


def test_a_link_is_not_followed_to_a_file(folder):
    (folder / "a" / "link.txt").symlink_to("plain.txt")
    with pytest.raises(OSError, match="Too many levels"):
        open_file(folder, ("a", "link.txt"))
    (folder / "link").symlink_to("../outside")
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        open_file(folder, ("link", "plain.txt"))


@pytest.mark.parametrize("make", [False, True])
def test_a_file_is_no_folder(folder, make):
    for parts in (("a", "plain.txt"), ("a", "plain.txt", "x")):
        with pytest.raises(NotADirectoryError):
            open_folder(folder, parts, make=make)


@pytest.mark.timeout(120)
def test_a_fifo_does_not_block(folder):
    """It is not a folder; as a file it is opened, and the caller checks its kind."""
    os.mkfifo(folder / "fifo")
    with pytest.raises(NotADirectoryError):
        open_folder(folder, ("fifo",))
    fd = open_file(folder, ("fifo",))
    assert stat.S_ISFIFO(os.fstat(fd).st_mode)
    os.close(fd)


def test_a_socket_cannot_be_opened(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        with pytest.raises(OSError, match="No such device"):
            open_file(folder, ("socket",))
        with pytest.raises(NotADirectoryError):
            open_folder(folder, ("socket",))


def test_a_file_can_be_made_where_none_is(folder):
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    os.close(open_file(folder, ("a", "new.txt"), flags))
    assert (folder / "a" / "new.txt").read_bytes() == b""
    with pytest.raises(FileExistsError):
        open_file(folder, ("a", "new.txt"), flags)
    with pytest.raises(FileExistsError):
        os.open(folder / "a" / "plain.txt", CREATE_FLAGS, 0o600)
    assert (folder / "a" / "plain.txt").read_text(encoding="utf-8") == "plain"


@pytest.mark.slow
def test_a_folder_that_is_swapped_for_a_link_leads_nowhere_else(folder, repeating, swap_for_link):
    def swap():
        swap_for_link(folder / "a", "../outside", folder / "away")
        time.sleep(0.001)  # let the other thread find it in its place, too

    contents = set()
    with repeating(swap):
        for _ in range(30_000):
            with suppress(OSError):
                contents.add(read(open_file(folder, ("a", "plain.txt"))))
    assert contents == {b"plain"}


def test_a_stat_is_the_one_of_the_file_and_never_the_unknown_one(tmp_path):
    path = tmp_path / "SKILL.md"
    path.write_text("bytes")
    os.utime(path, ns=(5, 10**18))
    stat = FileStat.of(path.stat())
    assert stat == (5, 10**18, path.stat().st_ino, path.stat().st_ctime_ns)
    assert stat != UNKNOWN_STAT


@pytest.mark.parametrize(
    ("distance", "within", "expected"),
    [(0, RACY_NS, True), (RACY_NS, RACY_NS, True), (RACY_NS + 1, RACY_NS, False), (51, 50, False)],
)
def test_a_change_is_racy_close_to_the_look_on_either_side(distance, within, expected):
    """A time far in the future is as good as one in the past: an edit changes it."""
    now = 10**18
    assert is_racy(now - distance, now, within) is expected
    assert is_racy(now + distance, now, within) is expected


@pytest.mark.parametrize(
    ("links", "owner", "is_foreign"),
    [(1, 7, False), (2, 7, False), (1, 8, False), (2, 8, True), (3, 0, True)],
)
def test_a_link_is_foreign_with_several_names_and_another_owner(links, owner, is_foreign):
    file = SimpleNamespace(st_nlink=links, st_uid=owner)  # what the rule looks at
    assert is_foreign_link(file, 7) is is_foreign
