"""Patterns for the files of a workspace, with the rules of the Go library doublestar.

``*``, ``?`` and ``[...]`` stay within one name, ``{a,b}`` stands for two patterns, and ``**`` as a
whole part for any number of folders. Patterns are hostile: what they cost is bounded by their
length times that of the path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from skillsearch.errors import WorkspaceError
from skillsearch.files.paths import is_utf8, shown

FOLDERS: Mapping[str, str] = MappingProxyType(
    {"OUTPUT_DIR": "out", "SKILLS_DIR": "skills", "WORKSPACE_DIR": ".", "WORK_DIR": "work"}
)
"""The variables of every run that name a folder, and the folder below the workspace."""
MAX_PATTERNS = 100
MAX_PATTERN_CHARS = 1024
MAX_EXPANDED = 256
"""How many patterns all may come to when their braces are written out."""
MAX_EXPANDED_CHARS = 8192
"""Characters of those together."""

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))(?=/|\Z)", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_TOKEN = re.compile(r"[{},]|(?:\[[!^]?[^\]]*\]|[^{},\[])+|\[")
_CLASS_ITEM = re.compile("(.)-(.)|(.)")
_PIECE = re.compile(r"\*+|\?|\[[!^]?[^\]]*\]|[^*?\[]+")

_Segment = str | re.Pattern[str] | None
"""One part of a pattern: a plain name, an expression for names, or None for ``**``."""
_State = tuple[int, int]
"""A pattern, and how many of its parts are behind us."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """Patterns, and how far a path has come in each; begins at the workspace itself.

    Attributes:
        patterns: The parts of each pattern.
        states: Where the path may stand in them.
        hidden: Whether ``**`` stands for folders and files whose names begin with a dot.
    """

    patterns: tuple[tuple[_Segment, ...], ...]
    states: frozenset[_State]
    hidden: bool

    @property
    def is_match(self) -> bool:
        """Whether a pattern ends here."""
        return any(at == len(self.patterns[which]) for which, at in self.states)

    @property
    def goes_on(self) -> bool:
        """Whether something below may match."""
        return any(at < len(self.patterns[which]) for which, at in self.states)

    @property
    def next_names(self) -> frozenset[str] | None:
        """The names that may come next, or None where there are others than plain ones."""
        patterns = ((self.patterns[which], at) for which, at in self.states)
        segments = {pattern[at] for pattern, at in patterns if at < len(pattern)}
        plain = frozenset(segment for segment in segments if isinstance(segment, str))
        return plain if len(plain) == len(segments) else None

    def below(self, name: str) -> Matcher:
        """Go one name further down."""
        reached: set[_State] = set()
        for which, at in self.states:
            pattern = self.patterns[which]
            if at == len(pattern):
                continue
            segment = pattern[at]
            if segment is None:
                if self.hidden or not name.startswith("."):
                    reached |= _arrive(pattern, which, at)
            elif segment == name if isinstance(segment, str) else segment.fullmatch(name):
                reached |= _arrive(pattern, which, at + 1)
        return Matcher(self.patterns, frozenset(reached), self.hidden)


def normalize(pattern: str, variables: Mapping[str, str] = FOLDERS) -> str:
    """Return a pattern relative to the workspace.

    A variable at the beginning becomes its folder, empty and ``.`` parts are dropped, and a
    pattern that ends in ``/`` means all that is below that folder.

    Args:
        pattern: The pattern, not trusted.
        variables: Names of variables and their folders below the workspace, trusted.

    Returns:
        The pattern; its braces stay.

    Raises:
        WorkspaceError: The pattern is empty, absolute or too long, has ``..``, a backslash,
            control characters, or begins with an unknown variable.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        raise _refused(pattern, f"has more than {MAX_PATTERN_CHARS} characters; shorten it")
    if "\\" in pattern:
        raise _refused(pattern, "has a backslash; write '/' between names, and '[*]' for a '*'")
    if _CONTROL.search(pattern) or not is_utf8(pattern):
        raise _refused(pattern, "holds characters that no name should have; write '?' for each")
    return "/".join(_split(substitute(pattern, variables), pattern))


