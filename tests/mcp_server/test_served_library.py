"""Tests of the served library, and the watch over it."""

from pathlib import Path

import anyio
import pytest

from skillsearch.errors import IndexNotFoundError, RootError
from skillsearch.index.freshness import MAX_REFRESHED_FILES
from skillsearch.library.thread import LibraryThread
from skillsearch.mcp_server.served_library import watch_library


@pytest.fixture
def settle(wait_for):
    """Wait until a library makes no index any more."""

    def is_settled(served):
        if is_indexing := served.get().is_indexing:
            served.warm()
        return not is_indexing

    return lambda served: wait_for(lambda: is_settled(served))


def test_a_library_of_roots_is_opened_once(serve_library, settle, drinks):
    served = serve_library(drinks)
    library = served.get()
    assert served.get() is library
    served.warm()
    assert settle(served)
    assert (served.index_dir / "CURRENT").exists()


def test_a_root_may_begin_with_a_tilde(serve_library, home, make_skill):
    """Hosts do not expand it, as a shell would."""
    make_skill(home / "skills", "steep-tea")
    assert len(serve_library(Path("~/skills")).get()) == 1


def test_a_refresh_tells_what_changed_and_makes_it_ready(serve_library, settle, drinks, make_skill):
    served = serve_library(drinks)
    served.warm()
    assert settle(served)
    make_skill(drinks, "boil-eggs", "Boil eggs to the right degree.")
    assert served.refresh().added == ("drinks:boil-eggs",)
    assert settle(served)
    assert [hit.name for hit in served.get().search("boil eggs", 1)] == ["boil-eggs"]


def test_a_refresh_of_an_index_keeps_the_library(
    serve_library, cli, drinks, index_dir, make_skill, wait_for
):
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
    assert len(wait_for(served.refresh).added) == MAX_REFRESHED_FILES + 1
    assert served.get() is library


def test_what_is_missing_is_looked_for_each_time(serve_library, index_dir, tmp_path):
    for _ in range(2):
        with pytest.raises(IndexNotFoundError, match="skillsearch index FOLDER"):
            serve_library(index_dir=index_dir).get()
    served = serve_library(tmp_path / "a", tmp_path / "b")
    for _ in range(2):
        with pytest.raises(RootError, match=f"{tmp_path}/a, {tmp_path}/b"):
            served.get()


@pytest.mark.slow
def test_a_watch_refreshes_the_library_and_tells(serve_library, settle, drinks, make_skill):
    pytest.importorskip("watchfiles")
    served, thread = serve_library(drinks), LibraryThread()
    assert settle(served)

    async def run():
        changed = anyio.Event()

        async def tell():
            changed.set()

        with watch_library(thread, served, tell), anyio.fail_after(120):
            await anyio.sleep(1)
            make_skill(drinks, "boil-eggs", "Boil eggs to the right degree.")
            await changed.wait()

    anyio.run(run)
    thread.close()
    assert len(served.get()) == 4
    assert [hit.name for hit in served.get().search("boil eggs", 1)] == ["boil-eggs"]
