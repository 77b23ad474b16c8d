"""The parts of a generation: what its manifest says of each, and whether each still is that.

To read a million skills through before each search would take seconds. So the seal of a generation
keeps the stat that each part had when its digest was last compared, and a part that still has it is
taken for good. A generation shares the parts that it does not change with the one before, by links.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import xxhash

from skillsearch.errors import CacheError
from skillsearch.index.atomic_files import read_record, sync_file, write_record
from skillsearch.types import JsonValue

_SEAL = "seal.json"
_READ_BLOCK = 1 << 20
_RACY_NS = 50_000_000
"""A part written so shortly before it is sealed may be changed once more within the same tick of
the file system's clock; it is sealed when it is next read through."""


class Part(NamedTuple):
    """What a manifest says of a part.

    Attributes:
        size: Bytes.
        digest: XXH3-128 of them, hexadecimal.
    """

    size: int
    digest: str


def share_parts(folder: Path, parts: Mapping[str, Part], target: Path) -> dict[str, Part]:
    """Put parts of a generation into the folder of another, without writing them where possible.

    Args:
        folder: Where they lie.
        parts: The parts to share, by file name.
        target: The other folder.

    Returns:
        Those that had not to be written.

    Raises:
        OSError: When one cannot be written.
    """
    shared = {}
    for name, part in parts.items():
        try:
            (target / name).hardlink_to(folder / name)
            shared[name] = part
        except OSError:  # Not every file system can.
            shutil.copyfile(folder / name, target / name)
    return shared


def describe_parts(folder: Path, known: Mapping[str, Part]) -> dict[str, Part]:
    """Digest all files of a folder and have the system put them on disk.

    Args:
        folder: The folder.
        known: Those of which that is done.

    Returns:
        What there is to say of each, by name.

    Raises:
        OSError: When one cannot be read.
    """
    parts = {}
    for file in sorted(folder.iterdir()):
        if file.name in known:
            parts[file.name] = known[file.name]
            continue
        parts[file.name] = Part(file.stat().st_size, _digest(file))
        sync_file(file)
    return parts


def check_parts(folder: Path, parts: Mapping[str, Part], *, verify: bool = False) -> None:
    """Compare the digests of all parts that no seal spares, and seal them.

    Args:
        folder: Where they lie.
        parts: What the manifest says of them.
        verify: Compare all, whatever the seal says.

    Raises:
        CacheError: When one is missing or damaged.
    """
    sealed = {} if verify else _read_seal(folder)
    doubtful = [one for one in parts if not _is_sealed(folder / one, parts[one], sealed)]
    for one in doubtful:
        _check(folder / one, parts[one])
    if doubtful:
        # Who may only read the index reads those parts through each time.
        with contextlib.suppress(OSError):
            seal_parts(folder, parts)


def seal_parts(folder: Path, parts: Iterable[str]) -> None:
    """Write down the stat of every part, now that its digest is known to be right.

    Args:
        folder: Where they lie.
        parts: Their names.

    Raises:
        OSError: When one is missing, or nothing can be written.
    """
    latest = time.time_ns() - _RACY_NS
    stats = {part: _stat_of(folder / part) for part in parts}
    record = {part: stat for part, stat in stats.items() if stat[1] < latest}
    write_record(folder / _SEAL, record, sync=False)


def _read_seal(folder: Path) -> Mapping[str, JsonValue]:
    """Read the stats that parts had when their digests were compared; none where it is damaged."""
    try:
        return dict(read_record(folder / _SEAL))
    except (CacheError, TypeError, ValueError):
        return {}


def _is_sealed(path: Path, part: Part, sealed: Mapping[str, JsonValue]) -> bool:
    """Tell whether a part is as it was when its digest was last compared."""
    try:
        stat = _stat_of(path)
    except OSError:
        return False
    return stat[0] == part.size and sealed.get(path.name) == stat


def _stat_of(path: Path) -> list[int]:
    """Return what tells cheaply whether a file may have changed."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _check(path: Path, part: Part) -> None:
    """Compare a part with what the manifest says of it."""
    try:
        if path.stat().st_size != part.size or _digest(path) != part.digest:
            raise CacheError(f"{path} is damaged")
    except OSError as exc:
        raise CacheError(f"{path} cannot be read: {exc.strerror}") from exc


def _digest(path: Path) -> str:
    """Digest a file without mapping it, so that its pages do not count as our memory."""
    digest = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        while block := file.read(_READ_BLOCK):
            digest.update(block)
    return digest.hexdigest()
