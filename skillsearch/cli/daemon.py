"""``skillsearch daemon``."""

from __future__ import annotations

import os
import time

import click

from skillsearch._version import __version__
from skillsearch.cli.options import command, json_option
from skillsearch.cli.output import emit_json, emit_rows, say
from skillsearch.daemon import client, protocol
from skillsearch.errors import DaemonError
from skillsearch.types import JsonValue

ANSWER_SECONDS = 5.0
END_SECONDS = 10.0
"""Longer than a stopping daemon waits for the answers it still owes."""


@command("daemon")
@click.argument("action", type=click.Choice(["start", "stop", "status"]))
@click.option(
    "--idle",
    type=click.FloatRange(min=0, max=7 * 24 * 60, min_open=True),
    metavar="MINUTES",
    help="With start: stop after this time without a query. [default: 15]",
)
@json_option
@click.pass_context
def daemon_command(context: click.Context, action: str, idle: float | None, as_json: bool) -> None:
    """Keep model and index warm in the background.

    "query" and "hook" use it, and work without it, only slower; "hook" starts it by itself. Each
    user has one, and it stops when idle. SKILLSEARCH_DAEMON=off turns it off. "status" exits with 1
    if none runs.
    """
    if idle is not None and action != "start":
        raise click.UsageError("--idle goes with start.")
    if action == "start":
        _start(protocol.IDLE_SECONDS if idle is None else idle * 60)
    elif action == "stop":
        _stop()
    status = _status()
    if as_json:
        emit_json({"running": status is not None, **(status or {})})
    elif action == "status" and status is not None:
        rows = [(key, status[key]) for key in ("pid", "version", "seconds", "answered")]
        emit_rows(rows + [("index", index["index_dir"]) for index in status["indexes"]])
    if action == "status" and status is None:
        say("No daemon is running; to start one: skillsearch daemon start")
        context.exit(1)


def _status() -> dict[str, JsonValue] | None:
    """Return the status of the daemon; None if none runs."""
    return client.ask("status", seconds=ANSWER_SECONDS)


def _start(idle: float) -> None:
    """Start the daemon unless it runs."""
    status = _status()
    if status is None:
        client.start(idle=idle)
        status = _status()
        if status is None:
            raise DaemonError("The previous daemon is still stopping; try again in a moment.")
        say(f"The daemon runs (pid {status['pid']}); it stops after {idle / 60:g} idle minutes.")
    elif status["version"] != __version__:
        raise DaemonError(
            f"A daemon of version {status['version']} runs; to stop it: skillsearch daemon stop"
        )
    else:
        say(f"The daemon already runs (pid {status['pid']}).")


def _stop() -> None:
    """Stop the daemon, and wait until its process is gone."""
    stopped = client.ask("stop", seconds=ANSWER_SECONDS)
    if stopped is None:
        say("No daemon is running.")
        return
    deadline = time.monotonic() + END_SECONDS
    while _is_alive(int(stopped["pid"])):
        if time.monotonic() > deadline:
            raise DaemonError(f"The daemon does not stop; to end it: kill {stopped['pid']}")
        time.sleep(0.02)
    say("The daemon has stopped.")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
