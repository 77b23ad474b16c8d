"""``skillsearch mcp`` and ``skillsearch mcp-config``."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from skillsearch.cli.host_configs import (
    CLIENTS,
    HOOK_CLIENTS,
    HostConfig,
    hook_config,
    server_config,
)
from skillsearch.cli.interrupts import INTERRUPTED
from skillsearch.cli.options import (
    Flags,
    Root,
    command,
    index_dir_option,
    languages_option,
    roots_argument,
)
from skillsearch.cli.output import say
from skillsearch.config import cache_dir, load_settings, mcp_token, no_index
from skillsearch.environ import install_extra
from skillsearch.errors import ConfigError, MissingDependencyError, SkillSearchError
from skillsearch.execution.executors import EXECUTORS
from skillsearch.mcp_server.session_tools import TOOLSETS, SessionTools
from skillsearch.text.safe_text import visible

if TYPE_CHECKING:
    from typing import NoReturn

    import anyio

    from skillsearch.config import Settings
    from skillsearch.execution.runner import SkillRunner
    from skillsearch.mcp_server.listening import Listener
    from skillsearch.mcp_server.served_library import ServedLibrary

logger = logging.getLogger(__name__)


@command("mcp")
@roots_argument()
@index_dir_option
@languages_option
@click.option("--http", "address", metavar="HOST:PORT", help="Serve over HTTP instead of stdio.")
@click.option("--toolset", type=click.Choice(TOOLSETS), default="default", help="Which tools.")
@click.option("--watch", is_flag=True, help="Follow changes of the folders; needs watchfiles.")
@click.option(
    "--allow-run",
    is_flag=True,
    help="Let clients run commands of skills, each in a workspace of its session.",
)
@click.option(
    "--executor",
    type=click.Choice(EXECUTORS),
    help="What runs them with --allow-run. [default: auto, the safest that works here]",
)
@click.option("--allow-remote", is_flag=True, help="Let other machines reach --http.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the token that clients of --http need. [default: SKILLSEARCH_MCP_TOKEN]",
)
def mcp_command(
    flags: Flags,
    roots: tuple[Root, ...],
    address: str | None,
    toolset: str,
    watch: bool,
    allow_run: bool,
    executor: str | None,
    allow_remote: bool,
    token_file: Path | None,
) -> None:
    """Serve search and skills to agents over MCP.

    MCP is the Model Context Protocol. Serves the skills below the ROOTs, or else those of the
    index. Over stdio it ends with its client. A server without skills starts too: its tools say
    what to do.
    """
    languages, index_dir = flags["languages"], flags["index_dir"]
    if address is None and (allow_remote or token_file):
        raise click.UsageError("--allow-remote and --token-file are for a server with --http.")
    if executor and not allow_run:
        raise click.UsageError("--executor is for a server with --allow-run.")
    if languages and not roots:
        raise click.UsageError(
            "--languages is for a server with ROOTs; an existing index keeps its languages. To "
            f"change them: skillsearch index --languages {languages}"
        )
    _require(watch=watch, multilingual=languages == "all")
    from skillsearch.mcp_server.served_library import ServedLibrary

    settings = load_settings(**flags)
    if roots and index_dir is not None:
        _check_same_roots(roots, index_dir.absolute())
    served = ServedLibrary(roots, settings, index_dir)
    runner = _runner(executor or "auto", settings) if allow_run else None
    offers = SessionTools(toolset, served, runner)
    listener = None
    if address is not None:
        listener = _listen(address, token_file, allow_remote=allow_remote, needs_token=allow_run)
    with runner or nullcontext():
        code = _serve(served, offers, listener, watch=watch)
    _leave(code)


def _require(*, watch: bool, multilingual: bool) -> None:
    """Check for the libraries the server needs before doing any work."""
    if importlib.util.find_spec("mcp") is None:
        raise MissingDependencyError("mcp", "mcp", "The MCP server")
    if watch:
        from skillsearch.library.watcher import require_watchfiles

        require_watchfiles()
    if multilingual:
        from skillsearch.embedders.multilingual.source import require_weights

        require_weights()


def _check_same_roots(roots: Sequence[Root], folder: Path) -> None:
    """Refuse to replace the roots of an existing index."""
    from skillsearch.index.request import IndexRequest, join_roots

    request = IndexRequest.load(folder)
    held = request.named if request else ()
    if len(join_roots(roots, held)) > len(join_roots(roots)):
        raise ConfigError(
            f"The index in {folder} holds other folders, which these would replace. Leave out "
            "--index-dir to serve these from a separate index, or ROOT to serve that index."
        )


def _runner(executor: str, settings: Settings) -> SkillRunner:
    """Return what runs commands of skills, and log what it does not isolate them from."""
    from skillsearch.execution.artifacts import FolderArtifacts
    from skillsearch.execution.commands import CommandPolicy
    from skillsearch.execution.executors import select_executor
    from skillsearch.execution.runner import SkillRunner

    chosen = select_executor(executor)
    for sentence in chosen.capabilities().not_isolated:
        logger.info("Commands run by the executor %s: %s", chosen.name, sentence)
    return SkillRunner(
        chosen,
        artifacts=FolderArtifacts(cache_dir() / "artifacts"),
        policy=CommandPolicy(settings.allowed_commands, settings.denied_commands),
    )


def _listen(
    address: str, token_file: Path | None, *, allow_remote: bool, needs_token: bool
) -> Listener:
    """Listen on an address, and print its URL."""
    from skillsearch.mcp_server.listening import Address, listen

    token = mcp_token(token_file)
    if needs_token and not token:
        raise ConfigError(
            "With --allow-run and --http every user of this machine could run commands as you, so"
            " clients need a token: name a file that holds it with --token-file, or set"
            " SKILLSEARCH_MCP_TOKEN"
        )
    listener = listen(Address.parse(address), token=token, allow_remote=allow_remote)
    say(f"Serving skills at {listener.url}" + (" to clients with the token" if token else ""))
    return listener


def _serve(
    served: ServedLibrary, offers: SessionTools, listener: Listener | None, *, watch: bool
) -> int:
    """Serve until the end, and return the exit code."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: _leave(0))
    signal.signal(signal.SIGINT, lambda _number, _frame: _leave(INTERRUPTED))
    from skillsearch.mcp_server.listening import run_server, take_streams
    from skillsearch.mcp_server.served_library import LibraryThread, LibraryWatch

    streams = take_streams() if listener is None else None
    desk = LibraryThread()
    desk.submit(_warm, served)  # while the libraries of the server are imported
    try:
        from skillsearch.mcp_server.server import SkillServer
    except ImportError as exc:  # an older mcp
        raise MissingDependencyError("mcp 2.3", "mcp", "The MCP server") from exc
    server = SkillServer(desk, served, offers, tells_changes=watch)

    async def serve(stop: anyio.Event) -> None:
        """Serve over HTTP or stdio."""
        follow = LibraryWatch(desk, served, server.tell_changed) if watch else nullcontext()
        with follow:
            if listener is not None:
                from skillsearch.mcp_server.http import serve_http

                await serve_http(server, listener, stop)
            elif streams is not None:
                from skillsearch.mcp_server.stdio import serve_stdio

                await serve_stdio(server, *streams, stop)

    try:
        return run_server(serve)
    except Exception as exc:  # noqa: BLE001 - raised further, it would wait for the stdin reader
        say(f"Error: This is a bug in skillsearch, please report it: {exc!r}")
        return 1


