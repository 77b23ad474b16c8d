"""The postings of one field of a segment."""

from dataclasses import fields, replace

import numpy as np
import pytest

from skillsearch.errors import CacheError
from skillsearch.index.lexical.postings import LexicalSegment, TermTally
from skillsearch.text.tokenizer import term_hash


def arrays(segment):
    return {field.name: getattr(segment, field.name).tobytes() for field in fields(segment)}


def split(*texts):
    return [text.split() for text in texts]


def test_terms_are_known_by_a_hash_that_does_not_change():
    assert term_hash("skill") == 0x728DAB833726CC39
    assert term_hash("\ud800") != term_hash("\ud801")


def test_rows_are_of_the_terms_that_are_there(segment_of):
    segment = segment_of(split("b a", "c a", "d"))
    hashes = np.array([term_hash(term) for term in ("a", "zz", "d")], np.uint64)
    rows = segment.rows(hashes)
    assert (rows >= 0).tolist() == [True, False, True]
    assert segment.document_frequencies(rows).tolist() == [2, 0, 1]
    assert segment_of([[]]).rows(hashes).tolist() == [-1, -1, -1]


def test_a_tally_gives_what_it_has():
    tally = TermTally(np.array([3, 7], np.uint64), np.array([-2, 5], np.int64))
    assert tally.of(np.array([7, 1, 3, 9], np.uint64)).tolist() == [5, 0, -2, 0]
    assert TermTally.empty().of(np.array([7], np.uint64)).tolist() == [0]


def test_a_saved_segment_comes_back(tmp_path, segment_of):
    index = segment_of(split("a b a", "b c", "d", ""), with_words=True)
    index.save(tmp_path, "field")
    loaded = LexicalSegment.load(tmp_path, "field")
    assert arrays(loaded) == arrays(index)
    assert len(list(tmp_path.iterdir())) == len(fields(LexicalSegment))


NAMES = [field.name for field in fields(LexicalSegment)]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((NAMES[0], damage) for damage in ("empty file", "torn file")),
        *((name, damage) for name in NAMES for damage in ("missing", "dtype", "ndim")),
        # That of "lengths" is the size of the corpus, which `Corpus` compares.
        *((name, "length") for name in NAMES if name != "lengths"),
    ],
)
def test_an_array_that_does_not_fit_is_a_cache_error(tmp_path, segment_of, name, damage):
    index = segment_of(split("a b", "c d a words"), with_words=True)
    array = getattr(index, name)
    index = {
        "dtype": lambda: replace(index, **{name: array.astype(np.int8)}),
        "ndim": lambda: replace(index, **{name: array[np.newaxis]}),
        "length": lambda: replace(index, **{name: np.append(array, array[-1:] + 1)}),
    }.get(damage, lambda: index)()
    index.save(tmp_path, "field")
    path = tmp_path / f"field-{name}.npy"
    if damage.endswith("file"):
        path.write_bytes(path.read_bytes()[: 0 if damage == "empty file" else -3])
    if damage == "missing":
        path.unlink()
    with pytest.raises(CacheError, match=f"field-{name}.npy" if damage == "missing" else "field"):
        LexicalSegment.load(tmp_path, "field")
