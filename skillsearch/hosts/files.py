"""A host's own file: where it lies, and how it is changed so that nothing in it is lost."""

from __future__ import annotations

import difflib
import errno
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skillsearch.errors import ConfigError, EditError, StorageError, explained
from skillsearch.files.atomic_files import (
    may_change,
    replace_unchanged,
    sync_to_disk,
    write_atomically,
)
from skillsearch.files.openat import read_regular
from skillsearch.files.private import make_private
from skillsearch.hosts.edit import edit
from skillsearch.hosts.entries import HOSTS, NAME, Entry
from skillsearch.hosts.plugins import MAX_BYTES, plugins_of, read_json
from skillsearch.hosts.table import Files
from skillsearch.settings.environ import host_folders
from skillsearch.text.safe_text import visible
from skillsearch.types.json_values import JsonObject

_BACKUP = ".skillsearch.bak"
_SHOWN_CHARS = 300
"""Of a line in a diff; hosts keep long ones."""


def host_file(host: str, *, hook: bool = False, project: bool = False) -> Path:
    """Return the file of a host that holds servers or hooks, the user's or the project's.

    A ConfigError if the host has no such file in a project.
    """
    row = HOSTS[host]
    own: Files = row["hook"] if hook else row  # a hook without files of its own is in the others
    shared = own.get("shared", row.get("shared"))
    if project and shared is None:
        raise ConfigError(f"{host} has no file in a project; leave out --project.")
    variable, folder, name, *mac = own.get("user", row["user"])
    base = host_folders().get(variable) or folder
    user = Path(mac[0] if mac and sys.platform == "darwin" else base).expanduser() / name
    path = Path(shared if project and shared else user).absolute()
    twin = path.with_suffix(own.get("twin", row.get("twin", path.suffix)))
    return twin if twin.exists() else path


def our_command() -> list[str]:
    """Return the command that starts skillsearch from any folder, with any PATH."""
    if program := shutil.which("skillsearch"):
        return [str(Path(program).absolute())]
    return [sys.executable, "-P", "-m", "skillsearch"]


def our_plugin(host: str) -> str:
    """Return the id of our plugin for a host that has it, with our server and hook; else nothing.

    A plugin that its user has turned off does not count.
    """
    enabled = (plugin.name for plugin in plugins_of(host) if plugin.is_enabled)
    return next((name for name in enabled if name.partition("@")[0] == NAME), "")


def distrust(host: str, folder: Path) -> str:
    """Return a note if a host does not trust a folder and so starts nothing of ours there."""
    if "trusted" not in HOSTS[host]:
        return ""
    settings = host_file(host)
    levels = read_json(settings.with_name(HOSTS[host]["trusted"]))
    parents = [Path(path).parent for path, level in levels.items() if level == "TRUST_PARENT"]
    trusted = [Path(path) for path, level in levels.items() if level == "TRUST_FOLDER"] + parents
    is_off = read_json(settings, "security", "folderTrust").get("enabled") is False
    if is_off or any(folder.is_relative_to(path) for path in trusted):
        return ""
    return (
        f"{host} starts no server and no hook in a folder that it does not trust (its list says "
        f'"untrusted folder: Disabled"); to trust {folder}, type /permissions in {host} there'
    )


def switches(host: str, file: Path | None = None) -> JsonObject:
    """Return the values of a host's own switch by skill name, from its file or another."""
    file = file or host_file(host, hook="hook" in HOSTS[host])
    return read_json(file, *HOSTS[host]["switch"]["tables"])


