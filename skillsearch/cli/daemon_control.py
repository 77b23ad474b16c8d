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
"""Longer than a daemon that ends waits for what it still answers."""


@command("daemon")
@click.argument("action", type=click.Choice(["start", "stop", "status"]))
@click.option(
    "--idle",
    type=click.FloatRange(min=0, max=7 * 24 * 60, min_open=True),
    metavar="MINUTES",
    help="With start: end after so long without a question. [default: 15]",
)
@json_option
@click.pass_context
def daemon_command(context: click.Context, action: str, idle: float | None, as_json: bool) -> None:
    """Keep model and index warm in the background, for "query" and "hook".

    Both do without it, only slower; "hook" starts it by itself. There is one for each user, and
    it ends when idle. SKILLSEARCH_DAEMON=off turns it off. "status" exits with 1 where none runs.
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
        _show(status)
    if action == "status" and status is None:
        say("No daemon runs; to start one: skillsearch daemon start")
        context.exit(1)


def _status() -> dict[str, JsonValue] | None:
    """Ask the daemon how it is; None where none runs."""
    return client.ask("status", seconds=ANSWER_SECONDS)


def _start(idle: float) -> None:
    """Start the daemon unless it runs, and tell."""
    status = _status()
    if status is None:
        client.start(idle=idle)
        status = _status()
        if status is None:
            raise DaemonError("The daemon before is just ending; try again in a moment.")
        say(f"The daemon runs (pid {status['pid']}); it ends after {idle / 60:g} idle minutes.")
    elif status["version"] != __version__:
        raise DaemonError(
            f"A daemon of version {status['version']} runs; to end it: skillsearch daemon stop"
        )
    else:
        say(f"The daemon runs already (pid {status['pid']}).")


def _stop() -> None:
    """Have the daemon end, and wait until its process is gone."""
    stopped = client.ask("stop", seconds=ANSWER_SECONDS)
    if stopped is None:
        say("No daemon runs.")
        return
    deadline = time.monotonic() + END_SECONDS
    while _lives(int(stopped["pid"])):
        if time.monotonic() > deadline:
            raise DaemonError(f"The daemon does not end; to end it: kill {stopped['pid']}")
        time.sleep(0.02)
    say("The daemon has ended.")


def _lives(process: int) -> bool:
    """Tell whether a process of ours is there."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _show(status: dict[str, JsonValue]) -> None:
    """Print the status of the daemon, one fact a line."""
    rows = [(key, status[key]) for key in ("pid", "version", "seconds", "answered")]
    rows += [("index", index["index_dir"]) for index in status["indexes"]]
    emit_rows(rows)
