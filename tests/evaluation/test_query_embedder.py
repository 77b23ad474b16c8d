"""An embedder that embeds each query once."""

import numpy as np
import pytest

from skillsearch.errors import EmbedderError
from skillsearch.evaluation.query_embedder import Embedders, QueryEmbedder
from skillsearch.index.embedding import HashingEmbedder, embed


class Counting:
    """A hashing embedder that keeps what it was asked."""

    def __init__(self):
        self.asked = []
        self._inner = HashingEmbedder()

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def embed_stream(self, texts):
        """Note the texts and embed them."""
        self.asked += texts
        return self._inner.embed_stream(texts)


def test_it_is_the_embedder_that_it_wraps():
    """Its vectors can be compared with those of an index."""
    inner = HashingEmbedder()
    wrapped = QueryEmbedder(inner)
    for name in ("fingerprint", "name", "dimensions", "scripts"):
        assert getattr(wrapped, name) == getattr(inner, name)
    texts = ["brew coffee", "", "steep tea", "brew coffee"]
    np.testing.assert_array_equal(embed(wrapped, texts).vectors, embed(inner, texts).vectors)


def test_a_text_is_embedded_once():
    """Within a call and between calls, and each keeps its place."""
    counting = Counting()
    wrapped = QueryEmbedder(counting)
    first = list(wrapped.embed_stream(["a", "b", "a"]))
    second = list(wrapped.embed_stream(["b", "c"]))
    assert counting.asked == ["a", "b", "c"]
    assert [one.position for one in (*first, *second)] == [0, 1, 2, 0, 1]
    assert second[0].vector is first[1].vector


def test_what_was_saved_is_told_once():
    """The time of the first embedding is charged for each that did not happen."""
    wrapped = QueryEmbedder(Counting())
    list(wrapped.embed_stream(["a"]))
    assert wrapped.take_saved_seconds() == 0
    list(wrapped.embed_stream(["a"]))
    once = wrapped.take_saved_seconds()
    list(wrapped.embed_stream(["a", "a"]))
    assert 0 < once < 1
    assert wrapped.take_saved_seconds() == pytest.approx(2 * once)
    assert wrapped.take_saved_seconds() == 0


def test_each_model_is_loaded_once():
    """So that its texts are embedded once too."""
    embedders = Embedders()
    assert embedders.load("hashing") is embedders.load("hashing")
    with pytest.raises(EmbedderError, match="No embedder is called 'nothing'"):
        embedders.load("nothing")
