"""``skillsearch status``, ``doctor``, ``validate``, ``cache`` and ``daemon``."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch._version import __version__
from skillsearch.cli import options
from skillsearch.cli.output import describe, emit_json, emit_rows, is_terminal, say, show_rows
from skillsearch.config import cache_dir, default_index_dir, load_settings
from skillsearch.daemon import client
from skillsearch.errors import DaemonError
from skillsearch.index.opening import open_index

if TYPE_CHECKING:
    from skillsearch.reports.cache import CacheEntry
    from skillsearch.reports.status import Status

    Sized = tuple[CacheEntry, int]

INVALID = 3
END_SECONDS = 10.0
"""Longer than a stopping daemon waits for the answers it still owes."""


@options.command("status")
@options.index_dir
@options.backend
@options.as_json
def status_command(asked: options.Asked) -> int:
    """Check that the index matches the files on disk.

    Every file is hashed. Says what differs, and then exits with 1. For an index in Milvus it says
    what the index holds; no file is looked at.
    """
    from skillsearch.reports.status import status

    if asked.settings.backend == "milvus":
        _show_milvus(asked)
        return 0
    report = status(open_index(asked.settings))
    if asked.as_json:
        emit_json(report.to_dict())
    else:
        show_rows(_status_rows(report))
        say(f"note: {report.advice}" if report.advice else "")
    if not report.in_sync:
        say(f"The index differs from the disk ({report.differences}); run: skillsearch index")
    return 0 if report.in_sync else 1


def _show_milvus(asked: options.Asked) -> None:
    from skillsearch.cli.index import open_in_milvus

    with open_in_milvus(asked.settings) as index:
        made_with = index.settings
        record = {
            "indexed": len(index),
            "skipped": index.skipped,
            "collection": asked.settings.collection,
            "generation": index.generation,
            "models": [channel.model for channel in made_with.channels],
            "fields": "full" if made_with.with_body else "metadata",
            "languages": made_with.languages,
            "roots": [str(root.path) for root in made_with.roots],
        }
    if asked.as_json:
        emit_json(record)
    else:
        show_rows(record.items())


def _status_rows(report: Status) -> list[tuple[str, str]]:
    from skillsearch.index.languages import in_words, install_line
    from skillsearch.reports.status import describe_root

    rows = [
        ("verdict", "in sync with the disk" if report.in_sync else "differs from the disk"),
        ("skills", f"{report.indexed:,} indexed, {report.skipped:,} skipped"),
        ("reported", _in_words(report.diagnostics)),
        ("index", f"{report.index_dir} ({_in_mb(report.size_bytes)})"),
        ("generation", report.generation),
        ("model", f"{report.model}, fields {report.fields}, languages {report.languages}"),
    ]
    for channel in report.channels:
        text = f"{channel.model} ({channel.name}), {channel.dimensions} dimensions"
        text += f", {channel.vectors:,} vectors, for {channel.asked_about}"
        rows.append(
            ("channel", text + ("" if channel.usable else f"; not usable: {install_line()}"))
        )
    rows.append(("languages", in_words(report.skills_by_language)))
    rows += [("root", describe_root(root)) for root in report.roots]
    rows += [("missing root", path) for path in report.differences.missing_roots]
    for word in ("added", "changed", "removed"):
        rows += [(word, path) for path in getattr(report.differences, word)]
    return rows


@options.command("doctor")
@options.index_dir
@options.as_json
def doctor_command(asked: options.Asked) -> int:
    """Check the installation, the settings and the index.

    Exits with 1 if something does not work.
    """
    from skillsearch.reports.doctor import doctor

    checks = doctor(asked.flags["index_dir"])
    verdicts = [check.verdict for check in checks]
    if asked.as_json:
        counts = {name: verdicts.count(name) for name in ("ok", "warning", "error")}
        emit_json({**counts, "checks": [check.to_dict() for check in checks]})
    else:
        show_rows((check.verdict, check.name, check.detail) for check in checks)
    return 1 if "error" in verdicts else 0


@options.command("validate")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=options.EXISTING)
@options.as_json
def validate_command(asked: options.Asked) -> int:
    """Check skills against the Agent Skills specification.

    PATH is a skill folder, a SKILL.md, or a folder with skills below it. Exits with 3 if there are
    errors.
    """
    from skillsearch.reports.status import count_severities, validate_paths

    checked, found = validate_paths(asked.paths)
    counts = count_severities(found)
    if asked.as_json:
        diagnostics = [item.to_dict() for item in found]
        emit_json({"checked": checked, **counts, "diagnostics": diagnostics})
    else:
        emit_rows((describe(item),) for item in found)
        say(f"skills checked: {checked}; {_in_words(counts)}")
    return INVALID if counts["error"] else 0


@options.command("cache")
@options.flag("--prune", "Remove what nothing needs, unused for 30 days.")
@options.flag("--clear", "Remove everything that nothing needs.")
@options.as_json
def cache_command(asked: options.Asked) -> None:
    """Show what is in the user's cache folder, and empty it.

    These are needed and never removed: the index of the settings and the default one, those the
    daemon has open, archives that were indexed, files made by commands of skills, and whatever a
    process is writing. Everything else is rebuilt when it is needed again.

    --json prints: folder, bytes, entries, and removed; the last two hold for each entry kind, path,
    about, bytes, used (a time), and used_by.
    """
    from skillsearch.reports.cache import KEPT_SECONDS, read_cache, remove_unused

    if asked.prune and asked.clear:
        raise click.UsageError("Use one of --prune and --clear.")
    folder = cache_dir().resolve()
    in_use = _in_use()
    removed: list[Sized] = []
    # Twice: an archive is no longer needed once the last index over it is gone.
    for _ in range(2 if asked.prune or asked.clear else 0):
        unused = remove_unused(read_cache(folder, in_use), KEPT_SECONDS if asked.prune else 0)
        removed += [(entry, entry.size()) for entry in unused]
    left = [(entry, entry.size()) for entry in read_cache(folder, in_use)]
    total, freed = (sum(size for _, size in entries) for entries in (left, removed))
    if asked.as_json:
        lists = {"entries": left, "removed": removed}
        records = {name: [one.to_dict(size) for one, size in lists[name]] for name in lists}
        emit_json({"folder": str(folder), "bytes": total, **records})
        return
    _show_entries(removed if asked.prune or asked.clear else left, folder)
    if asked.prune or asked.clear:
        say(f"{len(removed)} removed, {_in_mb(freed)}")
    say(f"{len(left)} in {folder}, {_in_mb(total)}")


def _in_use() -> dict[Path, str]:
    in_use = {default_index_dir(): "the default", load_settings().index_dir: "the settings"}
    try:
        status = client.ask("status", seconds=client.QUERY_SECONDS)
    except DaemonError:
        status = None  # it is shutting down, or has another version
    for index in status["indexes"] if status else ():
        in_use[Path(index["index_dir"])] = "the daemon"
    return {path.resolve(): user for path, user in in_use.items()}


def _show_entries(entries: Sequence[Sized], folder: Path) -> None:
    rows: list[tuple[object, ...]] = []
    for entry, size in sorted(entries, key=lambda pair: (-pair[1], pair[0].path)):
        used = f"{datetime.fromtimestamp(entry.used).astimezone():%Y-%m-%d}"
        users = ", ".join(entry.used_by)
        if is_terminal():
            about = f"{entry.about}; needed by {users}" if users else entry.about
            rows.append((entry.kind, _in_mb(size), used, entry.path.relative_to(folder), about))
        else:
            rows.append((entry.kind, size, used, entry.path, entry.about, users))
    show_rows(rows, ("kind", "size", "last used", "path", "made from"))


@options.command("daemon")
@click.argument("action", type=click.Choice(["start", "stop", "status"]))
@options.option(
    "--idle MINUTES",
    "With start: stop after this time without a query. [default: 15]",
    type=click.FloatRange(min=0, max=7 * 24 * 60, min_open=True),
)
@options.as_json
def daemon_command(asked: options.Asked) -> int:
    """Keep model and index warm in the background.

    "query" and "hook" use it, and work without it, only slower; "hook" starts it by itself. Each
    user has one, and it stops when idle. SKILLSEARCH_DAEMON=off turns it off. "status" exits with 1
    if none runs.
    """
    if asked.idle is not None and asked.action != "start":
        raise click.UsageError("--idle goes with start.")
    if asked.action == "start":
        _start(client.IDLE_SECONDS if asked.idle is None else asked.idle * 60)
    elif asked.action == "stop":
        _stop()
    status = client.ask("status", seconds=client.QUERY_SECONDS)
    if asked.as_json:
        emit_json({"running": status is not None, **(status or {})})
    elif asked.action == "status" and status is not None:
        rows = [(key, status[key]) for key in ("pid", "version", "seconds", "answered")]
        emit_rows(rows + [("index", index["index_dir"]) for index in status["indexes"]])
    if asked.action == "status" and status is None:
        say("No daemon is running; to start one: skillsearch daemon start")
        return 1
    return 0


def _start(idle: float) -> None:
    status = client.ask("status", seconds=client.QUERY_SECONDS)
    if status is None:
        client.start(idle=idle)
        status = client.ask("status", seconds=client.QUERY_SECONDS)
        if status is None:
            raise DaemonError("The previous daemon is still stopping; try again in a moment.")
        say(f"The daemon runs (pid {status['pid']}); it stops after {idle / 60:g} idle minutes.")
    elif status["version"] != __version__:
        raise DaemonError(
            f"A daemon of version {status['version']} runs; to stop it: skillsearch daemon stop"
        )
    else:
        say(f"The daemon already runs (pid {status['pid']}).")


def _stop() -> None:
    stopped = client.ask("stop", seconds=client.QUERY_SECONDS)
    if stopped is None:
        say("No daemon is running.")
        return
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        try:
            os.kill(int(stopped["pid"]), 0)
        except ProcessLookupError:
            say("The daemon has stopped.")
            return
        time.sleep(0.02)
    raise DaemonError(f"The daemon does not stop; to end it: kill {stopped['pid']}")


def _in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{severity}s: {count}" for severity, count in counts.items())


def _in_mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
