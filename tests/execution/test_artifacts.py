"""Tests of artifacts."""

import hashlib
import os
import subprocess
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import ArtifactNotFoundError, WorkspaceError
from skillsearch.execution.types import ArtifactRef
from skillsearch.execution.workspaces.artifacts import Artifact, FolderArtifacts, parse_ref


@pytest.fixture
def store(tmp_path):
    return FolderArtifacts(tmp_path / "data" / "artifacts")


def folder_of(tmp_path, name):
    return tmp_path / "data" / "artifacts" / hashlib.sha256(name.encode()).hexdigest()


def test_what_is_saved_is_loaded_by_another_process_too(store, tmp_path):
    ref = store.save("./reports//a.txt", b"one", "text/plain")
    assert ref == ArtifactRef("reports/a.txt", 0)
    again = FolderArtifacts(tmp_path / "data" / "artifacts")
    assert again.load("reports/./a.txt", 0) == Artifact(ref, b"one", "text/plain")
    assert again.save("reports/a.txt", b"two", "text/plain").version == 1


def test_versions_are_counted_from_zero_for_each_name_and_names_are_in_order(store):
    assert store.list() == ()
    for number in range(12):
        assert store.save("a", b"%d" % number, "text/plain").version == number
    assert store.save("b", b"", "text/plain").version == 0
    assert store.load("a").data == b"11"
    assert store.load("a", 9).data == b"9"
    for name in ("a/c", "ä"):
        store.save(name, b"", "text/plain")
    assert store.list() == ("a", "a/c", "b", "ä")


NAMES = [
    "a",
    "A",
    "a ",
    "a.",
    "é",
    unicodedata.normalize("NFD", "é"),
    "CON",
    "ab:c",
    "a%2fb",
    "a/b",
]


def test_names_that_a_file_system_may_take_for_one_are_kept_apart(store, tmp_path):
    for name in NAMES:
        assert store.save(name, name.encode(), "text/plain") == ArtifactRef(name, 0)
    assert [store.load(name).data.decode() for name in NAMES] == NAMES
    folder_names = os.listdir(tmp_path / "data" / "artifacts")  # noqa: PTH208
    assert len({name.lower() for name in folder_names}) == len(NAMES)


def test_a_name_is_kept_in_plain_form(store):
    assert store.save("./a//b/", b"x", "text/plain").name == "a/b"
    assert store.load("a/./b").data == b"x"


HOSTILE = ["", ".", "/", "/etc/passwd", "../x", "a/../../x", "a\\b", "a\0b", "a\nb", "C:x"]
HOSTILE += ["x" * 1025, "\ud800", "a\udcff"]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_refused(store, tmp_path, name):
    with pytest.raises(WorkspaceError, match=r"artifact name .* cannot be used"):
        store.save(name, b"x", "text/plain")
    with pytest.raises(WorkspaceError, match=r"artifact name .* cannot be used"):
        store.load(name)
    with pytest.raises(WorkspaceError, match=r"artifact name .* cannot be used"):
        parse_ref(f"artifact://{name}@1")
    assert not (tmp_path / "data").exists()


@given(st.text(max_size=30))
def test_any_name_is_kept_or_refused(name):
    with TemporaryDirectory() as folder, patch.object(os, "fsync"):
        store = FolderArtifacts(Path(folder, "artifacts"))
        try:
            ref = store.save(name, b"x", "text/plain")
        except WorkspaceError:
            assert not any(Path(folder).iterdir())
        else:
            assert [path.name for path in Path(folder).iterdir()] == ["artifacts"]
            assert store.list() == (ref.name,)
            assert parse_ref(ref.ref) == (ref.name, 0)


REFS = {
    "artifact://a": ("a", None),
    "artifact://a@0": ("a", 0),
    "artifact://a/b.txt@12": ("a/b.txt", 12),
    "artifact://a@2@0": ("a@2", 0),
    "artifact://a@007": ("a@007", None),
    "artifact://a@-1": ("a@-1", None),
    "artifact://a@²": ("a@²", None),
    "artifact://a@12345678901": ("a@12345678901", None),
    "artifact://a%20b": ("a%20b", None),
    "artifact://./a": ("a", None),
}


@pytest.mark.parametrize(("ref", "expected"), REFS.items())
def test_references_are_taken_apart(ref, expected):
    assert parse_ref(ref) == expected


@pytest.mark.parametrize("ref", ["", "a@1", "artifact:a", "workspace://a", "Artifact://a"])
def test_what_is_no_reference_is_refused(ref):
    with pytest.raises(WorkspaceError, match="write artifact://name@version"):
        parse_ref(ref)


def test_a_version_that_is_missing_is_told_with_those_there_are(store, tmp_path):
    store.save("a", b"x", "text/plain")
    with pytest.raises(ArtifactNotFoundError, match=r"has no version 7; it has 0\."):
        store.load("a", 7)
    store.save("a", b"y", "text/plain")
    with pytest.raises(ArtifactNotFoundError, match=r"has no version -1; it has 0 to 1\."):
        store.load("a", -1)
    store.save("a", b"z", "text/plain")
    (folder_of(tmp_path, "a") / "1").rename(tmp_path / "gone")
    with pytest.raises(ArtifactNotFoundError, match=r"it has 0, 2\."):
        store.load("a", 1)
    assert store.save("a", b"x", "text/plain").version == 3


