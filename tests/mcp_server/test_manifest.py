"""The manifest of one skill: complete, exact, and never of more than may be served."""

import hashlib
import json
import os
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from skillsearch.files.openat import RACY_NS
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.mcp_server.publication import (
    MAX_BYTES,
    MAX_FILES,
    Manifest,
    Published,
    Publisher,
    read_published,
)
from skillsearch.skills.findings import Finding

URI = "skill://root/steep-tea"
FILES = {
    "notes.txt": b"a\r\nb\r\n",
    "references/mark.md": b"\xef\xbb\xbf# Mark\n",
    "references/deep/er/a b%20#1.md": b"odd name",
    "assets/logo.png": b"\x89PNG\r\n\x1a\n\x00\xff",
    "assets/empty": b"",
    "日本/茶.md": "お茶".encode(),
}


@pytest.fixture
def skill_md(tmp_path, make_skill):
    path = make_skill(tmp_path / "root", "steep-tea", "Steep tea.", license="MIT")
    for name, data in FILES.items():
        (path.parent / name).parent.mkdir(parents=True, exist_ok=True)
        (path.parent / name).write_bytes(data)
    return path


@pytest.fixture
def folder(skill_md):
    return skill_md.parent


@pytest.fixture
def published(skill_md):
    """The skill as a library knows it."""
    (document,) = SkillLibrary.from_roots(skill_md.parents[1]).list()
    return Published(f"{URI}/SKILL.md", ("root", "steep-tea"), document, False)


@pytest.fixture
def opened():
    return []


@pytest.fixture
def make_reader(opened):
    """Make a publisher that notes what it reads, and by default takes all files as old."""

    def read(published, path):
        opened.append(path)
        return read_published(published, path)

    return lambda *library, racy_ns=-1: publisher(*library, read=read, racy_ns=racy_ns)


def publisher(library=None, **options):
    """Return a publisher, by default of no skills: a test can make their places itself."""
    return Publisher(library or SkillLibrary.from_roots(()), **options)


def code_of(published):
    """Return why a skill cannot be published; the reason names no path of this machine."""
    finding = publisher().manifest_of(published)
    assert isinstance(finding, Finding)
    assert str(published.folder.parent) not in finding.message
    return finding.code


def test_all_files_are_listed_with_the_hash_of_their_bytes(published, skill_md):
    manifest = publisher().manifest_of(published)
    expected = [("SKILL.md", skill_md.read_bytes())]
    expected += [(name, FILES[name]) for name in sorted(FILES)]
    encoded = {
        "references/deep/er/a b%20#1.md": "references/deep/er/a%20b%2520%231.md",
        "日本/茶.md": "%E6%97%A5%E6%9C%AC/%E8%8C%B6.md",
    }
    assert json.loads(json.dumps(asdict(manifest))) == {
        "uri": f"{URI}/SKILL.md",
        "frontmatter": {"name": "steep-tea", "description": "Steep tea.", "license": "MIT"},
        "resources": [
            {
                "uri": f"{URI}/{encoded.get(name, name)}",
                "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
                "size": len(data),
            }
            for name, data in expected
        ],
    }


def test_machinery_and_links_are_left_out(published, folder, tmp_path):
    before = publisher().manifest_of(published)
    for name in (".git/config", "node_modules/a/b.js", "scripts/__pycache__/c.pyc"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("machinery")
    (tmp_path / "secret").write_text("secret")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "in").symlink_to(folder / "notes.txt")
    (folder / "up").symlink_to(tmp_path)
    assert publisher().manifest_of(published) == before


def test_a_skill_md_may_be_a_link_into_its_own_folder(published, folder):
    path = folder / "SKILL.md"
    data = path.read_bytes()
    path.rename(folder / "real.md")
    path.symlink_to("real.md")
    first = publisher().manifest_of(published).resources[0]
    assert (first.digest, first.size) == (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))
    assert read_published(published, "SKILL.md")[0] == data


def test_a_skill_md_may_be_a_link_into_another_root(tmp_path):
    store, skills = tmp_path / "store", tmp_path / "skills"
    store.mkdir()
    (store / "tea.md").write_text("---\nname: tea\ndescription: Brew tea.\n---\nWarm the cup.\n")
    (skills / "tea").mkdir(parents=True)
    (skills / "tea" / "SKILL.md").symlink_to(store / "tea.md")
    published = publisher(SkillLibrary.from_roots([skills, store], model="hashing"))
    (manifest,), _ = published.page(None, 5)
    assert published.read(manifest.uri) == (store / "tea.md").read_bytes()


def test_the_largest_number_of_files_is_published(published, folder):
    (folder / "many").mkdir()
    for number in range(MAX_FILES - 1 - len(FILES)):
        (folder / "many" / str(number)).touch()
    manifest = publisher().manifest_of(published)
    assert isinstance(manifest, Manifest)
    assert len(manifest.resources) == MAX_FILES
    (folder / "one-more").touch()
    assert code_of(published) == "too-many-files"


