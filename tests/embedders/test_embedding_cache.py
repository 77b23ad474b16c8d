"""Vectors kept by the text that they embed, for all indexes of a user."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

from skillsearch.embedders import embedding_cache
from skillsearch.embedders.embedding import text_key
from skillsearch.embedders.embedding_cache import FILE, FOLDER, EmbeddingCache
from skillsearch.settings.user_folders import cache_dir

DIMENSIONS = 8
FINGERPRINT = "0123456789abcdef"
DAY = 86_400

WRITER = """
import sys
import numpy as np
from skillsearch.embedders.embedding import text_key
from skillsearch.embedders.embedding_cache import EmbeddingCache

first, last = map(int, sys.argv[1:])
with EmbeddingCache("0123456789abcdef", 8) as cache:
    for number in range(first, last):
        cache.put({text_key(f"text {number}"): np.arange(number, number + 8, dtype=np.float32)})
        print(number, flush=True)
"""


def vector(number, dimensions=DIMENSIONS):
    return np.arange(number, number + dimensions, dtype=np.float32)


def key(number):
    return text_key(f"text {number}")


def open_cache(fingerprint=FINGERPRINT, dimensions=DIMENSIONS, **options):
    return EmbeddingCache(fingerprint, dimensions, **options)


def fill(*numbers, **options):
    with open_cache(**options) as cache:
        cache.put({key(number): vector(number, cache._bytes // 4) for number in numbers})


def cached(*numbers, **options):
    """Return those of some numbers whose vectors are there, each checked for its value."""
    with open_cache(**options) as cache:
        vectors = cache.get([key(number) for number in numbers])
        for number in numbers:
            if key(number) in vectors:
                expected = vector(number, cache._bytes // 4)
                assert vectors[key(number)].tobytes() == expected.tobytes()
    return [number for number in numbers if key(number) in vectors]


@pytest.fixture
def path():
    return cache_dir() / FOLDER / FILE


@pytest.fixture
def pass_time(monkeypatch):
    """Let days go by."""

    def pass_time(days):
        now = time.time() + days * DAY
        monkeypatch.setattr(embedding_cache.time, "time", lambda: now)

    return pass_time


def test_vectors_outlive_the_process(path):
    assert cached(1, 2) == []
    fill(1, 2)
    fill(3)
    assert cached(1, 2, 3, 4) == [1, 2, 3]
    with open_cache() as cache:
        cache.put({key(2): vector(7)})
        assert cache.get([key(2), key(2)])[key(2)].tolist() == vector(7).tolist()
        assert cache.get([]) == {}
    assert [file.name for file in path.parent.iterdir()] == [FILE]


def test_a_vector_out_of_a_float64_computation_is_kept_as_float32():
    exact = vector(1).astype(np.float64) / 3
    with open_cache() as cache:
        cache.put({key(1): exact})
        stored = cache.get([key(1)])[key(1)]
    assert stored.dtype == np.float32
    assert stored.tolist() == (vector(1) / 3).tolist()


def test_embedders_share_the_file_and_no_vector():
    fill(1)
    for other in ({"fingerprint": "f" * 16}, {"dimensions": 4}, {"dimensions": 12}):
        assert cached(1, **other) == []
        fill(1, **other)
        assert cached(1, **other) == [1]
    assert cached(1) == [1]


@pytest.mark.skipif(os.name != "posix", reason="modes as on POSIX")
def test_only_the_user_can_look_inside(path):
    fill(1)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    data = path.read_bytes()
    assert b"text 1" not in data
    assert FINGERPRINT.encode() not in data
    assert key(1) not in data


def start_writer(first, last):
    """Write vectors in another process, which prints the number of each that is written."""
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(first), str(last)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_several_processes_write_at_once():
    writers = [start_writer(0, 80), start_writer(40, 120)]
    ends = [writer.communicate(timeout=120) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert [err for _, err in ends] == ["", ""]
    assert cached(*range(120)) == list(range(120))


def test_what_was_put_outlives_a_kill(path):
    writer = start_writer(0, 1_000_000)
    done = [int(writer.stdout.readline()) for _ in range(50)]
    writer.send_signal(signal.SIGKILL)
    done += [int(line) for line in writer.communicate(timeout=120)[0].split()]
    assert cached(*done) == done
    fill(2_000_000)
    assert cached(2_000_000) == [2_000_000]


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.99])
def test_a_torn_file_is_made_anew(path, share, caplog):
    fill(*range(300))
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    assert len(cached(*range(300))) < 300
    fill(*range(300))
    assert cached(*range(300)) == list(range(300))


def test_a_file_of_something_else_is_made_anew(path, caplog):
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database" * 1000)
    fill(1)
    assert "is damaged and will be made anew" in caplog.text
    assert cached(1) == [1]
    path.unlink()
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE vectors (key BLOB, day INTEGER)")
    file.close()
    fill(2)
    assert cached(1, 2) == [2]


def test_no_flipped_bit_is_a_wrong_vector(path):
    fill(*range(60))
    whole = path.read_bytes()
    offsets = range(0, len(whole), 977)
    losses = 0
    for offset in offsets:
        data = bytearray(whole)
        data[offset] ^= 1 << offset % 8
        path.write_bytes(data)
        losses += len(cached(*range(60))) < 60
        fill(*range(60))
        assert cached(*range(60)) == list(range(60))
    assert 0 < losses < len(offsets)


def test_vectors_of_other_types_are_a_miss(path):
    fill(1)
    for forged in (7, "text", None, b"", b"short", b"\0" * 40):
        with sqlite3.connect(path) as file:
            file.execute("UPDATE vectors SET vector = ?", (forged,))
        file.close()
        assert cached(1) == []
    fill(1)
    assert cached(1) == [1]


def test_a_vector_under_the_key_of_another_is_a_miss(path):
    fill(1, 2)
    with sqlite3.connect(path) as file:
        (vectors,) = zip(*file.execute("SELECT vector FROM vectors ORDER BY rowid"), strict=True)
        file.execute("UPDATE vectors SET vector = ?", (vectors[0],))
    file.close()
    assert cached(1, 2) == [1]


def test_the_cache_is_bounded_and_the_longest_unused_go_first(path, pass_time, count_saved):
    limit = 1 << 20
    options = {"limit": limit, "dimensions": 384}
    unused, used = range(100), range(100, 200)
    fill(*unused, *used, **options)
    pass_time(2)
    assert cached(*used, **options) == list(used)
    first, count = 1_000, 200
    while count_saved() == count:
        fill(*range(first, first + 20), **options)
        first, count = first + 20, count + 20
    assert 0 < len(cached(*unused, **options)) < 100
    assert cached(*used, **options) == list(used)
    assert cached(*range(1_000, first), **options) == list(range(1_000, first))
    for first in range(2_000, 4_000, 20):
        fill(*range(first, first + 20), **options)
        assert path.stat().st_size < 1.1 * limit
    assert cached(*range(3_980, 4_000), **options) == list(range(3_980, 4_000))


def test_a_vector_in_use_is_noted_once_a_day(path, pass_time):
    fill(1)
    stamps = [path.stat().st_mtime_ns]
    for days in (0, 1, 0):
        pass_time(days)
        assert cached(1) == [1]
        stamps.append(path.stat().st_mtime_ns)
    assert stamps[0] == stamps[1] < stamps[2] == stamps[3]


def test_without_a_folder_nothing_is_kept_and_that_is_told_once(caplog):
    (cache_dir() / FOLDER).parent.mkdir(parents=True)
    (cache_dir() / FOLDER).write_text("a file", encoding="utf-8")
    for _ in range(2):
        fill(1)
        assert cached(1) == []
    assert caplog.text.count("cannot be used") == 1
    assert (cache_dir() / FOLDER).read_text(encoding="utf-8") == "a file"


def test_a_cache_that_is_cleared_meanwhile_is_begun_anew_by_the_next(path, caplog):
    with open_cache() as cache:
        cache.put({key(1): vector(1)})
        path.unlink()
        fill(2)
        for _ in range(2):
            cache.put({key(3): vector(3)})
    assert caplog.text.count("cannot be used") == 1
    assert cached(1, 2, 3) == [2]


def test_what_cannot_be_written_can_still_be_read(path, caplog, pass_time):
    """As on a full disk; root may write any file, but not one of a later version of the format."""
    fill(1)
    data = bytearray(path.read_bytes())
    data[18] = 3
    path.write_bytes(data)
    pass_time(1)
    with open_cache() as cache:
        for _ in range(2):
            cache.put({key(2): vector(2)})
            assert cache.get([key(1), key(2)]).keys() == {key(1)}
    assert caplog.text.count("cannot be used") == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives away")
def test_a_folder_of_another_user_is_not_used(path, caplog):
    fill(1)
    os.chown(path.parent, 12345, -1)
    assert cached(1) == []
    assert "belongs to user 12345" in caplog.text
