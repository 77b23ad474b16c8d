"""Writers of an index that are killed, and what the index must be after each.

A writer is killed after a random time, or at a random step: just before it opens, renames or
removes something in the folder of the index. The index must then be the state before or the one
after, whole, whichever way it is searched; if no build ever finished, it must say so. A
run that ends afterwards leaves nothing behind of those killed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from skillsearch.daemon.answers import WarmIndexes
from skillsearch.errors import IndexNotFoundError, SkillSearchError
from skillsearch.index.skill_index import SkillIndex
from soaks.states import (
    BUILD,
    Contents,
    Skills,
    State,
    command_of,
    folder_bytes,
    index_faults,
    run_here,
    temporary_files,
)

SCRIPT = Path(__file__).resolve().parents[1] / "soak_index.py"
CHANGED_AT_ONCE = 20
GROWTH = 4
SLACK_BYTES = 16 << 20
"""The folder may hold so many times what it held after the first build, and this. Two generations
are kept, and twice the vectors in use."""
GRACE_S = 5.0


class Finished(NamedTuple):
    """What a command did that ended: its steps, and how many texts it embedded."""

    steps: list[str]
    seconds: float
    embedded: int


def write(die_at: int, index_dir: str, *command: str) -> None:
    """Run a command, counting the steps it takes in the index folder; be killed before one.

    Args:
        die_at: The step, from 1; 0 to live.
        index_dir: Folder of the index.
        *command: What to run.
    """
    steps: list[str] = []

    def count(event: str, values: tuple[Any, ...]) -> None:
        """Count an event if it is a step."""
        if is_step(event, values, index_dir):
            steps.append(event)
            if len(steps) == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

    print("begun", flush=True)
    started = time.perf_counter()
    sys.addaudithook(count)
    report = run_here(command)
    seconds = time.perf_counter() - started
    print(json.dumps(Finished(steps, seconds, report["embedded"])))


def is_step(event: str, values: tuple[Any, ...], index_dir: str) -> bool:
    """Return whether an audit event changes something in a folder."""
    if event in ("os.remove", "os.rmdir"):  # `shutil.rmtree` names what it removes without a folder
        return True
    if event not in ("open", "os.rename", "os.mkdir", "os.truncate", "os.link"):
        return False
    if not isinstance(values[0], str | os.PathLike) or not os.fspath(values[0]).startswith(
        index_dir
    ):
        return False
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    return event != "open" or bool(set(values[1] or "") & set("wax+") or values[2] & writing)


@dataclass
class Writer:
    """Runs commands in processes of their own, to their end or to a sudden one.

    Attributes:
        index_dir: Folder of the index.
        faults: What was wrong.
        usual: The last run of each kind that ended.
        errors: Lines that the runs wrote on stderr.
    """

    index_dir: Path
    rng: random.Random
    faults: list[str] = field(default_factory=list)
    usual: dict[str, Finished] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def finish(self, kind: str, command: Sequence[str]) -> Finished:
        """Run a command to its end."""
        finished = self._run(command)
        if finished is None:
            raise SystemExit(f"{' '.join(command)} failed: {self.errors[-1:]}")
        self.usual[kind] = finished
        return finished

    def attack(self, kind: str, command: Sequence[str]) -> str:
        """Run a command and kill it; return how, or nothing if it had ended."""
        usual = self.usual[kind]
        if self.rng.random() < 0.5:
            # Opening is the most common step; renaming is where things go wrong.
            event = self.rng.choice(sorted(set(usual.steps)))
            numbers = [number for number, step in enumerate(usual.steps, 1) if step == event]
            finished = self._run(command, die_at=self.rng.choice(numbers))
            how = "step"
        else:
            finished = self._run(command, seconds=self.rng.uniform(0, usual.seconds))
            how = "time"
        if finished is None:
            return how
        self.usual[kind] = finished
        return ""

    def _run(
        self, command: Sequence[str], *, die_at: int = 0, seconds: float | None = None
    ) -> Finished | None:
        """Run a command; return what it did, or None if it was killed."""
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(
                [sys.executable, str(SCRIPT), "write", str(die_at), str(self.index_dir), *command],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
            assert process.stdout
            process.stdout.readline()
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
            output, _ = process.communicate()
            errors.seek(0)
            self.errors += errors.read().splitlines()
        self._end_children(process.pid)
        if process.returncode not in (0, -signal.SIGKILL):
            self.faults.append(f"{' '.join(command)} ended with {process.returncode}")
        return None if process.returncode else Finished(*json.loads(output))

    def _end_children(self, group: int) -> None:
        """Look for processes that outlive their writer."""
        ends_at = time.monotonic() + GRACE_S
        try:
            while time.monotonic() < ends_at:
                os.killpg(group, 0)
                time.sleep(0.05)
            self.faults.append("a killed writer left processes behind")
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            return


@dataclass
class KillSoak:
    """A soak by killing.

    Attributes:
        skills: The skills on disk.
        writer: What indexes them.
        update: The command of an update.
        counts: How often what happened.
    """

    skills: Skills
    writer: Writer
    update: str
    rng: random.Random
    counts: Counter[str] = field(default_factory=Counter)

    def run(self, kills: int) -> None:
        """Kill so many builds and updates together, and have what was killed ended."""
        self._kill_builds(kills // 2)
        known = dict(self.skills.state)
        self.skills.change(self.rng, 1)
        known = self._finish_update(known)
        before = self.counts["killed"]
        while self.counts["killed"] < before + kills - kills // 2:
            self.skills.change(self.rng, CHANGED_AT_ONCE if self.rng.random() < 0.3 else 1)
            self._attack("update", self._update_command(known))
            known = self._check([known, dict(self.skills.state)]) or known
            if self.rng.random() < 0.5:
                known = self._finish_update(known)
        self._finish_update(known)

    def _kill_builds(self, kills: int) -> None:
        """Kill first builds, those that begin anew and those that go on."""
        index_dir = self.writer.index_dir
        command = command_of(BUILD, self.skills, index_dir, ())
        first = self.writer.finish("fresh", command)
        self.writer.usual["resumed"] = first
        self.counts["folder bytes after a build"] = folder_bytes(index_dir)
        shutil.rmtree(index_dir)
        while self.counts["killed"] < kills:
            self._attack("resumed" if index_dir.exists() else "fresh", command)
            if self._check([dict(self.skills.state)], may_be_absent=True):
                shutil.rmtree(index_dir)
        last = self.writer.finish("resumed", command)
        self.counts["steps of a build"] = len(first.steps)
        self.counts["texts to embed"] = first.embedded
        self.counts["texts left to embed when resumed"] = last.embedded
        self._check([dict(self.skills.state)])

    def _attack(self, kind: str, command: Sequence[str]) -> None:
        """Kill a command, and count it."""
        how = self.writer.attack(kind, command)
        name = "update" if kind == "update" else "build"
        self.counts[f"{name}s killed by {how}" if how else f"{name}s that ended before"] += 1
        self.counts["killed"] += bool(how)

    def _update_command(self, known: State) -> list[str]:
        """Return the command that indexes what differs from what is indexed."""
        now = self.skills.state
        changed = {number for number, _ in known.items() ^ now.items()}
        return command_of(self.update, self.skills, self.writer.index_dir, changed)

    def _finish_update(self, known: State) -> State:
        """Have an update ended; return what must be indexed now."""
        litter = temporary_files(self.writer.index_dir)
        self.writer.finish("update", self._update_command(known))
        self.counts["updates that ended"] += 1
        self._check([dict(self.skills.state)])
        for path in litter & temporary_files(self.writer.index_dir):
            self.writer.faults.append(f"{path.name} of a killed writer was not removed")
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self._look_for_growth()
        return dict(self.skills.state)

    def _check(self, allowed: Sequence[State], *, may_be_absent: bool = False) -> State | None:
        """Open the index and search it; return the state that it is in."""
        index = self._open(may_be_absent=may_be_absent)
        if index is None:
            return None
        contents = Contents.of(index)
        states = (state for state in allowed if self.skills.digest(state) == contents.digest)
        state = next(states, None)
        if state is None:
            self.writer.faults.append(
                f"generation {index.generation} is none of {len(allowed)} states"
            )
            return None
        pairs = {pair for other in allowed for pair in other.items()} - state.items()
        gone = [self.skills.text(number, version) for number, version in pairs]
        self.writer.faults += index_faults(index, contents, self.rng, gone)
        if len(allowed) > 1:
            self.counts["found " + ("new" if state == allowed[-1] else "old")] += 1
        return state

    def _open(self, *, may_be_absent: bool) -> SkillIndex | None:
        """Open the index; note if that goes wrong."""
        index_dir, faults = self.writer.index_dir, self.writer.faults
        try:
            return WarmIndexes().get(index_dir).index
        except IndexNotFoundError:
            self.counts["no index yet"] += 1
            if not may_be_absent:
                faults.append("the index is gone")
            elif not is_absent(index_dir):
                faults.append("two ways to open an index differ in whether there is one")
        except (SkillSearchError, OSError) as error:
            faults.append(f"the index cannot be opened: {error!r}")
        return None

    def _look_for_growth(self) -> None:
        """Compare the size of the folder with that after the first build."""
        size = folder_bytes(self.writer.index_dir)
        self.counts["most folder bytes"] = max(self.counts["most folder bytes"], size)
        if size > GROWTH * self.counts["folder bytes after a build"] + SLACK_BYTES:
            self.writer.faults.append(f"the folder has grown to {size:,} bytes")


def is_absent(index_dir: Path) -> bool:
    """Return whether opening reports a missing index."""
    try:
        SkillIndex.open(index_dir)
    except IndexNotFoundError:
        return True
    return False


def soak(work: Path, size: int, kills: int, update: str, seed: int) -> dict[str, Any]:
    """Kill writers.

    Args:
        work: An empty folder.
        size: Skills at first.
        kills: How many, half of them of first builds.
        update: The command of an update.
        seed: Decides when to kill, and what is changed.

    Returns:
        The result, with faults counted.
    """
    rng = random.Random(seed)
    skills = Skills(work / "skills")
    for number in range(size):
        skills.put(number, 1)
    writer = Writer(work / "index", rng)
    killing = KillSoak(skills, writer, update, rng)
    started = time.monotonic()
    killing.run(kills)
    return {
        "skills": size,
        "seconds": round(time.monotonic() - started),
        **killing.counts,
        "said": dict(Counter(writer.errors).most_common(5)),
        "faults": len(writer.faults),
        "first_faults": writer.faults[:5],
    }
