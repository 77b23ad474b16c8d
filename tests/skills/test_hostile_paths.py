"""Hostile paths and trees: whatever is asked for, only the skill's own plain files are served."""

import base64
import itertools
import os
import socket
import unicodedata
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillsearch.errors import SkillError, UnsafePathError
from skillsearch.files.paths import confine
from skillsearch.skills.resources import (
    list_files,
    read_file,
    read_page,
    read_skill_md,
    script_path,
)

CANARY = b"CANARY"
OWN_FILES = (
    *("SKILL.md", "guide.md", "references/guide.md"),
    *("scripts/SKILL.md", "scripts/guide.md", "scripts/references/guide.md"),
)
CANARIES = (
    "x", "SKILL.md", "guide.md", "root/x", "root/SKILL.md", "root/tea2/x", "outside/x",
    "outside/guide.md",
)  # fmt: skip
NEEDS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root makes devices and gives files away"
)
NEEDS_ORDINARY_USER = pytest.mark.skipif(
    os.geteuid() == 0, reason="root reads whatever the permissions say"
)


def by_read_file(skill_dir, path):
    return read_file(skill_dir, path)


def by_read_page(skill_dir, path):
    page = read_page(skill_dir, path)
    return base64.b64decode(page.content) if page.encoding == "base64" else page.content.encode()


def by_script_path(skill_dir, path):
    """Read a file below scripts/ by the path that is given out."""
    return script_path(skill_dir, path).read_bytes()


READERS = [by_read_file, by_read_page]
every_reader = pytest.mark.parametrize("serve", READERS)
every_entry = pytest.mark.parametrize("serve", [*READERS, by_script_path])


def base_of(skill_dir, serve):
    """Return the folder that an entry point's paths begin at."""
    return skill_dir / "scripts" if serve is by_script_path else skill_dir


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def make_tree(folder):
    """Write a skill whose files hold their own paths, and canaries around it; return the skill."""
    skill_dir = folder / "root" / "tea"
    for name in OWN_FILES:
        write(skill_dir / name, name.encode())
    for name in CANARIES:
        write(folder / name, CANARY)
    return skill_dir


