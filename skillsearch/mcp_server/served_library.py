"""The library that a server offers, and the watch over its folders.

What takes long to import is imported where it is used: a server greets its client before.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillsearch.errors import IndexingError, RootError, SkillSearchError
from skillsearch.index.roots.scope import everywhere, folders_of, from_folders
from skillsearch.roots.sources import folder_of
from skillsearch.settings.config import user_index_dir
from skillsearch.settings.table import Settings
from skillsearch.settings.user_folders import index_dir_for
from skillsearch.types.answers import Selection
from skillsearch.types.indexing import IndexProgress, IndexReport
from skillsearch.usage.recording import log_of

if TYPE_CHECKING:
    from skillsearch.index.indexing.changes import Changes
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.library.skill_library import LibraryOptions, SkillLibrary
    from skillsearch.library.thread import LibraryThread
    from skillsearch.mcp_server.publication import Publisher

FIRST_SECONDS = 8.0  # how long a call waits for the first index of a user
WAIT_SECONDS = 2.0  # how often to look for an index whose folders can be watched
INDEXING_SECONDS = 0.2  # how often to look whether a change can be searched

FOLDERS: ContextVar[tuple[str, ...] | None] = ContextVar("folders", default=None)
"""Where the request that is being answered comes from; None if its client does not say."""

logger = logging.getLogger(__name__)


class ServedLibrary:
    """The skills of some folders, or of an index that was built before; not thread-safe.

    Nothing is opened before it is asked for, and whatever could not be opened is tried again each
    time, so a server can start before there are skills. Indexes are built in another thread.
    """

    def __init__(
        self, roots: Sequence[Path | str], settings: Settings, index_dir: str | Path | None = None
    ) -> None:
        """Serve folders, archives or URLs, the first one first, or the index of the settings."""
        self._named = tuple(roots)
        self.roots = tuple(folder_of(root) for root in roots)
        self.settings = settings
        own = index_dir_for(self.roots, settings.model) if self.roots else settings.index_dir
        self.index_dir = Path(index_dir or own).absolute()
        self._indexing = ThreadPoolExecutor(1, thread_name_prefix="indexing")
        self._library: SkillLibrary | None = None
        self._first: Future[tuple[SkillIndex, IndexReport]] | None = None
        self._publisher: Publisher | None = None

    @property
    def progress(self) -> IndexProgress | None:
        """Progress of the first index while only words are searched; None once it is there."""
        return None if self._library is None else self._library.progress

    def get(self) -> SkillLibrary:
        """Return the library, which keeps itself like the disk.

        Raises `IndexNotFoundError` or `RootError` if there is nothing to open or to build it from.
        """
        library = self._library = self._library or self._open()
        if self.roots and not library.roots:
            library.refresh()
        if self.roots and not library.roots:
            roots = ", ".join(map(str, self.roots))
            raise RootError(f"None of the roots can be read: {roots}. Create one, or name another.")
        library.selection = self._selection()
        return library

    def publisher(self) -> Publisher:
        """Return what publishes the skills that the library has now; raises what `get` does."""
        from skillsearch.mcp_server.publication import Publisher

        library = self.get()
        if self._publisher is None or self._publisher.library is not library:
            self._publisher = Publisher(library)
        self._publisher.refresh()
        return self._publisher

    def _selection(self) -> Selection:
        """Return what the settings select, as seen from the folders that the client names."""
        selection, folders = self.settings.selection, FOLDERS.get()
        if folders is None:
            return selection
        seen = from_folders(selection, folders)
        return everywhere(seen) if self.settings.all_projects else seen

    def _open(self) -> SkillLibrary:
        from skillsearch.library.skill_library import SkillLibrary, library_config

        settings, executor = self.settings, self._indexing
        options: LibraryOptions = {"threshold": settings.threshold, "checks_disk": settings.refresh}
        options["usage"] = log_of(settings, "mcp")
        if self.roots:
            config = library_config(settings)
            config["index_dir"] = self.index_dir
            return SkillLibrary.from_roots(self._named, executor=executor, **config, **options)
        self._make_first_index()
        reader = settings.reader
        return SkillLibrary.open(self.index_dir, executor=executor, reader=reader, **options)

    def _make_first_index(self) -> None:
        """Index where hosts look for skills if the user has no index yet; the hosts follow it.

        An IndexingError if that takes longer than a call should wait.
        """
        from skillsearch.hosts.folders import has_host_folders
        from skillsearch.index.roots.root_change import RootChange
        from skillsearch.index.skill_index import SkillIndex
        from skillsearch.index.storage.cache import IndexFolder

        settings = self.settings
        is_own = settings.sources.get("index_dir") == "environment"
        is_own = is_own or self.index_dir == user_index_dir().absolute()
        folders = folders_of(self._selection())
        is_wanted = is_own and not IndexFolder(self.index_dir).exists()
        if not (is_wanted and any(map(has_host_folders, map(Path, folders or ("/",))))):
            return
        change = RootChange(settings=settings, follows="hosts", folders=folders)
        self._first = self._first or self._indexing.submit(SkillIndex.build, change, self.index_dir)
        try:
            self._first.result(FIRST_SECONDS)
        except TimeoutError as exc:
            raise IndexingError(IndexProgress()) from exc
        finally:
            first = self._first
            if first.done() and (first.cancelled() or first.exception()):
                self._first = None  # the next call tries again

    def take_note(self) -> str:
        """Return what `SkillLibrary.take_note` does of the library, if it is open."""
        return self._library.take_note() if self._library else ""

    def refresh(self) -> Changes:
        """Look at the disk, begin to index what has changed, and return the changes so far."""
        changes = self.get().refresh()
        self.warm()
        return changes

    def warm(self) -> None:
        """Do everything that makes a first search slow, or start it."""
        from skillsearch.library.background import ANY_QUERY

        with suppress(IndexingError):
            self.get().search(ANY_QUERY, 1)


@contextmanager
def watch_library(
    thread: LibraryThread, served: ServedLibrary, on_change: Callable[[], Coroutine[Any, Any, None]]
) -> Iterator[None]:
    """Keep a library up to date from a daemon thread; `on_change` is called in the event loop."""
    from skillsearch.library.watcher import watch

    loop = asyncio.get_running_loop()
    stop = threading.Event()

    def look(_changed: frozenset[Path] | None) -> None:
        """Bring the library up to date, and report a change once it can be searched."""
        is_changed, is_indexing = False, True
        while is_indexing and not stop.is_set():
            is_changed |= bool(thread.submit(served.refresh).result())
            is_indexing = thread.submit(served.get).result().is_indexing
            stop.wait(INDEXING_SECONDS if is_indexing else 0)
        if is_changed:
            asyncio.run_coroutine_threadsafe(on_change(), loop)

    def run() -> None:
        """Watch the folders, once there is an index to name them."""
        roots = served.roots or None
        while roots is None:
            try:
                roots = tuple(root.path for root in thread.submit(served.get).result().roots)
            except SkillSearchError as exc:
                logger.debug("Nothing to watch yet: %s", exc)
                if stop.wait(WAIT_SECONDS):
                    return
        watch(roots, look, stop=stop, leave_out=served.index_dir)

    threading.Thread(target=run, name="watch", daemon=True).start()
    try:
        yield
    finally:
        stop.set()
