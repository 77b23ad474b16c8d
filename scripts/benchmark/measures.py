"""Measure commands as whole processes, calls of the own thread, and the folder of an index."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmark.rows import Calls, Cost, Machine

CHECKOUT = Path(__file__).resolve().parents[2]
COLD_RUNS = 5
WARM_ROUNDS = 5
PARTS = ("documents", "lexical", "dense", "chunk", "snapshot")
"""For each part of an index, the prefixes of its files' names."""

LAUNCHER = """
import json, os, sys, time
started = time.perf_counter()
pid = os.posix_spawn(sys.executable, [sys.executable, "-m", "skillsearch", *sys.argv[2:]],
    os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, sys.argv[1],
        os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)])
_, status, usage = os.wait4(pid, 0)
wall = time.perf_counter() - started
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, wall,
    usage.ru_maxrss / 1024]))
"""
"""Starts a command from a small process: the kernel counts the size of whoever starts a program as
the program's own peak."""


def run_command(*args: str, output: str = "/dev/null", stdin: str = "") -> Cost:
    """Run the command line in a separate process.

    Args:
        *args: The command and its arguments.
        output: File for its stdout.
        stdin: What it reads.

    Returns:
        CPU seconds, wall time and peak RSS.
    """
    launched = subprocess.run(
        [sys.executable, "-S", "-E", "-c", LAUNCHER, output, *args],
        input=stdin.encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    code, cpu, wall, rss = json.loads(launched.stdout)
    if code:
        raise SystemExit(f"skillsearch {' '.join(args)} ended with {code}")
    return {"cpu_s": cpu, "wall_s": wall, "rss_mb": rss}


def median_of(runs: Sequence[Cost]) -> Cost:
    """Return the median of each figure of several runs."""
    return {
        "cpu_s": statistics.median(run["cpu_s"] for run in runs),
        "wall_s": statistics.median(run["wall_s"] for run in runs),
        "rss_mb": statistics.median(run["rss_mb"] for run in runs),
    }


def repeat_command(*args: str, stdin: str = "") -> Cost:
    """Run a command several times; return the median of each figure."""
    return median_of([run_command(*args, stdin=stdin) for _ in range(COLD_RUNS)])


def import_seconds(module: str) -> float:
    """Return the CPU seconds of a process that imports a module: they tell machines apart."""
    code = f"import {module}, time; print(time.process_time())"
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, capture_output=True, check=True) for _ in range(COLD_RUNS)]
    return statistics.median(float(run.stdout) for run in runs)


def commit() -> str:
    """Return the short name of the commit that is measured, with a + if files differ from it."""
    git = ["git", "-C", str(Path(__file__).parent)]
    name, changes = (
        subprocess.run([*git, *words], capture_output=True, text=True).stdout.strip()
        for words in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain"])
    )
    return name + ("+" if changes else "")


def machine() -> Machine:
    """Return what was measured and when, and what tells how fast this machine is."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit(),
        "cpus": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "python": platform.python_version(),
        "import_numpy_cpu_s": import_seconds("numpy"),
    }


def save_report(report: Mapping[str, object], path: Path) -> None:
    """Write a report that says on which machine, at which commit and when it was measured."""
    record = report if "machine" in report else {"machine": machine(), **report}
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def time_calls(
    call: Callable[[str], object], texts: Sequence[str], rounds: int = WARM_ROUNDS
) -> Calls:
    """Time a call over all texts, warmed up; milliseconds of CPU and wall time."""
    for text in texts:
        call(text)
    cpu, wall = [], []
    for text in [*texts] * rounds:
        cpu_before, wall_before = time.thread_time(), time.perf_counter()
        call(text)
        cpu.append(1000 * (time.thread_time() - cpu_before))
        wall.append(1000 * (time.perf_counter() - wall_before))
    cpu_cuts, wall_cuts = (statistics.quantiles(values, n=100) for values in (cpu, wall))
    return {
        "cpu_ms": statistics.median(cpu),
        "cpu_ms_p95": cpu_cuts[94],
        "cpu_ms_p99": cpu_cuts[98],
        "wall_ms": statistics.median(wall),
        "wall_ms_p90": wall_cuts[89],
        "wall_ms_p95": wall_cuts[94],
        "wall_ms_p99": wall_cuts[98],
    }


def disk_bytes(index_dir: Path) -> dict[str, int]:
    """Return the bytes of each part of an index, in all generations, shared files once."""
    sizes: Counter[str] = Counter(dict.fromkeys((*PARTS, "other"), 0))
    seen = set()
    for path in sorted(index_dir.rglob("*")):
        status = path.stat()
        if path.is_dir() or status.st_ino in seen:
            continue
        seen.add(status.st_ino)
        name = path.name.removeprefix("delta-")
        sizes[next((part for part in PARTS if name.startswith(part)), "other")] += status.st_size
    return dict(sizes)


def available_memory() -> int:
    """Return the bytes that can still be used, or more than any if nothing tells."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return sys.maxsize
    return 1024 * int(line.split()[1])
