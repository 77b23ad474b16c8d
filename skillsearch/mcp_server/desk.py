"""The one thread in which a server uses its library, so that its event loop never waits."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

CALL_SECONDS = 60.0
"""How long a call may take, its wait included: clients give up after a minute too."""
MAX_WAITING = 64
"""Calls that may wait for each other; more come only from a client that is out of order."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Desk:
    """Does what it is given, one thing after the other, in a thread of its own."""

    def __init__(self, call_seconds: float = CALL_SECONDS) -> None:
        """Make a desk.

        Args:
            call_seconds: How long a call may take, its wait included.
        """
        self._call_seconds = call_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="skillsearch")
        self._waiting = 0

    def submit(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Have something done, however long it takes."""
        return self._thread.submit(function, *args, **kwargs)

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Have something done, and wait for it.

        What has begun when the time is over is still done to its end.

        Args:
            function: What to call.
            *args: Its arguments.
            **kwargs: Its arguments by name.

        Returns:
            What it returns.

        Raises:
            TimeoutError: When it takes too long.
            queue.Full: When too many calls are waiting.
        """
        if self._waiting >= MAX_WAITING:
            raise queue.Full
        self._waiting += 1
        try:
            future = asyncio.wrap_future(self.submit(function, *args, **kwargs))
            return await asyncio.wait_for(future, self._call_seconds)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Begin nothing more; what is being done is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)
