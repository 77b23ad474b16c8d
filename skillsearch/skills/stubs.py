"""Stubs: SKILL.md files that say little, and leave the rest to other Markdown files of the skill.

Such a skill is matched by what those files say as well. With the files of every skill read, those
that explain themselves are found no better.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from skillsearch.errors import SkillError
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.skills.resources import list_files, read_with_status, without_inner
from skillsearch.text.tokenizer import BIGRAM_SCRIPTS
from skillsearch.types.skills import FileStat

_STUB_WORDS = 300
"""With the frontmatter, which has some 50."""
_LEAST_WORDS = 500
_MAX_FILES = 32
_MAX_BYTES = 256 * 1024
"""Bytes of each file, and of the characters of all."""
_UNTOLD = frozenset({"changelog", "code_of_conduct", "contributing", "license", "security"})
"""Names, in lower case, of files that say nothing about what the skill does."""
_WORD = lazy_pattern(rf"[{BIGRAM_SCRIPTS}]{{1,2}}|(?:(?![{BIGRAM_SCRIPTS}])[^\W_])+")
"""A word, or two characters of a script that is written without spaces."""


class Continuation(NamedTuple):
    """The text that a stub points to, maybe empty, and the stat of each file read, by path."""

    text: str
    files: tuple[tuple[str, FileStat], ...]


def digest_of(text: str | None) -> str:
    """Return the digest of a body or a continuation, 32 hexadecimal digits; "" only of none."""
    if text is None:
        return ""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def continuation_of(path: Path, data: bytes) -> Continuation | None:
    """Return the text that a stub SKILL.md points to, or None if it is not a stub.

    A stub has fewer than 300 words with its frontmatter, and its skill more than 500 in other
    Markdown files, else the text is empty.
    """
    if _has_words(data.decode("utf-8", "replace"), _STUB_WORDS):
        return None
    return continuation_in(path.parent)


def continuation_in(folder: Path) -> Continuation:
    """Read the Markdown files of a skill in order of path, without those of skills inside it.

    The text is empty if they have 500 words or fewer. A file that cannot be read, or is not
    UTF-8, is left out.
    """
    texts: list[str] = []
    files: list[tuple[str, FileStat]] = []
    size = 0
    with suppress(SkillError):
        for relative in islice(_markdown_in(folder), _MAX_FILES):
            with suppress(SkillError, UnicodeDecodeError):
                data, status = read_with_status(folder, relative, limit=_MAX_BYTES)
                files.append((str(folder / relative), FileStat.of(status)))
                text = data.decode("utf-8-sig")
                if size + len(text) <= _MAX_BYTES:
                    texts.append(text)
                    size += len(text)
    text = "\n\n".join(texts)
    return Continuation(text if _has_words(text, _LEAST_WORDS + 1) else "", tuple(files))


def _markdown_in(folder: Path) -> Iterator[str]:
    listed, _ = list_files(folder)
    pages = (path for path in map(PurePosixPath, listed) if path.suffix.lower() == ".md")
    return without_inner(folder, (str(page) for page in pages if page.stem.lower() not in _UNTOLD))


def _has_words(text: str, count: int) -> bool:
    return sum(1 for _ in islice(_WORD.finditer(text), count)) == count
