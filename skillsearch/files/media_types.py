"""The media type of a file, from its first bytes or else its name: the same on every machine."""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path, PurePosixPath

from skillsearch.text.tables import read_tables

HEAD_BYTES = 4096
"""How much of a file `media_type` needs to see."""
BINARY = "application/octet-stream"
PLAIN = "text/plain"

_ZIP = "application/zip"
_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBPVP8", "image/webp"),
    (8, b"WAVEfmt ", "audio/wav"),
    (8, b"AVI LIST", "video/x-msvideo"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftypheic", "image/heic"),
    (4, b"ftypM4A ", "audio/mp4"),
    (4, b"ftypqt  ", "video/quicktime"),
    (4, b"ftyp", "video/mp4"),
    (0, b"II*\0", "image/tiff"),
    (0, b"MM\0*", "image/tiff"),
    (0, b"\0\0\1\0", "image/vnd.microsoft.icon"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"%!PS-", "application/postscript"),
    (0, b"{\\rtf1", "application/rtf"),
    (0, b"PK\3\4", _ZIP),
    (0, b"PK\5\6", _ZIP),
    (0, b"\x1f\x8b\x08", "application/gzip"),
    (4, b"1AY&SY", "application/x-bzip2"),
    (0, b"\xfd7zXZ\0", "application/x-xz"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (257, b"ustar", "application/x-tar"),
    (0, b"SQLite format 3\0", "application/vnd.sqlite3"),
    (0, b"\x7fELF", "application/x-executable"),
    (0, b"\0asm", "application/wasm"),
    (0, b"OggS\0", "audio/ogg"),
    (0, b"fLaC\0", "audio/flac"),
    (0, b"ID3\3", "audio/mpeg"),
    (0, b"ID3\4", "audio/mpeg"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (0, b"wOFF", "font/woff"),
    (0, b"wOF2", "font/woff2"),
)
"""Offset, signature and type; the first that fits counts."""
_ENDINGS = {
    title: {ending: kind for kind, endings in table.items() for ending in endings}
    for title, table in read_tables(Path(__file__).with_suffix(".txt")).items()
}
_ZIPPED, _TEXTS, _UNSIGNED, _SIGNED = _ENDINGS.values()
_BY_NAME = _SIGNED | _ZIPPED | _TEXTS | _UNSIGNED

_MARKUP = re.compile(
    r"(?:<\?xml[^>]*>\s*)?(?:(?><!--.*?-->)\s*)*<(?:!doctype\s+)?(svg|html)\b", re.I | re.S
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
    for offset, signature, found in _SIGNATURES:
        if head.startswith(signature, offset):
            return _ZIPPED.get(ending, found) if found == _ZIP else found
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
    """Return the type of a text from its beginning."""
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
