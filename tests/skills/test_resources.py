"""Tests of the only code that opens files of a skill."""

import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from skillsearch.errors import ParseError, SkillError, UnsafePathError
from skillsearch.skills import resources
from skillsearch.skills.resources import (
    list_files,
    open_in_skill,
    read_file,
    read_page,
    read_skill_md,
    script_path,
)

NEEDS_ORDINARY_USER = pytest.mark.skipif(
    os.geteuid() == 0, reason="root reads whatever the permissions say"
)
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def code_of(path, **options):
    with pytest.raises(ParseError) as caught:
        read_skill_md(path, **options)
    return caught.value.code


def test_skill_md_is_read_with_its_status_up_to_a_limit(skill_dir, monkeypatch):
    path = skill_dir / "SKILL.md"
    data, status = read_skill_md(path)
    assert data == path.read_bytes()
    assert (status.st_ino, status.st_size) == (path.stat().st_ino, len(data))
    with monkeypatch.context() as patch:
        patch.setattr(resources, "MAX_SKILL_MD_BYTES", len(data))
        assert read_skill_md(path)[0] == data
        patch.setattr(resources, "MAX_SKILL_MD_BYTES", len(data) - 1)
        assert code_of(path) == "file-too-large"
    os.truncate(path, 5 << 30)
    assert code_of(path) == "file-too-large"


def test_file_that_grows_while_it_is_read_is_cut_off(skill_dir, monkeypatch):
    monkeypatch.setattr(os, "read", lambda fd, count: b"x" * count)
    assert code_of(skill_dir / "SKILL.md") == "file-too-large"


def test_failure_to_read_is_a_parse_error(skill_dir, monkeypatch):
    def fail(fd, count):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "read", fail)
    assert code_of(skill_dir / "SKILL.md") == "file-unreadable"
    with pytest.raises(SkillError, match="Input/output"):
        read_file(skill_dir, "references/guide.md")


def test_special_files_do_not_block(tmp_path):
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
    assert code_of(tmp_path / "SKILL.md") == "file-unreadable"
    assert code_of(tmp_path / "gone" / "SKILL.md") == "file-unreadable"


@NEEDS_ORDINARY_USER
def test_forbidden_skill_md_is_unreadable(skill_dir):
    (skill_dir / "SKILL.md").chmod(0)
    assert code_of(skill_dir / "SKILL.md") == "file-unreadable"


def test_skill_md_may_link_into_its_own_folder(skill_dir):
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


def test_skill_md_may_link_to_a_text_inside_the_roots(skill_dir, tmp_path):
    path, root = skill_dir / "SKILL.md", skill_dir.parent
    path.unlink()
    for folder in ("root", "other", "outside"):
        (tmp_path / "links" / folder).mkdir(parents=True)
    targets = {
        name: tmp_path / "links" / name for name in ("other/tea.md", "other/.env", "outside/tea.md")
    }
    for target in (root / "shared.md", *targets.values()):
        target.write_text("Pour.", encoding="utf-8")
    roots = (root, tmp_path / "links" / "other")
    for target in (root / "shared.md", targets["other/tea.md"]):
        path.symlink_to(target)
        assert read_skill_md(path, roots)[0] == b"Pour."
        assert code_of(path) == "link-leaves-skill"
        path.unlink()
    for name in ("other/.env", "outside/tea.md"):
        path.symlink_to(targets[name])
        assert code_of(path, roots=roots) == "link-leaves-skill"
        path.unlink()


def test_a_skill_md_that_only_names_another_says_so(skill_dir):
    root = skill_dir.parent
    path = root / "links" / "pot" / "SKILL.md"
    path.parent.mkdir(parents=True)
    below = f"../../{skill_dir.name}"
    named = (f"{below}/SKILL.md", f"@{below}/SKILL.md\n", f"{below}/", f"{skill_dir}/SKILL.md")
    for text in named:
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ParseError, match="names") as caught:
            read_skill_md(path, (root,))
        assert (caught.value.code, caught.value.severity) == ("names-skill", "note")
        assert code_of(path) == "names-file"
    others = ("README.md", "../none/SKILL.md", "/etc/passwd.md", "../pot")
    for text in (*others, f"{below}/references/guide.md"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ParseError, match="names") as caught:
            read_skill_md(path, (root,))
        assert (caught.value.code, caught.value.severity) == ("names-file", "error")
    for text in ("Pour and/or steep.", "See ../tea/SKILL.md", "# Tea\n../tea/SKILL.md"):
        path.write_text(text, encoding="utf-8")
        assert read_skill_md(path, (root,))[0] == text.encode()


