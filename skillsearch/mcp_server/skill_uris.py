"""The ``skill://`` URIs of skills and their files; text only, opens nothing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import chain, count
from urllib.parse import quote, unquote

SCHEME = "skill://"
MAX_URI_CHARS = 16_384

_MAX_AUTHORITY_CHARS = 63


def make_uri(parts: Iterable[str]) -> str:
    """Join an authority and the parts of a path, each percent-encoded, to a URI."""
    return SCHEME + "/".join(quote(part, safe="") for part in parts)


def split_uri(uri: str) -> tuple[str, ...]:
    """Return the authority and path of an untrusted URI, in parts; none if we cannot have made it.

    Each part is decoded once, after the split, so it may hold a ``%`` but no ``/``.
    """
    if not uri.startswith(SCHEME) or len(uri) > MAX_URI_CHARS or "?" in uri or "#" in uri:
        return ()
    try:
        parts = [unquote(part, errors="strict") for part in uri[len(SCHEME) :].split("/")]
    except UnicodeDecodeError:
        return ()
    is_plain = all(part not in {"", ".", ".."} and "/" not in part for part in parts)
    return tuple(parts) if is_plain else ()


def authorities(aliases: Iterable[str]) -> dict[str, str]:
    """Return a unique URI authority for each alias of a root.

    They are of lowercase ASCII letters, digits and hyphens, so none is ``index.json``.
    """
    by_alias: dict[str, str] = {}
    for alias in sorted(set(aliases)):
        ascii_only = unicodedata.normalize("NFKD", alias).encode("ascii", "ignore").decode()
        plain = re.sub(r"[^a-z0-9]+", "-", ascii_only.lower()).strip("-")
        plain = plain[:_MAX_AUTHORITY_CHARS] or "skills"
        names = chain([plain], (f"{plain}-{number}" for number in count(2)))
        by_alias[alias] = next(name for name in names if name not in by_alias.values())
    return by_alias


def skill_path(authority: str, folder: str, name: str) -> tuple[tuple[str, ...], bool]:
    """Return the path of a skill in its URI, which ends with its name, and if that was added.

    `folder` is relative to the root, ``.`` for the root itself.
    """
    path = (authority, *(part for part in folder.split("/") if part != "."))
    return (path, False) if path[-1] == name else ((*path, name), True)
