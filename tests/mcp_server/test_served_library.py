"""Tests of the served library, its thread, and the watch over it."""

import asyncio
import queue
import threading
import time
from pathlib import Path

import anyio
import pytest

from skillsearch.errors import IndexNotFoundError, RootError
from skillsearch.index.opening import MAX_REFRESHED_FILES
from skillsearch.mcp_server.served_library import LibraryThread, watch_library


@pytest.fixture
def make_thread():
    """Make a library thread whose calls may take a quarter of a second."""
    made = []

    def make(**options):
        made.append(LibraryThread(0.25, **options))
        return made[-1]

    yield make
    for thread in made:
        thread.close()


@pytest.fixture
def thread(make_thread):
    """Make one with the usual limit."""
    return make_thread()


def settle(served):
    """Wait until a library makes no index any more."""
    deadline = time.monotonic() + 120
    while served.get().is_indexing and time.monotonic() < deadline:
        time.sleep(0.01)
        served.warm()
    assert not served.get().is_indexing


def test_calls_are_done_one_after_the_other(thread):
    """In the order in which they come, all in one thread."""
    done = []

    async def run():
        await asyncio.gather(*(thread.run(done.append, number) for number in range(20)))
        return {await thread.run(threading.get_ident) for _ in range(3)}

    threads = anyio.run(run)
    assert done == list(range(20))
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


def test_a_call_that_waits_too_long_is_never_begun(thread):
    """The call that it waits for runs to its end."""
    release, begun = threading.Event(), []

    async def run():
        thread.submit(release.wait, 30)
        with pytest.raises(TimeoutError):
            await thread.run(begun.append, 1)
        release.set()
        return await thread.run(lambda: "next")

    assert anyio.run(run) == "next"
    assert begun == []


def test_a_library_thread_takes_no_more_than_it_can_hold(make_thread):
    """Once the others are done, it takes more."""
    thread = make_thread(max_waiting=1)
    release = threading.Event()

    async def run():
        thread.submit(release.wait, 30)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(thread.run, release.is_set)
            await anyio.sleep(0.01)
            with pytest.raises(queue.Full):
                await thread.run(release.is_set)
            release.set()
        return await thread.run(release.is_set)

    assert anyio.run(run)


def test_an_error_of_a_call_is_raised_where_it_waits(thread):
    """As it is."""

    async def run():
        with pytest.raises(ZeroDivisionError):
            await thread.run(divmod, 1, 0)

    anyio.run(run)


def test_a_library_of_roots_is_opened_once(serve_library, drinks):
    """It is searched by an index of its own, in the user's cache."""
    served = serve_library(drinks)
    library = served.get()
    assert served.get() is library
    served.warm()
    settle(served)
    assert (served.index_dir / "CURRENT").exists()


def test_a_root_may_begin_with_a_tilde(serve_library, home, make_skill):
    """Hosts do not expand it, as a shell would."""
    make_skill(home / "skills", "steep-tea")
    assert len(serve_library(Path("~/skills")).get()) == 1


def test_the_index_of_roots_lies_where_it_is_told_to(serve_library, drinks, index_dir):
    """Not where the settings say."""
    served = serve_library(drinks, index_dir=index_dir)
    served.warm()
    settle(served)
    assert (index_dir / "CURRENT").exists()


def test_a_refresh_tells_what_changed_and_makes_it_ready(serve_library, drinks, make_skill):
    """Beside the server; then the first search finds it."""
    served = serve_library(drinks)
    served.warm()
    settle(served)
    make_skill(drinks, "boil-eggs", "Boil eggs to the right degree.")
    assert served.refresh().added == ("drinks:boil-eggs",)
    settle(served)
    assert [hit.name for hit in served.get().search("boil eggs", 1)] == ["boil-eggs"]


def test_a_refresh_of_an_index_keeps_the_library(serve_library, cli, drinks, index_dir, make_skill):
    """Its own write does not make it open the index again, nor that of another process."""
    cli("index", drinks, "--index-dir", index_dir, "--model", "hashing")
    served = serve_library(index_dir=index_dir)
    library = served.get()
    make_skill(drinks, "boil-eggs", "Boil eggs to the right degree.")
    assert served.refresh().added == ("drinks:boil-eggs",)
    make_skill(drinks, "poach-eggs", "Poach eggs in vinegar.")
    cli("index", "--index-dir", index_dir)
    assert served.refresh().added == ("drinks:poach-eggs",)
    for number in range(MAX_REFRESHED_FILES + 1):
        make_skill(drinks, f"mix-{number}", f"Mix cocktail number {number}.")
    assert len(served.refresh()) == 0
    deadline = time.monotonic() + 120
    while not (changes := served.refresh()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(changes.added) == MAX_REFRESHED_FILES + 1
    assert served.get() is library


def test_what_is_missing_is_looked_for_each_time(serve_library, index_dir, tmp_path):
    """The errors say what is missing."""
    for _ in range(2):
        with pytest.raises(IndexNotFoundError, match="skillsearch index FOLDER"):
            serve_library(index_dir=index_dir).get()
    served = serve_library(tmp_path / "a", tmp_path / "b")
    for _ in range(2):
        with pytest.raises(RootError, match=f"{tmp_path}/a, {tmp_path}/b"):
            served.get()


@pytest.mark.slow
def test_a_watch_refreshes_the_library_and_tells(thread, serve_library, drinks, make_skill):
    """Until its block is left."""
    pytest.importorskip("watchfiles")
    served = serve_library(drinks)
    settle(served)

    async def run():
        told = anyio.Event()

        async def tell():
            told.set()

        with watch_library(thread, served, tell), anyio.fail_after(120):
            await anyio.sleep(1)
            make_skill(drinks, "boil-eggs", "Boil eggs to the right degree.")
            await told.wait()

    anyio.run(run)
    assert len(served.get()) == 4
    assert [hit.name for hit in served.get().search("boil eggs", 1)] == ["boil-eggs"]