def test_two_files_that_name_each_other_are_no_skills(skill_dir):
    for name, other in (("one", "two"), ("two", "one")):
        (skill_dir.parent / name).mkdir()
        (skill_dir.parent / name / "SKILL.md").write_text(f"../{other}/SKILL.md", encoding="utf-8")
    assert code_of(skill_dir.parent / "one" / "SKILL.md", roots=(skill_dir.parent,)) == "names-file"


@pytest.mark.parametrize(("target", "code"), LINKS.values(), ids=LINKS.keys())
def test_other_links_named_skill_md_are_refused(skill_dir, target, code):
    path = skill_dir / "SKILL.md"
    path.unlink()
    path.symlink_to(target)
    assert code_of(path) == code


def test_file_is_read_by_its_relative_path(skill_dir):
    assert read_file(skill_dir, "references/guide.md") == b"steep"
    assert read_file(skill_dir, "./scripts%2Fbrew.sh") == b"echo tea"


def test_file_over_the_limit_is_refused(skill_dir):
    """A page of a huge file would need all of it, for its hash."""
    with pytest.raises(SkillError, match="larger than 3 bytes"):
        read_file(skill_dir, "references/guide.md", limit=3)
    os.truncate(skill_dir / "references" / "guide.md", resources.MAX_FILE_BYTES + 1)
    with pytest.raises(SkillError, match="larger than 16777216 bytes"):
        read_page(skill_dir, "references/guide.md", limit=1)


def test_missing_file_names_those_that_come_near(skill_dir):
    with pytest.raises(SkillError, match=r"Did you mean: references/guide\.md") as caught:
        read_file(skill_dir, "references/guid.md")
    assert not isinstance(caught.value, UnsafePathError)
    with pytest.raises(SkillError, match="List the skill's files first"):
        read_file(skill_dir, "zzzzzz")


def test_failure_to_open_is_a_skill_error(skill_dir, monkeypatch):
    def fail(*_args, **_options):
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(SkillError, match="Permission denied"):
        open_in_skill(skill_dir, "references/guide.md")


@pytest.mark.parametrize("odd", ["\n", "\u202e"], ids=ascii)
def test_names_that_hide_something_are_not_offered(skill_dir, odd):
    (skill_dir / "references" / f"guidee{odd}.md").touch()
    with pytest.raises(SkillError, match=r"Did you mean: references/guide\.md\?$"):
        read_file(skill_dir, "references/guidee.md")


def test_a_miss_in_a_skill_of_hostile_names_is_answered_soon(skill_dir, monkeypatch):
    for number in range(2_000):
        (skill_dir / f"{number:04}{'ab' * 90}").touch()
    compared = []
    record = lambda word, names, **_: compared.append((word, list(names))) or []  # noqa: E731
    monkeypatch.setattr(resources.difflib, "get_close_matches", record)
    with pytest.raises(SkillError, match="has no file"):
        read_file(skill_dir, "ab" * 93)
    ((word, names),) = compared
    assert 0 < len(names) <= 200
    assert len(word) <= 100


def test_only_allowed_folders_are_opened(skill_dir):
    folders = ("references", "assets")
    assert read_page(skill_dir, "references/guide.md", folders=folders).content == "steep"
    with pytest.raises(UnsafePathError, match="not below references/ or assets/"):
        read_page(skill_dir, "SKILL.md", folders=folders)
    assert read_file(skill_dir, "references/guide.md", folders=("references",)) == b"steep"
    with pytest.raises(UnsafePathError, match="not below references/"):
        read_file(skill_dir, "scripts/brew.sh", folders=("references",))


def test_a_hard_link_of_the_same_owner_is_served(skill_dir):
    for name in ("references/linked.md", "SKILL.md"):
        (skill_dir / name).unlink(missing_ok=True)
        (skill_dir / name).hardlink_to(skill_dir.parents[1] / "secret.txt")
    assert read_file(skill_dir, "references/linked.md") == b"secret"
    assert read_skill_md(skill_dir / "SKILL.md")[0] == b"secret"


@NEEDS_ROOT
def test_a_file_of_another_user_with_one_name_is_served(skill_dir):
    for name in ("SKILL.md", "references/guide.md"):
        os.chown(skill_dir / name, 12345, -1)
    assert read_file(skill_dir, "references/guide.md") == b"steep"
    assert read_skill_md(skill_dir / "SKILL.md")[0]


