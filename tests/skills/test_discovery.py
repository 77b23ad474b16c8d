"""Tests of finding SKILL.md files below roots."""

import os
from collections import Counter
from pathlib import Path

import pytest

from skillsearch.skills import discovery
from skillsearch.skills.discovery import discover, inside, make_roots, scopes_at
from skillsearch.types.skills import FileStat


def add_skill(folder, name="SKILL.md"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("---\ndescription: Tea\n---\n", encoding="utf-8")
    return folder / name


def find(*paths, **options):
    """Discover the skills below some paths, all of them good roots."""
    roots, diagnostics = make_roots(paths)
    assert [problem for problem in diagnostics if problem.severity == "error"] == []
    return discover(roots, **options)


def ids(discovery):
    return [file.doc_id for file in discovery.files]


def codes(discovery):
    return [(diagnostic.code, diagnostic.severity) for diagnostic in discovery.diagnostics]


def test_skills_are_found_with_their_status(tmp_path):
    path = add_skill(tmp_path / "skills" / "tea")
    (file,) = find(tmp_path / "skills").files
    status = path.stat()
    assert (file.doc_id, file.path, file.root.path) == ("skills:tea", path, tmp_path / "skills")
    assert file.stat == FileStat.of(status)


def test_nested_skills_categories_and_the_root_itself_are_found(tmp_path):
    root = tmp_path / "root"
    for folder in ("", "tea", "tea/parts/cup", "drinks/hot/milk", ".agents/skills/pot"):
        add_skill(root / folder)
    discovery = find(root)
    assert ids(discovery) == [
        "root:.",
        "root:.agents/skills/pot",
        "root:drinks/hot/milk",
        "root:tea",
        "root:tea/parts/cup",
    ]
    assert discovery.diagnostics == ()


def test_machinery_is_skipped_and_what_was_thrown_away_left_out_with_a_note(tmp_path):
    for folder in (".git", "node_modules", "__pycache__", ".venv", "venv"):
        add_skill(tmp_path / folder / "tea")
    discovery = find(tmp_path)
    assert (discovery.files, [path for path, _ in discovery.folders]) == ((), [str(tmp_path)])
    for folder_name in ("pdf", ".trash/2024/pdf", "trash/pdf", "trash", "b/pdf.bak", "archive"):
        add_skill(tmp_path / folder_name)
    discovery = find(tmp_path)
    names = [file.doc_id.partition(":")[2] for file in discovery.files]
    assert names == ["archive", "pdf", "trash"]
    notes = [(note.code, note.severity, Path(note.path).name) for note in discovery.diagnostics]
    aside = (".trash", "pdf", "pdf.bak")
    assert sorted(notes) == [("folder-kept-aside", "note", name) for name in aside]
    assert len(find(tmp_path / ".trash").files) == 1


def test_every_listed_folder_is_told_with_its_time(tmp_path):
    """The folders' times let a caller see that nothing came or went."""
    add_skill(tmp_path / "root" / "tea")
    (tmp_path / "root" / "tea" / "assets").mkdir()
    (tmp_path / "root" / "empty").mkdir()
    folders = dict(find(tmp_path / "root").folders)
    expected = [tmp_path / "root" / name for name in ("", "empty", "tea", "tea/assets")]
    assert folders == {str(path): path.stat().st_mtime_ns for path in expected}


def test_result_does_not_depend_on_the_order_of_creation(tmp_path):
    for order, root in ((1, "a"), (-1, "b")):
        for name in ("x", "y", "z")[::order]:
            add_skill(tmp_path / root / "root" / name, "skill.md")
    first, second = find(tmp_path / "a" / "root"), find(tmp_path / "b" / "root")
    assert ids(first) == ids(second) == ["root:x", "root:y", "root:z"]
    assert [Path(note.path).parent.name for note in first.diagnostics] == ["x", "y", "z"]


@pytest.mark.parametrize("name", ["skill.md", "SKILL.MD"])
def test_other_cases_of_the_name_are_accepted_with_a_note(tmp_path, name):
    path = add_skill(tmp_path / "root" / "tea", name)
    discovery = find(tmp_path / "root")
    assert [file.path for file in discovery.files] == [path]
    assert codes(discovery) == [("file-name-case", "note")]
    path = add_skill(tmp_path / "root" / "tea")
    if len(list(path.parent.iterdir())) == 1:
        pytest.skip("the file system does not tell cases apart")
    discovery = find(tmp_path / "root")
    assert [file.path for file in discovery.files] == [path]
    assert codes(discovery) == [("file-name-twice", "warning")]


def test_special_files_named_skill_md_are_reported(tmp_path):
    root = tmp_path / "root"
    for name in ("fifo", "folder/SKILL.md", "broken"):
        (root / name).mkdir(parents=True)
    os.mkfifo(root / "fifo" / "SKILL.md")
    (root / "broken" / "SKILL.md").symlink_to("nowhere")
    discovery = find(root)
    assert discovery.files == ()
    assert codes(discovery) == [
        ("file-unreadable", "error"),
        ("not-a-regular-file", "error"),
        ("not-a-regular-file", "error"),
    ]


def test_linked_skill_md_has_the_status_of_its_target(tmp_path):
    """A change of the target is seen, though the link stays as it is."""
    root = tmp_path / "root"
    target = add_skill(root / "tea", "README.md")
    (root / "tea" / "SKILL.md").symlink_to("README.md")
    (file,) = find(root).files
    assert (file.path, file.stat.inode) == (root / "tea" / "SKILL.md", target.stat().st_ino)


def test_linked_folder_inside_the_roots_counts_once(tmp_path):
    """Installers link one copy into several hosts' folders; it is one skill."""
    root = tmp_path / "root"
    add_skill(root / "m" / "tea")
    (root / "a").symlink_to("m/tea")
    (root / "z").symlink_to(root / "m" / "tea")
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "tea").symlink_to(root / "m" / "tea")
    for paths in ((root,), (tmp_path / "host", root), (root, tmp_path / "host")):
        discovery = find(*paths)
        assert ids(discovery) == ["root:m/tea"]
        assert discovery.diagnostics == ()


