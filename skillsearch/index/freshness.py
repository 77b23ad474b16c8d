"""Keep an index that is open like the disk."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic, thread_time
from typing import TYPE_CHECKING

from skillsearch.errors import LockTimeoutError, SkillSearchError
from skillsearch.index.next_steps import index_option
from skillsearch.settings.config import user_index_dir
from skillsearch.settings.table import Settings
from skillsearch.text.safe_text import listed

if TYPE_CHECKING:
    from skillsearch.index.indexing.changes import Changes
    from skillsearch.index.indexing.options import SegmentLimits
    from skillsearch.index.roots.request import IndexRequest
    from skillsearch.index.roots.root_change import RootChange
    from skillsearch.index.skill_index import SkillIndex

MAX_AGE = 1.0
"""Seconds for which a look at the disk serves whatever is asked of an index that stays open."""
PAUSE = 20
"""How many times as long as a look took the next one waits at least, so that looks are 5 %."""
# The stat of more files than this takes longer than the search itself.
MAX_CHECKED_SKILLS = 20_000
# More new skills than this take seconds to embed.
MAX_REFRESHED_FILES = 32
MAX_FOUND_SKILLS = 100
"""Skills of a new project or plugin that a question waits for."""
_AS_IT_WAS = "searching the index as it was"
# Somebody waits for the skills of a new folder: an index of more skills is not written anew.
_LEAST_WITH_DELTA = 1_000
# So long it waits for another process that takes up another project.
_LOCK_SECONDS = 3.0


def _stamp(folder: Path) -> tuple[int, ...]:
    from skillsearch.index.storage.cache import IndexFolder

    return IndexFolder(folder).stamp()


class LookTimer:
    """Decides when the disk must be looked at again; shared by all answers."""

    def __init__(self) -> None:
        """Begin without a look."""
        self.seconds = 0.0  # what the last look cost, in time of the processor
        self._looked = -math.inf

    def is_due(self, max_age: float) -> bool:
        """Return whether the last look is `max_age` seconds ago, and restart the clock if so.

        An age of 0 is always due.
        """
        now, pause = monotonic(), max(max_age, self.seconds * PAUSE) if max_age else 0
        is_due = now - self._looked >= pause
        self._looked = now if is_due else self._looked
        return is_due

    def is_current(self, compare: Callable[[], bool]) -> bool:
        """Return the result of a comparison with the disk, and remember its cost."""
        begun = thread_time()
        is_current = compare()
        self.take_cost(begun)
        return is_current

    def take_cost(self, begun: float) -> None:
        """Remember the cost of a look that began at a time of this thread."""
        self.seconds = thread_time() - begun


class Freshness:
    """Keeps an open index like the disk: the one rule for all that answer from an index.

    Before an answer the stats of all folders and files are compared, unless that was done within
    `MAX_AGE`, or within `PAUSE` times what it cost if that is longer. Up to `MAX_REFRESHED_FILES`
    new and changed files are indexed at once. More, and all if the model has changed, are left to
    the executor, and so is even the look above `MAX_CHECKED_SKILLS`; until it is done, the index is
    searched as it was. Without an executor the message says what to run. The skills of a root that
    is gone stay, and the other roots are kept up to date. What another process writes is searched
    from the next answer on.

    An index that follows hosts also takes up what they look for now: of the user, and of the
    projects that a question comes from, up to `MAX_FOUND_SKILLS` at once. Their chunks and
    examples, which are most of the text, are searched by words until the executor has embedded
    them, or without one the next question does. What hosts look for no longer goes.
    """

    def __init__(
        self, index: SkillIndex, executor: Executor | None = None, settings: Settings | None = None
    ) -> None:
        """Take an opened index, which is brought up to date in place, and what named it."""
        self.index, self._executor, self._settings = index, executor, settings
        self.problem = ""  # why the index is not like the disk, and in later sentences what helps
        self._timer = LookTimer()
        self._stamp = _stamp(index.folder)
        self._job: Future[None] | None = None
        self._gone = ""  # the problem of a root that is gone
        self._folders: set[str] = set()  # where questions came from since the last look

    progress = None  # words are searched only before the first index

    @property
    def is_busy(self) -> bool:
        """Whether the executor works on the index, or has finished since the last look."""
        return self._job is not None

    @property
    def _option(self) -> str:
        """The option by which a command names the index, if it has to."""
        return index_option(self.index.folder, self._settings)

    def _end_job(self) -> None:
        """Take up the result of the executor's work, if it is done."""
        if self._job and self._job.done():
            error, self._job = self._job.exception(), None
            failure = f"the index was not refreshed, {_AS_IT_WAS}: {error}" if error else ""
            self.problem = failure or self._gone

    def look(self, max_age: float | None = MAX_AGE, folders: Iterable[str] = ()) -> str:
        """Bring the index up to date by the rule, unless the last look is younger than `max_age`.

        For a question from other `folders` a look is always due. With None only what other
        processes wrote is taken up. Whatever goes wrong with the disk, the open index can still be
        searched. Returns messages for the user, a line each: what changed, and why the index stays
        as it was; empty for nothing.
        """
        self._end_job()
        event, stamp = "", _stamp(self.index.folder)
        try:
            if stamp != self._stamp:
                self.index.reopen()
                self._stamp = stamp
            is_new = not self._folders.issuperset(folders)
            is_due = max_age is not None and self._timer.is_due(0 if is_new else max_age)
            if is_due and (is_new or not self._job):
                self._folders = set(folders)
                event = self._compare()
                if self._executor and not self._job and _is_waiting(self.index):
                    self._begin()
        except SkillSearchError as exc:
            self.problem = self.problem or f"the index was not refreshed, {_AS_IT_WAS}: {exc}"
        return "\n".join(filter(None, [event, self.problem and f"warning: {self.problem}"]))

    def _compare(self) -> str:
        """Look at the disk, and return what changed and is searched now."""
        from skillsearch.index.indexing.changes import ChangeDetector
        from skillsearch.index.roots.request import IndexRequest
        from skillsearch.skills.discovery import make_roots
        from skillsearch.skills.example_requests import ExampleBook

        index = self.index
        has_changed_model = self.index.has_changed_model()
        self.problem = self._gone = ""
        request = IndexRequest.load(index.folder) or index.opened.settings.request()
        if (event := self._follow_hosts(request)) or self._job:
            return event
        roots = index.opened.settings.roots
        paths = {root.path for root in make_roots(request.roots)[0]}
        gone = tuple(root for root in roots if root.path not in paths)
        book = ExampleBook()
        detector = ChangeDetector(index.opened, index.folder, roots, gone=gone, book=book)
        has_come = len(paths) > len(roots) - len(gone)
        if gone:
            next_step = _next_step(request, self._option)
            state = _state_of(str(gone[0].path))
            self.problem = self._gone = (
                f"the folder {gone[0].path} {state}; {_AS_IT_WAS}. {next_step}"
            )
        if not has_changed_model:
            if len(index) > MAX_CHECKED_SKILLS:
                return self._begin()
            if not has_come and self._timer.is_current(detector.is_unchanged):
                self._finish()
                return ""
        report = (detector.by_stat() or detector.walk()).report()
        return self._search_anew(report, has_come=has_come, has_changed_model=has_changed_model)

    def _search_anew(self, report: Changes, *, has_come: bool, has_changed_model: bool) -> str:
        """Index a few changes at once, and return the line that reports them."""
        from skillsearch.index.roots.root_change import RootChange

        is_much = len(report.added) + len(report.changed) > MAX_REFRESHED_FILES
        if self._executor and (is_much or has_changed_model):
            self.problem = f"much has changed ({report}) and is being indexed; {_AS_IT_WAS}"
            return self._begin()
        if is_much and not has_changed_model:
            next_step = f"To fix: run `skillsearch index{self._option}`"
            self.problem = f"much has changed ({report}); {_AS_IT_WAS}. {next_step}"
            return ""
        if not self._may_write():
            return ""
        self._apply(RootChange(how="keep"), metadata_first=self._executor is not None)
        changes = [str(report)] if len(report) else []
        changes += ["a folder is back"] if has_come else []
        changes += ["its model has changed"] if has_changed_model else []
        return _refreshed(changes)

    def _follow_hosts(self, request: IndexRequest) -> str:
        """Take up what hosts look for now and did not before, and return what came and went.

        A request that does not say what it follows, of the user's own index, follows projects.
        """
        from skillsearch.index.roots.host_roots import is_followed

        folders = tuple(self._folders)
        is_unsaid = request.follows is None and self.index.folder == user_index_dir().absolute()
        if not is_unsaid and is_followed(request, folders):
            return ""
        from skillsearch.index.indexing.options import SegmentLimits
        from skillsearch.index.roots.request import key_of
        from skillsearch.index.roots.root_change import RootChange

        change = RootChange(how="keep", follows="projects" if is_unsaid else None, folders=folders)
        wanted = change.applied_to(request, unpack=False, missing="leave")
        new = [root for root in wanted.roots if root not in request.roots]
        soon, later = self._split(new, wanted)
        gone = [root for root in request.roots if root not in wanted.roots]
        keys = list(map(key_of, request.roots))
        if soon or gone or list(map(wanted.seen_by, keys)) != list(map(request.seen_by, keys)):
            if not self._may_write(_LOCK_SECONDS):
                return ""
            limits = SegmentLimits(least_documents=_LEAST_WITH_DELTA)
            first = replace(change, without=tuple(map(key_of, later)))
            self._apply(first, metadata_first=True, limits=limits)
        if later:
            self._take_up_later(change, later)
        parts = ((soon, "came"), (gone, "went"))
        return _refreshed([f"{listed(map(str, some), 3)} {what}" for some, what in parts if some])

    def _may_write(self, seconds: float = 0) -> bool:
        """Return whether no other process writes the index, or none does within some seconds."""
        if is_free(self.index.folder, seconds):
            return True
        self.problem = f"another process is writing the index; {_AS_IT_WAS}"
        return False

    def _apply(
        self, change: RootChange, *, metadata_first: bool, limits: SegmentLimits | None = None
    ) -> None:
        """Change the index, which keeps the skills of roots that are gone."""
        from skillsearch.index.indexing.options import IndexOptions

        options = IndexOptions(missing="keep", metadata_first=metadata_first)
        self.index.apply(change, replace(options, limits=limits) if limits else options)
        self._stamp = _stamp(self.index.folder)

    def _take_up_later(self, change: RootChange, roots: Sequence[Path]) -> None:
        """Leave a change to the executor, or say how to make it; `roots` are what is missing."""
        way = "are being indexed"
        if self._executor:
            self._job = self._job or self._executor.submit(_take_up, self.index.folder, change)
        else:
            way = f"are not indexed; to do it, run `skillsearch index{self._option}`"
        self.problem = f"the skills of {listed(map(str, roots), 3)} {way}"

    def _split(self, roots: Sequence[Path], wanted: IndexRequest) -> tuple[list[Path], list[Path]]:
        """Return the new roots that a question waits for, and the others; a project's come first.

        A question waits for as many of them as have `MAX_FOUND_SKILLS` skills together.
        """
        from skillsearch.index.roots.host_roots import count_skills
        from skillsearch.index.roots.request import key_of

        parts: tuple[list[Path], list[Path]] = ([], [])
        remaining = MAX_FOUND_SKILLS
        for root in sorted(roots, key=lambda root: key_of(root) not in wanted.projects):
            count = count_skills([root], remaining)
            parts[count > remaining].append(root)
            remaining -= count if count <= remaining else 0
        return parts

    def _finish(self) -> None:
        """Embed the texts that wait for it, unless an executor does."""
        from skillsearch.index.roots.root_change import RootChange

        if not self._executor and _is_waiting(self.index) and is_free(self.index.folder):
            self._apply(RootChange(how="keep"), metadata_first=False)

    def _begin(self) -> str:
        """Leave the rest to the executor, if there is one."""
        if self._executor:
            self._job = self._executor.submit(_renew, self.index.folder, self._timer)
        return ""


