"""The digest of a model's file is kept as long as nobody can have changed the file."""

import hashlib
import os
import time

import pytest

from skillsearch.embedders import model_files
from skillsearch.embedders.model_files import ModelConfig
from skillsearch.errors import EmbedderError


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "model" / "weights"
    path.parent.mkdir(mode=0o755)
    path.write_bytes(b"abc")
    path.chmod(0o644)
    return path


@pytest.fixture
def verify(weights, monkeypatch):
    """Verify the file as one of that digest, and return whether it was read for that."""
    digest = hashlib.sha256(b"abc").hexdigest()
    config = ModelConfig("model", 256, "mean", sha256={"weights": digest})
    read = []
    real = model_files.sha256_of
    monkeypatch.setattr(model_files, "sha256_of", lambda *args: (read.append(args), real(*args))[1])
    # The clock goes on; the time of a change of a file's state cannot be set.
    monkeypatch.setattr(model_files.time, "time_ns", lambda: time.monotonic_ns() + 10**19)

    def run():
        read.clear()
        assert config.verify(weights) == digest
        return bool(read)

    return run


def test_an_unchanged_file_is_read_once(verify):
    assert [verify(), verify(), verify()] == [True, False, False]


def test_a_file_of_this_second_is_read_again(verify, monkeypatch):
    monkeypatch.setattr(model_files.time, "time_ns", lambda: 0)
    assert [verify(), verify()] == [True, True]


def test_a_changed_file_of_the_same_size_and_date_is_refused(verify, weights):
    stat = weights.stat()
    assert [verify(), verify()] == [True, False]
    weights.write_bytes(b"abd")
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(EmbedderError, match="weights"):
        verify()


@pytest.mark.parametrize("whose", ["file", "folder"])
def test_a_file_that_others_can_write_is_read_each_time(verify, weights, whose):
    (weights if whose == "file" else weights.parent).chmod(0o777)
    assert [verify(), verify()] == [True, True]


def test_a_record_that_others_can_write_is_not_believed(verify):
    assert [verify(), verify()] == [True, False]
    model_files._stamps_file().chmod(0o666)
    assert verify()


@pytest.mark.parametrize("record", [b"", b"{", b"[1]", b"\xff" * 100])
def test_a_damaged_record_is_made_anew(verify, record):
    verify()
    model_files._stamps_file().write_bytes(record)
    assert [verify(), verify()] == [True, False]


def test_a_cache_that_cannot_be_written_costs_only_time(verify):
    folder = model_files._stamps_file().parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_bytes(b"")
    assert [verify(), verify()] == [True, True]
