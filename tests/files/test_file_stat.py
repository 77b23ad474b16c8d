"""The stat of a file, and when it can be trusted."""

import os

import pytest

from skillsearch.files.file_stat import RACY_NS, UNKNOWN_STAT, FileStat, is_racy


def test_a_stat_is_the_one_of_the_file_and_never_the_unknown_one(tmp_path):
    """Size, time and inode, as the system tells them."""
    path = tmp_path / "SKILL.md"
    path.write_text("bytes")
    os.utime(path, ns=(5, 10**18))
    stat = FileStat.of(path.stat())
    assert stat == (5, 10**18, path.stat().st_ino)
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
