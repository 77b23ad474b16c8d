"""Decides which commands may run, and how: by a shell, or by name if there are lists.

A list governs what is started, not what that starts in turn.
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
_EMPTY = "The command is empty; name a program."
_OPEN_QUOTE = "a quote that does not end, or $ or ` in double quotes"


@dataclass(frozen=True, slots=True)
class CommandPolicy:
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
        words = (command,) if isinstance(command, str) else command
        if not any(word.strip() for word in words):
            raise CommandRefusedError(_EMPTY)
        if sum(len(word.encode("utf-8", "surrogatepass")) for word in words) > MAX_COMMAND_BYTES:
            raise CommandRefusedError(
                f"The command is longer than {MAX_COMMAND_BYTES >> 10} KiB; put it into a file, or"
                " into stdin."
            )
        if any("\0" in word for word in words):
            raise CommandRefusedError("The command holds a NUL, which no program can be given.")
        if not self.allowed and not self.denied:
            return shell_argv(command) if isinstance(command, str) else command
        if isinstance(command, str):
            words = split_words(command)
        if not words or not words[0]:
            raise CommandRefusedError(_EMPTY)
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
        names = {PurePath(program).name, *((target.name,) if target else ())}
        is_elsewhere = "/" in program and not program.startswith("/") and target is None
        is_listed = not is_elsewhere and any(
            entry == program
            or tuple(entry.split()) == words
            or (target is not None and "/" in entry and _inside(entry, skill) == target)
            for entry in self.allowed
        )
        if self._is_denied(words, names):
            raise CommandRefusedError(f"The command {shown(program)} is denied.")
        if self.allowed and not is_listed:
            raise CommandRefusedError(
                f"The command {shown(program)} is not allowed; allowed are: "
                f"{listed(self.allowed, _MAX_SHOWN)}."
            )
        if not self.denied or is_listed:
            return
        plain = {_VERSION.sub("", name) for name in names}
        runs_own = len(words) > 1 and _inside(words[1], skill) is not None
        if plain & _STARTERS or (plain & _INTERPRETERS and not runs_own):
            raise CommandRefusedError(
                f"The command {shown(program)} can start others, denied ones too: run a file of"
                " the skill with it, or have it allowed."
            )

    def _is_denied(self, words: tuple[str, ...], names: set[str]) -> bool:
        """Return whether an entry is the beginning of the command, or a name of its program."""
        entries = [tuple(entry.split()) for entry in self.denied]
        return any(
            entry == words[: len(entry)] or (len(entry) == 1 and PurePath(entry[0]).name in names)
            for entry in filter(None, entries)
        )


def shell_argv(command: str) -> tuple[str, ...]:
    """Return what runs a text by a login shell, with the ``PATH`` from before its profile.

    The shell, bash or else sh, is looked up where the program runs, so in a container too.
    """
    return ("sh", "-c", _SHELL, _KEEP_PATH + command)


def split_words(command: str) -> tuple[str, ...]:
    """Split a text into words as a shell does, or raise if a shell would do more with it."""
    text = command.strip("\r\n")
    words: list[str] = []
    word: str | None = None
    position = 0
    while position < len(text):
        found = _PIECE.match(text, position)
        if found is None or (found["special"] and word is None):
            char = text[position]
            what = _OPEN_QUOTE if char in "'\"" else f"{char!r} outside of quotes"
            raise CommandRefusedError(
                f"The command holds {what}, and with lists of commands no shell reads it: give one"
                " program with its arguments, and put literal text in single quotes."
            )
        position = found.end()
        if found["blank"]:
            words += [] if word is None else [word]
            word = None
        else:
            double = found["double"] and _ESCAPED.sub(r"\1", found["double"])
            others = (found[name] for name in ("single", "escaped", "special", "plain"))
            word = (word or "") + (double or next(filter(None, others), ""))
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
