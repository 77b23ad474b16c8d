"""``skillsearch mcp``: serve search and skills to agents."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from skillsearch.cli import options
from skillsearch.cli.app import refuse
from skillsearch.cli.options import LOGGER, NamedRoot, is_interactive, read_flags, read_settings
from skillsearch.cli.output import say
from skillsearch.errors import (
    ConfigError,
    MissingDependencyError,
    SkillSearchError,
    answered,
    require_installed,
)
from skillsearch.execution.executors import executor_names, select_executor
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.workspaces.artifacts import FolderArtifacts
from skillsearch.library.watcher import require_watchfiles
from skillsearch.mcp_server.session_tools import TOOLSETS, SessionTools
from skillsearch.mcp_server.token_file import mcp_token
from skillsearch.settings.environ import INTERRUPTED
from skillsearch.settings.user_folders import cache_dir
from skillsearch.system_errors import unexpected
from skillsearch.text.provenance import VOUCH

if TYPE_CHECKING:
    import anyio

    from skillsearch.mcp_server.listening import Listener
    from skillsearch.mcp_server.served_library import ServedLibrary


_WAITS = "Waiting for a client on stdin; to have a host start this: skillsearch mcp-config HOST"
_FOR_HTTP = "--allow-remote and --token-file are for a server with --http."


@click.command("mcp")
@options.roots()
@options.index_dir
@options.trust
@options.reader
@options.selecting
@click.option("--http", "address", metavar="HOST:PORT", help="Serve over HTTP instead of stdio.")
@click.option("--toolset", type=click.Choice(TOOLSETS), default="default", help="Which tools.")
@click.option(
    "--watch", is_flag=True, help="Tell clients of changes as they come; needs watchfiles."
)
@click.option(
    "--allow-run",
    is_flag=True,
    help="Let clients run commands of skills, each in a workspace of its session.",
)
@click.option(
    "--executor",
    type=click.Choice(executor_names()),
    help="Executor of --allow-run. [default: auto, the safest that works here]",
)
@click.option("--allow-remote", is_flag=True, help="Let other machines reach --http.")
@click.option(
    "--token-file",
    type=options.NamedPath(path_type=Path),
    metavar="FILE",
    help="File with the token that clients of --http need. [default: SKILLSEARCH_MCP_TOKEN]",
)
def mcp_command(
    roots: tuple[NamedRoot, ...],
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
    index, as they are on disk when a client calls. With ROOTs and --index-dir, those of the index
    too: the ROOTs are added to it. Over stdio it ends with its client. A server
    without skills starts too: its tools say what to do.
    """
    is_for_http = bool(allow_remote or token_file)
    refuse(address is None and is_for_http, _FOR_HTTP)
    refuse(executor and not allow_run, "--executor is for a server with --allow-run.")
    refuse(
        read_flags()["trust"] and not roots,
        "--trust is for a server with ROOTs; an existing index keeps what it was told. To change "
        f"that: {VOUCH}",
    )
    require_installed("mcp", "The MCP server", "mcp")
    if watch:
        require_watchfiles()
    from skillsearch.mcp_server.served_library import ServedLibrary

    served = ServedLibrary(roots, read_settings(), read_flags()["index_dir"])
    runner = _make_runner(executor or "auto") if allow_run else None
    tools = SessionTools(toolset, served, runner)
    listener = None
    if address is not None:
        token = _token(token_file, is_needed=allow_run)
        listener = _listen(address, token, allow_remote=allow_remote)
    elif is_interactive():
        say(_WAITS)
    with runner or nullcontext():
        code = _serve(served, tools, listener, watch=watch)
    _leave(code)


def _make_runner(executor: str) -> SkillRunner:
    chosen = select_executor(executor)
    for sentence in chosen.capabilities().not_isolated:
        LOGGER.info("Commands run by the executor %s: %s", chosen.name, sentence)
    return SkillRunner(chosen, artifacts=FolderArtifacts(cache_dir() / "artifacts"))


def _token(file: Path | None, *, is_needed: bool) -> str:
    """Return the token that clients have to show; a ConfigError if one is needed and none named."""
    token = mcp_token(file)
    if is_needed and not token:
        raise ConfigError(
            "With --allow-run and --http every user of this machine could run commands as you, "
            "so clients need a token: name a file that holds it with --token-file, or set "
            "SKILLSEARCH_MCP_TOKEN"
        )
    return token


def _listen(address: str, token: str, *, allow_remote: bool) -> Listener:
    from skillsearch.mcp_server.listening import listen, parse_address

    host, port = parse_address(address)
    listener = listen(host, port, token=token, allow_remote=allow_remote)
    say(f"Serving skills at {listener.url}" + (" to clients with the token" if token else ""))
    return listener


def _serve(
    served: ServedLibrary, tools: SessionTools, listener: Listener | None, *, watch: bool
) -> int:
    signal.signal(signal.SIGTERM, lambda _number, _frame: _leave(0))
    signal.signal(signal.SIGINT, lambda _number, _frame: _leave(INTERRUPTED))
    streams = None
    if listener is None:
        from skillsearch.mcp_server.handshake import Handshake
        from skillsearch.mcp_server.streams import greet, take_streams

        streams = greet(take_streams(), Handshake(tools.row, watch))
    from skillsearch.library.thread import LibraryThread
    from skillsearch.mcp_server.listening import run_server
    from skillsearch.mcp_server.served_library import watch_library

    thread = LibraryThread()
    thread.submit(_warm, served)  # while the libraries of the server are imported
    try:
        from skillsearch.mcp_server.server import SkillServer
    except ImportError as exc:  # an older mcp
        raise MissingDependencyError("mcp 2.3", "mcp", "The MCP server") from exc
    # What is kept is the user's, so a client that may be somebody else's is not told how.
    enriching = None if listener else partial(_enriching, served)
    server = SkillServer(thread, tools, tells_changes=watch, enriching=enriching)

    async def serve(stop: anyio.Event) -> None:
        with watch_library(thread, served, server.tell_changed) if watch else nullcontext():
            if listener is not None:
                from skillsearch.mcp_server.http import serve_http
                from skillsearch.mcp_server.registry_app import registry_app

                beside = registry_app(thread, served, listener)
                await serve_http(server, listener, stop, beside=beside)
            elif streams is not None:
                from skillsearch.mcp_server.stdio import serve_stdio

                await serve_stdio(server, streams, stop)

    # An error that is raised further would wait for the reader of stdin.
    return answered(lambda: run_server(serve), _report)


def _report(error: Exception) -> int:
    say(f"Error: {unexpected(error)}")
    return 1


def _enriching(served: ServedLibrary) -> str:
    from skillsearch.hosts.files import our_command
    from skillsearch.library.example_review import instructions

    is_named = served.roots or served.settings.sources.get("index_dir") == "flag"
    option = ("--index-dir", str(served.index_dir)) if is_named else ()
    return instructions(our_command(), option)


def _warm(served: ServedLibrary) -> None:
    """Open the library and make its first search fast; log it if that fails."""
    try:
        served.warm()
    except SkillSearchError as exc:
        LOGGER.warning("%s", exc)


def _leave(code: int) -> NoReturn:
    """End the process at once, without waiting for threads that read stdin or index skills."""
    sys.stderr.flush()
    os._exit(code)
