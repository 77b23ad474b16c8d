"""Print what ``scripts/bench.py`` measured as tables, a column for each size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Record = dict[str, Any]
Cells = dict[str, Callable[[Record], str]]

SYNTHETIC = (
    "copies of real skills, some words of each exchanged for others; with the vectors of the "
    "originals with noise"
)


def _step(step: str) -> Callable[[Record], str]:
    """Return what tells the time of a step of a search."""
    return lambda r: f"{r['warm_query']['steps_ms'][step]:.3f}"


def _part(part: str) -> Callable[[Record], str]:
    """Return what tells the size of a part of an index."""
    return lambda r: f"{r['disk_bytes'][part] / 1e6:.1f}"


def _ratio(row: Record, name: str) -> str:
    """Format the ratio to our time, if it was measured."""
    return f"{row['bm25'][name]:.0f}x" if name in row["bm25"] else "-"


def _three(values: Record, kind: str) -> str:
    """Format median, 95th and 99th percentile."""
    return ", ".join(f"{values[f'{kind}_ms{end}']:.2f}" for end in ("", "_p95", "_p99"))


def _process(run: Record) -> str:
    """Format CPU seconds, wall time and memory of a process."""
    return f"{run['cpu_s']:.2f} {run['wall_s']:.2f} {run['rss_mb']:.0f}"


FIGURES: Cells = {
    "skills": lambda r: f"{r['skills']:,}",
    "fields": lambda r: str(r["fields"]),
    "rank-bm25 / ours, all scores": lambda r: _ratio(r, "ratio"),
    "rank-bm25 / ours, ten best": lambda r: _ratio(r, "rank_bm25_best_ratio"),
    "bm25s / ours, ten best": lambda r: _ratio(r, "bm25s_best_ratio"),
    "largest difference to rank-bm25": lambda r: f"{r['bm25'].get('largest_difference', 0):.1e}",
    "left out": lambda r: str(r["bm25"].get("left_out", "-")),
    "recall@10, queries": lambda r: f"{r['recall_at_10']['queries']:.3f}",
    "recall@10, descriptions with noise": lambda r: (
        f"{r['recall_at_10']['noisy_descriptions']:.3f}"
    ),
    "build: CPU s, wall s, MB": lambda r: _process(r["index_without_embedding"]),
    "nothing changed: CPU s, wall s, MB": lambda r: _process(r["no_op_index"]),
    "one skill changed: CPU s, wall s, MB": lambda r: _process(r["update"]),
    "cold query: CPU s, wall s, MB": lambda r: _process(r["cold_query"]),
    "warm query ms: p50, p95, p99": lambda r: _three(r["warm_query"]["all"], "wall"),
    "warm query CPU ms: p50, p95, p99": lambda r: _three(r["warm_query"]["all"], "cpu"),
    "without the reader ms: p50, p95, p99": lambda r: _three(
        r["warm_query"]["without_reader"], "wall"
    ),
    "search alone CPU ms: p50, p95, p99": lambda r: _three(
        r["warm_query"]["without_embedding"], "cpu"
    ),
    "load p50 ms": lambda r: f"{r['loading']['body']['wall_ms']:.2f}",
    "load p95 ms": lambda r: f"{r['loading']['body']['wall_ms_p95']:.2f}",
}


def print_report(report: Record) -> None:
    """Print the figures as tables, ratios first."""
    for row in report["evaluation"]:
        print(
            f"eval of two systems on {row['collection']}: {row['queries']} queries, "
            f"{row['wall_s']:.1f} s, {row['cpu_s']:.1f} CPU s, {row['rss_mb']:.0f} MB"
        )
    found = report["throughput"]["languages"]
    for languages, row in found.items():
        print(
            f"--languages {languages}: {row['skills_per_s']:.1f} skills/s with embedding, "
            f"{row['cpu_s']:.0f} CPU s ({row['cpu_s'] / found['english']['cpu_s']:.2f}x); queries "
            + "; ".join(
                f"{kind}: p50 {row[kind]['wall_ms']:.1f}, p90 {row[kind]['wall_ms_p90']:.1f} ms"
                for kind in ("english_queries", "other_queries")
            )
        )
    print()
    for title, rows in tables(report["sizes"]):
        print(title)
        for name, cells in rows:
            print(f"  {name:<40}", *(f"{cell:>16}" for cell in cells))
        print()


def tables(sizes: Sequence[Record]) -> list[tuple[str, list[tuple[str, list[str]]]]]:
    """Return the figures of all sizes as tables: titles, and rows of a name and a cell a size."""
    steps = sizes[0]["warm_query"]["steps_ms"]
    parts = sizes[0]["disk_bytes"]
    groups: list[tuple[str, Cells]] = [
        (f"corpora: {SYNTHETIC}", FIGURES),
        ("mean milliseconds of a warm search", {step: _step(step) for step in steps}),
        ("MB on disk, embeddings the cache of vectors", {part: _part(part) for part in parts}),
    ]
    return [
        (title, [(name, [cell(row) for row in sizes]) for name, cell in rows.items()])
        for title, rows in groups
    ]
