"""The command line: every command parses, calls and prints; it decides nothing about skills."""

import sys

from skillsearch.cli.interrupts import leave_on_interrupt, raise_on_interrupt
from skillsearch.environ import settle

__all__ = ["main"]


def main() -> None:
    """Run the command line; a plain ``hook`` skips click, whose import outlasts the hook."""
    leave_on_interrupt()
    settle()
    if sys.argv[1:2] == ["hook"]:
        from skillsearch.cli.hook import parse, run

        arguments = parse(sys.argv[2:])
        if arguments is not None:
            raise_on_interrupt()
            client, index_dir, include_unvetted = arguments
            run(client, index_dir, include_unvetted=include_unvetted)
            return
    from skillsearch.cli.app import main as run_command

    run_command()
