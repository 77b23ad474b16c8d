"""Run two commands on one index at the same moment, many times: nothing may be lost.

Usage: python scripts/soak_pairs.py [--times N] [--pairs NAME...] [--json]

Both are processes, which import what they need, wait for each other and start together. Each pair
has its own home, index and folders of skills, one skill a folder. Afterwards both must have exited
with 0, the index must hold every root that they added and none that they removed, and each report
must be one that was true when it was made. Exits with 1 and the first faults if it was not so.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex

WAIT_S = 300.0
"""Seconds after which a process hangs, however busy the machine is."""
MODEL = "hashing"
STARTED = """
import pathlib, runpy, sys, time
import skillsearch.cli.app
ready, go = map(pathlib.Path, sys.argv[1:3])
sys.argv[1:3] = []
ready.touch()
while not go.exists():
    time.sleep(0.0005)
runpy.run_module("skillsearch", run_name="__main__", alter_sys=True)
"""


class Pair(NamedTuple):
    """Two commands, what they find, and the trust of each root that the index may hold then.

    A word such as ``{a}`` is a folder of skills. In the order of `outcomes`, the first is expected
    whichever command comes first, further ones if the second is overtaken.
    """

    first: str
    second: str
    outcomes: tuple[Mapping[str, str], ...]
    before: tuple[str, ...] = ("a",)
    prepare: Callable[[Path, Path], None] = lambda folder, index: None


def edit_skill(folder: Path, _index: Path) -> None:
    """Change a skill after it was indexed, so that a query refreshes the index."""
    write_skill(folder / "a", "a-skill", "Waters the plants in the greenhouse.")


def damage_part(_folder: Path, index: Path) -> None:
    """Damage the generation in use, so that both commands find no usable index."""
    (part,) = (index / "generations").glob("*/manifest.json")
    part.write_bytes(b"{}")


def _roots(names: str, **trust: str) -> dict[str, str]:
    return dict.fromkeys(names, "vetted") | trust


PAIRS = {
    "index and index": Pair("index {b} --json", "index {c} --json", (_roots("abc"),)),
    "index and refresh": Pair(
        "index {b} --json", "query greenhouse --json", (_roots("ab"),), prepare=edit_skill
    ),
    "setup and index": Pair(
        "setup --yes --json", "index {b} --json", (_roots("ab", skills="vetted"),)
    ),
    "watch and index": Pair("watch {a} --json", "index {b} --json", (_roots("ab"),)),
    "remove and index": Pair(
        "index --remove {a} --json", "index {c} --json", (_roots("bc"),), before=("a", "b")
    ),
    "first and first": Pair("index {a} --json", "index {b} --json", (_roots("ab"),), before=()),
    "replace and index": Pair(
        "index --replace {b} --json", "index {c} --json", (_roots("bc"), _roots("b"))
    ),
    "trust and index": Pair(
        "index {a} --trust fetched --json", "index {b} --json", (_roots("ab", a="fetched"),)
    ),
    "damage, index and index": Pair(
        "index {b} --json", "index {c} --json", (_roots("abc"),), prepare=damage_part
    ),
}


def write_skill(root: Path, name: str, description: str) -> None:
    """Write a skill below a root."""
    path = root / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: {description}\n---\n# {name}\n", "utf-8")


def run_pair(name: str, folder: Path) -> list[str]:
    """Run a pair once in a new folder, and return what was wrong."""
    pair, index = PAIRS[name], folder / "index"
    home, roots = folder / "home", {key: folder / key for key in "abc"}
    for key, root in {**roots, "skills": home / ".agents" / "skills"}.items():
        write_skill(root, f"{key}-skill", f"Does what {key} is for.")
    if pair.before:
        SkillIndex.from_roots([roots[key] for key in pair.before], index_dir=index, model=MODEL)
        pair.prepare(folder, index)
    commands = [text.format(**roots).split() for text in (pair.first, pair.second)]
    ended = _run_both(commands, folder, _environment(home, index))
    faults = [
        f"{words[0]} exited with {process.returncode}: {process.stderr.strip()[-300:]}"
        for words, process in zip(commands, ended, strict=True)
        if process.returncode
    ]
    if faults:
        return faults
    reports = [json.loads(process.stdout.splitlines()[0]) for process in ended]
    return [
        *_index_faults(pair, index),
        *chain.from_iterable(map(_report_faults, commands, reports)),
        *_unsaid(pair, reports, index),
    ]


def _environment(home: Path, index: Path) -> dict[str, str]:
    """Return the variables of a command with a home and an index of its own."""
    xdg = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
    ours = {"INDEX_DIR": str(index), "MODEL": MODEL, "DAEMON": "off", "READER": "off"}
    ours = {f"SKILLSEARCH_{name}": value for name, value in ours.items()}
    return os.environ | xdg | ours | {"HOME": str(home)}


def _run_both(
    commands: list[list[str]], folder: Path, environment: Mapping[str, str]
) -> list[subprocess.CompletedProcess[str]]:
    """Start two commands at the same moment, and run them to their ends."""
    processes = [_start(words, folder, n, environment) for n, words in enumerate(commands)]
    watch, other = processes
    try:
        _await(lambda: all((folder / f"ready-{n}").exists() for n in range(2)), processes)
        (folder / "go-0").touch()
        line = _seen_by_watch(watch, folder) if commands[0][0] == "watch" else ""
        (folder / "go-1").touch()
        if line:
            other.wait(WAIT_S)
            _await(lambda: "greenhouse" in _described(folder / "index"), [watch])
            watch.send_signal(signal.SIGTERM)
        outputs = [process.communicate(timeout=WAIT_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [
        subprocess.CompletedProcess(process.args, process.returncode, start + output, errors)
        for process, start, (output, errors) in zip(processes, (line, ""), outputs, strict=True)
    ]


def _start(
    words: list[str], folder: Path, number: int, environment: Mapping[str, str]
) -> subprocess.Popen[str]:
    marks = [str(folder / f"ready-{number}"), str(folder / f"go-{number}")]
    command = [sys.executable, "-c", STARTED, *marks, *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=environment, cwd=folder
    )


def _await(is_so: Callable[[], bool], processes: list[subprocess.Popen[str]]) -> None:
    """Wait until something is so; a RuntimeError if a process ends or hangs instead."""
    ends = time.monotonic() + WAIT_S
    while not is_so():
        ended = [process for process in processes if process.poll() is not None]
        if ended or time.monotonic() > ends:
            raise RuntimeError(f"it failed or hangs: {[end.communicate()[1] for end in ended]}")
        time.sleep(0.002)


def _seen_by_watch(watch: subprocess.Popen[str], folder: Path) -> str:
    """Change a skill once a watch has indexed, and return what it printed."""
    assert watch.stdout is not None
    line = watch.stdout.readline()
    edit_skill(folder, folder)
    return line


def _described(index: Path) -> str:
    return " ".join(document.description for document in SkillIndex.open(index).documents())


def _trusts(index: SkillIndex) -> dict[str, str]:
    """Return the trust of each root that an index holds, by the name of its folder."""
    return {root.path.name: root.trust for root in index.opened.settings.roots}


def _index_faults(pair: Pair, folder: Path) -> list[str]:
    """Return what is wrong with an index."""
    index, faults = SkillIndex.open(folder), []
    trusts = _trusts(index)
    requested = _names(IndexRequest.load(folder).named)  # type: ignore[union-attr]
    skills = {document.name for document in index.documents()}
    if trusts not in pair.outcomes:
        faults.append(f"the index holds {trusts}, not {pair.outcomes[0]}")
    if requested != set(trusts):
        faults.append(f"the index holds {sorted(trusts)}, and is to hold {sorted(requested)}")
    if skills != {f"{key}-skill" for key in trusts}:
        faults.append(f"the index holds {sorted(skills)} of {sorted(trusts)}")
    return faults


def _report_faults(words: list[str], report: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with what a command reported of its roots, if it is ``index``."""
    if words[0] != "index":
        return []
    faults, roots = [], [Path(root).name for root in report["roots"]]
    if report["indexed"] != len(roots):
        faults.append(f"{report['indexed']} skills were reported of {roots}")
    removed = words[2:3] if "--remove" in words else []
    kept = _names(word for word in words if word.startswith("/")) - _names(removed)
    if not kept <= set(roots):
        faults.append(f"{words} reported {roots}")
    return faults