def test_link_shows_the_way_to_a_folder_that_is_skipped(tmp_path):
    """A skill in a dependency is found where the user linked to it, under its real path."""
    root = tmp_path / "root"
    path = add_skill(root / "node_modules" / "pkg" / "tea")
    for link in ("first", "second"):
        (root / link).symlink_to("node_modules/pkg/tea")
    (file,) = find(root).files
    assert (file.doc_id, file.path) == ("root:node_modules/pkg/tea", path)


def test_link_out_of_the_roots_is_reported_and_not_followed(tmp_path):
    add_skill(tmp_path / "elsewhere" / "tea")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "tea").symlink_to(tmp_path / "elsewhere" / "tea")
    (tmp_path / "root" / "broken").symlink_to("nowhere")
    discovery = find(tmp_path / "root")
    assert discovery.files == ()
    assert codes(discovery) == [("link-leaves-root", "error")]
    assert str(tmp_path / "elsewhere" / "tea") in discovery.diagnostics[0].message


def test_loops_of_links_end(tmp_path):
    root = tmp_path / "root"
    add_skill(root / "tea")
    (root / "tea" / "up").symlink_to("..")
    (root / "tea" / "here").symlink_to(".")
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    assert ids(find(root)) == ["root:tea"]


def test_deep_and_very_many_folders_are_cut_and_reported(tmp_path):
    deep = (tmp_path / "root").joinpath(*"d" * 12)
    add_skill(deep)
    add_skill(deep / "d")
    discovery = find(tmp_path / "root")
    assert ids(discovery) == ["root:" + "/".join("d" * 12)]
    assert codes(discovery) == [("folder-too-deep", "error")]
    for n in range(20):
        add_skill(tmp_path / "wide" / f"tea-{n}")
    discovery = find(tmp_path / "wide", max_folders=10)
    assert len(discovery.folders) == 10
    assert codes(discovery) == [("too-many-folders", "error")]


def test_what_is_left_out_is_an_error_only_if_a_skill_is_lost(tmp_path):
    root = tmp_path / "root"
    add_skill(root / "tea")
    deep = root / "tea" / "src/main/java/com/tea/pot/lid/knob/paint/red/warm"
    for folder in (deep, root / "a\u202eb" / "inner"):
        folder.mkdir(parents=True)
    (tmp_path / "data").mkdir()
    (root / "data").symlink_to(tmp_path / "data")
    assert find(root).diagnostics == ()
    add_skill(root / "a\u202eb" / "inner")
    add_skill(tmp_path / "data" / "coffee")
    add_skill(deep / "deep")
    assert sorted(codes(find(root))) == [
        ("folder-too-deep", "error"),
        ("link-leaves-root", "error"),
        ("path-hidden-characters", "error"),
    ]


def test_a_look_for_lost_skills_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(discovery, "_MAX_LOOKED_INTO", 3)
    for n in range(4):
        add_skill(tmp_path / "root" / f"a\u202e{n}")
    assert len(codes(find(tmp_path / "root"))) == 3


NAMES = {
    "SKILLS.md": True,
    "Skill.markdown": True,
    "SKILL.md.txt": True,
    "skill": True,
    "skillset.md": False,
    "skills.py": False,
}


