"""What an agent gets from compared systems: their MCP servers and prompt hooks, used as by a host.

The definitions of a server's tools stand in every prompt, and its answer and what a hook adds in
one. All are counted in tokens as `skillsearch budget` counts them, folders of this run as ``~``.
"""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple, NotRequired, Self, TypedDict, overload

from comparison.rows import HookTokens, ServerStart, ServerTokens
from skillsearch.types.json_values import Json

Counter = Callable[[str], int]
PROTOCOL = "2025-06-18"
ANSWER_S = 300
HOOKED = 30
"""Requests that a hook is given, spread over all: each is a process of its own."""
TRIES = 10
"""A hook that gives up in time, as it should while the machine is busy, is run again."""
_TICKS = os.sysconf("SC_CLK_TCK")


class InterfaceError(Exception):
    """A server or hook does not answer; in one line."""


class Greeting(TypedDict):
    """What a server says of itself when hands are shaken."""

    instructions: NotRequired[str | None]


class ToolList(TypedDict):
    """The tools of a server, each as it defines it."""

    tools: list[dict[str, Json]]


class Part(TypedDict):
    """A part of what a tool answers."""

    text: NotRequired[str]


class CallResult(TypedDict):
    """What a tool answers."""

    content: NotRequired[list[Part]]
    isError: NotRequired[bool]


class Server(NamedTuple):
    """How an MCP server is started over stdio and searched.

    In the command, ``{bin}``, ``{home}`` and ``{skills}`` are folders; calls before are of tools
    that a user would have called once.
    """

    command: tuple[str, ...]
    tool: str
    argument: str = "query"
    more: Mapping[str, Sequence[str]] = {}
    before: tuple[tuple[str, Mapping[str, Json]], ...] = ()


class Hook(NamedTuple):
    """A command that reads a prompt event; variables for a first answer; what ends it all."""

    command: tuple[str, ...]
    first: Mapping[str, str] = {}
    end: tuple[str, ...] = ()


class Installation(NamedTuple):
    """Where a system is installed and what it indexed, and how its programs are started."""

    folders: Mapping[str, str]
    prefix: Sequence[str]
    variables: Mapping[str, str]

    def command(self, words: Sequence[str]) -> list[str]:
        """Return a command with its folders in place."""
        return [*self.prefix, *(word.format_map(self.folders) for word in words)]

    def neutral(self, text: str) -> str:
        """Return a text without the length of this run's folders."""
        for folder in sorted(self.folders.values(), key=len, reverse=True):
            text = text.replace(folder, "~")
        return text


GITHUB = "https://github.com/anthropics/skills"
SERVERS = {
    "skillsearch": Server(
        ("{bin}/skillsearch", "mcp", "--index-dir", "{home}/index"), "search_skills"
    ),
    "lockkeeper": Server(("{bin}/lockkeeper", "mcp"), "route", "task"),
    # Its default source, which a search would fetch, comes back at each start.
    "skill-ninja": Server(
        ("{bin}/skill-ninja",),
        "search_skills",
        before=(("remove_source", {"url": GITHUB, "purge": True}),),
    ),
    "skill-retrieval-mcp": Server(("{bin}/skill-mcp", "serve"), "search_skills"),
    "skills-radar": Server(("{bin}/skills-radar", "serve"), "search_skills"),
    "skill-proof-router": Server(
        ("{bin}/skill-proof-mcp",), "skill_select", more={"roots": ["{skills}"]}
    ),
}
HOOKS = {
    "skillsearch": Hook(
        ("{bin}/skillsearch", "hook", "--client", "claude-code", "--index-dir", "{home}/index"),
        {"SKILLSEARCH_DAEMON": "off"},
        ("{bin}/skillsearch", "daemon", "stop"),
    ),
    "lockkeeper": Hook(("{bin}/lockkeeper", "route-hook", "--runtime", "claude")),
}


