"""Files replaced in one step, and records that carry their own digest."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import xxhash

from skillsearch.errors import CacheError
from skillsearch.files.openat import using
from skillsearch.types import JsonValue


@contextmanager
def written_beside(path: Path, data: bytes, *, sync: bool = True) -> Iterator[Path]:
    """Write a temporary file beside a path; it is removed on exit unless it was moved."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace a file in one step, so that a reader sees the old bytes or the new ones.

    Without `sync` the new content may be lost in a power failure. If this raises `OSError`, the old
    file is untouched.
    """
    with written_beside(path, data, sync=sync) as temporary:
        temporary.replace(path)
    if sync:
        sync_to_disk(path.parent)


def write_record(path: Path, record: JsonValue, *, sync: bool = True) -> None:
    """Replace a JSON file as `write_atomically` does, its first line the digest of the rest."""
    data = json.dumps(record, separators=(",", ":")).encode()
    digest = xxhash.xxh3_128_hexdigest(data).encode()
    write_atomically(path, digest + b"\n" + data, sync=sync)


def read_record(path: Path) -> JsonValue:
    """Read a record that `write_record` wrote; raise `CacheError` if it is missing or damaged."""
    try:
        return json.loads(read_with_digest(path))
    except (OSError, ValueError, RecursionError) as exc:
        raise CacheError(f"{path} cannot be read: {exc}") from exc


def is_record(path: Path) -> bool:
    """Return whether a file still matches its first line, the digest of the rest."""
    with suppress(OSError, ValueError):
        read_with_digest(path)
        return True
    return False


def read_with_digest(path: Path) -> bytes:
    """Return all but the first line of a file, its digest; a ValueError if that does not fit."""
    digest, _, data = path.read_bytes().partition(b"\n")
    if xxhash.xxh3_128_hexdigest(data).encode() != digest:
        raise ValueError("it is damaged")
    return data


def sync_to_disk(path: Path) -> None:
    """Flush a file, or a folder's entries, before anything refers to it; not every system can."""
    if os.name != "nt":
        with using(os.open(path, os.O_RDONLY)) as handle:
            os.fsync(handle)
