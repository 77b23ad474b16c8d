"""The user's own subfolder of an index folder that a project file names.

You trust an index by naming its folder: by a flag, a variable, your own file, in code. A project
file names one too, but a checkout can bring a forged index along. So an index placed by a project
file lies in a subfolder whose name is derived from a secret in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from skillsearch.errors import ConfigError, explained
from skillsearch.files.atomic_files import written_beside
from skillsearch.files.openat import READ_FLAGS
from skillsearch.files.private import make_private

PREFIX = "own-"
_FILE = "key"
_KEY_BYTES = 32
_NAME_BYTES = 16


def other_owner(path: Path) -> int | None:
    """Return who else a file or folder belongs to, neither us nor root; None if it is missing."""
    if hasattr(os, "geteuid"):
        with suppress(OSError):
            owner = path.stat().st_uid
            return owner if owner not in (os.geteuid(), 0) else None
    return None


def own_folder(index_dir: Path, cache: Path) -> Path:
    """Return the user's own subfolder of a folder that a project file names; it may not exist.

    It is always the same for one user and folder. The secret is created in `cache` when first
    needed; if it cannot be stored, or others can read it, `ConfigError` is raised.
    """
    path = cache / _FILE
    failed = f"{path}, the key to indexes that project files place, cannot be kept: %s."
    with explained(ConfigError, f"{failed} Choose a folder for the index: --index-dir"):
        key = user_key(path)
    if key is None:
        raise ConfigError(
            f"{path}, the key to indexes that project files place, is damaged or not for you "
            "alone. Remove it, then run `skillsearch index`"
        )
    data = os.fsencode(index_dir.resolve())
    digest = hashlib.blake2b(data, key=key, digest_size=_NAME_BYTES).hexdigest()
    return index_dir / f"{PREFIX}{digest}"


def user_key(path: Path) -> bytes | None:
    """Return a secret of the user, made at random when first needed.

    None if the file is damaged or others can read it; an OSError if it cannot be kept.
    """
    if not path.exists():
        make_private(path.parent)
        with written_beside(path, secrets.token_bytes(_KEY_BYTES)) as whole:
            try:
                with suppress(FileExistsError):  # another process was faster
                    path.hardlink_to(whole)
            except OSError:  # not every file system can
                whole.replace(path)
    handle = os.open(path, READ_FLAGS)
    with os.fdopen(handle, "rb") as file:
        status, key = os.fstat(handle), file.read(_KEY_BYTES + 1)
    is_open = hasattr(os, "geteuid") and (
        status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077
    )
    return None if is_open or len(key) != _KEY_BYTES else key
