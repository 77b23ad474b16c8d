"""Feature hashing, and rows and keys of texts."""

import numpy as np
import pytest

from skillsearch.embedders.embedding import HashingEmbedder, embed, text_key, unit_row
from skillsearch.errors import EmbedderError


def test_a_vector_of_another_size_is_refused():
    with pytest.raises(EmbedderError, match=r"shape \(3,\).*512 finite numbers"):
        unit_row(np.ones(3), HashingEmbedder())


def test_hashed_texts_are_near_by_shared_words():
    embedder = HashingEmbedder()
    vectors = embed(embedder, ["extract tables", "Tables: EXTRACT!", "table extraction", "kill"])
    first, same, near, far = vectors
    assert first @ same == pytest.approx(1.0, abs=1e-6)
    assert 0.9 > first @ near > 0.4 > 0.2 > abs(first @ far)


def test_hashing_understands_every_script_and_never_cuts(cut_texts):
    embedder = HashingEmbedder(dimensions=2048)
    texts = [
        "문서를 번역하는 기술",
        "문서를 요약하는 기술",
        "기상 예보",
        "a " * 9999 + "end",
        "a " * 9999,
    ]
    result = embed(embedder, texts)
    assert cut_texts(embedder, texts) == 0
    assert result[0] @ result[1] > result[0] @ result[2] + 0.3
    assert (result[3] != result[4]).any()
    np.testing.assert_allclose(np.linalg.norm(result, axis=1), 1.0, atol=1e-6)


def test_hashing_gives_the_same_in_every_process(run_python):
    code = (
        "from skillsearch.embedders.embedding import HashingEmbedder, embed\n"
        "embedder = HashingEmbedder(dimensions=64)\n"
        "vectors = embed(embedder, ['find a skill', '\\ud800'])\n"
        "print(embedder.fingerprint, vectors.tobytes().hex())"
    )
    result = run_python(code, PYTHONHASHSEED="1")
    here = HashingEmbedder(dimensions=64)
    expected = embed(here, ["find a skill", "\ud800"]).tobytes().hex()
    assert result == f"{here.fingerprint} {expected}\n"


def test_a_key_is_the_head_of_the_texts_sha256():
    assert text_key("abc").hex() == "ba7816bf8f01cfea414140de5dae2223"
    assert len(text_key("\ud800")) == 16
