"""Find the folder of a root; archives and URLs are unpacked into the cache first.

In CACHE/roots/DIGEST, ``lock`` is held by the one process that updates the root beside it, and
``ready.json`` describes the root: written last, removed first. The sizes and times of all files
show whether the root is intact.
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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from skillsearch.errors import RootError
from skillsearch.files.openat import FileStat, is_racy, using
from skillsearch.roots.sources import (
    MAX_READY_BYTES,
    READY,
    is_bundle,
    is_skill_md,
    place_of,
    shown,
    source_of,
)
from skillsearch.setting_values import is_url

if TYPE_CHECKING:
    from skillsearch.roots.downloads import Downloaded

LOCK_SECONDS = 300.0
"""How long to wait for another process that updates the same root."""
_TEMPORARY = ".temporary-"

logger = logging.getLogger(__name__)

# `archives` and `downloads` are slow to import and few roots need them: functions import them.


def local_root(root: str | Path, cache_dir: Path | None = None) -> Path:
    """Return the folder of a root, after bringing an archive or URL up to date.

    The path is absolute and always the same for the same root. If the server of a URL cannot be
    reached, the copy that was unpacked before is used, with a warning in the log; a root that is
    refused raises `RootError`. A plain folder is returned as it is, even if it does not exist.
    """
    source = source_of(root)
    place = place_of(source, cache_dir)
    if is_bundle(source):
        update(source, place)
    return place


def local_roots(roots: Iterable[str | Path]) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the folders of some roots, and their sources unless all are plain folders."""
    sources = tuple(source_of(root) for root in roots)
    folders = tuple(local_root(source) for source in sources)
    return folders, sources if any(map(is_bundle, sources)) else ()


def update(source: str, place: Path, *, lock_seconds: float = LOCK_SECONDS) -> None:
    """Bring the folder of an archive or URL up to date, or raise `RootError` and leave it."""
    name = shown(source)
    if is_url(source):
        from skillsearch.roots.downloads import check_url

        check_url(source)
    try:
        place.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        with _lock(place.parent, name, lock_seconds):
            for left in place.parent.glob(f"{_TEMPORARY}*"):  # of crashed processes
                shutil.rmtree(left)
            with tempfile.TemporaryDirectory(prefix=_TEMPORARY, dir=place.parent) as work:
                _Update(source, place, name, Path(work)).run()
    except OSError as exc:
        raise RootError(
            f"{name} cannot be unpacked below {place.parent}: {exc.strerror or exc}. Fix that, or "
            "unpack it yourself and name the folder."
        ) from exc


class _Update:
    """An update of one folder, under its lock, by way of a temporary folder."""

    def __init__(self, source: str, place: Path, name: str, work: Path) -> None:
        from skillsearch.roots.downloads import Downloaded

        self._source = source
        self._place = place
        self._name = name
        self._work = work
        self._ready_file = place.parent / READY
        self._ready: Downloaded | None = None  # unless the folder is intact
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            with self._ready_file.open("rb") as file:
                values = json.loads(file.read(MAX_READY_BYTES))
            ready = Downloaded(**{**values, "stat": tuple(values["stat"])})
            if (ready.source, ready.content) == (source, _digest(place)):
                self._ready = ready

    def run(self) -> None:
        """Unpack the local archive, or the file of the server, unless that was unpacked before."""
        from skillsearch.roots.downloads import Downloaded, UnreachableError, fetch

        ready = self._ready
        if is_url(self._source):
            path = self._work / "download"
            try:
                with path.open("xb") as file:
                    found = fetch(self._source, file, known=ready)
            except UnreachableError as exc:
                if ready is None:
                    raise
                logger.warning("Using the copy that was unpacked before: %s", exc)
                return
            if found is not None:
                self._install(path, found)
            return
        archive = Path(self._source)
        if not archive.is_file():
            raise RootError(f"{self._name}: no such archive; correct the path.")
        stat = FileStat.of(archive.stat())
        if ready and ready.stat == stat:
            return
        seen_at = time.time_ns()
        with archive.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        is_settled = not is_racy(stat.mtime_ns, seen_at)
        self._install(archive, Downloaded(sha256, stat=stat if is_settled else ()))

    def _install(self, file: Path, found: Downloaded) -> None:
        """Put the content of a file in place, unless it is there already, and record it."""
        if self._ready is None or self._ready.sha256 != found.sha256:
            new = self._work / "new"
            self._unpack(file, new)
            self._ready_file.unlink(missing_ok=True)
            if self._place.exists():
                self._place.rename(self._work / "old")
            new.rename(self._place)
        ready = replace(found, source=self._source, content=_digest(self._place))
        written = self._work / READY
        written.write_text(json.dumps(asdict(ready)), encoding="utf-8")
        written.replace(self._ready_file)

    def _unpack(self, file: Path, folder: Path) -> None:
        from skillsearch.roots.archives import archive_kind, extract

        with file.open("rb") as opened:
            head = opened.read(512)
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:9].lower().startswith((b"<!doctype", b"<html")):
            raise RootError(
                f"{self._name} is a web page. Use the URL of the file itself; for a SKILL.md on "
                "GitHub, that is the link behind 'Raw'."
            )
        if is_url(self._source) and is_skill_md(self._source) and not archive_kind(head):
            folder.mkdir()
            file.rename(folder / "SKILL.md")
        else:
            extract(file, folder, name=self._name)


def _digest(folder: Path) -> str:
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
def _lock(folder: Path, name: str, seconds: float) -> Iterator[None]:
    """Keep other processes out; the system frees the lock of one that dies."""
    with using(os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)) as fd:
        os.utime(fd)  # the time of the last use
        give_up = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise RootError(
                        f"{name}: another process has been unpacking it for {seconds:g} s; stop "
                        "that process, or try again later."
                    ) from None
            time.sleep(0.05)
        yield
