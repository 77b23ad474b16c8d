"""The one thread in which a server uses its library, so that its event loop never blocks."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

CALL_SECONDS = 60.0
"""How long a call may take, including its wait: clients give up after a minute too."""
MAX_WAITING = 64
"""Calls that may wait for each other; only a client that is out of order sends more."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class LibraryThread:
    """Runs the calls of a library, which belongs to one thread, one after the other."""

    def __init__(self, call_seconds: float = CALL_SECONDS, max_waiting: int = MAX_WAITING) -> None:
        self._call_seconds = call_seconds
        self._max_waiting = max_waiting
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="skillsearch")
        self._waiting = 0

    def submit(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Call a function in the thread, after all others and with no time limit."""
        return self._thread.submit(copy_context().run, partial(function, *args, **kwargs))

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Await a function in the thread; `TimeoutError` if slow, `queue.Full` if many wait."""
        if self._waiting >= self._max_waiting:
            raise queue.Full
        self._waiting += 1
        try:
            future = asyncio.wrap_future(self.submit(function, *args, **kwargs))
            return await asyncio.wait_for(future, self._call_seconds)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Begin nothing more, without waiting for the current call."""
        self._thread.shutdown(wait=False, cancel_futures=True)
