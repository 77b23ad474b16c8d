"""Parts of a generation: described, shared, trusted and checked."""

import os
import time

import pytest
import xxhash

from skillsearch.errors import CacheError, QueryError
from skillsearch.index.storage.generation_parts import (
    EVERYTHING,
    DamageGuard,
    Part,
    damaged_parts,
    describe_parts,
    share_parts,
    trust_parts,
    trusted_parts,
)


@pytest.fixture
def folder(tmp_path):
    old = tmp_path / "old"
    old.mkdir()
    for name, data in (("a.npy", b"a" * 3_000_000), ("b.npy", b"")):
        (old / name).write_bytes(data)
        age(old / name)
    return old


@pytest.fixture
def parts(folder):
    return describe_parts(folder, {})


@pytest.fixture
def read(before_reading, parts):
    """List the names of the parts that are read once they are described."""
    names = []

    def note(path):
        if path.name != "stat-cache.json" and path.suffix != ".py":
            names.append(path.name)

    before_reading(note)
    return names


def age(path, seconds=60):
    then = time.time_ns() - seconds * 10**9
    os.utime(path, ns=(then, then))


def write_keeping_time(path, data):
    before = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_parts_are_described_by_size_and_digest(parts):
    assert parts == {
        "a.npy": Part(3_000_000, xxhash.xxh3_128_hexdigest(b"a" * 3_000_000)),
        "b.npy": Part(0, xxhash.xxh3_128_hexdigest(b"")),
    }


def test_what_is_known_of_a_part_is_not_read_again(folder, read):
    part = Part(3_000_000, "00")
    assert describe_parts(folder, {"a.npy": part})["a.npy"] == part
    assert read == ["b.npy"]


def test_a_trusted_part_is_not_read_again(folder, parts, read):
    assert damaged_parts(folder, parts) == ()
    assert sorted(read) == ["a.npy", "b.npy"]
    assert damaged_parts(folder, parts) == ()
    assert len(read) == 2
    damaged_parts(folder, parts, reread=EVERYTHING)
    assert len(read) == 4


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(b"b" + path.read_bytes()[1:]),
        lambda path: write_keeping_time(path, b"b" + path.read_bytes()[1:]),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
    ],
)
def test_a_part_that_changed_after_it_was_trusted_is_damaged(folder, parts, change):
    assert damaged_parts(folder, parts) == ()
    change(folder / "a.npy")
    assert damaged_parts(folder, parts) == ("a.npy",)
    assert trusted_parts(folder) == ["b.npy"]


def test_a_part_that_was_replaced_by_its_equal_is_read_and_trusted_again(folder, parts, read):
    assert damaged_parts(folder, parts) == ()
    for replaced in (["a.npy"], ["a.npy", "b.npy"]):
        for name in replaced:
            data = (folder / name).read_bytes()
            (folder / name).unlink()
            (folder / name).write_bytes(data)
            age(folder / name, 30)
        read.clear()
        assert damaged_parts(folder, parts) == ()
        assert damaged_parts(folder, parts) == ()
        assert sorted(read) == replaced


def test_a_part_that_was_just_written_is_not_trusted_yet(folder, read):
    (folder / "a.npy").write_bytes(b"new")
    parts = describe_parts(folder, {})
    trust_parts(folder, parts)
    read.clear()
    assert damaged_parts(folder, parts) == ()
    assert read == ["a.npy"]


@pytest.mark.parametrize("data", [b"", b"{}", b"abc\n{}", b"\xff" * 50])
def test_with_a_damaged_stat_cache_nothing_is_trusted(folder, parts, read, data):
    (folder / "stat-cache.json").write_bytes(data)
    assert damaged_parts(folder, parts) == ()
    assert damaged_parts(folder, parts) == ()
    assert sorted(read) == ["a.npy", "b.npy"]


def test_where_nothing_can_be_written_all_is_read_each_time(folder, parts, read):
    """An index may lie on a disk that is only read."""
    (folder / "stat-cache.json").mkdir()
    assert damaged_parts(folder, parts) == ()
    assert damaged_parts(folder, parts) == ()
    assert sorted(read) == ["a.npy", "a.npy", "b.npy", "b.npy"]


@pytest.mark.parametrize("limit", [1, 1000, 5000, EVERYTHING])
def test_trusted_parts_are_read_again_in_turn(tmp_path, read, limit):
    """Those first that were not read for longest; all within as many runs as there are parts."""
    folder = tmp_path / "six"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}").write_bytes(b"x" * 1000 * number)
        age(folder / f"{number}")
    parts = describe_parts(folder, {})
    damaged_parts(folder, parts)
    read.clear()
    runs = 0
    while len(set(read)) < len(parts):
        before = len(read)
        assert damaged_parts(folder, parts, reread=limit) == ()
        sizes = [parts[name].size for name in read[before:]]
        assert len(sizes) == 1 or sum(sizes) <= limit
        runs += 1
    assert runs <= len(parts)
    assert len(read) == len(parts)


def test_rot_is_found_by_reading_again_and_stays_found(folder, parts, rot):
    damaged_parts(folder, parts)
    rot(folder / "a.npy")
    assert damaged_parts(folder, parts) == ()
    assert damaged_parts(folder, parts, reread=1) == ("a.npy",)
    assert damaged_parts(folder, parts) == ("a.npy",)


def test_a_part_that_is_written_while_it_is_hashed_is_not_trusted(folder, parts, before_reading):
    def disturb(path):
        if path.suffix == ".npy":
            write_keeping_time(path, path.read_bytes())

    before_reading(disturb)
    assert damaged_parts(folder, parts) == ()
    assert trusted_parts(folder) == []


def test_an_error_is_blamed_on_damage_if_there_is_any(folder, parts, rot):
    with pytest.raises(IndexError, match="mine"), DamageGuard(folder, parts):
        raise IndexError("mine")
    rot(folder / "a.npy")
    with pytest.raises(CacheError) as caught, DamageGuard(folder, parts):
        raise IndexError("mine")
    message = str(caught.value)
    assert "a.npy" in message
    assert "b.npy" not in message
    assert "skillsearch index --verify" in message
    assert isinstance(caught.value.__cause__, IndexError)
    for error in (QueryError("theirs"), KeyboardInterrupt()):
        with pytest.raises(type(error)), DamageGuard(folder, parts):
            raise error


def test_shared_parts_are_links(folder, parts, tmp_path):
    target = tmp_path / "new"
    target.mkdir()
    assert share_parts(folder, parts, target) == parts
    assert (target / "a.npy").stat().st_ino == (folder / "a.npy").stat().st_ino
    (folder / "a.npy").unlink()
    assert (target / "a.npy").stat().st_size == 3_000_000


def test_where_links_cannot_be_had_parts_are_copied(folder, parts, tmp_path, monkeypatch):
    target = tmp_path / "new"
    target.mkdir()

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("pathlib.Path.hardlink_to", refuse)
    assert share_parts(folder, parts, target) == {}
    assert (target / "a.npy").read_bytes() == (folder / "a.npy").read_bytes()
