"""Parsers of the values of settings, given as text or by a TOML file."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from skillsearch.errors import UnusableError
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.files.openat import is_folder
from skillsearch.text.safe_text import one_line
from skillsearch.types.skills import STRICT, TRUSTS

MAX_QUERY_CHARS = 65_536
"""Far more than any request to an agent; longer text is a mistake that would cost seconds."""
MAX_N = 1000
"""Hits that a query can ask for."""

BACKENDS = ("local", "milvus")
"""Where an index can lie: in a folder of this machine, or on a Milvus server."""

READING = ("auto", "off", "always")
"""When the packaged reader reads: if the answer is in doubt, never, for every query."""
DEFAULT_READER = "auto"
USAGE = ("off", "hashes", "text")
"""What is kept of requests: nothing, no words, or words."""
HOOK_MODES = ("offer", "shadow")
"""Whether the prompt hook offers what it decides on."""

_MAX_NAME_BYTES = 255
_URL = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ROOT_IN_LIST = lazy_pattern(
    r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/:@]*(?::[^/@]*)?@)?(?:\[[^]/]*\]|[^/:]*)(?::\d+)?(?:/[^:]*)?"
    r"|[^:]+"
)
"""A URL, its port and all, or a path: an item of a colon-separated list."""
_WORD = lazy_pattern(r"[^\s,]+")
_DEVICE = lazy_pattern(r"auto|cpu|cuda(?::[0-9]{1,3})?|mps")
_SWITCHES = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
Parser = Callable[[object, Path], object]
"""Returns a setting, given its value and the folder that relative paths start from.

Its errors complete the sentence "KEY = VALUE ...".
"""


def is_environment_name(text: str) -> bool:
    """Return whether a text can name a folder: plain, not hidden, no path, at most 255 bytes."""
    is_plain = text != "" and one_line(text) == text and not text.startswith(".")
    return is_plain and not set("/\\:") & set(text) and len(text.encode()) <= _MAX_NAME_BYTES


def is_url(root: str | Path) -> bool:
    """Return whether a root is written as a URL, of whatever scheme."""
    return isinstance(root, str) and _URL.match(root) is not None


def split_roots(text: str) -> list[str]:
    """Split a list of roots; the colons of a URL do not separate."""
    return _ROOT_IN_LIST.findall(text) if os.pathsep == ":" else text.split(os.pathsep)


def parse_path(value: object, base: Path) -> Path:
    """Parse a path, relative to `base`."""
    if isinstance(value, Path):
        return base / value
    if not isinstance(value, str) or not value or "\0" in value:
        raise UnusableError("must be the path of a folder")
    try:
        return base / Path(value).expanduser()
    except RuntimeError as exc:
        user = Path(value).parts[0][1:]
        raise UnusableError(
            f"must be the path of a folder, and no user here is named {user!r}; a folder of such a "
            "name is given by its whole path"
        ) from exc


def parse_roots(value: object, base: Path) -> tuple[Path | str, ...]:
    """Parse a list of paths and URLs."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise UnusableError("must be a list of folders")
    return tuple(
        item if isinstance(item, str) and is_url(item) else parse_path(item, base) for item in value
    )


def parse_trust(value: object, base: Path) -> tuple[str, ...]:
    """Parse a list of ``LEVEL``, for all roots, and ``ROOT=LEVEL``, for one; a text is one item."""
    items = [value] if isinstance(value, str) else value
    parsed = []
    for item in items if isinstance(items, Sequence) else [items]:
        root, sign, level = item.rpartition("=") if isinstance(item, str) else ("", "", "")
        if level not in TRUSTS or bool(sign) != bool(root):
            levels = f"{', '.join(TRUSTS[:-1])} or {TRUSTS[-1]}"
            raise UnusableError(f"must be LEVEL or ROOT=LEVEL, each LEVEL one of {levels}")
        target = root if is_url(root) or not root else parse_path(root, base)
        parsed.append(f"{target}{sign}{level}")
    return tuple(parsed)


def parse_switch(value: object, base: Path) -> bool:
    """Parse a truth value or a word for one."""
    word = str(value).lower()
    if word not in _SWITCHES:
        raise UnusableError("must be true or false")
    return _SWITCHES[word]


def parse_strict(value: object, base: Path) -> tuple[str, ...]:
    """Parse a truth value: what a strict selection leaves out, or nothing."""
    return STRICT if parse_switch(value, base) else ()


def parse_words(value: object, base: Path) -> tuple[str, ...]:
    """Parse a list of words: a list, or a text separated by blanks or commas."""
    words = _WORD.findall(value) if isinstance(value, str) else value
    if not isinstance(words, Sequence) or not all(isinstance(word, str) and word for word in words):
        raise UnusableError("must be a list of words, none of them empty")
    return tuple(words)


def parse_reader(value: object, base: Path) -> str:
    """Parse one of `READING`, or a model: ``st:NAME`` or a folder, relative to `base`."""
    if isinstance(value, str):
        is_named = value in READING or (value.startswith("st:") and value[3:].strip())
        if is_named:
            return value
        if value.strip() and "\0" not in value:
            folder = parse_path(value, base)
            if is_folder(folder):
                return str(folder)
    modes = ", ".join(map(repr, READING))
    raise UnusableError(f"must be {modes}, 'st:NAME' or the folder of an ONNX model")


def choice(*choices: str) -> Parser:
    """Return the parser of a setting with a few values."""
    return text(f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}", choices.__contains__)


def text(described: str = "a text", is_fit: Callable[[str], object] = str.strip) -> Parser:
    """Return the parser of a text; `described` completes the sentence "it must be ..."."""

    def parse(value: object, base: Path) -> str:
        if not isinstance(value, str) or not is_fit(value):
            raise UnusableError(f"must be {described}")
        return value.strip()

    return parse


def number(
    number_type: type[int] | type[float], described: str, lowest: int, highest: int
) -> Parser:
    """Return the parser of a number within bounds."""

    def parse(value: object, base: Path) -> float:
        with suppress(ValueError, OverflowError):
            parsed = number_type(value) if isinstance(value, int | float | str) else math.nan
            is_exact = number_type is float or not isinstance(value, float | bool)
            if is_exact and lowest <= parsed <= highest:
                return parsed
        raise UnusableError(f"must be {described} from {lowest} to {highest}")

    return parse


count = number(int, "a whole number", 1, MAX_N)
score = number(float, "a number", 0, 1)
environment = text(
    "the name of a folder, without '/', '\\', ':' or a leading dot", is_environment_name
)
device = text("'auto', 'cpu', 'cuda', 'cuda:N' or 'mps'", _DEVICE.fullmatch)
