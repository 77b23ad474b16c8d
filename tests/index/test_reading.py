"""The recorded state of folders."""

import os
import time

import pytest
import xxhash

from skillsearch.index.indexing.snapshot import SeenFile, SeenFiles, Snapshot
from skillsearch.types.skills import FileStat

NOTHING = SeenFiles.of([], [])
STAT = FileStat(
    size=12, mtime_ns=1_700_000_000_123_456_789, inode=2**63 + 5, ctime_ns=1_700_000_001
)
SNAPSHOT = Snapshot(
    generation="ab" * 16,
    folders={"/skills": 1, "/skills/数据 \udcff\n": -1},
    files=SeenFiles.of(
        ["/skills/a/SKILL.md", "/b"], [SeenFile(STAT, "cd" * 32), SeenFile(STAT, "", False)]
    ),
)


def look(*paths):
    files = {}
    for path in paths:
        files[str(path)] = SeenFile(FileStat.of(path.stat()), "00" * 32)
    folders = {str(path.parent): path.parent.stat().st_mtime_ns for path in paths}
    return Snapshot("ab" * 16, folders, SeenFiles.of(list(files), files.values()))


@pytest.mark.parametrize("snapshot", [SNAPSHOT, Snapshot("", {}, NOTHING)])
def test_a_snapshot_comes_back_as_it_was(tmp_path, snapshot):
    snapshot.save(tmp_path)
    assert Snapshot.load(tmp_path) == snapshot
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot.bin"]


def test_a_missing_snapshot_is_none_and_one_with_a_flipped_bit_anywhere(tmp_path):
    assert Snapshot.load(tmp_path) is None
    SNAPSHOT.save(tmp_path)
    file = tmp_path / "snapshot.bin"
    whole = file.read_bytes()
    for position in range(len(whole)):
        file.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        assert Snapshot.load(tmp_path) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"generation": "x", "parts": [0, 0, 0, 0]}\n',
        b"text",
        b'{"generation": "x"}',
        b'{"generation": "x", "sizes": [1, 0, 0, 0]}\na',
        b'{"generation": "x", "sizes": [3, 0, 8, 0]}\na\0b' + bytes(8),
        b'{"generation": "x", "sizes": [0, 1, 0, 56]}\na' + bytes(56),
        b'{"generation": "x", "sizes": [0, 0, 0]}\n',
        b'{"generation": "x", "sizes": [0, 0, 0, "a"]}\n',
        b'{"generation": "x", "sizes": [1, 0, 8, 0]}\n\xff' + bytes(8),
    ],
)
def test_a_snapshot_of_another_form_is_none(tmp_path, data):
    digest = xxhash.xxh3_128_hexdigest(data).encode()
    (tmp_path / "snapshot.bin").write_bytes(digest + b"\n" + data)
    assert Snapshot.load(tmp_path) is None


def write(path):
    before = path.stat()
    path.write_text("bytes")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES = {
    "longer": lambda path: (path.write_text("other text"), os.utime(path, ns=(5, 10**18))),
    "touched": lambda path: os.utime(path, ns=(5, 5)),
    "removed": lambda path: path.unlink(),
    "replaced": lambda path: path.rename(path.with_name("b")) and path.write_text("bytes"),
    "new neighbour": lambda path: path.with_name("other").write_text(""),
    "folder gone": lambda path: path.parent.rename(path.parent.with_name("elsewhere")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen_by_stat(tmp_path, change):
    path = tmp_path / "a" / "SKILL.md"
    path.parent.mkdir()
    path.write_text("bytes")
    os.utime(path, ns=(10**18, 10**18))
    os.utime(path.parent, ns=(10**18, 10**18))
    snapshot = look(path)
    assert snapshot.is_current()
    change(path)
    assert not snapshot.is_current()


def test_a_change_that_hides_its_time_is_seen_by_stat(tmp_path):
    """Same size, inode and time of modification; no program sets the time of the change."""
    path = tmp_path / "SKILL.md"
    path.write_text("stuff")
    snapshot, before = look(path), path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of the system ticks
        write(path)
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert not snapshot.is_current()


def test_what_changed_just_before_the_look_is_not_trusted(young_files):
    """A later change may share its timestamp; the content hash stays known."""
    at = STAT.mtime_ns
    snapshot = Snapshot("g", {"/old": at - 3, "/new": at + 3}, SNAPSHOT.files)
    careful = snapshot.without_racy(at + 2_000_000_000)
    unknown = FileStat(-1, -1, -1, -1)
    assert careful.folders == {"/old": at - 3, "/new": -1}
    assert careful.files["/skills/a/SKILL.md"] == SeenFile(unknown, "cd" * 32)
    assert snapshot.without_racy(at + 2_000_000_001).files == SNAPSHOT.files


def test_an_unknown_stat_is_never_current(tmp_path):
    path = tmp_path / "SKILL.md"
    path.write_text("bytes")
    snapshot = look(path).without_racy(path.stat().st_mtime_ns)
    assert not snapshot.is_current()
    assert not Snapshot("g", {str(tmp_path): -1}, NOTHING).is_current()
    assert Snapshot("g", {}, NOTHING).is_current()


def test_a_time_far_in_the_future_is_as_good_as_one_in_the_past(tmp_path):
    path = tmp_path / "SKILL.md"
    path.write_text("bytes")
    os.utime(path, ns=(4 * 10**18, 4 * 10**18))
    os.utime(tmp_path, ns=(10**18, 10**18))
    snapshot = look(path).without_racy(time.time_ns())
    assert snapshot.is_current()
    path.write_text("other")
    assert not snapshot.is_current()


def test_a_file_that_is_gone_is_not_current(tmp_path):
    path = tmp_path / "SKILL.md"
    path.write_text("bytes")
    snapshot = Snapshot("g", {}, look(path).files)
    assert snapshot.is_current()
    path.unlink()
    assert not snapshot.is_current()
