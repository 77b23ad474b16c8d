"""Paths that a caller names in a workspace: patterns of the Go library doublestar, and folders.

Patterns are hostile: the cost of one is bounded by its length times the length of the path. No
library matches name by name, as needed to enter only those folders that can hold a match.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from skillsearch.errors import WorkspaceError
from skillsearch.execution.types import LINKS
from skillsearch.files.paths import CONTROL, is_utf8, shown

FOLDERS: Mapping[str, str] = MappingProxyType(
    {"OUTPUT_DIR": "out", "SKILLS_DIR": "skills", "WORKSPACE_DIR": ".", "WORK_DIR": "work"}
)
"""The variables of every run that name a folder, and the folder below the workspace."""
MAX_PATTERNS, MAX_PATTERN_CHARS = 100, 1024
MAX_EXPANDED, MAX_EXPANDED_CHARS = 256, 8192
"""The same once all braces are expanded, but characters in all."""

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))(?=/|\Z)", re.ASCII)
_TOP = ("skills", "work", "out", "runs")  # what an absolute ``cwd`` may begin with
_TOKEN = re.compile(r"[{},]|(?:\[[!^]?[^\]]*\]|[^{},\[])+|\[")
_CLASS = re.compile(r"\[([!^]?)([^\]]*)\]")
_RANGE = re.compile("(.)-(.)|.")

_TOO_MUCH = (
    f"makes the patterns too many: with '{{a,b}}' expanded, {MAX_EXPANDED} with"
    f" {MAX_EXPANDED_CHARS} characters are allowed; use '*' instead"
)

_NamePattern = str | re.Pattern[str] | None  # a plain name, an expression for names, or ``**``


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A part of a pattern, and the one after it; the end of the pattern is None."""

    name: _NamePattern
    after: _Part | None


class Matcher(NamedTuple):
    """The parts of patterns that a path has come to; begins at the workspace itself."""

    parts: frozenset[_Part | None]
    hidden: bool

    @property
    def is_match(self) -> bool:
        """Whether a pattern ends here."""
        return None in self.parts

    @property
    def goes_on(self) -> bool:
        """Whether something below may match."""
        return bool(self.parts - {None})

    @property
    def next_names(self) -> frozenset[str] | None:
        """The names that may come next, or None if some are not plain."""
        patterns = {part.name for part in self.parts if part}
        plain = frozenset(pattern for pattern in patterns if isinstance(pattern, str))
        return plain if len(plain) == len(patterns) else None

    def below(self, name: str) -> Matcher:
        """Return the matcher one name further down."""
        reached: set[_Part | None] = set()
        for part in filter(None, self.parts):
            pattern = part.name
            if pattern is None:
                is_hidden = name.startswith(".") and not self.hidden
                reached |= set() if is_hidden else _arrive(part)
            elif pattern == name if isinstance(pattern, str) else pattern.match(name):
                reached |= _arrive(part.after)
        return Matcher(frozenset(reached), self.hidden)


