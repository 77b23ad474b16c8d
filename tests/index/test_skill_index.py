"""The façade: build, open, search, find, refresh."""

import logging
import math
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.embedders.embedder import LOADERS
from skillsearch.embedders.embedding import HashingEmbedder
from skillsearch.errors import (
    EmbedderError,
    IndexNotFoundError,
    ParseError,
    QueryError,
    RootError,
    SkillNotFoundError,
)
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.evidence import EVIDENCE
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.settings.config import MAX_QUERY_CHARS
from skillsearch.types.answers import SYSTEMS, SearchResult

LONG = "A body that is long enough to tell skills apart. " * 8


@pytest.fixture
def index(shared_index):
    return shared_index


@pytest.fixture
def own_index(root, build):
    return build(root)


def answers(index, *queries):
    """Return all that a search says of some queries, but for the time that it took."""
    results = [index.search(query, threshold=0.0).to_dict() for query in queries]
    return [dict(result, seconds=None) for result in results]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("fill in a PDF form", "pdf-forms"),
        ("cut video clips", "video-trim"),
        ("rotate the leaked API keys", "key-rotation"),
        ("slow SQL queries", "sql-tuning"),
        ("remind me of my tea", "tea-timer"),
        ("tea-timer", "tea-timer"),
    ],
)
def test_the_skill_that_fits_is_the_first_hit(index, query, name):
    result = index.search(query)
    first = result[0]
    assert (first.rank, first.name, first.doc_id) == (1, name, f"skills:{name}")
    root = index.opened.settings.roots[0].path
    assert (first.path, first.root) == (str(root / name / "SKILL.md"), str(root))
    threshold = default_calibration().threshold
    assert threshold <= first.score < 1
    assert (result.query, result.threshold, result.abstained) == (query, threshold, False)
    assert result.seconds > 0
    assert first.description == index.get(name).description


def test_a_skill_is_found_by_its_body(index):
    result = index.search("revoke the credential", threshold=0.0, explain=True)
    assert result[0].name == "key-rotation"
    assert result[0].explain.matched_terms["metadata"] == ()


@pytest.mark.parametrize(
    "query", ["quantum chromodynamics lattice", "!!!", "🚀", "\u200b", "\ud800"]
)
def test_no_hit_is_an_answer(index, query):
    result = index.search(query)
    assert (len(result), result.abstained, bool(result)) == (0, True, False)
    assert result.to_dict()["hits"] == []


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_finds_the_skill_and_sorts_by_score(index, system):
    result = index.search("fill in a PDF form", system=system)
    assert result[0].name == "pdf-forms"
    scores = [hit.score for hit in result]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) > 0
    assert [hit.rank for hit in result] == list(range(1, len(result) + 1))


GARDEN = {
    "water-plants": "Water the plants on the balcony.",
    "water-garden": "Water the garden and its plants.",
    "plant-trees": "Plant trees in the garden.",
    "cut-hedges": "Cut the hedges of a garden.",
    "pdf-forms": "Fill in PDF forms.",
    "tea-timer": "Time green tea.",
}
WATER = "water the plants in my garden"


@pytest.fixture(scope="module")
def garden(add_skill, build_shared):
    """Return an index of `GARDEN` in which some skills are hidden; tests only read it."""

    @cache
    def garden(*hidden):
        def write(root):
            for name, description in GARDEN.items():
                flags = {"disable_model_invocation": "true"} if name in hidden else {}
                add_skill(root / name, name, description, f"About {name}.", **flags)

        return build_shared(write)

    return garden


def scored(result):
    return [(hit.doc_id, hit.score) for hit in result]


EXCLUDED = ["water-plants"], ["water-plants", "water-garden"], ["pdf-forms"], list(GARDEN)[:5]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("left_out", EXCLUDED)
def test_to_exclude_a_skill_is_to_search_as_if_it_were_hidden(garden, system, left_out):
    ids = [f"skills:{name}" for name in left_out]
    options = {"n": 100, "threshold": 0.0, "system": system}
    result = garden().search(WATER, exclude=ids, **options)
    hiding = garden(*left_out)
    assert scored(result) == scored(hiding.search(WATER, include_hidden=False, **options))
    assert not set(ids) & {hit.doc_id for hit in result}


