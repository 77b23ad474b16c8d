"""The command line: parse, call, print. Nothing here decides anything about skills."""

from skillsearch.cli.app import main

__all__ = ["main"]
