"""``skillsearch add``, ``remove`` and ``update``: sources of skills, and the lock file."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from skillsearch.cli import options
from skillsearch.cli.index import build_index, check_settings, held_roots, show_folders
from skillsearch.cli.options import NamedRoot, check_size, is_interactive, read_settings
from skillsearch.cli.output import emit_json, say
from skillsearch.errors import RootError
from skillsearch.index.next_steps import index_option
from skillsearch.index.roots.request import Follows, key_of
from skillsearch.index.roots.root_change import RootChange
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.roots import lock
from skillsearch.roots.bundles import content_digest, update
from skillsearch.roots.lock import LockedSource
from skillsearch.roots.sources import added_source, folder_of, is_bundle, plain_source, shown
from skillsearch.settings.config import Settings, load_settings, user_index_dir
from skillsearch.settings.values import is_url
from skillsearch.text.near import near
from skillsearch.text.safe_text import counted, listed
from skillsearch.types.json_values import Json

_MOST_NAMED = 10
_SOURCE = options.NamedPath(readable=False)


@click.command("add")
@click.argument("texts", nargs=-1, required=True, metavar="SOURCE...", type=_SOURCE)
@options.index_dir
@options.as_json(lambda m: {"sources": [m.SOURCE], "indexed": int})
def add_command(texts: tuple[str, ...], as_json: bool) -> None:
    """Add skills from elsewhere to the index, and pin their content.

    SOURCE is OWNER/REPO on GitHub, maybe with @REF and /FOLDER; the URL of a repository, an archive
    or a SKILL.md; https://HOST for the skills that a host offers at
    /.well-known/agent-skills/index.json; mcp+https://HOST/PATH for an MCP server of skills; or a
    folder here. What comes from elsewhere is not offered in prompts until you vouch for it. The
    lock file beside your settings says what was added; nothing is fetched again unless you update.
    """
    settings = read_settings()
    check_settings(settings)
    added = {added_source(text): text for text in texts}
    sources = {source: text if is_url(source) else source for source, text in added.items()}
    for source in sources:
        if not is_bundle(source):
            check_size(Path(source), is_agreed=False, may_agree=False)
    before = lock.read_lock()
    fetched = [source for source in sources if is_bundle(source)]
    with ExitStack() as undo:  # what was there before is pinned as its copy is now
        undo.callback(_unpin, set(fetched) - set(before))
        for source in fetched:
            update(source, folder_of(source), agree=partial(_add, source, sources[source]))
        indexed = _index_added(settings, list(map(_root, sources)), as_json=as_json)
        undo.pop_all()
    _show([_record(source, text) for source, text in sources.items()], indexed, as_json=as_json)
    if fetched:
        _say_how_to_vouch(fetched, settings)


def _say_how_to_vouch(fetched: Sequence[str], settings: Settings) -> None:
    names = (name if shown(name) == name else str(folder_of(name)) for name in fetched)
    trust = shlex.join(word for name in names for word in ("--trust", f"{name}=vetted"))
    command = f"skillsearch index {trust}{index_option(_own(settings).index_dir.absolute())}"
    say(f"note: prompt and hook do not offer these skills; to vouch for them: {command}")


def _add(source: str, text: str, _old: Path | None, new: Path) -> bool:
    """Pin what is there before it takes its place, so that no copy is other than it is pinned."""
    from skillsearch.reports.sources import compare

    if not compare(None, new).added:
        raise RootError(f"{shown(source)} holds no skill, a folder with a SKILL.md; see its files.")
    _pin(LockedSource(source, text, content_digest(new), _today()))
    return True


def _unpin(sources: Iterable[str]) -> None:
    with lock.changed_lock() as entries:
        for source in sources:
            entries.pop(source, None)


def _pin(entry: LockedSource) -> None:
    with lock.changed_lock() as entries:
        entries[entry.source] = entry


@click.command("remove")
@click.argument("texts", nargs=-1, required=True, metavar="SOURCE...", type=_SOURCE)
@options.index_dir
@options.as_json(lambda m: {"sources": [m.SOURCE], "indexed": int})
def remove_command(texts: tuple[str, ...], as_json: bool) -> None:
    """Take a source out of the index and the lock file.

    It is named as it was added, or by its root.
    """
    locked, settings = lock.read_lock(), _own(read_settings())
    held = held_roots(settings)
    sources = {_named(text, locked, held): text for text in texts}
    for source, text in sources.items():
        if source not in locked and is_bundle(source) and key_of(source) not in held:
            raise _not_added(text, source, locked)
    held |= held_roots(load_settings(index_dir=user_index_dir()))
    # What neither index holds any more is left in the lock file alone.
    roots = [_root(name) for name in sources if name not in locked or key_of(name) in held]
    records = [_record(source, text) for source, text in sources.items()]
    indexed = _remove(settings, roots)
    _unpin(sources)
    _show(records, indexed, as_json=as_json)


def _named(text: str, locked: Mapping[str, LockedSource], held: Collection[str] = ()) -> str:
    """Return the source that a text names: a root by its path or URL, as it was added, or anew."""
    by_text = {entry.text: entry.source for entry in locked.values()}
    source = plain_source(text)
    if source in locked or key_of(source) in held:
        return source
    with suppress(RootError):
        return by_text.get(text) or added_source(text)
    return source


def _not_added(text: str, source: str, locked: Mapping[str, LockedSource]) -> RootError:
    names = [entry.text for entry in locked.values()]
    meant = near(text, [*names, *locked])
    there = f"There are: {listed(names, _MOST_NAMED) or 'none'}."
    hint = f"Did you mean: {', '.join(meant)}?" if meant else there
    return RootError(f"{shown(source)} was not added. {hint}")


def _remove(settings: Settings, roots: Sequence[NamedRoot]) -> int:
    """Take roots out of the index, and the index away if that leaves nothing; count its skills."""
    from skillsearch.index.corpus import last_request, open_current

    gone = set(map(key_of, roots))
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
    return build_index(RootChange(roots, "remove", settings))[1].indexed


@click.command("update")
@click.argument("texts", nargs=-1, metavar="[SOURCE]...", type=_SOURCE)
@click.option("--yes", is_flag=True, help="Take what has changed without asking.")
@options.index_dir
@options.as_json(lambda m: {"sources": [m.UPDATED]})
def update_command(texts: tuple[str, ...], yes: bool, as_json: bool) -> int:
    """Fetch added sources again, and take the changes once you agree.

    Without SOURCE all of them. Without a terminal nothing is taken unless --yes is given; then it
    exits with 1 if there is something to take.
    """
    locked = lock.read_lock()
    sources = {_named(text, locked): text for text in texts}
    if strange := [source for source in sources if source not in locked]:
        raise _not_added(sources[strange[0]], strange[0], locked)
    records = [
        _updated(locked[source], yes=yes, may_ask=not as_json) for source in sources or locked
    ]
    states = [record["state"] for record in records]
    if "updated" in states:
        build_index(RootChange(how="keep", settings=_own(read_settings())))
    if as_json:
        emit_json({"sources": records})
    elif not locked:
        say("Nothing was added, so there is nothing to update. See: skillsearch add --help")
    elif "changed" in states:
        say("To take it: skillsearch update --yes")
    return int("changed" in states or "failed" in states)


def _updated(entry: LockedSource, *, yes: bool, may_ask: bool) -> dict[str, Json]:
    """Fetch a source beside its copy, and take it if the user agrees."""
    from skillsearch.reports.sources import compare

    record: dict[str, Json] = {"source": shown(entry.source), "given": entry.text}
    record["state"] = "unchanged"

    def agree(old: Path | None, new: Path) -> bool:
        digest = content_digest(new)
        if digest == entry.digest:
            return True
        is_pinned = old is not None and content_digest(old) == entry.digest
        changes = compare(old if is_pinned else None, new)
        say(f"{entry.text}: {changes}")
        is_asked = may_ask and is_interactive()
        is_taken = yes or (is_asked and click.confirm("Take it?", err=True))
        if is_taken:
            _pin(replace(entry, digest=digest, date=_today()))
        record["state"] = "updated" if is_taken else "changed"
        record.update({key: list(names) for key, names in asdict(changes).items()})
        return is_taken

    try:
        update(entry.source, folder_of(entry.source), agree=agree)
    except RootError as exc:
        say(f"{entry.text}: {exc}")
        return record | {"state": "failed", "reason": str(exc)}
    if record["state"] == "unchanged":
        say(f"{entry.text}: unchanged since {entry.date}")
    return record


def _own(settings: Settings) -> Settings:
    """Return the settings of the user's index, unless another one is named."""
    return load_settings(index_dir=user_index_dir()) if settings.is_project_index else settings


