"""``skillsearch setup`` and ``skillsearch mcp-config``."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click

from skillsearch.cli import app
from skillsearch.cli.app import Asked, agrees, command, flag, option, refuse
from skillsearch.cli.hook import forget_told
from skillsearch.cli.index import ask_to_vouch, held_roots, show_places
from skillsearch.cli.output import emit_json, progress_bars, say, show_diagnostics, show_rows
from skillsearch.cli.selecting import options, selecting
from skillsearch.config import load_settings, no_index, user_index_dir
from skillsearch.environ import install_extra
from skillsearch.errors import ConfigError
from skillsearch.hosts.entries import (
    HOOK_CLIENTS,
    HOSTS,
    NAME,
    Entry,
    add_command,
    hook_entry,
    server_entry,
)
from skillsearch.hosts.files import Change, distrust, host_file, our_command, our_plugin
from skillsearch.hosts.places import has_places
from skillsearch.index.request import key_of
from skillsearch.index.root_change import RootChange
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.mcp_server.session_tools import TOOLSETS
from skillsearch.roots.sources import shown, source_of
from skillsearch.text.safe_text import counted, listed, visible
from skillsearch.types import JsonValue

_KINDS = ("server", "hook")
_ON_PATH = (
    "note: whoever uses it needs skillsearch on the PATH, by: pipx install path/to/skillsearch"
)


@command("setup")
@flag("--yes", "Do it without asking.")
@option("--only KIND", "Of each host, only its server or its hook.", type=app.Choice(_KINDS))
@flag("--remove", "Take our entries out of the files of all hosts; the index stays.")
@app.as_json
def setup_command(asked: Asked) -> int:
    """Index your skills and configure the hosts on this machine.

    Hosts are found by their folder or their program, and your skills, those of enabled plugins and
    of the project around this folder where hosts look for them; the index follows them from then
    on. It shows all
    it would do and asks; without a terminal it does nothing unless --yes is given. Files of hosts
    are changed as by mcp-config --write. A host with our plugin needs neither server nor hook: they
    are taken out there.
    """
    from skillsearch.index.corpus import last_request

    settings = asked.settings
    if settings.is_project_index:
        settings = load_settings(index_dir=user_index_dir())
    index_dir, change = settings.index_dir.absolute(), None
    roots: list[str] = []
    is_new = False
    if not asked.remove:
        change = RootChange(settings=settings, follows="hosts", folders=(Path.cwd(),))
        with suppress(ConfigError):  # there is nothing to index
            held = last_request(IndexFolder(index_dir))
            named = change.named(held)
            roots = [shown(source_of(root)) for root in named]
            is_held = held is not None and held.follows in ("hosts", "named")
            is_new = not (is_held and held_roots(settings) >= set(map(key_of, named)))
    hosts = [
        _Planned.of(client, *part) for client in HOSTS for part in _files(client, index_dir, asked)
    ]
    if not asked.as_json:
        show_rows([("index", root, index_dir) for root in roots], ("", "skills", "index"))
        rows = [list(host.row.values())[:4] for host in hosts]
        show_rows(rows, ("host", "entries", "file", "to do"))
    for host in hosts:
        host.tell()
    if not (asked.remove or importlib.util.find_spec("mcp")):
        say(f"note: servers are left out, they need an extra: {install_extra('mcp')}")
    if is_new or asked.yes * bool(hosts or roots) or any(host.is_open for host in hosts):
        done = _agrees(asked)
    elif hosts or roots:
        done = False
        say("Nothing is to be done: all of this is so already.")
    else:
        done = asked.yes
        say("Neither hosts nor skills were found here; see skillsearch mcp-config --help")
    if done and roots and change:
        _index(change, index_dir)
    outcomes = [host.done() if done else host.row for host in hosts]
    if asked.as_json:
        place = {"roots": roots, "index_dir": str(index_dir)}
        emit_json({**place, "hosts": outcomes, "done": done})
    return int(any(row["state"] == "refused" for row in outcomes))


def _agrees(asked: Asked) -> bool:
    """Return whether it may be done: asked on a terminal, else by ``--yes``."""
    only = f" --only {asked.only}" if asked.only else ""
    remove = " --remove" * asked.remove
    otherwise = f"Nothing was changed. To do this: skillsearch setup --yes{only}{remove}"
    return agrees(asked.yes, otherwise)


def _index(change: RootChange, index_dir: Path) -> None:
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.reports.places import report_places

    before = held_roots(change.settings)
    with progress_bars() as bars:
        index, report = SkillIndex.build(change, index_dir, progress=bars)
    forget_told(index_dir)
    show_diagnostics(report.diagnostics)
    roots = listed((root.origin or str(root.path) for root in index.opened.settings.roots), 10)
    say(f"{counted(report.indexed, 'skill')} in the index {index_dir}; roots: {roots}")
    show_places(report_places(index, Path.cwd(), before))
    ask_to_vouch(index, before)


def _files(client: str, index_dir: Path, asked: Asked) -> list[tuple[Path, list[Entry]]]:
    """Return the files of a host with what is to become of each; none if it is not here."""
    has_hook = "hook" in HOSTS[client]
    folder = host_file(client, hook=has_hook).parent
    if not folder.is_dir() and shutil.which(HOSTS[client]["program"]) is None:
        return []
    place = ["--index-dir", str(index_dir)]
    files: dict[Path, list[Entry]] = {}
    if asked.only != "hook" and (asked.remove or importlib.util.find_spec("mcp")):
        server = None if asked.remove else [*our_command(), "mcp", *place]
        files.setdefault(host_file(client), []).append(server_entry(client, server))
    if asked.only != "server" and has_hook:
        asks = None if asked.remove else [*our_command(), "hook", "--client", client, *place]
        files.setdefault(host_file(client, hook=True), []).append(hook_entry(client, asks))
    return list(files.items())


@dataclass(frozen=True, slots=True)
class _Planned:
    """What is to become of a host's file: the row to show, and the change if one is needed."""

    row: dict[str, JsonValue]
    entries: Sequence[Entry]
    change: Change | None = None
    note: str = ""

    @classmethod
    def of(cls, client: str, file: Path, entries: Sequence[Entry]) -> _Planned:
        """Work it out; a host that has our plugin keeps no second server or hook."""
        kinds = ", ".join("hook" if entry.is_hook else "server" for entry in entries)
        row: dict[str, JsonValue] = {"client": client, "entries": kinds, "file": str(file)}
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

    def tell(self) -> None:
        """Show the change as a diff, or why there is none, and what else to know."""
        if self.change:
            click.echo(self.change.diff(), err=True)
        say(f"refused: {self.row['reason']}" if "reason" in self.row else "")
        say(f"note: {self.note}" if self.note else "")

    def done(self) -> dict[str, JsonValue]:
        """Make the change that was shown, and return what came of it."""
        try:
            if self.change is None:
                return self.row
            _make(self.change, self.entries)
        except (ConfigError, OSError) as exc:
            say(f"refused: {exc}")
            return self.row | {"state": "refused", "reason": str(exc)}
        return self.row | {"state": "changed"}


