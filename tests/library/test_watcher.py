"""Tests of the watch over roots, with real folders and the real system behind it."""

import logging
import shutil
import sys
import threading
import time

import pytest
import watchfiles

from skillsearch.errors import MissingDependencyError, RootError
from skillsearch.library import watcher

pytestmark = pytest.mark.slow
DEBOUNCE_MS = 600
"""Between two steps of one change no more time passes than this, even on a busy machine."""
QUIET = 1.0
"""Seconds after which a change that is not told by then never will be."""


class Watched:
    """A watch in a thread, and how often it told of changes."""

    def __init__(self, paths, *, debounce=DEBOUNCE_MS, **options):
        self.calls = 0
        self.expected = None
        self.changes = []
        self.fault = None
        self.has_ended = False
        self.stop = threading.Event()
        options |= {"debounce_ms": debounce, "tick_ms": 50, "poll_ms": 50}
        self.thread = threading.Thread(target=self._run, args=(paths, options))
        self.thread.start()

    def _run(self, paths, options):
        try:
            watcher.watch(paths, self._told, stop=self.stop, **options)
        finally:
            self.has_ended = True

    def _told(self, changed):
        self.changes.append(changed)
        fault, self.calls = self.fault, self.calls + 1
        if fault:
            raise fault

    def reach(self, calls):
        """Wait until changes were told that often or more, and return how often they are."""
        self._until(calls)
        time.sleep(QUIET)
        self.expected = self.calls
        return self.calls

    def _until(self, calls):
        deadline = time.monotonic() + 120
        while self.calls < calls and time.monotonic() < deadline and not self.has_ended:
            time.sleep(0.01)
        assert self.calls >= calls

    def wait(self, calls):
        """Wait until changes were told that often, and no more.

        If they already were, wait whether another call comes; else the next wait or the end of the
        test tells.
        """
        if self.calls == calls:
            time.sleep(QUIET)
        self._until(calls)
        assert self.calls == calls
        assert not self.has_ended
        self.expected = calls


@pytest.fixture
def start():
    running = []

    def begin(*paths, **options):
        running.append(Watched(paths, **options))
        running[-1].wait(1)
        return running[-1]

    yield begin
    time.sleep(QUIET)
    assert [watched.calls for watched in running] == [watched.expected for watched in running]
    for watched in running:
        watched.stop.set()
        watched.thread.join(120)
        assert not watched.thread.is_alive()


@pytest.fixture
def root(tmp_path, make_skill):
    make_skill(tmp_path / "root", "steep-tea")
    return tmp_path / "root"


def test_a_skill_that_comes_changes_and_goes_is_told(start, root, make_skill):
    watched = start(root)
    path = make_skill(root, "brew-coffee")
    watched.wait(2)
    path.write_text("changed")
    watched.wait(3)
    path.unlink()
    watched.wait(4)
    assert watched.changes[0] is None  # what happened before the watch, nobody saw
    assert all(path.parent in paths or path in paths for paths in watched.changes[1:])


def test_any_spelling_of_the_file_counts(start, root):
    watched = start(root)
    (root / "steep-tea" / "Skill.MD").write_text("x")
    watched.wait(2)


def test_other_files_and_folders_of_machinery_do_not_count(start, root, make_skill):
    (root / "node_modules").mkdir()
    watched = start(root)
    notes = root / "steep-tea" / "notes.txt"
    notes.write_text("a")
    watched.wait(1)
    notes.write_text("b")
    watched.wait(1)
    notes.unlink()
    watched.wait(1)
    make_skill(root / "node_modules", "hidden")
    watched.wait(1)
    make_skill(root, "brew-coffee")
    watched.wait(2)


def test_a_root_inside_a_folder_of_machinery_counts(start, root, make_skill):
    inner = root / "node_modules" / "package"
    inner.mkdir(parents=True)
    watched = start(inner)
    make_skill(inner)
    watched.wait(2)


def test_the_folder_of_the_index_does_not_count(start, root, make_skill):
    """A refresh would else be the cause of the next."""
    (root / "index").mkdir()
    watched = start(root, leave_out=root / "index")
    make_skill(root / "index", "hidden")
    (root / "index").rename(root / "gone")
    watched.wait(2)


def test_an_index_around_the_root_hides_nothing(start, root, make_skill):
    watched = start(root, leave_out=root.parent)
    make_skill(root, "brew-coffee")
    watched.wait(2)


