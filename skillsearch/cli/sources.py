"""``skillsearch add``, ``remove`` and ``update``: sources of skills, and the lock file."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click

from skillsearch.cli import app
from skillsearch.cli.app import Asked, command, flag
from skillsearch.cli.output import emit_json, progress_bars, say
from skillsearch.config import Settings, load_settings, user_index_dir
from skillsearch.errors import RootError
from skillsearch.index.root_change import How, RootChange
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.roots import lock
from skillsearch.roots.bundles import content_digest, update
from skillsearch.roots.lock import LockedSource
from skillsearch.roots.sources import added_source, is_bundle, place_of, shown
from skillsearch.text.provenance import VOUCH
from skillsearch.text.safe_text import counted, listed
from skillsearch.types import IndexReport, JsonValue

_MOST_NAMED = 10


@command("add")
@click.argument("given", nargs=-1, required=True, metavar="SOURCE...")
@app.index_dir
@app.as_json
def add_command(asked: Asked) -> None:
    """Add skills from elsewhere to the index, and pin what they are.

    SOURCE is OWNER/REPO on GitHub, maybe with @REF and /FOLDER; the URL of a repository, an archive
    or a SKILL.md; https://HOST for the skills that a host offers at
    /.well-known/agent-skills/index.json; mcp+https://HOST/PATH for an MCP server of skills; or a
    folder here. What comes from elsewhere is not offered in prompts until you vouch for it. The
    lock file beside your settings says what was added; nothing is fetched again unless you update.
    """
    sources = {added_source(text): text for text in asked.given}
    before = lock.read_lock()
    fetched = [source for source in sources if is_bundle(source)]
    try:
        for source in fetched:
            update(source, place_of(source), agree=partial(_add, source, sources[source]))
        report = _index(asked, tuple(_root(source) for source in sources), "add")
    except BaseException:
        with lock.changed_lock() as known:  # what was there before is pinned as its copy is now
            for source in set(fetched) - set(before):
                known.pop(source, None)
        raise
    _tell(asked, [_record(source, given) for source, given in sources.items()], report)
    if fetched:
        say(f"note: prompt and hook do not offer these skills; to vouch for a root: {VOUCH}")


def _add(source: str, given: str, _old: Path | None, new: Path) -> bool:
    """Pin what is there before it takes its place, so that no copy is other than it is pinned."""
    _pin(LockedSource(source, given, content_digest(new), _today()))
    return True


def _pin(entry: LockedSource) -> None:
    with lock.changed_lock() as entries:
        entries[entry.source] = entry


@command("remove")
@click.argument("given", nargs=-1, required=True, metavar="SOURCE...")
@app.index_dir
@app.as_json
def remove_command(asked: Asked) -> None:
    """Take a source out of the index and the lock file, as it was added or by its root."""
    known = lock.read_lock()
    by_name = {entry.given: entry.source for entry in known.values()}
    sources: dict[str, str] = {}
    for text in asked.given:
        source = by_name.get(text) or added_source(text)
        if source not in known and is_bundle(source):
            near = difflib.get_close_matches(text, by_name, n=3)
            hint = f" Did you mean: {', '.join(near)}?" if near else " See: skillsearch doctor"
            raise RootError(f"{shown(source)} was not added.{hint}")
        sources[source] = text
    report = _index(asked, tuple(map(_root, sources)), "remove")
    with lock.changed_lock() as entries:
        for source in sources:
            entries.pop(source, None)
    _tell(asked, [_record(source, given) for source, given in sources.items()], report)


@command("update")
@click.argument("given", nargs=-1, metavar="[SOURCE]...")
@flag("--yes", "Take what has changed without asking.")
@app.index_dir
@app.as_json
def update_command(asked: Asked) -> int:
    """Fetch what was added again, show what changed, and take it once you agree.

    Without SOURCE all of them. Without a terminal nothing is taken unless --yes is given; then it
    exits with 1 if there is something to take.
    """
    known = lock.read_lock()
    by_name = {entry.given: entry for entry in known.values()} | known
    if strange := [text for text in asked.given if text not in by_name]:
        near = difflib.get_close_matches(strange[0], by_name, n=3)
        there = listed((entry.given for entry in known.values()), _MOST_NAMED) or "none"
        hint = f"Did you mean: {', '.join(near)}?" if near else f"There are: {there}."
        raise RootError(f"{shown(strange[0])} was not added. {hint}")
    wanted = [by_name[text] for text in asked.given] or list(known.values())
    records = [_updated(entry, asked) for entry in wanted]
    taken = [record for record in records if record["state"] == "updated"]
    if taken:
        settings = _settings(asked)
        with progress_bars() as bars:
            from skillsearch.index.skill_index import SkillIndex

            change = RootChange(how="keep", settings=settings)
            SkillIndex.build(change, settings.index_dir.absolute(), progress=bars)
    if asked.as_json:
        emit_json({"sources": records})
    failed = [record for record in records if record["state"] == "failed"]
    waiting = [record for record in records if record["state"] == "changed"]
    if waiting and not asked.as_json:
        say("To take it: skillsearch update --yes")
    return int(bool(waiting or failed))


def _updated(entry: LockedSource, asked: Asked) -> dict[str, JsonValue]:
    """Fetch a source beside its copy, and take it if the user agrees."""
    from skillsearch.reports.sources import compare

    record: dict[str, JsonValue] = {"source": shown(entry.source), "given": entry.given}
    record["state"] = "unchanged"

    def agree(old: Path | None, new: Path) -> bool:
        digest = content_digest(new)
        if digest == entry.digest:
            return True
        is_known = old is not None and content_digest(old) == entry.digest
        changes = compare(old if is_known else None, new)
        say(f"{entry.given}: {changes}")
        is_asked = sys.stdin.isatty() and sys.stderr.isatty() and not asked.as_json
        is_taken = bool(asked.yes or (is_asked and click.confirm("Take it?", err=True)))
        if is_taken:
            _pin(replace(entry, digest=digest, date=_today()))
        record["state"] = "updated" if is_taken else "changed"
        record.update({key: list(names) for key, names in asdict(changes).items()})
        return is_taken

    try:
        update(entry.source, place_of(entry.source), agree=agree)
    except RootError as exc:
        say(f"{entry.given}: {exc}")
        return record | {"state": "failed", "reason": str(exc)}
    if record["state"] == "unchanged":
        say(f"{entry.given}: unchanged since {entry.date}")
    return record


def _settings(asked: Asked) -> Settings:
    """Return the settings of the user's index, unless another one is named."""
    settings = asked.settings
    return load_settings(index_dir=user_index_dir()) if settings.is_project_index else settings