def _check_url(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    if not url:
        return None
    with suppress(ValueError):
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        if is_usable and url.isprintable() and " " not in url:
            return url
    raise click.BadParameter(
        f"{url!r} is not the URL of a server; write it as http://127.0.0.1:8765/mcp"
    )


@command("mcp-config")
@click.argument("client", type=app.Choice(tuple(HOSTS)), metavar="CLIENT")
@app.roots(must_exist=True)
@app.index_dir
@app.languages
@app.trust
@selecting
@option(
    "--http url URL", "URL of a running server: see skillsearch mcp --http.", callback=_check_url
)
@option("--toolset", "Which tools the server offers.", type=click.Choice(TOOLSETS))
@flag("--watch", "Let the server follow changes of the folders.")
@flag("--allow-run", "Let the host run commands of skills.")
@flag("--hook", "Ask skillsearch at every prompt, without a server.")
@flag("--include-unvetted", "With --hook: offer skills that nobody vouches for too.")
@flag("--write", "Put it into the host's file; show what changes and keep a copy.")
@flag("--remove", "Take our server, or with --hook our hook, out of that file.")
@flag("--project", "Mean the file of the project in this folder, not the user's.")
def mcp_config_command(asked: Asked) -> None:
    """Configure a host for the MCP server, or print how.

    CLIENT is {}. Without
    --write or --remove nothing is written: stderr says which file the text belongs in. Without
    ROOT it names the index in use here and now, so that the host asks that one from any folder.

    With --project the entry names no folder of this machine, so that it can be committed: it serves
    the skills of whoever starts it, and those of the project.

    --write and --remove change our entry in that file and keep every other byte of it. What was
    there stays beside it, as FILE.skillsearch.bak. A file that cannot be edited without risk is
    left alone.
    """
    given, client = _server_options(asked), asked.client
    _check(asked, given)
    make = hook_entry if asked.hook else server_entry
    if asked.remove:
        _change(make(client, None), asked)
        return
    index_dir, settings = asked.flags["index_dir"], asked.settings
    is_pinned = not asked.url and (index_dir is not None or not (asked.roots or asked.project))
    place = ["--index-dir", _named(settings.index_dir.absolute(), asked)] if is_pinned else []
    unvetted = ["--include-unvetted"] * asked.include_unvetted
    roots = [_named(root, asked) for root in asked.roots]
    kind = ["hook", "--client", client] if asked.hook else ["mcp", *roots]
    program = [NAME] if asked.project else our_command()
    server = asked.url or [*program, *kind, *place, *given, *unvetted]
    entry = make(client, server)
    if not (asked.hook or asked.url or importlib.util.find_spec("mcp")):
        say(f"warning: the server needs an extra: {install_extra('mcp')}")
    if is_pinned and not asked.roots and not (settings.index_dir / "CURRENT").exists():
        folder, is_somewhere = settings.index_dir.absolute(), has_places(Path.cwd())
        say(f"note: {no_index(folder, settings, has_places=is_somewhere)}")
    if asked.write:
        _change(entry, asked)
        return
    file = host_file(client, hook=asked.hook, project=asked.project)
    click.echo(entry.text, nl=False)
    say(f"This belongs in {file}, merged with what is there; --write does that.")
    say(_ON_PATH if asked.project and not asked.url else "")
    is_addable = not (asked.hook or asked.project)
    if adding := is_addable and add_command(client, server):
        # Not by `say`, which would change blanks in a path.
        click.echo(f"Or run: {visible(adding)}", err=True)


*_before, _last = HOSTS
mcp_config_command.help = str(mcp_config_command.help).format(f"{', '.join(_before)} or {_last}")


def _named(root: Path | str, asked: Asked) -> str:
    """Return a folder as a host's file names it: in that of a project, below the project."""
    if not asked.project or isinstance(root, str):
        return str(root)
    here = Path.cwd()
    if root.is_relative_to(here):
        return f"./{root.relative_to(here)}"
    raise ConfigError(
        f"{root} lies outside of {here}, so a colleague does not have it. Leave it out: the server "
        "offers the skills of its user and of the project; or leave out --project."
    )


def _change(entry: Entry, asked: Asked) -> None:
    """Put an entry into a host's file or take it out; if that fails, print what to paste."""
    file = host_file(entry.client, hook=asked.hook, project=asked.project)
    try:
        change = Change.plan(file, [entry], Path.cwd() if asked.project else None)
        if not change.is_needed:
            say(f"Nothing to change: {file} {'has' if asked.write else 'does not have'} it.")
            return
        click.echo(change.diff(), err=True)
        _make(change, [entry])
    except (ConfigError, OSError):
        if asked.write:
            click.echo(entry.text, nl=False)
        raise


def _make(change: Change, entries: Sequence[Entry]) -> None:
    """Make a change of a host's file, and say how to see that it works."""
    backup = change.write()
    say(f"Changed {change.path}" + (f"; what was there is in {backup}" if backup else ""))
    for client in {e.client for e in entries if e.value is not None and not e.is_hook}:
        say(f"See whether it answers: {HOSTS[client]['list']}" if "list" in HOSTS[client] else "")


def _server_options(asked: Asked) -> list[str]:
    """Return the options of a server that the host starts."""
    languages = asked.flags["languages"]
    trust = asked.settings.trust if asked.flags["trust"] else ()  # its folders are absolute
    given = ["--languages", languages] if languages else []
    given += [part for item in trust for part in ("--trust", item)]
    given += options(asked.flags)
    given += ["--toolset", asked.toolset] if asked.toolset else []
    return given + ["--watch"] * asked.watch + ["--allow-run"] * asked.allow_run


def _check(asked: Asked, given: Sequence[str]) -> None:
    """Refuse options that do not go together; those `given` are for a server."""
    client, has_index_dir = asked.client, asked.flags["index_dir"] is not None
    refuse(asked.write and asked.remove, "--write or --remove, not both.")
    place = asked.roots or asked.url or has_index_dir
    refuse(
        asked.remove and (given or place or asked.include_unvetted),
        "--remove takes our entry out, whatever it holds; leave out what a server is to do.",
    )
    refuse(asked.include_unvetted and not asked.hook, "--include-unvetted is for --hook.")
    is_no_start = given and (asked.hook or asked.url)
    refuse(is_no_start, f"{''.join(given[:1])} is for a server that the host starts itself.")
    refuse(
        (asked.flags["languages"] or asked.flags["trust"]) and not asked.roots,
        "--languages and --trust are for a server that is given ROOTs to index.",
    )
    refuse(
        asked.hook and (asked.roots or asked.url),
        "A hook asks an index: make it with skillsearch index, and name it by --index-dir.",
    )
    refuse(
        asked.hook and client not in HOOK_CLIENTS,
        f"{client} has no known prompt hook; hosts with one: {', '.join(HOOK_CLIENTS)}. Use the "
        f"server: skillsearch mcp-config {client}",
    )
    refuse(
        asked.url and (asked.roots or has_index_dir),
        "With --http, ROOT and --index-dir are for the running server.",
    )