@pytest.mark.parametrize(("name", "is_told"), NAMES.items())
def test_a_name_near_to_that_of_a_skill_is_told(tmp_path, name, is_told):
    add_skill(tmp_path / "root" / "tea", name)
    assert codes(find(tmp_path / "root")) == [("file-name-near", "warning")] * is_told
    add_skill(tmp_path / "root" / "tea")
    assert codes(find(tmp_path / "root")) == []


def test_a_sample_inside_a_skill_is_no_skill(tmp_path):
    root = tmp_path / "root"
    for folder in ("maker", "maker/references/deep/tea", "maker/templates", "maker/Assets/tea"):
        add_skill(root / folder)
    for folder in ("maker/inner", "references/tea", "templates", "maker/docs/references/tea"):
        add_skill(root / folder)
    discovery = find(root)
    assert ids(discovery) == [
        "root:maker",
        "root:maker/docs/references/tea",
        "root:maker/inner",
        "root:references/tea",
        "root:templates",
    ]
    assert codes(discovery) == [("skill-in-skill", "note")] * 3


def test_a_link_to_another_skill_counts_there(tmp_path):
    root = tmp_path / "root"
    path = add_skill(root / "tea")
    for folder, target in (
        ("linked/tea", path),
        ("pot", add_skill(root / "node_modules" / "pot")),
        ("lid", add_skill(root / "tea" / "assets")),
        ("cup", add_skill(root / "cup", "guide.md")),
        ("mug", add_skill(tmp_path / "other" / "mug")),
    ):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "SKILL.md").symlink_to(target)
    discovery = find(root)
    assert ids(discovery) == ["root:cup", "root:lid", "root:mug", "root:pot", "root:tea"]
    assert ("link-to-skill", "note") in codes(discovery)
    (note,) = (problem for problem in discovery.diagnostics if problem.code == "link-to-skill")
    assert str(path) in note.message


def test_folder_names_that_are_not_utf8_are_reported(tmp_path):
    add_skill(tmp_path / "root" / "tea")
    add_skill(Path(os.fsdecode(os.fsencode(tmp_path / "root") + b"/caf\xe9")))
    discovery = find(tmp_path / "root")
    assert ids(discovery) == ["root:tea"]
    assert codes(discovery) == [("path-not-utf8", "error")]
    discovery.diagnostics[0].path.encode()


def test_unreadable_folder_does_not_stop_the_walk(tmp_path, monkeypatch):
    add_skill(tmp_path / "root" / "tea")
    (tmp_path / "root" / "shut").mkdir()
    real_scandir = os.scandir

    def fail_on_shut(path):
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied")
        return real_scandir(path)

    monkeypatch.setattr(os, "scandir", fail_on_shut)
    discovery = find(tmp_path / "root")
    assert ids(discovery) == ["root:tea"]
    assert codes(discovery) == [("folder-unreadable", "error")]


def test_bad_roots_are_reported_and_the_good_ones_kept(tmp_path, monkeypatch):
    (tmp_path / "good").mkdir()
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "loop").symlink_to("loop")
    odd = os.fsdecode(b"caf\xe9")
    (tmp_path / odd).mkdir()
    names = ("good", "missing", "file", "file/below", "loop", "a\x00b", odd)
    roots, diagnostics = make_roots([tmp_path / name for name in names])
    assert [root.path for root in roots] == [tmp_path / "good"]
    assert [(problem.code, problem.severity) for problem in diagnostics] == [
        ("root-missing", "error"),
        ("root-not-a-folder", "error"),
        ("root-missing", "error"),
        ("root-unreadable", "error"),
        ("root-unreadable", "error"),
        ("path-not-utf8", "error"),
    ]
    diagnostics[-1].path.encode()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    none, (diagnostic,) = make_roots([tmp_path])
    assert (none, diagnostic.code) == ([], "root-unreadable")
    (tmp_path / "good").rmdir()
    assert discover(roots) == discovery.Discovery((), (), ())


def test_root_given_twice_or_inside_another_counts_once(tmp_path):
    root = tmp_path / "root"
    add_skill(root / "inner" / "tea")
    (tmp_path / "link").symlink_to("root")
    paths = [tmp_path / name for name in ("root/inner", "root", "link", "root/../root")]
    roots, diagnostics = make_roots(paths)
    assert [(root.path, root.alias) for root in roots] == [(tmp_path / "root", "root")]
    assert [(note.code, note.severity) for note in diagnostics] == [("root-nested", "note")]
    assert ids(discover(roots)) == ["root:inner/tea"]
    add_skill(root / "node_modules" / "pkg" / "tea")
    assert ids(find(root, root / "node_modules" / "pkg")) == ["pkg:tea", "root:inner/tea"]


