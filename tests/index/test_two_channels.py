"""An index with two dense channels: when it is made, what it holds, and what it finds."""

import logging
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from skillsearch.embedders.embedding import HashingEmbedder, embed
from skillsearch.errors import EmbedderError
from skillsearch.index.documents import field_texts
from skillsearch.index.indexing.builder import Builder
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.request import IndexRequest
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.candidates import find_candidates
from skillsearch.index.search.evidence import find_evidence, stand_outs
from skillsearch.index.search.features import FEATURES
from skillsearch.index.search.query import QueryForm, QueryView, weigh_terms
from skillsearch.index.search.ranker import rank
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.index.storage.numbering import NOTHING
from skillsearch.text.tokenizer import terms
from skillsearch.types import SYSTEMS

pytestmark = pytest.mark.usefixtures("polyglot")
LATIN = frozenset({"Latin"})
FILL_FORMS = "填写表单"
ENGLISH = ("please fill in a PDF form for me", "cut the video clips", "rotate all of the API keys")


@pytest.fixture
def run(tmp_path):
    """Bring the index of a root up to date and return the report."""

    def run(root, *, index_dir="index", languages="auto", with_body=True, **options):
        request = IndexRequest((root,), "hashing", with_body, languages=languages)
        return Builder(IndexFolder(tmp_path / index_dir), request, IndexOptions(**options)).run()

    return run


@pytest.fixture
def opened(tmp_path):
    return lambda index_dir="index": SkillIndex.open(tmp_path / index_dir)


@pytest.fixture
def mixed(root, add_chinese, build):
    add_chinese(root)
    return build(root)


def models(index):
    """Return what the embedders of the channels of an index are loaded by."""
    return [channel.model for channel in index.opened.settings.channels]


def scored(result):
    return [(hit.doc_id, hit.score) for hit in result]


def parts_of(index, files_of):
    found = files_of(index.opened.folder)
    return {name: data for name, data in found.items() if not name.endswith(".json")}


def test_english_skills_have_one_channel(root, run, opened, polyglot, files_of):
    assert run(root).embedded == 5
    assert models(opened()) == ["hashing"]
    assert opened().opened.settings.could_add
    assert polyglot.asked == []
    run(root, index_dir="english", languages="english")
    assert parts_of(opened(), files_of) == parts_of(opened("english"), files_of)


def test_a_chinese_skill_brings_the_second_channel(root, run, opened, add_skill, polyglot):
    run(root)
    add_skill(root / "cn", "合同审查", "审查合同条款并标出风险。", "先通读全文。")
    report = run(root)
    index = opened()
    assert models(index) == ["hashing", "multilingual"]
    assert (report.indexed, report.embedded) == (6, 8)
    assert len(polyglot.asked) == 7
    assert [one.size for one in index.opened.corpus.dense[1].segments] == [6]
    assert report.generation == run(root, index_dir="fresh").generation


def test_each_channel_holds_what_its_embedder_makes_of_each_skill(mixed, polyglot):
    """Metadata, by the second also what stands for the body, by number of the document."""
    embedders = (HashingEmbedder(512, LATIN), polyglot)
    texts = [
        field_texts(mixed.get(document.doc_id), [LATIN, None]).embedded
        for document in mixed.documents()
    ]
    for number, (fields, embedder) in enumerate(
        zip(mixed.opened.corpus.dense, embedders, strict=True)
    ):
        segment = fields.segments[0]
        assert len(segment.fields) == 1 + number
        for place, dense in enumerate(segment.fields):
            expected = embed(embedder, [each[number][place] for each in texts])
            np.testing.assert_allclose(dense, expected, atol=1e-3)


def test_skills_are_read_once_though_their_languages_decide_on_the_channels(
    root, run, opened, add_chinese, disk
):
    add_chinese(root)
    disk.forget()
    embedded = []
    run(root, progress=lambda stage, done, total: embedded.append(total) if stage == "embed" else 0)
    assert models(opened()) == ["hashing", "multilingual"]
    assert len(disk.opened) == len(set(disk.opened)) == 7
    assert set(embedded) == {15}