def set_traps(base, outside):
    """Put links of every kind and special files into a folder of a skill."""
    links = {
        "file-link": outside / "x",
        "relative-link": os.path.relpath(outside / "x", base),
        "chain": "file-link",
        "longer-chain": "chain",
        "folder-link": outside,
        "relative-folder-link": os.path.relpath(outside, base),
        "folder-chain": "folder-link",
        "up": "..",
        "top": "/",
        "itself": ".",
        "loop": "loop",
        "ping": "pong",
        "pong": "ping",
        "dangling": "nothing",
        "own-file": "guide.md",
        "own-folder": "references",
        "process": "/proc/self/root",
        "zeros": "/dev/zero",
    }
    for name, target in links.items():
        (base / name).symlink_to(target)
    os.mkfifo(base / "fifo")
    (base / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        # The path of a socket may have some 100 characters only, so bind by descriptor.
        fd = os.open(base, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{fd}/socket")
        os.close(fd)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    skill_dir = make_tree(folder)
    for base in (skill_dir, skill_dir / "scripts"):
        set_traps(base, folder / "outside")
    return skill_dir


@pytest.fixture
def skill(tmp_path):
    """A skill and canaries, among which a test sets its own traps."""
    return make_tree(tmp_path)


UNSAFE = [
    # climbing
    "..", "../x", "../../x", "../" * 30 + "etc/passwd", "./../x", ".//..//x", "references/..",
    "references/../../x", "references/../SKILL.md", "references/../guide.md",
    "references/../../tea/guide.md", "references/../../../root/x", "nothing/../../x",
    "guide.md/../../x", "../tea2/x",
    # climbing, encoded once
    "%2e%2e/x", ".%2e/x", "%2e./../x", "..%2fx", "..%2F..%2fx", "%2e%2e%2fx",
    "references%2f..%2f..%2fx", "references/%2e%2e/%2e%2e/x",
    # absolute
    "/", "//", "/etc/passwd", "//etc/passwd", "%2fetc/passwd", "%2f%2fetc%2fpasswd",
    "/proc/self/environ", "{outside}/x",
    # as on Windows
    "..\\x", "..\\..\\x", "references\\..\\..\\x", "..%5cx", "%2e%2e%5c..%5Cx", "../..\\x",
    "\\etc\\passwd", "C:", "C:x", "C:/x", "z%3a/x", "./C:/x", "\\\\host\\share\\x", "\\\\?\\C:\\x",
    "\\\\.\\pipe\\x", "//host/share/x",
    # characters that cut, split or hide
    "\0", "guide.md\0", "guide.md\0.png", "../x\0.md", "guide.md%00", "..%00/x", ".\0./x",
    "guide\n.md", "guide.md\r\nx", "%0a../x", "guide\t.md", "guide\x1b[0m.md", "guide\x7f.md",
    "guide\x85.md", "guide%C2%85.md", "\ud800", "guide\udfff\ud800.md",
    # no file
    "", ".", "./", "./.", "%2e", "%2f",
    # without end
    "x" * 1025, "a/" * 513, "../" * 100_000, "%2e" * 100_000, "%25" * 100_000,
]  # fmt: skip

ODD_NAMES = [
    # encoded more than once
    "%252e%252e/x", "%252e%252e%252fx", "..%252fx", "..%255cx", "guide.md%2500",
    # overlong and broken UTF-8
    "%c0%ae%c0%ae/x", "%c0%ae%c0%ae%c0%afx", "..%c0%afx", "..%c1%9cx", "%e0%80%ae%e0%80%ae/x",
    "%f0%80%80%ae%f0%80%80%ae/x", "..%f8%80%80%80%afx", "..%ff/x", "\udce9",
    # encodings of other systems
    "%u002e%u002e/x", "..%u2215x", "&#46;&#46;/x", "u002eu002e/x", "..;/x", "%%32%65%%32%65/x",
    # look-alikes of dots and slashes
    "\u2024\u2024/x", "\u2025/x", "\uff0e\uff0e/x", "\uff0e\uff0e\uff0fx", "\ufe52\ufe52/x",
    "..\u2215x", "..\u2044x", "..\u29f8x", "..\uff0fx", "..\uff3cx", "..\u2216x", "..\u0338x",
    ".\u200b./x", ".\u2060./x", ".\ufeff./x", "\u202e../x", "..\u00ad/x",
    # dots, spaces and what follows them
    "...", ".../x", "..../x", ".. /x", " ../x", ".. ./x", "..%20/x", "guide.md.", "guide.md ",
    " guide.md", "guide.md...", "guide.md. .", "references /guide.md", "references./guide.md",
    # case
    "SKILL.MD", "skill.md", "GUIDE.MD", "References/guide.md",
    # what shells, browsers and other systems read into a name
    "~", "~/x", "~root/x", "$HOME/x", "${HOME}/x", "%HOME%/x", "`pwd`/x", "$(pwd)/x", "*",
    "guide.*", "?????.md", "[g]uide.md", "{guide.md,x}", "-", "-rf", "|x", ";x",
    "file:///etc/passwd", "file:guide.md", "file://localhost/etc/passwd", "http://host/x",
    "skill://tea/guide.md", "CON", "COM1.md", "aux/x", "guide.md::$DATA", "guide.md:stream",
    "GUIDE~1.MD", "guide.md?x", "guide.md#x", "guide.md;x",
    # long and deep, but not too much so
    "x" * 255, "a/" * 300 + "x",
]  # fmt: skip


@every_entry
def test_unsafe_paths_are_refused(tree, serve):
    for path in UNSAFE:
        unsafe = path.replace("{outside}", str(tree.parents[1] / "outside"))
        with pytest.raises(UnsafePathError):
            confine(unsafe)
        with pytest.raises(UnsafePathError):
            serve(tree, unsafe)


@every_entry
def test_odd_names_name_no_other_file(tree, home, serve):
    write(home / "x", CANARY)
    for path in ODD_NAMES:
        with pytest.raises(SkillError, match="has no file"):
            serve(tree, path)


@every_entry
def test_odd_names_name_themselves(skill, serve):
    for path in ODD_NAMES:
        file = base_of(skill, serve) / confine(path)
        write(file, ascii(path).encode())
        assert serve(skill, path) == ascii(path).encode()
        file.unlink()


LINKED = [
    "file-link", "relative-link", "chain", "longer-chain", "folder-link", "folder-link/x",
    "relative-folder-link/x", "folder-chain/x", "up/x", "up/up/x", "top/etc/passwd",
    "itself/guide.md", "loop", "loop/x", "ping", "dangling", "dangling/x", "own-file",
    "own-folder/guide.md", "process/etc/passwd", "zeros",
]  # fmt: skip


SPECIAL = ("fifo", "socket", "folder", "folder/", "references", "fifo/.")
BELOW = ("fifo/x", "socket/x", "guide.md/x", "folder/x", "x" * 300)


@every_entry
def test_links_and_what_is_no_regular_file_are_refused_at_once(tree, serve):
    for paths, error, said in (
        (LINKED, UnsafePathError, "leads through a link"),
        (SPECIAL, UnsafePathError, "not a regular file"),
        (BELOW, SkillError, "has no file"),
    ):
        for path in paths:
            with pytest.raises(error, match=said):
                serve(tree, path)


@NEEDS_ROOT
@every_entry
def test_devices_are_refused(skill, serve):
    path = base_of(skill, serve) / "zero"
    try:
        os.mknod(path, 0o20666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this system makes no devices")
    with pytest.raises(SkillError):
        serve(skill, "zero")


@every_reader
@pytest.mark.timeout(120)
def test_a_huge_file_is_refused_at_once(skill, serve):
    os.truncate(skill / "guide.md", 5 << 30)
    with pytest.raises(SkillError, match="larger than"):
        serve(skill, "guide.md")


@NEEDS_ORDINARY_USER
@every_entry
def test_unreadable_files_and_folders_are_told(skill, serve):
    base = base_of(skill, serve)
    (base / "guide.md").chmod(0)
    (base / "references").chmod(0)
    for path in ("guide.md", "references/guide.md"):
        with pytest.raises(SkillError, match="Permission"):
            serve(skill, path)
    (base / "references").chmod(0o700)


@every_entry
def test_names_that_differ_in_their_normal_form_are_different_files(skill, serve):
    names = [unicodedata.normalize(form, "café.md") for form in ("NFC", "NFD")]
    for name in names:
        write(base_of(skill, serve) / name, name.encode())
    if len({entry for entry in list_files(skill)[0] if "caf" in entry}) < 2:
        pytest.skip("this file system takes both names for one")
    for name in names:
        assert serve(skill, name) == name.encode()


def swap_file(path, canary):
    """Put a link to the canary in the place of a file, and then the file back."""
    own, aside = path.read_bytes(), path.with_name("aside")
    aside.symlink_to(canary)
    aside.replace(path)
    aside.write_bytes(own)
    aside.replace(path)


def by_read_skill_md(skill_dir, path):
    """Read a file as if it were the SKILL.md of its folder."""
    return read_skill_md(skill_dir / path)[0]


SWAPPED = {"file": "guide.md", "folder": "references/guide.md"}
RACES = [(kind, serve) for kind in SWAPPED for serve in READERS] + [("file", by_read_skill_md)]


@pytest.mark.parametrize(("kind", "serve"), RACES)
def test_what_is_swapped_for_a_link_meanwhile_is_not_followed(
    skill, kind, serve, repeating, swap_for_link
):
    path, outcomes = SWAPPED[kind], set()
    if kind == "file":
        swap = partial(swap_file, skill / path, skill.parent / "x")
    else:
        folder, outside = skill / "references", skill.parents[1] / "outside"
        swap = partial(swap_for_link, folder, outside, skill / "aside")
    with repeating(swap):
        for number in itertools.count():
            if number >= 500 and len(outcomes) > 1:
                break
            try:
                outcomes.add(serve(skill, path))
            except SkillError:
                outcomes.add("refused")
    assert outcomes == {path.encode(), "refused"}


PARTS = st.one_of(
    st.sampled_from(["..", ".", "", "%2e%2e", "%2E.", "%252e%252e", "...", "~", "%00", "\0", " "]),
    st.sampled_from(["/", "%2f", "\\", "%5c", "\u2215", "\uff0f", "%c0%af", "C:", "file:", "%"]),
    st.sampled_from(["file-link", "folder-link", "up", "top", "itself", "own-folder", "loop"]),
    st.sampled_from(["fifo", "socket", "folder", "process", "x", "root", "tea", "outside", "etc"]),
    st.sampled_from(["SKILL.md", "guide.md", "references", "scripts", "GUIDE.md", "%67uide.md"]),
    st.text(max_size=3),
)
NEAR_PARTS = st.sampled_from(
    [".", "", "references", "scripts", "guide.md", "SKILL.md", "%67uide.md", "own-folder", "itself"]
)
PATHS = st.one_of(
    st.lists(NEAR_PARTS, max_size=4).map("/".join),
    st.lists(PARTS, max_size=7).map("/".join),
    st.lists(PARTS, max_size=7).map("".join),
    st.text(st.characters(), max_size=20),
)


@every_entry
@given(path=PATHS)
@example(path="up/tea/references/guide.md")
@example(path="itself/folder-link/x")
@example(path="process/etc/passwd")
def test_only_the_own_files_of_a_skill_are_ever_served(tree, serve, path):
    try:
        served = serve(tree, path)
    except SkillError:
        return
    plain = str(confine(path))
    if serve is by_script_path:
        allowed = {f"scripts/{plain}", plain if plain.startswith("scripts/") else ""}
    else:
        allowed = {plain}
    assert served.decode() in allowed & set(OWN_FILES)


def test_the_canaries_are_where_an_escape_would_find_them(tree):
    """A reader without care does find them, so the tests above can fail."""
    for path in ("../x", "../../x", "file-link", "longer-chain", "relative-folder-link/x", "up/x"):
        assert (tree / path).read_bytes() == CANARY
