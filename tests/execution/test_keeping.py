"""Files of a run in a folder of the user: whole, at their own paths, and through no link."""

import resource
import signal

import pytest

from skillsearch.execution.workspaces.keeping import keep_files


@pytest.mark.parametrize("is_forced", [False, True])
def test_a_file_is_kept_whole_or_not_at_all(tmp_path, is_forced):
    old = {"a": b"old"} if is_forced else {}
    keep_files(old, tmp_path, force=False)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        saved, problems = keep_files({"a": bytes(200_000)}, tmp_path, force=is_forced)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert saved == []
    assert "a was not written" in problems[0]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == old


@pytest.mark.parametrize("name", ["../a", "b/../../a", "/a", "b//a", ".", ""])
def test_no_file_leaves_the_folder(tmp_path, name):
    folder = tmp_path / "kept"
    saved, problems = keep_files({name: b"new", "ok": b"new"}, folder, force=True)
    assert saved == [folder / "ok"]
    assert "its path leads out" in problems[0]
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