def matcher(
    patterns: Sequence[str], variables: Mapping[str, str] = FOLDERS, *, hidden: bool = True
) -> Matcher:
    """Compile patterns.

    Args:
        patterns: Patterns as `normalize` takes them.
        variables: As there.
        hidden: False to match a dot at the beginning of a name only by a dot, as in shells.

    Returns:
        A matcher that stands at the workspace.

    Raises:
        WorkspaceError: A pattern is refused by `normalize`, is malformed, or there are too many
            of them, before or after their braces are written out.
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
        if len(expanded) > MAX_EXPANDED or _chars(expanded) > MAX_EXPANDED_CHARS:
            raise _too_much(pattern)
    compiled = tuple(_compile(parts, pattern, hidden) for parts, pattern in expanded.items())
    states = (_arrive(parts, which, 0) for which, parts in enumerate(compiled))
    return Matcher(compiled, frozenset[_State]().union(*states), hidden)


def substitute(path: str, variables: Mapping[str, str] = FOLDERS) -> str:
    """Return a path or pattern with the variable that it begins with replaced by its folder.

    Args:
        path: Such as ``$OUTPUT_DIR/x`` or ``${OUTPUT_DIR}/x``.
        variables: Names of variables and their folders.

    Returns:
        The path; as it is where it begins with no ``$``.

    Raises:
        WorkspaceError: It begins with ``$`` and none of the variables.
    """
    if not path.startswith("$"):
        return path
    found = take_variable(path, variables)
    if found is None:
        known = ", ".join(f"${name}" for name in sorted(variables))
        raise WorkspaceError(
            f"The path {shown(path)} begins with a variable that is not known; use {known}, or"
            " a path below the workspace such as 'out/x'."
        )
    return "".join(found)


def take_variable(path: str, variables: Mapping[str, str]) -> tuple[str, str] | None:
    """Take the variable off that a path begins with.

    Args:
        path: As in `substitute`.
        variables: As there.

    Returns:
        Its folder, and the rest with the slash before it; None where there is none of these.
    """
    found = _VARIABLE.match(path)
    folder = variables.get(found[1] or found[2]) if found else None
    return None if found is None or folder is None else (folder, path[found.end() :])


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
    """Write out the braces of a pattern; they may be nested."""
    outer: list[tuple[list[str], list[str]]] = []
    done: list[str] = []  # the finished alternatives of the innermost brace
    begun = [""]
    for token in _TOKEN.findall(plain):
        if token == "{":
            outer.append((done, begun))
            done, begun = [], [""]
        elif token == "}" and outer:
            inner = done + begun
            done, begun = outer.pop()
            begun = [before + after for before in begun for after in inner]
        elif token == "," and outer:
            done, begun = done + begun, [""]
        elif token in {"}", "["}:
            raise _refused(pattern, f"has a {token!r} without its other half; write '[{token}]'")
        else:
            begun = [before + token for before in begun]
        if len(begun) + len(done) > MAX_EXPANDED:
            raise _too_much(pattern)
    if outer:
        raise _refused(pattern, "has a '{' without its other half; write '[{]'")
    return begun


def _compile(parts: Iterable[str], pattern: str, hidden: bool) -> tuple[_Segment, ...]:
    """Compile the parts of a pattern; several ``**`` in a row are one."""
    segments: list[_Segment] = []
    for part in parts:
        if part != "**":
            segments.append(_segment(part, pattern, hidden))
        elif not segments or segments[-1] is not None:
            segments.append(None)
    return tuple(segments)


def _segment(part: str, pattern: str, hidden: bool) -> _Segment:
    """Compile one part.

    The shortest match of each stretch between two stars is as good as any, so once found it is
    never given up (``(?>...)``): nothing is tried twice.
    """
    if not any(char in part for char in "*?["):
        return part
    pieces = _PIECE.findall(part)
    if "".join(pieces) != part:
        raise _refused(pattern, "has a '/' between '[' and ']'; write it outside")
    stretches = [""]
    for piece in pieces:
        if piece.startswith("*"):
            stretches.append("")
        else:
            stretches[-1] += _expression(piece, pattern)
    first, *middle, last = stretches if len(stretches) > 1 else (stretches[0], None)
    held = "".join(f"(?>.*?{stretch})" for stretch in middle)
    if not (hidden or part.startswith(".")):
        first = rf"(?!\.){first}"
    return re.compile(first + held + ("" if last is None else f".*{last}"), re.DOTALL)


def _expression(piece: str, pattern: str) -> str:
    """Return the regular expression for ``?``, a class, or plain text."""
    if piece == "?":
        return "."
    if not piece.startswith("["):
        return re.escape(piece)
    is_negated = piece[1] in "!^"
    items = _CLASS_ITEM.findall(piece[2 if is_negated else 1 : -1])
    if not items or any(low > high for low, high, _ in items):
        raise _refused(pattern, f"has the class {piece!r}, which no character is in; correct it")
    inner = (
        re.escape(one) if one else f"{re.escape(low)}-{re.escape(high)}" for low, high, one in items
    )
    return f"[{'^' if is_negated else ''}{''.join(inner)}]"


def _arrive(pattern: Sequence[_Segment], which: int, at: int) -> set[_State]:
    """Return the states of one that arrives at a part: ``**`` may also be none at all."""
    is_deep = at < len(pattern) and pattern[at] is None
    return {(which, at), (which, at + 1)} if is_deep else {(which, at)}


def _chars(expanded: Iterable[Sequence[str]]) -> int:
    """Count the characters of patterns, with a slash after each part."""
    return sum(len(part) + 1 for parts in expanded for part in parts)


def _too_much(pattern: str) -> WorkspaceError:
    """Return the error for patterns that come to too many."""
    return _refused(
        pattern,
        f"makes the patterns too many: with '{{a,b}}' written out, {MAX_EXPANDED} with"
        f" {MAX_EXPANDED_CHARS} characters are allowed; use '*' instead",
    )


def _refused(pattern: str, reason: str) -> WorkspaceError:
    """Return the error for a pattern, with the next step in the reason."""
    return WorkspaceError(f"The pattern {shown(pattern)} {reason}.")
