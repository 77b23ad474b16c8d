"""The parts of a generation: described in its manifest, and checked before they are read.

Hashing a million skills before each search would take seconds. So a stat cache records the stat
each part had when it was last hashed, and a part that still has it is trusted. That misses rot on
the disk, so each run of indexing hashes some trusted parts again, the longest unread first. A
generation shares its unchanged parts with the one before by hard links.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import xxhash

from skillsearch.errors import CacheError, SkillSearchError, UnreadableError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.files.atomic_files import read_record, reading, sync_handle, write_record
from skillsearch.files.openat import is_racy
from skillsearch.types.json_values import JsonObject, object_of
from skillsearch.types.skills import FileStat

STAT_CACHE = "stat-cache.json"
# We alone write parts, so a tick of the usual clock is enough; a part that was written so shortly
# before is only trusted once it is hashed again.
_TICK_NS = 50_000_000
# Files that are synced at the same time.
_SYNCED = 16
# Bytes of trusted parts that a run of indexing hashes again, in 2 ms of CPU; of larger parts one.
REREAD_BYTES = 8 << 20
# More bytes than an index has.
EVERYTHING = 1 << 62


class Part(NamedTuple):
    """Size in bytes and XXH3-128 digest of a part, as in the manifest."""

    size: int
    digest: str


def share_parts(folder: Path, parts: Mapping[str, Part], target: Path) -> dict[str, Part]:
    """Link or copy parts of a generation into another folder, and return those that were linked."""
    shared = {}
    for name, part in parts.items():
        try:
            (target / name).hardlink_to(folder / name)
            shared[name] = part
        except OSError:  # Not every file system has hard links.
            shutil.copyfile(folder / name, target / name)
    return shared


def describe_parts(folder: Path, digested: Mapping[str, Part]) -> dict[str, Part]:
    """Digest and sync all files of a folder, except for those digested already."""

    def describe(file: Path) -> Part:
        if file.name in digested:
            return digested[file.name]
        with file.open("rb", buffering=0) as opened:
            sync_handle(opened.fileno())
            return _read_part(opened)

    files = sorted(folder.iterdir())
    # A file system writes together what is synced at the same time.
    with ThreadPoolExecutor(_SYNCED, thread_name_prefix="skillsearch-sync") as pool:
        return dict(zip((file.name for file in files), pool.map(describe, files), strict=True))


def damaged_parts(folder: Path, parts: Mapping[str, Part], *, reread: int = 0) -> tuple[str, ...]:
    """Hash the parts that are not trusted, and return the names of missing or damaged ones, sorted.

    Intact parts are trusted from then on. Of the trusted parts the longest unread are hashed too,
    up to `reread` bytes, but at least one unless it is 0.
    """
    stats = {name: _stat_of(folder / name) for name in parts}
    trusted = [name for name, stat in _read_stat_cache(folder).items() if stats.get(name) == stat]
    again: list[str] = []
    for name in trusted:
        if reread <= 0 or (again and parts[name].size > reread):
            break
        again.append(name)
        reread -= parts[name].size
    wanted = [*(name for name in parts if name not in trusted), *again]
    damaged = different_parts(folder, {name: parts[name] for name in wanted})
    order = [*trusted[len(again) :], *wanted]
    if damaged or order != trusted:
        # Readers without write permission hash these parts on every open.
        with contextlib.suppress(OSError):
            _write_stat_cache(folder, {name: stats[name] for name in order if name not in damaged})
    return damaged


def different_parts(folder: Path, parts: Mapping[str, Part]) -> tuple[str, ...]:
    """Hash parts and return the names of missing or damaged ones, sorted.

    An UnreadableError for one that the machine does not let us read.
    """
    different = []
    for name, part in sorted(parts.items()):
        path = folder / name
        with contextlib.suppress(CacheError), reading(path), path.open("rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size == part.size and _read_part(file) == part:
                continue
        different.append(name)
    return tuple(different)


def trust_parts(folder: Path, names: Iterable[str]) -> None:
    """Record the stat of intact parts, the longest unread first."""
    _write_stat_cache(folder, {name: _stat_of(folder / name) for name in names})


def trusted_parts(folder: Path) -> list[str]:
    """Return the parts that still have their recorded stat; a new hard link changes the ctime."""
    recorded = _read_stat_cache(folder)
    return [name for name, stat in recorded.items() if stat == _stat_of(folder / name)]


def describe_damage(index_dir: Path, names: Sequence[str]) -> str:
    """Name the damaged files of an index, and the command that repairs it."""
    are = "is" if len(names) == 1 else "are"
    return (
        f"{', '.join(names)} of the index in {index_dir} {are} damaged. "
        f"To fix: run `skillsearch index --verify --index-dir {index_dir}`"
    )


@dataclass(frozen=True, slots=True)
class DamageGuard(AbstractContextManager["DamageGuard"]):
    """Turns any error caused by a damaged part into a CacheError, hashing all parts on an error."""

    folder: Path
    parts: Mapping[str, Part]

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        is_ours = isinstance(error, SkillSearchError) and not isinstance(error, CacheError)
        # A generation that was removed meanwhile is not damaged.
        if not isinstance(error, Exception) or is_ours or not self.folder.is_dir():
            return
        if damaged := different_parts(self.folder, self.parts):
            raise CacheError(describe_damage(self.folder.parents[1], damaged)) from error


def _read_stat_cache(folder: Path) -> JsonObject:
    """Return the recorded stats of parts; none if there are no readable ones."""
    with contextlib.suppress(CacheError, UnreadableError, TypeError, ValueError):
        return object_of(read_record(folder / STAT_CACHE))
    return {}


def _write_stat_cache(folder: Path, stats: Mapping[str, Sequence[int]]) -> None:
    """Record the stats of parts, except for those that were only just written."""
    now = time.time_ns()
    settled = {
        name: list(stat)
        for name, stat in stats.items()
        if stat and not is_racy(FileStat(*stat).mtime_ns, now, _TICK_NS)
    }
    write_record(folder / STAT_CACHE, settled, sync=False)


def _stat_of(path: Path) -> list[int]:
    """Return the stat of a file; empty if missing."""
    with contextlib.suppress(OSError):
        return [*FileStat.of(path.stat())]
    return []


def _read_part(file: FileIO) -> Part:
    """Digest an open file without mapping it, so that its pages do not count as our memory."""
    digest = hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()
    return Part(file.tell(), digest)
