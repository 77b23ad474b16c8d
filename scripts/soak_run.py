"""Run commands of skills by the hundred while their callers are killed, and look for what is left.

Usage: python scripts/soak_run.py [--runs 1000] [--executor NAME]... [--json]

For each executor of this machine: the time of ``true``, by the executor alone and as a whole run of
a skill; then runs whose commands fork, daemonise, flood, hang and kill their supervisor, in callers
that are killed (SIGKILL) at random moments. Afterwards there must be no process, no mount and no
workspace of any of them. Exits with 1 if there is.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skillsearch.execution.executors import REGISTRY, executor_statuses, select_executor
from skillsearch.execution.isolation.capture import SUPERVISOR
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.types import Program, RunLimits, RunRequest
from skillsearch.execution.workspaces.workspace import Workspaces

MARK = "3571.25"
"""Seconds that nothing else sleeps for: what is left over is known by its command line."""
COMMANDS = (
    "true",
    "echo 1 > out/one.txt",
    f"sleep {MARK} & sleep 0.02",
    f"(setsid sleep {MARK} >/dev/null 2>&1 &); true",
    f"(setsid bash -c '(setsid sleep {MARK} &) ; sleep {MARK}' &) ; sleep 0.05",
    "head -c 3000000 /dev/zero",
    f"sleep {MARK}",
    f"kill -9 $PPID; sleep {MARK}",
    f"trap '' TERM INT HUP; sleep {MARK}",
)
SHORT = 0.15
"""Seconds that a command may take."""
GRACE_S = 3.0
TIMED = 50


def make_skill(folder: Path) -> Path:
    """Write a small skill."""
    skill = folder / "soak"
    skill.mkdir()
    text = "---\nname: soak\ndescription: Nothing but commands.\n---\n\n# Soak\n"
    (skill / "SKILL.md").write_text(text, encoding="utf-8")
    return skill


def time_true(name: str, folder: Path, runs: int) -> dict[str, float]:
    """Time ``true``, by an executor alone and as a run of a skill."""
    executor = select_executor(name)
    skill = make_skill(folder)
    alone, whole = [], []
    with SkillRunner(executor, workspaces=Workspaces(folder / "timed")) as runner:
        request = RunRequest("soak", skill, ("true",))
        runner.run(request)
        program = Program(("true",), folder, folder, {"PATH": "/usr/local/bin:/usr/bin:/bin"})
        for _ in range(min(TIMED, runs)):
            alone.append(milliseconds(lambda: executor.run(program)))
            whole.append(milliseconds(lambda: runner.run(request)))
    return {
        "true_ms": round(statistics.median(alone), 1),
        "skill_run_true_ms": round(statistics.median(whole), 1),
    }


def milliseconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000


def work(name: str, folder: Path, seed: int) -> None:
    """Run commands until somebody kills us; note each before it begins."""
    chance = random.Random(seed)
    executor = select_executor(name)
    with (folder / "begun").open("a", encoding="utf-8") as log:
        runner = SkillRunner(
            executor, workspaces=Workspaces(folder / "workspaces"), limits=RunLimits(timeout=SHORT)
        )
        while True:
            command = chance.choice(COMMANDS)
            log.write(f"{command}\n")
            log.flush()
            runner.run(RunRequest("soak", folder / "soak", command), f"s{chance.randrange(3)}")


def soak(name: str, folder: Path, runs: int) -> dict[str, Any]:
    """Have commands run by callers that are killed, and count what is left of them."""
    make_skill(folder)
    mounts = count_mounts()
    chance = random.Random(1)
    callers = begun = 0
    while begun < runs:
        callers += 1
        process = subprocess.Popen(
            [sys.executable, __file__, "--worker", name, str(folder), str(callers)]
        )
        time.sleep(chance.uniform(0.3, 3))
        if process.poll() is not None:
            raise SystemExit(f"A caller ended by itself, with {process.returncode}.")
        process.send_signal(signal.SIGKILL)
        process.wait()
        if (folder / "begun").exists():
            begun = len((folder / "begun").read_text(encoding="utf-8").splitlines())
    time.sleep(GRACE_S)
    left: dict[str, Any] = {"processes_left": marked(), "mounts_left": count_mounts() - mounts}
    with Workspaces(folder / "workspaces") as workspaces:
        workspaces.of("the first use sweeps")
    left["workspaces_left"] = sorted(path.name for path in (folder / "workspaces").glob("ws_*"))
    return {"runs": begun, "callers_killed": callers, **left}


def count_mounts() -> int:
    """Count the mounts that this process sees."""
    return len(Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines())


def marked() -> list[str]:
    """Return the command lines of processes that some command started.

    A supervisor counts if the program that started it is gone: another may run commands meanwhile.
    """
    lines = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line = command_line(path)
            parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
            is_left = str(SUPERVISOR) in line and "python" not in command_line(
                Path("/proc", parent)
            )
        except OSError:  # it has ended
            continue
        if MARK in line or is_left:
            lines.append(line)
    return lines


def command_line(process: Path) -> str:
    """Return the command line of a process, a folder of /proc; empty for one of the kernel."""
    text = (process / "cmdline").read_bytes().replace(b"\0", b" ")
    return text.decode("utf-8", "replace").strip()


def main() -> None:
    """Run the soak."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--executor", action="append", choices=list(REGISTRY))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.worker[0], Path(args.worker[1]), int(args.worker[2]))
    available = [status.name for status in executor_statuses() if status.available]
    report = {}
    for name in args.executor or available:
        with tempfile.TemporaryDirectory() as timed, tempfile.TemporaryDirectory() as soaked:
            times = time_true(name, Path(timed), args.runs)
            report[name] = times | soak(name, Path(soaked), args.runs)
    print(json.dumps(report, indent=None if args.json else 1))
    left = ("processes_left", "mounts_left", "workspaces_left")
    if any(row[key] for row in report.values() for key in left):
        sys.exit(1)


if __name__ == "__main__":
    main()
