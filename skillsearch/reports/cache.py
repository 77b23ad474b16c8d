"""List the user's cache folder with what needs each entry, and prune it. Follows no links."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from skillsearch.files.locks import try_lock
from skillsearch.files.openat import LOCK_FLAGS, using
from skillsearch.index.roots.request import IndexRequest
from skillsearch.roots.sources import indexes_over, read_ready, shown
from skillsearch.types.json_values import JsonObject, text_of
from skillsearch.types.skills import LAST_SECOND

KEPT_SECONDS = 30 * 24 * 3600
"""How long an unneeded entry is kept after its last use."""

_REMOVED = ".removed-"
"""Prefix of a folder that is being removed, by a process that may die before it is done."""
_FOR_GOOD = {
    "artifacts": "files that commands of skills made",
    "key": "names your indexes in the folders of projects",
    "run": "the daemon",
    "told": "which missing indexes you were told of",
    "workspaces": "removed by the run that made them, or by the next one",
}
"""Folders that are never removed here, with their purpose."""
_MEMBERS = {"roots": "archive", "models": "model", "evaluation": "evaluation", "maps": "map"}
"""Folders in which each member is an entry, and its kind."""
_SHARED = {
    "embeddings": ("vectors", "embedded texts, for all indexes"),
    "matplotlib": ("library", "matplotlib: fonts that it found"),
    "torch": ("library", "torch: its compiler"),
}
"""Folders that are removed as a whole, with their kind and content."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A file or folder in the cache that is removed as a whole, if nothing needs it.

    Its kind is ``index``, ``archive``, ``model``, ``evaluation``, ``map``, ``vectors``,
    ``library``, ``leftover`` of a removal that was cut short, ``kept`` if it is never removed here,
    ``other`` if it is not ours.
    """

    kind: str
    path: Path
    about: str
    used: float
    used_by: tuple[str, ...] = ()

    def size(self) -> int:
        """Return the bytes of all files in it; hard links count once."""
        paths = [self.path]
        if _is_folder(self.path):
            for folder, names, files in os.walk(self.path):  # follows no links either
                paths += [Path(folder, name) for name in (*names, *files)]
        sizes = {}
        for path in paths:
            with suppress(OSError):
                status = path.lstat()
                if not stat.S_ISDIR(status.st_mode):
                    sizes[status.st_dev, status.st_ino] = status.st_size
        return sum(sizes.values())

    def to_dict(self, size: int) -> JsonObject:
        """Return the JSON form; the size is given, as measuring it reads the whole tree."""
        return {
            "kind": self.kind,
            "path": str(self.path),
            "about": self.about,
            "bytes": size,
            "used": datetime.fromtimestamp(self.used, UTC).isoformat(timespec="seconds"),
            "used_by": list(self.used_by),
        }


def read_cache(folder: Path, in_use: Mapping[Path, str] = {}) -> list[CacheEntry]:
    """Return the entries of a cache folder by name; `in_use` maps needed folders to their users."""
    return [entry for path in _inside(folder) for entry in _entries(path, in_use)]


def remove_unused(
    entries: Collection[CacheEntry], seconds: float = KEPT_SECONDS
) -> Iterator[CacheEntry]:
    """Remove entries unused for so long that nothing needs or writes; yield each first."""
    for entry in entries:
        is_old = entry.kind == "leftover" or time.time() - entry.used >= seconds
        if is_old and not entry.used_by and entry.kind not in ("kept", "other"):
            with _alone(entry.path) as is_free:
                if is_free and _last_use(entry.path, entry.kind) == entry.used:
                    yield entry
                    _remove(entry.path)


def empty_cache(folder: Path, in_use: Mapping[Path, str], seconds: float) -> dict[CacheEntry, int]:
    """Remove entries unused for so long that nothing needs; return the bytes of each."""
    removed: dict[CacheEntry, int] = {}
    for _ in range(2):  # an archive is no longer needed once the last index over it is gone
        unused = remove_unused(read_cache(folder, in_use), seconds)
        removed |= {entry: entry.size() for entry in unused}
    return removed


def prune_archives(folder: Path) -> None:
    """Remove archives under no index, and converted models, if unused for 30 days."""
    places = [folder / "roots", folder / "models"]
    entries = [entry for path in places if path in _inside(folder) for entry in _entries(path)]
    try:
        for entry in remove_unused(entries):
            logger.info("removing from the cache, unused for 30 days: %s", entry.about)
    except OSError as exc:
        logger.warning("The cache cannot be pruned: %s. See: skillsearch cache", exc)


def _entries(path: Path, in_use: Mapping[Path, str] = {}) -> Iterator[CacheEntry]:
    """Yield the entries that one name in the cache folder stands for."""
    if path.name in _FOR_GOOD and not path.is_symlink():
        yield _entry("kept", path, _FOR_GOOD[path.name])
    elif not _is_folder(path):
        yield _entry("other", path, "not of skillsearch")
    elif path.name in _MEMBERS:
        for inner in _inside(path):
            yield _member(inner, _MEMBERS[path.name])
    elif path.name.startswith(_REMOVED):
        yield _entry("leftover", path, "of an interrupted removal")
    elif path.name in _SHARED:
        kind, about = _SHARED[path.name]
        yield _entry(kind, path, about)
    else:
        kind, about = "other", "not of skillsearch"
        if request := _request(path):
            sources = request.sources or tuple(map(str, request.roots))
            kind, about = "index", ", ".join(map(shown, sources))
        elif _is_folder(path / "generations"):
            kind, about = "index", "unfinished"
        users = [user for folder, user in in_use.items() if folder.is_relative_to(path)]
        yield _entry(kind, path, about, users)


def _member(path: Path, kind: str) -> CacheEntry:
    if path.is_symlink():
        return _entry("other", path, "a link")
    if kind == "archive":
        source = text_of(read_ready(path).get("source", ""))
        users = [index for index in indexes_over(path) if _is_over(index, path)]
        return _entry(kind, path, shown(source) if source else "unfinished", users)
    is_ours = _is_folder(path) == (kind == "evaluation")
    about = path.stem if kind == "model" else path.name
    return _entry(kind if is_ours else "other", path, about)


def _is_over(index: str, archive: Path) -> bool:
    """Return whether an index holds skills of an archive; True if that cannot be told."""
    if not index.startswith("/"):
        return True
    if request := _request(Path(index)):
        return any(root.parent.name == archive.name for root in request.roots)  # a digest
    return _is_folder(Path(index))


def _request(folder: Path) -> IndexRequest | None:
    """Return the request that an index was made by; None if there is none, or it is not a file."""
    with suppress(OSError):
        if stat.S_ISREG((folder / "request.json").lstat().st_mode):
            return IndexRequest.load(folder)
    return None


def _entry(kind: str, path: Path, about: str, users: Collection[str] = ()) -> CacheEntry:
    return CacheEntry(kind, path, about, _last_use(path, kind), tuple(users))


def _last_use(path: Path, kind: str) -> float:
    """Return when the first levels of an entry were last written, in seconds since 1970."""
    last = 0.0
    inner = [*_inside(path), *(member for folder in _inside(path) for member in _inside(folder))]
    manifests = [folder / "manifest.json" for folder in _inside(path / "generations")]
    for file in (path, *inner, *manifests):
        with suppress(OSError):
            status = file.lstat()
            # Reading counts only for files that nothing but a use reads, unlike this command.
            is_read = file.name == "manifest.json" or kind == "model"
            last = max(last, status.st_mtime, status.st_atime if is_read else 0.0)
    return min(last, LAST_SECOND)


def _is_folder(path: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISDIR(path.lstat().st_mode)
    return False


def _inside(path: Path) -> list[Path]:
    """Return the members of a folder by name; none for a link or a file."""
    if not _is_folder(path):
        return []
    with suppress(OSError):
        return sorted(path.iterdir())
    return []


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Hold the locks of an entry; yields False if another process has one."""
    with ExitStack() as stack:
        for folder in filter(_is_folder, (path, *_inside(path))):
            try:
                fd = os.open(folder / "lock", LOCK_FLAGS)
            except OSError:
                continue  # there is no lock
            stack.enter_context(using(fd))
            if not try_lock(fd):
                yield False
                return
        yield True


def _remove(path: Path) -> None:
    if not _is_folder(path):
        path.unlink(missing_ok=True)
        return
    doomed = path
    if not path.name.startswith(_REMOVED):
        top = path.parent.parent if path.parent.name in _MEMBERS else path.parent
        doomed = path.rename(top / f"{_REMOVED}{secrets.token_hex(8)}")
    with suppress(FileNotFoundError):  # another process removes leftovers too
        shutil.rmtree(doomed)
