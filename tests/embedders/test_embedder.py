"""Embedders without torch: the packaged model, any local ONNX folder, and feature hashing."""

import json
import os
import shutil
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from skillsearch.embedders import embedder as embedder_module
from skillsearch.embedders.embedder import load_embedder, model_identity
from skillsearch.embedders.embedding import VERSION, HashingEmbedder, embed, unit_row
from skillsearch.embedders.mapped_model import MappedEmbedder
from skillsearch.embedders.model_files import weight_files
from skillsearch.embedders.onnx_embedder import OnnxEmbedder
from skillsearch.errors import EmbedderError, MissingDependencyError

GOLDEN = Path(__file__).with_name("golden_vectors.json")
PACKAGED = embedder_module.PACKAGED_MODEL

TEXTS = [
    "pdf-forms: Fill in PDF forms, extract their fields and flatten the result.",
    "Trim and join video clips",
    "rotate api keys\nand revoke those that leaked",
    "",
    "a " * 300,
    "Réserver un créneau dans l'agenda partagé",
    "x",
]


@pytest.fixture(scope="module")
def packaged():
    return load_embedder("onnx")


def vector_of(embedder, text):
    return embed(embedder, [text])[0]


def cut_texts(embedder, texts):
    return sum(text.truncated for text in embedder.embed_stream(texts))


def test_the_packaged_model_gives_the_vectors_it_was_shipped_with(packaged):
    """Stored vectors of three texts are met on every machine and version of ONNX Runtime.

    Not to the bit: float rounding tips some 8-bit roundings (lowest cosine seen: 0.9958).
    """
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    vectors = embed(packaged, list(golden))
    stored = np.array(list(golden.values()))
    stored /= np.linalg.norm(stored, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors[:, :8], stored[:, :8], atol=0.03)
    assert np.sum(vectors * stored, axis=1).min() >= 0.99


def test_the_packaged_model_says_what_it_is(packaged):
    assert (packaged.name, packaged.dimensions) == ("skillsearch-e5", 384)
    assert len(packaged.fingerprint) == 16
    for spec in ("multilingual", "skillsearch-e5"):
        assert load_embedder(spec).fingerprint == packaged.fingerprint
    assert embed(packaged, []).shape == (0, 384)


def test_texts_of_like_meaning_are_near_without_a_shared_word(packaged):
    query, same, other = embed(
        packaged, ["shorten a movie", "Trim and join video clips", "Rotate API keys that leaked"]
    )
    assert query @ same > 0.25 > 0.1 > query @ other


def test_rows_are_float32_of_unit_length_in_the_order_of_the_texts(packaged):
    vectors = embed(packaged, TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), 384)
    expected = [float(bool(text)) for text in TEXTS]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), expected, atol=1e-6)
    for text, row in zip(TEXTS, vectors, strict=True):
        np.testing.assert_array_equal(row, vector_of(packaged, text))


@pytest.mark.parametrize("processors", [None, 1, 64])
def test_the_number_of_processors_changes_no_vector(packaged, monkeypatch, processors):
    expected = np.stack([vector_of(packaged, text) for text in TEXTS])
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    np.testing.assert_array_equal(embed(packaged, TEXTS), expected)


def test_texts_beyond_the_token_limit_are_counted_and_cut(packaged):
    """Of 128 tokens a text has 126 for itself; the next word changes nothing."""
    fits, beyond = "word " * 126, "word " * 126 + "zebra"
    assert cut_texts(packaged, [fits]) == 0
    texts = [beyond, "short", fits, beyond]
    result = embed(packaged, texts)
    assert cut_texts(packaged, texts) == 2
    np.testing.assert_array_equal(result[0], result[2])
    flags = {text.position: text.truncated for text in packaged.embed_stream([beyond, "short"])}
    assert flags == {0: True, 1: False}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("filler", ["word ", "x", "(", "\t", "日本"])
