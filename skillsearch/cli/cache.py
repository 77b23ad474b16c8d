"""``skillsearch cache``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli.options import command, json_option
from skillsearch.cli.output import emit_json, is_terminal, say, show_rows
from skillsearch.config import cache_dir, default_index_dir, load_settings
from skillsearch.daemon import client
from skillsearch.errors import DaemonError

if TYPE_CHECKING:
    from skillsearch.reports.cache import CacheEntry

    Sized = tuple[CacheEntry, int]

_HEADERS = ("kind", "size", "last used", "path", "made from")


@command("cache")
@click.option("--prune", is_flag=True, help="Remove what nothing needs, unused for 30 days.")
@click.option("--clear", is_flag=True, help="Remove everything that nothing needs.")
@json_option
def cache_command(prune: bool, clear: bool, as_json: bool) -> None:
    """Show what is in the user's cache folder, and empty it.

    These are needed and never removed: the index of the settings and the default one, those the
    daemon has open, archives that were indexed, files made by commands of skills, and whatever a
    process is writing. Everything else is rebuilt when it is needed again.

    --json prints: folder, bytes, entries, and removed; the last two hold for each entry kind, path,
    about, bytes, used (a time), and used_by.
    """
    from skillsearch.reports.cache import KEPT_SECONDS, read_cache, remove_unused

    if prune and clear:
        raise click.UsageError("Use one of --prune and --clear.")
    folder = cache_dir().resolve()
    in_use = _in_use()
    removed: list[Sized] = []
    # Twice: an archive is no longer needed once the last index over it is gone.
    for _ in range(2 if prune or clear else 0):
        unused = remove_unused(read_cache(folder, in_use), KEPT_SECONDS if prune else 0)
        removed += [(entry, entry.size()) for entry in unused]
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
    """Return the indexes that are needed, and what needs them."""
    in_use = {default_index_dir(): "the default", load_settings().index_dir: "the settings"}
    try:
        status = client.ask("status", seconds=client.QUERY_SECONDS)
    except DaemonError:
        status = None  # it is shutting down, or has another version
    for index in status["indexes"] if status else ():
        in_use[Path(index["index_dir"])] = "the daemon"
    return {path.resolve(): user for path, user in in_use.items()}


def _show(entries: Sequence[Sized], folder: Path) -> None:
    """Print entries, the largest first; with paths below the folder on a terminal."""
    rows: list[tuple[object, ...]] = []
    for entry, size in sorted(entries, key=lambda pair: (-pair[1], pair[0].path)):
        used = f"{datetime.fromtimestamp(entry.used).astimezone():%Y-%m-%d}"
        users = ", ".join(entry.used_by)
        if is_terminal():
            about = f"{entry.about}; needed by {users}" if users else entry.about
            rows.append((entry.kind, _in_mb(size), used, entry.path.relative_to(folder), about))
        else:
            rows.append((entry.kind, size, used, entry.path, entry.about, users))
    show_rows(rows, _HEADERS)


def _total(entries: Sequence[Sized]) -> int:
    return sum(size for _, size in entries)


def _in_mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
