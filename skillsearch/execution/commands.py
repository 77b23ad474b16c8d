"""Decides which commands may run, and how: by a shell, or by name if there are lists.

A list governs what is started, not what that starts in turn: an allowed script of a skill can do
everything that the executor lets it do.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePath

from skillsearch.errors import CommandRefusedError
from skillsearch.execution.types import MAX_COMMAND_BYTES
from skillsearch.files.paths import shown
from skillsearch.text.safe_text import listed

_SHELL = (
    'if command -v bash >/dev/null; then s=bash; else s=sh; fi; exec "$s" -lc "$0" "$s" "${PATH-}"'
)
"""A login shell whose first argument is the ``PATH`` from before its profile."""
_KEEP_PATH = 'export PATH="${1:-$PATH}"; shift; '
_STARTERS = frozenset(
    "awk busybox chroot chrt doas docker ed emacs env ex find flock gawk gdb git ionice ltrace make"
    " mawk nice nohup nsenter parallel podman prlimit rsync runuser script sed setpriv setsid ssh"
    " stdbuf strace su sudo systemd-run tar taskset time timeout toybox unshare vi vim watch"
    " xargs".split()
)
"""Programs that start others named by their arguments. No such list is complete."""
_INTERPRETERS = frozenset(
    "ash bash bun csh dash deno expect fish guile ipython ksh lua luajit mksh node nodejs perl php"
    " pwsh pypy python ruby sh tcsh tclsh zsh Rscript".split()
)
_PIECE = re.compile(
    r"(?P<blank>[ \t]+)"
    r"|'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\$`]|\\[^\n])*)"'
    r"|\\(?P<escaped>[^\r\n])"
    r"|(?P<special>[~#])"
    r"|(?P<plain>[^\s'\"\\;&|<>$`(){}*?\[~#]+)"
)
"""A part of a command; ``special`` means something to a shell at the beginning of a word."""
_ESCAPED = re.compile(r'\\([$`"\\])')
_VERSION = re.compile(r"[\d.]+$")

_ASSIGNMENT = re.compile(r"\w+\+?=", re.ASCII)
_MAX_SHOWN = 20


@dataclass(frozen=True, slots=True)
class CommandPolicy:
    """Lists of allowed and denied commands; without any, everything may run, and by a shell.

    An entry is a name, which means the program that ``PATH`` finds; a path, absolute or below the
    skill; or a whole command, its words separated by single blanks.

    Attributes:
        allowed: The only commands that may run; empty for all that are not denied.
        denied: Commands that may not run, not even under another path or with more arguments.
    """

    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()

    def argv(self, command: str | tuple[str, ...], *, skill: Path | None = None) -> tuple[str, ...]:
        """Return the program and arguments to start for a command.

        Text is read by a login shell if there are no lists; a program with its arguments never is.
        Pass the folder of the skill only if the command runs there: elsewhere a relative path would
        name something unchecked. Raises a `CommandRefusedError` if the lists forbid the command,
        or it is empty, too long, or holds something that only a shell could interpret.
        """
        _check_text(command)
        if not self.allowed and not self.denied:
            return shell_argv(command) if isinstance(command, str) else command
        words = split_words(command) if isinstance(command, str) else command
        if not words or not words[0]:
            raise CommandRefusedError("The command is empty; name a program.")
        if isinstance(command, str) and _ASSIGNMENT.match(words[0]):
            raise CommandRefusedError(
                f"The command begins with {shown(words[0])}, which only a shell would take for a"
                " variable; set it in the environment of the run."
            )
        self._check(words, skill)
        return words

    def _check(self, words: tuple[str, ...], skill: Path | None) -> None:
        """Refuse a command that the lists forbid."""
        is_listed = self._is_listed(words, skill)
        if self._is_denied(words, skill):
            raise CommandRefusedError(f"The command {shown(words[0])} is denied.")
        if self.allowed and not is_listed:
            raise CommandRefusedError(
                f"The command {shown(words[0])} is not allowed; allowed are: "
                f"{listed(self.allowed, _MAX_SHOWN)}."
            )
        if self.denied and not is_listed and _can_start_others(words, skill):
            raise CommandRefusedError(
                f"The command {shown(words[0])} can start others, denied ones too: run a file of"
                " the skill with it, or have it allowed."
            )

    def _is_listed(self, words: tuple[str, ...], skill: Path | None) -> bool:
        program = words[0]
        target = _own_file(program, skill)
        if "/" in program and not program.startswith("/") and target is None:
            return False
        return any(
            tuple(entry.split()) == words
            or entry == program
            or (target is not None and "/" in entry and _inside(entry, skill) == target)
            for entry in self.allowed
        )

    def _is_denied(self, words: tuple[str, ...], skill: Path | None) -> bool:
        """Return whether the denied list covers a command, or its program."""
        names = _names(words[0], skill)
        for entry in self.denied:
            parts = tuple(entry.split())
            if parts and parts == words[: len(parts)]:
                return True
            if len(parts) == 1 and PurePath(entry).name in names:
                return True
        return False


def shell_argv(command: str) -> tuple[str, ...]:
    """Return the program and arguments that run a text by a login shell: bash, else sh.

    The login profile may replace ``PATH`` (Debian's does); that of the run is restored. The shell
    is looked up where the program runs, so this works in a container too.
    """
    return ("sh", "-c", _SHELL, _KEEP_PATH + command)


def split_words(command: str) -> tuple[str, ...]:
    """Split a text into words as a shell does, quotes and backslashes included.

    Raises a `CommandRefusedError` if a shell would do more with it (start a second program,
    redirect, expand, ignore a comment), or if a quote does not end.
    """
    text = command.strip("\r\n")
    words: list[str] = []
    word: str | None = None
    position = 0
    while position < len(text):
        found = _PIECE.match(text, position)
        if found is None or (found["special"] and word is None):
            raise CommandRefusedError(_why(text[position]))
        position = found.end()
        if found["blank"]:
            words += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + _literal(found)
    return (*words, *([] if word is None else [word]))


def _literal(found: re.Match[str]) -> str:
    if found["double"] is not None:
        return _ESCAPED.sub(r"\1", found["double"])
    return found["single"] or found["escaped"] or found["special"] or found["plain"] or ""


def _why(char: str) -> str:
    if char in "'\"":
        what = "a quote that does not end, or $ or ` in double quotes"
    else:
        what = f"{char!r} outside of quotes"
    return (
        f"The command holds {what}, and with lists of commands no shell reads it: give one"
        " program with its arguments, and put literal text in single quotes."
    )


def _check_text(command: str | tuple[str, ...]) -> None:
    """Refuse what is empty, too long, or cannot be passed to a program."""
    words = (command,) if isinstance(command, str) else command
    if not any(word.strip() for word in words):
        raise CommandRefusedError("The command is empty; name a program.")
    if sum(len(word.encode("utf-8", "surrogatepass")) for word in words) > MAX_COMMAND_BYTES:
        raise CommandRefusedError(
            f"The command is longer than {MAX_COMMAND_BYTES >> 10} KiB; put it into a file, or into"
            " stdin."
        )
    if any("\0" in word for word in words):
        raise CommandRefusedError("The command holds a NUL, which no program can be given.")


def _names(program: str, skill: Path | None) -> set[str]:
    """Return the names of a program: its own, and its target's if it is a link."""
    target = _own_file(program, skill)
    return {PurePath(program).name, *((target.name,) if target else ())}


def _can_start_others(words: tuple[str, ...], skill: Path | None) -> bool:
    """Return whether a command may start what its arguments name, unless a file of the skill."""
    names = {_VERSION.sub("", name) for name in _names(words[0], skill)}
    if names & _STARTERS:
        return True
    return bool(names & _INTERPRETERS) and not (len(words) > 1 and _inside(words[1], skill))


def _own_file(program: str, skill: Path | None) -> Path | None:
    """Return the program's file in the skill; None for one that ``PATH`` finds."""
    return _inside(program, skill) if "/" in program else None


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
