"""``skillsearch status``, ``doctor``, ``cache``, ``daemon`` and ``env``."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch._version import __version__
from skillsearch.cli import options, output
from skillsearch.cli.app import refuse
from skillsearch.cli.options import read_flags, read_settings
from skillsearch.cli.output import say
from skillsearch.daemon import client
from skillsearch.errors import ConfigError, DaemonError
from skillsearch.index.next_steps import index_option
from skillsearch.index.opening import open_index
from skillsearch.settings.config import Settings, load_settings
from skillsearch.settings.environ import PREFIX
from skillsearch.settings.user_folders import cache_dir, default_index_dir
from skillsearch.types.json_values import JsonObject, checked, objects_of, text_of
from skillsearch.types.skills import Root

if TYPE_CHECKING:
    from skillsearch.agents.toolsets.server_environment import ServerEnvironment
    from skillsearch.daemon.questions import Method
    from skillsearch.reports.cache import CacheEntry
    from skillsearch.reports.status import Status

    Sized = dict[CacheEntry, int]


END_SECONDS = 10.0
"""Longer than a stopping daemon waits for the answers it still owes."""


@click.command("status")
@options.index_dir
@options.backend
@options.header
@options.as_json(lambda m: (m.STATUS, m.HELD | {"collection": str} | m.each([str], "models roots")))
def status_command(as_json: bool) -> int:
    """Check that the index matches the files on disk.

    Every file is hashed, and so are sources that were added. Says what differs, and then exits
    with 1. For an index in Milvus it says
    what the index holds; no file is looked at.
    """
    from skillsearch.reports.status import status

    settings = read_settings()
    if settings.backend == "milvus":
        facts = _describe_milvus(settings)
        output.show_record(facts, facts.items(), as_json=as_json)
        return 0
    index = open_index(settings)
    record, changes = status(index)
    rows = _status_rows(record, index.opened.settings.roots)
    output.show_record(record, rows, as_json=as_json)
    if not record["in_sync"]:
        option = index_option(index.folder, settings)
        say(f"The index differs from the disk ({changes}); run: skillsearch index{option}")
    is_changed = any(entry["problem"] for entry in record["sources"])
    return 0 if record["in_sync"] and not is_changed else 1


def _describe_milvus(settings: Settings) -> JsonObject:
    from skillsearch.cli.index import open_in_milvus
    from skillsearch.text.provenance import source_tag

    with open_in_milvus(settings) as index:
        made_with = index.settings
        return {
            "indexed": len(index),
            "skipped": index.skipped,
            "collection": settings.collection,
            "generation": index.generation,
            "model": made_with.model.spec,
            "fields": "full" if made_with.with_body else "metadata",
            "roots": [f"{root.path} {source_tag(root)}".rstrip() for root in made_with.roots],
        }


def _status_rows(record: Status, roots: Sequence[Root]) -> list[tuple[str, str]]:
    from skillsearch.index.languages import in_words
    from skillsearch.reports.status import describe_root
    from skillsearch.skills.example_requests import exampled_in_words

    rows = [
        ("verdict", "in sync with the disk" if record["in_sync"] else "differs from the disk"),
        ("skills", "{indexed:,} indexed, {skipped:,} skipped".format(**record)),
        ("reported", output.in_words(record["diagnostics"])),
        ("index", f"{record['index_dir']} ({_in_mb(record['size_bytes'])})"),
        ("generation", record["generation"]),
        ("model", "{model} ({model_name}), fields {fields}".format(**record)),
        ("vectors", "{vectors:,} of {dimensions} dimensions".format(**record)),
        ("languages", in_words(record["skills_by_language"])),
        ("examples", exampled_in_words(record["examples"], record["indexed"])),
    ]
    rows += [("root", describe_root(root)) for root in roots]
    for entry in record["sources"]:
        state = entry["problem"] or f"as added on {entry['date']}, {entry['digest'][:19]}"
        rows.append(("source", f"{entry['given']}: {state}"))
    differences = record["differences"]
    rows += [("missing root", path) for path in differences["missing_roots"]]
    for word in ("added", "changed", "removed"):
        rows += [(word, path) for path in differences[word]]
    return rows


@click.command("doctor")
@options.index_dir
@options.header
@options.as_json(lambda m: m.DOCTOR)
def doctor_command(as_json: bool) -> int:
    """Check the installation, the settings and the index.

    Exits with 1 if something does not work.
    """
    from skillsearch.reports.health import doctor

    checks = doctor(read_flags()["index_dir"])
    verdicts = [check.verdict for check in checks]
    counts = {name: verdicts.count(name) for name in ("ok", "warning", "error")}
    record: JsonObject = {**counts, "checks": [check.to_dict() for check in checks]}
    rows = [(check.verdict, check.name, check.detail) for check in checks]
    output.show_record(record, rows, ("verdict", "name", "detail"), as_json=as_json)
    return 1 if "error" in verdicts else 0


@click.command("cache")
@click.option("--prune", is_flag=True, help="Remove what nothing needs, unused for 30 days.")
@click.option("--clear", is_flag=True, help="Remove everything that nothing needs.")
@options.header
@options.as_json(lambda m: {"folder": str, "bytes": int} | m.each(m.ENTRIES, "entries removed"))
def cache_command(prune: bool, clear: bool, as_json: bool) -> None:
    """Show what is in the user's cache folder, and empty it.

    These are needed and never removed: the index of the settings and the default one, those the
    daemon has open, archives that were indexed, files made by commands of skills, and whatever a
    process is writing. Everything else is rebuilt when it is needed again.
    """
    from skillsearch.reports.cache import KEPT_SECONDS, read_cache, remove_unused

    refuse(prune and clear, "Use one of --prune and --clear.")
    removes = prune or clear
    folder = cache_dir().resolve()
    in_use = _in_use()
    removed: Sized = {}
    # Twice: an archive is no longer needed once the last index over it is gone.
    for _ in range(2 * removes):
        unused = remove_unused(read_cache(folder, in_use), KEPT_SECONDS if prune else 0)
        removed |= {entry: entry.size() for entry in unused}
    left = {entry: entry.size() for entry in read_cache(folder, in_use)}
    total = sum(left.values())
    if as_json:
        record: JsonObject = {"folder": str(folder), "bytes": total}
        for name, some in (("entries", left), ("removed", removed)):
            record[name] = [entry.to_dict(size) for entry, size in some.items()]
        output.emit_json(record)
        return
    _show_entries(removed if removes else left, folder)
    if removes:
        say(f"{len(removed)} removed, {_in_mb(sum(removed.values()))}")
    say(f"{len(left)} in {folder}, {_in_mb(total)}")


def _in_use() -> dict[Path, str]:
    in_use = {default_index_dir(): "the default", load_settings().index_dir: "the settings"}
    try:
        status = _ask("status")
    except DaemonError:
        status = None  # it is shutting down, or has another version
    for index in objects_of(status["indexes"]) if status else ():
        in_use[Path(text_of(index["index_dir"]))] = "the daemon"
    return {path.resolve(): user for path, user in in_use.items()}


def _show_entries(entries: Sized, folder: Path) -> None:
    rows: list[tuple[object, ...]] = []
    for entry, size in sorted(entries.items(), key=lambda pair: (-pair[1], pair[0].path)):
        used = f"{datetime.fromtimestamp(entry.used).astimezone():%Y-%m-%d}"
        users = ", ".join(entry.used_by)
        if output.is_terminal():
            about = f"{entry.about}; needed by {users}" if users else entry.about
            rows.append((entry.kind, _in_mb(size), used, entry.path.relative_to(folder), about))
        else:
            rows.append((entry.kind, size, used, entry.path, entry.about, users))
    columns = ("kind", "bytes", "used", "path", "about", "used_by")
    heads = ("kind", "size", "last used", "path", "made from")
    output.show_rows(rows, heads, columns=columns)


@click.command("daemon")
@click.argument("action", type=click.Choice(["start", "stop", "status"]))
@click.option(
    "--idle",
    type=click.FloatRange(min=0, max=7 * 24 * 60, min_open=True),
    metavar="MINUTES",
    help="With start: stop after this time without a query. [default: 15]",
)
@options.as_json(lambda m: m.DAEMON | {"indexes?": m.INDEXES, "running": bool})
def daemon_command(action: str, idle: float | None, as_json: bool) -> int:
    """Keep model and index warm in the background.

    "query" and "hook" use it, and work without it, only slower; "hook" starts it by itself. Each
    user has one, and it stops when idle. SKILLSEARCH_DAEMON=off turns it off. "status" exits with 1
    if none runs.
    """
    refuse(idle is not None and action != "start", "--idle goes with start.")
    if action == "start":
        _start(client.IDLE_SECONDS if idle is None else idle * 60)
    elif action == "stop":
        _stop()
    status = _ask("status")
    if as_json:
        output.emit_json({"running": status is not None, **(status or {})})
    if action != "status":
        return 0
    if status is None:
        say("No daemon is running; to start one: skillsearch daemon start")
    elif not as_json:
        rows = [(key, status[key]) for key in ("pid", "version", "seconds", "answered")]
        output.emit_rows(
            rows + [("index", row["index_dir"]) for row in objects_of(status["indexes"])]
        )
    return int(status is None)


@click.command("env")
@click.argument("action", type=click.Choice(["list", "show", "switch"]))
@click.argument("name", required=False)
@options.header
@options.as_json(lambda m: m.ENV)
def env_command(action: str, name: str | None, as_json: bool) -> None:
    """List or show named environments, or switch to one.

    An environment is a folder NAME/skills below the setting "environments". Without NAME, "show"
    takes the one in use. "switch" writes its name as activeEnvironment into the config.jsonc beside
    that folder, where the toolset of environments reads it.
    """
    from skillsearch.agents.toolsets.server_environment import ServerEnvironment

    refuse(action == "switch" and name is None, "switch needs the NAME.")
    refuse(action == "list" and name, "list takes no NAME; show does.")
    environment, settings = ServerEnvironment(), read_settings()
    names = environment.list_environments()
    _enter(environment, name, settings.environments, is_empty=not names)
    if action == "switch":
        _switch(environment.name, settings)
    folder, active = settings.environments, environment.name
    record: JsonObject = {"folder": str(folder), "active": active, "environments": names}
    rows: list[tuple[str, ...]] = [(n, "in use" * (n == active)) for n in names]
    columns: tuple[str, ...] = ("name", "state")
    if action == "show":
        skills = [skill.shown() for skill in environment.list_skills()] if names else []
        record["skills"] = skills
        rows, columns = [tuple(skill.values()) for skill in skills], ("id", "name", "description")
    if as_json:
        output.emit_json(record)
    else:
        output.show_rows(rows, columns, is_cut=action == "show", columns=columns)


def _enter(
    environment: ServerEnvironment, name: str | None, folder: Path, *, is_empty: bool
) -> None:
    """Enter the named environment, or else the one in use; say so if there is none."""
    if name is not None:
        environment.switch_environment(name)
    elif is_empty:
        say(f"There is no environment in {folder}. To make one, put skills into NAME/skills there.")
    else:
        environment.load_from_config()


def _switch(name: str, settings: Settings) -> None:
    """Write which environment is in use, unless a setting that comes first names another one."""
    from skillsearch.agents.toolsets.server_environment import ACTIVE, CONFIG_FILE
    from skillsearch.hosts.entries import Entry
    from skillsearch.hosts.files import Change

    source = settings.sources.get("environment")
    if source and settings.environment != name:
        source = f"{PREFIX}ENVIRONMENT" if source == "environment" else source
        raise ConfigError(f"{source} names the environment {settings.environment!r}; change that.")
    file = settings.environments.parent / CONFIG_FILE
    change = Change.plan(file, [Entry("json", (ACTIVE,), name)])
    if change.is_needed:
        change.write()


def _ask(method: Method) -> JsonObject | None:
    return client.ask(method, seconds=client.QUERY_SECONDS)


def _start(idle: float) -> None:
    status = _ask("status")
    if status is None:
        client.start(idle=idle)
        status = _ask("status")
        if status is None:
            raise DaemonError("The previous daemon is still stopping; try again in a moment.")
        say(f"The daemon runs (pid {status['pid']}); it stops when idle for {idle / 60:g} min.")
    elif status["version"] != __version__:
        raise DaemonError(
            f"A daemon of version {status['version']} runs; to stop it: skillsearch daemon stop"
        )
    else:
        say(f"The daemon already runs (pid {status['pid']}).")


def _stop() -> None:
    stopped = _ask("stop")
    if stopped is None:
        return say("No daemon is running.")
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        try:
            os.kill(checked(stopped["pid"], int), 0)
        except ProcessLookupError:
            return say("The daemon has stopped.")
        time.sleep(0.02)
    raise DaemonError(f"The daemon does not stop; to end it: kill {stopped['pid']}")


def _in_mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
