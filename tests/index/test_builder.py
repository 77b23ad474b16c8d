"""Roots to an index, doing again only what changed."""

import os
import shutil
import threading
from functools import partial

import pytest

from skillsearch.embedders.embedding import HashingEmbedder
from skillsearch.errors import ConfigError, RootError, StorageError
from skillsearch.files.atomic_files import read_record, write_record
from skillsearch.index.documents import document
from skillsearch.index.indexing.builder import Builder
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage import cache
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.settings.user_folders import cache_dir
from skillsearch.text import tokenizer


@pytest.fixture
def run(tmp_path):
    def run(*roots, index_dir="index", model="hashing", with_body=True, **options):
        request = IndexRequest(tuple(roots), model, with_body)
        return Builder(IndexFolder(tmp_path / index_dir), request, IndexOptions(**options)).run()

    return run


@pytest.fixture
def fresh(run, tmp_path):
    def fresh(*roots, **options):
        shutil.rmtree(tmp_path / "fresh", ignore_errors=True)
        return run(*roots, index_dir="fresh", **options)

    return fresh


def summary(report):
    return (report.indexed, report.embedded, report.reused, report.removed, report.skipped)


def codes(report):
    return [diagnostic.code for diagnostic in report.diagnostics]


def test_the_first_run_embeds_everything(root, run, tmp_path):
    """The metadata of each of five skills; the index holds them in order of their ids."""
    report = run(root)
    assert summary(report) == (5, 5, 0, 0, 0)
    assert report.truncated == 0
    index = SkillIndex.open(tmp_path / "index")
    assert index.generation == report.generation
    names = ("key-rotation", "pdf-forms", "sql-tuning", "tea-timer", "video-trim")
    assert [document.doc_id for document in index.documents()] == [f"skills:{n}" for n in names]


def test_an_unchanged_run_opens_no_file(root, run, disk, tmp_path):
    first = run(root)
    again = Builder(IndexFolder(tmp_path / "index"), IndexRequest((root,), "hashing", True))
    disk.forget()
    second = again.run()
    assert again.embedder is None
    assert not disk.opened
    assert not [path for path in disk.listed if path.startswith(str(root))]
    assert summary(second) == (5, 0, 5, 0, 0)
    assert (second.generation, second.diagnostics) == (first.generation, first.diagnostics)


def test_a_file_of_another_size_is_opened_once(root, run, disk):
    run(root)
    edit(root / "pdf-forms" / "SKILL.md", "flatten", "sign")
    edit(root / "tea-timer" / "SKILL.md", "ready", "brewn")
    os.utime(root / "sql-tuning" / "SKILL.md")
    disk.forget()
    assert summary(run(root)) == (5, 2, 3, 0, 0)
    assert disk.opened == ["sql-tuning", "tea-timer", "pdf-forms", "tea-timer"]


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def swap(root):
    forms, tea = root / "pdf-forms" / "SKILL.md", root / "tea-timer" / "SKILL.md"
    spare = root / "spare"
    forms.rename(spare)
    tea.rename(forms)
    spare.rename(tea)


def touch(root):
    for path in root.rglob("SKILL.md"):
        os.utime(path)


def spoil(root):
    (root / "pdf-forms" / "SKILL.md").write_text("# Empty\n")


def change_several(root):
    shutil.copytree(root / "tea-timer", root / "plants")
    edit(root / "plants" / "SKILL.md", "tea", "plant")
    edit(root / "key-rotation" / "SKILL.md", "leaked", "were lost")
    spoil(root)


def add_chunks(root):
    chunks = "<chunk id=a description=A>One.</chunk>\n<chunk id=b description=B>Two.</chunk>\n"
    edit(root / "pdf-forms" / "SKILL.md", "# Fields\n", f"# Fields\n{chunks}")


