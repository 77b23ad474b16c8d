"""The command line: every command parses, calls and prints; it decides nothing about skills."""

import atexit
import gc
import os
import sys

from skillsearch.cli.interrupts import leave_on_interrupt, raise_on_interrupt
from skillsearch.settings.environ import settle

__all__ = ["main", "run_process"]

_NEW_OBJECTS = 100_000
"""After so many new objects a query looks for cycles; after Python's 700 it would do so 100 times,
for a thirtieth of its time. What stays open does, since an index holds many open files."""
_BRIEF = ("hook", "prompt", "query")


def main() -> None:
    """Run the command line; a plain ``hook`` skips click, whose import outlasts the hook."""
    if sys.argv[1:2] and sys.argv[1] in _BRIEF:
        gc.set_threshold(_NEW_OBJECTS)
    leave_on_interrupt()
    settle()
    if sys.argv[1:2] == ["hook"]:
        from skillsearch.cli.hosts.hook import parse, run

        arguments = parse(sys.argv[2:])
        if arguments is not None:
            raise_on_interrupt()
            host, index_dir, include_unvetted = arguments
            run(host, index_dir, include_unvetted=include_unvetted)
            return
    from skillsearch.cli.app import main as run_command

    run_command()


def run_process() -> None:
    """Run `main` and end the process, without freeing its memory object by object.

    That would take a sixth of a query. Threads that are still at work end the usual way.
    """
    code: str | int | None = None
    try:
        main()
    except SystemExit as exc:
        code = exc.code
    threading = sys.modules.get("threading")
    is_alone = threading is None or threading.active_count() == 1
    if is_alone and (code is None or isinstance(code, int)):
        try:
            for stream in filter(None, (sys.stdout, sys.stderr)):  # none that is closed
                stream.flush()
        except (OSError, ValueError):
            sys.exit(code)
        atexit._run_exitfuncs()  # as the interpreter would
        os._exit(code or 0)
    sys.exit(code)
