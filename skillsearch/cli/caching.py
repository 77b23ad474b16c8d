"""``skillsearch cache``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli.options import command, json_option
from skillsearch.cli.output import emit_json, emit_rows, is_terminal, say
from skillsearch.config import cache_dir, default_index_dir, load_settings
from skillsearch.daemon import client
from skillsearch.errors import DaemonError

if TYPE_CHECKING:
    from skillsearch.reports.cache import CacheEntry

    Sized = tuple[CacheEntry, int]

_HEADERS = ("what", "size", "last used", "place", "of")


@command("cache")
@click.option("--prune", is_flag=True, help="Remove what nothing needs, unused for 30 days.")
@click.option("--clear", is_flag=True, help="Remove all that nothing needs, used lately or not.")
@json_option
def cache_command(prune: bool, clear: bool, as_json: bool) -> None:
    """Show what lies in the user's cache folder, and empty it.

    These are needed and never removed: the index of the settings and the default one, those that
    the daemon holds, archives that an index is over, files that commands of skills made, and
    whatever a process is writing. All else is made anew when it is asked for again.

    --json prints: folder, bytes, entries, and removed; the last two hold for each entry kind, path,
    about, bytes, used (a time), and used_by.
    """
    from skillsearch.reports.cache import KEPT_SECONDS, read_cache, remove_unused

    if prune and clear:
        raise click.UsageError("Use one of --prune and --clear.")
    folder = cache_dir().resolve()
    in_use = _in_use()
    removed: list[Sized] = []
    # Twice: an archive is needed no more once the last index over it is gone.
    for _ in range(2 if prune or clear else 0):
        for entry in remove_unused(read_cache(folder, in_use), KEPT_SECONDS if prune else 0):
            removed.append((entry, entry.size()))
    left = [(entry, entry.size()) for entry in read_cache(folder, in_use)]
    if as_json:
        lists = {"entries": left, "removed": removed}
        records = {name: [one.to_dict(size) for one, size in lists[name]] for name in lists}
        emit_json({"folder": str(folder), "bytes": _total(left), **records})
        return
    _show(removed if prune or clear else left, folder)
    if prune or clear:
        say(f"{len(removed)} removed, {_in_mb(_total(removed))}")
    say(f"{len(left)} in {folder}, {_in_mb(_total(left))}")


def _in_use() -> dict[Path, str]:
    """Return the indexes that are needed, and by what."""
    in_use = {default_index_dir(): "the default", load_settings().index_dir: "the settings"}
    try:
        status = client.ask("status", seconds=client.QUERY_SECONDS)
    except DaemonError:
        status = None  # it is just ending, or of another version
    for index in status["indexes"] if status else ():
        in_use[Path(index["index_dir"])] = "the daemon"
    return {path.resolve(): user for path, user in in_use.items()}


def _show(entries: Sequence[Sized], folder: Path) -> None:
    """Print entries, the largest first: as a table on a terminal, else parted by tabs."""
    rows: list[tuple[object, ...]] = []
    for entry, size in sorted(entries, key=lambda pair: (-pair[1], pair[0].path)):
        used = f"{datetime.fromtimestamp(entry.used).astimezone():%Y-%m-%d}"
        users = ", ".join(entry.used_by)
        if is_terminal():
            place = entry.path.relative_to(folder)
            of = f"{entry.about}; needed by {users}" if users else entry.about
            rows.append((entry.kind, _in_mb(size), used, place, of))
        else:
            rows.append((entry.kind, size, used, entry.path, entry.about, users))
    if is_terminal():
        from skillsearch.cli.tables import print_rows

        print_rows(rows, _HEADERS)
    else:
        emit_rows(rows)


def _total(entries: Sequence[Sized]) -> int:
    """Return how many bytes entries take together."""
    return sum(size for _, size in entries)


def _in_mb(size: int) -> str:
    """Write a number of bytes for a person."""
    return f"{size / 1e6:.1f} MB"