def test_the_largest_size_is_published(published, folder, skill_md):
    small = sum(map(len, FILES.values())) + skill_md.stat().st_size
    large = folder / "large.bin"
    large.touch()
    os.truncate(large, MAX_BYTES - small)
    assert isinstance(publisher().manifest_of(published), Manifest)
    os.truncate(large, MAX_BYTES - small + 1)
    assert code_of(published) == "files-too-large"
    os.truncate(large, 17 << 20)
    assert code_of(published) == "files-too-large"


def lead_out(folder):
    other = folder.parent.parent / "other.md"
    other.write_bytes((folder / "SKILL.md").read_bytes())
    (folder / "SKILL.md").unlink()
    (folder / "SKILL.md").symlink_to(other)


OTHER_NAME = "---\nname: brew-tea\ndescription: Steep tea.\n---\n"
SPOILED = [
    (lambda folder: (folder.joinpath(*"abcdefghijklmnop")).mkdir(parents=True), "files-incomplete"),
    (lambda folder: Path(folder, os.fsdecode(b"\xff")).touch(), "files-incomplete"),
    (lambda folder: (folder / "a\nb").touch(), "file-unreadable"),
    (lambda folder: (folder / "..\\b").touch(), "file-unreadable"),
    (lambda folder: (folder / "SKILL.md").unlink(), "file-unreadable"),
    (lambda folder: folder.rename(folder.with_name("elsewhere")), "file-unreadable"),
    (lead_out, "file-unreadable"),
    (lambda folder: (folder / "SKILL.md").write_text(OTHER_NAME), "skill-changed"),
    (lambda folder: (folder / "SKILL.md").write_text("# Tea\n"), "frontmatter-unreadable"),
]


@pytest.mark.parametrize(("spoil", "code"), SPOILED)
def test_a_skill_that_cannot_be_served_whole_is_refused(published, folder, spoil, code):
    assert isinstance(publisher().manifest_of(published), Manifest)
    spoil(folder)
    assert code_of(published) == code


def test_a_file_that_vanishes_meanwhile_is_no_crash(published, monkeypatch):
    lstat = Path.lstat

    def vanish(path):
        if path.name == "notes.txt":
            path.unlink()
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", vanish)
    assert code_of(published) == "file-unreadable"


def test_a_folder_in_the_way_of_the_uri_is_refused(published, folder):
    """Otherwise the URI of a folder of the skill would be the URI of the whole skill."""
    renamed = published._replace(path=("root", "folder", "steep-tea"), is_renamed=True)
    assert isinstance(publisher().manifest_of(renamed), Manifest)
    (folder / "steep-tea").mkdir()
    (folder / "steep-tea" / "file").touch()
    assert code_of(renamed) == "uri-taken"
    assert isinstance(publisher().manifest_of(published), Manifest)


def test_a_file_is_read_once_while_it_stays_the_same(published, opened, make_reader):
    reader = make_reader()
    reader.look(published)
    assert opened == ["SKILL.md"]
    first = reader.manifest_of(published)
    assert sorted(opened) == sorted(["SKILL.md", *FILES])
    assert reader.manifest_of(published) == first
    assert len(opened) == 1 + len(FILES)


def test_only_the_file_that_changed_is_read_again(published, folder, opened, make_reader):
    reader = make_reader()
    before = reader.manifest_of(published)
    status = (folder / "notes.txt").stat()
    opened.clear()
    time.sleep(0.02)  # a clock of the file system ticks in between
    (folder / "notes.txt").write_bytes(b"A\r\nB\r\n")
    os.utime(folder / "notes.txt", ns=(status.st_atime_ns, status.st_mtime_ns))
    after = reader.manifest_of(published)
    assert opened == ["notes.txt"]
    changed = [file.uri for file in after.resources if file not in before.resources]
    assert changed == [f"{URI}/notes.txt"]


def test_what_has_just_changed_is_read_each_time(published, opened, make_reader):
    """Another change in the same tick of the clock would not show."""
    reader = make_reader(racy_ns=RACY_NS)
    reader.manifest_of(published)
    reader.manifest_of(published)
    assert sorted(opened) == sorted(["SKILL.md", *FILES] * 2)


def test_forgotten_skills_are_read_again(published, folder, opened, make_reader):
    library = SkillLibrary.from_roots(folder.parent)
    reader = make_reader(library)

    def refresh():
        library.refresh()
        return reader.refresh()

    reader.manifest_of(published)
    (folder.parent / "other").mkdir()
    assert not refresh()
    reader.manifest_of(published)
    assert len(opened) == 1 + len(FILES)
    folder.rename(folder.parents[1] / "away")
    assert refresh()
    (folder.parents[1] / "away").rename(folder)
    assert refresh()
    reader.manifest_of(published)
    assert len(opened) == 2 * (1 + len(FILES))
