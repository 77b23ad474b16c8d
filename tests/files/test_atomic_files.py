"""Tests of files that are replaced in one step."""

import errno
import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from skillsearch.errors import CacheError, UnreadableError
from skillsearch.files.atomic_files import (
    reading,
    replace_unchanged,
    sweep,
    write_atomically,
    written_beside,
)
from skillsearch.system_errors import machine_problem

LEAVE = """
import os, signal, sys
from pathlib import Path
from skillsearch.files.atomic_files import written_beside

with written_beside(Path(sys.argv[1]), b"secret"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_reader_of_the_old_file_keeps_its_bytes(tmp_path):
    path = tmp_path / "settings.json"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        write_atomically(path, b"new")
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new"
    assert [file.name for file in tmp_path.iterdir()] == ["settings.json"]


@pytest.mark.parametrize("error", [OSError(28, "No space"), KeyboardInterrupt()])
def test_a_file_that_cannot_be_replaced_stays(tmp_path, monkeypatch, error):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(handle):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(error)):
        write_atomically(path, b"new")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"file": b"old"}


def names_beside(path):
    return sorted(file.name for file in path.parent.iterdir() if file != path)


def test_what_a_killed_writer_left_goes_with_the_next_write_of_that_file(tmp_path):
    path = tmp_path / "settings.json"
    for name in ("settings.json", "other.json"):
        subprocess.run([sys.executable, "-c", LEAVE, str(tmp_path / name)], check=False)
    copies = [".settings.json-20240101", ".settings.json-abcdefgh", "settings.json-new"]
    for name in copies:
        (tmp_path / name).write_text("mine")
    assert len(names_beside(path)) == 2 + len(copies)
    write_atomically(path, b"new")
    remains = [name for name in names_beside(path) if name not in copies]
    assert len(remains) == 1
    assert remains[0].startswith(".other.json-")
    sweep(tmp_path)
    assert names_beside(path) == sorted(copies)


def test_what_a_living_writer_has_begun_is_left_to_it(tmp_path):
    path = tmp_path / "settings.json"
    with written_beside(path, b"slow") as slow:
        write_atomically(path, b"fast")
        sweep(tmp_path)
        assert slow.read_bytes() == b"slow"
        slow.replace(path)
    assert path.read_bytes() == b"slow"
    assert names_beside(path) == []


def test_many_writers_at_once_lose_nothing_to_each_other(tmp_path):
    path, begun = tmp_path / "settings.json", threading.Barrier(4)

    def write(number):
        begun.wait()
        for _ in range(50):
            write_atomically(path, str(number).encode(), sync=False)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    assert path.read_bytes() in (b"0", b"1", b"2", b"3")
    assert names_beside(path) == []


@pytest.mark.parametrize(
    "number",
    [errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EIO, errno.EMFILE, errno.ELOOP],
)
def test_only_a_missing_file_is_damage(tmp_path, number):
    is_damage = number in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
    with pytest.raises(CacheError if is_damage else UnreadableError), reading(tmp_path):
        raise OSError(number, os.strerror(number))


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "Input/output error", "/x"),
        TimeoutError(errno.ETIMEDOUT, "Connection timed out"),
        MemoryError(),
        RuntimeError("can't start new thread"),
        ImportError("libx.so: failed to map segment", path="/x/lib.cpython-311.so"),
    ],
)
def test_what_the_machine_alone_refuses_is_told_with_what_helps(error, wrapped):
    if wrapped:
        try:
            try:
                raise error
            except type(error):
                raise ValueError("of a library")  # noqa: B904 - as libraries do
        except ValueError as outer:
            error = outer
    problem, _, next_step = machine_problem(error).rpartition("; ")
    assert problem
    assert next_step
    for other in (ValueError("x"), ImportError("x"), KeyError("x"), None):
        assert machine_problem(other) == ""


@pytest.mark.parametrize(
    ("reason", "next_step"),
    [
        ("libx.so: failed to map segment from shared object", "more memory"),
        ("libx.so: cannot create shared object descriptor: Cannot allocate memory", "more memory"),
        ("libx.so: cannot map zero-fill pages", "more memory"),
        ("libgomp.so.1: cannot open shared object file", "install what it names"),
    ],
)
def test_the_next_step_for_a_library_that_is_not_loaded_is_for_its_reason(reason, next_step):
    problem = machine_problem(ImportError(reason, path="/x/lib.cpython-311.so"))
    assert problem.startswith(f"A library cannot be loaded: {reason}; ")
    assert next_step in problem.rpartition("; ")[2]


def test_a_file_of_others_keeps_its_mode_and_is_left_alone_once_it_changed(tmp_path):
    path = tmp_path / "settings.json"
    assert replace_unchanged(path, None, b"1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o664)
    assert replace_unchanged(path, b"1", b"2")
    for before in (None, b"1", b"22", b""):
        assert not replace_unchanged(path, before, b"3")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="read-only"):
        replace_unchanged(path, b"2", b"3")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"2", 0o444)
    path.unlink()
    assert not replace_unchanged(path, b"2", b"3")
    path.mkdir()
    assert not replace_unchanged(path, None, b"3")
    assert [*tmp_path.iterdir()] == [path]
