"""Files replaced in one step, and records that carry their own digest."""

from __future__ import annotations

import errno
import glob
import json
import os
import stat
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import xxhash

from skillsearch.errors import CacheError, UnreadableError, UnusableError
from skillsearch.files.locks import try_lock
from skillsearch.files.openat import READ_FLAGS, read_regular, using
from skillsearch.system_errors import is_missing
from skillsearch.types.json_values import Json

_UNFINISHED = ".skillsearch-new"
"""The ending of our temporary files, which no other program uses."""


@contextmanager
def written_beside(path: Path, data: bytes, *, sync: bool = True) -> Iterator[Path]:
    """Write a temporary file next to a path; it is removed on exit unless it was moved.

    Temporary files that killed writers of this path left are removed first.
    """
    sweep(path.parent, path.name)
    is_ours: bool | None = False
    while is_ours is False:  # until nobody has swept it before it was locked
        handle, name = tempfile.mkstemp(_UNFINISHED, f".{path.name}-", path.parent)
        is_ours = try_lock(handle)
        if is_ours and not os.fstat(handle).st_nlink:
            is_ours = False
        if is_ours is False:
            os.close(handle)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
            if is_ours is None:  # such a system may not move an open file
                file.close()
            yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def sweep(folder: Path, name: str = "") -> None:
    """Remove the temporary files of killed writers, of all files in a folder or of one.

    A writer holds a lock on its file for as long as it lives.
    """
    start = f".{glob.escape(name)}-" if name else "."
    with suppress(OSError):
        for path in list(folder.glob(f"{start}*{_UNFINISHED}")):
            with suppress(OSError), using(os.open(path, READ_FLAGS)) as handle:
                if try_lock(handle):
                    path.unlink()


def write_atomically(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace a file in one step, so that a reader sees the old bytes or the new ones.

    Without `sync` the new content may be lost in a power failure. If this raises `OSError`, the old
    file is untouched.
    """
    with written_beside(path, data, sync=sync) as temporary:
        temporary.replace(path)
    if sync:
        sync_to_disk(path.parent)


def replace_unchanged(path: Path, before: bytes | None, after: bytes, mode: int = 0o600) -> bool:
    """Replace a file that is not ours in one step; it keeps its mode and its owner.

    `path` is no link; without a file, `before` is None, and a new one gets the `mode`. False if
    another program has changed it meanwhile, an `OSError` if it cannot be written, or is not meant
    to be; then it is as it was.
    """
    with written_beside(path, after) as temporary:
        temporary.chmod(mode)
        if before is not None:
            with suppress(FileNotFoundError):
                _give_status(temporary, path)
        if not _holds(path, before):
            return False
        temporary.replace(path)
        sync_to_disk(path.parent)
    return True


def _give_status(file: Path, model: Path) -> None:
    """Give a file the mode and the owner of another; PermissionError if that one is read-only."""
    status = model.stat()
    if not may_change(model, status.st_mode):
        raise PermissionError(errno.EACCES, "it is read-only", str(model))
    with suppress(OSError):  # only root may give a file away
        os.chown(file, status.st_uid, status.st_gid)
    file.chmod(stat.S_IMODE(status.st_mode))


def may_change(path: Path, mode: int) -> bool:
    """Return whether somebody meant a file with this mode to be changed, and by us."""
    return bool(mode & 0o222) and os.access(path, os.W_OK)


def _holds(path: Path, data: bytes | None) -> bool:
    try:
        return read_regular(path, len(data or b""))[0] == data
    except OSError as exc:
        if data is None and exc.errno == errno.ENOENT:
            return True
        if exc.errno in (errno.EFBIG, errno.EINVAL, errno.ENOENT):
            return False
        raise


def write_record(path: Path, record: Json, *, sync: bool = True) -> None:
    """Replace a JSON file as `write_atomically` does, its first line the digest of the rest."""
    data = json.dumps(record, separators=(",", ":")).encode()
    digest = xxhash.xxh3_128_hexdigest(data).encode()
    write_atomically(path, digest + b"\n" + data, sync=sync)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Translate the errors of reading a file of ours.

    A `CacheError` says that it is missing or damaged and must be rebuilt; an `UnreadableError` that
    the machine does not let us read it, so its content may be sound.
    """
    try:
        yield
    except (OSError, MemoryError) as exc:
        is_other = isinstance(exc, OSError) and exc.errno in (None, errno.EINVAL, errno.EFBIG)
        if is_other or (isinstance(exc, OSError) and is_missing(exc)):
            raise CacheError(f"{path} cannot be read: {exc}") from exc
        raise UnreadableError(path, exc) from exc
    except (ValueError, EOFError, KeyError, RecursionError, struct.error) as exc:
        raise CacheError(f"{path} cannot be read: {exc}") from exc


def read_record(path: Path) -> Json:
    """Read a record that `write_record` wrote; fails as `reading` does."""
    with reading(path):
        record: Json = json.loads(read_with_digest(path))
        return record


def is_record(path: Path) -> bool:
    """Return whether a file still matches its first line, the digest of the rest."""
    with suppress(CacheError), reading(path):
        read_with_digest(path)
        return True
    return False


def read_with_digest(path: Path) -> bytes:
    """Return all but the first line of a file, its digest; an UnusableError if it does not fit."""
    digest, _, data = read_regular(path, sys.maxsize)[0].partition(b"\n")
    if xxhash.xxh3_128_hexdigest(data).encode() != digest:
        raise UnusableError("it is damaged")
    return data


def sync_to_disk(path: Path) -> None:
    """Flush a file, or a folder's entries, before anything refers to it; not every system can."""
    if os.name != "nt":
        with using(os.open(path, os.O_RDONLY)) as handle:
            sync_handle(handle)


def sync_handle(handle: int) -> None:
    """Flush an open file, or folder, as `sync_to_disk` does."""
    if os.name != "nt":
        os.fsync(handle)
