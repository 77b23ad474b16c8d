"""The library that a server offers, the one thread that uses it, and the watch over its folders."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from skillsearch.config import Settings, index_dir_for
from skillsearch.errors import IndexingError, RootError, SkillSearchError
from skillsearch.index.build.changes import Changes
from skillsearch.index.opening import OpenIndexes
from skillsearch.library.indexing import ANY_QUERY
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.library.watcher import watch
from skillsearch.roots.sources import place_of
from skillsearch.types import IndexProgress

CALL_SECONDS = 60.0
"""How long a call may take, including its wait: clients give up after a minute too."""
MAX_WAITING = 64
"""Calls that may wait for each other; only a client that is out of order sends more."""
WAIT_SECONDS = 2.0
"""How often to look for an index whose folders can be watched."""
INDEXING_SECONDS = 0.2
"""How often to look whether a change can be searched."""

logger = logging.getLogger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")


class LibraryThread:
    """The one thread in which a server uses its library, so that its event loop never blocks."""

    def __init__(self, call_seconds: float = CALL_SECONDS, max_waiting: int = MAX_WAITING) -> None:
        self._call_seconds = call_seconds
        self._max_waiting = max_waiting
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="skillsearch")
        self._waiting = 0

    def submit(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Call a function in the thread, after all others and with no time limit."""
        return self._thread.submit(function, *args, **kwargs)

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


class ServedLibrary:
    """The skills of some folders, or those of an index that was built before.

    Nothing is opened before it is asked for, and whatever could not be opened is tried again each
    time, so a server can start before there are skills. Not thread-safe; indexes are built in
    another thread, so no call waits for them.

    `roots` is empty for an index that knows its own.
    """

    def __init__(
        self, roots: Sequence[Path | str], settings: Settings, index_dir: Path | None = None
    ) -> None:
        """Serve folders, archives or URLs in order of precedence, or the index of the settings.

        The index of roots is in the user's cache unless `index_dir` says otherwise.
        """
        self._named = tuple(roots)
        self.roots = tuple(place_of(root) for root in roots)
        self.settings = settings
        if self.roots and index_dir is None:
            self.index_dir = index_dir_for(self.roots, settings.model)
        else:
            self.index_dir = (index_dir or settings.index_dir).absolute()
        self._indexing = ThreadPoolExecutor(1, thread_name_prefix="indexing")
        self._opened = OpenIndexes(partial(SkillLibrary.open, executor=self._indexing))
        self._library: SkillLibrary | None = None

    @property
    def progress(self) -> IndexProgress | None:
        """Progress of the first index while only words are searched; None once it is there."""
        return None if self._library is None else self._library.progress

    def get(self) -> SkillLibrary:
        """Return the library, at the newest generation of an index that was built before.

        Raises `IndexNotFoundError` without an index or roots to build one from, and `RootError` if
        none of the roots can be read.
        """
        library = self._library
        if not self.roots:
            # One that is indexing switches to the generation it is writing by itself.
            if library is None or not library.is_indexing:
                library = self._library = self._opened.get(self.index_dir)
            return library
        if library is None:
            library = self._library = SkillLibrary.from_roots(
                self._named,
                index_dir=self.index_dir,
                model=self.settings.model,
                languages=self.settings.languages,
                executor=self._indexing,
            )
        elif not library.roots:
            library.refresh()
        if not library.roots:
            raise RootError(f"None of the folders can be read: {', '.join(map(str, self.roots))}")
        return library

    def refresh(self) -> Changes:
        """Look at the disk, begin to index what has changed, and return the changes so far."""
        changes = self.get().refresh()
        self._opened.mark_current(self.index_dir)
        self.warm()
        return changes

    def warm(self) -> None:
        """Do everything that makes a first search slow, or start it."""
        with suppress(IndexingError):
            self.get().search(ANY_QUERY, 1)


class LibraryWatch:
    """Keeps a served library up to date, in a daemon thread."""

    def __init__(
        self,
        thread: LibraryThread,
        served: ServedLibrary,
        on_change: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Watch a library; `on_change` is called in the event loop when its skills change."""
        self._thread = thread
        self._served = served
        self._on_change = on_change
        self._stop = threading.Event()

    def __enter__(self) -> LibraryWatch:
        """Start watching."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, name="watch", daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop watching, without waiting for the thread."""
        self._stop.set()

    def _run(self) -> None:
        """Watch the folders, once there is an index to name them."""
        roots = self._served.roots or None
        while roots is None:
            try:
                library = self._thread.submit(self._served.get).result()
                roots = tuple(root.path for root in library.roots)
            except SkillSearchError as exc:
                logger.debug("Nothing to watch yet: %s", exc)
                if self._stop.wait(WAIT_SECONDS):
                    return
        watch(roots, self._look, stop=self._stop, leave_out=self._served.index_dir)

    def _look(self, _changed: frozenset[Path] | None) -> None:
        """Bring the library up to date, and report a change once it can be searched."""
        is_changed, is_indexing = False, True
        while is_indexing and not self._stop.is_set():
            is_changed |= bool(self._thread.submit(self._served.refresh).result())
            is_indexing = self._thread.submit(self._served.get).result().is_indexing
            self._stop.wait(INDEXING_SECONDS if is_indexing else 0)
        if is_changed:
            asyncio.run_coroutine_threadsafe(self._on_change(), self._loop)
