"""``skillsearch watch``: keep the index up to date."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from skillsearch.cli import options
from skillsearch.cli.indexing import check_settings
from skillsearch.cli.options import NamedRoot, read_settings
from skillsearch.cli.output import emit_json, lost, progress_bars, say
from skillsearch.index.absence import forget_report
from skillsearch.index.roots.held import request_of
from skillsearch.index.roots.root_change import RootChange, default_follows
from skillsearch.library import watcher
from skillsearch.settings.environ import INTERRUPTED
from skillsearch.text.safe_text import counted
from skillsearch.types.indexing import IndexReport, Progress

if TYPE_CHECKING:
    from skillsearch.index.skill_index import SkillIndex


@click.command("watch")
@options.roots()
@options.index_dir
@options.trust
@options.as_json(lambda: options.models.WATCH)
def watch_command(roots: tuple[NamedRoot, ...], as_json: bool) -> None:
    """Keep the index up to date until interrupted.

    Indexes first, as "skillsearch index [ROOT]..." does, and again whenever skills change: one line
    on stderr each time, with --json one JSON object a line on stdout. If a folder disappears, its
    skills stay in the index until it is back.
    """
    watcher.require_watchfiles()
    from skillsearch.index.indexing.options import IndexOptions
    from skillsearch.index.skill_index import SkillIndex

    settings = read_settings()
    follows = default_follows(settings, "add", request_of(settings), is_named=bool(roots))
    check_settings(settings)
    change = RootChange(roots, settings=settings, follows=follows, folders=(Path.cwd(),))
    with _until_sigterm() as stop:
        with progress_bars() as bars:
            run = IndexOptions(progress=partial(_go_on, stop, bars))
            index, report = SkillIndex.build(change, settings.index_dir.absolute(), run)
        forget_report(index.folder)
        _show_again(report, as_json=as_json)
        refresh = partial(_follow, index, stop, as_json=as_json)
        try:
            folders = [root.path for root in index.opened.settings.roots]
            watcher.watch(folders, refresh, stop=stop, leave_out=index.folder)
        except KeyboardInterrupt as exc:
            say("Stopped watching.")
            raise click.exceptions.Exit(INTERRUPTED) from exc
        except _OutputEnded as exc:
            raise exc.error from exc


class _OutputEnded(Exception):
    """What is printed cannot be written, which no later change will mend."""

    def __init__(self, error: OSError) -> None:
        self.error = error


@contextmanager
def _until_sigterm() -> Iterator[Event]:
    """Give an event that SIGTERM sets."""
    stop = Event()
    handler = signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, handler)


def _follow(
    index: SkillIndex, stop: Event, changed: frozenset[Path] | None, *, as_json: bool
) -> None:
    before = index.generation
    if changed or not index.is_current():
        report = index.refresh(only=sorted(changed or ()), progress=partial(_go_on, stop, None))
        if index.generation != before:
            try:
                _show_again(report, as_json=as_json)
            except OSError as exc:
                raise _OutputEnded(exc) from exc


def _show_again(report: IndexReport, *, as_json: bool) -> None:
    if as_json:
        emit_json(report.to_dict())
    else:
        say(
            f"{lost(report.skipped)}{counted(report.indexed, 'skill')} in the index: "
            f"{report.indexed - report.reused:,} read, {report.removed:,} removed, "
            f"{report.seconds:.2f} s"
        )


def _go_on(stop: Event, bars: Progress | None, stage: str, done: int, total: int) -> None:
    """End the program between two steps of indexing, or move the bar; embedded texts are kept."""
    if stop.is_set():
        raise click.exceptions.Exit(0)
    if bars:
        bars(stage, done, total)
