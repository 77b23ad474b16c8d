"""Making the index of a library: while its caller waits, or beside it in an executor."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field

from skillsearch.errors import IndexingError, QueryError
from skillsearch.index.skill_index import SkillIndex
from skillsearch.types import Progress

ANY_QUERY = "a task"
"""Searched for where all that counts is that the first search, which is slow, is done."""


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

    def index_of(self, state: object, make: Callable[[Progress], SkillIndex]) -> SkillIndex:
        """Return the index of a state.

        Args:
            state: What is indexed, told from others by its identity.
            make: Makes the index; called where that of the state is not there yet.

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
            self._job = _Job.start(self._executor, state, make)
        if self._last is None:
            raise IndexingError(*(self._job.progress if self._job else (0, 0)))
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
    progress: tuple[int, int] = (0, 0)
    future: Future[SkillIndex] = field(init=False)

    @classmethod
    def start(
        cls, executor: Executor, state: object, make: Callable[[Progress], SkillIndex]
    ) -> _Job:
        """Have an index made, and its first search, which is slow, done."""
        job = cls(state)
        job.future = executor.submit(job._run, make)
        return job

    def _run(self, make: Callable[[Progress], SkillIndex]) -> SkillIndex:
        """Make the index."""
        index = make(self._tell)
        with suppress(QueryError):
            index.search(ANY_QUERY, 1)
        return index

    def _tell(self, stage: str, done: int, total: int) -> None:
        """Keep how far the slow part of it is."""
        if stage == "embed":
            self.progress = (done, total)


def _untold(stage: str, done: int, total: int) -> None:
    """Tell nobody."""
