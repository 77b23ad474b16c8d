"""``skillsearch mcp`` and ``skillsearch mcp-config``."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

import click

from skillsearch.cli import app, host_configs
from skillsearch.cli.app import Asked, command, flag, option, refuse
from skillsearch.cli.host_configs import HOOK_CLIENTS, HOSTS, Entry
from skillsearch.cli.host_files import Change, host_file, our_command
from skillsearch.cli.interrupts import INTERRUPTED
from skillsearch.cli.output import say
from skillsearch.cli.selecting import options, selecting
from skillsearch.config import cache_dir, mcp_token, no_index
from skillsearch.environ import install_extra
from skillsearch.errors import ConfigError, MissingDependencyError, SkillSearchError
from skillsearch.execution.artifacts import FolderArtifacts
from skillsearch.execution.commands import CommandPolicy
from skillsearch.execution.executors import EXECUTORS, select_executor
from skillsearch.execution.runner import SkillRunner
from skillsearch.index.request import IndexRequest, join_roots
from skillsearch.library.watcher import require_watchfiles
from skillsearch.mcp_server.session_tools import TOOLSETS, SessionTools
from skillsearch.text.provenance import VOUCH
from skillsearch.text.safe_text import visible

if TYPE_CHECKING:
    import anyio

    from skillsearch.mcp_server.listening import Listener
    from skillsearch.mcp_server.served_library import ServedLibrary


@command("mcp")
@app.roots()
@app.index_dir
@app.languages
@app.trust
@app.reader
@selecting
@option("--http address HOST:PORT", "Serve over HTTP instead of stdio.")
@option("--toolset", "Which tools.", type=click.Choice(TOOLSETS), default="default")
@flag("--watch", "Follow changes of the folders; needs watchfiles.")
@flag("--allow-run", "Let clients run commands of skills, each in a workspace of its session.")
@option(
    "--executor",
    "What runs them with --allow-run. [default: auto, the safest that works here]",
    type=click.Choice(EXECUTORS),
)
@flag("--allow-remote", "Let other machines reach --http.")
@option(
    "--token-file FILE",
    "File with the token that clients of --http need. [default: SKILLSEARCH_MCP_TOKEN]",
    type=click.Path(path_type=Path),
)
def mcp_command(asked: Asked) -> None:
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
            app.LOGGER.info("Commands run by the executor %s: %s", chosen.name, sentence)
        policy = CommandPolicy(asked.settings.allowed_commands, asked.settings.denied_commands)
        artifacts = FolderArtifacts(cache_dir() / "artifacts")
        runner = SkillRunner(chosen, artifacts=artifacts, policy=policy)
    tools = SessionTools(asked.toolset, served, runner)
    listener = None if asked.address is None else _listen(asked)
    with runner or nullcontext():
        code = _serve(served, tools, listener, watch=asked.watch)
    _leave(code)


def _check(asked: Asked) -> None:
    languages, index_dir = asked.flags["languages"], asked.flags["index_dir"]
    refuse(
        asked.address is None and (asked.allow_remote or asked.token_file),
        "--allow-remote and --token-file are for a server with --http.",
    )
    refuse(asked.executor and not asked.allow_run, "--executor is for a server with --allow-run.")
    refuse(
        languages and not asked.roots,
        "--languages is for a server with ROOTs; an existing index keeps its languages. To change "
        f"them: skillsearch index --languages {languages}",
    )
    refuse(
        asked.flags["trust"] and not asked.roots,
        "--trust is for a server with ROOTs; an existing index keeps what it was told. To change "
        f"that: {VOUCH}",
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


def _listen(asked: Asked) -> Listener:
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
    server = SkillServer(thread, tools, tells_changes=watch)

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
        app.LOGGER.warning("%s", exc)


def _leave(code: int) -> NoReturn:
    """End the process at once, without waiting for threads that read stdin or index skills."""
    sys.stderr.flush()
    os._exit(code)


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
@click.argument("client", type=click.Choice(tuple(HOSTS)), metavar="CLIENT")
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

    CLIENT is claude-code, codex, gemini, vscode, opencode, goose, cursor, windsurf or zed. Without
    --write or --remove nothing is written: stderr says which file the text belongs in. Without
    ROOT it names the index in use here and now, so that the host asks that one from any folder.

    --write and --remove change our entry in that file and keep every other byte of it. What was
    there stays beside it, as FILE.1.bak. A file that cannot be edited without risk is left alone.
    """
    given, client = _check_config(asked), asked.client
    make = host_configs.hook_entry if asked.hook else host_configs.server_entry
    if asked.remove:
        _change(make(client, None), asked)
        return
    index_dir, settings = asked.flags["index_dir"], asked.settings
    is_pinned = not asked.url and (index_dir is not None or not asked.roots)
    place = ["--index-dir", str(settings.index_dir.absolute())] if is_pinned else []
    kind = ["hook", "--client", client] if asked.hook else ["mcp", *map(str, asked.roots)]
    server = asked.url or [*our_command(), *kind, *place, *given]
    entry = make(client, server)
    if not (asked.hook or asked.url or importlib.util.find_spec("mcp")):
        say(f"warning: the server needs an extra: {install_extra('mcp')}")
    if is_pinned and not asked.roots and not (settings.index_dir / "CURRENT").exists():
        say(f"note: {no_index(settings.index_dir.absolute(), settings)}")
    if asked.write:
        _change(entry, asked)
        return
    file = host_file(client, hook=asked.hook, project=asked.project)
    click.echo(entry.text, nl=False)
    say(f"This belongs in {file}, merged with what is there; --write does that.")
    is_addable = not (asked.hook or asked.project)
    if adding := is_addable and host_configs.add_command(client, server):
        # Not by `say`, which would change blanks in a path.
        click.echo(f"Or run: {visible(adding)}", err=True)


