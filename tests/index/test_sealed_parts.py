"""Parts of a generation: described, shared, sealed and checked."""

import os
import time

import pytest
import xxhash

from skillsearch.errors import CacheError
from skillsearch.index import sealed_parts
from skillsearch.index.sealed_parts import (
    Part,
    check_parts,
    describe_parts,
    seal_parts,
    share_parts,
)


@pytest.fixture
def folder(tmp_path):
    """Two parts, written a minute ago."""
    place = tmp_path / "old"
    place.mkdir()
    for name, data in (("a.npy", b"a" * 3_000_000), ("b.npy", b"")):
        (place / name).write_bytes(data)
        age(place / name)
    return place


@pytest.fixture
def read(monkeypatch):
    """Names of the parts that were read through, in order."""
    names, whole = [], sealed_parts._digest

    def counted(path):
        names.append(path.name)
        return whole(path)

    monkeypatch.setattr(sealed_parts, "_digest", counted)
    return names


def age(path, seconds=60):
    """Make a file look as if it was written some time ago."""
    then = time.time_ns() - seconds * 10**9
    os.utime(path, ns=(then, then))


def test_parts_are_described_by_size_and_digest(folder):
    """XXH3-128, in order of their names."""
    assert describe_parts(folder, {}) == {
        "a.npy": Part(3_000_000, xxhash.xxh3_128_hexdigest(b"a" * 3_000_000)),
        "b.npy": Part(0, xxhash.xxh3_128_hexdigest(b"")),
    }


def test_what_is_known_of_a_part_is_not_read_again(folder, read):
    """It was digested when it was written."""
    known = Part(3_000_000, "00")
    assert describe_parts(folder, {"a.npy": known})["a.npy"] == known
    assert read == ["b.npy"]


def test_a_sealed_part_is_not_read_again(folder, read):
    """But the first time, and when it is to be verified."""
    parts = describe_parts(folder, {})
    read.clear()
    check_parts(folder, parts)
    assert sorted(read) == ["a.npy", "b.npy"]
    check_parts(folder, parts)
    assert len(read) == 2
    check_parts(folder, parts, verify=True)
    assert len(read) == 4


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(b"b" + path.read_bytes()[1:]),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
    ],
)
def test_a_part_that_changed_after_it_was_sealed_is_damaged(folder, change):
    """Another byte, one byte less, gone, emptied."""
    parts = describe_parts(folder, {})
    check_parts(folder, parts)
    change(folder / "a.npy")
    with pytest.raises(CacheError, match=r"a\.npy"):
        check_parts(folder, parts)


def test_a_part_that_was_replaced_by_its_equal_is_read_and_sealed_again(folder, read):
    """As after an index was copied to another disk."""
    parts = describe_parts(folder, {})
    check_parts(folder, parts)
    data = (folder / "a.npy").read_bytes()
    (folder / "a.npy").unlink()
    (folder / "a.npy").write_bytes(data)
    age(folder / "a.npy", 30)
    read.clear()
    check_parts(folder, parts)
    check_parts(folder, parts)
    assert read == ["a.npy"]


def test_a_part_that_was_just_written_is_not_sealed_yet(folder, read):
    """It could change once more within the same tick of the clock."""
    (folder / "a.npy").write_bytes(b"new")
    parts = describe_parts(folder, {})
    seal_parts(folder, parts)
    read.clear()
    check_parts(folder, parts)
    assert read == ["a.npy"]


@pytest.mark.parametrize("data", [b"", b"{}", b"abc\n{}", b"\xff" * 50])
def test_a_damaged_seal_seals_nothing(folder, read, data):
    """All is read, and sealed anew."""
    parts = describe_parts(folder, {})
    (folder / "seal.json").write_bytes(data)
    read.clear()
    check_parts(folder, parts)
    check_parts(folder, parts)
    assert sorted(read) == ["a.npy", "b.npy"]


def test_where_nothing_can_be_written_all_is_read_each_time(folder, read, monkeypatch):
    """An index may lie on a disk that is only read."""
    parts = describe_parts(folder, {})
    read.clear()

    def refuse(*_, **__):
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(sealed_parts, "write_record", refuse)
    check_parts(folder, parts)
    check_parts(folder, parts)
    assert sorted(read) == ["a.npy", "a.npy", "b.npy", "b.npy"]


def test_shared_parts_are_links(folder, tmp_path):
    """Nothing is written, and either folder can go."""
    target = tmp_path / "new"
    target.mkdir()
    parts = describe_parts(folder, {})
    assert share_parts(folder, parts, target) == parts
    assert (target / "a.npy").stat().st_ino == (folder / "a.npy").stat().st_ino
    (folder / "a.npy").unlink()
    assert (target / "a.npy").stat().st_size == 3_000_000


def test_where_links_cannot_be_had_parts_are_copied(folder, tmp_path, monkeypatch):
    """And must be digested again."""
    target = tmp_path / "new"
    target.mkdir()

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("pathlib.Path.hardlink_to", refuse)
    assert share_parts(folder, describe_parts(folder, {}), target) == {}
    assert (target / "a.npy").read_bytes() == (folder / "a.npy").read_bytes()
