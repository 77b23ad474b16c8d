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
from collections.abc import Callable, Mapping
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
    home, places = folder / "home", {key: folder / key for key in "abc"}
    for key, root in {**places, "skills": home / ".agents" / "skills"}.items():
        write_skill(root, f"{key}-skill", f"Does what {key} is for.")
    if pair.before:
        SkillIndex.from_roots([places[key] for key in pair.before], index_dir=index, model=MODEL)
        pair.prepare(folder, index)
    xdg = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
    ours = {"INDEX_DIR": str(index), "MODEL": MODEL, "DAEMON": "off", "READER": "off"}
    environment = os.environ | xdg | {f"SKILLSEARCH_{key}": text for key, text in ours.items()}
    environment |= {"HOME": str(home)}
    commands = [text.format(**places).split() for text in (pair.first, pair.second)]
    processes = [_start(words, folder, str(n), environment) for n, words in enumerate(commands)]
    try:
        _await(lambda: all((folder / f"ready-{n}").exists() for n in range(2)), processes)
        (folder / "go-0").touch()
        said = _seen_by_watch(processes[0], folder) if commands[0][0] == "watch" else ""
        (folder / "go-1").touch()
        if said:
            processes[1].wait(WAIT_S)
            _await(lambda: "greenhouse" in _described(folder / "index"), processes[:1])
            processes[0].send_signal(signal.SIGTERM)
        outputs = [process.communicate(timeout=WAIT_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    faults = [
        f"{words[0]} exited with {process.returncode}: {errors.strip()[-300:]}"
        for words, process, (_, errors) in zip(commands, processes, outputs, strict=True)
        if process.returncode
    ]
    if faults:
        return faults
    printed = [said + outputs[0][0], outputs[1][0]]
    return _faults(pair, commands, [json.loads(text.splitlines()[0]) for text in printed], index)


def _start(
    words: list[str], folder: Path, number: str, environment: Mapping[str, str]
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


def _faults(
    pair: Pair, commands: list[list[str]], reports: list[dict[str, Any]], folder: Path
) -> list[str]:
    """Return what is wrong with an index and with what was said of it."""
    index, faults = SkillIndex.open(folder), []
    held = {root.path.name: root.trust for root in index.opened.settings.roots}
    asked = {Path(root).name for root in IndexRequest.load(folder).named}  # type: ignore[union-attr]
    names = {document.name for document in index.documents()}
    if held not in pair.outcomes:
        faults.append(f"the index holds {held}, not {pair.outcomes[0]}")
    if asked != set(held):
        faults.append(f"the index holds {sorted(held)}, and is to hold {sorted(asked)}")
    if names != {f"{key}-skill" for key in held}:
        faults.append(f"the index holds {sorted(names)} of {sorted(held)}")
    for words, report in zip(commands, reports, strict=True):
        if words[0] == "index":
            roots = [Path(root).name for root in report["roots"]]
            if report["indexed"] != len(roots):
                faults.append(f"{report['indexed']} skills were reported of {roots}")
            gone = words[2:3] if "--remove" in words else []
            named = {Path(word).name for word in words if word.startswith("/")} - {
                Path(word).name for word in gone
            }
            if not named <= set(roots):
                faults.append(f"{words} reported {roots}")
    lost = set(pair.outcomes[0]) - set(held)
    left = {Path(root).name for report in reports for root in report.get("left", ())}
    return faults + [f"nobody said that {key} left" for key in sorted(lost - left)]


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
    first = [some[0] for some in faults.values() if some]
    if args.json:
        counts = {name: len(some) for name, some in faults.items()}
        print(json.dumps({"runs": args.times, "faults": counts, "first_faults": first}))
    else:
        print("\n".join(first) or f"{len(faults)} pairs, {args.times} times each: nothing lost")
    sys.exit(bool(first))


if __name__ == "__main__":
    main()
