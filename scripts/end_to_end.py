"""Is the right skill before the model, and what does a turn cost?

Usage: python scripts/end_to_end.py COLLECTION... --fillers SKILLS [--agent COLLECTION]
       [--sizes 60,700,3000] [--requests N] [--timed N] [--work DIR] [--results FILE] [--ask N]

For libraries of several sizes, each way puts its text before a model: the listing of each host of
``skillsearch budget``, our prompt hook, our MCP search, and perfect choice. A library has whole
clusters of the judged collections for up to four fifths, in order, and then real skills of SKILLS,
evenly drawn; of skills with the same name the first stays. Counted are requests all of whose
skills are in the library; ``twins``, requests of which one detail was changed so that none of them
fits; and requests of ``real_requests`` that nothing in SKILLS fits, ``ordinary``.

The hook and the server answer as they do for a user: with a daemon, and over HTTP. The server is
asked with the request itself, and then with what an agent would ask (``--agent``). Its tokens are
its instructions, the definitions of its tools, the call and the answer. Times are of the whole
process of the hook with what the daemon does for it, and of a call of the server.

``--ask N`` has a model choose among what each way shows for N requests of each kind, if
`turns.model` is told of one by the environment; nothing is sent to any model else.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from unittest.mock import patch

import real_collections
from benchmark.measures import machine, run_command, save_report
from comparison.interfaces import cpu_of
from comparison.jobs import write_skills
from mcp import Client
from mcp_types import CallToolResult
from soak_mcp import served
from turns import counts
from turns.counts import (
    AGENT,
    HOOK,
    ORACLE,
    SEARCH,
    Choices,
    LibraryRow,
    Report,
    Shown,
    Task,
    Time,
    WayRow,
)
from turns.library import Library, draw, evenly
from turns.model import Model, ask

from skillsearch.budget.costs import listed_skills, sources_of_roots
from skillsearch.budget.hosts import HOSTS, Fate, ListedSkill
from skillsearch.cli.hosts import hook
from skillsearch.daemon import client as daemon
from skillsearch.embedders.embedder import COUNTED_BY, TokenCounter
from skillsearch.evaluation.collection import digest, load_collection
from skillsearch.evaluation.types import Collection
from skillsearch.skills.metadata import MAX_DESCRIPTION_CHARS

SHOWN_ROOT, SHORT_ROOT = "/home/user/.agents/skills", "~/.agents/skills"
"""Where the skills lie as far as any text says."""
WINDOW = 200_000
PATIENCE_S = 60.0
"""How long an answer of the hook that is counted may take; one that is timed has its usual time."""
READY_S = 1800.0
"""How long a server may read its skills; on a busy machine minutes."""
WARM_UP = 2
_LOCATION = re.compile(r"<location>\n(.*)\n</location>")


@dataclass(frozen=True)
class Installed:
    """A library on disk, with its index."""

    library: Library
    folder: Path
    names: Mapping[str, str]
    """Of skills, by their folder."""

    @classmethod
    def install(cls, library: Library, work: Path) -> Installed:
        """Write the skills below a folder and index them; an index that was there is kept."""
        folder = work / f"{len(library.skills)}-{digest(library.skills)}"
        skills = folder / "skills"
        shutil.rmtree(skills, ignore_errors=True)
        names = write_skills(Collection("library", library.skills, (), {}), skills)
        installed = cls(library, folder, names)
        run_command("index", str(skills), "--index-dir", installed.index_dir)
        return installed

    @property
    def index_dir(self) -> str:
        """The folder of the index, where `served` looks for it."""
        return str(self.folder / "index")

    def listed(self) -> list[ListedSkill]:
        """Return the skills as hosts read them, in the order of hosts."""
        sources, problems = sources_of_roots([self.folder / "skills"])
        skills = listed_skills(sources)
        if problems or len(skills) != len(self.library.skills):
            raise SystemExit(f"Of {len(self.library.skills)} skills {len(skills)} can be read.")
        shown = []
        for skill in skills:
            name = Path(skill.path).parent.name
            path, short = (f"{root}/{name}/SKILL.md" for root in (SHOWN_ROOT, SHORT_ROOT))
            moved = replace(skill, name=self.names[name], path=path, root=SHOWN_ROOT)
            shown.append(replace(moved, short_path=short))
        return shown

    def fates(self, paths: Iterable[str]) -> dict[str, Fate]:
        """Return what our ways leave of the skills at some paths: all but very long texts."""
        fates: dict[str, Fate] = {}
        for path in paths:
            name = self.names[Path(path).parent.name]
            is_whole = len(self.library.descriptions[name]) <= MAX_DESCRIPTION_CHARS
            fates[name] = "whole" if is_whole else "shortened"
        return fates

    def event(self, task: Task) -> str:
        """Return what a host tells the hook."""
        event = {"hook_event_name": "UserPromptSubmit", "prompt": task.text}
        return json.dumps({**event, "cwd": str(self.folder)})

    def hooked(self, task: Task, count: counts.Counter) -> Shown:
        """Return what the hook adds to a request."""
        given, printed = io.BytesIO(self.event(task).encode()), io.BytesIO()
        stdin, stdout, stderr = io.TextIOWrapper(given), io.TextIOWrapper(printed), io.StringIO()
        with patch.object(sys, "stdin", stdin), redirect_stdout(stdout), redirect_stderr(stderr):
            hook.run("text", self.index_dir, PATIENCE_S)
        if stderr.getvalue():
            raise SystemExit(f"The hook says: {stderr.getvalue()}")
        text = printed.getvalue().decode()
        fates = self.fates(map(unescape, _LOCATION.findall(text)))
        text = text.replace(str(self.folder / "skills"), SHOWN_ROOT)
        return Shown(text, count(text), fates)

    def time_hook(self, task: Task, daemon_pid: int) -> Time:
        """Return the milliseconds of the hook as a process, with the CPU time of the daemon."""
        before = cpu_of(daemon_pid)
        command = ("hook", "--client", "text", "--index-dir", self.index_dir)
        run = run_command(*command, stdin=self.event(task))
        cpu = run["cpu_s"] + cpu_of(daemon_pid) - before
        return {"cpu_ms": 1000 * cpu, "wall_ms": 1000 * run["wall_s"]}


def is_whole(answer: CallToolResult) -> bool:
    """Return whether a server answered by all that its index will have."""
    record = answer.structured_content or {}
    return not (answer.is_error or "words_only" in record or "problem" in record)


@dataclass(frozen=True)
class Server:
    """A running MCP server of a library, and the tokens that it costs before any call."""

    installed: Installed
    client: Client
    pid: int
    tokens: int

    @classmethod
    @asynccontextmanager
    async def start(cls, installed: Installed, count: counts.Counter) -> AsyncIterator[Server]:
        """Serve a library over HTTP, and connect to it."""
        with served(installed.folder / "skills", installed.folder) as (url, pid):
            async with Client(url) as client:
                tools = (await client.list_tools()).tools
                definitions = [
                    {"name": tool.name, "about": tool.description, "schema": tool.input_schema}
                    for tool in tools
                ]
                tokens = count(client.instructions or "")
                tokens += sum(count(json.dumps(definition)) for definition in definitions)
                server = cls(installed, client, pid, tokens)
                await server.wait()
                yield server

    async def wait(self) -> None:
        """Wait until the server has compared its index with the skills."""
        ends = time.monotonic() + READY_S
        while not is_whole(await self.client.call_tool("search_skills", {"query": "ready"})):
            if time.monotonic() > ends:
                raise SystemExit(f"The server is not ready after {READY_S:.0f} s.")
            await asyncio.sleep(1)

    async def search(self, task: Task, count: counts.Counter) -> Shown:
        """Return what a search with the text of a task costs and shows."""
        arguments = {"query": task.text}
        answer = await self.client.call_tool("search_skills", arguments)
        record = answer.structured_content or {}
        text = "\n".join(getattr(part, "text", "") for part in answer.content)
        if not is_whole(answer):
            raise SystemExit(f"The server says: {text}")
        call = count(json.dumps({"name": "search_skills", "arguments": arguments}))
        fates = self.installed.fates(hit["path"] for hit in (*record["skills"], *record["perhaps"]))
        return Shown(text, self.tokens + call + count(text), fates)

    async def time_search(self, task: Task) -> Time:
        """Return the milliseconds of a call, with the CPU time of the server."""
        before, started = cpu_of(self.pid), time.perf_counter()
        await self.client.call_tool("search_skills", {"query": task.text})
        wall, cpu = time.perf_counter() - started, cpu_of(self.pid) - before
        return {"cpu_ms": 1000 * cpu, "wall_ms": 1000 * wall}


Answer = Sequence[tuple[Task, Shown]]


@dataclass(frozen=True)
class Way:
    """What a way shows for the tasks, and for requests that nothing fits by kind."""

    tasks: Answer
    nothing: Mapping[str, Answer]

    @classmethod
    def of(cls, library: Library, show: Callable[[Task], Shown]) -> Way:
        """Have every request of a library answered."""

        def answer(tasks: Sequence[Task]) -> Answer:
            return [(task, show(task)) for task in tasks]

        nothing = {kind: answer(tasks) for kind, tasks in library.nothing.items() if tasks}
        return cls(answer(library.tasks), nothing)

    @classmethod
    def always(cls, library: Library, shown: Shown) -> Way:
        """Show the same for every request."""
        return cls.of(library, lambda _: shown)

    def record(self, choose: Callable[[Answer], Choices] | None) -> WayRow:
        """Return all counts, with what a model chooses if there is one."""
        nothing = {
            kind: counts.tally_nothing([shown for _, shown in answer])
            for kind, answer in self.nothing.items()
        }
        shown = counts.tally(self.tasks)
        record: WayRow = {
            "tokens": shown["tokens"],
            "right": shown["right"],
            "wrong": shown["wrong"],
            "nothing": nothing,
        }
        if choose:
            kinds = {"tasks": self.tasks, **self.nothing}
            record["model"] = {kind: choose(answer) for kind, answer in kinds.items()}
        return record


async def ways_of(server: Server, count: counts.Counter) -> dict[str, Way]:
    """Return what every way shows for every request."""
    installed, library = server.installed, server.installed.library
    listed = installed.listed()
    ways = {}
    for host in HOSTS:
        ways[host] = Way.always(library, counts.listing(host, listed, WINDOW, count))
    ways[HOOK] = Way.of(library, lambda task: installed.hooked(task, count))
    tasks = {*library.tasks, *library.agent}.union(*library.nothing.values())
    answers = {task: await server.search(task, count) for task in tasks}
    ways[SEARCH] = Way.of(library, answers.__getitem__)
    if library.agent:
        ways[AGENT] = Way([(task, answers[task]) for task in library.agent], {})
    ways[ORACLE] = Way.of(library, lambda task: counts.oracle(task, library.descriptions, count))
    return ways


async def time_ways(servers: Sequence[Server], timed: int) -> list[dict[str, Time]]:
    """Time hook and search, library by library in turn; medians in milliseconds."""
    status = daemon.ask("status", seconds=PATIENCE_S)
    if status is None:
        raise SystemExit("The daemon does not run.")
    pid = int(str(status["pid"]))
    taken: list[dict[str, list[Time]]] = [{HOOK: [], SEARCH: []} for _ in servers]
    for number in range(WARM_UP + timed):
        for server, times in zip(servers, taken, strict=True):
            tasks = evenly(server.installed.library.tasks, timed)
            task = tasks[number % len(tasks)]
            times[HOOK].append(server.installed.time_hook(task, pid))
            times[SEARCH].append(await server.time_search(task))
    return [{way: _median(runs[WARM_UP:]) for way, runs in times.items()} for times in taken]


def _median(runs: Sequence[Time]) -> Time:
    return {
        "cpu_ms": statistics.median(run["cpu_ms"] for run in runs),
        "wall_ms": statistics.median(run["wall_ms"] for run in runs),
    }


async def measure(
    libraries: Sequence[Library],
    work: Path,
    report: Report,
    save: Callable[[], None],
    choose: Callable[[Answer], Choices] | None,
) -> None:
    """Add each library to a report and save it, and at last the times, when all else is done.

    `choose` has a model choose among what is shown.
    """
    count = TokenCounter.load()
    records: list[LibraryRow] = report["libraries"]
    async with AsyncExitStack() as stack:
        servers = []
        for library in libraries:
            installed = Installed.install(library, work)
            server = await stack.enter_async_context(Server.start(installed, count))
            servers.append(server)
            ways = await ways_of(server, count)
            records.append(
                {
                    "skills": len(library.skills),
                    "judged": library.judged,
                    "tasks": len(library.tasks),
                    "agent": len(library.agent),
                    "nothing": {kind: len(tasks) for kind, tasks in library.nothing.items()},
                    "ways": {name: way.record(choose) for name, way in ways.items()},
                }
            )
            save()
        loads = [os.getloadavg()[0]]
        for record, times in zip(records, await time_ways(servers, report["timed"]), strict=True):
            for name, time_of_way in times.items():
                record["ways"][name]["time"] = time_of_way
        report["load"] = sorted([*loads, os.getloadavg()[0]])
        save()


def choice_of(most: int) -> Callable[[Answer], Choices]:
    """Return what has the model that the environment names choose, so many times for a kind."""
    model = Model.from_environment()
    if model is None:
        raise SystemExit("--ask needs END_TO_END_URL, the address of a model.")
    return lambda answer: ask(model, evenly(answer, most))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("collections", nargs="+", type=Path, metavar="COLLECTION")
    parser.add_argument("--fillers", type=Path, required=True, help="a folder of real skills")
    parser.add_argument("--agent", type=Path, nargs="*", default=[], metavar="COLLECTION")
    parser.add_argument("--sizes", default="60,700,3000")
    parser.add_argument("--requests", type=int, default=100, help="of each kind, at most")
    parser.add_argument("--timed", type=int, default=20, help="requests a library that are timed")
    parser.add_argument("--ask", type=int, default=0, help="requests of each kind for the model")
    parser.add_argument("--work", type=Path, help="keep libraries and indexes here")
    parser.add_argument("--results", type=Path)
    args = parser.parse_args(arguments)
    choose = choice_of(args.ask) if args.ask else None
    collections = [load_collection(folder) for folder in args.collections]
    agent = [load_collection(folder) for folder in args.agent]
    fillers = real_collections.documents(args.fillers)
    path = real_collections.REQUESTS / "nothing.jsonl"
    ordinary = [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()]
    libraries = [
        draw(int(size), collections, agent, fillers, ordinary, args.requests)
        for size in args.sizes.split(",")
    ]
    report: Report = {
        "machine": machine(),
        "counted_by": COUNTED_BY,
        "window": WINDOW,
        "timed": args.timed,
        "libraries": [],
    }

    def save() -> None:
        if args.results:
            save_report(report, args.results)

    with (
        tempfile.TemporaryDirectory() as temporary,
        tempfile.TemporaryDirectory(prefix="ss") as runtime,  # a socket needs a short path
    ):
        work = (args.work or Path(temporary)).absolute()
        home = {"HOME": str(work / "home"), "XDG_RUNTIME_DIR": runtime}
        (work / "home").mkdir(parents=True, exist_ok=True)
        with patch.dict(os.environ, home):
            run_command("daemon", "start")
            try:
                asyncio.run(measure(libraries, work, report, save, choose))
            finally:
                run_command("daemon", "stop")
    print(counts.table(report))


if __name__ == "__main__":
    main()
