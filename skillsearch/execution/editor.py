"""An editor for commands that open one: it writes a text that was given beforehand."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from skillsearch.errors import ExecutionError, WorkspaceError
from skillsearch.execution.removal import remove_tree
from skillsearch.execution.workspace import Workspace

VARIABLES = ("EDITOR", "VISUAL")

_FOLDER = ".skillsearch"
_TEXT = "editor_input.txt"
_SCRIPT = "editor_write.sh"
_WRITE = f"""#!/bin/sh
for file; do :; done
cat -- "${{0%/*}}/{_TEXT}" > "$file"
"""
"""The file to edit is the last argument; options such as a line number may come before it."""


def check_editor(env: Mapping[str, str]) -> None:
    """Refuse variables that name another editor than the one for a given text.

    Args:
        env: The variables that were asked for.

    Raises:
        ExecutionError: When one of them names an editor.
    """
    if named := [name for name in VARIABLES if name in env]:
        raise ExecutionError(
            f"editor_text sets {' and '.join(VARIABLES)}, but env sets {' and '.join(named)}; leave"
            " out the one or the other."
        )


def write_editor(workspace: Workspace, text: str) -> dict[str, str]:
    """Put an editor into a workspace, in the place of the one before.

    Args:
        workspace: The workspace.
        text: What the editor writes into any file that it is given.

    Returns:
        The variables that make commands use it.

    Raises:
        WorkspaceError: When it cannot be written.
    """
    try:
        work = workspace.open("work")
        try:
            remove_tree(work, _FOLDER)
            os.mkdir(_FOLDER, 0o700, dir_fd=work)
        finally:
            os.close(work)
        folder = workspace.open("work", _FOLDER)
        try:
            _write(folder, _TEXT, text.encode("utf-8", "replace"), 0o600)
            _write(folder, _SCRIPT, _WRITE.encode(), 0o700)
        finally:
            os.close(folder)
    except OSError as exc:
        raise WorkspaceError(
            f"The editor for editor_text cannot be put into {workspace.work} ({exc.strerror}); "
            "check that its disk has space."
        ) from exc
    script = shlex.quote(str(workspace.work / _FOLDER / _SCRIPT))
    return dict.fromkeys(VARIABLES, script)


def _write(folder: int, name: str, data: bytes, mode: int) -> None:
    """Write a new file into an open folder."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, mode, dir_fd=folder), "wb") as file:  # noqa: PTH123
        file.write(data)
