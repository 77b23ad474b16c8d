"""What kind of content a file holds, from its first bytes or else from its name.

The tables are fixed: the same file has the same type on every machine.
"""

from __future__ import annotations

import codecs
import json
import re
from pathlib import PurePosixPath
from types import MappingProxyType

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
"""Where a signature stands, the signature, and the type; the first that fits counts."""

_OPEN_DOCUMENT = "application/vnd.oasis.opendocument."
_OFFICE = "application/vnd.openxmlformats-officedocument."
_ZIPPED = MappingProxyType(
    {
        ".docx": f"{_OFFICE}wordprocessingml.document",
        ".epub": "application/epub+zip",
        ".jar": "application/java-archive",
        ".odp": f"{_OPEN_DOCUMENT}presentation",
        ".ods": f"{_OPEN_DOCUMENT}spreadsheet",
        ".odt": f"{_OPEN_DOCUMENT}text",
        ".pptx": f"{_OFFICE}presentationml.presentation",
        ".xlsx": f"{_OFFICE}spreadsheetml.sheet",
    }
)
"""Formats that are ZIP archives to their first bytes."""
_TEXTS = MappingProxyType(
    {
        ".bash": "text/x-shellscript",
        ".c": "text/x-c",
        ".cfg": PLAIN,
        ".cpp": "text/x-c++",
        ".css": "text/css",
        ".csv": "text/csv",
        ".go": "text/x-go",
        ".h": "text/x-c",
        ".htm": "text/html",
        ".html": "text/html",
        ".ics": "text/calendar",
        ".ini": PLAIN,
        ".ipynb": "application/x-ipynb+json",
        ".java": "text/x-java",
        ".js": "text/javascript",
        ".json": "application/json",
        ".jsonl": "application/jsonl",
        ".log": PLAIN,
        ".md": "text/markdown",
        ".mjs": "text/javascript",
        ".ndjson": "application/x-ndjson",
        ".py": "text/x-python",
        ".rs": "text/x-rust",
        ".rst": "text/x-rst",
        ".sh": "text/x-shellscript",
        ".sql": "application/sql",
        ".srt": "application/x-subrip",
        ".svg": "image/svg+xml",
        ".tex": "text/x-tex",
        ".toml": "application/toml",
        ".ts": "text/x-typescript",
        ".tsv": "text/tab-separated-values",
        ".txt": PLAIN,
        ".vtt": "text/vtt",
        ".xhtml": "application/xhtml+xml",
        ".xml": "application/xml",
        ".yaml": "application/yaml",
        ".yml": "application/yaml",
    }
)
_BINARIES = MappingProxyType(
    {
        ".bmp": "image/bmp",
        ".doc": "application/msword",
        ".mp3": "audio/mpeg",
        ".parquet": "application/vnd.apache.parquet",
        ".pkl": "application/x-pickle",
        ".ppt": "application/vnd.ms-powerpoint",
        ".pyc": "application/x-python-code",
        ".tar": "application/x-tar",
        ".ttf": "font/ttf",
        ".xls": "application/vnd.ms-excel",
    }
)
"""Formats that the signatures do not tell."""

_MARKUP = re.compile(
    r"(?:<\?xml[^>]*>\s*)?(?:(?><!--.*?-->)\s*)*<(?:!doctype\s+)?(svg|html)\b", re.I | re.S
)
_JSON_START = re.compile(r"\{\s*\"|\[\s*[\[{\"\d-]", re.A)
_TEXT_TYPES = frozenset(
    {
        *_TEXTS.values(),
        "application/ecmascript",
        "application/javascript",
        "application/x-sh",
        "application/x-yaml",
    }
)
_TEXT_SUFFIXES = ("+json", "+xml", "+yaml")


def media_type(name: str, head: bytes) -> str:
    """Return the media type of a file, without parameters.

    Binary formats are told by their signatures. A text is what its name says, where that names a
    kind of text, or else what it looks like; a name never makes a text of other bytes.

    Args:
        name: Its name or path; only the ending is looked at.
        head: Its first `HEAD_BYTES`, or all where there are fewer.

    Returns:
        Such as ``text/csv``; ``application/octet-stream`` where nothing else is known.
    """
    ending = PurePosixPath(name).suffix.lower()
    for offset, signature, found in _SIGNATURES:
        if head.startswith(signature, offset):
            return _ZIPPED.get(ending, found) if found == _ZIP else found
    text = _as_text(head)
    if text is None:
        return _BINARIES.get(ending, BINARY)
    named = _TEXTS.get(ending, PLAIN)
    return _look(text, is_cut=len(head) >= HEAD_BYTES) if named == PLAIN else named


def is_text(media_type: str, data: bytes) -> bool:
    """Say whether data is text to be shown as it is: by its type, and valid UTF-8 without NUL.

    Args:
        media_type: Its media type.
        data: All of it, or a beginning that ends with a whole character.

    Returns:
        True for ``text/*``, JSON, XML, YAML, TOML, SQL and scripts that hold such bytes.
    """
    plain = media_type.partition(";")[0].strip().lower()
    is_textual = plain.startswith("text/") or plain in _TEXT_TYPES or plain.endswith(_TEXT_SUFFIXES)
    if not is_textual or b"\0" in data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _as_text(head: bytes) -> str | None:
    """Return the beginning of a text, whose last character may be cut, or None for other bytes."""
    if b"\0" in head:
        return None
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return None


def _look(text: str, *, is_cut: bool) -> str:
    """Return the type of a text from how it begins."""
    start = text.lstrip("\ufeff \t\r\n")
    if markup := _MARKUP.match(start):
        return "image/svg+xml" if markup[1].lower() == "svg" else "text/html"
    if start.startswith("<?xml"):
        return "application/xml"
    return "application/json" if _is_json(start, is_cut=is_cut) else PLAIN


def _is_json(text: str, *, is_cut: bool) -> bool:
    """Say whether a text is a JSON object or array, or begins like one where it is cut."""
    if not text.startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return is_cut and _JSON_START.match(text) is not None
    return True
