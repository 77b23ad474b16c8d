"""Tests of the only code that opens files of a skill."""

import hashlib
import os
import socket
from contextlib import suppress
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from skillsearch.errors import ParseError, SkillError, UnsafePathError
from skillsearch.skills import resources
from skillsearch.skills.resources import (
    confine,
    content_hash,
    is_utf8,
    list_files,
    open_in_skill,
    printable,
    read_file,
    read_skill_md,
)

NEEDS_ORDINARY_USER = pytest.mark.skipif(
    os.geteuid() == 0, reason="root reads whatever the permissions say"
)


@pytest.fixture
def skill_dir(tmp_path):
    """A skill with a document, a script, and a secret beside its folder."""
    folder = tmp_path / "root" / "tea"
    (folder / "references").mkdir(parents=True)
    (folder / "scripts").mkdir()
    (folder / "SKILL.md").write_text("---\ndescription: Tea\n---\n", encoding="utf-8")
    (folder / "references" / "guide.md").write_text("steep", encoding="utf-8")
    (folder / "scripts" / "brew.sh").write_text("echo tea", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    return folder


def code_of(path, **options):
    """Return the code with which reading a SKILL.md fails."""
    with pytest.raises(ParseError) as caught:
        read_skill_md(path, **options)
    return caught.value.code


def test_skill_md_is_read_with_its_status(skill_dir):
    """Bytes and status come from the same open file."""
    path = skill_dir / "SKILL.md"
    data, status = read_skill_md(path)
    assert data == path.read_bytes()
    assert (status.st_ino, status.st_size) == (path.stat().st_ino, len(data))


def test_skill_md_of_exactly_the_limit_is_read(skill_dir):
    """The limit itself is allowed, one byte more is not."""
    path = skill_dir / "SKILL.md"
    size = path.stat().st_size
    assert len(read_skill_md(path, limit=size)[0]) == size
    assert code_of(path, limit=size - 1) == "file-too-large"


def test_sparse_file_of_five_gigabytes_is_not_read(skill_dir):
    """A huge file is refused by its size, before a byte is read."""
    path = skill_dir / "SKILL.md"
    with path.open("r+b") as file:
        file.truncate(5 << 30)
    assert code_of(path) == "file-too-large"


def test_file_that_grows_while_it_is_read_is_cut_off(skill_dir, monkeypatch):
    """A size that was right at first does not make the reader follow without end."""
    monkeypatch.setattr(os, "read", lambda fd, count: b"x" * count)
    assert code_of(skill_dir / "SKILL.md", limit=1000) == "file-too-large"


def test_failure_to_read_is_a_parse_error(skill_dir, monkeypatch):
    """A disk error while reading is told like any other unreadable file."""

    def fail(fd, count):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "read", fail)
    assert code_of(skill_dir / "SKILL.md") == "file-unreadable"
    with pytest.raises(SkillError, match="Input/output"):
        read_file(skill_dir, "references/guide.md")


