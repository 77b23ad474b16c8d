"""An editor for commands that open one: it writes a text that was given beforehand."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from skillsearch.errors import ExecutionError, WorkspaceError
from skillsearch.execution.files import replace_file
from skillsearch.execution.removal import remove_tree
from skillsearch.execution.workspace import Workspace
from skillsearch.files.openat import open_folder, using
from skillsearch.files.paths import shown

VARIABLES = ("EDITOR", "VISUAL")

_FOLDER = ".skillsearch"
_TEXT = "editor_input.txt"
_SCRIPT = "skillsearch-editor"
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


def write_editor(workspace: Workspace, text: str, search_path: str) -> dict[str, str]:
    """Put an editor into a workspace, in the place of the one before.

    Args:
        workspace: The workspace.
        text: What the editor writes into any file that it is given.
        search_path: The ``PATH`` of the run.

    Returns:
        The variables that make commands use it.

    Raises:
        WorkspaceError: When it cannot be written.
    """
    try:
        with using(workspace.open("work")) as work:
            remove_tree(work, _FOLDER)
            with using(open_folder(work, (_FOLDER,), make=True)) as folder:
                replace_file(folder, _TEXT, (text.encode("utf-8", "replace"),), 0o600)
                replace_file(folder, _SCRIPT, (_WRITE.encode(),), 0o700)
    except OSError as exc:
        raise WorkspaceError(
            f"The editor for editor_text cannot be put into {shown(workspace.work)} "
            f"({exc.strerror}); check that its disk has space."
        ) from exc
    place = str(workspace.work / _FOLDER)
    script = f"{place}/{_SCRIPT}"
    if shlex.quote(script) == script or ":" in place:
        return dict.fromkeys(VARIABLES, shlex.quote(script))
    # `$EDITOR file` splits a path at its blanks, whatever is around it; so it is found by its name.
    return {**dict.fromkeys(VARIABLES, _SCRIPT), "PATH": f"{search_path}:{place}"}
