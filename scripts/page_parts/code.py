"""What pages take from tables of the code: hosts, settings, commands and exit codes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click
import markdown_tables

from skillsearch.cli.app import EXIT_MEANINGS, app
from skillsearch.hosts.table import hosts
from skillsearch.settings.table import SETTINGS, text_of


def hosts_table() -> str:
    """Return a row for each host: where it looks, whose skill wins, what we can do for it."""
    heads = ["host", "skills of the user", "of a project", "first", "plugins", "server", "hook"]
    rows = []
    for name, row in hosts().items():
        cells = [f"{row['title']} (`{name}`)", _paths(row["skills"]), _paths(row["project"])]
        cells += [row.get("first", ""), "yes" if "plugins" in row else ""]
        cells += ["yes" if key in row else "" for key in ("servers", "hook")]
        rows.append(cells)
    return markdown_tables.text(heads, rows)


def _paths(templates: Sequence[str]) -> str:
    """Return folders as code, by the usual name of one that a variable may move."""
    usual = (re.sub(r"\{\w+:([^}]*)\}", r"\1", template) for template in templates)
    return ", ".join(f"`{path}`" for path in usual)


def settings_table() -> str:
    """Return a row for each setting: its name and its text."""
    rows = ((f"`{name}`", text_of(name)) for name in SETTINGS)
    return markdown_tables.text(["setting", "what it says"], rows)


def commands_table() -> str:
    """Return a row for each command: how it is typed, and the first sentence of its help."""
    context = click.Context(app)
    rows = []
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        assert command is not None
        pieces = command.collect_usage_pieces(click.Context(command, info_name=name))
        typed = " ".join(["skillsearch", name, *pieces[1:]]).replace("|", r"\|")
        sentence = " ".join((command.help or "").partition("\n\n")[0].split())
        rows.append((f"`{typed}`", sentence))
    return markdown_tables.text(["command", "what it does"], rows)


def exit_codes_table() -> str:
    """Return a row for each exit code."""
    rows = ((str(code), text) for code, text in EXIT_MEANINGS.items())
    return markdown_tables.text(["exit code", "meaning"], rows)
