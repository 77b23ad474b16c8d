"""The user's file of example requests: written by one process at a time, in one step."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from skillsearch.errors import StorageError, explained
from skillsearch.files.atomic_files import write_atomically
from skillsearch.files.locks import exclusive
from skillsearch.files.openat import READ_FLAGS, read_opened, using
from skillsearch.library.example_review import ExampleEntry
from skillsearch.skills.example_requests import MAX_BYTES, read_examples, usable, user_file
from skillsearch.system_errors import DISK_FULL, reason_of
from skillsearch.types.json_values import list_of

_LOCK_SECONDS = 10.0


def user_examples() -> dict[str, ExampleEntry]:
    """Return the kept examples by digest; the last record of each counts."""
    records = {str(record["digest"]): record for record in read_examples(user_file())}
    return {
        digest: ExampleEntry(
            digest, str(record.get("name", "")), usable(list_of(record["examples"]))
        )
        for digest, record in records.items()
    }


def change_examples(add: Iterable[ExampleEntry] = (), forget: Collection[str] = ()) -> None:
    """Add records, which replace those with the same digests, and remove others by digest.

    Every other line stays as it is, even one that is not a record. The file is the user's alone to
    read. A StorageError if it cannot be written, or would grow to more bytes than are read; then it
    is as before.
    """
    records = {record.digest: asdict(record) for record in add}
    path = Path(user_file().resolve())
    gone = {*records, *forget}
    failed = explained(StorageError, f"{path} cannot be written: %s.", _unchanged)
    busy = StorageError(f"Another process writes {path}; nothing was kept, try again.")
    with exclusive(path.with_name(f".{path.name}.lock"), _LOCK_SECONDS, failed, busy):
        before = _lines_of(path)
        lines = [line for line in before if _digest_of(line) not in gone]
        for record in records.values():
            text = json.dumps(record, ensure_ascii=False)
            lines.append(text.encode("utf-8", "surrogatepass"))
        size = sum(map(len, lines)) + len(lines)
        if size > max(MAX_BYTES, sum(map(len, before)) + len(before)):
            raise StorageError(
                f"{path} would have {size:,} bytes, and {MAX_BYTES:,} are read, so nothing was "
                "kept. Remove those of skills that are gone: skillsearch enrich --forget --stale"
            )
        write_atomically(path, b"".join(line + b"\n" for line in lines))


def _unchanged(error: OSError) -> str:
    next_step = "free some space" if error.errno in DISK_FULL else "check who may write there"
    return f"{reason_of(error)}. It is as it was; {next_step}"


def _lines_of(path: Path) -> list[bytes]:
    with suppress(FileNotFoundError), using(os.open(path, READ_FLAGS)) as number:
        return read_opened(number, sys.maxsize)[0].splitlines()
    return []


def _digest_of(line: bytes) -> str:
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        return str(json.loads(line)["digest"])
    return ""
