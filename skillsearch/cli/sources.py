"""``skillsearch add``, ``remove`` and ``update``: sources of skills, and the lock file."""

from __future__ import annotations

import difflib
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click

from skillsearch.cli import app
from skillsearch.cli.app import Asked, check_size, command, flag
from skillsearch.cli.index import check_settings, held_roots, show_places
from skillsearch.cli.output import emit_json, progress_bars, say
from skillsearch.config import Settings, index_option, load_settings, user_index_dir
from skillsearch.errors import RootError
from skillsearch.index.request import Follows, key_of
from skillsearch.index.root_change import How, RootChange
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.roots import lock
from skillsearch.roots.bundles import content_digest, update
from skillsearch.roots.lock import LockedSource
from skillsearch.roots.sources import added_source, is_bundle, place_of, plain_source, shown
from skillsearch.setting_values import is_url
from skillsearch.text.safe_text import counted, listed
from skillsearch.types import JsonValue

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
    check_settings(asked.settings)
    named = {added_source(text): text for text in asked.given}
    sources = {source: text if is_url(source) else source for source, text in named.items()}
    for source in sources:
        if not is_bundle(source):
            check_size(Path(source), is_agreed=False, may_agree=False)
    before = lock.read_lock()
    fetched = [source for source in sources if is_bundle(source)]
    try:
        for source in fetched:
            update(source, place_of(source), agree=partial(_add, source, sources[source]))
        indexed = _index(asked, list(map(_root, sources)), "add")
    except BaseException:
        with lock.changed_lock() as known:  # what was there before is pinned as its copy is now
            for source in set(fetched) - set(before):
                known.pop(source, None)
        raise
    _tell(asked, [_record(source, given) for source, given in sources.items()], indexed)
    if fetched:
        names = (name if shown(name) == name else str(place_of(name)) for name in fetched)
        trust = shlex.join(word for name in names for word in ("--trust", f"{name}=vetted"))
        command = f"skillsearch index {trust}{index_option(_settings(asked).index_dir.absolute())}"
        say(f"note: prompt and hook do not offer these skills; to vouch for them: {command}")


def _add(source: str, given: str, _old: Path | None, new: Path) -> bool:
    """Pin what is there before it takes its place, so that no copy is other than it is pinned."""
    from skillsearch.reports.sources import compare

    if not compare(None, new).added:
        raise RootError(f"{shown(source)} holds no skill, a folder with a SKILL.md; see its files.")
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
    """Take a source out of the index and the lock file.

    It is named as it was added, or by its root.
    """
    known, settings = lock.read_lock(), _settings(asked)
    held = held_roots(settings)
    sources = {_named(text, known, held): text for text in asked.given}
    for source, text in sources.items():
        if source not in known and is_bundle(source) and key_of(source) not in held:
            raise _not_added(text, source, known)
    held |= held_roots(load_settings(index_dir=user_index_dir()))
    # What neither index holds any more is left in the lock file alone.
    roots = [_root(name) for name in sources if name not in known or key_of(name) in held]
    records = [_record(source, given) for source, given in sources.items()]
    indexed = _remove(asked, roots)
    with lock.changed_lock() as entries:
        for source in sources:
            entries.pop(source, None)
    _tell(asked, records, indexed)


def _named(text: str, known: Mapping[str, LockedSource], held: Collection[str] = ()) -> str:
    """Return the source that a text names: a root by its path or URL, as it was added, or anew."""
    by_given = {entry.given: entry.source for entry in known.values()}
    source = plain_source(text)
    if source in known or key_of(source) in held:
        return source
    with suppress(RootError):
        return by_given.get(text) or added_source(text)
    return source


def _not_added(text: str, source: str, known: Mapping[str, LockedSource]) -> RootError:
    names = [entry.given for entry in known.values()]
    near = difflib.get_close_matches(text, [*names, *known], n=3)
    there = f"There are: {listed(names, _MOST_NAMED) or 'none'}."
    hint = f"Did you mean: {', '.join(near)}?" if near else there
    return RootError(f"{shown(source)} was not added. {hint}")


def _remove(asked: Asked, roots: Sequence[Path | str]) -> int:
    """Take roots out of the index, and the index away if that leaves nothing; count its skills."""
    from skillsearch.index.corpus import last_request, open_current

    settings, gone = _settings(asked), set(map(key_of, roots))
    folder = IndexFolder(settings.index_dir.absolute())
    if not roots:
        opened = open_current(folder)
        return len(opened.corpus.documents) if opened else 0
    if folder.exists():
        with folder.lock():
            held = last_request(folder)
            is_chosen = held is None or held.follows == "named" or held.left_out
            is_kept = gone & set(map(key_of, settings.index_roots))
            if held and set(map(key_of, held.named)) == gone and not is_chosen and not is_kept:
                folder.clear()
                return 0
    return _index(asked, roots, "remove")


@command("update")
@click.argument("given", nargs=-1, metavar="[SOURCE]...")
@flag("--yes", "Take what has changed without asking.")
@app.index_dir
@app.as_json
def update_command(asked: Asked) -> int:
    """Fetch what was added anew, and take it once you agree.

    Without SOURCE all of them. Without a terminal nothing is taken unless --yes is given; then it
    exits with 1 if there is something to take.
    """
    known = lock.read_lock()
    sources = {_named(text, known): text for text in asked.given}
    if strange := [source for source in sources if source not in known]:
        raise _not_added(sources[strange[0]], strange[0], known)
    wanted = [known[source] for source in sources or known]
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


def _index(asked: Asked, roots: Sequence[Path | str], how: How) -> int:
    """Change the roots of the index, and return how many skills it holds then.

    The first index of the user takes up what hosts look for too, as `skillsearch index` does.
    """
    from skillsearch.index.corpus import last_request
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.reports.places import report_places

    settings = _settings(asked)
    folder = IndexFolder(settings.index_dir.absolute())
    is_named = asked.settings.roots or asked.settings.sources.get("index_dir") == "flag"
    is_first = how == "add" and not is_named and last_request(folder) is None
    follows: Follows = "hosts" if is_first else "projects"
    change = RootChange(roots, how, settings, follows=follows if how == "add" else None)
    with progress_bars() as bars:
        index, report = SkillIndex.build(change, folder.path, progress=bars)
    if is_first and not asked.as_json:
        show_places(report_places(index, Path.cwd()))
    return report.indexed


def _root(source: str) -> Path | str:
    return source if is_bundle(source) else Path(source)


def _record(source: str, given: str) -> dict[str, JsonValue]:
    from skillsearch.reports.sources import compare

    known = lock.read_lock().get(source)
    record: dict[str, JsonValue] = {"source": shown(source), "given": given}
    place = place_of(source)
    names = sorted(compare(None, place).added) if place.is_dir() else []
    return record | {"digest": known.digest if known else "", "skills": names}


def _tell(asked: Asked, records: list[dict[str, JsonValue]], indexed: int) -> None:
    if asked.as_json:
        emit_json({"sources": records, "indexed": indexed})
        return
    for record in records:
        skills = record["skills"]
        number = counted(len(skills), "skill")
        names = f": {listed(skills, _MOST_NAMED)}" if skills else ""
        say(f"{record['given']}: {number}{names}", err=False)
    say(f"{counted(indexed, 'skill')} in the index", err=False)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
