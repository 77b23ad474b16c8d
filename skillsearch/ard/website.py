"""Write the files of a website, and nothing over what somebody else wrote there.

``/.well-known/.skillsearch.json`` keeps the digests of what was written. It is there before the
files and names both old and new ones until all are written, so that a killed run can be repeated.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from skillsearch.errors import CacheError, ConfigError, StorageError, UnusableError, explained
from skillsearch.files.atomic_files import read_record, write_record, written_beside
from skillsearch.files.openat import open_file, open_folder, read_opened, using
from skillsearch.system_errors import is_missing
from skillsearch.text.safe_text import listed, visible
from skillsearch.types.json_values import list_of, object_of, text_of

RECORD = ".well-known/.skillsearch.json"

_MAX_READ = 1 << 30
_SHOWN = 5

Digests = Mapping[str, Sequence[str]]
"""The digests of what we wrote, or were about to, by path."""


class WebsiteChanges(NamedTuple):
    """The paths of files that were written or removed; the others were as they should be."""

    written: Sequence[str]
    removed: Sequence[str]


def write_website(folder: Path, files: Mapping[str, bytes]) -> WebsiteChanges:
    """Write files below a folder in their order, and remove the old files of an earlier run.

    A ConfigError, and nothing is changed, if something is in the way that is not ours or was
    changed since. Each file is replaced in one step; a StorageError if one cannot be written.
    """
    wanted = {path.lstrip("/"): data for path, data in files.items()}
    where = f"The website cannot be written to {visible(str(folder))}"
    with explained(StorageError, f"{where}: %s. Mend that, or name another folder."):
        folder.mkdir(parents=True, exist_ok=True)
        before = _recorded(folder)
        there = {path: _digest_at(folder, path) for path in {**wanted, **before}}
        _refuse_foreign(folder, wanted, before, there)
        return _write(folder, wanted, before, there)


def _write(
    folder: Path, wanted: Mapping[str, bytes], before: Digests, there: Mapping[str, str]
) -> WebsiteChanges:
    new = {path: [_digest(data)] for path, data in wanted.items()}
    changed = [path for path in wanted if there[path] != new[path][0]]
    gone = [path for path in before if path not in wanted and there[path]]
    if not (changed or gone or new != before):
        return WebsiteChanges((), ())
    os.close(open_folder(folder, (".well-known",), make=True))
    both = {path: [*new.get(path, ()), *before.get(path, ())] for path in {**new, **before}}
    write_record(folder / RECORD, {"files": both})
    for path in changed:
        os.close(open_folder(folder, path.split("/")[:-1], make=True))
        with written_beside(folder / path, wanted[path]) as temporary:
            temporary.chmod(0o644)  # The web server may run as another user.
            temporary.replace(folder / path)
    for path in gone:
        *parts, name = path.split("/")
        with using(open_folder(folder, parts)) as parent:
            os.unlink(name, dir_fd=parent)
        with suppress(OSError):  # other files are beside it
            (folder / path).parent.rmdir()
    write_record(folder / RECORD, {"files": new})
    return WebsiteChanges(changed, gone)


def _refuse_foreign(
    folder: Path, wanted: Mapping[str, bytes], before: Digests, there: Mapping[str, str]
) -> None:
    """Raise a ConfigError if a file is neither missing, nor as it is to be, nor as we left it."""
    foreign = [
        path
        for path, digest in there.items()
        if digest
        and digest not in before.get(path, ())
        and not (path in wanted and digest == _digest(wanted[path]))
    ]
    if foreign:
        raise ConfigError(
            f"{visible(str(folder))} has files that skillsearch did not write, or that were "
            f"changed since: {listed(sorted(foreign), _SHOWN)}. Nothing was written. Move them "
            "away, or name another folder."
        )


def _recorded(folder: Path) -> Digests:
    """Return the record of an earlier run, if any; a ConfigError if it is damaged."""
    path = folder / RECORD
    if not path.is_symlink() and not path.exists():
        return {}
    try:
        files = object_of(object_of(read_record(path))["files"])
        if not all(map(_is_ours, files)):
            raise UnusableError("it names what skillsearch does not write")
        return {name: list(map(text_of, list_of(digests))) for name, digests in files.items()}
    except (CacheError, KeyError, TypeError, ValueError) as exc:
        raise ConfigError(
            f"{visible(str(path))}, which says what skillsearch wrote, is damaged. Remove it and "
            "the files next to it, or name another folder."
        ) from exc


def _is_ours(path: str) -> bool:
    """Return whether a path is one that we may have written; the record may be forged."""
    top, *inner = path.split("/")
    return top == ".well-known" and bool(inner) and not {"", ".", ".."} & set(inner)


def _digest_at(folder: Path, path: str) -> str:
    """Return the digest of a file, "" if it is missing, another text if it cannot be read."""
    try:
        with using(open_file(folder, path.split("/"))) as opened:
            return _digest(read_opened(opened, _MAX_READ)[0])
    except OSError as exc:
        if is_missing(exc) and exc.errno != errno.ENOTDIR:
            return ""
        return "unreadable"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
