"""Parsers of the values of settings, given as text or by a TOML file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from skillsearch.text.safe_text import one_line
from skillsearch.types import LANGUAGES, JsonValue

MAX_N = 1000
"""Hits that a query can ask for."""

BACKENDS = ("local", "milvus")
"""Where an index can lie: in a folder of this machine, or on a Milvus server."""

_MAX_NAME_BYTES = 255
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ROOT_IN_LIST = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/:@]*(?::[^/@]*)?@)?(?:\[[^]/]*\]|[^/:]*)(?::\d+)?(?:/[^:]*)?"
    r"|[^:]+"
)
"""A URL, its port and all, or a path: an item of a colon-separated list."""
_WORD = re.compile(r"[^\s,]+")
_DEVICE = re.compile(r"auto|cpu|cuda(?::[0-9]{1,3})?|mps")


def is_environment_name(text: str) -> bool:
    """Return whether a text can name an environment: one folder, not a path.

    A name has at most 255 bytes, no hidden characters, no slash, backslash or colon, and does not
    begin with a dot.
    """
    is_plain = text != "" and one_line(text) == text and not text.startswith(".")
    return is_plain and not set("/\\:") & set(text) and len(text.encode()) <= _MAX_NAME_BYTES


def is_url(root: str | Path) -> bool:
    """Return whether a root is written as a URL, of whatever scheme."""
    return isinstance(root, str) and _URL.match(root) is not None


def split_roots(text: str) -> list[str]:
    """Split a list of roots; the colons of a URL do not separate."""
    return _ROOT_IN_LIST.findall(text) if os.pathsep == ":" else text.split(os.pathsep)


def _parse_path(value: JsonValue, base: Path) -> Path:
    if isinstance(value, Path):
        return base / value
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("must be the path of a folder")
    return base / Path(value).expanduser()


def _parse_roots(value: JsonValue, base: Path) -> tuple[Path | str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError("must be a list of folders")
    return tuple(item if is_url(item) else _parse_path(item, base) for item in value)


def _parse_text(value: JsonValue, base: Path) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a text")
    return value.strip()


def _parse_environment(value: JsonValue, base: Path) -> str:
    if not isinstance(value, str) or not is_environment_name(value):
        raise ValueError("must be the name of a folder, without '/', '\\', ':' or a leading dot")
    return value


def _choice(*choices: str) -> Callable[[JsonValue, Path], str]:
    """Return the parser of a setting with a few values."""
    named = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"

    def parse(value: JsonValue, base: Path) -> str:
        if value not in choices:
            raise ValueError(f"must be {named}")
        return str(value)

    return parse


def _parse_device(value: JsonValue, base: Path) -> str:
    if not isinstance(value, str) or not _DEVICE.fullmatch(value):
        raise ValueError("must be 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps'")
    return value


def _parse_n(value: JsonValue, base: Path) -> int:
    with suppress(TypeError, ValueError, OverflowError):
        number = int(value)
        if not isinstance(value, float | bool) and 1 <= number <= MAX_N:
            return number
    raise ValueError(f"must be a whole number from 1 to {MAX_N}")


def _parse_threshold(value: JsonValue, base: Path) -> float:
    with suppress(TypeError, ValueError, OverflowError):
        number = float(value)
        if 0.0 <= number <= 1.0:
            return number
    raise ValueError("must be a number from 0 to 1")


def _parse_switch(value: JsonValue, base: Path) -> bool:
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if str(value).lower() not in words:
        raise ValueError("must be true or false")
    return words[str(value).lower()]


def _parse_words(value: JsonValue, base: Path) -> tuple[str, ...]:
    """Parse a list of commands: a list, or a text separated by blanks or commas."""
    words = _WORD.findall(value) if isinstance(value, str) else value
    if not isinstance(words, Sequence) or not all(isinstance(word, str) and word for word in words):
        raise ValueError("must be a list of commands")
    return tuple(words)


PARSERS: Mapping[str, Callable[[Any, Path], Any]] = {
    "roots": _parse_roots,
    "index_dir": _parse_path,
    "model": _parse_text,
    "fields": _choice("metadata", "full"),
    "languages": _choice(*LANGUAGES),
    "device": _parse_device,
    "backend": _choice(*BACKENDS),
    "uri": _parse_text,
    "collection": _parse_text,
    "n": _parse_n,
    "threshold": _parse_threshold,
    "refresh": _parse_switch,
    "environments": _parse_path,
    "environment": _parse_environment,
    "daemon": _choice("auto", "off"),
    "allowed_commands": _parse_words,
    "denied_commands": _parse_words,
}
"""How each setting is read; its errors complete the sentence "KEY = VALUE ..."."""