def test_a_channel_that_is_there_is_kept(root, run, opened, add_chinese, files_of):
    """Though the last skill that needed it is gone; without it the first run would have none."""
    add_chinese(root)
    run(root)
    for name in ("合同审查", "会议纪要"):
        shutil.rmtree(root / name)
    report = run(root)
    assert (report.indexed, report.embedded, report.removed) == (5, 0, 2)
    assert models(opened()) == ["hashing", "multilingual"]
    run(root, index_dir="all", languages="all")
    assert parts_of(opened(), files_of) == parts_of(opened("all"), files_of)
    assert run(root).generation == report.generation


def test_english_drops_the_second_channel_and_all_brings_it_back(root, run, opened, add_chinese):
    add_chinese(root)
    first = run(root, languages="all")
    dropped = run(root, languages="english")
    assert models(opened()) == ["hashing"]
    assert dropped.embedded == 0
    assert dropped.generation == run(root, index_dir="one", languages="english").generation
    again = run(root, languages="all")
    assert models(opened()) == ["hashing", "multilingual"]
    assert (again.generation, again.embedded) == (first.generation, 0)


@pytest.mark.parametrize(("before", "after"), [("auto", "english"), ("english", "auto")])
def test_other_languages_are_recorded_though_the_channels_are_the_same(
    root, run, opened, add_chinese, before, after
):
    run(root, languages=before)
    run(root, languages=after)
    assert opened().opened.settings.languages == after
    index = opened()
    add_chinese(root)
    index.refresh()
    assert len(models(index)) == (2 if after == "auto" else 1)


def test_who_speaks_another_language_gets_the_second_channel(root, run, opened, monkeypatch):
    run(root)
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert run(root).embedded == 5
    assert models(opened()) == ["hashing", "multilingual"]


@pytest.mark.parametrize("part", ["dense-1-metadata.faiss", "dense-1-body.faiss"])
def test_a_damaged_part_of_the_second_channel_is_made_again(mixed, part, caplog):
    path = mixed.opened.folder / part
    path.write_bytes(path.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING):
        index = SkillIndex.open(mixed.folder)
    assert "building it anew" in caplog.text
    assert index.generation == mixed.generation
    assert scored(index.search(FILL_FORMS)) == scored(mixed.search(FILL_FORMS))


def test_a_changed_second_embedder_is_done_without_until_a_refresh(mixed, polyglot, caplog):
    """A search never rebuilds: the first channel answers alone, and the log says why."""
    polyglot.fingerprint = "another"
    index = SkillIndex.open(mixed.folder)
    with caplog.at_level(logging.WARNING):
        index.search(FILL_FORMS, threshold=0.0)
    assert "has changed since the index was built" in caplog.text
    assert index.generation == mixed.generation
    index.refresh(verify=True)
    assert index.search(FILL_FORMS, threshold=0.0)[0].name == "pdf-forms"
    assert index.opened.settings.channels[1].fingerprint == "another"


@pytest.mark.parametrize(
    ("query", "name", "systems"),
    [
        (FILL_FORMS, "pdf-forms", ("hybrid", "dense", "rrf")),
        ("剪辑视频", "video-trim", ("hybrid", "dense", "rrf")),
        ("审查合同条款", "合同审查", SYSTEMS),
    ],
)
def test_a_chinese_query_finds_the_skill_in_either_language(mixed, query, name, systems):
    """BM25 alone finds none that shares no word with it."""
    for system in systems:
        assert mixed.search(query, threshold=0.0, system=system)[0].name == name


