"""Tests of the thread in which a server uses its library."""

import asyncio
import queue
import threading

import anyio
import pytest

from skillsearch.library.thread import LibraryThread


@pytest.fixture
def make_thread():
    made = []

    def make(**options):
        made.append(LibraryThread(0.25, **options))
        return made[-1]

    yield make
    for thread in made:
        thread.close()


@pytest.fixture
def thread(make_thread):
    return make_thread()


def test_calls_are_done_one_after_the_other(thread):
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
    async def run():
        with pytest.raises(ZeroDivisionError):
            await thread.run(divmod, 1, 0)

    anyio.run(run)
