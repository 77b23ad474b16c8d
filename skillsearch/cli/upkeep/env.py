"""``skillsearch env``: named environments of skills."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli import options, output
from skillsearch.cli.app import refuse
from skillsearch.cli.options import read_settings
from skillsearch.cli.output import say
from skillsearch.types.json_values import JsonObject

if TYPE_CHECKING:
    from skillsearch.agents.toolsets.server_environment import ServerEnvironment


@click.command("env")
@click.argument("action", type=click.Choice(["list", "show", "switch"]))
@click.argument("name", required=False)
@options.header
@options.as_json(lambda: options.models.ENV)
def env_command(action: str, name: str | None, as_json: bool) -> None:
    """List or show named environments, or switch to one.

    An environment is a folder NAME/skills below the setting "environments". Without NAME, "show"
    takes the one in use. "switch" writes its name as activeEnvironment into the config.jsonc next
    to that folder, where the toolset of environments reads it.
    """
    from skillsearch.agents.toolsets.server_environment import ServerEnvironment, set_active

    refuse(action == "switch" and name is None, "switch needs the NAME.")
    refuse(action == "list" and name, "list takes no NAME; show does.")
    environment = ServerEnvironment()
    settings = read_settings()
    names = environment.list_environments()
    _enter(environment, name, settings.environments, is_empty=not names)
    if action == "switch":
        set_active(environment.name, settings)
    folder, active = settings.environments, environment.name
    record: JsonObject = {"folder": str(folder), "active": active, "environments": names}
    rows: list[tuple[str, ...]] = [(each, "in use" if each == active else "") for each in names]
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