def test_special_files_do_not_block(tmp_path):
    """FIFOs, sockets, devices and folders named SKILL.md are refused at once."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        # The path of a socket may have some 100 characters only, so bind by descriptor.
        fd = os.open(tmp_path, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{fd}/socket")
        os.close(fd)
        for name in ("fifo", "folder", "socket"):
            assert code_of(tmp_path / name) == "not-a-regular-file"
    assert code_of(Path("/dev/zero")) == "not-a-regular-file"


def test_missing_skill_md_is_unreadable(tmp_path):
    """A file that vanished since discovery is one more unreadable file."""
    assert code_of(tmp_path / "SKILL.md") == "file-unreadable"
    assert code_of(tmp_path / "gone" / "SKILL.md") == "file-unreadable"


@NEEDS_ORDINARY_USER
def test_forbidden_skill_md_is_unreadable(skill_dir):
    """Missing permissions are told as such."""
    (skill_dir / "SKILL.md").chmod(0)
    assert code_of(skill_dir / "SKILL.md") == "file-unreadable"


def test_skill_md_may_link_into_its_own_folder(skill_dir):
    """A link to a file of the same skill is followed, however it is written."""
    path = skill_dir / "SKILL.md"
    path.unlink()
    path.symlink_to("references/guide.md")
    assert read_skill_md(path)[0] == b"steep"
    path.unlink()
    path.symlink_to(skill_dir / "references" / ".." / "references" / "guide.md")
    assert read_skill_md(path)[0] == b"steep"


LINKS = {
    "outside": ("../../secret.txt", "link-leaves-skill"),
    "absolute": ("/etc/passwd", "link-leaves-skill"),
    "itself": ("SKILL.md", "file-unreadable"),
    "nothing": ("references/none.md", "file-unreadable"),
    "its folder": (".", "not-a-regular-file"),
    "a folder": ("references", "not-a-regular-file"),
}


@pytest.mark.parametrize(("target", "code"), LINKS.values(), ids=LINKS.keys())
def test_other_links_named_skill_md_are_refused(skill_dir, target, code):
    """A link out of the skill, a loop, or a link to no file is never read."""
    path = skill_dir / "SKILL.md"
    path.unlink()
    path.symlink_to(target)
    assert code_of(path) == code


UNSAFE = [
    "",
    ".",
    "./",
    "//",
    "/etc/passwd",
    "//host/share",
    "..",
    "../secret.txt",
    "references/../../secret.txt",
    "references/..",
    "./../secret.txt",
    "%2e%2e/secret.txt",
    "..%2fsecret.txt",
    "%2Fetc%2Fpasswd",
    "references%5c..%5csecret",
    "..\\secret.txt",
    "references\\guide.md",
    "\\\\host\\share",
    "C:",
    "C:/x",
    "c%3A/x",
    "a\x00b",
    "a%00b",
    "a\nb",
    "a%0d%0ab",
    "a\x7fb",
    "a\x85b",
    "\ud800",
    "a/" * 600,
    "%2e",
]


@pytest.mark.parametrize("path", UNSAFE)
def test_unsafe_paths_are_refused_with_the_next_step(skill_dir, path):
    """Every classic of path traversal is refused by its text alone, and says what to ask for."""
    with pytest.raises(UnsafePathError, match=r"references/guide\.md"):
        confine(path)
    with pytest.raises(UnsafePathError):
        read_file(skill_dir, path)


SAFE = {
    "references/guide.md": "references/guide.md",
    "./references//guide.md": "references/guide.md",
    "references%2Fguide.md": "references/guide.md",
    "a%20b.md": "a b.md",
    "%252e%252e/x": "%2e%2e/x",
    "..a/b..c": "..a/b..c",
    "技能.md": "技能.md",
    "~/x": "~/x",
    "...": "...",
}


@pytest.mark.parametrize(("path", "plain"), SAFE.items())
def test_safe_paths_are_decoded_once(path, plain):
    """Percent-encoding is decoded once; what only looks dangerous stays a plain name."""
    assert confine(path) == PurePosixPath(plain)


def test_file_is_read_by_its_relative_path(skill_dir):
    """Documents and scripts are read whole."""
    assert read_file(skill_dir, "references/guide.md") == b"steep"
    assert read_file(skill_dir, "./scripts%2Fbrew.sh") == b"echo tea"


def test_file_over_the_limit_is_refused(skill_dir):
    """A limit is a limit for documents too."""
    with pytest.raises(SkillError, match="larger than 3 bytes"):
        read_file(skill_dir, "references/guide.md", limit=3)


def test_missing_file_names_those_that_come_near(skill_dir):
    """A slip of the pen is answered with the right name, not with a refusal."""
    with pytest.raises(SkillError, match=r"Did you mean: references/guide\.md") as caught:
        read_file(skill_dir, "references/guid.md")
    assert not isinstance(caught.value, UnsafePathError)
    with pytest.raises(SkillError, match="List the skill's files first"):
        read_file(skill_dir, "zzzzzz")


@pytest.mark.parametrize("path", ["references/guide.md/x", "x" * 300, "references/none/x"])
def test_impossible_paths_are_missing_files(skill_dir, path):
    """A file taken for a folder, or a name too long, is no more than a missing file."""
    with pytest.raises(SkillError, match="has no file"):
        read_file(skill_dir, path)


def test_links_inside_a_skill_are_refused(skill_dir):
    """Links to files and folders are refused, wherever they lead."""
    (skill_dir / "out.txt").symlink_to("../../secret.txt")
    (skill_dir / "up").symlink_to("..")
    (skill_dir / "in.md").symlink_to("references/guide.md")
    (skill_dir / "loop").symlink_to("loop")
    for path in ("out.txt", "up/tea/SKILL.md", "in.md", "loop", "loop/x"):
        with pytest.raises(UnsafePathError, match="link"):
            read_file(skill_dir, path)


def test_folders_and_special_files_are_refused(skill_dir):
    """Only regular files are opened, and nothing blocks."""
    os.mkfifo(skill_dir / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        fd = os.open(skill_dir, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{fd}/socket")
        os.close(fd)
        for path in ("references", "references/", "fifo", "socket"):
            with pytest.raises(UnsafePathError, match="not a regular file"):
                read_file(skill_dir, path)


@NEEDS_ORDINARY_USER
def test_forbidden_file_cannot_be_read(skill_dir):
    """Missing permissions are told as such."""
    (skill_dir / "references" / "guide.md").chmod(0)
    with pytest.raises(SkillError, match="Permission"):
        read_file(skill_dir, "references/guide.md")


def test_failure_to_open_is_a_skill_error(skill_dir, monkeypatch):
    """A system error other than a missing file keeps its reason."""

    def fail(folder, parts):
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(resources, "_open_below", fail)
    with pytest.raises(SkillError, match="Permission denied"):
        open_in_skill(skill_dir, "references/guide.md")


def open_descriptors():
    """Return how many descriptors this process holds; scanning holds one more, always."""
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_descriptor_is_left_open(skill_dir):
    """Failures on every level close what they opened."""
    before = open_descriptors()
    (skill_dir / "up").symlink_to("..")
    for path in ("references/guide.md", "references", "up/x", "a/b/c", "references/x/y"):
        with suppress(SkillError):
            read_file(skill_dir, path)
    list_files(skill_dir)
    assert open_descriptors() == before


PARTS = st.one_of(
    st.sampled_from(["references", "guide.md", "tea", "SKILL.md", "scripts", "brew.sh", "é"]),
    st.sampled_from(["..", ".", "", "%2e%2e", "%2f", "\\", "C:", "\x00"]),
    st.sampled_from(["up", "out.txt", "in.md", "loop", "secret.txt", "root"]),
)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(path=st.one_of(st.lists(PARTS, max_size=6).map("/".join), st.text(max_size=30)))
@example(path="up/tea/references/guide.md")
def test_an_opened_file_always_lies_in_the_skill(skill_dir, path):
    """Whatever path is asked for, the opened inode is one of the skill's own files, or none is."""
    for name, target in {"up": "..", "out.txt": "../../secret.txt", "in.md": "SKILL.md"}.items():
        if not (skill_dir / name).is_symlink():
            (skill_dir / name).symlink_to(target)
    own = {found.stat().st_ino for found in skill_dir.rglob("*") if not found.is_symlink()}
    try:
        fd = open_in_skill(skill_dir, path)
    except SkillError:
        return
    try:
        assert os.fstat(fd).st_ino in own
    finally:
        os.close(fd)