def test_english_results_are_the_same_with_one_channel_and_with_two(root, build):
    one, two = build(root, languages="english"), build(root, index_dir="two", languages="all")
    for system in SYSTEMS:
        found, expected = (
            [scored(result) for result in index.search_many(ENGLISH, threshold=0.0, system=system)]
            for index in (two, one)
        )
        assert found == expected
        assert all(found)


def form(text, polyglot, *trusts):
    vectors = (embed(embedder, [text])[0] for embedder in (HashingEmbedder(), polyglot))
    return QueryForm(text, "", Counter(terms(text)), tuple(map(QueryView, vectors, trusts)))


def weighed(corpus, query):
    return replace(query, weights=weigh_terms(corpus, query.counts))


def find(corpus, query, n):
    (found,) = find_candidates(corpus, [weighed(corpus, query)], n)
    return found


def test_the_features_of_both_channels_by_brute_force(mixed, polyglot):
    """BM25 and cosines, each times the share of its channel; the name alone has no share."""
    corpus = mixed.opened.corpus
    query = form("填写表单 flatten 合同", polyglot, 0.5, 1.0)
    found = find(corpus, query, 5)
    assert found.documents.tolist() == list(range(7))
    for document, row in zip(corpus.documents, found.features, strict=True):
        number = corpus.documents.number_of(document.doc_id)
        second = 0.5 if document.language == "en" else 1.0
        values = dict(zip(FEATURES, row, strict=True))
        for field, lexical in (("metadata", corpus.lexical[0]), ("full", corpus.lexical[-1])):
            weights = lexical.weigh(query.counts)
            matches = lexical.best(weights, 1, NOTHING)
            share = float(matches.scores_of(np.array([number]))[0]) / weights.max_score
            assert values[f"bm25_{field}"] == pytest.approx((1 - second) * share)
            assert values[f"bm25_{field}_multilingual"] == pytest.approx(second * share)
        for name, channel, field, share in (
            ("cosine_metadata", 0, 0, 1 - second),
            ("cosine_metadata_multilingual", 1, 0, second),
            ("cosine_body_multilingual", 1, 1, second),
        ):
            rows = corpus.dense[channel].segments[0].fields[field]
            cosine = max(float(rows[number] @ query.views[channel].vector), 0.0)
            assert values[name] == pytest.approx(share * cosine, abs=1e-6)
        assert values["bm25_metadata_alone"] == values["name"] == 0


def test_a_channel_without_a_say_gives_no_candidate(tmp_path, build, add_skill, polyglot):
    for number in range(80):
        about = "fill forms" if number == 70 else "cut clips"
        add_skill(tmp_path / "s" / f"s{number}", f"tool-{number:02}", f"{about} {number}.")
    corpus = build(tmp_path / "s", languages="all").opened.corpus
    (wanted,) = corpus.documents.named("tool-70")
    asked = form(FILL_FORMS, polyglot, 0.0, 1.0)
    none = [QueryView(np.zeros_like(view.vector), 0.0) for view in asked.views]
    silent = replace(asked, views=tuple(none))
    assert find(corpus, silent, 5).documents.tolist() == []
    found = find(corpus, replace(asked, views=(none[0], asked.views[1])), 5)
    assert len(found.documents) >= 50
    column = found.feature("cosine_metadata_multilingual")
    assert found.documents[column.argmax()] == wanted