CHANGES = {
    "nothing": (lambda root: None, (5, 0, 5, 0, 0)),
    "touch": (touch, (5, 0, 5, 0, 0)),
    "edit the description": (
        lambda root: edit(root / "pdf-forms" / "SKILL.md", "flatten", "sign"),
        (5, 1, 4, 0, 0),
    ),
    "edit the body": (
        lambda root: edit(root / "pdf-forms" / "SKILL.md", "every form field", "all"),
        (5, 0, 4, 0, 0),
    ),
    "add chunks": (add_chunks, (5, 2, 4, 0, 0)),
    "rename a folder": (lambda root: (root / "pdf-forms").rename(root / "forms"), (5, 0, 4, 1, 0)),
    "delete": (lambda root: shutil.rmtree(root / "pdf-forms"), (4, 0, 4, 1, 0)),
    "copy": (
        lambda root: shutil.copytree(root / "pdf-forms", root / "sub" / "forms"),
        (6, 0, 5, 0, 0),
    ),
    "swap": (swap, (5, 0, 3, 0, 0)),
    "spoil": (spoil, (4, 0, 4, 1, 1)),
    "change several": (change_several, (5, 2, 3, 1, 1)),
    "delete all": (lambda root: [shutil.rmtree(p) for p in root.iterdir()], (0, 0, 0, 5, 0)),
    "another spelling of the file's name": (
        lambda root: (root / "pdf-forms" / "SKILL.md").rename(root / "pdf-forms" / "skill.md"),
        (5, 0, 4, 0, 0),
    ),
}


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES)
def test_an_updated_index_equals_one_built_from_scratch(root, run, fresh, change, expected):
    run(root)
    change(root)
    report = run(root)
    assert summary(report) == expected
    built = fresh(root)
    assert (report.generation, report.diagnostics) == (built.generation, built.diagnostics)
    touch(root)
    again = run(root)
    assert (again.generation, again.embedded) == (built.generation, 0)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("description=B", "description=C", (5, 1, 4, 0, 0)),
        ("One.", "Three.", (5, 1, 4, 0, 0)),
        ("<chunk id=b description=B>Two.</chunk>", "", (5, 0, 4, 0, 0)),
        ("Fill in", "Fill out", (5, 1, 4, 0, 0)),
    ],
)
def test_a_change_of_chunks_embeds_what_is_new(root, run, fresh, old, new, expected):
    add_chunks(root)
    run(root)
    edit(root / "pdf-forms" / "SKILL.md", old, new)
    report = run(root)
    assert summary(report) == expected
    assert report.generation == fresh(root).generation
    edit(root / "tea-timer" / "SKILL.md", "somebody", "me")
    assert summary(run(root)) == (5, 1, 4, 0, 0)
    assert run(root).generation == fresh(root).generation


def test_oddities_of_chunks_are_reported_with_the_line_of_the_file(root, run):
    add_chunks(root)
    path = root / "pdf-forms" / "SKILL.md"
    edit(path, "id=b", "id=a")
    (line,) = [n for n, text in enumerate(path.read_text().split("\n"), 1) if "Two." in text]
    for report in (run(root), run(root), run(root, verify=True)):
        assert [(d.code, d.severity, d.line) for d in report.diagnostics] == [
            ("chunk-duplicate-id", "warning", line)
        ]


def test_an_index_needs_no_saved_vectors(root, run, fresh, add_skill):
    run(root)
    shutil.rmtree(cache_dir())
    add_skill(root / "plants", "plants", "Water the plants.")
    edit(root / "key-rotation" / "SKILL.md", "leaked", "were lost")
    report = run(root)
    assert (report.indexed, report.embedded, report.reused) == (6, 2, 4)
    assert summary(run(root, verify=True)) == (6, 0, 6, 0, 0)
    shutil.rmtree(cache_dir())
    assert report.generation == fresh(root).generation


def test_another_index_of_the_same_skills_embeds_nothing(root, run, tmp_path):
    first = run(root)
    shutil.copytree(root / "pdf-forms", tmp_path / "other" / "copy")
    second = run(root, index_dir="second")
    third = run(root, tmp_path / "other", index_dir="third")
    assert [report.embedded for report in (first, second, third)] == [5, 0, 0]
    assert second.generation == first.generation
    assert not list((tmp_path / "index").glob("embeddings*"))


def test_an_interrupted_run_keeps_the_vectors_it_made(root, run, tmp_path):
    def interrupt(stage, done, total):
        if (stage, done) == ("embed", 3):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(root, progress=interrupt)
    assert not IndexFolder(tmp_path / "index").exists()
    assert summary(run(root)) == (5, 2, 0, 0, 0)


def test_progress_tells_the_stage_and_how_far_it_is(root, run):
    seen = []
    run(root, progress=lambda *step: seen.append(step))
    assert seen == [("read", i, 5) for i in range(1, 6)] + [("embed", i, 5) for i in range(1, 6)]


