"""Draw quality against cold start and memory, all systems of a comparison.

The background is white in a dark page too.
Each system has a marker of its own, and what kind it is shows by colours that colour-blind readers
tell apart and by whether the marker is filled; its name stands at the right, at the end of a line.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Literal

from benchmark.plots import DPI, OTHERS, OURS, STYLE, THEIRS, minor_label
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from comparison.rows import CostKey, Report, Row

WIDTH, HEIGHT = 10.2, 4.6
KINDS: dict[str, tuple[str, Literal["full", "none"], str]] = {
    "skillsearch": (OURS, "full", "skillsearch"),
    "model": (THEIRS, "none", "with a model"),
    "static": (THEIRS, "full", "with static embeddings"),
    "words": (OTHERS, "full", "words alone"),
}
MARKERS = "oD^sv<>phXPd*8H+"
PANELS: Mapping[CostKey, str] = {
    "cold_cpu_s": "cold: CPU s to a first answer",
    "rss_mb": "peak memory, MB",
}
_NAME_HEIGHT = 0.062
"""Share of the height that a name takes."""


def draw(report: Report, path: Path) -> None:
    """Draw each collection whose costs are known; later ones into files named by them.

    Systems of which one half was not measured are left out.
    """
    for number, (name, rows) in enumerate(report["collections"].items()):
        skills, requests, _ = report["sizes"][name]
        file = path.with_stem(f"{path.stem}-{name}") if number else path
        is_known = {"ndcg", *PANELS}.issubset
        measured = {system: row for system, row in rows.items() if is_known(row)}
        if not measured:
            continue
        with style.context(["default", STYLE]):
            figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
            figure.set_facecolor("white")
            axes = figure.subplots(1, 2, sharey=True)
            for plot, key in zip(axes, PANELS, strict=True):
                panel(plot, key, measured)
            axes[0].set_ylabel(f"nDCG@10, {requests} requests, {skills} skills")
            handles = legend({row["kind"] for row in measured.values()})
            figure.legend(handles=handles, loc="outside upper left", ncols=4, frameon=False)
            figure.draw_without_rendering()
            name_systems(axes[1], measured)
            figure.savefig(file, dpi=DPI, metadata={"Software": None}, bbox_inches="tight")


def panel(axes: Axes, key: CostKey, rows: Mapping[str, Row]) -> None:
    """Draw all systems with their intervals."""
    for marker, row in zip(MARKERS, rows.values(), strict=False):
        colour, fill, _ = KINDS[row["kind"]]
        mean, low, high = (100 * value for value in row["ndcg"])
        axes.vlines(row[key], low, high, color=colour, linewidth=1.2, alpha=0.45)
        size = 10 if row["kind"] == "skillsearch" else 8
        axes.plot(row[key], mean, marker, ms=size, color=colour, fillstyle=fill, mew=1.6)
    axes.set(xscale="log", xlabel=PANELS[key])
    axes.tick_params(axis="x", which="both", length=3, pad=4)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(FuncFormatter(minor_label))


def legend(kinds: Set[str]) -> list[Line2D]:
    """Return what colour and filling mean, of the kinds that are drawn."""
    return [
        Line2D([], [], color=colour, marker="o", linestyle="", fillstyle=fill, mew=1.6, label=label)
        for kind, (colour, fill, label) in KINDS.items()
        if kind in kinds
    ]


def name_systems(axes: Axes, rows: Mapping[str, Row]) -> None:
    """Write the names beside the plot in the order of quality, a line from each to its marker."""
    to_axes = axes.transData + axes.transAxes.inverted()
    points = {name: (row["rss_mb"], 100 * row["ndcg"][0]) for name, row in rows.items()}
    ends = {name: to_axes.transform(point) for name, point in points.items()}
    order = sorted(ends, key=lambda name: float(ends[name][1]))
    heights = spread([float(ends[name][1]) for name in order])
    for name, height in zip(order, heights, strict=True):
        colour = KINDS[rows[name]["kind"]][0]
        axes.annotate(
            name,
            tuple(ends[name]),
            (1.06, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=colour,
            fontweight="bold" if rows[name]["kind"] == "skillsearch" else "normal",
            verticalalignment="center",
            arrowprops={"arrowstyle": "-", "color": colour, "alpha": 0.4, "relpos": (0, 0.5)},
            annotation_clip=False,
        )


def spread(heights: list[float], apart: float = _NAME_HEIGHT) -> list[float]:
    """Move ascending heights apart, as little as a pass up and a pass down do, within 0 and 1."""
    moved = list(heights)
    for rank in range(1, len(moved)):
        moved[rank] = max(moved[rank], moved[rank - 1] + apart)
    limit = 1.0
    for rank in reversed(range(len(moved))):
        moved[rank] = min(moved[rank], limit)
        limit = moved[rank] - apart
    return moved