class Session:
    """One run of a server, from its start to the end of its input."""

    def __init__(self, server: Server, installation: Installation) -> None:
        """Start the server; its errors go nowhere."""
        self._server, self._installation, self._id = server, installation, 0
        self._unread = b""
        self._process = subprocess.Popen(
            installation.command(server.command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**installation.variables},
            cwd=installation.folders["home"],
        )

    def __enter__(self) -> Self:
        """Use as it is."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Have the server end, and wait for it."""
        if self._process.stdin:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()

    def greet(self) -> Greeting:
        """Shake hands and return what the server says of itself."""
        client: Json = {"name": "compare", "version": "1"}
        greeting: dict[str, Json] = {
            "protocolVersion": PROTOCOL,
            "capabilities": {},
            "clientInfo": client,
        }
        about = self.ask("initialize", greeting)
        self._write({"method": "notifications/initialized"})
        return about

    def search(self, text: str) -> str:
        """Return the text that an agent gets for a request."""
        more = {
            key: [word.format_map(self._installation.folders) for word in words]
            for key, words in self._server.more.items()
        }
        return self.call(self._server.tool, {self._server.argument: text, **more})

    def call(self, tool: str, arguments: Mapping[str, Json]) -> str:
        """Call a tool and return the text of its answer."""
        result = self.ask("tools/call", {"name": tool, "arguments": dict(arguments)})
        text = "\n".join(part.get("text", "") for part in result.get("content", ()))
        if result.get("isError"):
            raise InterfaceError(f"{tool}: {text[:160]}")
        return text

    @overload
    def ask(self, method: Literal["initialize"], params: Mapping[str, Json]) -> Greeting: ...

    @overload
    def ask(self, method: Literal["tools/list"], params: Mapping[str, Json]) -> ToolList: ...

    @overload
    def ask(self, method: Literal["tools/call"], params: Mapping[str, Json]) -> CallResult: ...

    def ask(self, method: str, params: Mapping[str, Json]) -> object:
        """Send a request and return the result; what else the server says is passed over."""
        self._id += 1
        self._write({"id": self._id, "method": method, "params": dict(params)})
        end = time.monotonic() + ANSWER_S
        while True:
            message = json.loads(self._line(end))
            if message.get("id") == self._id and "method" not in message:
                break
        if "error" in message:
            raise InterfaceError(f"{method}: {message['error'].get('message', '')[:160]}")
        return message["result"]

    def cpu_s(self) -> float:
        """Return the CPU seconds of the server until now, of its children too."""
        return cpu_of(self._process.pid)

    def _write(self, message: Mapping[str, Json]) -> None:
        assert self._process.stdin
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            raise InterfaceError("the server ended") from None

    def _line(self, end: float) -> bytes:
        """Return the next line with anything in it, waiting until the end at most."""
        assert self._process.stdout
        stream = self._process.stdout.fileno()
        while True:
            line, cut, rest = self._unread.partition(b"\n")
            if cut:
                self._unread = rest
                if line.strip():
                    return line
                continue
            if not select.select([stream], [], [], max(0.0, end - time.monotonic()))[0]:
                raise InterfaceError(f"no answer within {ANSWER_S} s")
            block = os.read(stream, 1 << 16)
            if not block:
                raise InterfaceError("the server ended")
            self._unread += block


def cpu_of(process: int) -> float:
    """Return the CPU seconds of a process, of its children that ended, and of those that run."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            words = path.read_text("ascii", "replace").rpartition(")")[2].split()
            stats[int(path.parent.name)] = int(words[1]), sum(map(int, words[11:15]))
    family, ticks = {process}, 0
    while family:
        ticks += sum(stats[pid][1] for pid in family if pid in stats)
        family = {pid for pid, (parent, _) in stats.items() if parent in family}
    return ticks / _TICKS


def tokens_of_server(
    server: Server, installation: Installation, requests: Sequence[str], count: Counter
) -> ServerTokens:
    """Return the tokens of a server's definitions and, as the median, of its answers."""
    with Session(server, installation) as session:
        greeting = session.greet()
        tools = session.ask("tools/list", {})["tools"]
        shown = [
            {key: tool.get(key) for key in ("name", "description", "inputSchema")} for tool in tools
        ]
        defined = f"{greeting.get('instructions') or ''}\n{json.dumps(shown, ensure_ascii=False)}"
        for tool, arguments in server.before:
            session.call(tool, arguments)
        answers = [count(installation.neutral(session.search(text))) for text in requests]
    return {"definitions": count(defined), "answer": statistics.median(answers)}


def start_of_server(server: Server, installation: Installation, request: str) -> ServerStart:
    """Return the CPU seconds that a server takes to shake hands, and to its first answer."""
    with Session(server, installation) as session:
        session.greet()
        greeted = session.cpu_s()
        for tool, arguments in server.before:
            session.call(tool, arguments)
        session.search(request)
        return {"server_cpu_s": greeted, "first_answer_cpu_s": session.cpu_s()}


def run_hook(
    hook: Hook, installation: Installation, request: str, variables: Mapping[str, str] = {}
) -> tuple[str, float]:
    """Return what a hook adds to a prompt, and the CPU seconds that it took.

    A hook that adds nothing and complains did not answer: a InterfaceError if it never does.
    """
    session = sha256(request.encode()).hexdigest()  # within one, nothing is offered twice
    event = {"hook_event_name": "UserPromptSubmit", "session_id": session, "prompt": request}
    event["cwd"] = installation.folders["home"]
    for _ in range(TRIES):
        before = os.times()
        done = subprocess.run(
            installation.command(hook.command),
            input=json.dumps(event),
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            env={**installation.variables, **variables},
            cwd=installation.folders["home"],
        )
        cpu = sum(os.times()[2:4]) - sum(before[2:4])
        if done.returncode:
            raise InterfaceError(f"hook: exit status {done.returncode}")
        if done.stdout.strip() or not done.stderr.strip():
            output = json.loads(done.stdout or "{}").get("hookSpecificOutput", {})
            return str(output.get("additionalContext", "")), cpu
    raise InterfaceError(f"hook: {done.stderr.strip()[-160:]}")


def tokens_of_hook(
    hook: Hook, installation: Installation, requests: Sequence[str], count: Counter
) -> HookTokens:
    """Return the mean tokens that a hook adds to a prompt, 0 where it is silent."""
    some = requests[:: -(-len(requests) // HOOKED)]
    added = [count(installation.neutral(run_hook(hook, installation, text)[0])) for text in some]
    if hook.end:
        subprocess.run(
            installation.command(hook.end), capture_output=True, env={**installation.variables}
        )
    return {"hook": statistics.fmean(added)}
