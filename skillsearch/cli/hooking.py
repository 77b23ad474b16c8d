"""``skillsearch hook``, where it is called with more than what `prompt_hook` can read by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from skillsearch.cli import prompt_hook
from skillsearch.cli.options import command, index_dir_option


class NeverBlocking(click.Command):
    """A command that wrong options end with 1: hosts take the usual 2 for "block the prompt"."""

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        """Read the arguments."""
        try:
            return super().make_context(*args, **options)
        except click.UsageError as exc:
            exc.exit_code = 1  # type: ignore[misc]  # click declares it for the class
            raise


@command("hook", NeverBlocking)
@click.option(
    "--client",
    type=click.Choice(prompt_hook.CLIENTS),
    help="The host to answer. [default: by the name of its event]",
)
@index_dir_option
def hook_command(client: str | None, index_dir: Path | None) -> None:
    """Answer the prompt hook of a host with the skills that fit the prompt.

    Reads the host's event from stdin, JSON with a "prompt", and prints up to three skills in the
    form the host adds to the prompt; nothing where none fits. What goes wrong is a line on stderr:
    a prompt waits for two seconds at most and is never blocked. Starts the daemon, so that the
    next prompt waits for a tenth of a second.
    """
    prompt_hook.run(client, str(index_dir) if index_dir else None)