def test_the_evidence_of_two_channels_by_hand(mixed, polyglot):
    """Half of the trust in a half-known skill is a quarter; what the second leaves, distrust."""
    corpus = mixed.opened.corpus
    (number,) = corpus.documents.named("pdf-forms")
    query = form("flatten forms", polyglot, 0.5, 0.8)
    full = form("flatten forms", polyglot, 1.0, 0.0)
    pieces = []
    for asked, fluency in ((full, 1.0), (query, 0.5)):
        corpus.documents.fluency = np.full(7, fluency, np.float32)
        found = find(corpus, asked, 5)
        place = found.documents.tolist().index(number)
        ranked = rank(corpus, found, "hybrid", default_calibration())
        (evidence,) = find_evidence(corpus, weighed(corpus, asked), ranked, [place])
        pieces.append((evidence, found.features[place]))
    (first, _), (evidence, row) = pieces
    assert evidence["multilingual"] == pytest.approx(0.8 * 0.75)
    assert evidence["distrust"] == pytest.approx(0.2 * 0.75)
    assert (first["multilingual"], first["distrust"]) == (0, 0)
    for name in ("rarest_term", "bm25_full", "cosine_metadata"):
        assert evidence[name] == pytest.approx(0.25 * first[name])
        assert first[name] > 0
    named = dict(zip(FEATURES, row, strict=True))
    assert evidence["bm25_full_multilingual"] == named["bm25_full_multilingual"]
    assert named["bm25_full_multilingual"] == pytest.approx(0.6 * first["bm25_full"])
    cosine = named["cosine_metadata_multilingual"]
    assert evidence["cosine_metadata_multilingual"] == cosine > 0
    cosines = found.feature("cosine_metadata_multilingual")
    (expected,) = stand_outs(np.array([cosine]), cosines).tolist()
    assert evidence["stand_out_multilingual"] == pytest.approx(expected)
    assert first["stand_out_multilingual"] == 0 < expected


@pytest.mark.parametrize(
    ("one", "other", "are_copies"),
    [
        ("把合同里的日期整理成表格。", "把合同里的日期整理成表格。", True),
        ("把合同里的日期整理成表格。", "给花园里的植物按时浇水。", False),
        ("Fill in the form and send it.", "Fill in the form and send it.", True),
        ("Fill in the form and send it.", "Water the plants in my garden.", False),
        ("Fill in the form and send it.", "给花园里的植物按时浇水。", False),
    ],
)
def test_copies_say_the_same_to_a_channel_that_knows_them(
    tmp_path, add_skill, build, one, other, are_copies
):
    """Two skills of one name whose Latin letters are the same are no copies for that."""
    for number, about in enumerate((one, other)):
        add_skill(tmp_path / "s" / f"s{number}", "helper", about, f"Body {number}.")
    store = build(tmp_path / "s", languages="all").opened.corpus.documents
    assert store.families.members.tolist() == ([1] if are_copies else [])


def test_the_baseline_is_the_same_with_any_channels(mixed, root, build):
    """BM25 asks no embedder, so what one is trusted with changes nothing."""
    one = build(root, index_dir="one", languages="english")
    for query in (*ENGLISH, "填写 PDF forms", "cut clips und Formulare ausfüllen"):
        found, expected = (
            scored(index.search(query, n=7, threshold=0, system="bm25")) for index in (mixed, one)
        )
        assert found == expected != []


def test_a_refresh_that_keeps_channels_adds_none(root, build, polyglot, add_chinese):
    index = build(root)
    add_chinese(root)
    polyglot.asked.clear()
    index.refresh(keep_channels=True)
    assert len(index) == 7
    assert len(index.opened.settings.channels) == 1
    assert polyglot.asked == []
    index.refresh()
    assert len(index.opened.settings.channels) == 2


def test_a_damaged_second_embedder_is_done_without(mixed, polyglot, build, root, caplog):
    """By an index that is there, and told in the log; a new one says what is damaged."""
    polyglot.asked.clear()
    polyglot.is_damaged = True
    index = SkillIndex.open(mixed.folder)
    with caplog.at_level(logging.WARNING):
        found = [scored(index.search(query, threshold=0.0)) for query in (*ENGLISH, FILL_FORMS)]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "words.bin is damaged" in caplog.text
    one = build(root, index_dir="one", languages="english")
    assert found == [scored(one.search(query, threshold=0.0)) for query in (*ENGLISH, FILL_FORMS)]
    assert polyglot.asked == []
    with pytest.raises(EmbedderError, match=r"words\.bin is damaged"):
        build(root, index_dir="two")
