"""Changes on disk, found by stats, at given paths and by a walk."""

import os
import shutil

import pytest

from skillsearch.index.indexing.changes import ChangeDetector
from skillsearch.index.indexing.snapshot import SeenFiles, Snapshot
from skillsearch.skills.discovery import Scope, discover, make_roots
from skillsearch.types.skills import Diagnostic


@pytest.fixture
def tree(empty_tree):
    """Thirty skills: ten side by side, ten in a folder of theirs, ten within each other."""
    for number in range(10):
        for name in (f"s{number}", f"box/b{number}", f"s{number}/inner/deep"):
            empty_tree.write(name)
    empty_tree.settle()
    return empty_tree


def snapshot_of(*roots):
    """Return what a walk of some roots finds, and the roots."""
    roots, _ = make_roots(roots)
    return Snapshot("ab" * 16, dict(discover(roots).folders), SeenFiles.of([], [])), roots


def is_walk(disk, index):
    return set(Snapshot.load(index.folder).folders) <= set(disk.listed)


def scopes(tree, snapshot, roots, reported=()):
    detector = ChangeDetector(None, tree.root / "index", roots, before=snapshot)
    return detector.changed_scopes(reported)


def paths_and_depths(tree, snapshot, roots, reported=()):
    """Return the folders to look at, as pairs of path and depth."""
    changed = scopes(tree, snapshot, roots, reported)
    return None if changed is None else [(scope.relative, scope.is_deep) for scope in changed]


