"""The command line: parse, call, print. Nothing here decides anything about skills."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; a plain ``hook`` without click, which takes longer than the hook."""
    if sys.argv[1:2] == ["hook"]:
        from skillsearch.cli.prompt_hook import parse, run

        options = parse(sys.argv[2:])
        if options is not None:
            run(**options)
            return
    from skillsearch.cli.app import main as run_command

    run_command()
