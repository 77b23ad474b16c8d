"""Makes the index of a library in the background, if there is an executor for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import TypeAlias

from skillsearch.errors import IndexingError, QueryError
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.word_index import WordIndex
from skillsearch.types.indexing import IndexProgress, Progress

Make: TypeAlias = Callable[[Progress | None], SkillIndex]
IndexWords: TypeAlias = Callable[[], WordIndex]
ANY_QUERY = "a task"
"""A query that only warms up an index, whose first search is slow."""
WORDS_AFTER = 1.0
"""Seconds after which a `WordIndex` is built; an index that is up to date opens sooner."""
_STEADY_AFTER = 0.5
"""Seconds of embedding after which its pace predicts the rest."""

logger = logging.getLogger(__name__)


class Indexer:
    """Makes an index for each state of a library and keeps the last; it is not thread-safe."""

    def __init__(self, executor: Executor | None = None) -> None:
        """Take an executor, None to make the caller wait."""
        self.executor = executor
        self.last: tuple[object, SkillIndex] | None = None  # a state and its index
        self._job: _Job | None = None

    @property
    def is_busy(self) -> bool:
        """Whether an index is being made, or was made and not yet taken."""
        return self._job is not None

    @property
    def words(self) -> WordIndex | None:
        """The index of words to search until the first index is made, if it exists yet."""
        return self._job.words if self._job else None

    @property
    def progress(self) -> IndexProgress | None:
        """Progress of the first index; None if it is made or not begun."""
        return self._job.progress() if self._job and self.last is None else None

    def index_of(
        self,
        state: object,
        make: Make,
        count_words: IndexWords | None = None,
        *,
        at_once: bool = False,
    ) -> SkillIndex | WordIndex:
        """Return the index of a state, told apart by identity, as `make` makes it.

        With an executor the index of the state before is returned until it is made. If the first
        one takes long, `count_words` makes `words`, which are returned; before, an IndexingError.
        With `at_once` the caller makes it nevertheless, unless the executor is at work.
        If it could not be made, the next call tries again.
        """
        self._end_job()
        if self.last is not None and self.last[0] is state:
            return self.last[1]
        if self.executor is None or (at_once and self._job is None):
            self.last = (state, make(None))
        elif self._job is None:
            self._job = _Job(state, make, None if self.last else count_words, self.executor)
        index = self.last[1] if self.last else self.words
        if index is None:
            raise IndexingError(self.progress or IndexProgress())
        return index

    def _end_job(self) -> None:
        """Take up what came of the work of the executor, if it is done."""
        if (job := self._job) and job.future.done():
            self._job = None
            self.last = (job.state, job.future.result())


class _Job:
    """An index that is being made for a state."""

    def __init__(
        self, state: object, make: Make, count_words: IndexWords | None, executor: Executor
    ) -> None:
        self.state, self.make, self.count_words = state, make, count_words
        self.words: WordIndex | None = None
        self._read = self._embedded = (0, 0)
        self._embedding_since = 0.0
        self.future = executor.submit(self.run)

    def progress(self) -> IndexProgress:
        embedded, texts = self._embedded
        taken = time.monotonic() - self._embedding_since
        is_steady = embedded and taken > _STEADY_AFTER
        seconds_left = taken / embedded * (texts - embedded) if is_steady else None
        return IndexProgress(*self._read, embedded, texts, seconds_left)

    def run(self) -> SkillIndex:
        """Make the index and warm it up; if it takes long, make an index of words meanwhile."""
        timer = threading.Timer(WORDS_AFTER, self._count)
        timer.daemon = True
        timer.start()
        try:
            index = self.make(self._tell)
            with suppress(QueryError):
                index.search(ANY_QUERY, 1)
        finally:
            timer.cancel()
        return index

    def _count(self) -> None:
        try:
            self.words = self.count_words() if self.count_words else None
        except OSError as exc:
            logger.warning("Skills cannot be searched by words while they are indexed: %s", exc)

    def _tell(self, stage: str, done: int, total: int) -> None:
        if stage == "read":
            self._read = (done, total)
        elif stage == "embed":
            self._embedding_since = self._embedding_since or time.monotonic()
            self._embedded = (done, total)