def _index_added(settings: Settings, roots: Sequence[NamedRoot], *, as_json: bool) -> int:
    """Add roots to the index, and return how many skills it holds then.

    The first index of the user takes up what hosts look for too, as `skillsearch index` does.
    """
    from skillsearch.index.corpus import last_request
    from skillsearch.reports.host_folders import report_folders

    is_named = settings.roots or settings.sources.get("index_dir") == "flag"
    settings = _own(settings)
    folder = IndexFolder(settings.index_dir.absolute())
    is_first = not is_named and last_request(folder) is None
    follows: Follows = "hosts" if is_first else "projects"
    index, report = build_index(RootChange(roots, "add", settings, follows=follows))
    if is_first and not as_json:
        show_folders(report_folders(index, Path.cwd()))
    return report.indexed


def _root(source: str) -> NamedRoot:
    return source if is_bundle(source) else Path(source)


class _Record(NamedTuple):
    """What is printed of a source."""

    source: str
    given: str
    digest: str
    skills: tuple[str, ...]


def _record(source: str, text: str) -> _Record:
    from skillsearch.reports.sources import compare

    entry, folder = lock.read_lock().get(source), folder_of(source)
    skills = sorted(compare(None, folder).added) if folder.is_dir() else ()
    return _Record(shown(source), text, entry.digest if entry else "", tuple(skills))


def _show(records: Sequence[_Record], indexed: int, *, as_json: bool) -> None:
    if as_json:
        sources = [record._asdict() for record in records]
        emit_json({"sources": sources, "indexed": indexed})
        return
    for record in records:
        names = f": {listed(record.skills, _MOST_NAMED)}" if record.skills else ""
        say(f"{record.given}: {counted(len(record.skills), 'skill')}{names}", err=False)
    say(f"{counted(indexed, 'skill')} in the index", err=False)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
