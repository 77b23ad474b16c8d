"""Folders that are for the user alone."""

import os
import stat
from pathlib import Path

import pytest

from skillsearch.files.private import make_private, tighten
from skillsearch.settings import config, user_folders


def test_a_folder_is_private_with_all_that_had_to_be_made_above(tmp_path):
    before = os.umask(0)
    try:
        (tmp_path / "a").mkdir()
        make_private(tmp_path / "a" / "b" / "c")
        make_private(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b", "a/b/c")]
    assert modes == [0o777, 0o700, 0o700]
    (tmp_path / "file").touch()
    for name in ("file", "file/below"):
        with pytest.raises(OSError, match="file"):
            make_private(tmp_path / name)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no such folder here")
@pytest.mark.parametrize("name", ["usage", "skillsearch/usage"])
def test_a_folder_that_takes_no_other_is_an_error_of_the_disk(name):
    """It says that the new one is not there, as if something above it were missing."""
    with pytest.raises(FileNotFoundError):
        make_private(f"/proc/{name}")


@pytest.mark.parametrize(
    ("before", "after"), [(0o777, 0o700), (0o755, 0o755), (0o1777, 0o1777), (0o770, 0o770)]
)
def test_only_what_was_made_open_to_all_is_tightened(tmp_path, before, after):
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(before)
    tighten(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == after


def test_links_files_and_what_is_missing_stay(tmp_path):
    """A link could lead to a folder that is shared on purpose."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("shared")
    for name in ("shared", "file"):
        (tmp_path / name).chmod(0o777)
    for name in ("link", "file", "missing"):
        tighten(tmp_path / name)
    assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {
        "shared": 0o777, "file": 0o777, "link": 0o777
    }  # fmt: skip


def test_folders_that_earlier_versions_left_open_are_tightened_with_the_settings(home):
    ours = [user_folders.cache_dir(), user_folders.data_dir(), user_folders.user_file().parent]
    project = home / "project"
    for folder in (*ours, project):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
    config.load_settings(project, index_dir=str(project))
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in ours] == [0o700] * 3
    assert stat.S_IMODE(project.stat().st_mode) == 0o777