ALIASES = {
    "own names": (["a/one", "b/two"], ["one", "two"]),
    "same names": (["a/skills", "b/skills", "b/other"], ["a/skills", "b/skills", "other"]),
    "same tails": (
        ["x/a/skills", "y/a/skills", "skills"],
        ["x/a/skills", "y/a/skills", "{}/skills"],
    ),
    "colons": (["a/x:y", "b/x_y"], ["x_y", "b/x_y"]),
}


def test_a_root_that_comes_leaves_the_others_their_aliases(tmp_path):
    folders = [tmp_path / name / "skills" for name in ("a", "b", "c")]
    for folder in folders:
        folder.mkdir(parents=True)
    (first,), _ = make_roots(folders[1:2])
    aliases = {str(first.path): first.alias}
    roots, _ = make_roots(folders, aliases)
    assert [root.alias for root in roots] == ["a/skills", "skills", "c/skills"]
    again, _ = make_roots(folders[::-1], {str(root.path): root.alias for root in roots})
    assert {*again} == {*roots}


@pytest.mark.parametrize(("folders", "aliases"), ALIASES.values(), ids=ALIASES.keys())
def test_aliases_are_short_and_unique(tmp_path, folders, aliases):
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    roots, _ = make_roots([tmp_path / folder for folder in folders])
    assert [root.alias for root in roots] == [alias.format(tmp_path.name) for alias in aliases]
    (root,), _ = make_roots([Path("/")])
    assert root.alias == "/"


def test_each_folder_is_listed_once_and_no_file_is_opened(tmp_path, monkeypatch):
    for n in range(20):
        add_skill(tmp_path / "root" / f"tea-{n}")
    roots, _ = make_roots([tmp_path / "root"])
    calls = Counter()

    def count(name):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, **k: calls.update([name]) or real(*a, **k))

    for name in ("scandir", "stat", "open", "lstat", "readlink"):
        count(name)
    assert len(discover(roots).files) == 20
    assert calls == {"scandir": 21, "stat": 21}


def find_at(root, *paths):
    roots, _ = make_roots([root])
    scopes = scopes_at(roots, paths)
    return discover(roots, scopes), scopes


def test_at_a_path_is_found_what_a_walk_finds_there(tmp_path):
    root = tmp_path / "root"
    for folder in ("", "tea", "tea/parts/cup", "drinks/hot/milk", "pot"):
        add_skill(root / folder)
    everything = {file.doc_id: file for file in find(root).files}
    for path, expected in (
        (root, list(everything)),
        (root / "tea", ["root:tea", "root:tea/parts/cup"]),
        (root / "tea" / "SKILL.md", ["root:tea"]),
        (root / "SKILL.md", ["root:."]),
        (root / "drinks", ["root:drinks/hot/milk"]),
        (root / "gone", []),
    ):
        discovery, scopes = find_at(root, path)
        assert sorted(ids(discovery)) == sorted(expected)
        assert all(everything[file.doc_id] == file for file in discovery.files)
        is_inside = inside(scopes)
        covered = [doc_id for doc_id, file in everything.items() if is_inside(str(file.path))]
        assert sorted(covered) == sorted(expected)


def test_what_is_gone_is_covered_by_where_was_looked(tmp_path):
    root = tmp_path / "root"
    add_skill(root / "tea")
    is_below = inside(find_at(root, root / "drinks")[1])
    assert is_below(f"{root}/drinks")
    assert is_below(f"{root}/drinks/hot/milk")
    assert not is_below(f"{root}/drinks2")
    assert not is_below(f"{tmp_path}/other/drinks")
    is_beside = inside(find_at(root, root / "drinks" / "SKILL.md")[1])
    assert is_beside(f"{root}/drinks/SKILL.md")
    assert not is_beside(f"{root}/drinks/hot/SKILL.md")


def test_at_a_path_where_no_skill_is_looked_for_nothing_is_found(tmp_path):
    root, other = tmp_path / "root", tmp_path / "other"
    deep = root.joinpath(*map(str, range(13)))
    for folder in (other, root / ".git" / "tea", deep):
        add_skill(folder)
        discovery, scopes = find_at(root, folder, folder / "SKILL.md")
        assert (ids(discovery), scopes) == ([], ())
    add_skill(root / "tea")
    (root / "link").symlink_to(root / "tea", target_is_directory=True)
    assert ids(find_at(root, root / "link")[0]) == []
    assert ids(find_at(root, root / "link" / "SKILL.md")[0]) == ["root:tea"]