def _unsaid(pair: Pair, reports: Iterable[Mapping[str, Any]], folder: Path) -> list[str]:
    """Return the roots that the index lacks though no command reported that they left."""
    lost = set(pair.outcomes[0]) - set(_trusts(SkillIndex.open(folder)))
    left = _names(root for report in reports for root in report.get("left", ()))
    return [f"nobody said that {key} left" for key in sorted(lost - left)]


def _names(folders: Iterable[str | Path]) -> set[str]:
    return {Path(folder).name for folder in folders}


def run_pairs(name: str, times: int) -> list[str]:
    """Run a pair some times, and return what was wrong, the number of the run before it."""
    faults = []
    for number in range(times):
        with tempfile.TemporaryDirectory() as folder:
            faults += [f"{name}, {number}: {fault}" for fault in run_pair(name, Path(folder))]
    return faults


def main() -> None:
    """Run the pairs and report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--pairs", nargs="+", choices=PAIRS, default=list(PAIRS), metavar="NAME")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    faults = {name: run_pairs(name, args.times) for name in args.pairs}
    first_faults = [faults_of_pair[0] for faults_of_pair in faults.values() if faults_of_pair]
    if args.json:
        counts = {name: len(faults_of_pair) for name, faults_of_pair in faults.items()}
        print(json.dumps({"runs": args.times, "faults": counts, "first_faults": first_faults}))
    else:
        summary = f"{len(faults)} pairs, {args.times} times each: nothing lost"
        print("\n".join(first_faults) or summary)
    sys.exit(bool(first_faults))


if __name__ == "__main__":
    main()
