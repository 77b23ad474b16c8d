"""Tables of what ``scripts/bench.py`` measured; ``scripts/pages.py`` puts them into pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import markdown_tables

from benchmark.rows import Calls, Cost, ExampleCosts, Ratio, Report, SizeRow, WallTime

_FOLDER = Path(__file__).resolve().parents[1] / "results"
RESULTS, PLOT = _FOLDER / "bench.json", _FOLDER / "growth.png"


class Row(NamedTuple):
    """A row of the table: its name, its cell at a size, and whether the short table has it."""

    name: str
    cell: Callable[[SizeRow], str]
    is_short: bool = False


def _process(run: Cost) -> str:
    """Format CPU seconds and memory of a process."""
    return f"{digits(run['cpu_s'])} s, {run['rss_mb']:,.0f} MB"


def _warm(values: Calls) -> str:
    """Format median and 99th percentile."""
    return f"{digits(values['wall_ms'])}, {digits(values['wall_ms_p99'])} ms"


def _steps(r: SizeRow) -> str:
    """Format the times of the steps of a search."""
    steps = r["warm_query"]["steps_ms"]
    return ", ".join(digits(steps[step]) for step in SHOWN_STEPS) + " ms"


def _ratio(r: SizeRow, name: Ratio) -> str:
    """Format the ratio to our time, if it was measured."""
    return f"{digits(r['bm25'][name])}x" if name in r["bm25"] else "-"


def digits(value: float) -> str:
    """Format a positive number with two digits, or all of its whole ones."""
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


LOADING_TIMES: Sequence[WallTime] = ("wall_ms", "wall_ms_p95")
SHOWN_STEPS = ("lexical", "dense", "features and fusion", "read")
ROWS = (
    Row(
        "cold `query`, reader off: CPU, peak memory",
        lambda r: _process(r["cold_query"]["off"]),
        is_short=True,
    ),
    Row("cold `query`, reader on", lambda r: _process(r["cold_query"]["on"]), is_short=True),
    Row(
        "warm query, reader off: p50, p99",
        lambda r: _warm(r["warm_query"]["reader"]["off"]),
        is_short=True,
    ),
    Row("warm query, reader on", lambda r: _warm(r["warm_query"]["reader"]["on"]), is_short=True),
    Row(
        "`hook` with a daemon: whole process, p50", lambda r: f"{1000 * r['hook']['wall_s']:.0f} ms"
    ),
    Row(
        "search alone, query embedded before: CPU p50",
        lambda r: f"{digits(r['warm_query']['without_embedding']['cpu_ms'])} ms",
    ),
    Row("steps of a query: BM25, dense, features and fusion, reading", _steps),
    Row("BM25 of one field, all scores: rank-bm25's time over ours", lambda r: _ratio(r, "ratio")),
    Row("the same scores to", lambda r: f"{r['bm25'].get('largest_difference', float('nan')):.0e}"),
    Row("ten best by it: bm25s's time over ours", lambda r: _ratio(r, "bm25s_best_ratio")),
    Row(
        "ten nearest vectors found, of queries and of descriptions with noise",
        lambda r: ", ".join(f"{share:.3f}" for share in r["recall_at_10"].values()),
    ),
    Row(
        "building without embedding: CPU, peak memory",
        lambda r: _process(r["index_without_embedding"]),
    ),
    Row(
        "`index`, nothing changed: whole process, CPU",
        lambda r: f"{digits(r['no_op_index']['cpu_s'])} s",
    ),
    Row(
        "`index`, one skill changed; `--only` that skill",
        lambda r: (
            f"{digits(r['update']['all']['cpu_s'])}, {digits(r['update']['only']['cpu_s'])} s"
        ),
    ),
    Row(
        "loading a body: p50, p95",
        lambda r: ", ".join(digits(r["loading"]["body"][time]) for time in LOADING_TIMES) + " ms",
    ),
    Row(
        "disk",
        lambda r: (
            # Earlier versions kept the saved vectors in the folder of the index.
            digits((sum(r["disk_bytes"].values()) - r["disk_bytes"].get("embeddings", 0)) / 1e6)
            + " MB"
        ),
    ),
    Row("families of near-copies", lambda r: f"{r['families']:,}"),
)


def print_report(report: Report) -> None:
    """Print the table, and what has no column of sizes."""
    print(table(report))
    print(conditions(report))
    for row in report["evaluation"]:
        print(
            f"eval of two systems on {row['collection']}: {row['queries']} queries, "
            f"{row['wall_s']:.1f} s, {row['cpu_s']:.1f} CPU s, {row['rss_mb']:.0f} MB"
        )
    if examples := report.get("examples"):
        print(example_costs(examples))
    for size in report["sizes"]:
        if "left_out" in size["bm25"]:
            print(f"at {size['skills']:,} skills without {size['bm25']['left_out']}")


def example_costs(examples: ExampleCosts) -> str:
    """Say what four example requests a skill cost beside an index without any."""
    before, after = examples["without"], examples["with"]
    skills, query = after["skills"], after["warm_cpu_ms"] / before["warm_cpu_ms"]
    disk = (after["disk_bytes"] - before["disk_bytes"]) / skills
    return (
        f"four example requests for each of {skills:,} skills: {disk:,.0f} bytes a skill, "
        f"{(after['embedded'] - before['embedded']) / skills:.1f} texts embedded a skill more, "
        f"{query:.2f} times the CPU time of a warm query, reader off"
    )


def table(report: Report, *, is_short: bool = False) -> str:
    """Return the figures as a table in Markdown, a column for each size."""
    sizes = report["sizes"]
    heads = ["skills", *map(column, sizes)]
    rows = ((row.name, *map(row.cell, sizes)) for row in ROWS if row.is_short or not is_short)
    return "".join(f"{line}\n" for line in markdown_tables.table(heads, rows))


def column(row: SizeRow) -> str:
    """Return the head of a size's column."""
    rest = ", metadata alone" if row["fields"] == "metadata" else ""
    return f"{row['skills']:,}{rest}"


def conditions(report: Report) -> str:
    """Say on what machine and with what corpora it was measured."""
    machine = report["machine"]
    return (
        f"Measured on {machine['date']} on {machine['cpus']} cores, where `import numpy` takes "
        f"{digits(machine['import_numpy_cpu_s'])} CPU seconds, with Python {machine['python']}. "
        f"Corpora are made of {report['originals']:,} skills."
    )


def throughput(report: Report) -> str:
    """Say how fast new skills are indexed, embedding included."""
    measured = report["throughput"]
    rate, date = digits(measured["skills_per_s"]), measured["date"]
    skills = f"{measured['skills']} new skills"
    return f"{skills} are indexed, embedding included, at {rate} a second ({date})."


def section(report: Report, *, is_short: bool) -> str:
    """Return what a page shows, and what it was measured on."""
    prose = conditions(report) if is_short else f"{conditions(report)} {throughput(report)}"
    return f"{table(report, is_short=is_short)}\n{prose}"
