"""Small changes of a large index, written as a delta segment."""

import random
import shutil
from functools import partial

import pytest

from skillsearch.index.skill_index import SkillIndex
from skillsearch.settings.user_folders import cache_dir


@pytest.fixture
def skills(empty_tree):
    for number in range(16):
        empty_tree.write(f"s{number:02}")
    return empty_tree


def has_delta(index):
    return len(index.opened.corpus.documents.segments) == 2


@pytest.fixture
def rebuild(skills, build_small):
    """Bring the index of the skills up to date, or make another one of them."""
    return partial(build_small, skills.root)


@pytest.fixture
def assert_as_new(rebuild, answers):
    """Check that an index is as one that is made of the skills now."""

    def assert_as_new(index):
        new = rebuild(index_dir="new")
        assert not has_delta(new)
        assert list(index.documents()) == list(new.documents())
        assert len(index) == len(new)
        assert answers(index) == answers(new)
        assert index.diagnostics() == new.diagnostics()
        for document in new.documents():
            assert index.find(document.doc_id) == document
        shutil.rmtree(new.folder)

    return assert_as_new


def test_a_change_is_written_beside_what_stays(skills, rebuild, assert_as_new):
    before = rebuild()
    skills.write("s07")
    skills.write("extra")
    skills.remove("s11")
    index = rebuild()
    assert has_delta(index)
    assert index.opened.corpus.documents.deleted.tolist() == [7, 11]
    for part in before.opened.generation.parts:
        if part != "diagnostics.json":
            inodes = [(built.opened.folder / part).stat().st_ino for built in (before, index)]
            assert inodes[0] == inodes[1]
    assert_as_new(index)
    assert index.is_current()


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.slow
def test_what_is_shadowed_follows_every_change(skills, build_small, is_first, answers):
    rng, other = random.Random(3), skills.root.parent / "others"
    other.mkdir()
    roots = [other, skills.root] if is_first else [skills.root, other]
    build_small(*roots)
    seen, forms = set(), set()
    for _ in range(6):
        name = f"s{rng.randrange(3):02}"
        mine, theirs = skills.root / name, other / name
        if rng.random() < 0.5 and mine.exists() and theirs.exists():
            shutil.rmtree(rng.choice([mine, theirs]))
        elif mine.exists():
            shutil.rmtree(theirs, ignore_errors=True)
            shutil.copytree(mine, theirs)
            with (theirs / "SKILL.md").open("a") as file:
                file.write(skills.text(20))
        else:
            skills.write(name)
        index, new = build_small(*roots), build_small(*roots, index_dir="new")
        updated, expected = (built.opened.corpus for built in (index, new))
        forms.add(has_delta(index))
        seen.add(len(updated.documents.shadowed))
        assert list(index.documents()) == list(new.documents())
        assert updated.lexical[1].statistics == expected.lexical[1].statistics
        assert answers(index) == answers(new)
        shutil.rmtree(new.folder)
    assert forms == {True}
    assert len(seen) > 1


def test_an_unchanged_index_is_not_written_again(skills, rebuild):
    rebuild()
    skills.write("s07")
    first = rebuild()
    (skills.root / "s08" / "SKILL.md").touch()
    second = rebuild()
    assert has_delta(first)
    assert second.generation == first.generation


def test_what_was_undone_leaves_nothing_but_what_is_gone(skills, rebuild, assert_as_new):
    path = skills.root / "s07" / "SKILL.md"
    rebuild()
    text = path.read_text()
    skills.write("s07")
    rebuild()
    path.write_text(text)
    index = rebuild()
    assert index.opened.corpus.documents.size == 17
    assert_as_new(index)


def test_beyond_so_many_changes_all_is_written_anew(skills, rebuild, files_of):
    rebuild()
    for number in range(8):
        skills.write(f"s{number:02}")
    assert has_delta(rebuild())
    for number in range(8, 16):
        skills.write(f"s{number:02}")
    index, new = rebuild(), rebuild(index_dir="new")
    assert not has_delta(index)
    assert index.generation == new.generation
    assert files_of(index.opened.folder) == files_of(new.opened.folder)


def test_a_delta_needs_no_saved_vectors(skills, rebuild, files_of):
    rebuild()
    skills.write("s07")
    rebuild()
    shutil.rmtree(cache_dir())
    skills.write("s08")
    index = rebuild()
    assert has_delta(index)
    shutil.rmtree(cache_dir())
    skills.write("s09")
    whole = {"least_documents": 10_000}
    updated, new = (rebuild(index_dir=name, limits=whole) for name in ("index", "new"))
    assert files_of(updated.opened.folder) == files_of(new.opened.folder)