@NEEDS_ROOT
def test_a_hard_link_to_the_file_of_another_user_is_refused(skill_dir):
    """Somebody may have linked into the skill what its owner could not read."""
    secret = skill_dir.parents[1] / "secret.txt"
    os.chown(secret, 12345, -1)
    for name in ("scripts/linked.sh", "skill.md"):
        (skill_dir / name).hardlink_to(secret)
    for read in (read_file, read_page):
        with pytest.raises(UnsafePathError, match="hard link to the file of another user"):
            read(skill_dir, "scripts/linked.sh")
    with pytest.raises(UnsafePathError, match="hard link to the file of another user"):
        script_path(skill_dir, "linked.sh")
    assert code_of(skill_dir / "skill.md") == "link-leaves-skill"


def test_a_script_is_found_below_scripts_by_an_absolute_path(skill_dir, monkeypatch):
    """Only where the name is missing there may it repeat the folder."""
    scripts = skill_dir / "scripts"
    (scripts / "lib").mkdir()
    (scripts / "lib" / "a%41.py").touch()
    assert script_path(skill_dir, "brew.sh") == scripts / "brew.sh"
    assert script_path(skill_dir, "scripts/brew.sh") == scripts / "brew.sh"
    assert script_path(skill_dir, "./lib/a%2541.py") == scripts / "lib" / "a%41.py"
    monkeypatch.chdir(skill_dir.parent)  # the program that runs it may work elsewhere
    assert script_path(Path("tea"), "brew.sh") == scripts / "brew.sh"
    inner = scripts / "scripts" / "brew.sh"
    inner.parent.mkdir()
    inner.touch()
    assert script_path(skill_dir, "scripts/brew.sh") == inner


def test_a_script_is_looked_for_below_scripts_only(skill_dir):
    for script in ("SKILL.md", "references/guide.md", "scripts/guide.md"):
        with pytest.raises(SkillError, match="has no file 'scripts/"):
            script_path(skill_dir, script)
    for script in ("", "scripts", "../SKILL.md", "scripts/../SKILL.md"):
        with pytest.raises(UnsafePathError):
            script_path(skill_dir, script)
    with pytest.raises(SkillError, match=r"no file 'scripts/bew\.sh'.*: scripts/brew\.sh\?"):
        script_path(skill_dir, "bew.sh")


def open_descriptors():
    """Return how many descriptors this process holds; scanning holds one more, always."""
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_descriptor_is_left_open(skill_dir):
    before = open_descriptors()
    (skill_dir / "up").symlink_to("..")
    for path in ("references/guide.md", "references", "up/x", "a/b/c", "references/x/y"):
        with suppress(SkillError):
            read_file(skill_dir, path)
    assert open_descriptors() == before


def test_a_file_is_read_by_the_name_that_is_listed(skill_dir):
    """A per cent sign is not an escape if a file has exactly that name."""
    (skill_dir / "a b.md").write_text("decoded")
    assert read_file(skill_dir, "a%20b.md") == b"decoded"
    out = "%2e%2e%2fa.json"
    with pytest.raises(UnsafePathError):
        read_file(skill_dir, out)
    (skill_dir.parent / "a.json").write_text("outside")
    for name in ("a%20b.md", out):
        (skill_dir / name).write_text("listed")
        assert name in list_files(skill_dir)[0]
        assert read_file(skill_dir, name) == b"listed"


def test_a_path_below_the_skills_own_folder_may_be_absolute(skill_dir):
    """Hosts are told that folder; another one, or a way out of it, is refused as ever."""
    (skill_dir / "references").mkdir(exist_ok=True)
    (skill_dir / "references" / "a b.md").write_text("own")
    for path in ("references/a%20b.md", "references\\a b.md"):
        assert read_page(skill_dir, f"{skill_dir}/{path}").content == "own"
    (skill_dir.parent / "x").write_text("outside")
    for path in (f"{skill_dir}/../x", f"{skill_dir}//etc/passwd", str(skill_dir.parent / "x")):
        with pytest.raises(UnsafePathError):
            read_page(skill_dir, path)


LEFT_BEHIND = """.DS_Store Thumbs.db thumbs.db desktop.ini ._guide.md tool.pyc guide.md~
.guide.md.swp .git .git/config __pycache__/tool.cpython-313.pyc __MACOSX/a.md"""


@pytest.mark.parametrize("name", LEFT_BEHIND.split())
def test_what_systems_leave_behind_is_not_listed(skill_dir, name):
    before = list_files(skill_dir)
    for path in (skill_dir / name, skill_dir / "references" / name):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("left behind")
    assert list_files(skill_dir) == before
    assert read_file(skill_dir, name) == b"left behind"