def test_hidden_skills_have_no_say_in_the_scores_of_others(garden):
    before = default_calibration()
    index = garden("water-garden").with_calibration(
        replace(before, alone={**before.alone, "lead": 1.0})
    )
    shown = index.search(WATER, threshold=0.0, include_hidden=False, explain=True)
    every = index.search(WATER, threshold=0.0, explain=True)
    assert every[0].name == "water-garden"
    assert shown[0].name == every[1].name
    assert every[1].explain.log_odds["lead"] < 0 < shown[0].explain.log_odds["lead"]


def test_what_cannot_be_excluded_excludes_nothing(index):
    before = answers(index, "fill in a PDF form")
    for exclude in ([], ["skills:none", "", "\ud800", "pdf-forms"], ("zzz",), {"skills:"}):
        result = index.search("fill in a PDF form", threshold=0.0, exclude=exclude)
        assert dict(result.to_dict(), seconds=None) == before[0]


def test_a_copy_of_an_excluded_skill_takes_its_place(tmp_path, add_skill, build):
    """Who wants it out too asks `copies` for it."""
    for folder in ("a", "b"):
        add_skill(tmp_path / "s" / folder, "pdf-forms", "Fill in PDF forms.", LONG)
    add_skill(tmp_path / "s" / "c", "form-letters", "Write form letters.", "Dear reader.")
    index = build(tmp_path / "s")
    hits = index.search("fill in PDF forms", threshold=0.0, exclude=["s:a"])
    assert (hits[0].doc_id, hits[0].duplicates) == ("s:b", ())
    copies = index.copies(["s:a", "s:none"])
    assert copies == {"s:a", "s:b"}
    hits = index.search("fill in PDF forms", threshold=0.0, exclude=copies)
    assert [hit.doc_id for hit in hits] == ["s:c"]
    assert index.copies([]) == index.copies(["s:none", ""]) == frozenset()


def test_another_calibration_gives_other_scores_of_the_same_index(index):
    before = answers(index, "fill in a PDF form")
    sure = replace(
        default_calibration(),
        alone=dict.fromkeys(EVIDENCE, 0.0) | {"intercept": 50.0},
        threshold=0.75,
    )
    other = index.with_calibration(sure)
    result = other.search("fill in a PDF form")
    assert (result.threshold, other.generation) == (0.75, index.generation)
    assert result[0].score > 0.999 > before[0]["hits"][0]["score"]
    assert other.search("fill in a PDF form", system="bm25").threshold == 0
    assert other.with_calibration(default_calibration()).opened is index.opened
    assert answers(other.with_calibration(default_calibration()), "fill in a PDF form") == before
    assert answers(index, "fill in a PDF form") == before


SEARCH = """
import sys
from skillsearch.index.skill_index import SkillIndex
index = SkillIndex.open({folder!r})
for system in ("hybrid", "bm25", "dense", "rrf"):
    options = dict(threshold=0.0, system=system, include_hidden=False, exclude=["skills:pdf-forms"])
    assert index.search("cut the video", **options), system
print("numpy" in sys.modules, "numpy.ma" in sys.modules)
"""


