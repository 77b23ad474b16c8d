"""A reader that remembers gives what the reader itself gives, and reads no pair twice."""

import numpy as np

from skillsearch.readers.loading import Readers
from skillsearch.readers.remembering import RememberingReader, RememberingReaders


class Lengths:
    """A reader whose log-odds are how long both texts are; it notes what it has read."""

    name = "lengths"

    def __init__(self):
        self.pairs = []

    def read(self, request, texts):
        """Return the lengths."""
        self.pairs += [(request, text) for text in texts]
        return np.array([10.0 * len(request) + len(text) for text in texts])


def test_no_pair_is_read_twice_and_each_has_its_own_logit_in_order():
    reader = Lengths()
    remembering = RememberingReader(reader)
    for request, texts in [("a", ["x", "yy"]), ("a", ["yy", "zzz", "zzz", "x"]), ("bb", ["x"])]:
        expected = [10.0 * len(request) + len(text) for text in texts]
        assert remembering.read(request, texts).tolist() == expected
    assert remembering.read("a", []).tolist() == []
    assert reader.pairs == [("a", "x"), ("a", "yy"), ("a", "zzz"), ("bb", "x")]


def test_readers_that_remember_are_loaded_once_and_read_like_the_packaged_one():
    readers = RememberingReaders()
    reader = readers.get("packaged")
    assert reader is readers.get("packaged")
    texts = ["brews coffee", "steeps green tea"]
    expected = Readers().get("packaged").read("make me some tea", texts).tolist()
    for _ in range(2):
        assert reader.read("make me some tea", texts).tolist() == expected
