"""A part of a word finds what it begins, as half a word; whole words find what they always did."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.index.lexical.builder import LexicalWriter
from skillsearch.index.lexical.field import MOST_BEGUN, LexicalField
from skillsearch.index.lexical.postings import LEAST_PREFIX, LexicalSegment
from skillsearch.index.search import options as search_options
from skillsearch.index.search import query as of_query
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.types.answers import FACES

WORDS = st.text("abc\u00e9\u4e2d\U0001f600", min_size=1, max_size=7)


@pytest.fixture(scope="module")
def write(add_skill):
    def write(root):
        about = "Add unsigned integer (uint) type support to PyTorch operators."
        add_skill(root / "uint", "add-uint-support", about, "Update the macros.")
        add_skill(root / "kernels", "tune-kernels", "Tuning of GPU kernels.", "Measure first.")
        add_skill(root / "coffee", "brew-coffee", "Brew filter coffee with a scale.", "Grind.")
        for number in range(20):
            topic = ("gardens", "boats", "taxes", "songs")[number % 4]
            about = f"Answers question {number} about {topic}."
            add_skill(root / f"topic-{number}", f"topic-{number}", about, "# Body")

    return write


@pytest.fixture(scope="module")
def index(build_shared, write):
    return build_shared(write)


@pytest.fixture(scope="module")
def default_index(build_shared, write):
    return build_shared(write, model="onnx")


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("unsig", "add-uint-support"),
        ("uin", "add-uint-support"),
        ("UIN", "add-uint-support"),
        ("pytor", "add-uint-support"),
        ("tun", "tune-kernels"),
        ("coffe", "brew-coffee"),
        ("add unsig sup", "add-uint-support"),
    ],
)
def test_a_part_of_a_word_finds_its_skill(index, part, name):
    (hit,) = index.search(part, 1, 0.0, system="bm25").hits
    assert hit.name == name
    whole = {"unsig": "unsigned", "uin": "uint", "pytor": "pytorch", "tun": "tune"}
    if part in whole:
        assert 0 < hit.score < index.search(whole[part], 1, 0.0, system="bm25")[0].score


PARTS = {"unsig": "add-uint-support", "uin": "add-uint-support", "tun": "tune-kernels"}


@pytest.mark.parametrize("face", ["list", "terminal", "page"])
@pytest.mark.parametrize("part", PARTS)
def test_a_part_alone_may_fit_what_has_a_word_that_begins_so(
    default_index, monkeypatch, part, face
):
    """However low its score, and nothing else; a prompt is shown no more than by its bound."""
    strict = replace(default_calibration(), threshold=0.98)
    monkeypatch.setattr(search_options, "BOUNDS", dict.fromkeys(FACES, 0.97))
    index = default_index.with_calibration(strict)
    assert [hit.name for hit in index.search(part, face=face).shown] == [PARTS[part]]
    assert not index.search(f"{part} zzz", face=face).shown
    assert not index.search(part, face="prompt").shown
    assert not index.search(part, threshold=0.97, face=face).shown


@pytest.mark.parametrize("query", ["un", "zzz", "nsigned", "\u7121"])
def test_what_begins_no_word_finds_nothing(index, query):
    assert index.search(query, 1, system="bm25", threshold=0.01).hits == ()


def test_words_that_are_all_known_are_weighed_as_ever(index):
    corpus = index.opened.corpus
    for text in ("uint support", "tune kernels tune"):
        counts = index.analyse(text).counts
        weights = of_query.weigh_terms(corpus, counts)
        for got, field in zip(weights, corpus.lexical, strict=True):
            assert got.terms == tuple(counts)
            assert np.array_equal(got.repeats, field.weigh(counts).repeats)
    text = Counter(f"unsig{number}" for number in range(of_query.PARTIAL_TERMS)) + Counter(
        ["unsig"]
    )
    assert of_query.weigh_terms(corpus, text)[0].terms == tuple(text)


def test_half_of_a_part_stays_unknown(index):
    """So no score of it is as high as that of the word; its words share the other half."""
    (weights, _) = of_query.weigh_terms(index.opened.corpus, Counter({"uin": 2}))
    repeats = dict(zip(weights.terms, weights.repeats.tolist(), strict=True))
    assert repeats == {"uin": 1.0, "uint": 1.0}
    assert weights.unknown_score > 0


def test_an_update_knows_the_words_of_what_came_and_not_of_what_went(
    build, write, tmp_path, add_skill
):
    write(tmp_path / "s")
    index = build(tmp_path / "s")
    (tmp_path / "s" / "kernels" / "SKILL.md").unlink()
    add_skill(tmp_path / "s" / "paint", "paint-watercolours", "Paint landscapes.")
    index.refresh()
    assert index.search("watercol", 1, 0.0, system="bm25")[0].name == "paint-watercolours"
    assert index.search("kerne", 1, 0.01, system="bm25").hits == ()


@given(words=st.lists(WORDS, max_size=40), prefix=WORDS)
def test_words_are_those_that_begin_so(tmp_path_factory, words, prefix):
    folder = tmp_path_factory.mktemp("words")
    writer = LexicalWriter(folder, "x", run_terms=7, with_words=True)
    for number, word in enumerate(words):
        writer.add(number, [word])
    writer.finish(len(words))
    segment = LexicalSegment.load(folder, "x")
    there = sorted({word for word in words if len(word) > LEAST_PREFIX})
    assert [segment.word(number) for number in range(len(segment.word_ends))] == there
    begun = [word for word in there if word.startswith(prefix)]
    assert segment.words_with(prefix, MOST_BEGUN) == begun[:MOST_BEGUN]
    again = LexicalWriter(folder, "y", with_words=True)
    staying = np.arange(len(words)) % 2 == 0
    again.take_over(segment, np.where(staying, np.cumsum(staying) - 1, -1).astype(np.int32))
    again.finish(int(staying.sum()))
    other = LexicalField.of(LexicalSegment.load(folder, "y"))
    remaining = {word for word, stays in zip(words, staying, strict=True) if stays}
    assert other.begun_by(prefix) == [word for word in begun if word in remaining][:MOST_BEGUN]
