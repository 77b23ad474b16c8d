"""The lock file pins what was added, through updates, kills and removals."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from skillsearch.errors import SkillSearchError
from skillsearch.roots import lock
from skillsearch.roots.bundles import content_digest, local_root
from skillsearch.roots.sources import added_source, folder_of

pytestmark = pytest.mark.usefixtures("hashing")


@contextmanager
def unwritable():
    """Have the lock file on a disk that cannot be written."""
    replace = Path.replace

    def fail(path, target):
        if target == lock.lock_file():
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return replace(path, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        yield


def is_pinned():
    pins = lock.read_lock()
    return all(content_digest(folder_of(name)) == pins[name].digest for name in pins)


def test_a_copy_that_was_never_agreed_to_is_asked_about_however_it_came(cli, host, names):
    url = host({"good": "Good.", "same": "Same."})
    cli("add", url)
    (agreed,) = lock.read_lock().values()
    path = lock.lock_file()
    host({"good": "Other.", "same": "Same."})
    assert cli("update", "--yes").exit_code == 0
    path.write_text(path.read_text().replace(lock.read_lock()[agreed.source].digest, agreed.digest))
    update = cli("update")
    assert (update.exit_code, is_pinned()) == (1, False)
    assert f"{url}: added: good, same\n" in update.stderr
    assert "skillsearch update" in cli("doctor").stdout
    assert cli("update", "--yes").exit_code == 0
    assert is_pinned()
    assert "unchanged since" in cli("update").stderr
    assert names() == ["good", "same"]


@pytest.mark.parametrize("command", ["add", "update"])
def test_nothing_is_taken_that_cannot_be_pinned(cli, fails, host, state, command):
    url = host({"good": "Good."})
    cli("add", url)
    before = state()
    host({"good": "Other."})
    ask = (command, url, *(["--yes"] if command == "update" else []))
    with unwritable():
        fails(*ask, says="cannot be written", code=1)
    assert state() == before
    assert cli(*ask).exit_code == 0
    assert is_pinned()


def test_a_lock_is_never_larger_than_what_is_read(cli, host, pack, state, monkeypatch):
    """It could never be read again, and every source in it would be lost."""
    url = host({"good": "Good."})
    cli("add", url)
    before = state()
    monkeypatch.setattr(lock, "_MAX_BYTES", lock.lock_file().stat().st_size)
    result = cli("add", str(pack()))
    assert result.exit_code == 2
    assert "and 300 are read" in result.stderr.replace(f"{lock._MAX_BYTES}", "300")
    assert "skillsearch remove SOURCE" in result.stderr
    assert state() == before
    assert is_pinned()
    assert cli("remove", url).exit_code == 0
    monkeypatch.setattr(lock, "_MAX_BYTES", 20)
    assert "has more than 20 bytes" in cli("update").stderr


def test_what_is_added_again_is_pinned_even_if_it_cannot_be_indexed(cli, host):
    url = host({"good": "Good."})
    cli("add", url)
    host({"good": "Other."})
    assert cli("add", url, "--index-dir", "/proc/nope").exit_code != 0
    assert is_pinned()
    assert "unchanged since" in cli("update").stderr


KILLED = """
import os, signal, sys
from skillsearch.cli.app import app

left = int(sys.argv[1])

def kill(event, arguments):
    global left
    ours = ("/roots/", "skillsearch.lock")
    if event in ("os.remove", "os.rename") and any(path in str(arguments) for path in ours):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(kill)
app(["update", "--yes"])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals as on POSIX")
def test_a_kill_at_any_step_of_an_update_is_healed_by_the_next(cli, host):
    url = host({"good": "0"})
    cli("add", url)
    for step in range(1, 60):
        host({"good": str(step)})
        command = [sys.executable, "-c", KILLED, str(step)]
        code = subprocess.run(command, capture_output=True, check=False).returncode
        update = cli("update")
        assert (update.exit_code, is_pinned()) in ((0, True), (1, True)), step
        host({"good": "another"})
        assert cli("update").exit_code == 1
        assert cli("update", "--yes").exit_code == 0
        assert is_pinned()
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert step > 4


