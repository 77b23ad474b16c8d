"""Tests of removing what a program left: everything goes, and nothing outside is touched."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import skillsearch
from skillsearch.execution.workspaces.files import open_owned, remove_tree
from skillsearch.files.openat import open_folder

ORDINARY = 65534
"""A user who is not root, for tests that root runs."""


@pytest.fixture
def parent(tmp_path):
    (tmp_path / "parent" / "top").mkdir(parents=True)
    fd = open_folder(tmp_path / "parent")
    yield fd
    os.close(fd)


@pytest.fixture
def top(parent, tmp_path):
    return tmp_path / "parent" / "top"


@pytest.fixture
def own_folder():
    """Make a folder for a process of an ordinary user, whoever runs the tests."""
    folder = Path(tempfile.mkdtemp(prefix="ss"))
    if os.geteuid() == 0:
        os.chown(folder, ORDINARY, ORDINARY)
    yield folder
    subprocess.run(["chmod", "-R", "u+rwx", folder], check=True, timeout=120)
    shutil.rmtree(folder)


def run_as_ordinary_user(code, folder):
    """Run Python in a process that is not root, with ``folder`` as a Path; return what it prints.

    Modules are imported first: an ordinary user may not be able to read those of root.
    """
    program = (
        "import os, sys, encodings.idna, json, tempfile, pathlib\n"
        "from skillsearch.execution.workspaces.files import open_owned, remove_tree\n"
        "from skillsearch.execution.workspaces.staging import stage_skill\n"
        "from skillsearch.execution.workspaces.workspace import Workspaces\n"
        "from skillsearch.files.openat import open_folder\n"
        "if os.geteuid() == 0:\n"
        f"    os.setgroups([]); os.setgid({ORDINARY}); os.setuid({ORDINARY})\n"
        f"folder = pathlib.Path({str(folder)!r})\n"
    )
    env = {"PYTHONPATH": str(Path(skillsearch.__file__).parents[1]), "HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", program + code],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.strip()


def names(folder):
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries)


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo, lambda path: path.symlink_to("/")])
def test_what_is_no_folder_is_removed_and_not_opened(parent, top, make):
    make(top.parent / "thing")
    with pytest.raises(NotADirectoryError):
        open_owned(parent, "thing")
    for _ in range(2):  # what is not there is removed already
        assert remove_tree(parent, "thing")
    with pytest.raises(FileNotFoundError):
        open_owned(parent, "thing")
    assert names(parent) == ["top"]


def test_a_folder_goes_with_all_that_is_in_it(parent, top):
    (top / "a" / "b" / "c").mkdir(parents=True)
    (top / "empty").mkdir()
    (top / "a" / "file").write_text("x", encoding="utf-8")
    (top / "a" / "b" / "link").symlink_to("nowhere")
    os.mkfifo(top / "a" / "fifo")
    (top / os.fsdecode(b"\xff\n")).mkdir()
    (top / os.fsdecode(b"\xff\n") / os.fsdecode(b"\xfe")).touch()
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(f"/proc/self/fd/{parent}/top/socket")
    bound.close()
    assert remove_tree(parent, "top")
    assert names(parent) == []


def test_links_are_removed_and_what_they_lead_to_is_not(parent, top, tmp_path):
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "kept.txt").write_text("kept", encoding="utf-8")
    (top / "sub").mkdir()
    for folder in (top, top / "sub"):
        (folder / "to_folder").symlink_to(outside)
        (folder / "to_file").symlink_to(outside / "deep" / "kept.txt")
        (folder / "up").symlink_to("..")
        os.link(outside / "deep" / "kept.txt", folder / "hard")
    before = (outside / "deep").stat().st_mode
    assert remove_tree(parent, "top")
    assert (outside / "deep" / "kept.txt").read_text(encoding="utf-8") == "kept"
    assert (outside / "deep").stat().st_mode == before


def test_a_link_in_the_place_of_the_folder_leads_nowhere(parent, top, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept.txt").touch()
    top.rmdir()
    top.symlink_to(tmp_path / "outside")
    assert remove_tree(parent, "top")
    assert names(tmp_path / "outside") == ["kept.txt"]


@pytest.mark.slow
def test_depth_beyond_any_path_is_no_obstacle(parent, top):
    fd = open_folder(top)
    for _ in range(3_000):
        os.mkdir("x" * 100, dir_fd=fd)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        inner = open_folder(fd, ("x" * 100,))
        os.close(fd)
        fd = inner
    os.close(fd)
    assert remove_tree(parent, "top")
    assert names(parent) == []


@pytest.mark.slow
def test_very_many_files_are_removed(parent, top):
    fd = open_folder(top)
    for number in range(20_000):
        os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    for number in range(2_000):
        (top / f"d{number}").mkdir()
        (top / f"d{number}" / "file").touch()
    assert remove_tree(parent, "top")
    assert names(parent) == []


def test_locked_folders_are_removed(own_folder):
    code = """