def test_a_missing_root_leaves_the_index_as_it_was(root, run, tmp_path, files_of):
    run(root)
    before = files_of(tmp_path / "index")
    root.rename(tmp_path / "gone")
    with pytest.raises(RootError, match=r"does not exist.*Nothing was changed"):
        run(root)
    assert files_of(tmp_path / "index") == before


def test_an_empty_root_gives_an_empty_index(tmp_path, run, add_skill):
    (tmp_path / "skills").mkdir()
    report = run(tmp_path / "skills")
    assert summary(report) == (0, 0, 0, 0, 0)
    assert codes(report) == ["root-empty"]
    add_skill(tmp_path / "skills" / "tea", "tea", "Make tea.")
    assert codes(run(tmp_path / "skills")) == []


@pytest.mark.parametrize("trouble", ["no frontmatter", "fifo", "link out", "sparse"])
def test_a_file_that_cannot_be_read_is_tried_again_in_every_run(root, run, tmp_path, trouble):
    path = root / "pdf-forms" / "SKILL.md"
    good = path.read_text()
    path.unlink()
    if trouble == "no frontmatter":
        path.write_text("# No frontmatter\n")
    elif trouble == "fifo":
        os.mkfifo(path)
    elif trouble == "link out":
        (tmp_path / "outside.md").write_text(good)
        path.symlink_to(tmp_path / "outside.md")
    else:
        with path.open("wb") as file:
            file.truncate(5 << 30)
    for report in (run(root), run(root), run(root, verify=True)):
        assert summary(report)[0::4] == (4, 1)
        (diagnostic,) = report.diagnostics
        assert (diagnostic.severity, diagnostic.path) == ("error", str(path))
    path.unlink()
    path.write_text(good)
    assert summary(run(root)) == (5, 1, 4, 0, 0)


def test_a_file_too_large_is_looked_at_once(root, run, tmp_path, settle):
    (root / "big").mkdir()
    with (root / "big" / "SKILL.md").open("wb") as file:
        file.truncate(5 << 30)
    settle(root)
    assert summary(run(root))[4] == 1
    assert SkillIndex.open(tmp_path / "index").is_current()


def test_a_touched_folder_writes_no_generation(root, run, tmp_path, settle, files_of):
    first = run(root)
    before = files_of(tmp_path / "index")
    settle(root, 1_600_000_000_000_000_000)
    second = run(root)
    after = files_of(tmp_path / "index")
    assert (second.generation, second.diagnostics) == (first.generation, first.diagnostics)
    changed = {name for name in after if before.get(name) != after[name]}
    assert changed == {"snapshot.bin"}
    assert SkillIndex.open(tmp_path / "index").is_current()


def test_diagnostics_of_unchanged_skills_stay_reported(root, run, add_skill):
    add_skill(root / "odd", "Another Name", "It is odd.")
    (root / "odd" / "SKILL.md").rename(root / "odd" / "skill.md")
    first = run(root)
    assert "file-name-case" in codes(first)
    for number in range(3):
        add_skill(root / f"new-{number}", f"new-{number}", "It is new.")
        assert run(root).diagnostics == first.diagnostics


@pytest.mark.parametrize(
    "change",
    [{"with_body": False}, {"model": "hashing-64"}, {"roots": "both"}, {"roots": "turned"}],
)
def test_other_settings_give_another_index(tmp_path, root, run, add_skill, change):
    other = tmp_path / "other"
    add_skill(other / "plants", "plants", "Water the plants.")
    roots = {"both": (root, other), "turned": (other, root)}
    before = (root, other) if change.get("roots") == "turned" else (root,)
    options = {key: value for key, value in change.items() if key != "roots"}
    options["embedders"] = {"hashing-64": HashingEmbedder(64)}
    first = run(*before)
    second = run(*roots.get(change.get("roots"), (root,)), **options)
    assert second.generation != first.generation
    # Other roots leave what is in the same ones as it was.
    assert second.reused == (0 if options.keys() - {"embedders"} else first.indexed)
    assert run(*before).generation == first.generation


@pytest.fixture(params=["format", tokenizer, document])
def by_another_version(request, root, run, tmp_path, monkeypatch):
    """Give an index, and what publishes it as another version would have made it."""
    run(root)
    folder, module = IndexFolder(tmp_path / "index"), request.param
    versions = {tokenizer: tokenizer.VERSION, document: document.VERSION, module: 99}

    def publish():
        generation = folder.open()
        settings, parts = dict(generation.settings), list(generation.parts)
        with monkeypatch.context() as patch:
            if module == "format":
                patch.setattr(cache, "FORMAT_VERSION", 99)
            else:
                settings["analysis"] = list(versions.values())
            announce = partial(IndexRequest.load(folder.path).save, folder.path)
            more = {"before": generation, "reused": parts, "announce": announce}
            return folder.write(lambda _target: None, settings, **more)

    return folder, publish


