"""The content of files and streams: its media type, and text that is safe to show.

A type comes from the first bytes, or else from the name. The tables are fixed: a file has the same
type on every machine.
"""

from __future__ import annotations

import codecs
import json
import re
from pathlib import PurePosixPath

from skillsearch.text.safe_text import visible

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

_OPEN_DOCUMENT = "application/vnd.oasis.opendocument."
_OFFICE = "application/vnd.openxmlformats-officedocument."
_ZIPPED = {
    ".docx": f"{_OFFICE}wordprocessingml.document",
    ".epub": "application/epub+zip",
    ".jar": "application/java-archive",
    ".odp": f"{_OPEN_DOCUMENT}presentation",
    ".ods": f"{_OPEN_DOCUMENT}spreadsheet",
    ".odt": f"{_OPEN_DOCUMENT}text",
    ".pptx": f"{_OFFICE}presentationml.presentation",
    ".xlsx": f"{_OFFICE}spreadsheetml.sheet",
}
"""Formats whose first bytes are those of a ZIP archive."""
_TEXTS = {
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
_BINARIES = {
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
"""Formats without a signature."""

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
_CONTINUATION = range(0x80, 0xC0)
_MAX_CHARACTER_BYTES = 4


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
        return _BINARIES.get(ending, BINARY)
    named = _TEXTS.get(ending, PLAIN)
    return _look(text, is_cut=len(head) >= HEAD_BYTES) if named == PLAIN else named


def is_text(media_type: str, data: bytes) -> bool:
    """Return whether data can be shown as it is: a textual type, and valid UTF-8 without NUL.

    Textual are ``text/*``, JSON, XML, YAML, TOML, SQL and scripts. If `data` is only the beginning
    of a file, it must end with a whole character.
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


def stream_text(data: bytes, dropped: int) -> str:
    """Return the output of a command as text that is safe to show.

    If bytes were dropped, the first half of the data is the beginning of the output and the rest
    its end, and a line between them counts the missing bytes.
    """
    if not dropped:
        return visible_text(data)
    middle = len(data) // 2
    head, tail = whole_characters(data[:middle]), _from_character(data[middle:])
    left_out = dropped + len(data) - len(head) - len(tail)
    return f"{visible_text(head)}\n[... {left_out:,} bytes left out ...]\n{visible_text(tail)}"


def visible_text(data: bytes) -> str:
    """Return bytes as text without what a terminal would obey or a reader not see."""
    return visible(data.decode("utf-8", "replace"))


def whole_characters(data: bytes) -> bytes:
    """Return the beginning of a UTF-8 text without a character that was cut at its end."""
    for length in range(1, min(_MAX_CHARACTER_BYTES, len(data) + 1)):
        byte = data[-length]
        if byte not in _CONTINUATION:
            expected = 1 + (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)
            return data[:-length] if length < expected else data
    return data


def _from_character(data: bytes) -> bytes:
    """Return the end of a UTF-8 text without the rest of a character that was cut."""
    for start, byte in enumerate(data[: _MAX_CHARACTER_BYTES - 1]):
        if byte not in _CONTINUATION:
            return data[start:]
    return data[_MAX_CHARACTER_BYTES - 1 :]


def _look(text: str, *, is_cut: bool) -> str:
    """Return the type of a text from its beginning."""
    start = text.lstrip("\ufeff \t\r\n")
    if markup := _MARKUP.match(start):
        return "image/svg+xml" if markup[1].lower() == "svg" else "text/html"
    if start.startswith("<?xml"):
        return "application/xml"
    return "application/json" if _is_json(start, is_cut=is_cut) else PLAIN


def _is_json(text: str, *, is_cut: bool) -> bool:
    """Return whether a text is a JSON object or array, or begins like one if it is cut."""
    if not text.startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return is_cut and _JSON_START.match(text) is not None
    return True