@pytest.mark.slow
def test_a_megabyte_costs_no_more_than_its_head(packaged, filler):
    huge = "find a skill " + filler * (1_000_000 // len(filler)) + "end"
    result = embed(packaged, [huge] * 8)
    assert cut_texts(packaged, [huge] * 8) == 8
    np.testing.assert_array_equal(result[0], vector_of(packaged, huge[:5000]))


@pytest.mark.parametrize("blank", ["", " \n\t", "\0", "\u200b\u200d", "\ufeff"])
def test_a_text_without_tokens_is_similar_to_nothing(packaged, blank):
    assert not vector_of(packaged, blank).any()
    assert not vector_of(HashingEmbedder(), blank).any()


@pytest.mark.parametrize(
    "text",
    [
        "\ud800",
        "find\0me",
        "\udcff\udc00 half of a pair",
        "[CLS] [SEP] [MASK] [PAD]",
        "\u202eright to left",
        "e" + "\u0301" * 5000,
        "👩‍👩‍👧‍👦" * 50,
        "\x1b[31mred",
    ],
)
def test_hostile_text_gets_a_vector(packaged, text):
    row = vector_of(packaged, text)
    assert np.linalg.norm(row) == pytest.approx(1.0, abs=1e-6)


def test_spaces_around_a_text_do_not_count_as_text(packaged):
    padded = "\n" * 10_000 + "trim a video" + " " * 10_000
    result = embed(packaged, [padded, "trim a video"])
    np.testing.assert_array_equal(*result)
    assert cut_texts(packaged, [padded, "trim a video"]) == 0


def test_progress_is_told_after_every_text(packaged):
    told = []
    embed(packaged, ["one", "two", "three"], progress=told.append)
    assert told == [1, 2, 3]


def test_a_stream_that_is_closed_early_stops_its_threads(packaged, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    before = threading.active_count()
    with closing(packaged.embed_stream(["some text"] * 1000)) as stream:
        kept = [next(stream) for _ in range(3)]
    assert [text.position for text in kept] == [0, 1, 2]
    assert threading.active_count() == before


@pytest.fixture
def copied(tmp_path):
    return Path(shutil.copytree(PACKAGED, tmp_path / "model"))


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


VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "red": 4, "green": 5, "blue": 6}
TABLE = np.random.default_rng(3).normal(size=(len(VOCABULARY), 4)).astype(np.float32)


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def write_tokenizer(path):
    words = tokenizers.models.WordLevel(VOCABULARY, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(path))


def make_model(
    folder,
    *,
    file="model.onnx",
    inputs=("input_ids",),
    output="last_hidden_state",
    table=TABLE,
    weights=None,
):
    """Write an ONNX folder whose model looks each token up in `table`, kept in file `weights`."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["rows"])]
    pooled = output == "sentence_embedding"
    pool = ("ReduceMean", {"axes": [1], "keepdims": 0}) if pooled else ("Identity", {})
    nodes.append(helper.make_node(pool[0], ["rows"], [output], **pool[1]))
    graph = helper.make_graph(
        nodes,
        "lookup",
        [helper.make_tensor_value_info(name, kind.INT64, ["b", "t"]) for name in inputs],
        [
            helper.make_tensor_value_info(
                output, kind.FLOAT, ["b", "d"] if pooled else ["b", "t", "d"]
            )
        ],
        [onnx.numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    if weights is not None:
        (tensor,) = model.graph.initializer
        beside = path.parent / weights
        beside.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(tensor.raw_data)
        onnx.external_data_helper.set_external_data(tensor, weights, 0, len(tensor.raw_data))
        tensor.ClearField("raw_data")
    path.write_bytes(model.SerializeToString())
    write_tokenizer(folder / "tokenizer.json")
    return folder


def make_model_that_names(folder, weights):
    """Write the bytes of an ONNX tensor whose weights are in a file of that name."""

    def field(tag, value):
        size, length = len(value), b""
        while size > 0x7F:
            length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
        return tag + length + bytes([size]) + value

    make_model(folder)
    entry = field(b"j", field(b"\n", b"location") + field(b"\x12", weights))
    (folder / "model.onnx").write_bytes(field(b":", field(b"*", entry)))


def unit(vector):
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"file": "onnx/model.onnx"},
        {"file": "model_quantized.onnx"},
        {"file": "onnx/model_quantized.onnx"},
        {"output": "token_embeddings"},
        {"output": "sentence_embedding"},
        {"inputs": ("input_ids", "attention_mask")},
        {"inputs": ("attention_mask", "token_type_ids", "input_ids")},
        {"weights": "model.onnx_data"},
        {"weights": "weights/table", "file": "onnx/model.onnx"},
    ],
)
def test_any_local_onnx_folder_is_an_embedder(tmp_path, layout):
    folder = make_model(tmp_path / "colours", **layout)
    embedder = load_embedder(str(folder))
    assert (embedder.name, embedder.dimensions) == ("colours", 4)
    rows = embed(embedder, ["red blue", "green", ""])
    np.testing.assert_allclose(rows[0], unit(TABLE[[2, 4, 6, 3]].mean(0)), atol=1e-6)
    np.testing.assert_allclose(rows[1], unit(TABLE[[2, 5, 3]].mean(0)), atol=1e-6)
    assert not rows[2].any()


@pytest.mark.parametrize(
    "config",
    [{"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, {"pooling_mode": "cls"}],
)
def test_a_model_that_pools_by_its_first_token_is_pooled_so(tmp_path, config):
    folder = make_model(tmp_path)
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 4} | config)
    row = vector_of(load_embedder(f"onnx:{folder}"), "red")
    np.testing.assert_allclose(row, unit(TABLE[2]), atol=1e-6)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("sentence_bert_config.json", {"max_seq_length": 4}),
        ("tokenizer_config.json", {"model_max_length": 4}),
        ("model.json", {"name": "colours", "max_tokens": 4, "pooling": "mean"}),
    ],
)
def test_the_token_limit_is_read_where_it_is_written(tmp_path, file, content):
    folder = make_model(tmp_path)
    write_json(folder / file, content)
    embedder, texts = OnnxEmbedder.load(folder), ["red blue", "red blue green"]
    result = embed(embedder, texts)
    assert cut_texts(embedder, texts) == 1
    np.testing.assert_array_equal(*result)


def test_a_limit_that_means_none_is_not_taken(tmp_path):
    """Some tokenizers write 1e30; the default of 256 tokens holds then."""
    folder = make_model(tmp_path)
    write_json(folder / "tokenizer_config.json", {"model_max_length": 10**30})
    assert cut_texts(OnnxEmbedder.load(folder), ["red " * 254, "red " * 255]) == 1


def test_a_fingerprint_changes_with_all_that_changes_vectors(tmp_path):
    first = make_model(tmp_path / "first")
    moved = make_model(tmp_path / "moved")
    weights = make_model(tmp_path / "weights", table=TABLE + 1)
    pooling = make_model(tmp_path / "pooling")
    write_json(pooling / "1_Pooling" / "config.json", {"pooling_mode": "cls"})
    limit = make_model(tmp_path / "limit")
    write_json(limit / "sentence_bert_config.json", {"max_seq_length": 128})
    prints = [OnnxEmbedder.load(f).fingerprint for f in (first, moved, weights, pooling, limit)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 4


@pytest.mark.parametrize("weights", ["model.onnx_data", "a/b", "é" * 60, "n" * 200])
def test_a_fingerprint_covers_weights_outside_the_model_file(tmp_path, weights):
    folder = make_model(tmp_path, weights=weights)
    before = OnnxEmbedder.load(folder)
    (folder / "other.onnx_data").write_bytes(b"of another model")
    assert OnnxEmbedder.load(folder).fingerprint == before.fingerprint
    (folder / weights).write_bytes((TABLE + 1).tobytes())
    after = OnnxEmbedder.load(folder)
    np.testing.assert_allclose(vector_of(after, "red"), unit(TABLE[[2, 4, 3]].mean(0) + 1), 1e-5)
    assert after.fingerprint != before.fingerprint


def test_every_file_of_a_model_with_many_is_found(tmp_path):
    """One file for each tensor, as old exporters write; a text that says "location" is not one."""
    onnx = pytest.importorskip("onnx")
    model = onnx.ModelProto(doc_string="location")
    model.metadata_props.add(key="location", value="nowhere")
    for name in ("encoder.weight", "onnx__MatMul_12", "bias"):
        tensor = model.graph.initializer.add(name=name, raw_data=b"1234")
        onnx.external_data_helper.set_external_data(tensor, name)
        (tmp_path / name).write_bytes(b"1234")
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    found = [path.name for path in weight_files(tmp_path / "model.onnx")]
    assert found == ["bias", "encoder.weight", "onnx__MatMul_12"]


def test_weights_in_the_cache_of_the_hub_are_read(tmp_path):
    folder, blobs = make_model(tmp_path / "snapshot", weights="model.onnx_data"), tmp_path / "blobs"
    blobs.mkdir()
    for name in ("model.onnx", "model.onnx_data"):
        blob = (folder / name).rename(blobs / f"digest of {name}")
        (folder / name).symlink_to(blob)
    np.testing.assert_allclose(
        vector_of(OnnxEmbedder.load(folder), "red"), unit(TABLE[[2, 4, 3]].mean(0)), atol=1e-6
    )


@pytest.mark.parametrize("name", ["model.onnx", "weights", "tokenizer.json"])
@pytest.mark.parametrize("spec", ["onnx:{}", "{}"])
def test_the_identity_of_a_local_model_follows_its_files(tmp_path, spec, name):
    folder = make_model(tmp_path / "model", weights="weights")
    spec = spec.format(folder)
    before = model_identity(spec)
    assert model_identity(spec) == before
    os.utime(folder / name, (1, 1))
    assert model_identity(spec) != before


@pytest.mark.parametrize("spec", ["hashing", "st:some/model", "no/such/folder", "\0"])
def test_the_identity_of_what_is_no_local_model_is_its_name(spec):
    assert model_identity(spec) == f"{VERSION} {spec}"


def test_the_identity_of_the_packaged_model_is_its_digest():
    for spec in ("onnx", "multilingual", "skillsearch-e5"):
        assert model_identity(spec) == f"{VERSION} onnx {embedder_module.PACKAGED_SHA256}"


@pytest.mark.parametrize("spec", ["onnx", "hashing"])
def test_the_identity_changes_with_the_steps_that_change_vectors(monkeypatch, spec):
    before = model_identity(spec)
    monkeypatch.setattr(embedder_module, "VERSION", VERSION + 1)
    assert model_identity(spec) != before


def refusals():
    """Damage to a good folder, and a part of the message that it has to give."""
    dense = [{"type": "a.models.Transformer"}, {"type": "a.models.Dense"}]
    ours = {"name": "colours", "max_tokens": "many", "pooling": "mean"}
    return {
        "no model": (lambda f: (f / "model.onnx").unlink(), "needs tokenizer.json and one of"),
        "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "needs tokenizer.json"),
        "no onnx": (lambda f: (f / "model.onnx").write_bytes(b"GIF89a"), "ONNX Runtime cannot"),
        "bad tokenizer": (
            lambda f: (f / "tokenizer.json").write_bytes(b"{}"),
            "tokenizers cannot use",
        ),
        "bad json": (lambda f: (f / "model.json").write_bytes(b"{"), "cannot be read as JSON"),
        "deep json": (
            lambda f: (f / "model.json").write_bytes(b"[" * 100_000),
            "cannot be read as JSON",
        ),
        "list": (lambda f: (f / "model.json").write_bytes(b"[]"), "holds list, not dict"),
        "bad value": (lambda f: write_json(f / "model.json", ours), "lacks a usable value"),
        "max pooling": (
            lambda f: write_json(
                f / "1_Pooling" / "config.json", {"pooling_mode_max_tokens": True}
            ),
            "needs 'pooling_mode_max_tokens' after it; load it as st:",
        ),
        "dense": (lambda f: write_json(f / "modules.json", dense), r"'mean\+Dense' after it"),
        "output": (lambda f: make_model(f, output="logits"), "not a text encoder we know"),
        "input": (lambda f: make_model(f, inputs=("input_ids", "pixels")), "not a text encoder"),
        "empty onnx": (lambda f: (f / "model.onnx").write_bytes(b""), "cannot be read.*reinstall"),
        "outside": (lambda f: make_model(f, weights="../weights"), "outside its folder: .*weights"),
        "absolute": (
            lambda f: make_model(f, weights=str(f.parent / "weights")),
            "outside its folder: .*weights",
        ),
        "nul": (lambda f: make_model_that_names(f, b"a\0b"), "weights in .*no such file"),
        "long": (lambda f: make_model_that_names(f, b"n" * 5000), "cannot be read.*too long"),
        "bytes": (lambda f: make_model_that_names(f, b"\xff\xfe"), "cannot be read.*utf-8"),
        "device": (lambda f: make_model_that_names(f, b"/dev/zero"), "weights in .*no such file"),
    }


@pytest.mark.parametrize("kind", refusals())
def test_a_folder_that_cannot_be_used_says_why(tmp_path, kind):
    damage, message = refusals()[kind]
    folder = make_model(tmp_path)
    damage(folder)
    with pytest.raises(EmbedderError, match=message):
        OnnxEmbedder.load(folder)


def test_a_model_that_gives_no_numbers_is_refused(tmp_path):
    table = TABLE.copy()
    table[VOCABULARY["red"]] = np.nan
    embedder = OnnxEmbedder.load(make_model(tmp_path, table=table))
    assert vector_of(embedder, "blue").any()
    with pytest.raises(EmbedderError, match="NaN or infinity"):
        embed(embedder, ["blue", "red"])


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    """A token id that the model has no row for is an error of the embedder, not a crash."""
    embedder = OnnxEmbedder.load(make_model(tmp_path, table=TABLE[:6]))
    with pytest.raises(EmbedderError, match="ONNX Runtime cannot use"):
        embed(embedder, ["blue"])


def test_a_vector_of_another_size_is_refused():
    with pytest.raises(EmbedderError, match=r"shape \(3,\).*512 finite numbers"):
        unit_row(np.ones(3), HashingEmbedder())


def test_hashed_texts_are_near_by_shared_words():
    embedder = HashingEmbedder()
    vectors = embed(embedder, ["extract tables", "Tables: EXTRACT!", "table extraction", "kill"])
    first, same, near, far = vectors
    assert first @ same == pytest.approx(1.0, abs=1e-6)
    assert 0.9 > first @ near > 0.4 > 0.2 > abs(first @ far)


def test_hashing_understands_every_script_and_never_cuts():
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


@pytest.mark.parametrize("spec", ["", "onnx:", "st:", "word2vec", "no/such/folder", "\0"])
def test_an_unknown_embedder_gets_the_list_of_known_ones(spec):
    known = "onnx, hashing, onnx:FOLDER, st:NAME_OR_FOLDER"
    with pytest.raises(EmbedderError, match=known) as info:
        load_embedder(spec)
    assert repr(spec) in str(info.value)


@pytest.mark.parametrize("spec", ["st:some/model", "sentence-transformers/all-mpnet-base-v2"])
@pytest.mark.parametrize("device", [None, "cuda"])
def test_a_missing_library_is_named_with_its_extra(monkeypatch, spec, device):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingDependencyError, match=r"install .*\[st\]") as info:
        load_embedder(spec, device=device)
    assert (info.value.module, info.value.extra) == ("sentence-transformers", "st")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["config.json", "pytorch_model.bin"], r"pytorch_model\.bin is a pickle"),
        (["config.json", "model.pkl"], r"model\.pkl is a pickle"),
        (["model.safetensors", "2_Dense/pytorch_model.bin"], r"pytorch_model\.bin is a pickle"),
        (["config.json"], r"has no weights in \.safetensors form"),
    ],
)
def test_weights_that_could_run_code_are_refused_before_anything_is_loaded(
    tmp_path, monkeypatch, files, message
):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    for name in files:
        write_json(tmp_path / name, {})
    with pytest.raises(EmbedderError, match=message):
        load_embedder(f"st:{tmp_path}")


def test_importing_the_module_loads_no_heavy_library(run_python):
    code = (
        "import sys, skillsearch.embedders.embedder\n"
        "heavy = {'onnxruntime', 'tokenizers', 'sentence_transformers', 'torch', 'click'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert run_python(code) == "[]\n"