for number in range(0o1000):
    inner = folder / "top" / oct(number % 8 * 0o111) / "inner" / str(number)
    inner.mkdir(parents=True, exist_ok=True)
    (inner / "file").touch()
    inner.chmod(number)
for number in range(8):
    (folder / "top" / oct(number * 0o111) / "inner").chmod(number * 0o111)
    (folder / "top" / oct(number * 0o111)).chmod(number * 0o111)
(folder / "top").chmod(0)
parent = open_folder(folder)
print(remove_tree(parent, "top"), os.listdir(folder))
"""
    assert run_as_ordinary_user(code, own_folder) == "True []"


def test_a_locked_folder_is_opened_and_what_a_link_leads_to_is_not(own_folder):
    code = """
for name in ("locked", "target"):
    (folder / name).mkdir(mode=0)
(folder / "link").symlink_to("target")
parent = open_folder(folder)
fd = open_owned(parent, "locked")
os.mkdir("new", dir_fd=fd)
try:
    open_owned(parent, "link")
except OSError:
    print(os.listdir(fd), oct((folder / "target").stat().st_mode))
"""
    assert run_as_ordinary_user(code, own_folder) == "['new'] 0o40000"


def test_what_another_user_owns_is_left_and_said_so(own_folder):
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    (own_folder / "top" / "foreign").mkdir(parents=True)
    (own_folder / "top" / "foreign" / "file").touch()
    code = 'parent = open_folder(folder)\nprint(remove_tree(parent, "top"))'
    assert run_as_ordinary_user(code, own_folder) == "False"
    assert names(own_folder / "top") == ["foreign"]


def test_a_staged_skill_is_removed_with_its_workspace(own_folder):
    code = """
(folder / "skill" / "scripts").mkdir(parents=True)
(folder / "skill" / "scripts" / "run.sh").touch()
with Workspaces(folder / "base") as workspaces:
    workspace = workspaces.of("s")
    stage_skill(workspace, "tea", folder / "skill")
    try:
        (workspace.skills / "tea" / "scripts" / "new").touch()
    except PermissionError:
        print("read-only")
    (workspace.work / "sub").mkdir()
    for locked in (workspace.work / "sub", workspace.work, workspace.out, workspace.path):
        locked.chmod(0)
    workspaces.of("s").new_run_dir()
    (workspace.out / "new").touch()
print(os.listdir(folder / "base"))
"""
    assert run_as_ordinary_user(code, own_folder) == "read-only\n[]"


def test_what_is_mounted_in_a_folder_is_left_as_it_is(tmp_path):
    """A program without isolation may have mounted anything there; the mount itself stays too."""
    for name in ("parent/top/place", "precious"):
        (tmp_path / name).mkdir(parents=True, mode=0o755)
    (tmp_path / "precious" / "photo").touch()
    code = (
        "from pathlib import Path; import sys\n"
        "from skillsearch.execution.workspaces.files import remove_tree\n"
        "from skillsearch.files.openat import open_folder\n"
        "print(remove_tree(open_folder(Path(sys.argv[1])), 'top'))\n"
    )
    mount = 'mount --bind precious parent/top/place && exec "$@" parent'
    enter = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run([*enter, "true"], capture_output=True, timeout=120, check=False).returncode:
        pytest.skip("user namespaces are not allowed here")
    done = subprocess.run(
        [*enter, mount, "sh", sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(skillsearch.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
    assert names(tmp_path / "precious") == ["photo"]
    assert (tmp_path / "precious").stat().st_mode & 0o777 == 0o755
