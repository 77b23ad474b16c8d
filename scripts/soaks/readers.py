"""Processes that search an index while another writes it, and check every answer.

Half of the readers open the index anew every few searches and now and then refresh it themselves;
the other half keep it open as the daemon does, and take up a new generation when they see one. All
of an index is read when it is opened, and once more before it is given up: it must be one state
that was on disk, the same both times. One skill is asked for in every way there is, and what other
searches give is compared with what was read. A warning counts as an error: a reader is not to find
the index damaged.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from skillsearch.daemon.answers import WarmIndexes
from skillsearch.index.skill_index import SkillIndex
from soaks.states import (
    BUILD,
    Contents,
    Skills,
    command_of,
    percentiles,
    run_here,
    search_faults,
    skills_lock,
    timed,
)

SEARCHES = 5
"""Searches before an index is opened anew."""
REFRESHED = 0.1
"""Share of the openings after which a reader refreshes the index itself."""
CHANGED_AT_ONCE = 20
MAX_FAULTS = 20
_SCRIPT = Path(__file__).resolve().parents[1] / "soak_index.py"
_END_S = 120.0


@dataclass
class Findings:
    """What came of a reader.

    Attributes:
        faults: What was wrong.
        search_ms: How long each search took.
        open_ms: How long each opening took.
        generations: The digest of each generation seen.
    """

    faults: list[str] = field(default_factory=list)
    search_ms: list[float] = field(default_factory=list)
    open_ms: list[float] = field(default_factory=list)
    generations: dict[str, str] = field(default_factory=dict)


@dataclass
class Reader:
    """A reader at work.

    Attributes:
        work: Folder of the skills, the index, and the list of states.
        rng: Decides what is searched for.
        findings: What came of it so far.
    """

    work: Path
    rng: random.Random
    findings: Findings = field(default_factory=Findings)
    _contents: Contents | None = None
    _read: str = ""

    def open_anew(self) -> None:
        """Open the index as a new process does, search, maybe refresh it, search."""
        index = timed(self.findings.open_ms, lambda: SkillIndex.open(self.work / "index"))
        self._read_all(index)
        self._search(index)
        if self.rng.random() < REFRESHED:
            with skills_lock(self.work, fcntl.LOCK_SH):
                index.refresh()
            self._read_all(index)
            self._search(index)
        self._read_again(index)

    def keep_open(self, kept: WarmIndexes, before: SkillIndex | None) -> SkillIndex:
        """Search the index that is kept open; reopen it after a new generation."""
        open_ms = self.findings.open_ms
        index: SkillIndex = timed(open_ms, lambda: kept.get(self.work / "index").index)
        if index is not before:
            if before is not None:
                self._read_again(before)
            self._read_all(index)
        self._search(index)
        return index

    def _read_all(self, index: SkillIndex) -> None:
        """Read all documents; they must be a state that was on disk."""
        contents = self._contents = Contents.of(index)
        self._read = index.generation
        faults, generations = self.findings.faults, self.findings.generations
        faults += contents.faults()
        if generations.setdefault(index.generation, contents.digest) != contents.digest:
            faults.append(f"generation {index.generation} has two contents")
        states = (self.work / "states").read_text(encoding="ascii").split()
        if contents.digest not in states:
            faults.append(f"generation {index.generation} is not a state that was on disk")

    def _read_again(self, index: SkillIndex) -> None:
        """Read all documents of an index that was read when it was opened."""
        if index.generation == self._read and Contents.of(index) != self._contents:
            self.findings.faults.append(f"generation {index.generation} changed while it was open")

    def _search(self, index: SkillIndex) -> None:
        """Search a few times and compare the hits with the documents."""
        assert self._contents
        faults, descriptions = self.findings.faults, self._contents.descriptions
        drawn = self.rng.choices(list(descriptions), k=SEARCHES)
        faults += search_faults(index, self._contents, drawn[0])
        for doc_id in drawn:
            query = " ".join(self.rng.sample(descriptions[doc_id].split(), 5))
            result = timed(self.findings.search_ms, partial(index.search, query, threshold=0.0))
            if not result:
                faults.append(f"{query!r} finds nothing")
            faults += self._contents.hit_faults(repr(query), result)


_WAITING = "another process is writing"
"""Begins the warning of a refresh that waits for the writer, as it should."""


class _Warnings(logging.Handler):
    """Takes warnings as faults, but for one of waiting."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._faults = faults

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what a warning says."""
        message = record.getMessage()
        if not message.startswith(_WAITING):
            self._faults.append(f"warned: {message}")


def read(work: str, number: str, ends_at: str) -> None:
    """Read until the time is over, and print what came of it.

    Args:
        work: Folder of the skills, the index, and the list of states.
        number: Number of the reader; an odd one keeps the index open.
        ends_at: When to end, in seconds of the monotonic clock.
    """
    reader = Reader(Path(work), random.Random(number))
    faults = reader.findings.faults
    logging.getLogger("skillsearch").addHandler(_Warnings(faults))
    kept, index = WarmIndexes(), None
    while time.monotonic() < float(ends_at) and len(faults) < MAX_FAULTS:
        try:
            if int(number) % 2:
                index = reader.keep_open(kept, index)
            else:
                reader.open_anew()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for here
            faults.append(repr(error))
    print(json.dumps(asdict(reader.findings)))


@dataclass
class Writer:
    """The one who changes skills and indexes them.

    Attributes:
        skills: The skills.
        work: Folder of the skills and the index.
        update: The command of an update.
        rng: Decides what is changed.
        faults: What was wrong.
        update_ms: How long each update took.
        generations: The digest of each generation made.
    """

    skills: Skills
    work: Path
    update: str
    rng: random.Random
    faults: list[str] = field(default_factory=list)
    update_ms: list[float] = field(default_factory=list)
    generations: dict[str, str] = field(default_factory=dict)

    def index(self, template: str, before: dict[int, int]) -> None:
        """Run a command that indexes what differs from a state."""
        state = self.skills.state
        changed = {number for number, _ in before.items() ^ state.items()}
        command = command_of(template, self.skills, self.work / "index", changed)
        try:
            report = timed(self.update_ms, lambda: run_here(command))
        except Exception as error:  # noqa: BLE001 - as in `read`
            self.faults.append(f"the writer: {error!r}")
            return
        digest = self.skills.digest(state)
        if self.generations.setdefault(report["generation"], digest) != digest:
            self.faults.append(f"generation {report['generation']} stands for two states")

    def write_until(self, ends_at: float) -> None:
        """Change skills and index them until the time is over."""
        while time.monotonic() < ends_at and not self.faults:
            before = dict(self.skills.state)
            with skills_lock(self.work, fcntl.LOCK_EX):
                self.skills.change(self.rng, CHANGED_AT_ONCE if self.rng.random() < 0.2 else 2)
                self.note_state()
            self.index(self.update, before)

    def note_state(self) -> None:
        """Tell the readers what they may find from now on."""
        with (self.work / "states").open("a", encoding="ascii") as file:
            file.write(f"{self.skills.digest(self.skills.state)}\n")


def soak(
    work: Path, size: int, readers: int, seconds: float, update: str, seed: int
) -> dict[str, Any]:
    """Have readers read while a writer writes.

    Args:
        work: An empty folder.
        size: Skills at first.
        readers: How many processes read.
        seconds: How long.
        update: The command of an update.
        seed: Decides what is changed.

    Returns:
        The result, with faults counted.
    """
    writer = Writer(Skills(work / "skills"), work, update, random.Random(seed))
    for number in range(size):
        writer.skills.put(number, 1)
    writer.note_state()
    writer.index(BUILD, {})
    ends_at = time.monotonic() + seconds
    processes = [start_reader(work, number, ends_at) for number in range(readers)]
    writer.write_until(ends_at)
    return summary(writer, [end_reader(process, writer.faults) for process in processes])


def start_reader(work: Path, number: int, ends_at: float) -> subprocess.Popen[str]:
    """Start a process that reads, with one thread for its sums, as the command line has."""
    command = [sys.executable, str(_SCRIPT), "read", str(work), str(number), str(ends_at)]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=one_thread)


def end_reader(process: subprocess.Popen[str], faults: list[str]) -> Findings:
    """Wait until a reader ends and return what it tells."""
    output, _ = process.communicate(timeout=_END_S)
    if process.returncode:
        faults.append(f"a reader ended with {process.returncode}")
        return Findings()
    return Findings(**json.loads(output))


def summary(writer: Writer, readers: Sequence[Findings]) -> dict[str, Any]:
    """Sum up: reads, generations, times, faults."""
    faults = list(chain(writer.faults, *(reader.faults for reader in readers)))
    seen = {pair for reader in readers for pair in reader.generations.items()}
    faults += torn(seen, writer.generations)
    return {
        "skills": len(writer.skills.state),
        "updates": len(writer.update_ms) - 1,
        "update_ms": percentiles(writer.update_ms[1:]),
        "generations written": len(writer.generations),
        "generations read": len(seen),
        **{
            f"{name} {key}": value
            for name, group in (("opening anew", readers[0::2]), ("kept open", readers[1::2]))
            for key, value in of_readers(group).items()
        },
        "faults": len(faults),
        "first_faults": faults[:5],
    }


def torn(seen: Collection[tuple[str, str]], written: Mapping[str, str]) -> Iterator[str]:
    """Yield the generations that were read in two states, or in another than was written."""
    for name, count in Counter(name for name, _ in seen).items():
        if count > 1:
            yield f"generation {name} was read in two states"
    for name, digest in seen:
        if written.get(name, digest) != digest:
            yield f"generation {name} was read as another state than was written"


def of_readers(readers: Sequence[Findings]) -> dict[str, Any]:
    """Sum up readers of one kind."""
    searches = list(chain.from_iterable(reader.search_ms for reader in readers))
    openings = list(chain.from_iterable(reader.open_ms for reader in readers))
    return {
        "readers": len(readers),
        "searches": len(searches),
        "search_ms": percentiles(searches),
        "open_ms": percentiles(openings),
    }