def _change(entry: Entry, asked: Asked) -> None:
    """Put an entry into a host's file or take it out; if that fails, print what to paste."""
    file = host_file(entry.client, hook=asked.hook, project=asked.project)
    try:
        change = Change.plan(file, [entry], Path.cwd() if asked.project else None)
        if not change.is_needed:
            say(f"Nothing to change: {file} {'has' if asked.write else 'does not have'} it.")
            return
        show_change(change)
    except (ConfigError, OSError):
        if asked.write:
            click.echo(entry.text, nl=False)
        raise
    if asked.write and not asked.hook and (listing := HOSTS[entry.client].get("list")):
        say(f"See whether it answers: {listing}")


def show_change(change: Change) -> None:
    """Show a change of a host's file as a diff, and make it."""
    click.echo(change.diff(), err=True)
    backup = change.write()
    say(f"Changed {change.path}" + (f"; what was there is in {backup}" if backup else ""))


def _check_config(asked: Asked) -> list[str]:
    """Return the options of a server that the host starts, and refuse what goes with none."""
    languages, client = asked.flags["languages"], asked.client
    trust = asked.settings.trust if asked.flags["trust"] else ()  # its folders are absolute
    given = ["--languages", languages] if languages else []
    given += [part for item in trust for part in ("--trust", item)]
    given += options(asked.flags)
    given += ["--toolset", asked.toolset] if asked.toolset else []
    given += ["--watch"] * asked.watch + ["--allow-run"] * asked.allow_run
    refuse(asked.write and asked.remove, "--write or --remove, not both.")
    place = asked.roots or asked.url or asked.flags["index_dir"] is not None
    refuse(
        asked.remove and (given or place or asked.include_unvetted),
        "--remove takes our entry out, whatever it holds; leave out what a server is to do.",
    )
    refuse(asked.include_unvetted and not asked.hook, "--include-unvetted is for --hook.")
    is_no_start = given and (asked.hook or asked.url)
    refuse(is_no_start, f"{''.join(given[:1])} is for a server that the host starts itself.")
    refuse(
        (languages or trust) and not asked.roots,
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
        asked.url and (asked.roots or asked.flags["index_dir"] is not None),
        "With --http, ROOT and --index-dir are for the running server.",
    )
    return [*given, *["--include-unvetted"] * asked.include_unvetted]