def _warm(served: ServedLibrary) -> None:
    """Open the library and make its first search fast; log it if that fails."""
    try:
        served.warm()
    except SkillSearchError as exc:
        logger.warning("%s", exc)


def _leave(code: int) -> NoReturn:
    """End the process at once, without waiting for threads that read stdin or index skills."""
    sys.stderr.flush()
    os._exit(code)


@command("mcp-config")
@click.argument("client", type=click.Choice(CLIENTS), metavar="CLIENT")
@roots_argument(must_exist=True)
@index_dir_option
@languages_option
@click.option(
    "--http", "url", metavar="URL", help="URL of a running server: see skillsearch mcp --http."
)
@click.option("--toolset", type=click.Choice(TOOLSETS), help="Which tools the server offers.")
@click.option("--watch", is_flag=True, help="Let the server follow changes of the folders.")
@click.option("--allow-run", is_flag=True, help="Let the host run commands of skills.")
@click.option("--hook", is_flag=True, help="Ask skillsearch at every prompt, without a server.")
def mcp_config_command(
    flags: Flags,
    client: str,
    roots: tuple[Root, ...],
    url: str | None,
    toolset: str | None,
    watch: bool,
    allow_run: bool,
    hook: bool,
) -> None:
    """Print how to configure a host for the MCP server.

    CLIENT is claude-code, codex, gemini, vscode, opencode or goose. Nothing is written: stderr says
    which file the text belongs in. Without ROOT it names the index in use here and now, so that
    the host asks that one from any folder.
    """
    languages, index_dir = flags["languages"], flags["index_dir"]
    settings = load_settings(index_dir=index_dir)
    is_pinned = not url and (index_dir is not None or not roots)
    place = ["--index-dir", str(settings.index_dir.absolute())] if is_pinned else []
    options = ["--languages", languages] if languages else []
    options += ["--toolset", toolset] if toolset else []
    options += ["--watch"] * watch + ["--allow-run"] * allow_run
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
    say(f"This belongs in {config.place}, merged with what is there.")
    if config.add_command:
        # Not by `say`, which would change blanks in a path.
        click.echo(f"Or run: {visible(config.add_command)}", err=True)


def _hook(client: str, roots: Sequence[Root], url: str | None, place: list[str]) -> HostConfig:
    """Return the configuration with which a host asks an index before every prompt."""
    if roots or url:
        raise click.UsageError(
            "A hook asks an index: make it with skillsearch index, and name it by --index-dir."
        )
    if client not in HOOK_CLIENTS:
        raise click.UsageError(
            f"{client} has no known prompt hook; hosts with one: {', '.join(HOOK_CLIENTS)}. Use "
            f"the server: skillsearch mcp-config {client}"
        )
    return hook_config(client, [*_program(), "hook", "--client", client, *place])


def _server(client: str, arguments: list[str]) -> HostConfig:
    """Return the configuration with which a host starts the server itself."""
    config = server_config(client, [*_program(), "mcp", *arguments])
    if importlib.util.find_spec("mcp") is None:
        say(f"warning: the server needs an extra: {install_extra('mcp')}")
    return config


def _program() -> list[str]:
    """Return the command that runs us from any folder."""
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
            f"{url!r} is not the URL of a server; write it as http://127.0.0.1:8765/mcp",
            param_hint="--http",
        )
    return url
