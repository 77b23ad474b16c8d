"""``skillsearch cache``: what is in the user's cache folder."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli import options, output
from skillsearch.cli.app import refuse
from skillsearch.cli.output import say
from skillsearch.daemon import client
from skillsearch.settings.config import load_settings
from skillsearch.settings.user_folders import cache_dir, default_index_dir
from skillsearch.types.json_values import JsonObject

if TYPE_CHECKING:
    from skillsearch.reports.cache import CacheEntry

    Sized = dict[CacheEntry, int]


@click.command("cache")
@click.option(
    "--prune", is_flag=True, help="Remove entries that nothing needs, unused for 30 days."
)
@click.option("--clear", is_flag=True, help="Remove everything that nothing needs.")
@options.header
@options.as_json(lambda: options.models.CACHE)
def cache_command(prune: bool, clear: bool, as_json: bool) -> None:
    """Show what is in the user's cache folder, and empty it.

    These are needed and never removed: the index of the settings and the default one, those the
    daemon has open, archives that were indexed, files made by commands of skills, and whatever a
    process is writing. Everything else is rebuilt when it is needed again.
    """
    from skillsearch.reports.cache import KEPT_SECONDS, empty_cache, read_cache

    refuse(prune and clear, "Use one of --prune and --clear.")
    removes = prune or clear
    folder, in_use = cache_dir().resolve(), _in_use()
    removed = empty_cache(folder, in_use, KEPT_SECONDS if prune else 0) if removes else {}
    kept = {entry: entry.size() for entry in read_cache(folder, in_use)}
    total = sum(kept.values())
    if as_json:
        record: JsonObject = {"folder": str(folder), "bytes": total}
        for name, some in (("entries", kept), ("removed", removed)):
            record[name] = [entry.to_dict(size) for entry, size in some.items()]
        output.emit_json(record)
        return
    _show_entries(removed if removes else kept, folder)
    if removes:
        say(f"{len(removed)} removed, {output.in_mb(sum(removed.values()))}")
    say(f"{len(kept)} in {folder}, {output.in_mb(total)}")


def _in_use() -> dict[Path, str]:
    in_use = {default_index_dir(): "the default", load_settings().index_dir: "the settings"}
    in_use |= dict.fromkeys(map(Path, client.open_indexes()), "the daemon")
    return {path.resolve(): user for path, user in in_use.items()}


def _show_entries(entries: Sized, folder: Path) -> None:
    rows: list[tuple[object, ...]] = []
    for entry, size in sorted(entries.items(), key=lambda pair: (-pair[1], pair[0].path)):
        used = f"{datetime.fromtimestamp(entry.used).astimezone():%Y-%m-%d}"
        users = ", ".join(entry.used_by)
        if output.is_terminal():
            about = f"{entry.about}; needed by {users}" if users else entry.about
            rows.append(
                (entry.kind, output.in_mb(size), used, entry.path.relative_to(folder), about)
            )
        else:
            rows.append((entry.kind, size, used, entry.path, entry.about, users))
    columns = ("kind", "bytes", "used", "path", "about", "used_by")
    heads = ("kind", "size", "last used", "path", "made from")
    output.show_rows(rows, heads, columns=columns)
