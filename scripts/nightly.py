"""Run what takes too long for each change: tests, soaks, mutations, attacks and the comparison.

Usage: python scripts/nightly.py [--quick] [--steps NAME...] [--results DIR] [--work DIR]

Each step is another script or pytest, in a process of its own. It fails if that does, if it takes
too long, or if attackers gain more than `GAIN`. What was measured goes into one file of the
results, named by the day, which steps run later that day join, and a plot shows how it went over
the days. Exits with 1 if a step failed, and says which and why. ``--quick`` tries everything small,
within minutes; its files are named so.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, TypedDict

import steps
from benchmark.measures import machine
from benchmark.plots import DPI, OURS, STYLE
from benchmark.rows import Machine
from compare import WRITTEN
from matplotlib import style
from matplotlib.figure import Figure
from steps import SCRIPTS, Step, last_line

from skillsearch.evaluation.collection import EXAMPLE, load_collection

GAIN = 0.2
"""Share of the first fives that attackers surely gain, above which their step fails."""
TIMEOUT_S, QUICK_TIMEOUT_S = 4 * 3600, 900


class StepResult(TypedDict):
    """How long a step took, why it failed (empty if it did not), and the figures of its report."""

    seconds: int
    fault: str
    found: dict[str, Any]


class Night(Machine):
    """What one file of the results holds."""

    steps: dict[str, StepResult]


# `{json}` is a file for a report, which is printed otherwise; `{ordinary}`, one of skills that are
# not among those attacked; `{work}`, a folder that may be kept.
STEPS = {
    "tests": Step(
        "-m pytest -q -n auto --dist worksteal",
        "-m 'night or slow' tests",
        "-m night tests/hosts tests/cli/test_find.py",
    ),
    "kills": Step("soak_index.py kill --json", "--size 20000", "--size 40 --kills 2"),
    "readers": Step(
        "soak_index.py readers --json", "--seconds 300", "--size 200 --seconds 15 --readers 2"
    ),
    "pairs": Step("soak_pairs.py --json", "--times 20", "--times 1"),
    "mcp": Step("soak_mcp.py", "--minutes 10", "--minutes 0.5 --clients 2"),
    "run": Step("soak_run.py --json", "--runs 1000", "--runs 4 --executor local"),
    "mutations": Step("mutate.py --json --seed {seed}", "--count 60", "--count 4"),
    "attacks": Step(
        "attack.py {example} --ordinary {ordinary} --json {json} --trust fetched",
        "--attackers 100 --kinds none ordinary stuffing triggers hidden copies manner embedder "
        "adaptive",
        "--attackers 20 --queries 40 --kinds none ordinary stuffing --reader off",
    ),
    "compare": Step(
        "compare.py --json {json} --work {work}",
        "",
        "--peers skillsearch rank-bm25 --collections {example}",
    ),
}
HISTORY = {
    "nDCG@10": "compare.{collection}.skillsearch.ndcg.0",
    "recall at 5 % false answers": "compare.{collection}.skillsearch.kept.0",
    "cold query, CPU s": "compare.{collection}.skillsearch.cold_cpu_s",
    "memory, MB": "compare.{collection}.skillsearch.rss_mb",
    "mutants noticed": "mutations.noticed",
    "most that attackers gain": "attacks.worst_gain",
    "MCP search, p95 ms": "mcp.p95_ms.search_skills",
    "search while written, p50 ms": "readers.kept open search_ms.p50",
}


def figures(report: object, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of a report by their keys, such as ``p95_ms.search_skills``."""
    if isinstance(report, Mapping):
        parts: Iterator[tuple[Any, Any]] = iter(report.items())
    elif isinstance(report, Sequence) and not isinstance(report, str):
        parts = enumerate(report)
    else:
        if isinstance(report, int | float):
            yield path, round(float(report), 4)
        return
    for key, part in parts:
        yield from figures(part, f"{path}.{key}" if path else str(key))


