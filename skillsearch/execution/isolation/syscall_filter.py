"""The system calls that an enclosed program may not make, as a program for the kernel's seccomp."""

from __future__ import annotations

import errno
import functools
import struct
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from skillsearch.text.tables import read_tables

_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1), "riscv64": (0xC00000F3, 1)}
"""The kernel's number of an architecture, and the column with the numbers of its calls."""
_UNKNOWN = 470
"""The first number without a call in Linux 6.18; the x32 variant of x86_64 has higher ones.
Newer calls seem to be missing, as on an older kernel."""

_LOAD, _EQUALS, _AT_LEAST, _HAS_ANY, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # where the kernel's ``seccomp_data`` holds them
_ALLOW, _KILL_PROCESS, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000

_Code = list[tuple[int, int, int, int]]  # operation, jumps if it is true and if not, operand


@functools.cache
def syscall_filter(machine: str) -> bytes:
    """Return the filter for a type of machine, such as ``x86_64``; empty if its calls are unknown.

    A program for another architecture, such as one of 32 bits, is killed at its first call.
    """
    if machine not in _MACHINES:
        return b""
    architecture, column = _MACHINES[machine]
    code: _Code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUALS, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _UNKNOWN),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
    ]
    tables = read_tables(Path(__file__).with_suffix(".txt"))
    for words in chain.from_iterable(family.values() for family in tables.values()):
        if words[column] != "-":
            code += _rule(int(words[column]), getattr(errno, words[2]), words[3:])
    return b"".join(struct.pack("=HBBI", *step) for step in (*code, (_RETURN, 0, 0, _ALLOW)))


def _rule(number: int, error: int, conditions: Sequence[str]) -> _Code:
    """Return code that ends with an error if call and arguments match, and else goes on."""
    code = [(_RETURN, 0, 0, _ERROR | error)]
    for argument, operator, numbers in (words.split(".") for words in reversed(conditions)):
        # Jumps are relative: over the rest of the rule, and of a match over the values that follow.
        if_any, if_none = (len(code), 0) if operator == "not" else (0, len(code))
        operation = _HAS_ANY if operator == "any" else _EQUALS
        tests = [
            (operation, if_any + at, 0 if at else if_none, int(value, 0))
            for at, value in enumerate(numbers.split(","))
        ]
        code = [(_LOAD, 0, 0, _ARGUMENTS + 8 * int(argument)), *reversed(tests), *code]
    return [(_EQUALS, 0, len(code) + 1, number), *code, (_LOAD, 0, 0, _NUMBER)]
