"""The command line: parse, call, print. Nothing here decides anything about skills."""

import sys

from skillsearch.cli.interrupts import leave_on_interrupt, raise_on_interrupt

__all__ = ["main"]


def main() -> None:
    """Run the command line; a plain ``hook`` without click, which takes longer than the hook."""
    leave_on_interrupt()
    if sys.argv[1:2] == ["hook"]:
        from skillsearch.cli.prompt_hook import parse, run

        options = parse(sys.argv[2:])
        if options is not None:
            raise_on_interrupt()
            run(**options)
            return
    from skillsearch.cli.app import main as run_command

    run_command()
