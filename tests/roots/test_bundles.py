"""The folder of a bundle in the cache: made once, made anew, never half."""

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skillsearch.errors import RootError
from skillsearch.roots import bundles
from skillsearch.roots.bundles import local_root, update
from skillsearch.roots.sources import folder_of

UNPACK = (
    "import sys; from skillsearch.roots.bundles import local_root; print(local_root(sys.argv[1]))"
)
OLD_NS = 1_600_000_000_000_000_000


def inode(root):
    return root.stat().st_ino


def beside(root):
    return sorted(path.name for path in root.parent.iterdir())


def age(path):
    os.utime(path, ns=(OLD_NS, OLD_NS))
    return path


def test_an_archive_is_unpacked_into_the_cache(pack, contents):
    archive = pack("drinks.zip", {"tea/SKILL.md": b"tea"})
    root = local_root(str(archive))
    assert contents(root) == {"tea/SKILL.md": b"tea"}
    assert beside(root) == ["drinks", "lock", "ready.json"]
    for folder in (root, root.parent, root.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_packagers_of_skills_write_is_an_archive(pack, contents):
    archive = pack("drinks.zip", {"tea/SKILL.md": b"tea"})
    root = local_root(str(archive.rename(archive.with_name("Drinks.SKILL"))))
    assert root.name == "Drinks"
    assert contents(root) == {"tea/SKILL.md": b"tea"}


def test_what_is_left_out_of_an_archive_is_told(pack, caplog):
    local_root(str(pack("drinks.tgz", {"tea/SKILL.md": b"tea", "a:b": b"x"})))
    assert "Left out of" in caplog.text
    assert "drinks.tgz: the member 'a:b' has a colon in its name" in caplog.text


def test_an_archive_that_is_the_same_is_not_unpacked_again(pack):
    archive = age(pack("drinks.zip"))
    root = local_root(archive)
    before = inode(root)
    assert local_root(archive) == root
    os.utime(archive)
    assert local_root(archive) == root
    assert inode(root) == before


def test_an_archive_that_changed_is_unpacked_in_the_same_place(pack, contents):
    root = local_root(pack("drinks.zip", {"a": b"1", "b": b"2"}))
    assert local_root(pack("drinks.zip", {"b": b"3", "c": b"4"})) == root
    assert contents(root) == {"b": b"3", "c": b"4"}


def test_an_archive_written_twice_in_a_moment_is_seen(pack, contents):
    """A young file's time is not trusted: here size, time and inode are those of before."""
    archive = pack("drinks.tar", {"a": b"1"})
    now = time.time_ns()
    os.utime(archive, ns=(now, now))
    root = local_root(archive)
    data = pack("other.tar", {"a": b"2"}).read_bytes()
    with archive.open("r+b") as file:
        file.write(data)
    os.utime(archive, ns=(now, now))
    assert contents(local_root(archive)) == {"a": b"2"}
    assert contents(root) == {"a": b"2"}


SKILL = b"---\nname: steep-tea\ndescription: Steep green tea in hot water.\n---\nUse 80 C.\n"
DAMAGES = {
    "no record": lambda record, skill: record.unlink(),
    "another record": lambda record, skill: record.write_text('{"source": 1}'),
    "nested record": lambda record, skill: record.write_text("[" * 50_000),
    "edited file": lambda record, skill: skill.write_bytes(b"x" * len(SKILL)),
    "no file": lambda record, skill: skill.unlink(),
    "another file": lambda record, skill: skill.with_name("more.md").write_text("more"),
    "permissions": lambda record, skill: skill.chmod(0o666),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_damaged_is_made_anew(pack, damage, contents):
    archive = age(pack("drinks.zip"))
    root = local_root(archive)
    before = inode(root)
    damage(root.parent / "ready.json", root / "steep-tea" / "SKILL.md")
    local_root(archive)
    assert contents(root) == {"steep-tea/SKILL.md": SKILL}
    assert inode(root) != before
    assert beside(root) == ["drinks", "lock", "ready.json"]


def test_what_crashed_processes_left_is_removed(pack):
    archive = age(pack("drinks.zip"))
    root = local_root(archive)
    (root.parent / ".temporary-1" / "new").mkdir(parents=True)
    local_root(archive)
    assert beside(root) == ["drinks", "lock", "ready.json"]


def test_a_refused_archive_leaves_what_was_there(pack, contents):
    root = local_root(pack("drinks.zip"))
    archive = pack("drinks.zip", {"../evil": b"x"})
    with pytest.raises(RootError) as caught:
        local_root(archive)
    assert f"The archive {archive} was refused: the member '../evil'" in str(caught.value)
    assert contents(root) == {"steep-tea/SKILL.md": SKILL}
    assert beside(root) == ["drinks", "lock", "ready.json"]
    other = archive.rename(archive.with_name("other.zip"))
    with pytest.raises(RootError):
        local_root(f"file://{other}")
    assert beside(folder_of(other)) == ["lock"]


@pytest.mark.parametrize("make", [lambda path: None, os.mkfifo])
def test_an_archive_that_is_not_there_is_told(tmp_path, make):
    make(tmp_path / "drinks.zip")
    with pytest.raises(RootError, match=r"drinks\.zip: no such archive; correct the path"):
        local_root(tmp_path / "drinks.zip")


def test_a_cache_that_cannot_be_written_is_told(pack, home):
    (home / "cache").write_text("a file")
    with pytest.raises(RootError, match=r"cannot be unpacked below .*: Not a directory\. Fix"):
        local_root(pack("drinks.zip"))


def test_another_process_is_waited_for_but_not_forever(pack, monkeypatch):
    monkeypatch.setattr(bundles, "LOCK_SECONDS", 0.2)
    archive = pack("drinks.zip")
    root = local_root(archive)
    reason = r"drinks\.zip: another process has been unpacking it for 0\.2 s"
    with (root.parent / "lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RootError, match=reason):
            update(str(archive), root)
    update(str(archive), root)


def test_a_url_is_downloaded_once_and_asked_about_after(server, pack, contents):
    data = pack("drinks.zip", {"a": b"1"}).read_bytes()
    url = server.page("/packs/drinks.zip", data, etag='"1"')
    root = local_root(url)
    before = inode(root)
    assert contents(root) == {"a": b"1"}
    assert local_root(url) == root
    assert inode(root) == before
    assert [headers.get("If-None-Match") for _, headers in server.requests] == [None, '"1"']
    server.page("/packs/drinks.zip", pack("d.zip", {"b": b"2"}).read_bytes(), etag='"2"')
    assert contents(local_root(url)) == {"b": b"2"}


def test_a_damaged_copy_is_downloaded_whole(server, pack, contents):
    """The server is not told that we have it; the same bytes are not unpacked again."""
    url = server.page("/drinks.zip", pack("drinks.zip").read_bytes(), etag='"1"')
    root = local_root(url)
    (root / "steep-tea" / "SKILL.md").unlink()
    assert contents(local_root(url)) == {"steep-tea/SKILL.md": SKILL}
    assert [headers.get("If-None-Match") for _, headers in server.requests] == [None, None]
    before = inode(root)
    server.page("/drinks.zip", pack("drinks.zip").read_bytes())
    assert (inode(local_root(url)), len(server.requests)) == (before, 3)


def test_without_the_server_the_copy_is_used_with_a_warning(server, pack, caplog, contents):
    """One that is out of order is as good as none; without a copy it is an error."""
    url = server.page("/drinks.zip", pack("drinks.zip").read_bytes())
    root = local_root(url)
    server.page("/drinks.zip", status=503)
    with caplog.at_level(logging.WARNING):
        assert local_root(url) == root
    assert [record.message for record in caplog.records] == [
        f"Using the copy that was unpacked before: {url}: the server is failing (503); "
        "try again later."
    ]
    server.stop()
    assert contents(local_root(url)) == {"steep-tea/SKILL.md": SKILL}
    with pytest.raises(RootError, match="cannot be downloaded"):
        local_root(url.replace("drinks", "other"))


def test_a_file_that_is_gone_is_no_reason_to_use_the_copy(server, pack, contents):
    """The server is there and says no; the copy stays for the index that is over it."""
    url = server.page("/drinks.zip", pack("drinks.zip").read_bytes())
    root = local_root(url)
    server.page("/drinks.zip", status=404)
    with pytest.raises(RootError, match="the server answered 404"):
        local_root(url)
    assert contents(root) == {"steep-tea/SKILL.md": SKILL}


def test_a_bare_skill_md_becomes_a_folder(server, contents):
    url = server.page("/skills/steep-tea/SKILL.md", SKILL)
    root = local_root(url)
    assert (root.name, contents(root)) == ("steep-tea", {"SKILL.md": SKILL})


def test_a_web_page_is_no_skill_and_no_archive(server):
    for path in ("/blob/steep-tea/SKILL.md", "/repository"):
        url = server.page(path, b"\n<!DOCTYPE html><html>...")
        with pytest.raises(RootError, match=r"is a web page\. Use the URL of the file itself"):
            local_root(url)


def test_an_archive_behind_any_url_is_known_by_its_bytes(server, pack, contents):
    url = server.page("/o/r/zip/refs/heads/main", pack("drinks.tgz").read_bytes())
    assert contents(local_root(url)) == {"steep-tea/SKILL.md": SKILL}
    url = server.page("/notes.txt", b"just text")
    with pytest.raises(RootError, match=r"notes\.txt was refused: it is not one of \.tar\.gz"):
        local_root(url)


def test_a_url_with_a_password_is_refused_before_anything_is_made(home):
    with pytest.raises(RootError) as caught:
        local_root("https://user:secret@x.org/a.zip")
    assert "contains a user name or password" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert list(home.iterdir()) == []


def start(archive):
    return subprocess.Popen(
        [sys.executable, "-c", UNPACK, str(archive)], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_processes_at_once_unpack_an_archive_once(pack, contents):
    files = {f"skill-{number}/SKILL.md": b"x" * 100 for number in range(2000)}
    archive = pack("drinks.zip", files)
    running = [start(archive) for _ in range(4)]
    try:
        printed = {process.communicate(timeout=120)[0].strip() for process in running}
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait(120)
    root = folder_of(archive)
    assert printed == {str(root)}
    assert [process.returncode for process in running] == [0] * 4
    assert contents(root) == files
    assert beside(root) == ["drinks", "lock", "ready.json"]


def wait_for(process, is_there):
    deadline = time.monotonic() + 120
    while not is_there() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)


@pytest.mark.slow
@pytest.mark.parametrize("files_before", [0, 1, 300, 1500])
def test_a_process_killed_while_it_unpacks_leaves_no_half_root(pack, files_before, contents):
    old = {"old/SKILL.md": b"old"}
    root = local_root(pack("drinks.tar", old))
    files = {f"skill-{number}/SKILL.md": b"x" * 100 for number in range(3000)}
    archive = pack("drinks.tar", files)
    process = start(archive)
    try:
        new = f".temporary-*/new/skill-{files_before}"
        wait_for(process, lambda: any(root.parent.glob(new)))
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate(timeout=120)
    if process.returncode == -signal.SIGKILL:
        assert contents(root) in (old, files)
    local_root(archive)
    assert contents(root) == files
    assert beside(root) == ["drinks", "lock", "ready.json"]


KILLED = """
import os, signal, sys
from skillsearch.roots.bundles import local_root

def kill(event, arguments):
    global left
    if event in ("os.mkdir", "os.remove", "os.rename", "os.rmdir") and "/roots/" in str(arguments):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

for step in sys.stdin:
    child = os.fork()
    if not child:
        left = int(step)
        sys.addaudithook(kill)
        local_root(sys.argv[1])
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def kill_at():
    """Unpack an archive in a process that is killed at a step; returns the exit code."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = []

    def kill(step, archive):
        if not running:
            running.append(subprocess.Popen([sys.executable, "-c", KILLED, archive], **pipes))
        running[0].stdin.write(f"{step}\n")
        running[0].stdin.flush()
        return int(running[0].stdout.readline())

    yield kill
    for process in running:
        process.communicate(timeout=120)


@pytest.mark.skipif(sys.platform == "win32", reason="signals as on POSIX")
def test_a_kill_at_any_step_leaves_the_old_root_or_the_new_one(pack, kill_at, contents):
    old, new = pack("old.zip", {"old": b"1"}), pack("new.zip", {"new": b"2"})
    archive = old.with_name("drinks.zip")
    root, states = folder_of(archive), []
    for step in range(1, 60):
        shutil.copy(old, archive)
        local_root(archive)
        shutil.copy(new, archive)
        code = kill_at(step, archive)
        archive.unlink()
        update(str(archive), root, only_mend=True)
        states.append(contents(root))
        assert beside(root) == ["drinks", "lock", "ready.json"]
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert step > 5
    assert states == sorted(states, key=str, reverse=True)  # there is one step that makes it new
    assert (states[0], states[-1]) == ({"old": b"1"}, {"new": b"2"})


def test_a_crash_of_the_mending_is_mended_too(pack, monkeypatch, contents):
    archive = pack("drinks.zip", {"old": b"1"})
    root = local_root(archive)
    for failing in range(1, 4):
        work = root.parent / ".temporary-killed"
        (work / "new").mkdir(parents=True)
        (work / "ready.json").write_text("{}")
        root.rename(work / "old")
        (root.parent / "ready.json").rename(work / "old.json")
        steps = iter(range(1, 9))

        def step(self, target, steps=steps, failing=failing, rename=Path.rename):
            if next(steps) == failing:
                raise KeyboardInterrupt
            return rename(self, target)

        with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
            patched.setattr(Path, "rename", step)
            update(str(archive), root, only_mend=True)
        update(str(archive), root, only_mend=True)
        assert contents(root) == {"old": b"1"}
        assert beside(root) == ["drinks", "lock", "ready.json"]
