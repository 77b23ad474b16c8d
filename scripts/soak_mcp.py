"""Load the MCP server over HTTP for minutes, and watch its errors, times and memory.

Usage: python scripts/soak_mcp.py [--minutes 10] [--clients 8] [--skills DIR]

Each client searches, loads, reads files, lists, asks for skills that do not exist and sends
arguments that no tool takes, each in another order. An unexpected error, or a missing one, counts
as an error. Memory is the server's resident set, once a second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mcp import Client

import skillsearch

EXAMPLES = Path(skillsearch.__file__).parent / "examples"
QUERIES = (
    "my pod keeps restarting",
    "turn this table into a chart",
    "fill in the tax form",
    "who won the world cup",
    "发票报销",
)
WARM_UP_S = 20


class Call(NamedTuple):
    """A call of a tool, and whether it is to fail."""

    tool: str
    arguments: dict[str, Any]
    is_to_fail: bool = False


@dataclass
class Soak:
    """What was measured so far."""

    ends_at: float
    seconds: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    resident_mb: list[float] = field(default_factory=list)


@contextmanager
def served(skills: Path, work: Path) -> Iterator[tuple[str, int]]:
    """Serve over HTTP on a free port; yield the URL and the process id."""
    command = [sys.executable, "-m", "skillsearch", "mcp", str(skills)]
    command += ["--index-dir", str(work / "index"), "--http", "127.0.0.1:0"]
    with (work / "log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, stderr=log, text=True)
        try:
            yield wait_for_url(process, work / "log"), process.pid
        finally:
            process.terminate()
            process.wait(timeout=30)


def wait_for_url(process: subprocess.Popen[str], log: Path) -> str:
    """Wait until the server tells its URL."""
    while process.poll() is None:
        if url := re.search(r"http://127\.0\.0\.1:\d+/\S*", log.read_text(encoding="utf-8")):
            return url[0]
        time.sleep(0.1)
    raise SystemExit(f"the server ended: {log.read_text(encoding='utf-8')}")


def draw_call(rng: random.Random) -> Call:
    """Draw a call of any kind."""
    file = {"name": "kubernetes-crashloop", "path": "references/exit-codes.md"}
    outside = {"name": "sql-query-tuning", "path": "../SKILL.md"}
    calls = [
        Call("search_skills", {"query": rng.choice(QUERIES), "n": rng.randint(1, 10)}),
        Call("load_skill", {"name": "kubernetes-crashloop"}),
        Call("read_skill_file", file),
        Call("list_skills", {"n": rng.randint(1, 50)}),
        Call("load_skill", {"name": f"nothing-{rng.randint(0, 99)}"}, is_to_fail=True),
        Call("read_skill_file", outside, is_to_fail=True),
        Call("search_skills", {"query": "x", "n": -1}, is_to_fail=True),
    ]
    return rng.choice(calls)


async def client(url: str, number: int, soak: Soak) -> None:
    """Call tools until the time is over, over a new connection now and then."""
    rng = random.Random(number)
    while time.monotonic() < soak.ends_at:
        async with Client(url) as session:
            for _ in range(rng.randint(20, 200)):
                if time.monotonic() >= soak.ends_at:
                    return
                await call_tool(session, draw_call(rng), soak)


async def call_tool(session: Any, call: Call, soak: Soak) -> None:
    """Call a tool and note how long it took, and whether the answer is of the right kind."""
    tool, arguments, is_to_fail = call
    started = time.perf_counter()
    try:
        answer = await session.call_tool(tool, arguments)
        if bool(answer.is_error) != is_to_fail:
            soak.errors.append(f"{tool} {arguments}: is_error is {answer.is_error}")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is counted here
        soak.errors.append(f"{tool} {arguments}: {error!r}")
    soak.seconds.setdefault(tool, []).append(time.perf_counter() - started)


async def watch_memory(pid: int, soak: Soak) -> None:
    """Note the resident set of a process once a second."""
    while time.monotonic() < soak.ends_at:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        resident = re.search(r"VmRSS:\s+(\d+) kB", status)
        soak.resident_mb.append(int(resident[1]) / 1024 if resident else 0.0)
        await asyncio.sleep(1)


async def run(url: str, pid: int, clients: int, soak: Soak) -> None:
    """Run all clients side by side."""
    await asyncio.gather(
        watch_memory(pid, soak), *(client(url, number, soak) for number in range(clients))
    )


def summary(soak: Soak) -> dict[str, Any]:
    """Sum up: calls, errors, times in milliseconds, memory in MB."""
    warm = soak.resident_mb[WARM_UP_S:] or soak.resident_mb
    half = max(1, len(warm) // 2)
    return {
        "calls": sum(map(len, soak.seconds.values())),
        "errors": len(soak.errors),
        "first_errors": soak.errors[:5],
        "p50_ms": {t: 1000 * statistics.median(s) for t, s in sorted(soak.seconds.items())},
        "p95_ms": {t: 1000 * float(np.percentile(s, 95)) for t, s in sorted(soak.seconds.items())},
        "resident_mb": {
            "first_half": statistics.median(warm[:half]),
            "second_half": statistics.median(warm[half:] or warm),
            "most": max(soak.resident_mb),
        },
    }


def main() -> None:
    """Run the soak and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--skills", type=Path, default=EXAMPLES)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work, served(args.skills, Path(work)) as (url, pid):
        soak = Soak(time.monotonic() + 60 * args.minutes)
        asyncio.run(run(url, pid, args.clients, soak))
    report = summary(soak)
    print(json.dumps(report, indent=1, ensure_ascii=False))
    sys.exit(1 if report["errors"] else 0)


if __name__ == "__main__":
    main()
