"""Making the index of a library: while its caller waits, or beside it in an executor."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from skillsearch.errors import IndexingError, QueryError
from skillsearch.index.skill_index import SkillIndex
from skillsearch.types import IndexProgress, Progress, SearchResult

ANY_QUERY = "a task"
"""Searched for where all that counts is that the first search, which is slow, is done."""
WORDS_AFTER = 1.0
"""Seconds after which words are counted: an index that is up to date is there before that."""
_STEADY_AFTER = 0.5
"""Seconds of embedding after which its pace tells how long the rest will take."""

logger = logging.getLogger(__name__)


class Searchable(Protocol):
    """What answers the searches of a library; `SkillIndex.search` explains the arguments."""

    def search(
        self,
        query: str,
        n: int = 5,
        threshold: float | None = None,
        *,
        include_hidden: bool = True,
    ) -> SearchResult:
        """Find the skills that fit a request, or none."""


class Indexer:
    """Makes the index of one state of a library after the other, and keeps the last one.

    It belongs to the thread of its library; only what makes an index runs in the executor.
    """

    def __init__(
        self, executor: Executor | None = None, first: tuple[object, SkillIndex] | None = None
    ) -> None:
        """Say who makes the indexes.

        Args:
            executor: Makes them while the library goes on; None for the caller, who waits.
            first: A state whose index is there already.
        """
        self._executor = executor
        self._last = first
        self._job: _Job | None = None

    @property
    def is_busy(self) -> bool:
        """Whether an index is being made, or was made and not yet asked for."""
        return self._job is not None

    @property
    def words(self) -> Searchable | None:
        """What can be searched until the first index is made, once it is there."""
        return self._job.words if self._job else None

    @property
    def progress(self) -> IndexProgress | None:
        """How far the first index is; None if it is made or not begun."""
        return self._job.progress() if self._job and self._last is None else None

    def index_of(
        self,
        state: object,
        make: Callable[[Progress], SkillIndex],
        count_words: Callable[[], Searchable] | None = None,
    ) -> SkillIndex:
        """Return the index of a state.

        Args:
            state: What is indexed, told from others by its identity.
            make: Makes the index; called where that of the state is not there yet.
            count_words: Makes what `words` returns if the first index takes long.

        Returns:
            The index; with an executor, until it is made, that of the state before.

        Raises:
            IndexingError: When the first one is still being made.
            SkillSearchError: When it could not be made; asked again, it is tried again.
        """
        self._take_finished()
        if self._last is not None and self._last[0] is state:
            return self._last[1]
        if self._executor is None:
            self._last = (state, make(_untold))
        elif self._job is None:
            self._job = _Job(state)
            self._job.start(self._executor, make, None if self._last else count_words)
        if self._last is None:
            raise IndexingError(self.progress or IndexProgress())
        return self._last[1]

    def _take_finished(self) -> None:
        """Take the index that was made meanwhile."""
        job = self._job
        if job is not None and job.future.done():
            self._job = None
            self._last = (job.state, job.future.result())


@dataclass(slots=True)
class _Job:
    """An index that is being made: of what, how far it is, and what comes of it."""

    state: object
    words: Searchable | None = None
    future: Future[SkillIndex] = field(init=False)
    _read: tuple[int, int] = (0, 0)
    _embedded: tuple[int, int] = (0, 0)
    _embedding_since: float = 0.0

    def start(
        self,
        executor: Executor,
        make: Callable[[Progress], SkillIndex],
        count_words: Callable[[], Searchable] | None,
    ) -> None:
        """Have the index made, and its first search, which is slow, done."""
        self.future = executor.submit(self._run, make, count_words)

    def progress(self) -> IndexProgress:
        """Return how far it is."""
        embedded, texts = self._embedded
        taken = time.monotonic() - self._embedding_since
        is_steady = embedded and taken > _STEADY_AFTER
        left = taken / embedded * (texts - embedded) if is_steady else None
        return IndexProgress(*self._read, embedded, texts, left)

    def _run(
        self,
        make: Callable[[Progress], SkillIndex],
        count_words: Callable[[], Searchable] | None,
    ) -> SkillIndex:
        """Make the index, and beside it words if it takes long."""
        timer = threading.Timer(WORDS_AFTER, self._count, (count_words,))
        timer.daemon = True
        if count_words:
            timer.start()
        try:
            index = make(self._tell)
            with suppress(QueryError):
                index.search(ANY_QUERY, 1)
        finally:
            timer.cancel()
        return index

    def _count(self, count_words: Callable[[], Searchable]) -> None:
        """Make what is searched until the index is there."""
        try:
            self.words = count_words()
        except OSError as exc:
            logger.warning("Skills cannot be searched by words while they are indexed: %s", exc)

    def _tell(self, stage: str, done: int, total: int) -> None:
        """Keep how far it is."""
        if stage == "read":
            self._read = (done, total)
        elif stage == "embed":
            self._embedding_since = self._embedding_since or time.monotonic()
            self._embedded = (done, total)


def _untold(stage: str, done: int, total: int) -> None:
    """Tell nobody."""