def test_a_folder_that_is_moved_in_and_out_is_told(start, root, tmp_path, make_skill):
    """The system tells of the folder alone, not of the skills in it."""
    make_skill(tmp_path / "pack" / "deep", "brew-coffee")
    watched = start(root)
    (tmp_path / "pack").rename(root / "pack")
    watched.wait(2)
    (root / "pack" / "deep").rename(tmp_path / "deep")
    watched.wait(3)
    (root / "pack").rename(tmp_path / "pack")
    watched.wait(4)


def test_a_burst_is_told_once(start, root, make_skill):
    """An unpacked archive, or another branch, is one change."""
    watched = start(root, debounce=400)
    for number in range(500):
        make_skill(root, f"skill-{number}")
    watched.wait(2)


def test_a_root_that_vanishes_and_returns_is_watched_again(start, root, make_skill):
    watched = start(root)
    shutil.rmtree(root)
    watched.wait(2)
    root.mkdir()
    watched.wait(3)
    make_skill(root)
    watched.wait(4)


def test_a_root_that_is_replaced_at_once_is_watched_again(start, root, make_skill):
    """Even where the new folder has the number of the old one."""
    watched = start(root)
    shutil.rmtree(root)
    root.mkdir()
    watched.wait(2)
    make_skill(root)
    watched.wait(3)


def test_a_link_to_the_root_can_be_turned(start, tmp_path, make_skill):
    for name in ("old", "new"):
        make_skill(tmp_path / name)
    link = tmp_path / "current"
    link.symlink_to("old")
    watched = start(link)
    link.unlink()
    link.symlink_to("new")
    calls = watched.reach(2)
    make_skill(tmp_path / "new", "brew-coffee")
    watched.wait(calls + 1)


def test_a_missing_root_is_waited_for(start, tmp_path, make_skill):
    watched = start(tmp_path / "a" / "b")
    (tmp_path / "a" / "b").mkdir(parents=True)
    watched.wait(2)
    make_skill(tmp_path / "a" / "b")
    watched.wait(3)


def test_a_missing_root_does_not_hide_the_others(start, root, tmp_path, make_skill):
    (tmp_path / "file").write_text("x")
    watched = start(tmp_path / "none", root, tmp_path / "file")
    make_skill(root, "brew-coffee")
    watched.wait(2)
    make_skill(tmp_path / "none")
    watched.wait(3)


def test_a_fault_is_told_and_the_watch_goes_on(start, root, make_skill, caplog):
    watched = start(root)
    faults = [RootError("The root is gone."), PermissionError(13, "No")]
    for calls, fault in enumerate((*faults, None), 2):
        watched.fault = fault
        make_skill(root, f"skill-{calls}")
        watched.wait(calls)
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [f"{fault} Still watching." for fault in faults]


def test_folders_are_polled_where_the_system_cannot_tell(
    start, root, make_skill, caplog, monkeypatch
):
    """As when all its watches are in use; this is said once."""
    real = watchfiles.watch

    def exhausted(*paths, **options):
        if not options["force_polling"]:
            raise OSError("OS file watch limit reached.")
        return real(*paths, **options)

    monkeypatch.setattr(watchfiles, "watch", exhausted)
    watched = start(root)
    make_skill(root, "brew-coffee")
    watched.reach(2)
    (record,) = caplog.records
    assert "OS file watch limit reached." in record.getMessage()


def test_a_path_that_cannot_be_looked_at_is_no_fault_of_the_system(
    start, root, make_skill, caplog, monkeypatch
):
    """Such as one in a folder that may not be entered; its name is too long here, also for root."""
    real = watchfiles.watch
    unseen = {(watchfiles.Change.added, str(root / ("x" * 300) / "file"))}

    def with_unseen(*paths, **options):
        return (changes and changes | unseen for changes in real(*paths, **options))

    monkeypatch.setattr(watchfiles, "watch", with_unseen)
    watched = start(root)
    make_skill(root, "brew-coffee")
    watched.wait(2)
    assert not caplog.records


@pytest.mark.parametrize("name", ["root", "none"])
def test_a_watch_ends_when_it_is_told_to(start, root, name):
    watched = start(root.parent / name)
    watched.stop.set()
    watched.thread.join(120)
    assert watched.has_ended


def test_a_missing_library_is_named_with_its_extra(monkeypatch, root):
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(MissingDependencyError, match=r"install .*\[watch\]"):
        watcher.watch([root], print, stop=threading.Event())
