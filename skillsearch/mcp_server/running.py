"""From the start of a server to its end: its streams, signals, and the watch over the folders."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, BinaryIO

import anyio
from anyio.abc import TaskStatus

from skillsearch.errors import SkillSearchError
from skillsearch.library.watcher import watch
from skillsearch.mcp_server.desk import Desk
from skillsearch.mcp_server.served_library import ServedLibrary

INTERRUPTED = 130
WAIT_SECONDS = 2.0
"""How often is looked whether there is an index by now whose folders can be watched."""
INDEXING_SECONDS = 0.2
"""How often is looked whether a change can be searched by now."""

logger = logging.getLogger(__name__)


def take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Take stdin and stdout for messages alone, until the process ends.

    Whatever else reads from stdin finds its end; what else is printed goes to stderr.

    Returns:
        What messages come from, and what they go to.
    """
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    return os.fdopen(incoming, "rb"), os.fdopen(outgoing, "wb")


def run_server(serve: Callable[[anyio.Event], Awaitable[None]]) -> int:
    """Serve until the client leaves, or a signal asks for the end.

    Args:
        serve: Serves until it is done, or soon after its event is set.

    Returns:
        Exit code: 0, and 130 after Ctrl-C.
    """
    return anyio.run(_serve_until_signal, serve)


async def _serve_until_signal(serve: Callable[[anyio.Event], Awaitable[None]]) -> int:
    """Serve, and set the event when a signal comes."""
    stop = anyio.Event()
    codes = [0]

    async def heed(*, task_status: TaskStatus[None]) -> None:
        """Wait for signals."""
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            task_status.started()
            async for number in signals:
                codes.append(INTERRUPTED if number == signal.SIGINT else 0)
                stop.set()

    async with anyio.create_task_group() as tasks:
        await tasks.start(heed)
        await serve(stop)
        tasks.cancel_scope.cancel()
    return codes[-1]


class LibraryWatch:
    """Keeps a served library up to date while it is served, in a thread that ends with it."""

    def __init__(
        self,
        desk: Desk,
        served: ServedLibrary,
        on_change: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Say what is watched.

        Args:
            desk: Where the library is used.
            served: The library.
            on_change: Called in the event loop whenever there are other skills than before.
        """
        self._desk = desk
        self._served = served
        self._on_change = on_change
        self._stop = threading.Event()

    def __enter__(self) -> LibraryWatch:
        """Begin."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, name="watch", daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        """End, without waiting for it."""
        self._stop.set()

    def _run(self) -> None:
        """Watch the folders, once it is known which these are."""
        roots = self._roots()
        while roots is None and not self._stop.wait(WAIT_SECONDS):
            roots = self._roots()
        if roots is not None:
            watch(roots, self._look, stop=self._stop, leave_out=self._served.index_dir)

    def _roots(self) -> tuple[Path, ...] | None:
        """Return the folders; None where there is no index to name them."""
        if self._served.roots:
            return self._served.roots
        try:
            library = self._desk.submit(self._served.get).result()
        except SkillSearchError as exc:
            logger.debug("Nothing to watch yet: %s", exc)
            return None
        return tuple(root.path for root in library.roots)

    def _look(self, _changed: frozenset[Path] | None) -> None:
        """Bring the library up to date, and tell when all that changed can be searched."""
        is_changed, is_indexing = False, True
        while is_indexing and not self._stop.is_set():
            is_changed |= bool(self._desk.submit(self._served.refresh).result())
            is_indexing = self._desk.submit(self._served.get).result().is_indexing
            self._stop.wait(INDEXING_SECONDS if is_indexing else 0)
        if is_changed:
            asyncio.run_coroutine_threadsafe(self._on_change(), self._loop)
