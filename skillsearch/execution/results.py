"""What a run gave → what the caller is told of it. Computes only, touches nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skillsearch.execution.media_types import is_text
from skillsearch.execution.outputs import CollectedFile
from skillsearch.execution.program import Finished
from skillsearch.execution.request import MAX_PRIMARY_BYTES, OutputFile
from skillsearch.files.paths import shown
from skillsearch.text.safe_text import listed, one_line, visible

_CONTINUATION = range(0x80, 0xC0)
_MAX_CHARACTER_BYTES = 4
_NAMED = 5
"""Files that a warning names."""


def stream_text(data: bytes, dropped: int) -> str:
    """Return what a command wrote as text that is safe to show, and say where some is missing.

    Args:
        data: What was kept; where some was dropped, its first half is the beginning and the rest
            the end of all.
        dropped: How many bytes are missing between the halves.

    Returns:
        The text, with a line in its middle that counts what is left out.
    """
    if not dropped:
        return _shown(data)
    middle = len(data) // 2
    head, tail = whole_characters(data[:middle]), _from_character(data[middle:])
    left_out = dropped + len(data) - len(head) - len(tail)
    return f"{_shown(head)}\n[... {left_out:,} bytes left out ...]\n{_shown(tail)}"


def run_warnings(finished: Finished) -> list[str]:
    """Return what there is to tell about how a program ended.

    Args:
        finished: How it ended.

    Returns:
        A line each.
    """
    dropped = {"stdout": finished.stdout_dropped, "stderr": finished.stderr_dropped}
    truncated = [f"{name} truncated" for name, count in dropped.items() if count]
    return [*map(one_line, finished.problems), *truncated]


def output_file(file: CollectedFile, *, inline: bool) -> OutputFile:
    """Return what is told of a collected file.

    Its text is made safe to show; its exact bytes stay in the workspace and in the artifact.

    Args:
        file: The file.
        inline: Whether its content is wanted, which only a text has.

    Returns:
        Its description, with the content or without.
    """
    content = _shown(_data(file)) if inline and is_text(file.media_type, _data(file)) else None
    return OutputFile(file.name, file.media_type, file.size, content, file.truncated)


def primary_output(files: Iterable[OutputFile]) -> OutputFile | None:
    """Return the first file by name that holds a short text, or None.

    Args:
        files: The collected files, their contents inline.

    Returns:
        One of them, not empty and of at most `MAX_PRIMARY_BYTES`.
    """
    texts = (file for file in files if file.content and file.size_bytes <= MAX_PRIMARY_BYTES)
    return min(texts, key=lambda file: file.name, default=None)


def without_empty(files: Sequence[CollectedFile]) -> tuple[list[CollectedFile], list[str]]:
    """Leave out the empty files of a failed run: begun, and never written.

    Args:
        files: What was collected.

    Returns:
        The others, and a warning where there is something to tell.
    """
    full = [file for file in files if file.size]
    if len(full) == len(files):
        return full, []
    names = listed((shown(file.name) for file in files if not file.size), _NAMED)
    return full, [f"The command failed, and files that are empty are left out: {names}."]


def whole_characters(data: bytes) -> bytes:
    """Return the beginning of a UTF-8 text without a character that was cut at its end."""
    for length in range(1, min(_MAX_CHARACTER_BYTES, len(data) + 1)):
        byte = data[-length]
        if byte not in _CONTINUATION:
            return data[:-length] if length < _character_bytes(byte) else data
    return data


def _from_character(data: bytes) -> bytes:
    """Return the end of a UTF-8 text without the rest of a character that was cut."""
    for start, byte in enumerate(data[: _MAX_CHARACTER_BYTES - 1]):
        if byte not in _CONTINUATION:
            return data[start:]
    return data[_MAX_CHARACTER_BYTES - 1 :]


def _character_bytes(first: int) -> int:
    """Return how many bytes a character has in UTF-8 that begins with this one."""
    return 1 + (first >= 0xC0) + (first >= 0xE0) + (first >= 0xF0)


def _data(file: CollectedFile) -> bytes:
    """Return what was read of a file, up to its last whole character."""
    return whole_characters(file.data) if file.truncated else file.data


def _shown(data: bytes) -> str:
    """Return bytes as text without what a terminal would obey or a reader not see."""
    return visible(data.decode("utf-8", "replace"))
