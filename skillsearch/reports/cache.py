"""List the user's cache folder with what needs each entry, and prune it. Follows no links."""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from skillsearch.files.openat import using
from skillsearch.index.request import IndexRequest
from skillsearch.roots.sources import indexes_over, shown, source_in
from skillsearch.types import JsonValue

KEPT_SECONDS = 30 * 24 * 3600
"""How long an unneeded entry is kept after its last use."""

_REMOVED = ".removed-"
"""Prefix of a folder that is being removed, by a process that may die before it is done."""
_LOCK_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOR_GOOD = {
    "artifacts": "files that commands of skills made",
    "key": "names your indexes in the folders of projects",
    "run": "the daemon",
    "told": "which missing indexes you were told of",
    "workspaces": "removed by the run that made them, or by the next one",
}
"""What is never removed here, with its purpose."""
_SHARED = {"matplotlib": "fonts that it found", "torch": "its compiler"}
"""Folders that libraries keep, with their content."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A file or folder in the cache that is removed as a whole or not at all.

    Attributes:
        kind: ``index``, ``archive``, ``model``, ``evaluation``, ``library``; ``leftover`` of an
            interrupted removal; ``kept`` if it is never removed here, ``other`` if it is not ours.
        path: Where it is.
        about: What it was made from.
        used: Time of the last use, in seconds since 1970.
        used_by: What needs it; it is removed only if this is empty.
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
        found = {}
        for path in paths:
            with suppress(OSError):
                status = path.lstat()
                if not stat.S_ISDIR(status.st_mode):
                    found[status.st_dev, status.st_ino] = status.st_size
        return sum(found.values())

    def to_dict(self, size: int) -> dict[str, JsonValue]:
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
    """Remove what was not used for so long, nothing needs and no process writes.

    Yields each entry just before it is removed.
    """
    for entry in entries:
        is_old = entry.kind == "leftover" or time.time() - entry.used >= seconds
        if is_old and not entry.used_by and entry.kind not in ("kept", "other"):
            with _alone(entry.path) as is_free:
                if is_free and _last_use(entry.path, entry.kind) == entry.used:
                    yield entry
                    _remove(entry.path)


def prune_archives(folder: Path) -> None:
    """Remove archives under no index, and converted models, if unused for 30 days."""
    places = [folder / "roots", folder / "models"]
    entries = [entry for place in places if place in _inside(folder) for entry in _entries(place)]
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
    elif path.name in _READERS:
        for inner in _inside(path):
            read = _READERS[path.name]
            yield _entry("other", inner, "a link") if inner.is_symlink() else read(inner)
    elif path.name.startswith(_REMOVED):
        yield _entry("leftover", path, "of an interrupted removal")
    elif path.name in _SHARED:
        yield _entry("library", path, f"{path.name}: {_SHARED[path.name]}")
    else:
        yield _index(path, in_use)


def _index(path: Path, in_use: Mapping[Path, str]) -> CacheEntry:
    """Return the entry of a folder that is an index, or is not ours."""
    request = _request(path)
    if request is None:
        is_ours = _is_folder(path / "generations")
        kind, about = ("index", "unfinished") if is_ours else ("other", "not of skillsearch")
        return _entry(kind, path, about, in_use)
    sources = request.sources or tuple(map(str, request.roots))
    return _entry("index", path, ", ".join(map(shown, sources)), in_use)


def _archive(path: Path) -> CacheEntry:
    """Return the entry of a folder into which a root was unpacked."""
    noted = indexes_over(path)
    users = [index for index in noted if not index.startswith("/") or _holds(index, path)]
    source = source_in(path)
    return _entry("archive", path, shown(source) if source else "unfinished", users=users)


def _holds(index: str, archive: Path) -> bool:
    """Return whether an index covers a root in the folder of an archive, or may do so."""
    request = _request(Path(index))
    if request is None:
        return _is_folder(Path(index))
    return any(root.parent.name == archive.name for root in request.roots)  # a digest


def _request(folder: Path) -> IndexRequest | None:
    """Return the request that an index was made by; None if there is none, or it is not a file."""
    with suppress(OSError):
        if stat.S_ISREG((folder / "request.json").lstat().st_mode):
            return IndexRequest.load(folder)
    return None


_READERS: dict[str, Callable[[Path], CacheEntry]] = {
    "roots": _archive,
    "models": lambda path: _entry("other" if _is_folder(path) else "model", path, path.stem),
    "evaluation": lambda path: _entry(
        "evaluation" if _is_folder(path) else "other", path, path.name
    ),
}
"""Folders in which each member is an entry."""


def _entry(
    kind: str,
    path: Path,
    about: str,
    in_use: Mapping[Path, str] = {},
    users: Collection[str] = (),
) -> CacheEntry:
    needed = tuple(user for folder, user in in_use.items() if folder.is_relative_to(path))
    return CacheEntry(kind, path, about, _last_use(path, kind), (*needed, *users))


def _last_use(path: Path, kind: str) -> float:
    """Return when the first levels of an entry were last written, in seconds since 1970.

    Reading counts only for files that nothing but a use reads; this command reads the others too.
    """
    last = 0.0
    inner = [*_inside(path), *(one for folder in _inside(path) for one in _inside(folder))]
    for file in (path, *inner):
        with suppress(OSError):
            status = file.lstat()
            is_read = file.name == "CURRENT" or kind == "model"
            last = max(last, status.st_mtime, status.st_atime if is_read else 0.0)
    return last


def _is_folder(path: Path) -> bool:
    """Return whether a path is a folder and not a link to one."""
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
                fd = os.open(folder / "lock", _LOCK_FLAGS)
            except OSError:
                continue  # there is no lock
            stack.enter_context(using(fd))
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
        yield True


def _remove(path: Path) -> None:
    """Move an entry away in one step, then remove it."""
    if not _is_folder(path):
        path.unlink(missing_ok=True)
        return
    doomed = path
    if not path.name.startswith(_REMOVED):
        top = path.parent.parent if path.parent.name in _READERS else path.parent
        doomed = path.rename(top / f"{_REMOVED}{secrets.token_hex(8)}")
    with suppress(FileNotFoundError):  # another process removes leftovers too
        shutil.rmtree(doomed)
