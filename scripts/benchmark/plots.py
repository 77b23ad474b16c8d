"""Draw how times grow with the size of a corpus, for us and for rank-bm25.

Colours are told apart by colour-blind readers; markers and dashes tell the same without colour, and
each line is named where it ends.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from benchmark.rows import Reader, SizeRow, WallTime

WIDTH, HEIGHT, DPI = 8.4, 5.8, 150
"""Inches, and dots for each: twice the width that a README is shown with."""
STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#767676",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11.5,
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "grid.color": "#e4e4e4",
}
OURS, THEIRS, OTHERS = "#0072b2", "#c24a00", "#007d5b"
"""Dark kin of the palette of Okabe and Ito."""
_HEADROOM = 1.6
"""The value axis begins and ends so many times below and above what is shown."""
_LEAST_SPAN = 20.0
"""It spans at least so much: little growth is to look little."""
_LABEL_RATIO = 4
"""So much larger is a size whose label stands beside another's."""
_NAME_HEIGHT = 0.14
"""Share of the height of a plot that a name takes."""


class Line(NamedTuple):
    """A line of a plot: its name, how it looks, and the value at each size, None if unmeasured."""

    name: str
    colour: str
    marker: str
    dashes: str
    value: Callable[[SizeRow], float | None]


def warm_ms(row: SizeRow, *, reader: Reader, time: WallTime = "wall_ms") -> float:
    """Return the milliseconds of a warm query."""
    return row["warm_query"]["reader"][reader][time]


PLOTS: tuple[tuple[str, tuple[Line, ...]], ...] = (
    (
        "Cold query, whole process: CPU s",
        (Line("skillsearch", OURS, "o", "-", lambda r: r["cold_query"]["off"]["cpu_s"]),),
    ),
    (
        "Warm query, all in: ms",
        (
            Line("reader on,\np50", THEIRS, "s", "--", partial(warm_ms, reader="on")),
            Line("off, p99", OTHERS, "^", ":", partial(warm_ms, reader="off", time="wall_ms_p99")),
            Line("off, p50", OURS, "o", "-", partial(warm_ms, reader="off")),
        ),
    ),
    (
        "Search, query embedded before: CPU ms",
        (
            Line("rank-bm25", THEIRS, "s", "--", lambda r: r["bm25"].get("rank_bm25_cpu_ms")),
            Line(
                "skillsearch",
                OURS,
                "o",
                "-",
                lambda r: r["warm_query"]["without_embedding"]["cpu_ms"],
            ),
            Line("its BM25 alone", OTHERS, "^", ":", lambda r: r["bm25"].get("ours_best_cpu_ms")),
        ),
    ),
    (
        "Build without embedding: CPU µs a skill",
        (
            Line(
                "skillsearch,\nfrom files",
                OURS,
                "o",
                "-",
                lambda r: 1e6 * r["index_without_embedding"]["cpu_s"] / r["skills"],
            ),
            Line(
                "rank-bm25,\nfrom terms",
                THEIRS,
                "s",
                "--",
                lambda r: per_skill(r["bm25"].get("rank_bm25_build_cpu_s"), r["skills"]),
            ),
        ),
    ),
)


def per_skill(seconds: float | None, skills: int) -> float | None:
    """Return microseconds a skill."""
    return None if seconds is None else 1e6 * seconds / skills


def plot_growth(sizes: Sequence[SizeRow], path: Path) -> None:
    """Draw all plots into a PNG file, which says by `digest` of what.

    Args:
        sizes: What was measured at each size, as in the report of ``bench.py``.
        path: The file.
    """
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        for axes, (title, lines) in zip(figure.subplots(2, 2).flat, PLOTS, strict=True):
            draw(axes, title, lines, sorted(sizes, key=lambda row: row["skills"]))
        figure.supxlabel(caption(sizes), fontsize=10.5)
        figure.savefig(path, dpi=DPI, metadata={"Software": None, "Comment": digest(sizes)})


def digest(sizes: Sequence[SizeRow]) -> str:
    """Tell measurements apart."""
    return hashlib.sha256(json.dumps(sizes).encode()).hexdigest()


def draw(axes: Axes, title: str, lines: Sequence[Line], sizes: Sequence[SizeRow]) -> None:
    """Draw the lines of one plot, and a name at the end of each."""
    ends = []
    values: list[float] = []
    for line in lines:
        points = [(row["skills"], line.value(row)) for row in sizes]
        known = [(size, value) for size, value in points if value is not None]
        if not known:
            continue
        axes.plot(
            *zip(*known, strict=True),
            color=line.colour,
            marker=line.marker,
            linestyle=line.dashes,
            linewidth=2,
            markersize=6,
        )
        values += [value for _, value in known]
        ends.append((known[-1], line))
    axes.set(xscale="log", yscale="log", title=title)
    axes.set_xlim(sizes[0]["skills"] / 1.3, sizes[-1]["skills"] * 1.3)
    low, high = value_range(values)
    axes.set_ylim(low, high)
    axes.set_xticks(*ticks([row["skills"] for row in sizes]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if high / low < 100:
        axes.yaxis.set_minor_formatter(FuncFormatter(minor_label))
    else:
        axes.yaxis.set_minor_formatter(NullFormatter())
    name_ends(axes, ends)


def ticks(sizes: Sequence[int]) -> tuple[Sequence[int], list[str]]:
    """Return sizes with their labels, empty beside another that is near."""
    labels, last = [], 0
    for size in sizes:
        is_apart = size > _LABEL_RATIO * last
        labels.append(short(size) if is_apart else "")
        last = size if is_apart else last
    return sizes, labels


def caption(sizes: Sequence[SizeRow]) -> str:
    """Label the horizontal axes."""
    short_sizes = [short(row["skills"]) for row in sizes if row.get("fields") == "metadata"]
    rest = f"; {', '.join(short_sizes)}: of metadata alone" if short_sizes else ""
    return f"skills in the corpus, made of parts of others{rest}"


def value_range(values: Sequence[float]) -> tuple[float, float]:
    """Return where the value axis begins and ends."""
    low, high = min(values) / _HEADROOM, max(values) * _HEADROOM
    missing = max(_LEAST_SPAN / (high / low), 1.0) ** 0.5
    return low / missing, high * missing


def minor_label(value: float, _: int) -> str:
    """Label 2 and 5 of a decade."""
    return f"{value:g}" if f"{value:e}"[0] in "25" else ""


def name_ends(axes: Axes, ends: Sequence[tuple[tuple[float, float], Line]]) -> None:
    """Write each line's name right of its end, apart where two ends are close."""
    to_axes = axes.transData + axes.transAxes.inverted()
    placed = sorted((float(to_axes.transform(end)[1]), end[0], line) for end, line in ends)
    lowest = 0.0
    for height, size, line in placed:
        height = max(height, lowest)
        lowest = height + _NAME_HEIGHT
        at = float(to_axes.transform((size, 1.0))[0])
        axes.annotate(
            line.name,
            (at, height),
            (9, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            color=line.colour,
            verticalalignment="center",
            annotation_clip=False,
        )


def short(size: int) -> str:
    """Return a size in short."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit:
            return f"{size / unit:g}{letter}"
    return str(size)
