"""Vectors by the text that they embed: one cache of a user, for all indexes and models.

It only saves embedding again: an index holds its own vectors, so what is missing here, damaged or
pruned is nobody's loss. It is an SQLite file, which several processes read and write at once; a
kill loses only what was not `put` yet. It holds no texts, only hashes of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import xxhash

from skillsearch.embedders.embedding import EmbeddingRow
from skillsearch.files.own_folder import other_owner
from skillsearch.files.private import make_private
from skillsearch.settings.user_folders import cache_dir

FOLDER, FILE = "embeddings", "vectors.db"
# Size in bytes from which on the longest unused vectors are removed, and the percentage of them.
LIMIT = 2 << 30
_PRUNED = 10
# Seconds to wait for other writers, each of which takes milliseconds.
_TIMEOUT = 60.0
_DAY = 86_400
# Five vectors of the packaged model fit into a page. What a crash of the machine leaves of a cache
# that was not synced is found as any damage is.
_PREPARE = (
    "PRAGMA page_size = 8192",
    "PRAGMA synchronous = OFF",
    "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, day INTEGER, vector BLOB)",
    "CREATE INDEX IF NOT EXISTS by_day ON vectors (day)",
)
_READ = "SELECT day, vector FROM vectors WHERE key = ?"
_WRITE = "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)"
_USE = "UPDATE vectors SET day = ? WHERE key = ?"
_PRUNE = f"""DELETE FROM vectors WHERE rowid IN (SELECT rowid FROM vectors ORDER BY day, rowid
    LIMIT (SELECT 1 + count(*) * {_PRUNED} / 100 FROM vectors))"""

# Errors that tell of the machine; all others tell of a damaged file, which is made anew.
_OF_MACHINE = {
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR),
    *(sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY),
    *(sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_PROTOCOL),
}

logger = logging.getLogger(__name__)


class EmbeddingCache(contextlib.AbstractContextManager["EmbeddingCache"]):
    """The saved vectors of one embedder; a context manager that closes the file.

    If the file cannot be read or written, that is logged once, and nothing is known or kept.
    """

    def __init__(
        self, fingerprint: str, dimensions: int, folder: Path | None = None, *, limit: int = LIMIT
    ) -> None:
        """Name the embedder; the file is opened, or made, when it is first needed."""
        self._path = (folder or cache_dir() / FOLDER) / FILE
        self._salt = f"{fingerprint} {dimensions} ".encode()
        self._bytes, self._limit = 4 * dimensions, limit
        self._file: sqlite3.Connection | None = None
        self._is_readable = self._is_writable = True

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def get(self, keys: Iterable[bytes]) -> dict[bytes, EmbeddingRow]:
        """Return the intact vectors of texts by their `text_key`."""
        today = int(time.time()) // _DAY
        vectors: dict[bytes, EmbeddingRow] = {}
        used: list[tuple[int, bytes]] = []

        def read(file: sqlite3.Connection) -> None:
            for key in keys:
                name = self._name(key)
                day, data = file.execute(_READ, (name,)).fetchone() or (today, None)
                row = data[: self._bytes] if isinstance(data, bytes) else b""
                if row and data == _sealed(name, row):
                    vectors[key] = np.frombuffer(row, "<f4")
                    used.extend([(today, name)] if day != today else [])

        if self._is_readable:
            self._try(read)
        if used and self._is_writable:
            self._try(lambda file: file.executemany(_USE, used), writes=True)
        return vectors

    def put(self, vectors: Mapping[bytes, EmbeddingRow]) -> None:
        """Keep vectors by the `text_key` of each; they outlive the process from then on."""
        today = int(time.time()) // _DAY
        names = ((self._name(key), np.asarray(row, "<f4")) for key, row in vectors.items())
        rows = [(name, today, _sealed(name, row.tobytes())) for name, row in names]

        def write(file: sqlite3.Connection) -> None:
            file.executemany(_WRITE, rows)
            for name, *row in rows:
                if file.execute(_READ, (name,)).fetchone() != tuple(row):
                    raise sqlite3.DatabaseError("what was written is not there")
            names = ("page_size", "page_count", "freelist_count")
            size, count, free = (file.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
            if size * (count - free) > self._limit:
                file.execute(_PRUNE)

        if rows and self._is_writable:
            self._try(write, writes=True)

    def _name(self, key: bytes) -> bytes:
        """Return the key of a text for this embedder alone."""
        return hashlib.sha256(self._salt + key).digest()[: len(key)]

    def _try(self, work: Callable[[sqlite3.Connection], object], *, writes: bool = False) -> None:
        """Do something in one transaction; if that fails, do without from then on."""
        for is_last in (False, True):
            try:
                self._file = self._file or self._open()
                with self._file:
                    work(self._file)
                return
            except (sqlite3.DatabaseError, UnicodeDecodeError, OSError) as exc:
                # Messages about a damaged file hold what stands there.
                self.close()
                code = getattr(exc, "sqlite_errorcode", 0) & 0xFF  # without the details
                if isinstance(exc, OSError) or code in _OF_MACHINE or is_last:
                    self._is_writable = False
                    self._is_readable &= writes
                    _tell(self._path, str(exc))
                    return
            logger.warning("%s is damaged and will be made anew", self._path)
            for path in (self._path, self._path.with_name(f"{FILE}-journal")):
                with contextlib.suppress(OSError):
                    path.unlink()

    def _open(self) -> sqlite3.Connection:
        folder = self._path.parent
        make_private(folder)
        if (owner := other_owner(folder)) is not None:
            raise PermissionError(f"it belongs to user {owner}")
        # One thread uses it at a time, but not always the same.
        file = sqlite3.connect(self._path, timeout=_TIMEOUT, check_same_thread=False)
        file.text_factory = bytes  # so that no damage is an error of decoding
        try:
            for statement in _PREPARE:
                file.execute(statement)
        except sqlite3.Error:
            file.close()
            raise
        return file


def _sealed(name: bytes, row: bytes) -> bytes:
    """Return the bytes of a vector with a digest of them and of what they are kept under."""
    return row + xxhash.xxh3_64_digest(name + row)


@cache
def _tell(path: Path, problem: str) -> None:
    """Log a problem, once in a process."""
    next_step = (
        "Check the permissions and the disk of its folder, or remove it: skillsearch cache --clear"
    )
    logger.warning(
        "The cache of embedded texts, %s, cannot be used: %s. %s", path, problem, next_step
    )
