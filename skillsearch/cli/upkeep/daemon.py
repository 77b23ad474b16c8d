"""``skillsearch daemon``: start, stop or show the warm process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch._version import __version__
from skillsearch.cli import options, output
from skillsearch.cli.app import refuse
from skillsearch.cli.output import say
from skillsearch.daemon import client
from skillsearch.errors import DaemonError
from skillsearch.files.locks import briefly_locked
from skillsearch.types.json_values import JsonObject, objects_of

if TYPE_CHECKING:
    from skillsearch.daemon.questions import Method

END_SECONDS = 10.0
"""Longer than a stopping daemon waits for the answers it still owes."""


@click.command("daemon")
@click.argument("action", type=click.Choice(["start", "stop", "status"]))
@click.option(
    "--idle",
    type=options.Number(min=0, max=7 * 24 * 60, min_open=True),
    metavar="MINUTES",
    help="With start: stop after this time without a query. [default: 15]",
)
@options.as_json(lambda: options.models.DAEMON)
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
        output.show_rows(
            rows + [("index", row["index_dir"]) for row in objects_of(status["indexes"])]
        )
    return int(status is None)


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
        say("No daemon is running.")
        return
    try:
        # Not its number: in a container that may stay, or be another process here.
        with briefly_locked(Path(client.lock_path()), END_SECONDS):
            say("The daemon has stopped.")
    except TimeoutError as exc:
        raise DaemonError(f"The daemon does not stop; to end it: kill -9 {stopped['pid']}") from exc
