"""Vectors kept by the text that they embed."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.embedders.embedding import text_key
from skillsearch.embedders.embedding_cache import EmbeddingCache, key_array

DIMENSIONS = 8
SIZES = {"keys": 16 + 8, "vectors": 4 * DIMENSIONS}
FINGERPRINT = "0123456789abcdef0123"


def open_cache(folder, fingerprint=FINGERPRINT, dimensions=DIMENSIONS, **options):
    """Open a cache of short vectors."""
    return EmbeddingCache(folder, fingerprint, dimensions, **options)


def vector(number):
    """Return a vector that differs from others."""
    return np.arange(number, number + DIMENSIONS, dtype=np.float32)


def key(number):
    """Return the key of a text."""
    return text_key(f"text {number}")


def file_of(folder, kind, number=0):
    """Return the file of the keys or of the vectors."""
    return folder / f"embeddings-{FINGERPRINT[:16]}-{number}.{kind}"


def counts(folder, number=0):
    """Return how many records each file holds."""
    return [file_of(folder, kind, number).stat().st_size / size for kind, size in SIZES.items()]


def fill(folder, *numbers):
    """Add vectors to the cache of a folder."""
    with open_cache(folder) as cache:
        for number in numbers:
            cache.add(key(number), vector(number))


def kept(folder, *numbers):
    """Return those of some numbers whose vectors can be read, each checked for its value."""
    with open_cache(folder) as cache:
        found = [number for number in numbers if cache.has([key(number)])[0]]
        for number in found:
            assert cache.matrix([key(number)])[0].tolist() == vector(number).tolist()
        assert cache.has([key(number) for number in numbers]).tolist() == [
            number in found for number in numbers
        ]
    return found


def test_a_key_is_the_head_of_the_texts_sha256():
    """The same on every machine; lone surrogates have one too."""
    assert text_key("abc").hex() == "ba7816bf8f01cfea414140de5dae2223"
    assert len(text_key("\ud800")) == 16


def test_vectors_outlive_the_process(tmp_path):
    """The later ones behind the former."""
    fill(tmp_path, 1, 2)
    assert counts(tmp_path) == [2, 2]
    fill(tmp_path, 3)
    assert kept(tmp_path, 1, 2, 3, 4) == [1, 2, 3]
    assert len(open_cache(tmp_path)) == 3


def test_a_vector_can_be_read_as_soon_as_it_is_added(tmp_path):
    """Before it is on disk, and without a file there is nothing."""
    with open_cache(tmp_path) as cache:
        assert (len(cache), cache.has([key(1)]).tolist()) == (0, [False])
        cache.add(key(1), vector(1))
        assert cache.matrix([key(1)]).tolist() == [vector(1).tolist()]
        assert cache.matrix([key(1), key(1)]).tolist() == [vector(1).tolist()] * 2
        assert cache.matrix([]).shape == (0, DIMENSIONS)


def test_a_matrix_needs_all_of_its_keys(tmp_path):
    """The missing one is named."""
    fill(tmp_path, 1)
    with open_cache(tmp_path) as cache, pytest.raises(KeyError) as caught:
        cache.matrix([key(1), key(2)])
    assert caught.value.args == (key(2),)


def test_each_embedder_has_a_file_of_its_own(tmp_path):
    """Vectors of two embedders are never mixed."""
    fill(tmp_path, 1)
    assert len(open_cache(tmp_path, fingerprint="f" * 16)) == 0
    assert not open_cache(tmp_path, fingerprint="f" * 16).has([key(1)]).any()


def test_an_interrupted_run_keeps_what_it_added(tmp_path):
    """Ctrl-C in the middle of embedding loses nothing that was done."""

    def interrupted():
        with open_cache(tmp_path) as cache:
            cache.add(key(1), vector(1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert kept(tmp_path, 1) == [1]


def test_what_was_flushed_outlives_a_kill(tmp_path):
    """Another process reads it, though the files are still open."""
    with open_cache(tmp_path) as cache:
        cache.add(key(1), vector(1))
        cache.flush()
        cache.add(key(2), vector(2))
        assert kept(tmp_path, 1, 2) == [1]


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("share", [0.01, 0.5, 1.0, 1.5])
def test_a_torn_end_of_a_file_is_a_miss(tmp_path, kind, share):
    """Whichever file it is; the next run writes over it, so that all that follows is whole."""
    fill(tmp_path, 1, 2, 3)
    file = file_of(tmp_path, kind)
    file.write_bytes(file.read_bytes()[: -max(1, int(share * SIZES[kind]))])
    lost = 1 if share <= 1 else 2
    assert kept(tmp_path, 1, 2, 3) == [1, 2, 3][:-lost]
    fill(tmp_path, 4, 3, 2)
    assert kept(tmp_path, 1, 2, 3, 4) == [1, 2, 3, 4]
    assert counts(tmp_path) == [6 - lost, 6 - lost]


PLACES = [(kind, place) for kind, size in SIZES.items() for place in range(0, 3 * size, 5)]


@pytest.mark.parametrize(("kind", "place"), PLACES)
def test_a_flipped_bit_is_a_miss_of_its_vector_alone(tmp_path, kind, place):
    """Whether in the key, the vector or the digest; never an error, never a wrong vector."""
    fill(tmp_path, 0, 1, 2)
    file = file_of(tmp_path, kind)
    data = bytearray(file.read_bytes())
    data[place] ^= 1 << place % 8
    file.write_bytes(data)
    damaged = place // SIZES[kind]
    assert kept(tmp_path, 0, 1, 2) == [number for number in range(3) if number != damaged]
    fill(tmp_path, damaged)
    assert kept(tmp_path, 0, 1, 2) == [0, 1, 2]


def test_a_damaged_vector_is_found_in_a_matrix_too(tmp_path, caplog):
    """It counts as missing from then on, and the log tells once."""
    fill(tmp_path, 1)
    file_of(tmp_path, "vectors").write_bytes(bytes(SIZES["vectors"]))
    with open_cache(tmp_path) as cache:
        for _ in range(2):
            with pytest.raises(KeyError):
                cache.matrix([key(1)])
        assert (len(cache), cache.rows_of([key(1)]).tolist()) == (0, [-1])
    assert caplog.text.count("damaged") == 1


@pytest.mark.parametrize("kind", SIZES)
def test_an_empty_or_missing_file_is_an_empty_cache(tmp_path, kind):
    """As after a kill before the first write."""
    for spoil in (lambda path: path.write_bytes(b""), lambda path: path.unlink()):
        fill(tmp_path, 1)
        spoil(file_of(tmp_path, kind))
        assert kept(tmp_path, 1) == []
        fill(tmp_path, 2)
        assert kept(tmp_path, 1, 2) == [2]


def test_keys_are_found_by_all_of_their_bytes(tmp_path):
    """Keys with the same head are told apart, sorted in or just added."""
    keys = [b"the same" + bytes([number] * 8) for number in range(10)]
    with open_cache(tmp_path, recent=4) as cache:
        for number, one in enumerate(keys):
            cache.add(one, vector(number))
            assert cache.rows_of(keys).tolist() == [
                row if row <= number else -1 for row in range(10)
            ]
        assert cache.matrix(keys).tolist() == [vector(row).tolist() for row in range(10)]
    assert open_cache(tmp_path).rows_of(keys).tolist() == list(range(10))


@given(st.lists(st.integers(0, 40), max_size=60), st.lists(st.integers(0, 50), max_size=30))
def test_many_keys_are_looked_up_at_once(added, asked):
    """In any order, repeats included; of a key added twice the last vector counts."""
    with tempfile.TemporaryDirectory() as folder:
        rows = {number: row for row, number in enumerate(added)}
        with open_cache(Path(folder), recent=16) as cache:
            for place, number in enumerate(added):
                cache.add(key(number), vector(place))
            found = cache.rows_of(key_array([key(number) for number in asked]))
            assert found.tolist() == [rows.get(number, -1) for number in asked]
            known = [number for number in asked if number in rows]
            matrix = cache.matrix([key(number) for number in known])
        assert matrix.tolist() == [vector(rows[number]).tolist() for number in known]


def test_the_files_are_made_smaller_once_most_is_out_of_use(tmp_path):
    """Vectors in use stay, in the order given; others are gone."""
    fill(tmp_path, *range(9))
    with open_cache(tmp_path) as cache:
        cache.compact([key(5), key(2), key(8)], slack=3)
    assert counts(tmp_path) == [9, 9]
    with open_cache(tmp_path) as cache:
        cache.add(key(9), vector(9))
        cache.compact([key(9), key(2), key(2), key(8)], slack=3)
        assert cache.matrix([key(8)]).tolist() == [vector(8).tolist()]
        cache.add(key(1), vector(1))
    assert counts(tmp_path, 1) == [4, 4]
    assert kept(tmp_path, *range(10)) == [1, 2, 8, 9]
    assert open_cache(tmp_path).rows_of([key(9), key(2), key(8)]).tolist() == [0, 1, 2]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_compaction_that_was_killed_changes_nothing(tmp_path):
    """Neither before the new keys are there, nor after, when the old files are still there."""
    fill(tmp_path, 1, 2)
    file_of(tmp_path, "vectors", 1).write_bytes(b"half")
    assert kept(tmp_path, 1, 2) == [1, 2]
    for kind in SIZES:
        data = file_of(tmp_path, kind).read_bytes()
        file_of(tmp_path, kind, 1).write_bytes(data[: SIZES[kind]])
    assert kept(tmp_path, 1, 2) == [1]
    fill(tmp_path, 3)
    assert kept(tmp_path, 1, 2, 3) == [1, 3]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_vector_out_of_a_float64_computation_is_kept_as_float32(tmp_path):
    """Rounded once, the same before and after the round trip."""
    exact = vector(1).astype(np.float64) / 3
    with open_cache(tmp_path) as cache:
        cache.add(key(1), exact)
        before = cache.matrix([key(1)])[0].tolist()
    with open_cache(tmp_path) as cache:
        assert before == cache.matrix([key(1)])[0].tolist() == (vector(1) / 3).tolist()
