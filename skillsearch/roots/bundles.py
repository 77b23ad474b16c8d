"""Find the folder of a root; archives and URLs are unpacked into the cache first.

In CACHE/roots/DIGEST, ``lock`` is held by the one process that updates the root beside it, and
``ready.json`` describes the root: it comes last and goes first. The sizes and times of all files
show whether the root is intact. What a process that was killed left half done is undone, or done.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from skillsearch.errors import RootError, UnreachableError, explained
from skillsearch.files.locks import exclusive
from skillsearch.files.openat import is_racy
from skillsearch.files.paths import printable
from skillsearch.roots import lock, sources
from skillsearch.settings.values import is_url
from skillsearch.text.safe_text import listed
from skillsearch.types.skills import SKILL_MD, FileStat

LOCK_SECONDS = 300.0
_MAX_TOLD = 5
_TEMPORARY = ".temporary-"
_NEW, _OLD, _OLD_READY = "new", "old", "old.json"

logger = logging.getLogger(__name__)

# `archives` and `downloads` are slow to import and few roots need them: functions import them.


def local_root(root: str | Path) -> Path:
    """Return the folder of a root, after bringing an archive or URL up to date.

    The path is absolute and always the same for the same root. If the server of a URL cannot be
    reached, the copy that was unpacked before is used, with a warning in the log; a root that is
    refused raises `RootError`. What was added, and so is locked, is fetched only if its copy is
    gone, and must be what it was. A plain folder is returned as it is, even if it does not exist.
    """
    source = sources.source_of(root)
    unpacked = sources.folder_of(source)
    if sources.is_bundle(source):
        locked_source = lock.known_sources().get(source)
        if not locked_source:
            update(source, unpacked)
        elif _intact(source, unpacked) is None:
            update(source, unpacked, agree=partial(_require_same, locked_source), only_mend=True)
    return unpacked


def _require_same(locked_source: lock.LockedSource, _old: Path | None, new: Path) -> bool:
    if content_digest(new) != locked_source.digest:
        again = f"skillsearch update {shlex.quote(locked_source.text)}"
        raise RootError(
            f"{sources.shown(locked_source.source)} is not what was added on "
            f"{locked_source.date}: its digest is another. To see what changed and take it: {again}"
        )
    return True


def local_roots(roots: Iterable[str | Path]) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the folders of some roots, and their sources unless all are plain folders."""
    named = tuple(sources.source_of(root) for root in roots)
    folders = tuple(local_root(source) for source in named)
    return folders, named if any(map(sources.is_bundle, named)) else ()


Agree = Callable[[Path | None, Path], bool]
"""Decides whether a folder takes the place of the old one, if there is one.

If nothing has changed, it is that folder: whether it may stay."""


def update(
    source: str, unpacked: Path, *, agree: Agree | None = None, only_mend: bool = False
) -> None:
    """Bring the folder of an archive or URL up to date, or raise `RootError` and leave it.

    The new copy lies next to it until `agree` decides; an error of that leaves it too. With
    `agree`, a server that cannot be reached is an error. With `only_mend`, nothing is fetched if
    the folder is whole.
    """
    name = sources.shown(source)
    if is_url(source):
        from skillsearch.roots.downloads import check_url

        check_url(source.removeprefix(sources.SKILL_SERVER))
    failed = explained(
        RootError,
        f"{name} cannot be unpacked below {unpacked.parent}: %s. "
        "Fix that, or unpack it yourself and name the folder.",
    )
    busy = RootError(
        f"{name}: another process has been unpacking it for {LOCK_SECONDS:g} s; stop that "
        "process, or try again later."
    )
    with exclusive(unpacked.parent / "lock", LOCK_SECONDS, failed, busy):
        for leftover in unpacked.parent.glob(f"{_TEMPORARY}*"):  # of crashed processes
            _settle(leftover, unpacked)
            shutil.rmtree(leftover)
        if only_mend and _intact(source, unpacked):
            return
        with tempfile.TemporaryDirectory(prefix=_TEMPORARY, dir=unpacked.parent) as work:
            try:
                _renew(source, unpacked, name, Path(work), agree)
            finally:
                _settle(Path(work), unpacked)


def _intact(source: str, unpacked: Path) -> sources.Downloaded | None:
    """Return the record of a folder that is as it was unpacked."""
    with suppress(OSError, TypeError, KeyError):
        record = sources.Downloaded.from_dict(sources.read_ready(unpacked.parent))
        if (record.source, record.content) == (source, _digest(unpacked, unpacked)):
            return record
    return None


