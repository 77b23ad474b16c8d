"""SKILL.md files that say little are read on into other Markdown files of their skill."""

import os

import pytest

from skillsearch.index.indexing.reading import read_for_index
from skillsearch.index.skill_index import SkillIndex
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.skills.stubs import continuation_in, continuation_of, digest_of

LONG = "Kettles boil. " * 251


def write(folder, relative, text):
    path = folder / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def names(folder):
    """Return the names of the files that a stub in a folder is read on into."""
    return [os.path.relpath(path, folder) for path, _ in continuation_in(folder).files]


@pytest.mark.parametrize(
    ("text", "is_stub"),
    [
        ("word " * 299, True),
        ("word " * 300, False),
        ("# - | `` *\n" * 9_000, True),
        ("ваза " * 299, True),
        ("茶" * 598, True),
        ("茶" * 599, False),
        ("물을 " * 299, True),
        ("물을 " * 300, False),
    ],
)
def test_a_stub_has_fewer_than_300_words(tmp_path, text, is_stub):
    """Two characters of a script without spaces count as a word, marks as none."""
    continuation = continuation_of(tmp_path / "SKILL.md", text.encode())
    assert (continuation is not None) == is_stub


def test_a_stub_is_read_on_in_order_of_paths(tmp_path):
    write(tmp_path, "references/b.md", "beta " * 300)
    write(tmp_path, "a.MD", "\ufeff" + "alpha " * 300)
    for other in ("SKILL.md", "c.txt", "LICENSE.md", "docs/Changelog.md", ".git/x.md"):
        write(tmp_path, other, "no " * 900)
    continuation = continuation_in(tmp_path)
    assert names(tmp_path) == ["a.MD", "references/b.md"]
    assert continuation.text == f"{'alpha ' * 300}\n\n{'beta ' * 300}"


@pytest.mark.parametrize(("count", "is_read"), [(500, False), (501, True)])
def test_what_says_little_itself_is_left_out(tmp_path, count, is_read):
    """Its files are looked at nevertheless, since they may come to say more."""
    write(tmp_path, "notes.md", "tea " * count)
    continuation = continuation_in(tmp_path)
    assert bool(continuation.text) == is_read
    assert names(tmp_path) == ["notes.md"]
    assert digest_of(continuation.text) != digest_of(None) == ""


def test_the_files_of_a_skill_inside_another_are_its_own(tmp_path):
    write(tmp_path, "inner/SKILL.md", "x")
    write(tmp_path, "inner/deep/notes.md", LONG)
    write(tmp_path, "other/skill.md", "x")
    write(tmp_path, "other/notes.md", LONG)
    write(tmp_path, "references/notes.md", LONG)
    assert names(tmp_path) == ["references/notes.md"]


def test_what_cannot_be_read_is_left_out(tmp_path):
    write(tmp_path / "outside", "secret.md", LONG)
    folder = tmp_path / "skill"
    write(folder, "large.md", "x " * 200_000)
    (folder / "latin.md").write_bytes(b"caf\xe9 " * 600)
    (folder / "link.md").symlink_to(tmp_path / "outside/secret.md")
    (folder / "up").symlink_to(tmp_path / "outside")
    os.mkfifo(folder / "pipe.md")
    assert names(folder) == ["latin.md"]
    assert continuation_in(folder).text == ""
    for number in range(40):
        write(folder, f"n/{number:02}.md", "x" * 10)
    assert len(names(folder)) <= 32


def test_so_much_is_read_and_no_more(tmp_path):
    for number in range(3):
        write(tmp_path, f"{number}.md", f"{number} " * 60_000)
    continuation = continuation_in(tmp_path)
    assert {*continuation.text.split()} == {"0", "1"}
    assert len(continuation.files) == 3
    assert continuation_in(tmp_path / "gone") == ("", ())


def test_a_skill_that_explains_itself_is_not_read_on(tmp_path, make_skill):
    skill_md = make_skill(tmp_path, "brew", "Brews tea.", body=LONG)
    write(skill_md.parent, "references/notes.md", LONG)
    make_skill(tmp_path, "stub", "Brews coffee.")
    roots, _ = make_roots([tmp_path])
    skills = [read_for_index(file).skill for file in discover(roots).files]
    assert {skill.name: skill.continuation for skill in skills} == {"brew": None, "stub": ""}


@pytest.fixture
def stub(tmp_path, make_skill):
    """Write a stub whose other file alone tells of marmalade, beside other skills."""
    for number in range(8):
        make_skill(tmp_path / "root", f"other-{number}", f"Sorts papers of kind {number}.")
    path = make_skill(tmp_path / "root", "kitchen", "Helps in the kitchen.", body="See the guide.")
    guide = write(path.parent, "references/guide.md", f"Boil marmalade of quinces. {LONG}")
    for written in (tmp_path / "root").rglob("*"):
        os.utime(written, (10**9, 10**9))
    os.utime(tmp_path / "root", (10**9, 10**9))
    return guide


def first(index, query):
    hits = index.search(query, threshold=0, system="bm25").hits
    return hits[0].name if hits else None


def test_a_stub_is_found_by_its_other_files(tmp_path, stub):
    """These files are not part of its body: an agent loads them on demand."""
    index = SkillIndex.from_roots([tmp_path / "root"], index_dir=tmp_path / "i", model="hashing")
    skill = index.get("kitchen")
    assert skill.body == "See the guide."
    assert skill.content_hash == index.find("kitchen").content_hash
    assert "marmalade" not in skill.text
    assert first(index, "quinces marmalade") == "kitchen"
    assert index.is_current()
    stub.write_text(f"Pickle gherkins in vinegar. {LONG}")
    assert not index.is_current()
    assert index.differences().changed == (str(stub.parent.parent / "SKILL.md"),)
    index.refresh()
    assert first(index, "quinces marmalade") is None
    assert first(index, "gherkins vinegar") == "kitchen"
    new = write(stub.parent, "more/deep.md", f"Smoke a trout over beech. {LONG}")
    index.refresh()
    assert first(index, "smoke trout") == "kitchen"
    new.unlink()
    stub.unlink()
    index.refresh(only=[stub])
    assert first(index, "smoke trout") is None
    assert first(index, "gherkins") is None
