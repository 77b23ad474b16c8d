"""The façade: build, open, search, find, refresh."""

import logging
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

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
from skillsearch.types.answers import SYSTEMS


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


def test_a_refresh_follows_a_root_that_is_a_link(root, tmp_path, add_skill, build):
    link = tmp_path / "link"
    link.symlink_to(root)
    index = build(link)
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