def test_a_search_does_not_import_masked_arrays(index):
    command = [sys.executable, "-c", SEARCH.format(folder=str(index.folder))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout == "True False\n"


@pytest.mark.parametrize("content", [None, "no frontmatter"])
def test_a_skill_that_is_gone_is_explained_without_its_body(own_index, root, content):
    path = root / "pdf-forms" / "SKILL.md"
    path.unlink()
    if content:
        path.write_text(content)
    hit = own_index.search("fill in a PDF form", explain=True)[0]
    assert hit.name == "pdf-forms"
    assert (hit.explain.section, hit.explain.snippet) == ("", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": ""}, "empty"),
        ({"query": " \t\n\u3000"}, "empty"),
        ({"query": "a" * 1_000_000}, "1,000,000 characters"),
        ({"query": "a" * (MAX_QUERY_CHARS + 1)}, "65,536"),
        ({"n": 0}, "n is 0"),
        ({"n": -1}, "n is -1"),
        ({"n": True}, "n is True"),
        ({"n": 1001}, "n is 1001"),
        ({"n": 2.0}, "n is 2.0"),
        ({"n": "5"}, "n is '5'"),
        ({"threshold": math.nan}, "threshold is nan"),
        ({"threshold": math.inf}, "threshold is inf"),
        ({"threshold": -math.inf}, "threshold is -inf"),
        ({"threshold": -0.1}, "threshold is -0.1"),
        ({"threshold": 1.1}, "threshold is 1.1"),
        ({"threshold": 10**400}, "threshold is 1"),
        ({"system": "magic"}, "hybrid, bm25, dense, rrf"),
    ],
)
def test_what_cannot_be_searched_is_a_query_error(index, arguments, message):
    with pytest.raises(QueryError, match=message) as caught:
        index.search(**{"query": "tea", **arguments})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@given(
    query=st.text(max_size=40),
    n=st.integers(-2, 1100) | st.booleans() | st.floats(),
    threshold=st.none() | st.floats() | st.integers(-1, 2),
    system=st.sampled_from([*SYSTEMS, "", "HYBRID"]),
    explain=st.booleans(),
)
def test_any_arguments_give_a_result_or_a_query_error(
    shared_index, query, n, threshold, system, explain
):
    try:
        result = shared_index.search(query, n, threshold, system=system, explain=explain)
    except QueryError:
        return
    assert isinstance(result, SearchResult)
    assert len(result) <= n
    assert all(result.threshold <= hit.score <= 1 for hit in result)
    assert result.abstained == (not result.hits)


@pytest.mark.parametrize("query", ["tea " * 16_000, "茶" * MAX_QUERY_CHARS])
def test_the_longest_query_is_searched(index, query):
    assert index.search(query).state in {"fits", "perhaps", "none"}


def test_an_index_may_be_empty(tmp_path, build):
    (tmp_path / "s").mkdir()
    index = build(tmp_path / "s")
    assert (len(index), list(index.documents())) == (0, [])
    assert index.search("tea").abstained
    with pytest.raises(QueryError):
        index.search("")
    with pytest.raises(SkillNotFoundError, match=r"No skill is named 'tea'\. List all"):
        index.get("tea")


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_tiny_corpus_finds_its_skills(tmp_path, add_skill, build, count):
    """BM25Okapi alone would score every match there at zero or below it."""
    skills = [("tea", "Make green tea"), ("pdf", "Fill in forms"), ("sql", "Tune a query")]
    skills.append(("git", "Merge two branches"))
    for name, about in skills[:count]:
        add_skill(tmp_path / "s" / name, name, about, "")
    index = build(tmp_path / "s")
    for name, about in skills[:count]:
        for system in SYSTEMS:
            assert index.search(about, system=system)[0].name == name
        assert index.search(about)[0].score > 0.5


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("pdf-form", ("pdf-forms",)),
        ("TEA-TIMR", ("tea-timer",)),
        ("skills:unknown", None),
        ("", ()),
        ("\0\ud800", ()),
        ("zzzzzz", ()),
    ],
)
def test_an_unknown_name_gets_the_nearest(index, name, nearest):
    with pytest.raises(SkillNotFoundError) as caught:
        index.get(name)
    assert caught.value.name == name
    if nearest is not None:
        assert caught.value.nearest[: len(nearest) or None] == nearest
    assert len(caught.value.nearest) <= 5


def test_a_skill_that_can_no_longer_be_read_is_a_parse_error(own_index, root):
    (root / "tea-timer" / "SKILL.md").unlink()
    assert own_index.find("tea-timer").name == "tea-timer"
    with pytest.raises(ParseError):
        own_index.get("tea-timer")