def _index(asked: Asked, roots: Sequence[Path | str], how: How) -> IndexReport:
    from skillsearch.index.skill_index import SkillIndex

    settings = _settings(asked)
    change = RootChange(roots, how, settings, follows="projects" if how == "add" else None)
    with progress_bars() as bars:
        folder = IndexFolder(settings.index_dir.absolute())
        return SkillIndex.build(change, folder.path, progress=bars)[1]


def _root(source: str) -> Path | str:
    return source if is_bundle(source) else Path(source)


def _record(source: str, given: str) -> dict[str, JsonValue]:
    from skillsearch.reports.sources import compare

    known = lock.read_lock().get(source)
    record: dict[str, JsonValue] = {"source": shown(source), "given": given}
    place = place_of(source)
    names = sorted(compare(None, place).added) if place.is_dir() else []
    return record | {"digest": known.digest if known else "", "skills": names}


def _tell(asked: Asked, records: list[dict[str, JsonValue]], report: IndexReport) -> None:
    if asked.as_json:
        emit_json({"sources": records, "indexed": report.indexed})
        return
    for record in records:
        skills = record["skills"]
        number = counted(len(skills), "skill")
        say(f"{record['given']}: {number}: {listed(skills, _MOST_NAMED)}", err=False)
    say(f"{counted(report.indexed, 'skill')} in the index", err=False)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
