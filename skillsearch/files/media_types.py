"""The media type of a file, from its first bytes or else its name: the same on every machine."""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path, PurePosixPath

from skillsearch.text.tables import read_tables

HEAD_BYTES = 4096  # how much of a file `media_type` needs to see
BINARY = "application/octet-stream"
PLAIN = "text/plain"

_ZIP = "application/zip"
_TABLES = read_tables(Path(__file__).with_suffix(".txt"))
_SIGNATURES = [
    (int(offset), text.encode().decode("unicode_escape").encode("latin-1"), kind)
    for text, (offset, kind) in _TABLES.pop("signatures").items()
]
_ZIPPED, _TEXTS, _UNSIGNED, _SIGNED = (
    {ending: kind for kind, endings in table.items() for ending in endings}
    for table in _TABLES.values()
)
_BY_NAME = _SIGNED | _ZIPPED | _TEXTS | _UNSIGNED

_MARKUP = re.compile(
    r"(?:<\?xml[^>]*>\s*)?(?:<!--(?:[^-]|-(?!->))*-->\s*)*<(?:!doctype\s+)?(svg|html)\b",
    re.I | re.S,
)
_JSON_START = re.compile(r"\{\s*\"|\[\s*[\[{\"\d-]", re.A)
_TEXT_TYPES = {
    *_TEXTS.values(),
    *(f"application/{kind}" for kind in ("ecmascript", "javascript", "x-sh", "x-yaml")),
}
_TEXT_SUFFIXES = ("+json", "+xml", "+yaml")


def media_type(name: str, head: bytes) -> str:
    """Return the media type of a file, without parameters, from its name and first `HEAD_BYTES`.

    Binary formats are recognized by their signatures. Text has the type of its name's ending, if
    that is a kind of text, or else the type it looks like; a name never makes text of other bytes.
    """
    ending = PurePosixPath(name).suffix.lower()
    for offset, signature, mime_type in _SIGNATURES:
        if head.startswith(signature, offset):
            return _ZIPPED.get(ending, mime_type) if mime_type == _ZIP else mime_type
    try:  # the last character may be cut
        text = None if b"\0" in head else codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        text = None
    if text is None:
        return _UNSIGNED.get(ending, BINARY)
    named = _TEXTS.get(ending, PLAIN)
    return _look(text, is_cut=len(head) >= HEAD_BYTES) if named == PLAIN else named


def is_text(media_type: str, data: bytes) -> bool:
    """Return whether data can be shown as it is: a textual type, and valid UTF-8 without NUL.

    Textual are ``text/*``, JSON, XML, YAML, TOML, SQL and scripts. If `data` is only the beginning
    of a file, it must end with a whole character.
    """
    plain = media_type.partition(";")[0].strip().lower()
    is_textual = plain.startswith("text/") or plain in _TEXT_TYPES or plain.endswith(_TEXT_SUFFIXES)
    try:
        return is_textual and "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def type_of_name(name: str) -> str | None:
    """Return the media type that a file's name promises; None if its ending is not known."""
    return _BY_NAME.get(PurePosixPath(name).suffix.lower())


def _look(text: str, *, is_cut: bool) -> str:
    start = text.lstrip("\ufeff \t\r\n")
    if markup := _MARKUP.match(start):
        return "image/svg+xml" if markup[1].lower() == "svg" else "text/html"
    if start.startswith("<?xml"):
        return "application/xml"
    if not start.startswith(("{", "[")):
        return PLAIN
    try:
        json.loads(start)
        is_json = True
    except (ValueError, RecursionError):
        is_json = is_cut and _JSON_START.match(start) is not None
    return "application/json" if is_json else PLAIN
