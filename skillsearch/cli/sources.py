"""``skillsearch add``, ``remove`` and ``update``: sources of skills, and the lock file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from skillsearch.cli import options
from skillsearch.cli.indexing import build_index, check_settings, show_folders
from skillsearch.cli.options import check_size, is_interactive, read_settings
from skillsearch.cli.output import emit_json, progress_bars, say
from skillsearch.errors import RootError, StorageError
from skillsearch.index.next_steps import index_option
from skillsearch.index.roots.held import held_roots
from skillsearch.index.roots.root_change import RootChange
from skillsearch.library.added_sources import (
    SkillChanges,
    added,
    adding,
    compare,
    named_sources,
    remove_added,
    update_added,
)
from skillsearch.roots.lock import LockedSource, read_lock
from skillsearch.roots.sources import added_source, folder_of, is_bundle, shown
from skillsearch.settings.config import of_own_index
from skillsearch.settings.table import Settings
from skillsearch.settings.values import is_url
from skillsearch.text.safe_text import counted, listed
from skillsearch.types.json_values import JsonObject, texts_of

_MOST_NAMED = 10
_SOURCE = options.NamedPath(readable=False)


@click.command("add")
@click.argument("texts", nargs=-1, required=True, metavar="SOURCE...", type=_SOURCE)
@options.index_dir
@options.as_json(lambda: options.models.SOURCES)
def add_command(texts: tuple[str, ...], as_json: bool) -> None:
    """Add skills from elsewhere to the index, and pin their content.

    SOURCE is OWNER/REPO on GitHub, maybe with @REF and /FOLDER; the URL of a repository, an archive
    or a SKILL.md; https://HOST for the skills that a host offers at
    /.well-known/agent-skills/index.json; mcp+https://HOST/PATH for an MCP server of skills; or a
    folder here. What comes from elsewhere is not offered in prompts until you vouch for it. The
    lock file next to your settings lists them; nothing is fetched again unless you update.
    """
    from skillsearch.reports.host_folders import report_folders

    settings = read_settings()
    check_settings(settings)
    sources = {added_source(text): text for text in texts}
    sources = {source: text if is_url(source) else source for source, text in sources.items()}
    for source in sources:
        if not is_bundle(source):
            check_size(Path(source), is_agreed=False, may_agree=False)
    with added(sources):
        change = adding(sources, settings)
        index, report = build_index(change)
        if change.follows == "hosts" and not as_json:
            show_folders(report_folders(index, Path.cwd()))
    records = [_record(source, text) for source, text in sources.items()]
    _show(records, report.indexed, "added", as_json=as_json)
    if fetched := list(filter(is_bundle, sources)):
        _say_how_to_vouch(fetched, settings)


def _say_how_to_vouch(fetched: Sequence[str], settings: Settings) -> None:
    names = (name if shown(name) == name else str(folder_of(name)) for name in fetched)
    trust = shlex.join(word for name in names for word in ("--trust", f"{name}=vetted"))
    option = index_option(of_own_index(settings).index_dir.absolute())
    command = f"skillsearch index {trust}{option}"
    say(f"note: prompt and hook do not offer these skills; to vouch for them: {command}")


@click.command("remove")
@click.argument("texts", nargs=-1, required=True, metavar="SOURCE...", type=_SOURCE)
@options.index_dir
@options.as_json(lambda: options.models.SOURCES)
def remove_command(texts: tuple[str, ...], as_json: bool) -> None:
    """Take a source out of the index and the lock file.

    It is named as it was added, or by its root.
    """
    from skillsearch.index.indexing.options import IndexOptions

    settings = of_own_index(read_settings())
    sources = named_sources(texts, read_lock(), held_roots(settings))
    records = [_record(source, text) for source, text in sources.items()]
    with progress_bars() as bars:
        indexed = remove_added(sources, settings, IndexOptions(progress=bars))
    _show(records, indexed, "removed", as_json=as_json)


@click.command("update")
@click.argument("texts", nargs=-1, metavar="[SOURCE]...", type=_SOURCE)
@click.option("--yes", is_flag=True, help="Take changes without asking.")
@options.index_dir
@options.as_json(lambda: options.models.UPDATED)
def update_command(texts: tuple[str, ...], yes: bool, as_json: bool) -> int:
    """Fetch added sources again, and take the changes once you agree.

    Without SOURCE all of them. Without a terminal nothing is taken unless --yes is given; then it
    exits with 1 if there is something to take.
    """
    locked = read_lock()
    sources = named_sources(texts, locked) or locked
    records = [_updated(locked[source], yes=yes, may_ask=not as_json) for source in sources]
    states = [record["state"] for record in records]
    if "updated" in states:
        build_index(RootChange(how="keep", settings=of_own_index(read_settings())))
    if as_json:
        emit_json({"sources": records})
    elif not locked:
        say(
            "Nothing was added from elsewhere, so there is nothing to update; folders here are "
            "followed without it. See: skillsearch add --help"
        )
    elif "changed" in states:
        say("To take it: skillsearch update --yes")
    return int("changed" in states or "failed" in states)


def _updated(entry: LockedSource, *, yes: bool, may_ask: bool) -> JsonObject:
    """Fetch a source, show its changes, and take them if the user agrees."""
    record: JsonObject = {"source": shown(entry.source), "given": entry.text}
    record["state"] = "unchanged"

    def agree(changes: SkillChanges) -> bool:
        say(f"{entry.text}: {changes}")
        is_asked = may_ask and is_interactive()
        is_taken = yes or (is_asked and click.confirm("Take it?", err=True))
        record["state"] = "updated" if is_taken else "changed"
        record.update({key: list(names) for key, names in asdict(changes).items()})
        return is_taken

    try:
        update_added(entry, agree)
    except (RootError, StorageError) as exc:
        say(f"{entry.text}: {exc}")
        return record | {"state": "failed", "reason": str(exc)}
    if record["state"] == "unchanged":
        say(f"{entry.text}: unchanged since {entry.date}")
    return record


def _record(source: str, text: str) -> JsonObject:
    """Return what is printed of a source."""
    entry, folder = read_lock().get(source), folder_of(source)
    skills = sorted(compare(None, folder).added) if folder.is_dir() else []
    digest = entry.digest if entry else ""
    return {"source": shown(source), "given": text, "digest": digest, "skills": skills}


def _show(records: Sequence[JsonObject], indexed: int, change: str, *, as_json: bool) -> None:
    if as_json:
        emit_json({"sources": records, "indexed": indexed})
        return
    for record in records:
        skills = texts_of(record["skills"])
        names = f", {counted(len(skills), 'skill')}: {listed(skills, _MOST_NAMED)}"
        say(f"{record['given']}: {change}{names if skills else ''}", err=False)
    say(f"{counted(indexed, 'skill')} in the index", err=False)
