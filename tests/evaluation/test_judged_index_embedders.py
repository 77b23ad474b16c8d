"""An embedder that embeds each query once."""

import numpy as np
import pytest

from skillsearch.embedders.embedding import HashingEmbedder, embed
from skillsearch.errors import EmbedderError
from skillsearch.evaluation.judged_index import Embedders, RememberingEmbedder


class Counting:
    """A hashing embedder that keeps what it was asked."""

    def __init__(self):
        self.embedded = []
        self._inner = HashingEmbedder()

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def embed_stream(self, texts):
        self.embedded += texts
        return self._inner.embed_stream(texts)


def test_it_is_the_embedder_that_it_wraps():
    inner = HashingEmbedder()
    wrapped = RememberingEmbedder(inner)
    for name in ("fingerprint", "name", "dimensions"):
        assert getattr(wrapped, name) == getattr(inner, name)
    texts = ["brew coffee", "", "steep tea", "brew coffee"]
    np.testing.assert_array_equal(embed(wrapped, texts), embed(inner, texts))


def test_a_text_is_embedded_once():
    counting = Counting()
    wrapped = RememberingEmbedder(counting)
    first = list(wrapped.embed_stream(["a", "b", "a"]))
    second = list(wrapped.embed_stream(["b", "c"]))
    assert counting.embedded == ["a", "b", "c"]
    assert [embedded_text.position for embedded_text in (*first, *second)] == [0, 1, 2, 0, 1]
    assert second[0].vector is first[1].vector


def test_what_was_saved_adds_up():
    wrapped = RememberingEmbedder(Counting())
    list(wrapped.embed_stream(["a"]))
    assert wrapped.saved_seconds == 0
    list(wrapped.embed_stream(["a"]))
    once = wrapped.saved_seconds
    list(wrapped.embed_stream(["a", "a"]))
    assert 0 < once < 1
    assert wrapped.saved_seconds == pytest.approx(3 * once)


def test_each_model_is_loaded_once():
    embedders = Embedders()
    assert embedders["hashing"] is embedders["hashing"]
    with pytest.raises(EmbedderError, match="No embedder is called 'nothing'"):
        embedders["nothing"]