def test_a_copy_that_was_cleaned_away_must_be_what_was_added(cli, fails, host, names, server):
    url = host({"good": "Good."})
    cli("add", url)
    folder = folder_of(added_source(url))
    shutil.rmtree(folder.parent)
    assert cli("index").exit_code == 0
    assert names() == ["good"]
    shutil.rmtree(folder.parent)
    host({"good": "Bad."})
    fails("index", says=f"skillsearch update {url}")
    assert "its copy is gone" in cli("doctor").stdout
    assert cli("update", "--yes").exit_code == 0
    assert names() == ["good"]


def test_doctor_compares_copies_with_the_lock_file(cli, host):
    url = host({"good": "Good."})
    cli("add", url)
    assert f"{url}, added or updated on" in cli("doctor").stdout
    folder = folder_of(added_source(url))
    path = folder / "good" / "SKILL.md"
    path.write_bytes(path.read_bytes().replace(b"Good", b"Evil"))
    assert "its copy is not what was added on" in cli("doctor").stdout
    assert "its copy is not what was added on" in cli("status").stdout
    cli("index", "--examples")
    cli("index", "--remove", added_source(url))
    assert f"it is not in the index: skillsearch add {url}" in cli("doctor").stdout


@pytest.mark.parametrize(
    "text", ["", "[]", '{"version": 2, "sources": []}', '{"version": 1}', "x" * 9]
)
def test_a_broken_lock_file_is_told(text):
    path = lock.lock_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    with pytest.raises(SkillSearchError, match="cannot be read"):
        lock.read_lock()


def test_a_broken_lock_file_is_in_the_way_of_changes_alone(cli, fails, host, make_skill, tmp_path):
    make_skill(tmp_path / "mine", "mine")
    cli("index", tmp_path / "mine")
    path = lock.lock_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[]")
    for command in (("add", host({"good": "x"})), ("update",), ("remove", "x/y")):
        fails(*command, says="cannot be read")
    assert cli("query", "mine").exit_code == 0
    assert "The lock file" in cli("doctor").stdout
    assert path.read_text() == "[]"


def test_a_source_that_cannot_be_indexed_is_not_locked(fails, host, tmp_path):
    url = host({"good": "x"})
    (tmp_path / "file").touch()
    fails("add", url, "--index-dir", tmp_path / "file" / "index", says="Not a directory", code=1)
    assert folder_of(added_source(url)).is_dir()
    assert lock.read_lock() == {}


def test_nothing_is_fetched_unasked(cli, host, server):
    cli("add", host({"good": "x"}))
    server.requests.clear()
    for command in (("query", "good"), ("list",), ("doctor",), ("status",), ("index",), ("setup",)):
        cli(*command)
    local_root(added_source(server.url))
    assert server.requests == []


# Out again.


def test_a_source_that_the_index_lost_leaves_the_lock_file(cli, host, names, tmp_path, make_skill):
    make_skill(tmp_path / "mine", "mine")
    url = host({"good": "Good."})
    cli("add", url)
    cli("index", "--replace", tmp_path / "mine")
    removed = cli("remove", url, "--json")
    assert (removed.exit_code, json.loads(removed.stdout)["indexed"]) == (0, 1)
    assert lock.read_lock() == {}
    assert names() == ["mine"]


def test_a_removal_that_cannot_be_pinned_is_done_by_the_next(cli, host):
    url = host({"good": "Good."})
    cli("add", url)
    with unwritable():
        assert cli("remove", url).exit_code == 1
    assert cli("remove", url).exit_code == 0
    assert lock.read_lock() == {}


def test_what_another_index_holds_stays_pinned(cli, fails, host, tmp_path, make_skill):
    make_skill(tmp_path / "mine", "mine")
    url = host({"good": "Good."})
    cli("add", url)
    cli("index", tmp_path / "mine", "--index-dir", tmp_path / "other")
    fails("remove", url, "--index-dir", tmp_path / "other", says="is not a root of this index")
    assert len(lock.read_lock()) == 1
