"""``skillsearch completion``."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

from skillsearch.cli.options import command
from skillsearch.cli.output import say

_VARIABLE = "_SKILLSEARCH_COMPLETE"
_SETUP = {
    "bash": 'Put into ~/.bashrc: eval "$(skillsearch completion bash)"',
    "zsh": 'Put into ~/.zshrc: eval "$(skillsearch completion zsh)"',
    "fish": "Put into ~/.config/fish/config.fish: skillsearch completion fish | source",
}


@command("completion")
@click.argument("shell", type=click.Choice(tuple(_SETUP)))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print the script that lets a shell complete commands, options and skill names.

    \b
    bash, in ~/.bashrc:    eval "$(skillsearch completion bash)"
    zsh, in ~/.zshrc:      eval "$(skillsearch completion zsh)"
    fish, in config.fish:  skillsearch completion fish | source
    """  # noqa: D301 - click reads the control character, not its escape
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"Completion for {shell} is not known to this version of click.")
    click.echo(kind(context.find_root().command, {}, "skillsearch", _VARIABLE).source())
    if sys.stdout.isatty():
        say(_SETUP[shell])
