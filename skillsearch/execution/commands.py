"""Decides which commands may run, and how: by a shell, or by name if there are lists.

A list governs what is started, not what that starts in turn. Variables are made from nothing, but
for harmless ones that a caller gives, and an editor for commands that open one.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import NamedTuple

from skillsearch.errors import CommandRefusedError, WorkspaceError
from skillsearch.execution.types import MAX_COMMAND_BYTES
from skillsearch.execution.workspaces.files import explained, remove_tree, replace_file
from skillsearch.execution.workspaces.workspace import Workspace
from skillsearch.files.openat import open_folder, using
from skillsearch.files.paths import first_of, is_utf8, shown
from skillsearch.text.safe_text import listed, one_line
from skillsearch.text.tables import read_tables

_SHELL = (
    'if command -v bash >/dev/null; then s=bash; else s=sh; fi; exec "$s" -lc "$0" "$s" "${PATH-}"'
)
"""A login shell whose first argument is the ``PATH`` from before its profile."""
_KEEP_PATH = 'export PATH="${1:-$PATH}"; shift; '
_LISTS = read_tables(Path(__file__).with_suffix(".txt"))
_STARTERS, _INTERPRETERS = map(frozenset, _LISTS["programs"].values())
_PIECE = re.compile(
    r"(?P<blank>[ \t]+)"
    r"|'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\$`]|\\[^\n])*)"'
    r"|\\(?P<escaped>[^\r\n])"
    r"|(?P<special>[~#])"
    r"|(?P<plain>[^\s'\"\\;&|<>$`(){}*?\[~#]+)"
    r"|(?P<refused>.)",
    re.DOTALL,
)
"""A part of a command; ``special`` means something to a shell at the beginning of a word."""
_ESCAPED = re.compile(r'\\([$`"\\])')
_VERSION = re.compile(r"[\d.]+$")
_ASSIGNMENT = re.compile(r"\w+\+?=", re.ASCII)
_MAX_SHOWN = 20
_EMPTY = "is empty; name a program"
_TOO_LONG = f"is longer than {MAX_COMMAND_BYTES >> 10} KiB; put it into a file, or into stdin"
_STARTS = "can start others, denied ones too: run a file of the skill with it, or have it allowed"
_OPEN_QUOTE = "a quote that does not end, or $ or ` in double quotes"

EDITORS = ("EDITOR", "VISUAL")
MAX_VARIABLES, MAX_BYTES = 100, 64 << 10
"""Of the caller: names and values together."""

_ALWAYS = ("/usr/local/bin", "/usr/bin", "/bin")
_IF_PRESENT = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/opt/homebrew/bin")
_DEFAULTS = {
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PYTHONDONTWRITEBYTECODE": "1",  # the copy of a skill stays as it is, even for root
}
_MAX_SKILL_CHARS = 200
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_REFUSED, _HARMLESS = (
    re.compile("|".join(name for names in _LISTS[title].values() for name in names))
    for title in ("refused variables", "harmless variables")
)

_EDITOR_FOLDER = ".skillsearch"
_EDITOR_TEXT = "editor_input.txt"
_EDITOR_NAME = "skillsearch-editor"
_EDITOR_SCRIPT = f"""#!/bin/sh
for file; do :; done
cat -- "${{0%/*}}/{_EDITOR_TEXT}" > "$file"
"""
"""The file to edit is the last argument; options such as a line number may come before it."""


class CommandPolicy(NamedTuple):
    """Lists of allowed and denied commands; without any, everything may run, and by a shell.

    An entry is a name, a path, absolute or below the skill, or a whole command. Only the allowed
    may run, if there are any; the denied may not, not even by another path or with more arguments.
    """

    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()

    def argv(self, command: str | tuple[str, ...], *, skill: Path | None = None) -> tuple[str, ...]:
        """Return the program and arguments to start for a command.

        Text is read by a login shell if there are no lists. Pass the folder of the skill only if
        the command runs there: elsewhere a relative path would name something unchecked. Raises a
        `CommandRefusedError` for what is forbidden, empty, too long, or needs a shell.
        """
        text = "".join(command)
        rules = {
            _EMPTY: not text.strip(),
            _TOO_LONG: len(text.encode("utf-8", "surrogatepass")) > MAX_COMMAND_BYTES,
            "holds a NUL, which no program can be given; leave it out": "\0" in text,
        }
        _refuse_if("The command", rules)
        if not self.allowed and not self.denied:
            return shell_argv(command) if isinstance(command, str) else command
        words = split_words(command) if isinstance(command, str) else command
        _refuse_if("The command", {_EMPTY: not words or not words[0]})
        if isinstance(command, str) and _ASSIGNMENT.match(words[0]):
            raise CommandRefusedError(
                f"The command begins with {shown(words[0])}, which only a shell would take for a"
                " variable; set it in the environment of the run."
            )
        self._check(words, skill)
        return words

    def _check(self, words: tuple[str, ...], skill: Path | None) -> None:
        program = words[0]
        target = _inside(program, skill) if "/" in program else None
        names = {PurePath(program).name, (target or PurePath(program)).name}
        is_listed = self._is_allowed(words, target, skill)
        allowed = listed(self.allowed, _MAX_SHOWN)
        runs_own = len(words) > 1 and _inside(words[1], skill)
        starters = _STARTERS if runs_own else _STARTERS | _INTERPRETERS
        can_start = starters & {_VERSION.sub("", name) for name in names}
        rules = {
            "is denied; use another program": self._is_denied(words, names),
            f"is not allowed; allowed are: {allowed}": self.allowed and not is_listed,
            _STARTS: self.denied and not is_listed and can_start,
        }
        _refuse_if(f"The command {shown(program)}", rules)

    def _is_allowed(self, words: tuple[str, ...], target: Path | None, skill: Path | None) -> bool:
        """Return whether an entry is the command, or its program, a file of the skill or not."""
        program = words[0]
        if "/" in program and not program.startswith("/") and target is None:
            return False
        return any(
            entry == program
            or tuple(entry.split()) == words
            or (target is not None and "/" in entry and _inside(entry, skill) == target)
            for entry in self.allowed
        )

    def _is_denied(self, words: tuple[str, ...], names: set[str]) -> bool:
        """Return whether an entry is the beginning of the command, or a name of its program."""
        entries = [tuple(entry.split()) for entry in self.denied]
        return any(
            entry == words[: len(entry)] or (len(entry) == 1 and PurePath(entry[0]).name in names)
            for entry in filter(None, entries)
        )


def _refuse_if(what: str, rules: Mapping[str, object]) -> None:
    """Refuse a command for the first rule that it breaks."""
    if reason := first_of(rules):
        raise CommandRefusedError(f"{what} {reason}.")


def shell_argv(command: str) -> tuple[str, ...]:
    """Return what runs a text by a login shell: bash or else sh, looked up where it runs."""
    return ("sh", "-c", _SHELL, _KEEP_PATH + command)


def split_words(command: str) -> tuple[str, ...]:
    """Split a text into words as a shell does.

    A CommandRefusedError if a shell would do more with it.
    """
    words: list[str] = []
    word: str | None = None
    for match in _PIECE.finditer(command.strip("\r\n")):
        kind, piece = match.lastgroup, match[match.lastgroup or 0]
        if kind == "refused" or (kind == "special" and word is None):
            what = _OPEN_QUOTE if piece in "'\"" else f"{piece!r} outside of quotes"
            raise CommandRefusedError(
                f"The command holds {what}, and with lists of commands no shell reads it: give one"
                " program with its arguments, and put literal text in single quotes."
            )
        if kind == "blank":
            words += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + (_ESCAPED.sub(r"\1", piece) if kind == "double" else piece)
    return (*words, *([] if word is None else [word]))


def _inside(path: str, skill: Path | None) -> Path | None:
    """Return the file of the skill that a relative path names, if there is one."""
    if skill is None or path.startswith(("/", "-")):
        return None
    root = Path(os.path.realpath(skill))
    try:
        target = Path(os.path.realpath(root / path))
        return target if target.is_file() and target.is_relative_to(root) else None
    except (OSError, ValueError):  # a path that no system could have
        return None


def clean_environment(
    workspace: Workspace, run_dir: Path, skill: str, extra: Mapping[str, str]
) -> dict[str, str]:
    """Return all variables of a run, of which a caller, maybe a model, gives harmless ones.

    Nothing comes from this process but the folder of its Python, which is first in ``PATH``. The
    run's folder is its home: what earlier commands left (.bash_profile, .gitconfig) starts nothing
    in this one. A `WorkspaceError` refuses variables that start code.
    """
    fixed = {
        "WORKSPACE_DIR": str(workspace.path),
        "SKILLS_DIR": str(workspace.skills),
        "WORK_DIR": str(workspace.work),
        "OUTPUT_DIR": str(workspace.out),
        "RUN_DIR": str(run_dir),
        "SKILL_NAME": one_line(skill, _MAX_SKILL_CHARS),
        "HOME": str(run_dir),
        "TMPDIR": str(run_dir),
        "PATH": _search_path(),
    }
    size = len("".join((*extra, *extra.values())).encode("utf-8", "surrogatepass"))
    if len(extra) > MAX_VARIABLES or size > MAX_BYTES:
        raise WorkspaceError(
            f"The {len(extra):,} variables given are more than {MAX_VARIABLES}, or larger than "
            f"{MAX_BYTES >> 10} KiB; write them to a file."
        )
    for name, value in extra.items():
        is_harmful = _REFUSED.fullmatch(name) and not _HARMLESS.fullmatch(name)
        is_odd = "\0" in value or not is_utf8(value)
        rules = {
            "has an impossible name; use letters, digits and '_'": not _VARIABLE.fullmatch(name),
            "is set for every run; use another name": name in fixed,
            "can make programs load or start other code; leave it out": is_harmful,
            "holds characters that no variable should; write them to a file": is_odd,
        }
        if reason := first_of(rules):
            raise WorkspaceError(f"The variable {name[:100]!r} {reason}.")
    return {**_DEFAULTS, **extra, **fixed}


def _search_path() -> str:
    python = str(Path(sys.executable).parent)
    is_usable = python.startswith("/") and ":" not in python
    own = [python] if is_usable and os.access(f"{python}/python3", os.X_OK) else []
    others = (folder for folder in _IF_PRESENT if os.access(folder, os.X_OK))
    return ":".join(dict.fromkeys((*own, *_ALWAYS, *others)))


def write_editor(workspace: Workspace, text: str, search_path: str) -> dict[str, str]:
    """Put an editor that writes a text into a workspace; return the variables that name it."""
    failed = explained(
        f"The editor for editor_text cannot be put into {shown(workspace.work)} (%s); check that"
        " its disk has space."
    )
    with failed, using(workspace.open("work")) as work:
        remove_tree(work, _EDITOR_FOLDER)
        with using(open_folder(work, (_EDITOR_FOLDER,), make=True)) as folder:
            replace_file(folder, _EDITOR_TEXT, (text.encode("utf-8", "replace"),), 0o600)
            replace_file(folder, _EDITOR_NAME, (_EDITOR_SCRIPT.encode(),), 0o700)
    bin_dir = str(workspace.work / _EDITOR_FOLDER)
    script = f"{bin_dir}/{_EDITOR_NAME}"
    if shlex.quote(script) == script or ":" in bin_dir:
        return dict.fromkeys(EDITORS, shlex.quote(script))
    # `$EDITOR file` splits a path at its blanks however it is quoted, so PATH has to find it.
    return {**dict.fromkeys(EDITORS, _EDITOR_NAME), "PATH": f"{search_path}:{bin_dir}"}