def test_get_reads_what_is_on_disk_now(own_index, root):
    path = root / "tea-timer" / "SKILL.md"
    path.write_text(path.read_text().replace("two minutes", "three minutes"))
    assert "three minutes" in own_index.get("tea-timer").body
    assert own_index.get("tea-timer").content_hash != own_index.find("tea-timer").content_hash


def test_an_opened_index_answers_as_the_built_one(index):
    queries = ("fill in a PDF form", "tea", "cut and rotate")
    opened = SkillIndex.open(index.folder)
    assert opened.generation == index.generation
    assert answers(opened, *queries) == answers(index, *queries)
    assert opened.diagnostics() == index.diagnostics()


def test_opening_nothing_says_how_to_make_an_index(tmp_path):
    for folder in (tmp_path / "none", tmp_path):
        with pytest.raises(IndexNotFoundError, match="skillsearch index FOLDER"):
            SkillIndex.open(folder)
    IndexRequest((tmp_path,), "hashing", True).save(tmp_path)
    with pytest.raises(IndexNotFoundError):
        SkillIndex.open(tmp_path)


def test_opening_a_damaged_index_rebuilds_it(own_index, caplog):
    before = answers(own_index, "fill in a PDF form")
    part = own_index.opened.folder / "dense-metadata.faiss"
    part.write_bytes(part.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING):
        opened = SkillIndex.open(own_index.folder)
    assert opened.generation == own_index.generation
    assert answers(opened, "fill in a PDF form") == before
    assert caplog.records


@pytest.mark.parametrize("request_data", [None, b'{"roots": 3}'])
def test_a_damaged_index_without_a_request_is_not_found(own_index, request_data):
    (own_index.folder / "CURRENT").write_text("damaged")
    (own_index.folder / "request.json").unlink()
    if request_data is not None:
        (own_index.folder / "request.json").write_bytes(request_data)
    with pytest.raises(IndexNotFoundError):
        SkillIndex.open(own_index.folder)


def test_a_damaged_index_whose_root_is_gone_is_a_root_error(own_index, root):
    (own_index.folder / "CURRENT").write_text("damaged")
    shutil.rmtree(root)
    with pytest.raises(RootError, match="does not exist"):
        SkillIndex.open(own_index.folder)


def test_an_index_damaged_by_the_disk_itself_says_so(root, build, before_reading):
    """Files that cannot be read back do not become an index."""

    def lose(path):
        if path.name == "CURRENT":
            path.unlink(missing_ok=True)

    before_reading(lose)
    with pytest.raises(IndexNotFoundError, match="check the disk"):
        build(root)


def test_a_reader_left_behind_still_tells_diagnostics(own_index, root, add_skill):
    writer = SkillIndex.open(own_index.folder)
    for number in range(3):
        add_skill(root / f"Odd {number}", f"Odd {number}", "A skill with an odd name")
        writer.refresh()
    assert own_index.generation != writer.generation
    assert own_index.diagnostics() == writer.diagnostics() != ()


def test_a_refresh_follows_a_root_that_is_a_link(root, tmp_path, add_skill):
    link = tmp_path / "link"
    link.symlink_to(root)
    index = SkillIndex.from_roots(link, index_dir=tmp_path / "i", model="hashing")
    add_skill(tmp_path / "other" / "tea", "tea", "Boil water")
    link.unlink()
    link.symlink_to(tmp_path / "other")
    index.refresh()
    assert [document.name for document in index.documents()] == ["tea"]


def test_a_changed_embedder_renews_the_index(root, build, monkeypatch):
    """Vectors of two embedders cannot be compared: a search says so and leaves the index alone."""
    index = build(root)
    settled = answers(index, "fill in a PDF form")
    monkeypatch.setitem(LOADERS, "hashing", lambda: HashingEmbedder(64))
    opened = SkillIndex.open(index.folder)
    with pytest.raises(EmbedderError, match="skillsearch index --verify"):
        opened.search("fill in a PDF form")
    assert opened.generation == index.generation == SkillIndex.open(index.folder).generation
    opened.refresh(verify=True)
    assert opened.search("fill in a PDF form")[0].name == "pdf-forms"
    assert opened.opened.settings.model.dimensions == 64
    assert answers(index, "fill in a PDF form") == settled
    index.refresh(verify=True)
    assert index.search("fill in a PDF form")[0].name == "pdf-forms"
    assert answers(index, "tea") == answers(opened, "tea")


