"""``skillsearch setup``: index the skills of this machine and configure the hosts on it."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from contextlib import redirect_stdout
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
    index_dir = user_index_dir() if settings.is_project_index else settings.index_dir.absolute()
    roots = [] if asked.remove else list(map(str, standard_roots()))
    files = {file: plan for client in HOSTS for file, plan in _files(client, index_dir, asked)}
    hosts = [_handle(file, *plan, do=False) for file, plan in files.items()]
    if not asked.as_json:
        emit_rows([("index", root, index_dir) for root in roots])
        emit_rows([list(row.values()) for row in hosts])
    if not (asked.remove or importlib.util.find_spec("mcp")):
        say(f"note: servers are left out, they need an extra: {install_extra('mcp')}")
    if files or roots:
        done = _agrees(asked)
    else:
        done = asked.yes
        say("Neither hosts nor skills were found here; see skillsearch mcp-config --help")
    if done:
        _index(roots, index_dir)
        hosts = [_handle(file, *plan, do=True) for file, plan in files.items()]
    if asked.as_json:
        place = {"roots": roots, "index_dir": str(index_dir)}
        emit_json({**place, "hosts": hosts, "done": done})
    return int(any(row["state"] == "refused" for row in hosts))


def _agrees(asked: Asked) -> bool:
    """Return whether it may be done: asked on a terminal, else by ``--yes``."""
    if asked.yes or (sys.stdin.isatty() and sys.stderr.isatty()):
        return bool(asked.yes or click.confirm("Do this?", err=True))
    say("Nothing was changed. To do this: skillsearch setup --yes" + " --remove" * asked.remove)
    return False


def _index(roots: list[str], index_dir: Path) -> None:
    if roots:
        with redirect_stdout(sys.stderr):
            index_command.main(["--index-dir", str(index_dir)], standalone_mode=False)


def _files(
    client: str, index_dir: Path, asked: Asked
) -> list[tuple[Path, tuple[str, list[Entry]]]]:
    """Return the files of a host with what is to become of each; none if it is not here."""
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
    return [(file, (client, entries)) for file, entries in files.items()]


def _handle(file: Path, client: str, entries: list[Entry], *, do: bool) -> dict[str, JsonValue]:
    """Plan the change of a file, or make it; return what comes of it."""
    kinds = ", ".join("hook" if entry.is_hook else "server" for entry in entries)
    row = {"client": client, "entries": kinds, "file": str(file)}
    try:
        change = Change.plan(file, entries)
        if not change.is_needed:
            return row | {"state": "unchanged"}
        if do:
            show_change(change)
            return row | {"state": "changed"}
    except (ConfigError, OSError) as exc:
        return row | {"state": "refused", "reason": str(exc)}
    return row | {"state": "write" if entries[0].value is not None else "remove"}
