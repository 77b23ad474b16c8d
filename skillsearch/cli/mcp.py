"""``skillsearch mcp`` and ``skillsearch mcp-config``."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from skillsearch.cli import host_configs, options
from skillsearch.cli.interrupts import INTERRUPTED
from skillsearch.cli.output import say
from skillsearch.config import cache_dir, load_settings, mcp_token, no_index
from skillsearch.environ import install_extra
from skillsearch.errors import ConfigError, MissingDependencyError, SkillSearchError
from skillsearch.execution.artifacts import FolderArtifacts
from skillsearch.execution.commands import CommandPolicy
from skillsearch.execution.executors import EXECUTORS, select_executor
from skillsearch.execution.runner import SkillRunner
from skillsearch.index.request import IndexRequest, join_roots
from skillsearch.library.watcher import require_watchfiles
from skillsearch.mcp_server.session_tools import TOOLSETS, SessionTools
from skillsearch.text.safe_text import visible

if TYPE_CHECKING:
    from typing import NoReturn

    import anyio

    from skillsearch.mcp_server.listening import Listener
    from skillsearch.mcp_server.served_library import ServedLibrary

logger = logging.getLogger(__name__)


@options.command("mcp")
@options.roots()
@options.index_dir
@options.languages
@options.option("--http address HOST:PORT", "Serve over HTTP instead of stdio.")
@options.option("--toolset", "Which tools.", type=click.Choice(TOOLSETS), default="default")
@options.flag("--watch", "Follow changes of the folders; needs watchfiles.")
@options.flag(
    "--allow-run", "Let clients run commands of skills, each in a workspace of its session."
)
@options.option(
    "--executor",
    "What runs them with --allow-run. [default: auto, the safest that works here]",
    type=click.Choice(EXECUTORS),
)
@options.flag("--allow-remote", "Let other machines reach --http.")
@options.option(
    "--token-file FILE",
    "File with the token that clients of --http need. [default: SKILLSEARCH_MCP_TOKEN]",
    type=click.Path(path_type=Path),
)
def mcp_command(asked: options.Asked) -> None:
    """Serve search and skills to agents over MCP.

    MCP is the Model Context Protocol. Serves the skills below the ROOTs, or else those of the
    index. Over stdio it ends with its client. A server without skills starts too: its tools say
    what to do.
    """
    _check(asked)
    from skillsearch.mcp_server.served_library import ServedLibrary

    served = ServedLibrary(asked.roots, asked.settings, asked.flags["index_dir"])
    runner = None
    if asked.allow_run:
        chosen = select_executor(asked.executor or "auto")
        for sentence in chosen.capabilities().not_isolated:
            logger.info("Commands run by the executor %s: %s", chosen.name, sentence)
        policy = CommandPolicy(asked.settings.allowed_commands, asked.settings.denied_commands)
        artifacts = FolderArtifacts(cache_dir() / "artifacts")
        runner = SkillRunner(chosen, artifacts=artifacts, policy=policy)
    tools = SessionTools(asked.toolset, served, runner)
    listener = None if asked.address is None else _listen(asked)
    with runner or nullcontext():
        code = _serve(served, tools, listener, watch=asked.watch)
    _leave(code)


def _check(asked: options.Asked) -> None:
    languages, index_dir = asked.flags["languages"], asked.flags["index_dir"]
    options.refuse(
        (
            asked.address is None and (asked.allow_remote or asked.token_file),
            "--allow-remote and --token-file are for a server with --http.",
        ),
        (asked.executor and not asked.allow_run, "--executor is for a server with --allow-run."),
        (
            languages and not asked.roots,
            "--languages is for a server with ROOTs; an existing index keeps its languages. To "
            f"change them: skillsearch index --languages {languages}",
        ),
    )
    if importlib.util.find_spec("mcp") is None:
        raise MissingDependencyError("mcp", "mcp", "The MCP server")
    if asked.watch:
        require_watchfiles()
    if languages == "all":
        from skillsearch.embedders.multilingual.source import require_weights

        require_weights()
    if asked.roots and index_dir is not None:
        request = IndexRequest.load(index_dir.absolute())
        held = request.named if request else ()
        if len(join_roots(asked.roots, held)) > len(join_roots(asked.roots)):
            raise ConfigError(
                f"The index in {index_dir.absolute()} holds other folders, which these would "
                "replace. Leave out --index-dir to serve these from a separate index, or ROOT to "
                "serve that index."
            )


def _listen(asked: options.Asked) -> Listener:
    from skillsearch.mcp_server.listening import listen, parse_address

    token = mcp_token(asked.token_file)
    if asked.allow_run and not token:
        raise ConfigError(
            "With --allow-run and --http every user of this machine could run commands as you, so"
            " clients need a token: name a file that holds it with --token-file, or set"
            " SKILLSEARCH_MCP_TOKEN"
        )
    host, port = parse_address(asked.address)
    listener = listen(host, port, token=token, allow_remote=asked.allow_remote)
    say(f"Serving skills at {listener.url}" + (" to clients with the token" if token else ""))
    return listener


def _serve(
    served: ServedLibrary, tools: SessionTools, listener: Listener | None, *, watch: bool
) -> int:
    signal.signal(signal.SIGTERM, lambda _number, _frame: _leave(0))
    signal.signal(signal.SIGINT, lambda _number, _frame: _leave(INTERRUPTED))
    from skillsearch.mcp_server.listening import run_server, take_streams
    from skillsearch.mcp_server.served_library import LibraryThread, watch_library

    streams = take_streams() if listener is None else None
    thread = LibraryThread()
    thread.submit(_warm, served)  # while the libraries of the server are imported
    try:
        from skillsearch.mcp_server.server import SkillServer
    except ImportError as exc:  # an older mcp
        raise MissingDependencyError("mcp 2.3", "mcp", "The MCP server") from exc
    server = SkillServer(thread, served, tools, tells_changes=watch)

    async def serve(stop: anyio.Event) -> None:
        with watch_library(thread, served, server.tell_changed) if watch else nullcontext():
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


def _check_url(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    if not url:
        return None
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if is_usable and url.isprintable() and " " not in url:
        return url
    raise click.BadParameter(
        f"{url!r} is not the URL of a server; write it as http://127.0.0.1:8765/mcp"
    )


@options.command("mcp-config")
@click.argument("client", type=click.Choice(host_configs.CLIENTS), metavar="CLIENT")
@options.roots(must_exist=True)
@options.index_dir
@options.languages
@options.option(
    "--http url URL", "URL of a running server: see skillsearch mcp --http.", callback=_check_url
)
@options.option("--toolset", "Which tools the server offers.", type=click.Choice(TOOLSETS))
@options.flag("--watch", "Let the server follow changes of the folders.")
@options.flag("--allow-run", "Let the host run commands of skills.")
@options.flag("--hook", "Ask skillsearch at every prompt, without a server.")
def mcp_config_command(asked: options.Asked) -> None:
    """Print how to configure a host for the MCP server.

    CLIENT is claude-code, codex, gemini, vscode, opencode or goose. Nothing is written: stderr says
    which file the text belongs in. Without ROOT it names the index in use here and now, so that
    the host asks that one from any folder.
    """
    languages, index_dir = asked.flags["languages"], asked.flags["index_dir"]
    settings = load_settings(index_dir=index_dir)
    is_pinned = not asked.url and (index_dir is not None or not asked.roots)
    place = ["--index-dir", str(settings.index_dir.absolute())] if is_pinned else []
    given = ["--languages", languages] if languages else []
    given += ["--toolset", asked.toolset] if asked.toolset else []
    given += ["--watch"] * asked.watch + ["--allow-run"] * asked.allow_run
    found = shutil.which("skillsearch")
    ours = [str(Path(found).absolute())] if found else [sys.executable, "-P", "-m", "skillsearch"]
    options.refuse(
        (
            given and (asked.hook or asked.url),
            f"{(given or [''])[0]} is for a server that the host starts itself.",
        ),
        (
            languages and not asked.roots,
            "--languages is for a server that is given ROOTs to index.",
        ),
        (
            asked.hook and (asked.roots or asked.url),
            "A hook asks an index: make it with skillsearch index, and name it by --index-dir.",
        ),
        (
            asked.hook and asked.client not in host_configs.HOOK_CLIENTS,
            f"{asked.client} has no known prompt hook; hosts with one: "
            f"{', '.join(host_configs.HOOK_CLIENTS)}. Use the server: "
            f"skillsearch mcp-config {asked.client}",
        ),
        (
            asked.url and (asked.roots or index_dir is not None),
            "With --http, ROOT and --index-dir are for the running server.",
        ),
    )
    if asked.hook:
        command = [*ours, "hook", "--client", asked.client, *place]
        config = host_configs.hook_config(asked.client, command)
    elif asked.url:
        config = host_configs.server_config(asked.client, asked.url)
    else:
        started = [*ours, "mcp", *map(str, asked.roots), *place, *given]
        config = host_configs.server_config(asked.client, started)
        if importlib.util.find_spec("mcp") is None:
            say(f"warning: the server needs an extra: {install_extra('mcp')}")
    click.echo(config.text, nl=False)
    if is_pinned and not asked.roots and not (settings.index_dir / "CURRENT").exists():
        say(f"note: {no_index(settings.index_dir.absolute(), settings)}")
    say(f"This belongs in {config.place}, merged with what is there.")
    if config.add_command:
        # Not by `say`, which would change blanks in a path.
        click.echo(f"Or run: {visible(config.add_command)}", err=True)
