"""Tests of locks that are held for a moment."""

import errno
import fcntl
import os
import stat
import time

import pytest

from skillsearch.files import locks


def test_a_lock_keeps_others_out_and_is_let_go(tmp_path):
    path = tmp_path / "lock"
    with locks.briefly_locked(path, 0.1):
        begun = time.monotonic()
        with pytest.raises(TimeoutError), locks.briefly_locked(path, 0.05):
            raise AssertionError("two hold it")
        assert time.monotonic() - begun >= 0.05
        with pytest.raises(TimeoutError), locks.locked(path, 0.05):
            raise AssertionError("two hold it")
    with locks.briefly_locked(path, 0):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_lock_is_no_link_and_needs_a_disk_with_locks(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(OSError, match="link"), locks.briefly_locked(tmp_path / "link", 0):
        raise AssertionError("a link was followed")

    def refuse(_file, _how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="no locks"), locks.briefly_locked(tmp_path / "lock", 9):
        raise AssertionError("there are no locks")
