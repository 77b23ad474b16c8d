"""``skillsearch setup``: index the skills of this machine and configure the hosts on it."""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import click

from skillsearch.cli import app
from skillsearch.cli.app import Asked, command, flag
from skillsearch.cli.host_configs import HOSTS, Entry, hook_entry, server_entry
from skillsearch.cli.host_files import Change, host_file, our_command
from skillsearch.cli.index import index_command
from skillsearch.cli.mcp import show_change
from skillsearch.cli.output import emit_json, emit_rows, say
from skillsearch.config import standard_roots, user_index_dir
from skillsearch.environ import install_extra
from skillsearch.errors import ConfigError
from skillsearch.types import JsonValue

Planned = tuple[dict[str, JsonValue], Change | None]
"""What is to become of a host's file, as a row of the plan; no change if it is fine, or refused."""


@command("setup")
@flag("--yes", "Do it without asking.")
@flag("--remove", "Take our entries out of the files of all hosts; the index stays.")
@app.as_json
def setup_command(asked: Asked) -> int:
    """Index your skills and configure the hosts on this machine.

    Hosts are found by their folder or their program, skills in .agents/skills and .claude/skills,
    here and in the home folder. It shows what it would do and asks; without a terminal it does
    nothing unless --yes is given. Files of hosts are changed as by mcp-config --write.
    """
    settings = asked.settings
    index_dir = user_index_dir() if settings.is_project_index else settings.index_dir
    roots = [] if asked.remove else list(map(str, standard_roots()))
    planned = [plan for client in HOSTS for plan in _plan(client, index_dir.absolute(), asked)]
    hosts = [row for row, _ in planned]
    record = {"roots": roots, "index_dir": str(index_dir.absolute()), "hosts": hosts, "done": False}
    if not asked.as_json:
        emit_rows([("index", root, index_dir) for root in roots])
        emit_rows([list(row.values()) for row in hosts])
    if not (asked.remove or importlib.util.find_spec("mcp")):
        say(f"note: servers are left out, they need an extra: {install_extra('mcp')}")
    can_ask = sys.stdin.isatty() and sys.stderr.isatty()
    if asked.yes or (can_ask and click.confirm("Do this?", err=True)):
        with redirect_stdout(io.StringIO()) if asked.as_json else nullcontext() as printed:
            if roots:
                line = ["--index-dir", str(index_dir), *["--json"] * asked.as_json]
                index_command.main(line, standalone_mode=False)
        if printed and (text := printed.getvalue()):
            record["indexed"] = json.loads(text)
        for row, change in planned:
            if change:
                _make(row, change)
        record["done"] = True
    elif not can_ask:
        say("Nothing was changed. To do this: skillsearch setup --yes" + " --remove" * asked.remove)
    if asked.as_json:
        emit_json(record)
    return int(any(row["state"] == "failed" for row in hosts))


def _plan(client: str, index_dir: Path, asked: Asked) -> list[Planned]:
    """Return what is to be done with the files of a host, nothing if it is not on this machine."""
    has_hook = "hook" in HOSTS[client]
    folder = host_file(client, hook=has_hook).parent
    if not folder.is_dir() and shutil.which(HOSTS[client]["program"]) is None:
        return []
    place = ["--index-dir", str(index_dir)]
    files: dict[Path, list[Entry]] = {}
    if asked.remove or importlib.util.find_spec("mcp"):
        server = None if asked.remove else [*our_command(), "mcp", *place]
        files.setdefault(host_file(client), []).append(server_entry(client, server))
    if has_hook:
        asks = None if asked.remove else [*our_command(), "hook", "--client", client, *place]
        files.setdefault(host_file(client, hook=True), []).append(hook_entry(client, asks))
    return [_plan_file(client, file, entries) for file, entries in files.items()]


def _plan_file(client: str, file: Path, entries: list[Entry]) -> Planned:
    kinds = ", ".join("hook" if entry.is_hook else "server" for entry in entries)
    row = {"client": client, "entries": kinds, "file": str(file), "state": "unchanged"}
    try:
        change = Change.plan(file, entries)
    except (ConfigError, OSError) as exc:
        return row | {"state": "refused", "reason": str(exc)}, None
    if not change.is_needed:
        return row, None
    return row | {"state": "remove" if entries[0].value is None else "write"}, change


def _make(row: dict[str, JsonValue], change: Change) -> None:
    try:
        show_change(change)
        row["state"] = "changed"
    except (ConfigError, OSError) as exc:
        say(f"{row['client']}: {exc}")
        row["state"] = "failed"