def test_an_index_of_another_version_is_built_anew_and_told(root, run, by_another_version, caplog):
    folder, publish = by_another_version
    before = folder.current()
    other = publish()
    assert summary(run(root)) == (5, 0, 0, 0, 0)
    assert folder.current() == before != other
    (warning,) = (record.getMessage() for record in caplog.records)
    assert "Another version of skillsearch wrote it" in warning
    assert "SKILLSEARCH_INDEX_DIR" in warning


def test_an_index_of_another_version_is_not_searched(by_another_version, caplog):
    folder, publish = by_another_version
    before = folder.current()
    publish()
    assert SkillIndex.open(folder.path).generation == before
    assert len(caplog.records) == 1


@pytest.mark.parametrize("published", [True, False])
def test_roots_that_another_version_wrote_are_not_lost(
    root, run, by_another_version, add_skill, tmp_path, published
):
    folder, publish = by_another_version
    record = read_record(folder.path / "request.json") | {"follows": "teams"}
    if published:
        publish()
    write_record(folder.path / "request.json", record)
    generation = folder.current()
    add_skill(tmp_path / "others" / "other", "other", "Other things.")
    with pytest.raises(ConfigError, match="Another version of skillsearch decided"):
        run(tmp_path / "others")
    assert read_record(folder.path / "request.json") == record
    assert folder.current() == generation


def hide(path, old, new):
    before = path.stat()
    assert len(old) == len(new)
    edit(path, old, new)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("is_young", [False, True])
def test_an_edit_of_the_same_size_and_time_is_found(root, run, fresh, verify, is_young):
    if is_young:
        touch(root)
    first = run(root)
    hide(root / "pdf-forms" / "SKILL.md", "flatten", "combine")
    report = run(root, verify=verify)
    assert report.embedded == 1
    assert report.generation == fresh(root).generation != first.generation


def test_a_lost_or_foreign_snapshot_only_costs_time(root, run, tmp_path):
    first = run(root)
    snapshot = tmp_path / "index" / "snapshot.bin"
    foreign = b"0" * 32 + b"\n{}"
    for data in (None, foreign):
        snapshot.unlink()
        if data:
            snapshot.write_bytes(data)
        report = run(root)
        assert (summary(report), report.generation) == ((5, 0, 5, 0, 0), first.generation)


def test_a_snapshot_that_cannot_be_saved_only_costs_time(root, run, tmp_path, caplog):
    (tmp_path / "index" / "snapshot.bin").mkdir(parents=True)
    first = run(root)
    assert "snapshot" in caplog.text
    assert summary(run(root)) == (5, 0, 5, 0, 0)
    assert SkillIndex.open(tmp_path / "index").generation == first.generation


def test_a_file_that_cannot_be_written_is_one_line(root, run, tmp_path):
    first = run(root)
    path = tmp_path / "index" / "request.json"
    path.unlink()
    path.mkdir()
    edit(root / "pdf-forms" / "SKILL.md", "flatten", "sign")
    with pytest.raises(StorageError, match="index before is unchanged") as caught:
        run(root)
    assert "\n" not in str(caught.value)
    assert SkillIndex.open(tmp_path / "index").generation == first.generation


def test_a_folder_whose_name_is_no_utf8_is_refused(tmp_path, run, add_skill):
    root = tmp_path / os.fsdecode(b"caf\xe9")
    add_skill(root / "tea", "tea", "Make tea.")
    with pytest.raises(RootError, match="not UTF-8; rename it") as caught:
        run(root)
    assert str(caught.value).encode()


def test_a_run_that_waited_for_another_finds_nothing_left_to_do(root, run):
    reports = []
    second = threading.Thread(target=lambda: reports.append(run(root)))

    def start_second(stage, done, total):
        if (stage, done) == ("embed", 1):
            second.start()
            second.join(0.3)

    first = run(root, progress=start_second)
    second.join(120)
    assert summary(reports[0]) == (5, 0, 5, 0, 0)
    assert reports[0].generation == first.generation