def test_threads_get_the_same_answers(own_index):
    queries = ["fill in a PDF form", "tea", "rotate keys", "cut video", "slow queries"] * 8
    expected = answers(own_index, *queries)
    opened = SkillIndex.open(own_index.folder)
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(answers, opened, query) for query in queries]
        opened.refresh(verify=True)
        assert [future.result()[0] for future in futures] == expected


def test_an_index_has_a_folder_of_its_own_in_the_cache(root, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    index = SkillIndex.from_roots(str(root), model="hashing")
    again = SkillIndex.from_roots([root], model="hashing")
    other = SkillIndex.from_roots([root / "tea-timer"], model="hashing")
    assert index.folder == again.folder != other.folder
    assert index.folder.is_relative_to(tmp_path / "cache")


def test_the_default_index_is_the_one_of_the_settings(index, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(index.folder))
    assert SkillIndex.open().generation == index.generation


def test_roots_may_be_relative_or_in_the_home_folder(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    generations = [
        SkillIndex.from_roots(spelling, index_dir="ix", model="hashing").generation
        for spelling in ("skills", Path("skills"), "~/skills", [root, root])
    ]
    assert len(set(generations)) == 1
    assert (tmp_path / "ix" / "CURRENT").is_file()


KOREAN = {
    "회의록": ("회의 내용을 요약하고 할 일을 정리합니다.", "회의록 작성 방법"),
    "데이터베이스": ("느린 데이터베이스 쿼리를 빠르게 만듭니다.", "인덱스를 추가합니다"),
    "번역": ("문서를 다른 언어로 번역합니다.", "용어집을 먼저 확인합니다"),
}


def test_skills_in_scripts_that_the_model_cannot_read_are_found(tmp_path, add_skill):
    for title, (description, body) in KOREAN.items():
        add_skill(tmp_path / "s" / title, title, description, body)
    add_skill(tmp_path / "s" / "minutes", "minutes", "Write the minutes of a meeting.", "Be brief.")
    add_skill(tmp_path / "s" / "sql", "sql", "Make slow SQL queries fast.", "Add an index.")
    index = SkillIndex.from_roots(tmp_path / "s", index_dir=tmp_path / "i")
    for query, name in (
        ("회의 요약", "회의록"),
        ("데이터베이스 쿼리가 느려요", "데이터베이스"),
        ("이 문서를 번역해 주세요", "번역"),
        ("summarise the meeting", "minutes"),
    ):
        assert index.search(query).shown[0].name == name


def test_many_requests_are_answered_as_one_by_one(index):
    queries = ["fill in PDF forms", "who won the world cup", "rotate keys", "fill in PDF forms"]
    for system in SYSTEMS:
        together = index.search_many(queries, n=3, system=system)
        single = [index.search(query, n=3, system=system) for query in queries]
        assert [result.query for result in together] == queries
        assert [result.hits for result in together] == [result.hits for result in single]
        assert [result.abstained for result in together] == [result.abstained for result in single]
    assert index.search_many([]) == []
    with pytest.raises(QueryError, match="empty"):
        index.search_many(["fill in PDF forms", "  "])


@dataclass(frozen=True)
class Noting(HashingEmbedder):
    """Keeps the texts of each call."""

    batches: list = field(default_factory=list)

    def embed_stream(self, texts):
        self.batches.append(list(texts))
        yield from HashingEmbedder().embed_stream(texts)


def test_many_requests_are_embedded_together(index):
    embedder = Noting()
    opened = SkillIndex(IndexFolder(index.folder), index.opened, embedder)
    opened.search_many(["rotate keys", "make tea", "rotate keys"])
    assert embedder.batches == [["rotate keys", "make tea"]]
