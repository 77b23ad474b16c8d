"""Vectors kept by the text that they embed."""

import numpy as np
import pytest

from skillsearch.index import embedding_cache
from skillsearch.index.embedding_cache import EmbeddingCache, text_key

DIMENSIONS = 8
RECORD = 16 + 4 * DIMENSIONS + 8
FINGERPRINT = "0123456789abcdef0123"


def open_cache(folder, fingerprint=FINGERPRINT, dimensions=DIMENSIONS):
    """Open a cache of short vectors."""
    return EmbeddingCache(folder, fingerprint, dimensions)


def vector(number):
    """Return a vector that differs from others."""
    return np.arange(number, number + DIMENSIONS, dtype=np.float32)


def key(number):
    """Return the key of a text."""
    return text_key(f"text {number}")


def fill(folder, *numbers):
    """Add vectors to the cache of a folder and return its file."""
    with open_cache(folder) as cache:
        for number in numbers:
            cache.add(key(number), vector(number))
    return folder / f"embeddings-{FINGERPRINT[:16]}.bin"


def kept(folder, *numbers):
    """Return those of some numbers whose vectors can be read, each checked for its value."""
    cache = open_cache(folder)
    found = [number for number in numbers if cache.get(key(number)) is not None]
    for number in found:
        assert cache.get(key(number)).tolist() == vector(number).tolist()
    return found


def test_a_key_is_the_head_of_the_texts_sha256():
    """The same on every machine; lone surrogates have one too."""
    assert text_key("abc").hex() == "ba7816bf8f01cfea414140de5dae2223"
    assert len(text_key("\ud800")) == 16


def test_vectors_outlive_the_process(tmp_path):
    """In a file of whole records, the later ones behind the former."""
    file = fill(tmp_path, 1, 2)
    assert file.stat().st_size == 2 * RECORD
    fill(tmp_path, 3)
    assert kept(tmp_path, 1, 2, 3, 4) == [1, 2, 3]
    assert len(open_cache(tmp_path)) == 3


def test_a_vector_can_be_read_as_soon_as_it_is_added(tmp_path):
    """Before it is on disk, and without a file there is nothing."""
    with open_cache(tmp_path) as cache:
        assert (len(cache), cache.get(key(1))) == (0, None)
        cache.add(key(1), vector(1))
        assert cache.get(key(1)).tolist() == vector(1).tolist()
        assert cache.matrix([key(1), key(1)]).tolist() == [vector(1).tolist()] * 2
        assert cache.matrix([]).shape == (0, DIMENSIONS)


def test_a_matrix_needs_all_of_its_keys(tmp_path):
    """The missing one is named."""
    fill(tmp_path, 1)
    with pytest.raises(KeyError):
        open_cache(tmp_path).matrix([key(1), key(2)])


def test_each_embedder_has_a_file_of_its_own(tmp_path):
    """Vectors of two embedders are never mixed."""
    fill(tmp_path, 1)
    assert open_cache(tmp_path, fingerprint="f" * 16).get(key(1)) is None


def test_an_interrupted_run_keeps_what_it_added(tmp_path):
    """Ctrl-C in the middle of embedding loses nothing that was done."""

    def interrupted():
        with open_cache(tmp_path) as cache:
            cache.add(key(1), vector(1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert kept(tmp_path, 1) == [1]


@pytest.mark.parametrize("lost", [1, RECORD // 2, RECORD - 1])
def test_a_torn_last_record_is_a_miss(tmp_path, lost):
    """And the next run writes over it, so that all that follows is whole."""
    file = fill(tmp_path, 1, 2)
    file.write_bytes(file.read_bytes()[:-lost])
    assert kept(tmp_path, 1, 2) == [1]
    fill(tmp_path, 3, 2)
    assert kept(tmp_path, 1, 2, 3) == [1, 2, 3]
    assert file.stat().st_size == 3 * RECORD


@pytest.mark.parametrize("place", range(0, 3 * RECORD, 5))
def test_a_flipped_bit_is_a_miss_of_its_record_alone(tmp_path, place):
    """Whether in the key, the vector or the digest; never an error, never a wrong vector."""
    file = fill(tmp_path, 0, 1, 2)
    data = bytearray(file.read_bytes())
    data[place] ^= 1 << place % 8
    file.write_bytes(data)
    damaged = place // RECORD
    assert kept(tmp_path, 0, 1, 2) == [number for number in range(3) if number != damaged]
    fill(tmp_path, damaged)
    assert kept(tmp_path, 0, 1, 2) == [0, 1, 2]


def test_a_damaged_record_is_found_in_a_matrix_too(tmp_path):
    """It counts as missing."""
    file = fill(tmp_path, 1)
    file.write_bytes(bytes([file.read_bytes()[0]]) + file.read_bytes()[1:-1] + b"\0")
    cache = open_cache(tmp_path)
    with pytest.raises(KeyError):
        cache.matrix([key(1)])
    assert len(cache) == 0


def test_an_empty_file_is_an_empty_cache(tmp_path):
    """As after a kill before the first write."""
    fill(tmp_path, 1).write_bytes(b"")
    assert kept(tmp_path, 1) == []


def test_the_file_is_made_smaller_once_most_of_it_is_out_of_use(tmp_path, monkeypatch):
    """Vectors in use stay, in the order given; others are gone."""
    monkeypatch.setattr(embedding_cache, "_COMPACT_SLACK", 3)
    file = fill(tmp_path, *range(9))
    with open_cache(tmp_path) as cache:
        cache.compact([key(5), key(2), key(8)])
    assert file.stat().st_size == 9 * RECORD
    with open_cache(tmp_path) as cache:
        cache.add(key(9), vector(9))
        cache.compact([key(9), key(2), key(2), key(8)])
        assert cache.get(key(5)).tolist() == vector(5).tolist()
    assert file.stat().st_size == 3 * RECORD
    assert kept(tmp_path, *range(10)) == [2, 8, 9]
    assert sorted(path.name for path in tmp_path.iterdir()) == [file.name]


def test_a_vector_out_of_a_float64_computation_is_kept_as_float32(tmp_path):
    """Rounded once, the same before and after the round trip."""
    exact = vector(1).astype(np.float64) / 3
    with open_cache(tmp_path) as cache:
        cache.add(key(1), exact)
        before = cache.get(key(1)).tolist()
    assert before == open_cache(tmp_path).get(key(1)).tolist() == (vector(1) / 3).tolist()
