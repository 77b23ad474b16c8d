"""Generations of an index on disk."""

import json
import logging
import os
import pickle
import shutil
import time
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
import xxhash

from skillsearch.errors import CacheError, LockTimeoutError, StorageError
from skillsearch.index.corpus import OpenedIndex, open_current
from skillsearch.index.storage import cache
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.index.storage.generation_parts import trusted_parts

PARTS = {"terms": "first part", "vectors": "second"}
SETTINGS = {"model": "数据", "numbers": [1, 2]}


def saver(**parts):
    def save(folder):
        for name, text in parts.items():
            (folder / name).write_text(text)

    return save


@pytest.fixture
def folder(tmp_path):
    index_folder = IndexFolder(tmp_path / "index")
    index_folder.write(saver(**PARTS), SETTINGS)
    return index_folder


def parts(generation):
    files = sorted(generation.folder.iterdir())
    beside = ("manifest.json", "stat-cache.json")
    return {file.name: file.read_text() for file in files if file.name not in beside}


def names(folder):
    return {path.name for path in (folder.path / "generations").iterdir()}


def test_a_generation_comes_back_as_it_was_written(folder):
    generation = folder.open()
    assert parts(generation) == PARTS
    assert generation.settings == SETTINGS
    manifest = (generation.folder / "manifest.json").read_bytes()
    assert generation.name == xxhash.xxh3_128_hexdigest(manifest) == folder.current()
    assert folder.exists()
    assert folder.size() == sum(f.stat().st_size for f in folder.path.rglob("*") if f.is_file())


def test_an_empty_folder_holds_no_index(tmp_path):
    for folder in (IndexFolder(tmp_path), IndexFolder(tmp_path / "none")):
        assert not folder.exists()
        assert folder.current() is None
        with pytest.raises(CacheError, match="no finished index"):
            folder.open()


def test_equal_content_has_an_equal_name_and_nothing_is_written_again(folder, tmp_path):
    name = folder.current()
    files = (path for path in folder.path.rglob("*") if path.name != "stat-cache.json")
    before = {path: path.stat().st_mtime_ns for path in files if path.is_file()}
    assert folder.write(saver(vectors="second", terms="first part"), dict(SETTINGS)) == name
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert names(folder) == {name}
    other = IndexFolder(tmp_path / "other")
    assert other.write(saver(**PARTS), SETTINGS) == name


@pytest.mark.parametrize(
    ("content", "settings"),
    [
        ({"terms": "first part", "vectors": "Second"}, SETTINGS),
        ({"terms": "first part", "chunks": "second"}, SETTINGS),
        ({"terms": "first part"}, SETTINGS),
        (PARTS, {**SETTINGS, "numbers": [2, 1]}),
    ],
)
def test_any_difference_gives_another_name(folder, content, settings):
    name = folder.current()
    assert folder.write(saver(**content), settings) != name
    assert folder.open().settings == settings


def test_only_the_generation_in_use_and_the_one_before_stay(folder):
    written = [folder.write(saver(terms=str(number)), {}) for number in range(4)]
    (folder.path / "generations" / ".new-killed").mkdir()
    (folder.path / "generations" / ".new-killed" / "terms").write_text("half")
    written.append(folder.write(saver(terms="last"), {}))
    assert names(folder) == set(written[-2:])


def test_an_older_generation_can_be_written_again(folder):
    first = folder.current()
    second = folder.write(saver(terms="2"), {})
    (folder.path / "generations" / first / "terms").write_text("damaged")
    assert folder.write(saver(**PARTS), SETTINGS) == first
    assert parts(folder.open()) == PARTS
    assert names(folder) == {first, second}


def test_a_damaged_generation_is_replaced_by_a_whole_one_of_the_same_name(folder, caplog):
    name = folder.current()
    (folder.path / "generations" / name / "vectors").write_text("SECOND")
    with caplog.at_level(logging.WARNING):
        assert folder.write(saver(**PARTS), SETTINGS) == name
    assert "damaged" in caplog.text
    assert parts(folder.open()) == PARTS


