"""The parts of a generation: what its manifest says of each, and whether each still is that.

To hash a million skills before each search would take seconds. So the seal of a generation records
the stat that each part had when its digest was last compared, and a part that still has it is
trusted. That misses what a disk does to bytes at rest, so each run of indexing hashes some trusted
parts again, those first that were not read for longest: after as many runs as there are parts, all
were read. A generation shares the parts that it does not change with the one before, by links.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import xxhash

from skillsearch.errors import CacheError, SkillSearchError
from skillsearch.files.atomic_files import read_record, sync_file, write_record
from skillsearch.types import JsonValue

if TYPE_CHECKING:
    from types import TracebackType

_SEAL = "seal.json"
_READ_BLOCK = 1 << 20
_RACY_NS = 50_000_000
"""A part written so shortly before it is sealed may be changed once more within the same tick of
the file system's clock; it is sealed when it is next hashed."""
REREAD_BYTES = 8 << 20
"""Bytes of trusted parts that a run of indexing hashes again, 2 ms of CPU; of parts that are larger
one a run, a microsecond a skill."""
EVERYTHING = 1 << 62
"""More bytes than an index has."""


class Part(NamedTuple):
    """What a manifest says of a part.

    Attributes:
        size: Bytes.
        digest: XXH3-128 of them, hexadecimal.
    """

    size: int
    digest: str


def share_parts(folder: Path, parts: Mapping[str, Part], target: Path) -> dict[str, Part]:
    """Put parts of a generation into the folder of another, without writing them if possible.

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


def damaged_parts(folder: Path, parts: Mapping[str, Part], *, reread: int = 0) -> tuple[str, ...]:
    """Compare the digests of all parts that the seal does not spare, and seal those that are good.

    Args:
        folder: Where they lie.
        parts: What the manifest says of them.
        reread: Bytes of trusted parts to hash as well, those first that were not read for longest;
            unless it is 0, at least one part.

    Returns:
        The names of those that are missing or damaged, sorted; they are not sealed any more.
    """
    seal = _read_seal(folder)
    stats = {name: _stat_of(folder / name) for name in parts}
    trusted = [name for name in seal if name in parts and seal[name] == stats[name]]
    again = _first_of(trusted, parts, reread)
    wanted = [*(name for name in parts if seal.get(name) != stats[name]), *again]
    damaged = different_parts(folder, {name: parts[name] for name in wanted})
    order = [*trusted[len(again) :], *wanted]
    if damaged or order != trusted:
        # Without permission to write, unsealed parts are hashed at every open.
        with contextlib.suppress(OSError):
            _write_seal(folder, {name: stats[name] for name in order if name not in damaged})
    return damaged


def different_parts(folder: Path, parts: Mapping[str, Part]) -> tuple[str, ...]:
    """Hash parts and return the names of those that are missing or damaged, sorted."""
    return tuple(sorted(name for name in parts if not _is_intact(folder / name, parts[name])))


def seal_parts(folder: Path, names: Iterable[str]) -> None:
    """Record the stat of parts whose digests are known to be right.

    Args:
        folder: Where they lie.
        names: Their names, that first which was not read for longest.

    Raises:
        OSError: When nothing can be written.
    """
    _write_seal(folder, {name: _stat_of(folder / name) for name in names})


def trusted_parts(folder: Path) -> list[str]:
    """Return the names of the parts that still have the stat of the seal, in its order.

    To make or remove another link of a part changes its ctime; what is trusted before may be
    sealed again after it.
    """
    seal = _read_seal(folder)
    return [name for name in seal if seal[name] == _stat_of(folder / name)]


def describe_damage(index_dir: Path, names: Sequence[str]) -> str:
    """Name the damaged files of an index, and the command that heals it."""
    are = "is" if len(names) == 1 else "are"
    return (
        f"{', '.join(names)} of the index in {index_dir} {are} damaged. "
        f"To fix: run `skillsearch index --verify --index-dir {index_dir}`"
    )


class DamageGuard:
    """Makes one error of whatever a reader raises because a part is damaged.

    A context manager around what reads the parts of a generation. It costs nothing until something
    is raised; then the parts are hashed, and if all are good the error goes on as it is.
    """

    def __init__(self, folder: Path, parts: Mapping[str, Part]) -> None:
        """Take the folder of a generation, and what its manifest says of its parts."""
        self._folder = folder
        self._parts = parts

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        is_ours = isinstance(error, SkillSearchError) and not isinstance(error, CacheError)
        # Whoever reads a generation that was removed meanwhile has no damage.
        if not isinstance(error, Exception) or is_ours or not self._folder.is_dir():
            return
        damaged = different_parts(self._folder, self._parts)
        if damaged:
            raise CacheError(describe_damage(self._folder.parents[1], damaged)) from error


def _first_of(trusted: Sequence[str], parts: Mapping[str, Part], limit: int) -> list[str]:
    """Return the first of some parts: as many as a number of bytes allows, at least one."""
    first: list[str] = []
    for name in trusted:
        if limit <= 0 or (first and parts[name].size > limit):
            break
        first.append(name)
        limit -= parts[name].size
    return first


def _read_seal(folder: Path) -> dict[str, JsonValue]:
    """Read the stats that parts had when their digests were compared; none if it is damaged."""
    try:
        return dict(read_record(folder / _SEAL))
    except (CacheError, TypeError, ValueError):
        return {}


def _write_seal(folder: Path, stats: Mapping[str, Sequence[int]]) -> None:
    """Record the stats of parts, but for those that were only just written."""
    latest = time.time_ns() - _RACY_NS
    record = {name: list(stat) for name, stat in stats.items() if stat and stat[1] < latest}
    write_record(folder / _SEAL, record, sync=False)


def _stat_of(path: Path) -> list[int]:
    """Return what tells cheaply whether a file may have changed; nothing of one that is missing.

    A change that puts the modification time back still moves the ctime.
    """
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns]


def _is_intact(path: Path, part: Part) -> bool:
    """Return whether a part is what the manifest says of it."""
    try:
        return path.stat().st_size == part.size and _digest(path) == part.digest
    except OSError:
        return False


def _digest(path: Path) -> str:
    """Digest a file without mapping it, so that its pages do not count as our memory."""
    digest = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        while block := file.read(_READ_BLOCK):
            digest.update(block)
    return digest.hexdigest()
