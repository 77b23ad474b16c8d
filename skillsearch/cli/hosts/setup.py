"""``skillsearch setup``: index the skills and configure the hosts of this machine."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import click

from skillsearch.cli import options
from skillsearch.cli.app import agrees
from skillsearch.cli.hosts.mcp_config import make_change
from skillsearch.cli.index import ask_to_vouch, build_index, held_roots, show_folders
from skillsearch.cli.options import read_settings
from skillsearch.cli.output import emit_json, say, show_diagnostics, show_rows
from skillsearch.errors import ConfigError
from skillsearch.hosts.entries import HOSTS, Entry, hook_entry, server_entry
from skillsearch.hosts.files import Change, distrust, host_file, our_command, our_plugin
from skillsearch.index.roots.request import key_of
from skillsearch.index.roots.root_change import RootChange
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.roots.sources import shown, source_of
from skillsearch.settings.config import Settings, load_settings, user_index_dir
from skillsearch.settings.environ import install_extra
from skillsearch.text.safe_text import counted, listed

_KINDS = ("server", "hook")


@click.command("setup")
@options.yes
@click.option(
    "--only",
    type=options.Choice(_KINDS),
    metavar="KIND",
    help="Of each host, only its server or its hook.",
)
@click.option(
    "--remove",
    is_flag=True,
    help="Take our entries out of the files of all hosts; the index stays.",
)
@options.as_json(lambda m: {"roots": [str], "index_dir": str, "hosts": [m.HOST], "done": bool})
def setup_command(yes: bool, only: str | None, remove: bool, as_json: bool) -> int:
    """Index your skills and configure the hosts on this machine.

    Hosts are found by their folder or their program, and your skills, those of enabled plugins and
    of the project around this folder where hosts look for them; the index follows them from then
    on. It shows all it would do and asks; without a terminal it does nothing unless --yes is given,
    and exits with 1. Files of hosts are changed as by mcp-config --write. On a terminal it also
    asks, once, whether to learn from use; see "skillsearch usage". A host with our plugin needs
    neither server nor hook: they are taken out there.
    """
    settings = _settings_of_user()
    index_dir = settings.index_dir.absolute()
    change = RootChange(settings=settings, follows="hosts", folders=(Path.cwd(),))
    roots, is_new = ([], False) if remove else _roots_to_index(change, index_dir)
    plans = list(_plans(index_dir, only, remove=remove))
    if not as_json:
        _show_rows(roots, index_dir, plans)
    _explain(plans, remove=remove)
    is_open = is_new or any(plan.is_open for plan in plans)
    done = _agrees(yes, only, remove=remove, is_open=is_open, is_empty=not (plans or roots))
    if done and roots:
        _index(change, index_dir)
    outcomes = [plan.carry_out(done) for plan in plans]
    if as_json:
        emit_json({"roots": roots, "index_dir": str(index_dir), "hosts": outcomes, "done": done})
    elif done and not (yes or remove):
        from skillsearch.cli.usage import ask_for_usage

        ask_for_usage(settings)
    return _exit_code(outcomes, is_left=is_open and not done)


def _exit_code(outcomes: Sequence[Mapping[str, str]], *, is_left: bool) -> int:
    """Return 1 if a file was refused, or if nobody agreed to what was left to do."""
    return int(is_left or "refused" in map(itemgetter("state"), outcomes))


def _settings_of_user() -> Settings:
    """Return the settings, with the user's index if they name a project's."""
    settings = read_settings()
    is_project = settings.is_project_index
    return load_settings(index_dir=user_index_dir()) if is_project else settings


def _plans(index_dir: Path, only: str | None, *, remove: bool) -> Iterator[_Plan]:
    """Work out what is to become of each file of each host on this machine."""
    for client in HOSTS:
        for file, entries in _files(client, index_dir, only, remove=remove).items():
            yield _Plan.of(client, file, entries)


def _agrees(yes: bool, only: str | None, *, remove: bool, is_open: bool, is_empty: bool) -> bool:
    """Return whether to do what is shown; without ``--yes`` only if anything is open."""
    if is_empty:
        say("Neither hosts nor skills were found here; see skillsearch mcp-config --help")
        return yes
    if not (yes or is_open):
        say("There is nothing to change.")
        return False
    words = ["--yes", *(["--only", only] if only else ()), *(["--remove"] if remove else ())]
    return agrees(yes, f"Nothing was changed. To do this: skillsearch setup {' '.join(words)}")


def _show_rows(roots: Sequence[str], index_dir: Path, plans: Sequence[_Plan]) -> None:
    show_rows([("index", root, index_dir) for root in roots], ("", "skills", "index"))
    rows = [list(plan.row.values())[:4] for plan in plans]
    show_rows(rows, ("host", "entries", "file", "to do"))


def _explain(plans: Sequence[_Plan], *, remove: bool) -> None:
    for plan in plans:
        plan.explain()
    if not (remove or importlib.util.find_spec("mcp")):
        say(f"note: servers are left out, they need an extra: {install_extra('mcp')}")


def _roots_to_index(change: RootChange, index_dir: Path) -> tuple[list[str], bool]:
    """Return the roots that a change means, none if there are none, and if any of it is new."""
    from skillsearch.index.corpus import last_request

    roots: list[str] = []
    is_new = False
    with suppress(ConfigError):  # there is nothing to index
        held = last_request(IndexFolder(index_dir))
        named = change.named(held)
        roots = [shown(source_of(root)) for root in named]
        is_held = held is not None and held.follows in ("hosts", "named")
        is_all_held = is_held and held_roots(change.settings) >= set(map(key_of, named))
        is_new = bool(named) and not is_all_held
    return roots, is_new


def _index(change: RootChange, index_dir: Path) -> None:
    from skillsearch.reports.host_folders import report_folders

    before = held_roots(change.settings)
    index, report = build_index(change)
    show_diagnostics(report.diagnostics)
    roots = listed((root.origin or str(root.path) for root in index.opened.settings.roots), 10)
    say(f"{counted(report.indexed, 'skill')} in the index {index_dir}; roots: {roots}")
    show_folders(report_folders(index, Path.cwd(), before))
    ask_to_vouch(index, before)


def _files(
    client: str, index_dir: Path, only: str | None, *, remove: bool
) -> dict[Path, list[Entry]]:
    """Return the files of a host with what is to become of each; none if it is not here."""
    has_hook = "hook" in HOSTS[client]
    folder = host_file(client, hook=has_hook).parent
    if not folder.is_dir() and shutil.which(HOSTS[client]["program"]) is None:
        return {}
    option = ["--index-dir", str(index_dir)]
    files: dict[Path, list[Entry]] = {}
    if only != "hook" and (remove or importlib.util.find_spec("mcp")):
        server = None if remove else [*our_command(), "mcp", *option]
        files.setdefault(host_file(client), []).append(server_entry(client, server))
    if only != "server" and has_hook:
        hook = None if remove else [*our_command(), "hook", "--client", client, *option]
        files.setdefault(host_file(client, hook=True), []).append(hook_entry(client, hook))
    return files


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to become of a host's file: the row to show, and the change if one is needed."""

    row: Mapping[str, str]
    entries: Sequence[Entry]
    change: Change | None = None
    note: str = ""

    @classmethod
    def of(cls, client: str, file: Path, entries: Sequence[Entry]) -> _Plan:
        """Work it out; a host that has our plugin keeps no second server or hook."""
        kinds = ", ".join("hook" if entry.is_hook else "server" for entry in entries)
        row = {"client": client, "entries": kinds, "file": str(file)}
        note = plugin = ""
        if entries[0].value is not None:
            plugin = our_plugin(client)
            note = f"{client} has the plugin {plugin}" if plugin else distrust(client, Path.cwd())
        if plugin:
            entries = [entry._replace(value=None) for entry in entries]
        try:
            change = Change.plan(file, entries)
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

    def explain(self) -> None:
        """Show the change as a diff, or why there is none, and what else to know."""
        if self.change:
            click.echo(self.change.diff(), err=True)
        say(f"refused: {self.row['reason']}" if "reason" in self.row else "")
        say(f"note: {self.note}" if self.note else "")

    def carry_out(self, is_agreed: bool) -> Mapping[str, str]:
        """Make the change that was shown if the user agreed, and return what came of it."""
        try:
            if self.change is None or not is_agreed:
                return self.row
            make_change(self.change, self.entries)
        except (ConfigError, OSError) as exc:
            say(f"refused: {exc}")
            return {**self.row, "state": "refused", "reason": str(exc)}
        return {**self.row, "state": "changed"}