def switched_off(host: str, file: Path | None = None) -> set[str]:
    """Return the names of the skills that a host's own switch tells it not to list."""
    off = HOSTS[host]["switch"]["value"]
    return {name for name, value in switches(host, file).items() if value == off}


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of a file that is still to be made; its text is None while there is no file.

    One that `undoes` another leaves no file that only held our entries, and no copy of it.
    """

    path: Path
    target: Path
    before: bytes | None
    after: bytes | None
    mode: int
    undoes: bool

    @classmethod
    def plan(cls, path: Path, entries: Sequence[Entry], within: Path | None = None) -> FileChange:
        """Work out what entries do to a file, which must lie in a folder if one is given.

        A file that cannot be changed without risk raises `ConfigError`, one that cannot be read
        `OSError`.
        """
        target = _target_of(path, within)
        before, mode = _read(target)
        try:
            edited = _edited(before or b"", entries)
        except EditError as exc:
            raise ConfigError(f"{path} {exc}; it was left as it is.") from exc
        if len(edited) > MAX_BYTES:
            raise ConfigError(f"{path} would have more than {MAX_BYTES:,} bytes; shorten it.")
        if edited == (before or b""):
            return cls(path, target, before, before, mode, undoes=False)
        if before is None:
            mode = 0o644 if within else 0o600
        elif not may_change(target, mode):
            raise ConfigError(f"{path} is read-only and was left as it is; make it writable.")
        undoes = all(entry.value is None for entry in entries)
        is_empty = undoes and _is_bare(edited)
        after = _bare_before(target, edited, entries) if is_empty else edited
        return cls(path, target, before, after, mode, undoes)

    @property
    def is_needed(self) -> bool:
        """Whether the file is not as it should be already."""
        return self.after != self.before

    def diff(self) -> str:
        """Return the change as a unified diff, safe to show."""
        old, new = ((data or b"").decode().splitlines() for data in (self.before, self.after))
        lines = difflib.unified_diff(old, new, str(self.path), str(self.path), n=0, lineterm="")
        return "\n".join(visible(line)[:_SHOWN_CHARS] for line in lines)

    def write(self) -> Path | None:
        """Make the change in one step; return the copy of the old file, if one is kept.

        `ConfigError` is raised if somebody else changed the file since `plan` read it, a
        `StorageError` if it cannot be written; then it is as it was.
        """
        advice = "It is as it was; free some space, or check who may write there."
        with explained(StorageError, f"{self.path} cannot be written: %s. {advice}"):
            return self._write()

    def _write(self) -> Path | None:
        backup = None
        if self.after is None:
            self._refuse_unless(_read(self.target)[0] == self.before)
            self.target.unlink()
        else:
            backup = self._replace(self.after)
        if self.undoes and NAME.encode() not in (self.after or b""):
            _copy_of(self.target).unlink(missing_ok=True)
        sync_to_disk(self.target.parent)
        return backup

    def _replace(self, after: bytes) -> Path | None:
        if self.mode & 0o077:
            self.target.parent.mkdir(parents=True, exist_ok=True)
        else:
            make_private(self.target.parent)
        backup = None
        if not self.undoes and self.before is not None:
            backup = _back_up(self.target, self.before, self.mode)
        self._refuse_unless(replace_unchanged(self.target, self.before, after, self.mode))
        return backup

    def _refuse_unless(self, is_unchanged: bool) -> None:
        if not is_unchanged:
            raise ConfigError(
                f"{self.path} was changed by another program meanwhile; nothing was written. Run "
                "the command again."
            )


def _target_of(path: Path, within: Path | None) -> Path:
    """Return where a path leads, links followed."""
    target = Path(os.path.realpath(path))
    if within and not target.is_relative_to(os.path.realpath(within)):
        raise ConfigError(
            f"{path} is a link out of the project, to {target}; put a file of the project there."
        )
    return target


def _read(path: Path) -> tuple[bytes | None, int]:
    """Return the bytes and the mode of a file; None and 0 if it is missing."""
    try:
        data, status = read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        return None, 0
    except OSError as exc:
        if exc.errno not in (errno.EINVAL, errno.EFBIG):
            raise
        message = f"{path} is not a settings file and was left as it is; move it away."
        raise ConfigError(message) from exc
    return data, stat.S_IMODE(status.st_mode)


def _edited(data: bytes, entries: Sequence[Entry]) -> bytes:
    for entry in entries:
        data = edit(data, entry)
    return data


def _is_bare(data: bytes) -> bool:
    """Return whether a file holds nothing but braces."""
    return b"".join(data.split()) in (b"", b"{}")


def _bare_before(path: Path, after: bytes, entries: Sequence[Entry]) -> bytes | None:
    """Return the content of an emptied file before our entries; None if we made the file."""
    copy = _read(_copy_of(path))[0]
    if copy is None:
        return None
    try:
        theirs = _edited(copy, entries)
    except EditError:
        return after
    if not _is_bare(theirs):
        return after
    return copy if theirs == copy else None


def _copy_of(path: Path) -> Path:
    return path.with_name(f"{path.name}{_BACKUP}")


def _back_up(path: Path, data: bytes, mode: int) -> Path:
    """Copy a file's data next to it, replacing the previous copy."""
    backup = _copy_of(path)
    if _read(backup)[0] != data:
        write_atomically(backup, data)
    backup.chmod(mode)
    return backup
