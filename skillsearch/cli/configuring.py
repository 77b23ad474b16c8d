"""``skillsearch mcp-config``."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import click

from skillsearch.cli.host_configs import (
    CLIENTS,
    HOOK_CLIENTS,
    HostConfig,
    hook_config,
    server_config,
)
from skillsearch.cli.options import (
    Root,
    command,
    index_dir_option,
    languages_option,
    roots_argument,
)
from skillsearch.cli.output import say
from skillsearch.config import load_settings, no_index
from skillsearch.environ import install_extra
from skillsearch.mcp_server.session_tools import TOOLSETS
from skillsearch.text.safe_text import visible
from skillsearch.types import Languages


@command("mcp-config")
@click.argument("client", type=click.Choice(CLIENTS), metavar="CLIENT")
@roots_argument(must_be=True)
@index_dir_option
@languages_option
@click.option("--http", "url", metavar="URL", help="Of a server that runs: skillsearch mcp --http.")
@click.option("--toolset", type=click.Choice(TOOLSETS), help="Which tools the server offers.")
@click.option("--watch", is_flag=True, help="Have the server follow changes of the folders.")
@click.option("--allow-run", is_flag=True, help="Let the host run commands of skills.")
@click.option("--hook", is_flag=True, help="Ask skillsearch at every prompt, without a server.")
def mcp_config_command(
    client: str,
    roots: tuple[Root, ...],
    index_dir: Path | None,
    languages: Languages | None,
    url: str | None,
    toolset: str | None,
    watch: bool,
    allow_run: bool,
    hook: bool,
) -> None:
    """Print the configuration that makes an agent's host use the MCP server.

    CLIENT is claude-code, codex, gemini, vscode, opencode or goose. Nothing is written: stderr
    says where the text belongs. Without ROOT it names the index that is in use here and now, so
    that the host asks that one from any folder.
    """
    settings = load_settings(index_dir=index_dir)
    is_pinned = not url and (index_dir is not None or not roots)
    place = ["--index-dir", str(settings.index_dir.absolute())] if is_pinned else []
    options = ["--languages", languages] if languages else []
    options += [*(["--toolset", toolset] if toolset else []), *(["--watch"] if watch else [])]
    options += ["--allow-run"] if allow_run else []
    if options and (hook or url):
        raise click.UsageError(f"{options[0]} is for a server that the host starts itself.")
    if languages and not roots:
        raise click.UsageError("--languages is for a server that is given ROOTs to index.")
    if hook:
        config = _hook(client, roots, url, place)
    elif url:
        if roots or index_dir is not None:
            raise click.UsageError("With --http, ROOT and --index-dir are for the running server.")
        config = server_config(client, _checked(url))
    else:
        config = _server(client, [*map(str, roots), *place, *options])
    click.echo(config.text, nl=False)
    if is_pinned and not roots and not (settings.index_dir / "CURRENT").exists():
        say(f"note: {no_index(settings.index_dir.absolute(), settings)}")
    say(f"This belongs into {config.place}, merged with what is there.")
    if config.add_command:
        # Not by `say`, which would change blanks in a path.
        click.echo(f"Or run: {visible(config.add_command)}", err=True)


def _hook(client: str, roots: Sequence[Root], url: str | None, place: list[str]) -> HostConfig:
    """Return what a host needs to ask an index before every prompt."""
    if roots or url:
        raise click.UsageError(
            "A hook asks an index: make it with skillsearch index, and name it by --index-dir."
        )
    if client not in HOOK_CLIENTS:
        raise click.UsageError(
            f"{client} has no prompt hook that is known; those with one: "
            f"{', '.join(HOOK_CLIENTS)}. Use the server: skillsearch mcp-config {client}"
        )
    return hook_config(client, [*_program(), "hook", "--client", client, *place])


def _server(client: str, arguments: list[str]) -> HostConfig:
    """Return what a host needs to start the server itself."""
    config = server_config(client, [*_program(), "mcp", *arguments])
    if importlib.util.find_spec("mcp") is None:
        say(f"warning: the server needs an extra: {install_extra('mcp')}")
    return config


def _program() -> list[str]:
    """Return the command that a host runs us by from any folder."""
    found = shutil.which("skillsearch")
    return [str(Path(found).absolute())] if found else [sys.executable, "-P", "-m", "skillsearch"]


def _checked(url: str) -> str:
    """Return a URL that a host can connect to."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or not url.isprintable() or " " in url:
        raise click.BadParameter(
            f"{url!r} is no URL of a server; write it as http://127.0.0.1:8765/mcp",
            param_hint="--http",
        )
    return url