def summed_up(step: str, report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of a report."""
    if step == "compare":
        failed = {
            name: row["failed"]
            for rows in report["collections"].values()
            for name, row in rows.items()
            if "failed" in row
        }
        return {**dict(figures(report["collections"])), **({"failed": failed} if failed else {})}
    if step == "attacks":
        gains = [row for row in report["attacks"] if "gain" in row]
        kept = {row["kind"]: [row["gain"], *row["gain_interval"]] for row in gains}
        worst = max((row["gain"] for row in gains), default=0.0)
        return {"worst_gain": worst, **dict(figures(kept))}
    named = {key: report[key] for key in ("survivors", "first_faults") if report.get(key)}
    return {**dict(figures(report)), **named}


def counted(output: str) -> dict[str, int]:
    """Return how many tests passed, failed or were skipped, from the last line of pytest."""
    counts = re.findall(r"(\d+) (passed|failed|skipped|errors?)", last_line(output))
    return {outcome.removesuffix("s"): int(count) for count, outcome in counts}


def fault(step: str, code: int, output: str, errors: str, kept: Mapping[str, Any]) -> str:
    """Return why a step failed, empty if it did not."""
    if code:
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
        reason = failed or kept.get("survivors") or last_line(errors) or last_line(output)
        name = STEPS[step].script.removeprefix("-m ").split()[0]
        return f"{name} ended with {code}: {reason}"
    lows = {key: kept[key] for key in kept if step == "attacks" and key.endswith(".1")}
    over = [f"{key[:-2]} {low:+.2f}" for key, low in lows.items() if low > GAIN]
    return f"attackers surely gain more than {GAIN}: {', '.join(over)}" if over else ""


def carry_out(step: str, words: Sequence[str], report: Path, timeout: float) -> StepResult:
    """Run a step."""
    code, output, errors, seconds = steps.run(words, timeout)
    if code is None:
        return {"seconds": seconds, "fault": f"not done within {timeout:g} s", "found": {}}
    try:
        text = report.read_text("utf-8") if report.exists() else output
        kept = counted(output) if step == "tests" else summed_up(step, json.loads(text))
    except ValueError:
        kept = {}
    reason = fault(step, code, output, errors, kept) or ("" if kept else "no report")
    return {"seconds": seconds, "fault": reason, "found": kept}


def write_ordinary(path: Path) -> None:
    """Write skills that the examples lack, those of the written collection."""
    taken = {document.doc_id for document in load_collection(EXAMPLE).documents}
    written = load_collection(WRITTEN).documents if WRITTEN.is_dir() else ()
    rows = (
        {"name": document.name, "description": document.description, "body": document.body}
        for document in written
        if document.doc_id not in taken
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def plot(files: Sequence[Path], path: Path) -> None:
    """Draw each figure of the history over the days."""
    nights: list[Night] = [json.loads(file.read_bytes()) for file in files]
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(10, 5), layout="constrained")
        for axes, (title, key) in zip(figure.subplots(2, 4).flat, HISTORY.items(), strict=True):
            step, _, name = key.replace("{collection}", WRITTEN.name).partition(".")
            values = {
                night["date"]: night["steps"][step]["found"][name]
                for night in nights
                if step in night["steps"] and name in night["steps"][step]["found"]
            }
            if not values:
                axes.axis("off")
                continue
            axes.plot(list(values), list(values.values()), "-o", color=OURS, linewidth=2)
            axes.set_ylim(bottom=min(0, *values.values()))
            axes.set_title(title, fontsize=10)
            axes.tick_params(axis="x", labelrotation=45, labelsize=7)
        figure.savefig(path, dpi=DPI, metadata={"Software": None})


def main() -> None:
    """Run the steps, write the results, tell what failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="try everything small")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS), metavar="NAME")
    parser.add_argument("--results", type=Path, default=SCRIPTS / "results" / "nightly")
    parser.add_argument("--work", type=Path, help="keep the environments of peers here")
    args = parser.parse_args()
    night: Night = {**machine(), "steps": {}}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_ordinary(folder / "ordinary.jsonl")
        for name in args.steps:
            report = folder / f"{name}.json"
            values = {
                "json": report,
                "ordinary": folder / "ordinary.jsonl",
                "work": (args.work or folder / "work").absolute(),
                "example": EXAMPLE,
                "seed": date.fromisoformat(night["date"]).toordinal(),
            }
            words = STEPS[name].words(values, is_quick=args.quick)
            timeout = QUICK_TIMEOUT_S if args.quick else TIMEOUT_S
            night["steps"][name] = result = carry_out(name, words, report, timeout)
            print(f"{name}: {result['fault'] or 'passed'}, {result['seconds']} s", flush=True)
    args.results.mkdir(parents=True, exist_ok=True)
    kind = "-quick" if args.quick else ""
    file = args.results / f"{night['date']}{kind}.json"
    if file.exists():  # other steps were run on the same day
        night["steps"] = json.loads(file.read_bytes())["steps"] | night["steps"]
    file.write_text(json.dumps(night, indent=1) + "\n", encoding="utf-8")
    files = [path for path in sorted(args.results.glob("*.json")) if "quick" not in path.stem]
    plot(files or [file], args.results / f"history{kind}.png")
    sys.exit(any(night["steps"][name]["fault"] for name in args.steps))


if __name__ == "__main__":
    main()