def _refreshed(changes: Sequence[str]) -> str:
    return f"index refreshed: {', '.join(changes)}" if changes else ""


def _is_waiting(index: SkillIndex) -> bool:
    """Return whether texts wait to be embedded, and are there."""
    return any(map(os.path.isdir, index.opened.settings.pending))


def is_free(folder: Path, seconds: float = 0) -> bool:
    """Return whether no process is writing an index, or none is within some seconds."""
    from skillsearch.index.storage.cache import IndexFolder

    with suppress(LockTimeoutError), IndexFolder(folder).lock(timeout=seconds):
        return True
    return False


def _take_up(folder: Path, change: RootChange) -> None:
    """Index what hosts look for, for those who have the index open."""
    from skillsearch.index.indexing.options import IndexOptions
    from skillsearch.index.skill_index import SkillIndex

    SkillIndex.open(folder).apply(change, IndexOptions(missing="keep"))


def _renew(folder: Path, timer: LookTimer) -> None:
    """Bring an index up to date for those who have it open."""
    from skillsearch.index.skill_index import SkillIndex

    index = SkillIndex.open(folder)
    begun = thread_time()
    before = index.generation
    if index.has_changed_model() or index.opened.settings.pending or not index.is_current():
        index.refresh(keep_missing=True)
    if index.generation == before:  # Else it was more than a look.
        timer.take_cost(begun)


def _state_of(root: str) -> str:
    try:
        os.scandir(root).close()
    except (FileNotFoundError, NotADirectoryError):
        return "is gone"
    except OSError as exc:
        return f"cannot be read ({exc.strerror})"
    return "has lost the link by which it was indexed"


def _next_step(request: IndexRequest, option: str) -> str:
    """Say how to go on with an index that has roots that cannot be indexed."""
    from skillsearch.index.roots.request import replace_command, usable_roots

    usable = usable_roots(request.named)
    if len(usable) == len(request.named):  # It was unpacked, and can be again.
        return f"To fix: run `skillsearch index{option}`"
    return f"Bring it back, or leave its skills out: {replace_command(usable, option)}"