def content_digest(folder: Path) -> str:
    """Return ``sha256:`` and a digest of the paths and bytes of all files below a folder."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            inner = hashlib.file_digest(file, "sha256").hexdigest()
        line = f"{path.relative_to(folder).as_posix()}\0{inner}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return f"sha256:{digest.hexdigest()}"


def _renew(source: str, unpacked: Path, name: str, work: Path, agree: Agree | None) -> None:
    """Unpack what a source is now, unless that was unpacked before."""
    ready = _intact(source, unpacked)
    try:
        new = _fetch(source, name, work, ready)
    except UnreachableError as exc:
        if ready is None or agree:
            raise
        logger.warning("Using the copy that was unpacked before: %s", exc)
        return
    is_same = new is None or (ready is not None and ready.sha256 == new.sha256)
    folder = unpacked if is_same else work / _NEW
    if not folder.exists():
        _unpack(work / "download", folder, source, name)
    is_agreed = agree is None or agree(unpacked if unpacked.exists() else None, folder)
    if new is None or not is_agreed:
        return
    record = asdict(replace(new, source=source, content=_digest(folder, unpacked)))
    (work / sources.READY).write_text(json.dumps(record), encoding="utf-8")
    _put_in_place(work, folder, unpacked)


def _put_in_place(work: Path, folder: Path, unpacked: Path) -> None:
    ready_file = unpacked.parent / sources.READY
    if folder != unpacked:
        _move_if_there(ready_file, work / _OLD_READY)
        _move_if_there(unpacked, work / _OLD)
        folder.rename(unpacked)
    (work / sources.READY).replace(ready_file)


def _move_if_there(path: Path, target: Path) -> None:
    if path.exists():
        path.rename(target)


def _settle(work: Path, unpacked: Path) -> None:
    """Bring back the old folder if the new one has not taken its place, else complete that.

    It can itself be killed between any two steps.
    """
    ready_file = unpacked.parent / sources.READY
    if (work / _NEW).exists() or not unpacked.exists():
        (work / sources.READY).unlink(missing_ok=True)
        _move_if_there(work / _OLD, unpacked)
        _move_if_there(work / _OLD_READY, ready_file)
    elif (work / sources.READY).exists():
        (work / sources.READY).replace(ready_file)


def _fetch(
    source: str, name: str, work: Path, ready: sources.Downloaded | None
) -> sources.Downloaded | None:
    """Fetch a source as a file or as the folder of its skills; None if it is as it was."""
    from skillsearch.roots.downloads import fetch

    if sources.is_well_known(source):
        from skillsearch.roots.well_known import fetch_skills

        return fetch_skills(source, work / _NEW)
    if source.startswith(sources.SKILL_SERVER):
        from skillsearch.roots.skill_servers import fetch_served

        return fetch_served(source.removeprefix(sources.SKILL_SERVER), work / _NEW)
    archive = work / "download"
    if is_url(source):
        with archive.open("xb") as file:
            return fetch(source, file, cached=ready)
    if not Path(source).is_file():
        raise RootError(f"{name}: no such archive; correct the path.")
    archive.symlink_to(source)
    return _known_by(Path(source), ready)


def _known_by(archive: Path, ready: sources.Downloaded | None) -> sources.Downloaded | None:
    """Return the digest and stat of a local archive, or None if its stat is the known one."""
    stat = FileStat.of(archive.stat())
    if ready and ready.stat == stat:
        return None
    seen_at = time.time_ns()
    with archive.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return sources.Downloaded(sha256, stat=() if is_racy(stat.mtime_ns, seen_at) else stat)


def _unpack(file: Path, folder: Path, source: str, name: str) -> None:
    from skillsearch.roots.archives import archive_kind, extract

    with file.open("rb") as opened:
        head = opened.read(512)
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:9].lower().startswith((b"<!doctype", b"<html")):
        raise RootError(
            f"{name} is a web page. Use the URL of the file itself; for a SKILL.md on GitHub, that "
            "is the link behind 'Raw'."
        )
    if is_url(source) and sources.names_skill_md(source) and not archive_kind(head):
        folder.mkdir()
        file.rename(folder / SKILL_MD)
        return
    wanted = sources.folder_in(source)
    whole = folder.with_name("whole") if wanted else folder
    if left_out := extract(file.resolve(), whole, name=name):
        members = listed((f"the member {member}" for member in left_out), _MAX_TOLD)
        logger.warning("Left out of %s: %s", name, members)
    if wanted:
        tops = [path for path in whole.iterdir() if path.is_dir()]
        base = tops[0] if len(tops) == 1 else whole
        inner = base.joinpath(*wanted)
        if not inner.is_dir() or inner.is_symlink():
            raise RootError(f"{name} has no folder {printable('/'.join(wanted))!r}; correct it.")
        inner.rename(folder)


def _digest(folder: Path, root: Path) -> str:
    """Return a digest of names, sizes, times and permissions below a folder; opens no file.

    Paths count as they will be once the folder is at `root`.
    """
    digest = hashlib.sha256()
    for path, names, files in os.walk(folder):
        names.sort()
        there = f"{root}{path.removeprefix(str(folder))}"
        for name in (*names, *sorted(files)):
            status = Path(path, name).lstat()
            size_and_time = (status.st_size, status.st_mtime_ns) if name not in names else ()
            line = f"{there}/{name}\0{status.st_mode}\0{size_and_time}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
