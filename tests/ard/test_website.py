"""Tests of writing a website: nothing of anybody else is lost, whatever happens."""

import json
import os
import stat
from pathlib import Path

import pytest

from skillsearch.ard import website
from skillsearch.ard.website import RECORD, write_website
from skillsearch.errors import ConfigError, StorageError
from skillsearch.files.atomic_files import read_record, write_record

FILES = {
    "/.well-known/agent-skills/tea/SKILL.md": b"tea",
    "/.well-known/agent-skills/pour.zip": b"PK",
    "/.well-known/ard.json": b"{}",
}
NEWER = {"/.well-known/agent-skills/tea.zip": b"PK2", "/.well-known/ard.json": b"{} "}


@pytest.fixture
def site(tmp_path):
    """Name the folder of a website that is not there yet."""
    return tmp_path / "site"


def content(site):
    """Return all files but the record, by path."""
    paths = (path for path in site.rglob("*") if path.is_file() and path != site / RECORD)
    return {f"/{path.relative_to(site)}": path.read_bytes() for path in paths}


def test_files_are_written_once_and_for_all_to_read(site):
    assert write_website(site, FILES).written == [path[1:] for path in FILES]
    assert content(site) == FILES
    for path in FILES:
        assert stat.S_IMODE((site / path[1:]).stat().st_mode) == 0o644
    before = (site / RECORD).stat().st_mtime_ns
    assert write_website(site, FILES) == ((), ())
    assert (site / RECORD).stat().st_mtime_ns == before


def test_a_later_run_removes_what_it_does_not_write_any_more(site):
    write_website(site, FILES)
    (site / "index.html").write_text("mine")
    (site / ".well-known" / "security.txt").write_text("mine")
    done = write_website(site, NEWER)
    assert set(done.removed) == {
        ".well-known/agent-skills/tea/SKILL.md",
        ".well-known/agent-skills/pour.zip",
    }
    mine = {"/index.html": b"mine", "/.well-known/security.txt": b"mine"}
    assert content(site) == NEWER | mine
    assert not (site / ".well-known/agent-skills/tea").exists()


def change(path):
    path.write_bytes(b"mine")


def make_link(path):
    path.unlink()
    path.symlink_to("/etc/passwd")


def make_folder(path):
    path.unlink()
    path.mkdir()


def make_pipe(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("spoil", [change, make_link, make_folder, make_pipe])
@pytest.mark.parametrize("path", FILES)
def test_what_somebody_changed_is_left_and_nothing_else_written(site, spoil, path):
    write_website(site, FILES)
    spoil(site / path[1:])
    before = {p: p.lstat().st_mtime_ns for p in site.rglob("*")}
    with pytest.raises(ConfigError, match="Nothing was written"):
        write_website(site, NEWER)
    assert {p: p.lstat().st_mtime_ns for p in site.rglob("*")} == before


def test_what_was_there_before_is_left(site):
    path = site / ".well-known" / "ard.json"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(ConfigError, match=r"\.well-known/ard\.json"):
        write_website(site, FILES)
    assert content(site) == {"/.well-known/ard.json": b"mine"}


def test_a_file_that_is_as_it_shall_be_is_taken_for_ours(site):
    path = site / ".well-known" / "ard.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(FILES["/.well-known/ard.json"])
    assert ".well-known/ard.json" not in write_website(site, FILES).written
    write_website(site, NEWER)
    assert content(site) == NEWER


@pytest.mark.parametrize("name", [".well-known", ".well-known/agent-skills"])
def test_no_link_leads_out_of_the_folder(site, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (site / name).parent.mkdir(parents=True)
    (site / name).symlink_to(elsewhere)
    with pytest.raises(ConfigError):
        write_website(site, FILES)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("after", range(6))
def test_a_killed_run_can_be_repeated(site, monkeypatch, after):
    write_website(site, FILES)
    left = after
    replace = Path.replace

    def dying(path, target):
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", dying)
    if after < 4:  # the record, two files, the record
        with pytest.raises(KeyboardInterrupt):
            write_website(site, NEWER)
    else:
        write_website(site, NEWER)
    monkeypatch.undo()
    write_website(site, NEWER)
    assert content(site) == NEWER
    assert read_record(site / RECORD)["files"].keys() == {path[1:] for path in NEWER}


@pytest.mark.parametrize(
    "files",
    [
        {"../victim": ["x"]},
        {".well-known/../../victim": ["x"]},
        {"victim": ["x"]},
        {"/etc/passwd": ["x"]},
        {".well-known": ["x"]},
        {".well-known//a": ["x"]},
        {".well-known/a": "x"},
        {".well-known/a": [5]},
        [],
    ],
)
def test_a_record_that_lies_makes_us_remove_nothing(site, files):
    """It may have come with a checkout that somebody else made."""
    victim = site.parent / "victim"
    victim.write_bytes(b"precious")
    digest = website._digest(b"precious")
    lie = json.loads(json.dumps(files).replace('"x"', json.dumps(digest)))
    (site / ".well-known").mkdir(parents=True)
    write_record(site / RECORD, {"files": lie})
    with pytest.raises(ConfigError, match="is damaged"):
        write_website(site, FILES)
    assert victim.read_bytes() == b"precious"
    assert content(site) == {}


@pytest.mark.parametrize("data", [b"", b"x\n{}", b"[" * 9999])
def test_a_damaged_record_is_said_to_be(site, data):
    write_website(site, FILES)
    (site / RECORD).write_bytes(data)
    with pytest.raises(ConfigError, match="is damaged"):
        write_website(site, NEWER)


def test_a_file_in_place_of_the_folder_is_refused(site):
    site.write_text("mine")
    with pytest.raises(StorageError, match="cannot be written to"):
        write_website(site, FILES)
    assert site.read_text() == "mine"
