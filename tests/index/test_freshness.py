"""What differs between an index and the disk."""

import os
import shutil

import pytest

from skillsearch.index.build.freshness import is_up_to_date
from skillsearch.index.storage.cache import IndexFolder


def paths(*found):
    """Return paths as text."""
    return tuple(map(str, found))


def skill(root, name):
    """Return the SKILL.md of a skill."""
    return root / name / "SKILL.md"


def test_an_unchanged_disk_differs_in_nothing(index):
    """By stat and by hash."""
    for verify in (False, True):
        found = index.differences(verify=verify)
        assert len(found) == 0
        empty = {"added": [], "changed": [], "removed": [], "missing_roots": []}
        assert found.to_dict() == empty
    assert index.is_current()


def test_what_came_changed_and_went_is_told_by_path(index, root, add_skill):
    """Each list in order."""
    new = [add_skill(root / name, name, "New.") for name in ("b-new", "a-new")]
    skill(root, "tea-timer").write_text("other bytes")
    shutil.rmtree(root / "pdf-forms")
    (root / "sql-tuning").rename(root / "moved")
    found = index.differences()
    assert found.added == paths(new[1], new[0], skill(root, "moved"))
    assert found.changed == paths(skill(root, "tea-timer"))
    assert found.removed == paths(skill(root, "pdf-forms"), skill(root, "sql-tuning"))
    assert found.missing_roots == ()
    assert len(found) == 6
    assert str(found) == "3 added, 1 changed, 2 removed"
    assert not index.is_current()


def test_a_touched_file_is_not_current_but_no_difference(index, root):
    """Its bytes are the same."""
    os.utime(skill(root, "tea-timer"))
    assert not index.is_current()
    assert len(index.differences()) == 0


def test_a_change_without_a_trace_is_found_by_hash(index, root):
    """Same size, time and inode."""
    path = skill(root, "tea-timer")
    before = path.stat()
    path.write_text(path.read_text().replace("Green", "Black"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert index.is_current()
    assert len(index.differences()) == 0
    assert index.differences(verify=True).changed == paths(path)


def test_a_missing_root_is_told_apart_from_removed_skills(tmp_path, root, build, add_skill):
    """A drive that is not there has not lost its skills."""
    other = tmp_path / "other"
    add_skill(other / "plants", "plants", "Water the plants.")
    index = build(root, other)
    root.rename(tmp_path / "unplugged")
    shutil.rmtree(other / "plants")
    found = index.differences()
    assert found.missing_roots == paths(root)
    assert found.removed == paths(skill(other, "plants"))
    assert not index.is_current()


def test_a_file_that_could_not_be_read_and_cannot_now_is_no_difference(root, build, tmp_path):
    """But one that can be read now is, and one that no longer can be."""
    path = skill(root, "tea-timer")
    good = path.read_text()
    (tmp_path / "outside.md").write_text(good)
    path.unlink()
    path.symlink_to(tmp_path / "outside.md")
    index = build(root)
    assert len(index.differences()) == 0
    assert len(index.differences(verify=True)) == 0
    path.unlink()
    path.write_text(good)
    assert index.differences().changed == paths(path)
    index.refresh()
    path.unlink()
    path.symlink_to(tmp_path / "outside.md")
    assert index.differences().changed == paths(path)


def test_a_file_without_frontmatter_is_known_too(root, build):
    """Unchanged it is no difference, though no skill."""
    skill(root, "tea-timer").write_text("no frontmatter")
    index = build(root)
    assert len(index) == 4
    assert len(index.differences()) == 0


def test_without_a_snapshot_every_file_is_hashed(index, root):
    """The index itself knows the hashes of its skills."""
    (index.folder / "snapshot.bin").unlink()
    assert not index.is_current()
    assert len(index.differences()) == 0
    skill(root, "tea-timer").write_text("other bytes")
    assert index.differences().changed == paths(skill(root, "tea-timer"))


def test_the_snapshot_of_another_generation_is_not_believed(index, root, build, add_skill):
    """A reader with an older index knows that it is older."""
    add_skill(root / "new", "new", "New.")
    newer = build(root)
    assert not index.is_current()
    assert index.differences().added == paths(skill(root, "new"))
    assert len(newer.differences()) == 0


@pytest.mark.parametrize("change", ["add", "remove", "edit", "nested"])
def test_is_up_to_date_sees_every_usual_change(index, root, add_skill, change):
    """By stat alone."""
    folder = IndexFolder(index.folder)
    assert is_up_to_date(index.opened, folder)
    if change == "remove":
        skill(root, "tea-timer").unlink()
    elif change == "edit":
        skill(root, "tea-timer").write_text("other")
    else:
        add_skill(root / ("new" if change == "add" else "tea-timer/deeper"), "new", "New.")
    assert not is_up_to_date(index.opened, folder)
