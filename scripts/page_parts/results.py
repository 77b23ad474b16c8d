"""Reads the files of results that pages take figures from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, TypedDict, overload

import answers
import attacks.tables
import bench_scale
import benchmark.rows
import comparison.rows
import measure_improve
import replay_usage
import turns.counts

RESULTS = Path(__file__).resolve().parents[1] / "results"
NIGHTLY = RESULTS / "nightly"
"""Of nights, a file for each."""


class Quality(TypedDict):
    """What `fit_fusion.py` measured: figures by their names, of each collection or part."""

    machine: benchmark.rows.Machine
    threshold: float
    collections: dict[str, dict[str, float]]
    kinds: dict[str, dict[str, float]]
    margins: dict[str, dict[str, float]]
    ablation: dict[str, dict[str, float]]


@overload
def measured(name: Literal["bench"]) -> benchmark.rows.Report: ...


@overload
def measured(name: Literal["compare"]) -> comparison.rows.Report: ...


@overload
def measured(name: Literal["end_to_end"]) -> turns.counts.Report: ...


@overload
def measured(name: Literal["answers"]) -> answers.Report: ...


@overload
def measured(name: Literal["attack"]) -> attacks.tables.Report: ...


@overload
def measured(name: Literal["improve"]) -> measure_improve.Report: ...


@overload
def measured(name: Literal["usage"]) -> replay_usage.Report: ...


@overload
def measured(name: Literal["quality"]) -> Quality: ...


@overload
def measured(name: Literal["scale"]) -> bench_scale.Report: ...


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
