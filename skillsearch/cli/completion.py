"""``skillsearch completion``: names and options, completed by the shell."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from skillsearch.cli.output import is_terminal, say

_COMPLETION: dict[str, tuple[type[ShellComplete], str]] = {
    "bash": (BashComplete, '~/.bashrc: eval "$(skillsearch completion bash)"'),
    "zsh": (ZshComplete, '~/.zshrc: eval "$(skillsearch completion zsh)"'),
    "fish": (FishComplete, "~/.config/fish/config.fish: skillsearch completion fish | source"),
}


@click.command("completion")
@click.argument("shell", type=click.Choice(tuple(_COMPLETION)))
def completion_command(shell: str) -> None:
    """Print the completion script for a shell.

    It completes commands, options and skill names.

    \b
    bash, in ~/.bashrc:    eval "$(skillsearch completion bash)"
    zsh, in ~/.zshrc:      eval "$(skillsearch completion zsh)"
    fish, in config.fish:  skillsearch completion fish | source
    """  # noqa: D301 - click reads the control character, not its escape
    completion_class, line = _COMPLETION[shell]
    root = click.get_current_context().find_root().command
    click.echo(completion_class(root, {}, "skillsearch", "_SKILLSEARCH_COMPLETE").source())
    if is_terminal():
        say(f"Add to {line}")