def test_a_name_that_is_missing_is_told_with_those_there_are(store):
    with pytest.raises(ArtifactNotFoundError, match=r"'b'. There are: none yet"):
        store.load("b")
    for number in range(12):
        store.save(f"a{number:02}", b"x", "text/plain")
    with pytest.raises(ArtifactNotFoundError, match=r"'a00', .*'a09' and 2 more"):
        store.load("b")


def test_the_size_of_an_artifact_is_limited(tmp_path):
    store = FolderArtifacts(tmp_path, max_bytes=10)
    store.save("a", b"x" * 10, "text/plain")
    with pytest.raises(WorkspaceError, match="has 11 bytes; 10 are allowed"):
        store.save("a", b"x" * 11, "text/plain")
    with pytest.raises(WorkspaceError, match=r"damaged .*larger than 9 bytes"):
        FolderArtifacts(tmp_path, max_bytes=9).load("a")


def replace_data(folder, put):
    (folder / "data").rename(folder / "other")
    put(folder / "data")


def write_about(folder, data):
    (folder / "about.json").write_bytes(data)


DAMAGES = {
    "another byte": lambda folder: (folder / "data").write_bytes(b"onf"),
    "cut": lambda folder: (folder / "data").write_bytes(b"on"),
    "no bytes": lambda folder: (folder / "data").unlink(),
    "linked": lambda folder: replace_data(folder, lambda path: path.symlink_to("other")),
    "FIFO": lambda folder: replace_data(folder, os.mkfifo),
    "linked folder": lambda folder: folder.symlink_to(folder.rename(folder.with_name("moved"))),
    "no JSON": lambda folder: write_about(folder, b"{"),
    "nested": lambda folder: write_about(folder, b"[" * 60_000),
    "JSON of another kind": lambda folder: write_about(folder, b'{"name": ["a"]}'),
    "too large": lambda folder: write_about(folder, b" " * (1 << 20)),
    "of another name": lambda folder: write_about(
        folder, (folder / "about.json").read_bytes().replace(b'"a"', b'"b"')
    ),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_version_is_told_and_never_served(store, tmp_path, damage):
    store.save("a", b"one", "text/plain")
    store.save("a", b"two", "text/plain")
    damage(folder_of(tmp_path, "a") / "0")
    with pytest.raises(WorkspaceError, match=r"Version 0 of the artifact 'a' in .* is damaged"):
        store.load("a", 0)
    assert store.load("a").data == b"two"
    assert store.save("a", b"three", "text/plain").version == 2
    assert store.list() == ("a",)


def test_foreign_files_in_the_folder_are_no_artifacts(store, tmp_path):
    store.save("a", b"x", "text/plain")
    (tmp_path / "data" / "artifacts" / "README").write_bytes(b"")
    (tmp_path / "data" / "artifacts" / ("0" * 64)).mkdir()
    for name in ("notes", "01", ".x.new"):
        (folder_of(tmp_path, "a") / name).mkdir()
    (folder_of(tmp_path, "a") / "1").symlink_to("nowhere")
    assert store.list() == ("a",)
    assert store.save("a", b"y", "text/plain").version == 2


def test_only_the_user_may_read_what_is_kept(store, tmp_path):
    store.save("a", b"x", "text/plain")
    assert folder_of(tmp_path, "a").stat().st_mode & 0o077 == 0
    assert (folder_of(tmp_path, "a") / "0").stat().st_mode & 0o077 == 0


def test_a_save_that_fails_leaves_nothing(store, tmp_path, monkeypatch):
    store.save("a", b"x", "text/plain")

    def fail(fd):
        raise OSError(28, "No space left on device")

    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WorkspaceError, match=r"cannot be written to .*check its permissions"):
        FolderArtifacts(tmp_path / "file").save("a", b"x", "text/plain")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(WorkspaceError, match="No space left"):
        store.save("a", b"y", "text/plain")
    assert os.listdir(folder_of(tmp_path, "a")) == ["0"]  # noqa: PTH208


def test_savers_at_the_same_time_get_different_versions(store):
    def save(number):
        data = str(number).encode()
        return store.save("a", data, "text/plain").version, data

    with ThreadPoolExecutor(4) as pool:
        saved = dict(pool.map(save, range(40)))
    assert sorted(saved) == list(range(40))
    assert {version: store.load("a", version).data for version in saved} == saved


@pytest.mark.slow
def test_a_saver_that_is_killed_leaves_whole_versions_only(store, tmp_path):
    script = (
        "import sys; from pathlib import Path\n"
        "from skillsearch.execution.workspaces.artifacts import FolderArtifacts\n"
        "store = FolderArtifacts(Path(sys.argv[1]))\n"
        "while True: print(store.save('a', b'x' * 200_000, 'text/plain').version, flush=True)\n"
    )
    folder = tmp_path / "data" / "artifacts"
    for wait in range(3):
        process = subprocess.Popen([sys.executable, "-c", script, folder], stdout=subprocess.PIPE)
        try:
            for _ in range(3 + wait):
                last = int(process.stdout.readline())
        finally:
            process.kill()
            process.communicate(timeout=120)
        assert store.load("a").ref.version >= last
        assert store.load("a").data == b"x" * 200_000
