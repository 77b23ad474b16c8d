"""The folder of a bundle in the cache, and what keeps it whole.

    CACHE/roots/DIGEST/
      lock            held by the one process that looks at the source
      ready.json      what lies there; written last, removed first
      NAME/           the root

Whether the root is whole is seen from the size and time of all that is in it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from skillsearch.errors import RootError
from skillsearch.files.openat import using
from skillsearch.roots.archives import archive_kind, extract
from skillsearch.roots.downloads import Downloaded, UnreachableError, check_url, fetch
from skillsearch.roots.sources import MAX_READY_BYTES, READY, is_skill_md, shown
from skillsearch.setting_values import is_url

LOCK_SECONDS = 300.0
"""How long another process that looks at the same source is waited for."""

_TEMPORARY = ".temporary-"
_RACY_NS = 2_000_000_000
"""A file this young may be written again without that its time tells."""

logger = logging.getLogger(__name__)


def update(source: str, place: Path) -> None:
    """Have a folder hold what its source is now.

    Args:
        source: The URL, or the path of the archive.
        place: The folder.

    Raises:
        RootError: When that cannot be had, or is refused; what was there before stays.
    """
    if is_url(source):
        check_url(source)
    name = shown(source)
    try:
        place.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        with _lock(place.parent, name):
            _Update(source, place, name).run()
    except OSError as exc:
        raise RootError(
            f"{name} cannot be unpacked below {place.parent}: {exc.strerror or exc}. Mend that, or "
            "unpack it yourself and name the folder."
        ) from exc


@dataclass(frozen=True, slots=True)
class _Ready:
    """What lies in the folder of a source.

    Attributes:
        source: The path or URL.
        content: Digest of names, sizes and times of all files.
        sha256: Digest of the archive.
        etag: As in `Downloaded`.
        last_modified: As in `Downloaded`.
        stat: Size, time and inode of an archive of this machine.
    """

    source: str
    content: str
    sha256: str
    etag: str = ""
    last_modified: str = ""
    stat: tuple[int, ...] = ()


class _Update:
    """A look at a source, under its lock."""

    def __init__(self, source: str, place: Path, name: str) -> None:
        self._source = source
        self._place = place
        self._name = name
        self._ready_file = place.parent / READY
        self._ready = self._load()

    def run(self) -> None:
        """Unpack the source where it is new, and remove what crashed processes left."""
        for left in self._place.parent.glob(f"{_TEMPORARY}*"):
            shutil.rmtree(left)
        work = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=self._place.parent))
        try:
            if is_url(self._source):
                self._download(work)
            else:
                self._look_at_file(work)
        finally:
            shutil.rmtree(work)

    def _look_at_file(self, work: Path) -> None:
        """Unpack the archive unless it is the one that was unpacked."""
        archive = Path(self._source)
        if not archive.is_file():
            raise RootError(f"{self._name}: there is no such archive; correct the path.")
        found = archive.stat()
        stat = (found.st_size, found.st_mtime_ns, found.st_ino)
        if self._ready and self._ready.stat == stat:
            return
        is_racy = abs(time.time_ns() - found.st_mtime_ns) < _RACY_NS
        with archive.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        self._use(archive, work, Downloaded(sha256), () if is_racy else stat)

    def _download(self, work: Path) -> None:
        """Unpack what the server has unless it is what was unpacked."""
        from skillsearch._version import __version__

        ready = self._ready
        known = Downloaded(ready.sha256, ready.etag, ready.last_modified) if ready else None
        path = work / "download"
        try:
            with path.open("xb") as file:
                found = fetch(self._source, file, agent=f"skillsearch/{__version__}", known=known)
        except UnreachableError as exc:
            if known is None:
                raise
            logger.warning("Using what was unpacked before: %s", exc)
            return
        if found is not None:
            self._use(path, work, found)

    def _use(self, file: Path, work: Path, found: Downloaded, stat: tuple[int, ...] = ()) -> None:
        """Put what a file holds in place, unless just that is there, and record it."""
        if self._ready is None or self._ready.sha256 != found.sha256:
            self._swap(self._unpack(file, work / "new"), work / "old")
        ready = _Ready(
            self._source,
            _content(self._place),
            found.sha256,
            found.etag,
            found.last_modified,
            stat,
        )
        written = work / READY
        written.write_text(json.dumps(asdict(ready)), encoding="utf-8")
        written.replace(self._ready_file)

    def _unpack(self, file: Path, folder: Path) -> Path:
        """Make a folder of an archive, or of a bare SKILL.md, and return it."""
        with file.open("rb") as opened:
            head = opened.read(512)
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:9].lower().startswith((b"<!doctype", b"<html")):
            raise RootError(
                f"{self._name} is a web page. Name the URL of the file itself; that of a SKILL.md "
                "on GitHub is behind 'Raw'."
            )
        if is_url(self._source) and is_skill_md(self._source) and not archive_kind(head):
            folder.mkdir()
            file.rename(folder / "SKILL.md")
        else:
            extract(file, folder, name=self._name)
        return folder

    def _swap(self, new: Path, old: Path) -> None:
        """Put a folder in the place of the one before."""
        self._ready_file.unlink(missing_ok=True)
        if self._place.exists():
            self._place.rename(old)
        new.rename(self._place)

    def _load(self) -> _Ready | None:
        """Return what lies in the folder; None where it is not whole."""
        try:
            with self._ready_file.open("rb") as file:
                values = json.loads(file.read(MAX_READY_BYTES))
            ready = _Ready(**{**values, "stat": tuple(values["stat"])})
            is_whole = (ready.source, ready.content) == (self._source, _content(self._place))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        return ready if is_whole else None


def _content(folder: Path) -> str:
    """Return a digest of names, sizes, times and permissions below a folder; opens no file."""
    digest = hashlib.sha256()
    for path, names, files in os.walk(folder):
        names.sort()
        for name in (*names, *sorted(files)):
            status = Path(path, name).lstat()
            size_and_time = (status.st_size, status.st_mtime_ns) if name not in names else ()
            line = f"{path}/{name}\0{status.st_mode}\0{size_and_time}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


@contextmanager
def _lock(folder: Path, name: str) -> Iterator[None]:
    """Keep other processes out; the lock of one that died is free."""
    with using(os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)) as fd:
        os.utime(fd)  # the time of the last use
        give_up = time.monotonic() + LOCK_SECONDS
        while not _try_lock(fd):
            if time.monotonic() > give_up:
                raise RootError(
                    f"{name}: another process has been unpacking it for {LOCK_SECONDS:g} s; end "
                    "that one, or try later."
                )
            time.sleep(0.05)
        yield


def _try_lock(fd: int) -> bool:
    """Lock a file if nobody else has."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