CHANGES = {
    "a file is written again": (lambda t: t.write("box/b3"), [("box/b3", False)]),
    "a file is put in the place of another": (
        lambda t: t.write("new").replace(t.root / "box/b3/SKILL.md"),
        [("", False), ("box/b3", False), ("new", True)],
    ),
    "a skill comes": (lambda t: t.write("box/more"), [("box", False), ("box/more", True)]),
    "a skill goes": (
        lambda t: shutil.rmtree(t.root / "s4"),
        [("", False), ("s4", True), ("s4/inner", True), ("s4/inner/deep", True)],
    ),
    "a file goes": (lambda t: (t.root / "s4/SKILL.md").unlink(), [("s4", False)]),
    "a folder is moved": (
        lambda t: (t.root / "box").rename(t.root / "chest"),
        [("", False), ("box", True), *((f"box/b{n}", True) for n in range(10)), ("chest", True)],
    ),
    "machinery comes": (lambda t: t.write("node_modules/x"), [("", False)]),
    "a link to a file comes": (
        lambda t: (t.root / "box/x").symlink_to("b1/SKILL.md"),
        [("box", False)],
    ),
    "nothing": (lambda t: None, []),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_changed_is_where_to_look(tree, build_small, case):
    change, expected = CHANGES[case]
    snapshot = Snapshot.load(build_small(tree.root).folder)
    change(tree)
    roots, _ = make_roots([tree.root])
    assert paths_and_depths(tree, snapshot, roots) == expected


WALKS = {
    "a link to a folder comes": lambda t: (t.root / "box/x").symlink_to(t.root / "s1"),
    "a folder too deep comes": lambda t: t.write("/".join("abcdefghijklm")),
    "a name that is no UTF-8 comes": lambda t: (t.root / os.fsdecode(b"\xff")).mkdir(),
    "a folder becomes a file": lambda t: (
        shutil.rmtree(t.root / "s4"),
        (t.root / "s4").write_text("x"),
    ),
}


@pytest.mark.parametrize("case", WALKS)
def test_what_only_a_walk_tells_is_left_to_it(tree, case):
    for name in "abcdefghijkl":
        tree.write("/".join("abcdefghijkl"[: ord(name) - 96]))
    snapshot, roots = snapshot_of(tree.root)
    WALKS[case](tree)
    assert paths_and_depths(tree, snapshot, roots) is None


def test_a_folder_that_a_link_alone_leads_to_is_left_to_a_walk(tree):
    """The skill follows the link, though nothing else changes."""
    tree.write("node_modules/hidden")
    (tree.root / "shown").symlink_to(tree.root / "node_modules/hidden")
    snapshot, roots = snapshot_of(tree.root)
    assert str(tree.root / "node_modules/hidden") in snapshot.folders
    (tree.root / "shown").unlink()
    assert paths_and_depths(tree, snapshot, roots) is None


@pytest.mark.parametrize(
    ("code", "path", "is_walk"),
    [
        ("folder-unreadable", "box/b1", True),
        ("link-leaves-root", "box/link", True),
        ("too-many-folders", "s1", True),
        ("file-name-case", "box/skill.md", False),
        ("folder-unreadable", "s1/inner", False),
    ],
)
def test_a_report_that_would_be_lost_needs_a_walk(tree, code, path, is_walk):
    """Listing a folder does not tell again what is wrong with a folder in it."""
    snapshot, roots = snapshot_of(tree.root)
    tree.write("box/more")
    reported = [Diagnostic(code, "warning", "Something.", str(tree.root / path))]
    assert (paths_and_depths(tree, snapshot, roots, reported) is None) is is_walk


def test_too_many_changes_need_a_walk(tree, build_small):
    """Six folders: with room for six they are looked at, with room for five they are not."""
    index = build_small(tree.root)
    for number in range(5):
        tree.write(f"box/more{number}")
        (tree.root / f"s{number}/new").mkdir()
    for most, is_looked_at in ((6, True), (5, False)):
        changes = ChangeDetector(
            index.opened, index.folder, index.opened.settings.roots, most_places=most
        ).by_stat()
        assert (changes is not None) is is_looked_at


def test_a_root_inside_another_keeps_its_folders(tree):
    tree.write("node_modules/pack/one")
    snapshot, roots = snapshot_of(tree.root, tree.root / "node_modules/pack")
    tree.write("node_modules/pack/two")
    assert scopes(tree, snapshot, roots) == (
        Scope(roots[1], "", False),
        Scope(roots[1], "two", True),
    )


def test_a_change_of_one_skill_lists_nothing_else(tree, build_small, disk):
    build_small(tree.root)
    tree.write("box/b3")
    tree.settle()
    disk.forget()
    index = build_small(tree.root)
    assert [path for path in disk.listed if path.startswith(str(tree.root))] == [
        str(tree.root / "box/b3")
    ]
    assert index.is_current()


def test_the_index_inside_a_root_is_not_looked_into(tree, build_small, disk):
    build_small(tree.root, index_dir=tree.root / "index")
    tree.write("more")
    tree.settle()
    disk.forget()
    index = build_small(tree.root, index_dir=tree.root / "index")
    assert not is_walk(disk, index)
    assert index.find("more").doc_id == "many:more"
    assert not any("/index" in str(path) for path in Snapshot.load(index.folder).folders)


def test_the_last_skill_gone_leaves_an_index_that_says_so(tree, build_small):
    build_small(tree.root)
    for path in list(tree.root.iterdir()):
        shutil.rmtree(path)
    tree.settle()
    assert [diagnostic.code for diagnostic in build_small(tree.root).diagnostics()] == [
        "root-empty"
    ]


def edits(tree):
    rng = tree.rng

    def some(pattern):
        paths = sorted(tree.root.rglob(pattern))
        return rng.choice(paths) if paths else tree.write("again")

    def folder():
        return some("SKILL.md").parent

    def prose():
        return f"leaf{rng.random()} " * rng.choice([10, 600])

    def document(parent):
        parent.mkdir(parents=True, exist_ok=True)
        (parent / f"notes{next(numbers)}.md").write_text(prose())

    def documents():
        return rng.sample(notes := sorted(tree.root.rglob("notes*.md")), min(2, len(notes)))

    numbers = tree.numbers
    return {
        "write": lambda: tree.write(str(folder().relative_to(tree.root))),
        "replace": lambda: tree.write(f"t{next(numbers)}").replace(some("SKILL.md")),
        "add": lambda: tree.write(f"box/n{next(numbers)}"),
        "add beside": lambda: tree.write(f"{folder().relative_to(tree.root)}/n{next(numbers)}"),
        "remove": lambda: shutil.rmtree(folder()),
        "unlink": lambda: some("SKILL.md").unlink(),
        "move": lambda: folder().rename(tree.root / f"moved{next(numbers)}"),
        "break": lambda: some("SKILL.md").write_text("---\nname: [\n---\n"),
        "other case": lambda: (folder() / "skill.md").write_text("---\ndescription: x\n---\nx"),
        "document": lambda: document(folder() / rng.choice(["", "references", "n/m"])),
        "other document": lambda: [path.write_text(prose()) for path in documents()],
        "no document": lambda: [path.unlink() for path in documents()],
        "machinery": lambda: tree.write(f"node_modules/m{next(numbers)}"),
        "link": lambda: (tree.root / f"l{next(numbers)}").symlink_to(
            rng.choice([folder(), tree.root.parent])
        ),
        "unlink a link": lambda: [p.unlink() for p in tree.root.iterdir() if p.is_symlink()],
    }


@pytest.mark.parametrize(
    ("limits", "seed"),
    [
        pytest.param(limits, seed, marks=pytest.mark.slow if seed == number else pytest.mark.night)
        for number, limits in enumerate([{"least_documents": 10_000}, {}])
        for seed in range(6)
    ],
)
def test_after_any_changes_an_index_is_as_a_new_one(tree, build_small, disk, answers, seed, limits):
    tree.rng.seed(seed)
    options = {"limits": limits}
    build_small(tree.root, **options)
    ways, forms = set(), set()
    for _ in range(10):
        named = edits(tree)
        # With a link in it nearly every step needs a walk.
        names = [name for name in named if seed % 2 or "link" not in name or name == "unlink"]
        for name in tree.rng.choices(names, k=tree.rng.randint(1, 3)):
            named[name]()
        tree.settle()
        disk.forget()
        index = build_small(tree.root, **options)
        ways.add(is_walk(disk, index))
        new = build_small(tree.root, index_dir="new", **options)
        forms.add(len(index.opened.corpus.documents.segments))
        assert list(index.documents()) == list(new.documents())
        assert index.diagnostics() == new.diagnostics()
        assert answers(index) == answers(new)
        if limits:
            assert index.generation == new.generation
        seen, expected = (Snapshot.load(built.folder) for built in (index, new))
        assert dict(seen.folders) == dict(expected.folders)
        assert dict(seen.files.items()) == dict(expected.files.items())
        assert dict(seen.continued.items()) == dict(expected.continued.items())
        assert index.is_current()
        shutil.rmtree(new.folder)
    assert seed % 2 or False in ways
    assert (2 in forms) == (not limits)


def paths(*files):
    return tuple(map(str, files))


def skill(root, name):
    return root / name / "SKILL.md"


def test_an_unchanged_disk_differs_in_nothing(index):
    for verify in (False, True):
        differences = index.differences(verify=verify)
        assert len(differences) == 0
        empty = {"added": [], "changed": [], "removed": [], "missing_roots": []}
        assert differences.to_dict() == empty
    assert index.is_current()


def test_what_came_changed_and_went_is_told_by_path(index, root, add_skill):
    new = [add_skill(root / name, name, "New.") for name in ("b-new", "a-new")]
    skill(root, "tea-timer").write_text("other bytes")
    shutil.rmtree(root / "pdf-forms")
    (root / "sql-tuning").rename(root / "moved")
    differences = index.differences()
    assert differences.added == paths(new[1], new[0], skill(root, "moved"))
    assert differences.changed == paths(skill(root, "tea-timer"))
    assert differences.removed == paths(skill(root, "pdf-forms"), skill(root, "sql-tuning"))
    assert differences.missing_roots == ()
    assert len(differences) == 6
    assert str(differences) == "3 added, 1 changed, 2 removed"
    assert not index.is_current()


def test_a_touched_file_is_not_current_but_no_difference(index, root):
    os.utime(skill(root, "tea-timer"))
    assert not index.is_current()
    assert len(index.differences()) == 0


def test_a_missing_root_is_told_apart_from_removed_skills(tmp_path, root, build_small, add_skill):
    other = tmp_path / "other"
    add_skill(other / "plants", "plants", "Water the plants.")
    index = build_small(root, other)
    root.rename(tmp_path / "unplugged")
    shutil.rmtree(other / "plants")
    differences = index.differences()
    assert differences.missing_roots == paths(root)
    assert differences.removed == paths(skill(other, "plants"))
    assert not index.is_current()


def test_a_file_that_could_not_be_read_and_cannot_now_is_no_difference(root, build_small, tmp_path):
    path = skill(root, "tea-timer")
    good = path.read_text()
    (tmp_path / "outside.md").write_text(good)
    path.unlink()
    path.symlink_to(tmp_path / "outside.md")
    index = build_small(root)
    assert len(index.differences()) == 0
    assert len(index.differences(verify=True)) == 0
    path.unlink()
    path.write_text(good)
    assert index.differences().changed == paths(path)
    index.refresh()
    path.unlink()
    path.symlink_to(tmp_path / "outside.md")
    assert index.differences().changed == paths(path)


def test_without_a_snapshot_every_file_is_hashed(index, root):
    (index.folder / "snapshot.bin").unlink()
    assert not index.is_current()
    assert len(index.differences()) == 0
    skill(root, "tea-timer").write_text("other bytes")
    assert index.differences().changed == paths(skill(root, "tea-timer"))


def test_the_snapshot_of_another_generation_is_not_believed(index, root, build_small, add_skill):
    add_skill(root / "new", "new", "New.")
    newer = build_small(root)
    assert not index.is_current()
    assert index.differences().added == paths(skill(root, "new"))
    assert len(newer.differences()) == 0
