"""Reads the files of results that pages take figures from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, overload

import answers
import attack_tables
import bench_rows
import compare_rows
import end_to_end_counts
import measure_improve
import replay_usage

RESULTS = Path(__file__).resolve().parent / "results"
NIGHTLY = RESULTS / "nightly"
"""Of nights, a file for each."""


@overload
def measured(name: Literal["bench"]) -> bench_rows.Report: ...


@overload
def measured(name: Literal["compare"]) -> compare_rows.Report: ...


@overload
def measured(name: Literal["end_to_end"]) -> end_to_end_counts.Report: ...


@overload
def measured(name: Literal["answers"]) -> answers.Report: ...


@overload
def measured(name: Literal["attack"]) -> attack_tables.Report: ...


@overload
def measured(name: Literal["improve"]) -> measure_improve.Report: ...


@overload
def measured(name: Literal["usage"]) -> replay_usage.Report: ...


@overload
def measured(name: Literal["quality", "scale"]) -> dict[str, Any]: ...


def measured(name: str) -> object:
    """Return what a script measured and wrote to the file of a name."""
    return json.loads((RESULTS / f"{name}.json").read_bytes())


def last_night(step: str) -> tuple[dict[str, float], str]:
    """Return the figures of a step in the last night in which it ran, and the date."""
    nights = (
        json.loads(path.read_bytes())
        for path in sorted(NIGHTLY.glob("20??-??-??.json"), reverse=True)
    )
    night = next(night for night in nights if step in night["steps"])
    return night["steps"][step]["found"], night["date"]
