"""``skillsearch mcp``."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli.interrupts import INTERRUPTED
from skillsearch.cli.options import (
    Root,
    command,
    index_dir_option,
    languages_option,
    roots_argument,
)
from skillsearch.cli.output import say
from skillsearch.config import cache_dir, load_settings, mcp_token
from skillsearch.errors import ConfigError, MissingDependencyError, SkillSearchError
from skillsearch.execution.executors import EXECUTORS
from skillsearch.mcp_server.session_tools import TOOLSETS, SessionTools

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    import anyio

    from skillsearch.config import Settings
    from skillsearch.execution.runner import SkillRunner
    from skillsearch.mcp_server.listening import Listener
    from skillsearch.mcp_server.served_library import ServedLibrary
    from skillsearch.types import Languages

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
    help="What --allow-run runs them by. [default: auto, the safest that works here]",
)
@click.option("--allow-remote", is_flag=True, help="Let --http be reached by other machines.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Clients of --http have to show what FILE holds. [default: SKILLSEARCH_MCP_TOKEN]",
)
def mcp_command(
    roots: tuple[Root, ...],
    index_dir: Path | None,
    languages: Languages | None,
    address: str | None,
    toolset: str,
    watch: bool,
    allow_run: bool,
    executor: str | None,
    allow_remote: bool,
    token_file: Path | None,
) -> None:
    """Serve search and skills to agents, by the Model Context Protocol.

    Serves the skills below the ROOTs, or else those of the index. Over stdio it ends with its
    client. A server without skills starts too: its tools say what to do.
    """
    if address is None and (allow_remote or token_file):
        raise click.UsageError("--allow-remote and --token-file are for a server with --http.")
    if executor and not allow_run:
        raise click.UsageError("--executor is for a server with --allow-run.")
    if languages and not roots:
        raise click.UsageError(
            "--languages is for a server with ROOTs; an index made before is for those that "
            f"it was made for: skillsearch index --languages {languages}"
        )
    _require(watch=watch, multilingual=languages == "all")
    from skillsearch.mcp_server.served_library import ServedLibrary

    settings = load_settings(index_dir=index_dir, languages=languages)
    if roots and index_dir is not None:
        _check_own(roots, index_dir.absolute())
    served = ServedLibrary(roots, settings, index_dir)
    runner = _runner(executor or "auto", settings) if allow_run else None
    offers = SessionTools(toolset, served, runner)
    listener = None
    if address is not None:
        listener = _listen(address, token_file, allow_remote=allow_remote, needs_token=allow_run)
    with runner or nullcontext():
        code = _serve(served, offers, listener, watch=watch)
    _leave(code)


def _check_own(roots: Sequence[Root], folder: Path) -> None:
    """Refuse to make the index of other roots one of these."""
    from skillsearch.index.request import IndexRequest, join_roots

    request = IndexRequest.load(folder)
    held = request.named if request else ()
    if len(join_roots(roots, held)) > len(join_roots(roots)):
        raise ConfigError(
            f"The index in {folder} holds other folders, which these would replace. Leave out "
            "--index-dir to serve these from an index of their own, or ROOT to serve that index."
        )


def _runner(executor: str, settings: Settings) -> SkillRunner:
    """Make what runs commands of skills, and tell what it does not keep them from."""
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


def _require(*, watch: bool, multilingual: bool) -> None:
    """Look for what the server needs, before anything is begun."""
    if importlib.util.find_spec("mcp") is None:
        raise MissingDependencyError("mcp", "mcp", "The MCP server")
    if watch:
        from skillsearch.library.watcher import require_watchfiles

        require_watchfiles()
    if multilingual:
        from skillsearch.embedders.multilingual.source import require_weights

        require_weights()


def _listen(
    address: str, token_file: Path | None, *, allow_remote: bool, needs_token: bool
) -> Listener:
    """Listen where the user said, and tell where that is."""
    from skillsearch.mcp_server.listening import Address, listen

    token = mcp_token(token_file)
    if needs_token and not token:
        raise ConfigError(
            "With --allow-run every user of this machine could run commands as you by --http, so"
            " clients need a token: name a file that holds it by --token-file, or set"
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
        """Serve over what was chosen."""
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
    except Exception as exc:  # noqa: BLE001 - raised further, it would wait for who reads stdin
        say(f"Error: This is a bug in skillsearch, please report it: {exc!r}")
        return 1


def _warm(served: ServedLibrary) -> None:
    """Open the library and make its first search fast; say why where that cannot be."""
    try:
        served.warm()
    except SkillSearchError as exc:
        logger.warning("%s", exc)


def _leave(code: int) -> NoReturn:
    """End the process at once: threads that read stdin or index skills are not waited for."""
    sys.stderr.flush()
    os._exit(code)
