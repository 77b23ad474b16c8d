"""Tests of making an index beside a library, with executors that do it when they are told to."""

import os
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from skillsearch.errors import IndexingError, StorageError
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.indexing import Indexer
from skillsearch.library.skill_library import SkillLibrary


class Later:
    """An executor that does what it was given when it is told to."""

    def __init__(self):
        self.given = []

    def submit(self, function, *args):
        """Take a call."""
        future = Future()
        self.given.append((future, function, args))
        return future

    def work(self):
        """Do the first of the calls that wait."""
        future, function, args = self.given.pop(0)
        try:
            future.set_result(function(*args))
        except Exception as exc:  # noqa: BLE001 - as executors do
            future.set_exception(exc)


@pytest.fixture
def later():
    """Make an executor that waits to be told."""
    return Later()


@pytest.fixture
def library(drinks, index_dir, later):
    """Make a library whose index is made later."""
    return SkillLibrary.from_roots(drinks, index_dir=index_dir, model="hashing", executor=later)


@pytest.fixture
def age():
    """Make files look as if they had been there for long: only then their stat is trusted."""

    def make_old(folder):
        for path in [folder, *folder.rglob("*")]:
            os.utime(path, (1e9, 1e9))

    return make_old


def best(library, query="steep green tea"):
    """Return the name of the best hit, if there is any."""
    return next((hit.name for hit in library.search(query, 1)), None)


def test_a_search_before_the_first_index_raises(library, later):
    """What needs no index goes on; asking again begins nothing twice."""
    for _ in range(2):
        with pytest.raises(IndexingError, match="being read; search again"):
            library.search("tea")
    assert len(later.given) == 1
    assert library.is_indexing
    assert library.get("steep-tea").name == "steep-tea"


def test_the_index_is_searched_once_it_is_made(library, later):
    """The call that finds it made takes it."""
    with pytest.raises(IndexingError):
        library.search("tea")
    later.work()
    assert best(library) == "steep-tea"
    assert not library.is_indexing


def test_how_far_it_is_can_be_told(library, later, monkeypatch):
    """By the skills that are read and embedded."""
    monkeypatch.setattr(SkillIndex, "build", lambda *_, progress: progress("embed", 2, 3))
    with pytest.raises(IndexingError):
        library.search("tea")
    (_, function, args) = later.given[0]
    with pytest.raises(TypeError):  # this build made no index
        function(*args)
    with pytest.raises(IndexingError, match="67% is done") as caught:
        library.search("tea")
    assert (caught.value.done, caught.value.total) == (2, 3)


def test_after_a_change_the_old_index_is_searched_until_the_new_one_is_made(
    library, later, drinks, make_skill
):
    """Never half of each."""
    with pytest.raises(IndexingError):
        library.search("tea")
    later.work()
    make_skill(drinks, "boil-eggs", "Boil eggs to the right degree.")
    assert library.refresh().added == ("drinks:boil-eggs",)
    assert best(library, "boil eggs") != "boil-eggs"
    assert library.is_indexing
    later.work()
    assert best(library, "boil eggs") == "boil-eggs"


def test_a_change_while_an_index_is_made_is_indexed_next(library, later, drinks, make_skill):
    """The one that was made is searched meanwhile."""
    with pytest.raises(IndexingError):
        library.search("tea")
    later.work()
    for name in ("boil-eggs", "poach-eggs"):
        make_skill(drinks, name, f"{name}: eggs, done right.")
        library.refresh()
        library.search("tea")
    assert len(later.given) == 1
    later.work()
    library.search("tea")
    later.work()
    assert {hit.name for hit in library.search("eggs done right", 2)} == {"boil-eggs", "poach-eggs"}
    assert later.given == []


def test_what_goes_wrong_is_raised_once_and_tried_again(drinks, tmp_path, later):
    """A full disk may have room by then."""
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    place = tmp_path / "file" / "index"
    library = SkillLibrary.from_roots(drinks, index_dir=place, model="hashing", executor=later)
    for _ in range(2):
        with pytest.raises(IndexingError):
            library.search("tea")
        later.work()
        with pytest.raises(StorageError):
            library.search("tea")


def test_a_saved_index_is_renewed_beside_its_library(
    drinks, index_dir, later, make_skill, age, cli
):
    """A refresh begins it, and a later one tells what changed."""
    cli("index", drinks, "--index-dir", index_dir, "--model", "hashing")
    library = SkillLibrary.open(index_dir, executor=later)
    make_skill(drinks, "boil-eggs", "Boil eggs to the right degree.")
    age(drinks)
    for _ in range(2):
        assert len(library.refresh()) == 0
    assert best(library, "boil eggs") != "boil-eggs"
    later.work()
    assert library.refresh().added == ("drinks:boil-eggs",)
    assert best(library, "boil eggs") == "boil-eggs"
    assert later.given == []
    assert len(library.refresh()) == 0


def test_a_saved_index_that_is_current_is_left_alone(drinks, index_dir, later, age, cli):
    """Nothing is begun."""
    age(drinks)
    cli("index", drinks, "--index-dir", index_dir, "--model", "hashing")
    library = SkillLibrary.open(index_dir, executor=later)
    assert len(library.refresh()) == 0
    assert later.given == []


def test_without_an_executor_the_caller_makes_the_index_once(drinks, index_dir):
    """Each state has its own."""
    index, state, made = SkillIndex.from_roots(drinks, index_dir=index_dir, model="hashing"), [], []

    def make(progress):
        """Count."""
        made.append(progress)
        return index

    indexer = Indexer()
    assert indexer.index_of(state, make) is index
    assert indexer.index_of(state, make) is index
    assert len(made) == 1
    indexer.index_of([], make)
    assert len(made) == 2
    assert not indexer.is_busy


def test_a_real_executor_makes_it_in_its_thread(drinks, index_dir):
    """And the index is as good as any."""
    with ThreadPoolExecutor(1) as executor:
        library = SkillLibrary.from_roots(
            drinks, index_dir=index_dir, model="hashing", executor=executor
        )
        with pytest.raises(IndexingError):
            library.search("tea")
    assert best(library) == "steep-tea"


def test_a_library_indexes_for_the_languages_it_is_told(mixed, index_dir, extra):
    """One that says nothing gets what its skills need."""
    extra("known")
    found = {}
    for languages in ("english", "auto"):
        place = index_dir / languages
        library = SkillLibrary.from_roots(
            mixed, index_dir=place, model="hashing", languages=languages
        )
        library.search("tea")
        found[languages] = len(SkillIndex.open(place).opened.settings.channels)
    assert found == {"english": 1, "auto": 2}
