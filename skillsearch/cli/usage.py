"""``skillsearch usage``: what was asked, offered and loaded, as far as it is kept, and pins."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal

import click

from skillsearch.cli import options
from skillsearch.cli.app import has_consent, refuse
from skillsearch.cli.options import read_settings
from skillsearch.cli.output import emit_json, say, show_rows
from skillsearch.errors import ConfigError, SkillError
from skillsearch.index.opening import open_fresh
from skillsearch.index.roots.scope import scope_of
from skillsearch.index.search.options import check_query
from skillsearch.settings.table import Settings
from skillsearch.text.safe_text import counted, listed, one_line, visible
from skillsearch.usage.consent import set_usage, turn_on

if TYPE_CHECKING:
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.usage.log import UsageLog
    from skillsearch.usage.report import UsageReport

ALL = "all"
_SHOWN = 10
_QUESTION = (
    "Shall skillsearch learn from use, by keeping on this machine alone which skills a request led "
    "to, the request as a hash and a vector without its words?"
)
_STORED = {
    "off": "Usage is off: new requests are not kept.",
    "hashes": "Kept of a request: a keyed hash and a vector, which can say something about its "
    "text; no words.",
    "text": "Kept of a request: its words, a keyed hash and a vector.",
}
_COLUMNS = ("what", "count", "skills", "detail")


@click.command("usage")
@click.option("--days", type=options.Count(1), metavar="N", help="Only the last N days.")
@click.option(
    "--forget",
    is_flag=False,
    flag_value=ALL,
    metavar="[NAME|all]",
    help="Remove the events of a skill, or all of them.",
)
@click.option(
    "--pin",
    nargs=2,
    metavar="REQUEST NAME",
    help="Have a request always count as one that led to a skill.",
)
@click.option("--unpin", nargs=2, metavar="REQUEST NAME", help="Take that back.")
@options.yes
@options.all_projects
@options.index_dir
@options.header
@options.as_json(lambda: options.models.USAGE)
def usage_command(
    days: int | None,
    forget: str | None,
    pin: tuple[str, str] | None,
    unpin: tuple[str, str] | None,
    yes: bool,
    as_json: bool,
) -> int:
    """Show which skills are used, which collide, and what is missing.

    It says what is kept of your requests, on this machine alone, and where: nothing unless the
    setting "usage" says so. Skills are never offered, never loaded, or offered and passed over. Two
    collide that are offered together and loaded in turns. Gaps are requests like each other that
    nothing answered. If the hook works in the shadow, it also shows what it would have offered.
    """
    refuse(
        sum(part is not None for part in (days, forget, pin, unpin)) > 1,
        "--days, --forget, --pin and --unpin are different things; use one of them.",
    )
    # Help is shown without an index.
    from skillsearch.usage.log import UsageLog
    from skillsearch.usage.recording import origin_of

    settings = read_settings()
    log = UsageLog.own(has_text=settings.usage == "text")
    if forget is not None:
        count = _forget(log, settings, forget, yes=yes)
        return _emit_change(count, log, "forgotten", as_json=as_json)
    if pin:
        refuse(settings.usage == "off", f"Nothing is kept, so nothing can be pinned. {turn_on()}.")
        check_query(pin[0])
        index, skill = _named(settings, pin[1])
        log.pin(origin_of(index, settings.selection), pin[0], index.analyse(pin[0]).vector, skill)
        return _emit_change(1, log, "pinned", as_json=as_json)
    if unpin:
        index, skill = _named(settings, unpin[1])
        count = log.unpin(origin_of(index), unpin[0], skill)
        return _emit_change(count, log, "unpinned", as_json=as_json)
    _show(log, settings, days, as_json=as_json)
    return 0


def ask_for_usage(settings: Settings) -> None:
    """Ask on a terminal, once, whether to keep usage; the answer goes into the user's settings.

    A ConfigError if these cannot be written, or are changed meanwhile.
    """
    if "usage" in settings.sources or not options.is_interactive():
        return
    choice: Literal["hashes", "off"] = "off"
    if click.confirm(_QUESTION, default=False, err=True):
        choice = "hashes"
    path = set_usage(choice)
    say(f'{visible(str(path))}: usage = "{choice}"; see skillsearch usage')


def _named(settings: Settings, name: str) -> tuple[SkillIndex, str]:
    """Return the index, and the id of the skill that a name means in it."""
    index = open_fresh(settings, say)
    return index, index.find(name, scope_of(settings.selection)).doc_id


def _forget(log: UsageLog, settings: Settings, name: str, *, yes: bool) -> int | None:
    """Remove the events of a skill, or all; return their number, None if nobody agreed."""
    skills = None if name == ALL else {name}
    if skills is not None:
        with suppress(SkillError, ConfigError):  # it may be gone, and is known by its id then
            skills.add(_named(settings, name)[1])
        refuse(not skills & log.skills(), f"Nothing is kept of {one_line(name, 80)!r}.")
    what = f"all of {visible(str(log.file))}" if skills is None else f"what is kept of {name}"
    say(f"This removes {what}.")
    if not has_consent("Nothing was removed. To do it: --yes", yes=yes):
        return None
    return log.forget(skills)


def _emit_change(count: int | None, log: UsageLog, what: str, *, as_json: bool) -> int:
    """Say what a change did, and return the exit code: 1 if nobody agreed, so `count` is None."""
    if as_json:
        emit_json({"file": str(log.file), what: count or 0, "done": count is not None})
    elif count is not None:
        say(f"{what}: {counted(count, 'event')} in {visible(str(log.file))}")
    return int(count is None)


def _show(log: UsageLog, settings: Settings, days: int | None, *, as_json: bool) -> None:
    # What is only kept needs no report.
    from skillsearch.usage.recording import names_by_vectors, origin_of
    from skillsearch.usage.report import UsageReport
    from skillsearch.usage.support import DAY

    index = open_fresh(settings, say)
    since = time.time() - days * DAY if days else 0
    origin = origin_of(index, settings.selection)
    events = [event for event in log.of_index(origin) if event.at >= since]
    documents = list(index.documents(scope_of(settings.selection)))
    names = {document.doc_id: index.handle(document) for document in documents}
    nearest = partial(names_by_vectors, index)
    report = UsageReport.of(events, names, nearest, origin, index.model.dimensions)
    size = log.file.stat().st_size if log.file.is_file() else 0
    if as_json:
        head = {"usage": settings.usage, "file": str(log.file), "bytes": size, "days": days}
        emit_json({**head, **report.to_dict()})
        return
    say(_STORED[settings.usage])
    say(
        f"{visible(str(log.file))}: {counted(size, 'byte')}; of this index "
        f"{counted(report.requests, 'request')}, {counted(report.loads, 'load')}, "
        f"{counted(report.pins, 'pin')}; {report.with_text:,} of these with words"
    )
    if settings.usage == "off":
        say(f"{turn_on()}.")
    if events:
        show_rows(_rows(report), _COLUMNS, columns=_COLUMNS)


def _rows(report: UsageReport) -> Iterator[tuple[object, ...]]:
    """Yield the lines of a report, the most frequent first, no more than fit on a screen."""
    for what, names in (
        ("never offered", report.never_offered),
        ("never loaded", report.never_loaded),
    ):
        yield what, len(names), listed(names, _SHOWN), ""
    for passed in report.passed_over[:_SHOWN]:
        yield "passed over", passed.offered, passed.skill, "offered, never loaded"
    for pair in report.collisions[:_SHOWN]:
        first, second = pair.loaded
        yield "collide", pair.together, ", ".join(pair.skills), f"loaded {first} and {second} times"
    for gap in report.gaps[:_SHOWN]:
        texts = "; ".join(gap.texts) or counted(gap.requests, "request")
        yield "gap", gap.times, f"nearest: {gap.nearest}", texts
    for shadow in report.shadow[:_SHOWN]:
        instead = f"loaded: {shadow.loaded or 'nothing'}"
        yield "shadow", shadow.times, ", ".join(shadow.offered) or "none", instead
