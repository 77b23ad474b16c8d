"""Tests of making an index beside a library, with executors that do it when they are told to."""

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from skillsearch.errors import IndexingError, StorageError
from skillsearch.index.freshness import MAX_REFRESHED_FILES
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.library.background import Indexer
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.types.indexing import IndexProgress

SECONDS = 120


@pytest.fixture
def later(make_later):
    return make_later()


@pytest.fixture
def library(drinks, index_dir, later):
    return SkillLibrary.from_roots(drinks, index_dir=index_dir, model="hashing", executor=later)


def best(library, query="steep green tea"):
    return next((hit.name for hit in library.search(query, 1)), None)


def test_a_search_before_the_first_index_raises(library, later):
    for _ in range(2):
        with pytest.raises(IndexingError, match="being read; search again"):
            library.search("tea")
    assert len(later.waiting) == 1
    assert library.is_indexing
    assert library.get("steep-tea").name == "steep-tea"


@pytest.fixture
def make_slowly(drinks, index_dir):
    """Return what tells of two texts of twelve, waits to be told to go on, and gives an index."""
    index = SkillIndex.from_roots(drinks, index_dir=index_dir, model="hashing")
    go_on = threading.Event()

    def make(progress):
        progress("read", 3, 3)
        progress("embed", 1, 12)
        progress("embed", 2, 12)
        assert go_on.wait(SECONDS)
        return index

    make.go_on = go_on
    yield make
    go_on.set()


def test_how_far_it_is_can_be_told(make_slowly, wait_for):
    state = []
    with ThreadPoolExecutor(1) as executor:
        indexer = Indexer(executor)
        with pytest.raises(IndexingError):
            indexer.index_of(state, make_slowly)
        assert wait_for(lambda: indexer.progress.seconds_left is not None)
        with pytest.raises(IndexingError, match="17% is done; search again in about") as caught:
            indexer.index_of(state, make_slowly)
        make_slowly.go_on.set()
    progress = caught.value.progress
    assert (progress.read, progress.files, progress.embedded, progress.texts) == (3, 3, 2, 12)
    assert 2.5 <= progress.seconds_left < SECONDS
    indexer.index_of(state, make_slowly)
    assert indexer.progress is None


@pytest.mark.parametrize(
    ("seconds", "when"),
    [
        (None, "in a minute"),
        (0.0, "in about 1 s"),
        (11.2, "in about 12 s"),
        (119.5, "in about 2 min"),
        (200, "in about 3 min"),
    ],
)
def test_when_to_search_again_is_said_in_round_figures(seconds, when):
    assert IndexProgress(seconds_left=seconds).when == when


def test_words_are_searched_while_the_first_index_takes_long(drinks, index_dir, wait_for):
    with ThreadPoolExecutor(1) as executor:
        library = SkillLibrary.from_roots(
            drinks, index_dir=index_dir, model="hashing", executor=executor
        )
        with IndexFolder(index_dir).lock():

            def is_answered():
                with suppress(IndexingError):
                    return library.search("steep green tea", 1)

            assert wait_for(is_answered)
            early, other = is_answered(), library.search("fly to the moon")
            assert library.progress == IndexProgress()
    assert ([hit.name for hit in early], early.words_only) == (["steep-tea"], True)
    assert (other.abstained, other.words_only) == (True, True)
    final = library.search("steep green tea", 1)
    assert ([hit.name for hit in final], final.words_only) == (["steep-tea"], False)
    assert library.progress is None
    assert ["words_only" in result.to_dict() for result in (early, final)] == [True, False]


def test_words_that_cannot_be_counted_do_not_stop_the_index(make_slowly, wait_for, caplog):
    def count_words():
        raise OSError(errno.ENOSPC, "No space left on device")

    state = []
    with ThreadPoolExecutor(1) as executor:
        indexer = Indexer(executor)
        with pytest.raises(IndexingError):
            indexer.index_of(state, make_slowly, count_words)
        assert wait_for(lambda: "No space left" in caplog.text)
        assert indexer.words is None
        make_slowly.go_on.set()
    assert indexer.index_of(state, make_slowly, count_words).search("tea", threshold=0.0).hits


def test_a_change_while_an_index_is_made_is_indexed_next(library, later, drinks, make_skill):
    with pytest.raises(IndexingError):
        library.search("tea")
    later.work()
    for name in ("boil-eggs", "poach-eggs"):
        make_skill(drinks, name, f"{name}: eggs, done right.")
        assert library.refresh().added == (f"drinks:{name}",)
        assert library.search("tea", threshold=0.0)
        assert library.is_indexing
    assert len(later.waiting) == 1
    later.work()
    library.search("tea")
    later.work()
    assert {hit.name for hit in library.search("eggs done right", 2)} == {"boil-eggs", "poach-eggs"}
    assert later.waiting == []


def test_what_goes_wrong_is_raised_once_and_tried_again(drinks, tmp_path, later):
    """A full disk may have room by then."""
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    folder = tmp_path / "file" / "index"
    library = SkillLibrary.from_roots(drinks, index_dir=folder, model="hashing", executor=later)
    for _ in range(2):
        with pytest.raises(IndexingError):
            library.search("tea")
        later.work()
        with pytest.raises(StorageError):
            library.search("tea")


def test_a_saved_index_is_renewed_beside_its_library(drinks, index_dir, later, make_skill, cli):
    cli("index", drinks, "--index-dir", index_dir, "--model", "hashing")
    library = SkillLibrary.open(index_dir, executor=later)
    for number in range(MAX_REFRESHED_FILES):
        make_skill(drinks, f"mix-{number}", f"Mix cocktail number {number}.")
    make_skill(drinks, "boil-eggs", "Boil eggs to the right degree.")
    for _ in range(2):
        assert len(library.refresh()) == 0
    assert best(library, "boil eggs") != "boil-eggs"
    later.work()
    assert "drinks:boil-eggs" in library.refresh().added
    assert best(library, "boil eggs") == "boil-eggs"
    assert later.waiting == []
    assert len(library.refresh()) == 0


def test_without_an_executor_the_caller_makes_the_index_once(drinks, index_dir):
    index, state, made = SkillIndex.from_roots(drinks, index_dir=index_dir, model="hashing"), [], []

    def make(progress):
        made.append(progress)
        return index

    indexer = Indexer()
    assert indexer.index_of(state, make) is index
    assert indexer.index_of(state, make) is index
    assert len(made) == 1
    indexer.index_of([], make)
    assert len(made) == 2
    assert not indexer.is_busy