@pytest.mark.parametrize("is_cached", [True, False])
def test_an_index_that_shrinks_below_the_codes_is_exact_again(skills, rebuild, files_of, is_cached):
    """Its vectors were rounded, so they are taken from the cache or made anew, to the bit."""
    limits = {"least_documents": 10_000, "most_flat": 14}
    assert rebuild(limits=limits).opened.corpus.dense.segments[0].codes is not None
    for name in ("s03", "s04"):
        skills.remove(name)
    if not is_cached:
        shutil.rmtree(cache_dir())
    index = rebuild(limits=limits)
    assert len(index) == 14
    assert index.opened.corpus.dense.segments[0].codes is None
    shutil.rmtree(cache_dir())
    new = rebuild(index_dir="new", limits=limits)
    assert files_of(index.opened.folder) == files_of(new.opened.folder)


def test_a_small_corpus_stays_one_segment(skills, rebuild):
    limits = {"least_documents": 17}
    rebuild(limits=limits)
    skills.write("s07")
    assert not has_delta(rebuild(limits=limits))


def test_only_what_is_named_is_looked_at(skills, rebuild, assert_as_new):
    index = rebuild()
    skills.write("s01")
    skills.write("box/inner")
    skills.write("s02")
    skills.remove("s03")
    skills.remove("s04")
    report = index.refresh(
        only=[skills.root / "s01" / "SKILL.md", skills.root / "box", skills.root / "s03"]
    )
    assert has_delta(index)
    assert (report.indexed, report.removed) == (16, 1)
    assert report.reused == 14
    ids = {document.doc_id for document in index.documents()}
    assert "many:box/inner" in ids
    assert "many:s03" not in ids
    assert "many:s04" in ids
    assert not index.is_current()
    index.refresh()
    assert_as_new(index)


def test_a_look_at_some_paths_leaves_the_rest_known(skills, rebuild):
    index = rebuild()
    path = skills.write("s01")
    index.refresh(only=[path])
    report = index.refresh()
    assert (report.reused, report.embedded, report.generation) == (16, 0, index.generation)
    assert index.is_current()


def test_a_file_that_cannot_be_read_goes_and_is_told(skills, rebuild, assert_as_new):
    index = rebuild()
    path = skills.root / "s05" / "SKILL.md"
    text = path.read_text()
    path.write_text("")
    report = index.refresh(only=[path])
    assert (report.removed, report.skipped) == (1, 1)
    assert [
        diagnostic.path for diagnostic in report.diagnostics if diagnostic.severity == "error"
    ] == [str(path)]
    assert_as_new(index)
    path.write_text(text)
    report = index.refresh(only=[path])
    assert (report.indexed, report.skipped, report.diagnostics) == (16, 0, ())


def test_a_broken_file_that_stays_broken_writes_nothing(skills, rebuild):
    index = rebuild()
    path = skills.root / "s05" / "SKILL.md"
    path.write_text("")
    first = index.refresh(only=[path])
    path.write_text("# Still broken")
    for only in ([path], []):
        report = index.refresh(only=only)
        assert (report.generation, report.diagnostics) == (first.generation, first.diagnostics)
    assert index.is_current()


def test_a_named_file_whose_name_changed_its_case_is_found_by_its_new_path(
    skills, rebuild, assert_as_new
):
    index = rebuild()
    path = skills.root / "s05" / "SKILL.md"
    path.rename(path.with_name("skill.md"))
    index.refresh(only=[path.parent])
    assert index.find("many:s05").path == str(path.with_name("skill.md"))
    assert_as_new(index)


def test_nothing_is_written_where_what_is_named_did_not_change(skills, rebuild):
    index = rebuild()
    before = index.generation
    outside = skills.root.parent / "elsewhere" / "SKILL.md"
    report = index.refresh(only=[skills.root / "s01", skills.root / "never", outside])
    assert (report.generation, index.generation) == (before, before)
    assert report.reused == 16


def test_in_a_small_index_all_is_looked_at(skills, rebuild):
    index = rebuild(limits={"least_documents": 17})
    skills.write("s01")
    skills.write("s02")
    index.refresh(only=[skills.root / "s01"])
    assert index.is_current()


def test_a_reader_keeps_the_generation_that_it_opened(skills, rebuild, answers):
    """While the index is amended twice over, and the first generation is removed.

    Only what is read of the bodies, for the best hits, is always what the files hold now.
    """
    reader = rebuild()
    before = answers(reader, reader="off")
    for name in ("s01", "s02", "s03"):
        skills.write(name)
        rebuild()
    assert answers(reader, reader="off") == before
    assert SkillIndex.open(reader.folder).generation != reader.generation
