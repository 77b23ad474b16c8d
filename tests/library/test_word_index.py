"""Tests of searching by words alone: as an index whose embedder can read nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.embedders.embedding import HashingEmbedder
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.source import scan
from skillsearch.library.word_index import WordIndex

WORDS = (
    "steep brew green tea coffee lemons espresso kettle 회의 表格 moon the sour rotate-keys".split()
)


class BlindEmbedder(HashingEmbedder):
    """An embedder that can read nothing: all its vectors are zero."""

    def embed_stream(self, texts):
        for result in super().embed_stream(texts):
            yield result._replace(vector=np.zeros_like(result.vector))


def words_of(*roots):
    catalogue = scan(roots)
    return WordIndex(catalogue.documents, catalogue.about, catalogue.roots)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("skills")
    for path, name, more in (
        ("a/steep-tea", "steep-tea", "description: Steep green tea."),
        ("b/steep-tea", "steep-tea", "description: Steep green tea."),
        ("black", "black-tea", "description: Steep black tea, hot."),
        ("brew", "brew-coffee", "description: Brew coffee.\ntags: [espresso]\ntriggers: [kettle]"),
        ("lemons", "lemons", "description: Sour lemons.\ndisable-model-invocation: true"),
        ("회의", "회의록", "description: 회의 녹음을 글로 옮깁니다."),
    ):
        (folder / path).mkdir(parents=True)
        text = f"---\nname: {name}\n{more}\n---\n# Body\n\nThe moon.\n"
        (folder / path / "SKILL.md").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def words(root):
    return words_of(root)


@pytest.fixture(scope="module")
def oracle(root, tmp_path_factory):
    request = IndexRequest((root,), "hashing", with_body=False)
    blind = IndexOptions(embedders={"hashing": BlindEmbedder()})
    return SkillIndex.build(request, tmp_path_factory.mktemp("index"), blind)[0]


@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join),
    st.integers(1, 6),
    st.sampled_from([None, 0.0, 0.2, 1.0]),
    st.booleans(),
)
def test_hits_are_those_of_an_index_that_no_embedder_helps(
    words, oracle, query, n, threshold, include_hidden
):
    options = {"threshold": threshold, "include_hidden": include_hidden}
    result = words.answer([query], SearchOptions(n, **options))[0]
    expected = oracle.search(query, n, reader="off", **options)
    assert (result.hits, result.perhaps) == (expected.hits, expected.perhaps)
    assert (result.threshold, result.abstained) == (expected.threshold, expected.abstained)
    assert (result.words_only, expected.words_only) == (True, False)


def test_a_scan_that_takes_a_skill_over_keeps_its_tags(root):
    first = scan([root])
    assert list(first.about.values()) == ["Brew coffee.\nkettle\nespresso"]
    assert scan([root], first).about == first.about


def test_without_skills_nothing_is_found(tmp_path):
    (result,) = words_of(tmp_path).answer(["tea"], SearchOptions())
    assert (result.hits, result.abstained, result.words_only) == ((), True, True)


def test_skills_of_one_name_that_say_other_things_are_two_hits(tmp_path, make_skill):
    for folder, about in (("a", "Steep green tea."), ("b", "Steep green tea."), ("c", "Hot tea.")):
        make_skill(tmp_path / folder, "steep-tea", about)
    hits = words_of(tmp_path).answer(["steep tea"], SearchOptions(5, 0.0))[0]
    assert [(hit.description, len(hit.duplicates)) for hit in hits] == [
        ("Steep green tea.", 1),
        ("Hot tea.", 0),
    ]


def test_a_skill_that_another_shadows_counts_for_nothing(tmp_path, make_skill):
    for name, about in (("steep-tea", "Steep green tea."), ("brew", "Brew coffee.")):
        make_skill(tmp_path / "first", name, about)
    alone = words_of(tmp_path / "first").answer(["steep green tea"], SearchOptions(5, 0.0))[0]
    for number, about in enumerate(("Steep green tea.", "Tea, green tea, steep it.")):
        make_skill(tmp_path / f"later-{number}", "steep-tea", about)
    later = [tmp_path / f"later-{number}" for number in range(2)]
    shadowing = words_of(tmp_path / "first", *later).answer(
        ["steep green tea"], SearchOptions(5, 0.0)
    )[0]
    assert shadowing.hits == alone.hits
    assert shadowing.hits[0].root == str(tmp_path / "first")