def test_files_are_listed_sorted_and_without_skill_md(skill_dir):
    """Own files are listed; links, special files and machinery are not."""
    (skill_dir / "out.txt").symlink_to("../../secret.txt")
    (skill_dir / "up").symlink_to("..")
    os.mkfifo(skill_dir / "fifo")
    for folder in (".git", "node_modules", "scripts/__pycache__"):
        (skill_dir / folder).mkdir()
        (skill_dir / folder / "x").write_text("x", encoding="utf-8")
    assert list_files(skill_dir) == (("references/guide.md", "scripts/brew.sh"), False)


def test_every_listed_file_can_be_read(skill_dir):
    """What the list says can be asked for."""
    for path in list_files(skill_dir)[0]:
        assert read_file(skill_dir, path)


def test_listing_stops_at_its_limit(skill_dir):
    """A cut list says so; one that is just long enough does not."""
    assert list_files(skill_dir, limit=1) == (("references/guide.md",), True)
    assert list_files(skill_dir, limit=2)[1] is False
    assert list_files(skill_dir, limit=0) == ((), True)


def test_endless_and_deep_folders_are_cut(skill_dir, monkeypatch):
    """Neither depth nor numbers keep the listing busy."""
    deep = skill_dir
    for _ in range(40):
        deep = deep / "d"
        deep.mkdir()
    (deep / "x").write_text("x", encoding="utf-8")
    assert list_files(skill_dir) == (("references/guide.md", "scripts/brew.sh"), True)
    monkeypatch.setattr(resources, "_MAX_ENTRIES_SEEN", 2)
    files, is_truncated = list_files(skill_dir)
    assert len(files) <= 2
    assert is_truncated


def test_folder_that_vanishes_while_listing_is_left_out(skill_dir, monkeypatch):
    """A subfolder that cannot be opened shortens the list and marks it as incomplete."""
    real_open = os.open

    def fail_inside(path, flags, **options):
        if path == "scripts":
            raise FileNotFoundError(2, "gone")
        return real_open(path, flags, **options)

    monkeypatch.setattr(os, "open", fail_inside)
    assert list_files(skill_dir) == (("references/guide.md",), True)


def test_listing_a_missing_folder_is_a_skill_error(tmp_path):
    """A skill folder that is gone is told, not listed as empty."""
    with pytest.raises(SkillError, match="cannot be read"):
        list_files(tmp_path / "gone")


def test_names_that_are_not_utf8_are_left_out_of_the_list(skill_dir):
    """A name that no JSON could carry is left out, and the list is marked as incomplete."""
    odd = os.fsencode(skill_dir) + b"/caf\xe9.md"
    Path(os.fsdecode(odd)).touch()
    files, is_truncated = list_files(skill_dir)
    assert files == ("references/guide.md", "scripts/brew.sh")
    assert is_truncated
    assert not is_utf8(os.fsdecode(odd))
    assert printable(os.fsdecode(odd)).endswith("\\udce9.md")


def test_a_file_is_known_by_its_sha256():
    """Of its bytes."""
    assert content_hash(b"abc") == hashlib.sha256(b"abc").hexdigest()
