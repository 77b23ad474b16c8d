"""From which cosine on texts are alike."""

import pytest

from skillsearch.index.dense.likeness import confusable_from, copies_from


@pytest.mark.parametrize(
    ("model", "copies", "confusable"),
    [
        ("onnx", (0.91, 0.47), 0.66),
        ("hashing", (0.97, 0.50), 0.90),
        ("st:any/model", (0.97, 0.97), 0.90),
    ],
)
def test_each_embedder_has_its_own_limits(model, copies, confusable):
    assert copies_from(model) == copies
    assert confusable_from(model) == confusable
