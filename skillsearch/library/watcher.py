"""Watches folders and tells when skills below them may have changed."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import TypeAlias

from skillsearch.errors import SkillSearchError, importing
from skillsearch.skills.discovery import is_skipped

_MAX_WAIT_MS = 10_000
"""Longest delay of a change while others follow it."""

# A root that exists: its real path, and what tells it from another folder at that path.
_Present: TypeAlias = tuple[str, int, int]

logger = logging.getLogger(__name__)


def require_watchfiles() -> ModuleType:
    """Import watchfiles; raises MissingDependencyError if it is not installed."""
    with importing("watchfiles", "watch", "Watching folders"):
        import watchfiles
    return watchfiles


def watch(
    paths: Sequence[Path],
    on_change: Callable[[frozenset[Path] | None], object],
    *,
    stop: Event,
    leave_out: Path | None = None,
    debounce_ms: int = 300,
    tick_ms: int = 500,
    poll_ms: int = 2_000,
) -> None:
    """Call a function whenever skills below some folders may have changed, until told to stop.

    Changes that follow each other closely lead to one call, in the watching thread, with the
    SKILL.md files and folders that changed. When the watch over the folders begins, it is called
    with None: it has to find out for itself. Its `SkillSearchError` and `OSError` are logged. A
    missing folder is waited for; changes in `leave_out`, such as the index folder, do not count.

    A change is reported after `debounce_ms` of quiet. Every `tick_ms` it is checked whether a root
    came or went, and every `poll_ms` all files are looked at if the system cannot report changes.

    Raises MissingDependencyError when watchfiles is not installed, and KeyboardInterrupt.
    """
    left_out = None if leave_out is None else Path(os.path.realpath(leave_out))
    watcher = _Watch(
        require_watchfiles(), paths, on_change, stop, left_out, debounce_ms, tick_ms, poll_ms
    )
    before: list[_Present] | None = None
    polls = False
    while not stop.is_set():
        if present := _present(watcher.paths):
            polls = watcher.follow(present, polls=polls)
        else:
            if present != before:
                watcher.tell(None)
            stop.wait(tick_ms / 1000)
        before = present


@dataclass(frozen=True, slots=True)
class _Watch:
    """What to watch, and how."""

    watchfiles: ModuleType
    paths: Sequence[Path]
    on_change: Callable[[frozenset[Path] | None], object]
    stop: Event
    leave_out: Path | None
    debounce_ms: int
    tick_ms: int
    poll_ms: int

    def follow(self, roots: list[_Present], *, polls: bool) -> bool:
        """Report changes until a root comes or goes; return whether to poll from then on."""
        places = {path for path, _, _ in roots}
        sieve = _Sieve(list(map(Path, places)), self.leave_out)
        is_new = True
        try:
            for changed in self._batches(places, polls=polls):
                if changed & places or _present(self.paths) != roots:
                    break
                # Every path goes through the sieve, which keeps track of the folders.
                matter = frozenset(path for path in map(Path, changed) if sieve.matters(path))
                if matter or is_new:
                    self.tell(None if is_new else matter)
                is_new = False
        except OSError as exc:
            # If it is not found, a root has just gone away.
            if not isinstance(exc, FileNotFoundError) and not polls:
                message = "The system cannot report changes (%s); looking every %g s instead."
                logger.warning(message, exc, self.poll_ms / 1000)
                polls = True
            self.stop.wait(self.tick_ms / 1000)
        return polls

    def _batches(self, places: Iterable[str], *, polls: bool) -> Iterator[set[str]]:
        """Yield the paths that changed together; at each tick without a change, none."""
        for changes in self.watchfiles.watch(
            *places,
            watch_filter=None,
            debounce=max(_MAX_WAIT_MS, self.debounce_ms),
            step=self.debounce_ms,
            stop_event=self.stop,
            rust_timeout=self.tick_ms,
            yield_on_timeout=True,
            force_polling=polls or None,
            poll_delay_ms=self.poll_ms,
            ignore_permission_denied=True,
        ):
            yield {path for _, path in changes}

    def tell(self, changed: frozenset[Path] | None) -> None:
        """Call `on_change`, unless the watch has ended."""
        if not self.stop.is_set():
            try:
                self.on_change(changed)
            except (SkillSearchError, OSError) as exc:
                logger.warning("%s Still watching.", exc)


class _Sieve:
    """Tells which changed paths matter: a Markdown file, or a folder that comes or goes."""

    def __init__(self, roots: Sequence[Path], leave_out: Path | None) -> None:
        self._roots, self._leave_out = roots, leave_out
        # Once a path is gone, only this set tells that it was a folder.
        self._folders = {folder for root in roots for folder in self._walk(root)}

    def matters(self, path: Path) -> bool:
        """Return whether a change of a path can change the skills."""
        if not any(self._reaches(root, path) for root in self._roots):
            return False
        if folders := set(self._walk(path)):
            self._folders |= folders
            return True
        was_folder = path in self._folders
        self._folders.discard(path)
        return was_folder or path.suffix.lower() == ".md"

    def _reaches(self, root: Path, path: Path) -> bool:
        out = self._leave_out
        is_left_out = out and out.is_relative_to(root) and path.is_relative_to(out)
        is_below = path.is_relative_to(root) and not is_left_out
        return is_below and not any(map(is_skipped, path.relative_to(root).parts))

    def _walk(self, folder: Path) -> Iterator[Path]:
        """Yield a folder and all folders below it in which skills are looked for.

        What is no folder, or cannot be looked at, has none.
        """
        for path, names, _ in os.walk(folder):
            here = Path(path)
            names[:] = (n for n in names if not is_skipped(n) and here / n != self._leave_out)
            yield here


def _present(paths: Iterable[Path]) -> list[_Present]:
    present = set()
    for path in paths:
        with suppress(OSError, ValueError):
            real = Path(os.path.realpath(path, strict=True))
            if stat.S_ISDIR((status := real.stat()).st_mode):
                present.add((str(real), status.st_dev, status.st_ino))
    return sorted(present)
