"""``skillsearch watch``."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from skillsearch.cli.hook import forget_told
from skillsearch.cli.index import choose_request
from skillsearch.cli.interrupts import INTERRUPTED
from skillsearch.cli.options import (
    Flags,
    Root,
    command,
    index_dir_option,
    json_option,
    languages_option,
    roots_argument,
)
from skillsearch.cli.output import emit_json, progress_bars, say
from skillsearch.config import load_settings

if TYPE_CHECKING:
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.types import IndexReport, Progress


@command("watch")
@roots_argument()
@index_dir_option
@languages_option
@json_option
def watch_command(flags: Flags, roots: tuple[Root, ...], as_json: bool) -> None:
    """Keep the index up to date until interrupted.

    Indexes first, as "skillsearch index [ROOT]..." does, and again whenever skills change: one line
    on stderr each time, with --json one JSON object a line on stdout. If a folder disappears, its
    skills stay in the index until it is back.
    """
    from skillsearch.library.watcher import require_watchfiles, watch

    require_watchfiles()
    from skillsearch.index.skill_index import SkillIndex

    settings = load_settings(**flags)
    request = choose_request(roots, settings)
    stop = Event()
    with _stopped_by_sigterm(stop):
        with progress_bars() as bars:
            progress = _until(stop, bars)
            folder = settings.index_dir.absolute()
            index, report = SkillIndex.build(request, folder, progress=progress)
        forget_told(index.folder)
        _show(report, as_json=as_json)
        refresh = partial(_refresh, index, stop, as_json=as_json)
        try:
            watch(request.roots, refresh, stop=stop, leave_out=index.folder)
        except KeyboardInterrupt:
            say("Stopped watching.")
            raise click.exceptions.Exit(INTERRUPTED) from None


def _refresh(
    index: SkillIndex, stop: Event, changed: frozenset[Path] | None, *, as_json: bool
) -> None:
    """Bring the index up to date; report a new generation."""
    before = index.generation
    if not changed and index.is_current():
        return
    report = index.refresh(only=sorted(changed or ()), progress=_until(stop))
    if index.generation != before:
        _show(report, as_json=as_json)


@contextlib.contextmanager
def _stopped_by_sigterm(stop: Event) -> Iterator[None]:
    """Set an event on SIGTERM, for a clean end."""
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _until(stop: Event, bars: Progress | None = None) -> Progress:
    """Return a progress that ends the program between two steps of indexing."""

    def update(stage: str, done: int, total: int) -> None:
        """Move the bar, or end; embedded texts are kept."""
        if stop.is_set():
            raise click.exceptions.Exit(0)
        if bars:
            bars(stage, done, total)

    return update


def _show(report: IndexReport, *, as_json: bool) -> None:
    if as_json:
        emit_json(report.to_dict())
    else:
        say(
            f"{report.indexed:,} skills in the index: {report.indexed - report.reused:,} read, "
            f"{report.removed:,} removed, {report.skipped:,} skipped, {report.seconds:.2f} s"
        )
