"""The path rule of the package: what may be requested inside a skill. Text only, opens nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import PurePath, PurePosixPath
from urllib.parse import unquote

from skillsearch.errors import UnsafePathError
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.text.safe_text import visible

MAX_PATH_CHARS = 1024
_MAX_SHOWN_CHARS = 200
# A character has at most four bytes, and a byte three characters when percent-encoded.
_MAX_ENCODED_CHARS = 12 * MAX_PATH_CHARS
_DRIVE = lazy_pattern(r"(?:\.?/)*[A-Za-z]:")
CONTROL = lazy_pattern(r"[\x00-\x1f\x7f-\x9f]")


def confine(relative: str, folders: Sequence[str] = ()) -> PurePosixPath:
    """Check an untrusted path inside a skill and return it decoded, without empty and ``.`` parts.

    Percent-encoding is decoded once, and a backslash separates folders as on Windows. The path must
    lie in one of the `folders` if any are given, in exactly this case. This looks at the text only;
    `open_in_skill` enforces it on the file system.
    An unsafe path raises `UnsafePathError`.
    """
    is_encoded = "%" in relative and len(relative) <= _MAX_ENCODED_CHARS
    decoded = unquote(relative, errors="surrogateescape") if is_encoded else relative
    decoded = decoded.replace("\\", "/")
    parts = decoded.split("/")
    is_odd = CONTROL.search(decoded) or not _is_encodable(decoded)
    rules = {
        f"has more than {MAX_PATH_CHARS} characters": len(decoded) > MAX_PATH_CHARS,
        "holds characters that no file name should have": is_odd,
        "begins with a drive of Windows": _DRIVE.match(decoded),
        "is absolute": decoded.startswith("/"),
        "climbs with '..'": ".." in parts,
        "names no file": {"", "."}.issuperset(parts),
    }
    if reason := first_of(rules):
        raise unsafe_path(relative, reason)
    path = PurePosixPath(decoded)
    if folders and path.parts[0] not in folders:
        allowed = " or ".join(f"{folder}/" for folder in folders)
        message = f"The path {shown(relative)} is not below {allowed}; ask for a file there."
        raise UnsafePathError(message)
    return path


def first_of(reasons: Mapping[str, object]) -> str:
    """Return the first reason that holds, or nothing."""
    return next((reason for reason, holds in reasons.items() if holds), "")


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def unsafe_path(relative: str, reason: str) -> UnsafePathError:
    """Return the error for a refused path, with the next step."""
    return UnsafePathError(
        f"The path {shown(relative)} {reason}; ask for a file inside the skill folder, such as"
        " 'references/guide.md'."
    )


def shown(path: str | PurePath) -> str:
    """Return a path as messages quote it: on one line, hidden characters escaped, and cut."""
    return repr(str(path)[:_MAX_SHOWN_CHARS])


def is_utf8(path: str) -> bool:
    """Return whether a file name or path, as the system gave it, was UTF-8 on disk."""
    return path.isascii() or not any("\ud800" <= char <= "\udfff" for char in path)


def is_plain(name: str) -> bool:
    """Return whether a name was UTF-8 on disk and holds nothing that a reader would not see."""
    return is_utf8(name) and visible(name) == name


def printable(path: str | PurePath) -> str:
    """Return a path that can be encoded as UTF-8, whatever bytes are in it."""
    text = str(path)
    return text if is_utf8(text) else text.encode("utf-8", "backslashreplace").decode()