def positions(size, count=4):
    return sorted({0, size - 1, *range(0, size, max(size // count, 1))})


def flipped(whole):
    for position in positions(len(whole)):
        yield (
            whole[:position]
            + bytes([whole[position] ^ (1 << position % 8)])
            + whole[position + 1 :]
        )


def cut(whole):
    yield from (whole[:length] for length in (0, 1, len(whole) // 2, len(whole) - 1))


def every_file(index):
    parts = (path for path in index.opened.folder.iterdir() if path.name != "stat-cache.json")
    return [index.folder / "CURRENT", *sorted(parts)]


@pytest.mark.parametrize("damage", [flipped, cut, lambda _: [None]], ids=["bit", "cut", "gone"])
def test_damage_anywhere_in_an_index_is_found(index, damage):
    folder = IndexFolder(index.folder)
    files = every_file(index)
    assert len(files) == 38
    for path in files:
        whole = path.read_bytes()
        for data in damage(whole):
            path.unlink()
            if data is not None:
                path.write_bytes(data)
            if path.name != "CURRENT" or data != whole[:-1]:  # it may lack the end of its line
                with pytest.raises(CacheError):
                    folder.open()
            path.write_bytes(whole)
    assert folder.open().name == index.generation


def test_a_part_of_another_index_is_found(index, root, build, add_skill):
    add_skill(root / "sixth", "sixth", "Water the plants on the balcony.")
    other = build(root, index_dir="other")
    folder = IndexFolder(index.folder)
    for path in every_file(index)[1:]:
        theirs = other.opened.folder / path.name
        are_alike = path.name == "diagnostics.json" or path.name.startswith("lexical-full-word")
        assert (theirs.read_bytes() != path.read_bytes()) is not are_alike
        if not are_alike:
            whole = path.read_bytes()
            shutil.copyfile(theirs, path)
            with pytest.raises(CacheError, match="damaged"):
                folder.open()
            path.write_bytes(whole)


def forge(folder, generation, manifest):
    data = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    name = xxhash.xxh3_128_hexdigest(data)
    target = generation.folder.with_name(name)
    shutil.copytree(generation.folder, target)
    (target / "manifest.json").write_bytes(data)
    (folder.path / "CURRENT").write_text(name)
    return target


def manifest_of(generation):
    return json.loads((generation.folder / "manifest.json").read_bytes())


@pytest.mark.parametrize("version", [0, 1, 99, "2", None])
def test_an_index_of_another_format_is_not_opened(folder, version):
    generation = folder.open()
    forge(folder, generation, manifest_of(generation) | {"format": version})
    with pytest.raises(CacheError, match="format"):
        folder.open()


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"not json",
        b"\xff\xfe",
        b"[]",
        b"3",
        b"null",
        b"{}",
        b'{"format": 2}',
        b'{"format": 2, "parts": [], "settings": {}}',
        b'{"format": 2, "parts": {"terms": 3}, "settings": {}}',
        b'{"format": 2, "parts": {"terms": {}}, "settings": {}}',
        b'{"format": 2, "parts": {}}',
        b"[" * 100_000,
    ],
)
def test_a_manifest_of_another_form_is_a_cache_error(folder, manifest):
    forge(folder, folder.open(), manifest)
    with pytest.raises(CacheError):
        folder.open()


def test_a_manifest_cannot_name_files_outside_its_folder(folder):
    generation = folder.open()
    outside = folder.path / "outside"
    outside.write_text("first part")
    manifest = manifest_of(generation)
    manifest["parts"]["../../outside"] = manifest["parts"]["terms"]
    forge(folder, generation, manifest)
    with pytest.raises(CacheError, match="outside of the index"):
        folder.open()


@pytest.mark.parametrize("name", ["", "..", "../../etc", "a" * 31, "a" * 33, "é" * 32, "a/" * 16])
def test_current_can_only_name_a_generation(folder, name):
    (folder.path / "CURRENT").write_text(name, encoding="utf-8")
    with pytest.raises(CacheError):
        folder.open()


class Canary:
    """Says so when it is unpickled."""

    def __reduce__(self):
        return (Path.touch, (Path(os.environ["CANARY"]),))


def test_vectors_of_another_length_are_refused(index):
    generation = IndexFolder(index.folder).open()
    model = {**generation.settings["model"], "dimensions": 7}
    settings = {**generation.settings, "model": model}
    with pytest.raises(CacheError, match="dimensions"):
        OpenedIndex.load(replace(generation, settings=settings))


def test_a_pickle_in_place_of_an_array_is_never_loaded(index, tmp_path, monkeypatch):
    sung = tmp_path / "sung"
    monkeypatch.setenv("CANARY", str(sung))
    folder = IndexFolder(index.folder)
    generation = folder.open()
    pickled = pickle.dumps(Canary())
    np.save(tmp_path / "objects.npy", np.array([Canary()], object), allow_pickle=True)
    payloads = [pickled, (tmp_path / "objects.npy").read_bytes()]
    manifest = manifest_of(generation)
    arrays = [name for name in manifest["parts"] if name.endswith((".npy", ".faiss"))]
    assert len(arrays) == 35
    for name, payload in zip(arrays, cycle(payloads)):
        digest = xxhash.xxh3_128_hexdigest(payload)
        entry = {name: {"bytes": len(payload), "xxh3": digest}}
        forged = manifest | {"parts": manifest["parts"] | entry}
        (forge(folder, generation, forged) / name).write_bytes(payload)
        with pytest.raises(CacheError):
            OpenedIndex.load(folder.open())
    assert not sung.exists()
    pickle.loads(pickled)
    assert sung.exists()


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), OSError("writes less"), KeyboardInterrupt()]
)
def test_a_failed_write_leaves_the_index_as_it_was(folder, error):
    before = parts(folder.open())

    def save(target):
        (target / "terms").write_text("half")
        raise error

    with pytest.raises((StorageError, KeyboardInterrupt)) as caught:
        folder.write(save, {})
    if isinstance(error, OSError):
        assert (error.strerror or "writes less") in str(caught.value)
        assert "\n" not in str(caught.value)
        assert "index before is unchanged" in str(caught.value)
        assert caught.value.__cause__ is error
    assert parts(folder.open()) == before
    assert names(folder) == {folder.current()}


@pytest.mark.parametrize("name", ["CURRENT", "request.json", "snapshot.bin", "manifest.json"])
def test_a_pipe_in_place_of_a_file_of_the_index_blocks_nobody_and_is_replaced(
    index, root, build, name
):
    (path,) = index.folder.rglob(name)
    path.unlink()
    os.mkfifo(path)
    assert len(build(root)) == len(index)
    assert not [path for path in index.folder.rglob("*") if path.is_fifo()]


def test_a_manifest_is_never_larger_than_what_is_read(folder, monkeypatch):
    """An index of many roots and projects was written, and could not be opened."""
    before = parts(folder.open())
    roots = [f"/home/me/skills/{number}" for number in range(50_000)]
    folder.write(saver(terms="1"), {**SETTINGS, "roots": roots})
    assert folder.open().settings["roots"] == roots
    folder.write(saver(**PARTS), SETTINGS)
    monkeypatch.setattr(cache, "_MANIFEST_LIMIT", 1 << 19)
    with pytest.raises(
        StorageError, match=r"take 1,\d+,\d+ bytes .* than the 524,288 that are read"
    ):
        folder.write(saver(terms="1"), {**SETTINGS, "roots": roots})
    assert parts(folder.open()) == before


def test_an_index_folder_that_is_a_file_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("mine")
    folder = IndexFolder(tmp_path / "file")
    with pytest.raises(StorageError, match="Not a directory"):
        folder.write(saver(terms="1"), {})
    with pytest.raises(StorageError, match="File exists"), folder.lock():
        pass
    assert (tmp_path / "file").read_text() == "mine"


def test_a_second_writer_waits_and_then_gives_up(tmp_path):
    folder, other = IndexFolder(tmp_path / "index"), IndexFolder(tmp_path / "index")
    with (
        other.lock(),
        pytest.raises(LockTimeoutError, match="Another process") as caught,
        folder.lock(timeout=0.1),
    ):
        pass
    assert str(folder.path) in str(caught.value)
    with folder.lock(timeout=5):
        pass


def test_the_lock_is_let_go_after_an_error(folder):
    with pytest.raises(ValueError, match="mine"), folder.lock(timeout=1):
        raise ValueError("mine")
    with folder.lock(timeout=1):
        pass


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_what_is_written_is_for_its_owner_alone(tmp_path):
    folder = IndexFolder(tmp_path / "index")
    with folder.lock():
        folder.write(saver(terms="1"), {})
    folders = [folder.path, folder.path / "generations", folder.open().folder]
    assert [oct(path.stat().st_mode & 0o777) for path in folders] == ["0o700"] * 3


def test_what_killed_writers_left_is_removed_by_the_next(folder):
    inside = folder.open().folder
    names = (".CURRENT-x1", ".request.json-y", ".snapshot.bin-z")
    unfinished_files = [folder.path / f"{name}.skillsearch-new" for name in names]
    unfinished_files.append(inside / ".stat-cache.json-x2.skillsearch-new")
    others = [
        inside / "stat-cache.json",
        *(
            folder.path / name
            for name in (".bash-history", "notes-1", ".CURRENT", ".CURRENT-20240101")
        ),
    ]
    for path in [*unfinished_files, *others]:
        path.write_text("x")
    unfinished = folder.path / "generations" / ".new-x1"
    unfinished.mkdir()
    (unfinished / "terms").write_text("half")
    with folder.lock():
        pass
    assert not any(path.exists() for path in [*unfinished_files, unfinished])
    assert all(path.exists() for path in others)
    assert folder.open()


@pytest.mark.parametrize(
    "published", [["second", "third"], ["second", "third", "first part"]], ids=["others", "again"]
)
def test_a_writer_may_replace_the_generation_while_it_is_opened(folder, before_reading, published):
    def disturb(path):
        if path.name != "manifest.json":
            return False
        read.append(path)
        for text in published:
            folder.write(saver(terms=text, vectors="second"), SETTINGS)
        raise FileNotFoundError(path)  # It was gone for a moment.

    read = []
    before_reading(disturb)
    assert parts(folder.settled(folder.open))["terms"] == published[-1]
    assert len(read) == 1


def test_an_index_is_opened_anew_where_its_parts_went_after_the_check(index, before_reading):
    folder, read = IndexFolder(index.folder), []
    hour_ago = time.time() - 3600
    for path in index.opened.folder.glob("*.npy"):
        os.utime(path, (hour_ago, hour_ago))
    generation = folder.open()  # From now on its parts are trusted, and read only to be mapped.

    def disturb(path):
        if path.suffix != ".npy":
            return False
        read.append(path)
        folder.write(saver(terms="another"), SETTINGS)
        names = list(generation.parts)
        folder.write(lambda _target: None, generation.settings, before=generation, reused=names)
        raise FileNotFoundError(path)  # It was gone for a moment.

    before_reading(disturb)
    opened = open_current(folder)
    assert len(read) == 1
    assert opened.name == index.generation


def test_shared_parts_stay_trusted_though_their_links_come_and_go(folder):
    hour_ago = time.time() - 3600
    for name in ("terms", "vectors"):
        os.utime(folder.open().folder / name, (hour_ago, hour_ago))
    for number in range(3):
        before = folder.open()
        folder.write(saver(vectors=f"{number}"), SETTINGS, before=before, reused=["terms"])
        assert "terms" in trusted_parts(before.folder.with_name(folder.current()))


def test_shared_parts_count_once_in_the_size(folder):
    before = folder.size()
    generation = folder.open()
    folder.write(saver(chunks="x" * 5000), SETTINGS, before=generation, reused=["terms", "vectors"])
    assert folder.size() < before + 5000 + 4000
