"""What is to become of the files of all hosts on this machine: our server and hook, in or out."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from skillsearch.errors import ConfigError
from skillsearch.hosts.entries import HOSTS, Entry, hook_entry, server_entry
from skillsearch.hosts.files import FileChange, distrust, host_file, our_command, our_plugin


class HostPlan(NamedTuple):
    """What is to become of a host's file: the row to show, and the change if one is needed."""

    row: Mapping[str, str]
    entries: Sequence[Entry]
    change: FileChange | None = None
    note: str = ""

    @classmethod
    def of(cls, host: str, file: Path, entries: Sequence[Entry], here: Path) -> HostPlan:
        """Work it out; a host that has our plugin keeps no second server or hook.

        A note says what a host that does not trust the folder `here` leaves undone.
        """
        kinds = ", ".join("hook" if entry.is_hook else "server" for entry in entries)
        row = {"host": host, "entries": kinds, "file": str(file)}
        note = plugin = ""
        if entries[0].value is not None:
            plugin = our_plugin(host)
            note = f"{host} has the plugin {plugin}" if plugin else distrust(host, here)
        if plugin:
            entries = [entry._replace(value=None) for entry in entries]
        try:
            change = FileChange.plan(file, entries)
        except (ConfigError, OSError) as exc:
            return cls(row | {"state": "refused", "reason": str(exc)}, entries)
        if not change.is_needed:
            return cls(row | {"state": "plugin" if plugin else "unchanged"}, entries, note=note)
        state = "remove" if entries[0].value is None else "write"
        return cls(row | {"state": state}, entries, change, note)

    @property
    def is_open(self) -> bool:
        """Whether the file is not yet as it should be."""
        return self.change is not None or "reason" in self.row


def plan_hosts(
    index_dir: Path, here: Path, only: str | None = None, *, remove: bool = False
) -> Iterator[HostPlan]:
    """Work out the change of each file of each host on this machine.

    Args:
        index_dir: The index that server and hook are to ask.
        here: The folder that the user is in.
        only: ``server`` or ``hook``; else both.
        remove: Take our entries out.
    """
    for host in HOSTS:
        for file, entries in _files(host, index_dir, only, remove=remove).items():
            yield HostPlan.of(host, file, entries, here)


def _files(
    host: str, index_dir: Path, only: str | None, *, remove: bool
) -> dict[Path, list[Entry]]:
    """Return the files of a host with the change of each; none if it is not here."""
    has_hook = "hook" in HOSTS[host]
    folder = host_file(host, hook=has_hook).parent
    if not folder.is_dir() and shutil.which(HOSTS[host]["program"]) is None:
        return {}
    option = ["--index-dir", str(index_dir)]
    files: dict[Path, list[Entry]] = {}
    if only != "hook" and (remove or importlib.util.find_spec("mcp")):
        server = None if remove else [*our_command(), "mcp", *option]
        files.setdefault(host_file(host), []).append(server_entry(host, server))
    if only != "server" and has_hook:
        hook = None if remove else [*our_command(), "hook", "--client", host, *option]
        files.setdefault(host_file(host, hook=True), []).append(hook_entry(host, hook))
    return files
