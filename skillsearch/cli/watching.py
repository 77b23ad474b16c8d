"""``skillsearch watch``."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from skillsearch.cli.indexing import choose_request, progress_bars
from skillsearch.cli.interrupts import INTERRUPTED
from skillsearch.cli.options import (
    Root,
    command,
    index_dir_option,
    json_option,
    languages_option,
    roots_argument,
)
from skillsearch.cli.output import emit_json, say
from skillsearch.cli.prompt_hook import forget_told
from skillsearch.config import load_settings

if TYPE_CHECKING:
    from types import FrameType

    from skillsearch.types import IndexReport, Languages, Progress


@command("watch")
@roots_argument()
@index_dir_option
@languages_option
@json_option
def watch_command(
    roots: tuple[Root, ...], index_dir: Path | None, languages: Languages | None, as_json: bool
) -> None:
    """Keep the index up to date until interrupted.

    Indexes first, as "skillsearch index [ROOT]..." does, and then again whenever skills change: one
    line on stderr each time, with --json one JSON object a line on stdout. A folder that vanishes
    is waited for, its skills stay in the index.
    """
    from skillsearch.library.watcher import require_watchfiles, watch

    require_watchfiles()
    from skillsearch.index.skill_index import SkillIndex

    settings = load_settings(index_dir=index_dir, languages=languages)
    request = choose_request(roots, settings)
    stop = Event()
    with _ended_by_sigterm(stop):
        with progress_bars() as bars:
            index, report = SkillIndex.build(
                request, settings.index_dir.absolute(), progress=_until(stop, bars)
            )
        forget_told(index.folder)
        _tell(report, as_json=as_json)

        def refresh(changed: frozenset[Path] | None) -> None:
            """Bring the index up to date; tell where that made it another."""
            before = index.generation
            if not changed and index.is_current():
                return
            report = index.refresh(only=sorted(changed or ()), progress=_until(stop))
            if index.generation != before:
                _tell(report, as_json=as_json)

        try:
            watch(request.roots, refresh, stop=stop, leave_out=index.folder)
        except KeyboardInterrupt:
            say("Stopped watching.")
            raise click.exceptions.Exit(INTERRUPTED) from None


@contextlib.contextmanager
def _ended_by_sigterm(stop: Event) -> Iterator[None]:
    """Take SIGTERM as the wish to end in good order."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        """Ask for the end."""
        stop.set()

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _until(stop: Event, bars: Progress | None = None) -> Progress:
    """Return a progress that ends the program between two steps of indexing when it is to stop."""

    def update(stage: str, done: int, total: int) -> None:
        """Show what is done, or end: what was embedded is kept."""
        if stop.is_set():
            raise click.exceptions.Exit(0)
        if bars:
            bars(stage, done, total)

    return update


def _tell(report: IndexReport, *, as_json: bool) -> None:
    """Say what was done: one line."""
    if as_json:
        emit_json(report.to_dict())
    else:
        say(
            f"{report.indexed:,} skills in the index: {report.indexed - report.reused:,} read, "
            f"{report.removed:,} removed, {report.skipped:,} skipped, {report.seconds:.2f} s"
        )