def normalize(pattern: str, variables: Mapping[str, str] = FOLDERS) -> str:
    """Return an untrusted pattern relative to the workspace, with its braces.

    A variable at the beginning becomes its folder, and a ``/`` at the end means everything below.
    A `WorkspaceError` refuses what leads outside or no name should have.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        raise _refused(pattern, f"has more than {MAX_PATTERN_CHARS} characters; shorten it")
    if "\\" in pattern:
        raise _refused(pattern, "has a backslash; write '/' between names, and '[*]' for a '*'")
    if CONTROL.search(pattern) or not is_utf8(pattern):
        raise _refused(pattern, "holds characters that no name should have; write '?' for each")
    return "/".join(_split(substitute(pattern, variables), pattern))


def matcher(
    patterns: Sequence[str], variables: Mapping[str, str] = FOLDERS, *, hidden: bool = True
) -> Matcher:
    """Compile patterns to a matcher that stands at the workspace.

    If `hidden` is False, wildcards do not match a dot at the beginning of a name, as in shells. A
    `WorkspaceError` refuses what `normalize` does, malformed patterns, and too many.
    """
    if len(patterns) > MAX_PATTERNS:
        raise WorkspaceError(
            f"There are {len(patterns)} patterns, and {MAX_PATTERNS} are allowed; use '**' or"
            " '{a,b}' to say more with one."
        )
    expanded: dict[tuple[str, ...], str] = {}
    for pattern in patterns:
        for plain in _expand(normalize(pattern, variables), pattern):
            expanded.setdefault(_split(plain, pattern), pattern)
        chars = sum(len(part) + 1 for parts in expanded for part in parts)
        if len(expanded) > MAX_EXPANDED or chars > MAX_EXPANDED_CHARS:
            raise _refused(pattern, _TOO_MUCH)
    compiled = (_compile(parts, pattern, hidden=hidden) for parts, pattern in expanded.items())
    starts = map(_arrive, compiled)
    return Matcher(frozenset[_Part | None]().union(*starts), hidden)


def check_patterns(patterns: Sequence[str]) -> None:
    """Refuse, with a `WorkspaceError`, patterns that cannot be used in any run."""
    matcher(patterns, {**FOLDERS, "RUN_DIR": "runs"})


def substitute(path: str, variables: Mapping[str, str] = FOLDERS) -> str:
    """Return a path or pattern with the variable that it begins with replaced by its folder.

    A WorkspaceError if the variable is unknown.
    """
    if not path.startswith("$"):
        return path
    expanded = take_variable(path, variables)
    if expanded is None:
        names = ", ".join(f"${name}" for name in sorted(variables))
        raise WorkspaceError(
            f"The path {shown(path)} begins with a variable that is not known; use {names}, or"
            " a path below the workspace such as 'out/x'."
        )
    return "".join(expanded)


def take_variable(path: str, variables: Mapping[str, str]) -> tuple[str, str] | None:
    """Split a path that begins with a variable into its folder and the rest, slash included."""
    match = _VARIABLE.match(path)
    folder = variables.get(match[1] or match[2]) if match else None
    return None if match is None or folder is None else (folder, path[match.end() :])


def working_folder(cwd: str, skill: str, variables: Mapping[str, str]) -> PurePosixPath | None:
    """Return the folder of a workspace that a ``cwd`` means; None if it leads elsewhere.

    Relative paths lie below the skill's own folder, or the folder of a leading variable;
    absolute ones begin at the workspace. The result has no ``..``, and no links of a staged skill.
    """
    if not cwd.isprintable():
        return None
    if cwd.startswith("/"):
        base, rest = ".", posixpath.normpath(cwd)
    else:
        base, rest = take_variable(cwd, variables) or (skill, cwd)
    below = posixpath.normpath(rest.lstrip("/") or ".")
    first = below.split("/")[0]
    if first == ".." or (cwd.startswith("/") and first not in _TOP):
        return None
    path = PurePosixPath(base, below)
    parts = path.parts
    if len(parts) > 2 and parts[0] == "skills" and parts[2] in LINKS:
        return PurePosixPath(LINKS[parts[2]].removeprefix("../../"), *parts[3:])
    return path


def _split(plain: str, pattern: str) -> tuple[str, ...]:
    """Return the parts of a pattern, checked; messages quote it as it was given."""
    parts = [part for part in plain.split("/") if part not in {"", "."}]
    if plain.startswith("/"):
        raise _refused(pattern, "is absolute; write it from the workspace on, as 'out/*.txt'")
    if ".." in parts:
        raise _refused(pattern, "climbs with '..'; write it from the workspace on, as 'out/*.txt'")
    if plain.endswith("/"):
        parts.append("**")
    if not parts:
        raise _refused(pattern, "names no file; write one as 'out/*.txt'")
    return tuple(parts)


def _expand(plain: str, pattern: str) -> list[str]:
    outer: list[tuple[list[str], list[str]]] = []
    done: list[str] = []  # the finished alternatives of the innermost brace
    begun = [""]
    for token in _TOKEN.findall(plain):
        if token == "{":
            outer.append((done, begun))
            done, begun = [], [""]
        elif token in {",", "}"} and outer:
            inner = done + begun
            done, begun = inner, [""]
            if token == "}":
                done, before = outer.pop()
                begun = [head + tail for head in before for tail in inner]
        elif token in {"}", "["}:
            raise _refused(pattern, f"has a {token!r} without its other half; write '[{token}]'")
        else:
            begun = [before + token for before in begun]
        if len(begun) + len(done) > MAX_EXPANDED:
            raise _refused(pattern, _TOO_MUCH)
    if outer:
        raise _refused(pattern, "has a '{' without its other half; write '[{]'")
    return begun


def _compile(parts: Sequence[str], pattern: str, *, hidden: bool) -> _Part | None:
    after: _Part | None = None
    for part in reversed(parts):
        name = _name_pattern(part, pattern, hidden=hidden)
        if name or not after or after.name:  # several ``**`` in a row are one
            after = _Part(name, after)
    return after


def _name_pattern(part: str, pattern: str, *, hidden: bool) -> _NamePattern:
    """Compile one part; `fnmatch` tries nothing twice, however many stars there are."""
    if part == "**":
        return None
    if not any(char in part for char in "*?["):
        return part
    _check_classes(part, pattern)
    part = _CLASS.sub(lambda match: f"[{'!' if match[1] else ''}{match[2]}]", part)
    expression = fnmatch.translate(part)
    if not (hidden or part.startswith(".")):
        expression = rf"(?!\.){expression}"
    return re.compile(expression)


def _check_classes(part: str, pattern: str) -> None:
    """Refuse a class that holds a slash, or no character."""
    if "[" in _CLASS.sub("", part):
        raise _refused(pattern, "has a '/' between '[' and ']'; write it outside")
    for characters in _CLASS.finditer(part):
        ranges = list(_RANGE.finditer(characters[2]))
        if not ranges or any(match[1] and match[1] > match[2] for match in ranges):
            text = repr(characters[0])
            raise _refused(pattern, f"has the class {text}, which no character is in; correct it")


def _arrive(part: _Part | None) -> set[_Part | None]:
    """Return the parts for a path that comes to one: ``**`` may also match no folder."""
    return {part, part.after} if part and part.name is None else {part}


def _refused(pattern: str, reason: str) -> WorkspaceError:
    return WorkspaceError(f"The pattern {shown(pattern)} {reason}.")
