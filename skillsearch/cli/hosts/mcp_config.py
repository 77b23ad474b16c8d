"""``skillsearch mcp-config``: configure one host."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click

from skillsearch.cli import options
from skillsearch.cli.app import refuse
from skillsearch.cli.options import NamedRoot, read_flags, read_settings, selecting_words
from skillsearch.cli.output import say
from skillsearch.errors import ConfigError, StorageError
from skillsearch.hosts.entries import (
    HOOK_HOSTS,
    HOSTS,
    NAME,
    Entry,
    add_command,
    hook_entry,
    server_entry,
)
from skillsearch.hosts.files import FileChange, host_file, our_command
from skillsearch.index.next_steps import no_index
from skillsearch.mcp_server.session_tools import TOOLSETS
from skillsearch.settings.environ import install_extra
from skillsearch.settings.table import Flags, Settings
from skillsearch.text.safe_text import visible

_ON_PATH = (
    "note: others need skillsearch on the PATH to use it, by: pipx install 'path/to/skillsearch{}'"
)
_REMOVAL = "--remove takes our entry out, whatever it holds; leave out what a server is to do."


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


@click.command("mcp-config")
@click.argument("host", type=options.Choice(tuple(HOSTS)), metavar="HOST")
@options.roots(must_exist=True)
@options.index_dir
@options.trust
@options.selecting
@click.option(
    "--http",
    "url",
    callback=_check_url,
    metavar="URL",
    help="URL of a running server: see skillsearch mcp --http.",
)
@click.option("--toolset", type=click.Choice(TOOLSETS), help="Which tools the server offers.")
@click.option("--watch", is_flag=True, help="Let the server follow changes of the folders.")
@click.option("--allow-run", is_flag=True, help="Let the host run commands of skills.")
@click.option("--hook", is_flag=True, help="Ask skillsearch at every prompt, without a server.")
@click.option(
    "--include-unvetted",
    is_flag=True,
    help="With --hook: offer skills that nobody vouches for too.",
)
@click.option(
    "--write", is_flag=True, help="Put it into the host's file; show the changes and keep a copy."
)
@click.option(
    "--remove", is_flag=True, help="Take our server, or with --hook our hook, out of that file."
)
@click.option("--project", is_flag=True, help="Change the project's file instead of yours.")
def mcp_config_command(
    host: str,
    roots: tuple[NamedRoot, ...],
    url: str | None,
    toolset: str | None,
    watch: bool,
    allow_run: bool,
    hook: bool,
    include_unvetted: bool,
    write: bool,
    remove: bool,
    project: bool,
) -> None:
    """Configure a host for the MCP server, or print how.

    HOST is {}. Without
    --write or --remove nothing is written: stderr says which file the text belongs in. Without
    ROOT it names the index in use here and now, so that the host asks that one from any folder.

    With --project the entry names no folder of this machine, so that it can be committed: it serves
    the skills of the user who starts it, and those of the project.

    --write and --remove change our entry in that file and keep every other byte of it. What was
    there stays beside it, as FILE.skillsearch.bak, until --remove, which leaves no file that we
    made. A file that cannot be edited without risk is left alone.
    """
    flags = read_flags()
    config = _Config(
        host,
        roots,
        url,
        _server_options(flags, toolset, watch=watch, allow_run=allow_run),
        hook,
        include_unvetted,
        project,
        flags,
    )
    config.check(write=write, remove=remove)
    if remove:
        _change(config.entry(None), config.file, project=project)
        return
    settings = read_settings()
    server = config.server(settings)
    entry = config.entry(server)
    config.warn(settings)
    if write:
        _change(entry, config.file, project=project)
    else:
        click.echo(entry.text, nl=False)
        say(f"This belongs in {config.file}, merged with what is there; --write does that.")
    config.explain(server, is_written=write)


*_before, _last = HOSTS
mcp_config_command.help = str(mcp_config_command.help).format(f"{', '.join(_before)} or {_last}")


@dataclass(frozen=True, slots=True)
class _Config:
    """What a host is to use: a server that it starts or reaches, or our hook."""

    host: str
    roots: tuple[NamedRoot, ...]
    url: str | None
    server_options: tuple[str, ...]
    hook: bool
    include_unvetted: bool
    project: bool
    flags: Flags

    @property
    def has_index_dir(self) -> bool:
        """Whether the command line names an index."""
        return self.flags["index_dir"] is not None

    @property
    def names_index(self) -> bool:
        """Whether the command names the index that is in use here and now."""
        is_anywhere = not (self.roots or self.project)
        return not self.url and (self.has_index_dir or is_anywhere)

    @property
    def file(self) -> Path:
        """The file of the host that our entry belongs in."""
        return host_file(self.host, hook=self.hook, project=self.project)

    def entry(self, server: str | list[str] | None) -> Entry:
        """Return our entry in that file for a server or hook, or for none."""
        make = hook_entry if self.hook else server_entry
        return make(self.host, server)

    def check(self, *, write: bool, remove: bool) -> None:
        """Refuse options that do not go together."""
        refuse(write and remove, "--write or --remove, not both.")
        wanted = (self.server_options, self.roots, self.url, self.include_unvetted)
        refuse(remove and (any(wanted) or self.has_index_dir), _REMOVAL)
        refuse(self.include_unvetted and not self.hook, "--include-unvetted is for --hook.")
        refuse(
            self.server_options and (self.hook or self.url),
            f"{''.join(self.server_options[:1])} is for a server that the host starts itself.",
        )
        refuse(
            self.flags["trust"] and not self.roots,
            "--trust is for a server that is given ROOTs to index.",
        )
        if self.hook:
            self._check_hook()
        refuse(
            self.url and (self.roots or self.has_index_dir),
            "With --http, ROOT and --index-dir are for the running server.",
        )

    def _check_hook(self) -> None:
        """Refuse what a hook cannot ask, and a host that has none."""
        refuse(
            self.roots or self.url,
            "A hook asks an index: make it with skillsearch index, and name it by --index-dir.",
        )
        refuse(
            self.host not in HOOK_HOSTS,
            f"{self.host} has no known prompt hook; hosts with one: {', '.join(HOOK_HOSTS)}. "
            f"Use the server: skillsearch mcp-config {self.host}",
        )

    def server(self, settings: Settings) -> str | list[str]:
        """Return the URL of the server, or the command that the host runs."""
        if self.url:
            return self.url
        index_dir = settings.index_dir.absolute()
        here = Path.cwd() if self.project else None
        words = ["--index-dir", _named(index_dir, here)] if self.names_index else []
        words += [*self.server_options, *["--include-unvetted"] * self.include_unvetted]
        roots = [_named(root, here) for root in self.roots]
        subcommand = ["hook", "--client", self.host] if self.hook else ["mcp", *roots]
        program = [NAME] if self.project else our_command()
        return [*program, *subcommand, *words]

    def explain(self, server: str | list[str], *, is_written: bool) -> None:
        """Name other needs of a colleague, or the command by which the host adds the entry."""
        if self.project and not self.url:
            say(_ON_PATH.format("" if self.hook else "[mcp]"))
        if is_written or self.hook or self.project:
            return
        if adding := add_command(self.host, server):
            # Not by `say`, which would change blanks in a path.
            click.echo(f"Or run: {visible(adding)}", err=True)

    def warn(self, settings: Settings) -> None:
        """Warn of anything that the server or hook will lack."""
        index_dir = settings.index_dir
        if not (self.hook or self.url or importlib.util.find_spec("mcp")):
            say(f"warning: the server needs an extra: {install_extra('mcp')}")
        if self.names_index and not (self.roots or (index_dir / "CURRENT").exists()):
            say(f"note: {no_index(index_dir.absolute(), settings)}")


def _server_options(
    flags: Flags, toolset: str | None, *, watch: bool, allow_run: bool
) -> tuple[str, ...]:
    """Return the options of a server that say the same as those of this command."""
    trust = read_settings().trust if flags["trust"] else ()  # its folders are absolute
    words = [word for level in trust for word in ("--trust", level)]
    words += [*selecting_words(flags), *(("--toolset", toolset) if toolset else ())]
    return (*words, *["--watch"] * watch, *["--allow-run"] * allow_run)


def _named(root: NamedRoot, project: Path | None) -> str:
    """Return a folder as a host's file names it: in that of a project, below the project."""
    if project is None or isinstance(root, str):
        return str(root)
    if root.is_relative_to(project):
        return f"./{root.relative_to(project)}"
    raise ConfigError(
        f"{root} lies outside of {project}, so a colleague does not have it. Leave it out: the "
        "server offers the skills of its user and of the project; or leave out --project."
    )


def _change(entry: Entry, file: Path, *, project: bool) -> None:
    """Put an entry into a host's file or take it out; if that fails, print the text to paste."""
    writes = entry.value is not None
    try:
        change = FileChange.plan(file, [entry], Path.cwd() if project else None)
        if not change.is_needed:
            say(f"Nothing to change: {file} {'has' if writes else 'does not have'} it.")
            return
        click.echo(change.diff(), err=True)
        make_change(change, [entry])
    except (ConfigError, StorageError, OSError):
        if writes:
            click.echo(entry.text, nl=False)
        raise


def make_change(change: FileChange, entries: Sequence[Entry]) -> None:
    """Make a change of a host's file, and say how to see that it works."""
    backup = change.write()
    say(f"Changed {change.path}" + (f"; what was there is in {backup}" if backup else ""))
    for host in {e.host for e in entries if e.value is not None and not e.is_hook}:
        say(f"See whether it answers: {HOSTS[host]['list']}" if "list" in HOSTS[host] else "")
