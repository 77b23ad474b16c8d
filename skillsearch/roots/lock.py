"""The lock file: which sources the user has added, what each was then, and since when."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from skillsearch.errors import ConfigError, RootError, StorageError, UnusableError, explained
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.files.atomic_files import write_atomically
from skillsearch.files.locks import exclusive
from skillsearch.files.openat import read_regular
from skillsearch.settings import user_folders
from skillsearch.types.json_values import Record

VERSION = 1
_MAX_BYTES = 16 << 20
_LOCK_SECONDS = 300.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LockedSource(Record):
    """A source that was added: the root that it means, and its content then.

    Attributes:
        source: The canonical root.
        text: What the user wrote for a URL; the path of a local archive.
        digest: ``sha256:`` and the digest of the names and bytes of all files.
        date: The day of that content, in UTC.
    """

    KEYS = MappingProxyType({"text": "given"})

    source: str
    text: str
    digest: str
    date: str


def lock_file() -> Path:
    """Return the path of the lock file, next to the user's settings; it may not exist."""
    return user_folders.user_file().with_name("skillsearch.lock")


def read_lock() -> dict[str, LockedSource]:
    """Return the sources that were added, by their roots; a ConfigError if the file is broken."""
    path = lock_file()
    try:
        record = json.loads(read_regular(path, _MAX_BYTES)[0])
        if record["version"] != VERSION:
            raise UnusableError(f"it has version {record['version']!r}, not {VERSION}")
        names = [LockedSource.KEYS.get(name, name) for name in LockedSource.__slots__]
        rows = [LockedSource(*(str(row[name]) for name in names)) for row in record["sources"]]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as exc:
        raise ConfigError(
            f"The lock file {path} cannot be read: {exc}. Bring back a copy, or move it away and "
            "add the sources again."
        ) from exc
    return {entry.source: entry for entry in rows}


def known_sources() -> Mapping[str, LockedSource]:
    """Return the same for those who only look something up; empty, with a warning, if broken."""
    try:
        return read_lock()
    except ConfigError as exc:
        logger.warning("%s", exc)
        return {}


@contextmanager
def changed_lock() -> Iterator[dict[str, LockedSource]]:
    """Give the sources to change; what they are on exit is written in one step.

    Raises ConfigError for a broken file, StorageError if it cannot be written, RootError if another
    process keeps it, or it would have more bytes than are read; then it is as it was.
    """
    path = lock_file()
    failed = explained(StorageError, f"{path} cannot be written: %s. Correct that, and try again.")
    busy = RootError(f"Another process keeps {path}; stop it, or try again later.")
    with exclusive(path.with_name(f".{path.name}.lock"), _LOCK_SECONDS, failed, busy):
        entries = read_lock()
        before = dict(entries)
        yield entries
        if entries != before:
            listed = [entries[source].to_dict() for source in sorted(entries)]
            text = json.dumps({"version": VERSION, "sources": listed}, indent=2)
            if len(text) >= _MAX_BYTES:  # it is all ASCII, and a line end follows
                raise RootError(
                    f"{path} would have {len(text):,} bytes for {len(entries):,} sources, and "
                    f"{_MAX_BYTES:,} are read. Take out some that you no longer need: skillsearch "
                    "remove SOURCE"
                )
            write_atomically(path, f"{text}\n".encode())


def pin(source: str, text: str, digest: str) -> None:
    """Write the content of a source from today on into the lock; fails as `changed_lock` does."""
    with changed_lock() as entries:
        today = datetime.now(UTC).date().isoformat()
        entries[source] = LockedSource(source, text, digest, today)


def unpin(sources: Iterable[str]) -> None:
    """Take sources out of the lock file; those that it lacks are passed over."""
    with changed_lock() as entries:
        for source in sources:
            entries.pop(source, None)
