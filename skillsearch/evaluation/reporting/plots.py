"""Plots of an evaluation as SVG elements for a page; the only importer of matplotlib.

Each plot is the same for the same values, or None if there is nothing to show. Its ids start with
``prefix``, so that many plots fit on one page. Colour-blind readers can tell the colours apart;
markers and dashes say the same without colour.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import importing
from skillsearch.evaluation.reporting.report import score_digits
from skillsearch.evaluation.types import ANSWERABLE, Abstention, Comparison, SystemReport
from skillsearch.settings.environ import Variables
from skillsearch.settings.user_folders import cache_dir
from skillsearch.text.safe_text import counted, one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 4.2  # inches: little more than a phone has, so that text stays readable on it
_STYLE = Path(__file__).with_suffix(".mplstyle")
_COLOURS = ("#0072b2", "#d55e00", "#007d5b", "#9a3d86", "#333333", "#b07d00")
"""Dark kin of the palette of Okabe and Ito: each at least 3.5 : 1 against white."""
_MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (9, 3)))
_STATES: Mapping[str, Mapping[str, Any]] = {
    "recall": {"label": "right skill fits", "color": _COLOURS[0]},
    "false": {
        "label": "only others fit",
        "color": _COLOURS[1],
        "hatch": "///",
        "edgecolor": "white",
    },
    "perhaps": {"label": "one may fit", "color": _COLOURS[5], "hatch": "...", "edgecolor": "white"},
    "none": {"label": "none fits", "color": "#c4c4c4"},
}
_DIAGONAL: Mapping[str, Any] = {"color": "#595959", "linewidth": 1, "linestyle": _DASHES[1]}
_NAME_CHARS = 24
_WIDE_CHARS = 14  # limit of a name whose letters may be square, as in Chinese
_LINE_CHARS = 40
_MAX_TICKS = 8  # runs named below a plot; the others lie between them
_MAX_AREA = 450.0  # points squared of the dot for the most common pair of values
_MAX_SCORE = 1e12
"""Scores of foreign runs are clipped here, far beyond any real one, to keep axes finite."""
_REFERENCE = re.compile(r"(^|\()#([\w.-]+)")
"""References to an id: a whole attribute, or inside ``url()``; colours are neither."""
_INHERITED = {"stroke-linejoin": "round", "stroke-linecap": "butt"}
_SVG = "{http://www.w3.org/2000/svg}"
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def plot_measures(systems: Sequence[SystemReport], *, prefix: str) -> str | None:
    """Plot the mean of each measure with its 95 % interval, systems below each other."""
    measures = list(dict.fromkeys(measure for system in systems for measure in system.means))
    if not measures:
        return None
    rows = len(systems) + 0.9
    height = 0.75 + 0.14 * rows * len(measures) + 0.2 * math.ceil(len(systems) / 2)
    with _figure(height) as (figure, axes):
        handles = []
        for number, system in enumerate(systems):
            means, lows, highs = _percent((system, measure) for measure in measures)
            heights = [at * rows + number for at in range(len(measures))]
            colour, marker = _COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)]
            axes.hlines(heights, lows, highs, colors=colour, linewidth=1.6)
            handles += axes.plot(means, heights, marker, color=colour, markersize=5)
        for at in range(1, len(measures)):
            axes.axhline(at * rows - 0.95, color="#c4c4c4", linewidth=0.8)
        middle = (len(systems) - 1) / 2
        axes.set_yticks([at * rows + middle for at in range(len(measures))], measures)
        axes.set_ylim(len(measures) * rows - 0.95, -0.95)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("mean and 95 % interval, percent")
        _legend(figure, handles, [_name(system.name) for system in systems])
        return _svg(figure, prefix, "Measures by system with intervals")


def plot_history(
    runs: Sequence[SystemReport], measures: Sequence[str], *, prefix: str
) -> str | None:
    """Plot measures with their 95 % intervals over the runs of a system, in order."""
    if not any(measure in run.means for measure in measures for run in runs):
        return None
    with _figure(3.4) as (figure, axes):
        handles = []
        for number, measure in enumerate(measures):
            means, lows, highs = _percent((run, measure) for run in runs)
            at = np.arange(len(runs)) + 0.06 * number  # so that no interval hides another
            colour, marker = _COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)]
            axes.vlines(at, lows, highs, colors=colour, linewidth=1.6)
            line = _DASHES[number % len(_DASHES)]
            handles += axes.plot(at, means, marker, linestyle=line, color=colour, markersize=5)
        shown = range(len(runs) - 1, -1, -math.ceil(len(runs) / _MAX_TICKS))
        look = {"rotation": 30, "rotation_mode": "anchor", "ha": "right"}
        axes.set_xticks(shown, [_name(runs[number].name) for number in shown], **look)
        axes.set(xlim=(-0.5, len(runs) - 0.5), ylabel="percent")
        names = [one_line(measure, _LINE_CHARS) for measure in measures]
        _legend(figure, handles, names)
        return _svg(figure, prefix, f"{', '.join(names)}, run by run with intervals")


def plot_queries(
    baseline: SystemReport, system: SystemReport, comparison: Comparison, *, prefix: str
) -> str | None:
    """Plot the values of one measure by query, one system against another."""
    own = baseline.per_query.get(comparison.measure, {})
    other = system.per_query.get(comparison.measure, {})
    pairs = Counter((round(own[key], 2), round(other[key], 2)) for key in own if key in other)
    if not pairs:
        return None
    largest = max(pairs.values())
    dots = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    areas = [max(count * min(22.0, _MAX_AREA / largest), 4.0) for _, count in dots]
    xs, ys = zip(*(pair for pair, _ in dots), strict=True)
    names = [f"{comparison.measure} of {_name(system.name)}" for system in (baseline, system)]
    counts = f"{comparison.wins} better, {comparison.ties} equal, {comparison.losses} worse"
    with _figure(4.4) as (figure, axes):
        axes.plot([0, 1], [0, 1], **_DIAGONAL)
        edge: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.6, "clip_on": False}
        axes.scatter(xs, ys, areas, color=_COLOURS[0], alpha=0.6, zorder=3, **edge)
        axes.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), aspect="equal")
        axes.set(xlabel=names[0], ylabel=names[1])
        axes.set_title(f"{counts}\nlargest dot: {counted(largest, 'query')}")
        return _svg(figure, prefix, "Values by query of two systems")


def plot_top_scores(system: SystemReport, *, prefix: str) -> str | None:
    """Plot the distribution of the scores of first hits, answerable queries on top."""
    top_scores = system.abstention.top_scores
    groups = {name: list(map(_finite, scores)) for name, scores in top_scores.items() if scores}
    if not groups:
        return None
    low, high = _score_range(system.abstention, list(chain(*groups.values())))
    height = 0.7 + 0.85 * len(groups)
    with _figure(height, nrows=len(groups), sharex=True, squeeze=False) as (figure, rows):
        for axes, (name, scores) in zip(rows.flat, groups.items(), strict=True):
            colour = _COLOURS[0] if name == ANSWERABLE else _COLOURS[1]
            axes.hist(scores, bins=25, range=(low, high), color=colour, edgecolor="white")
            axes.set_yticks([])
            axes.spines["left"].set_visible(False)
            title = f"{_name(name)}, {counted(len(scores), 'query')}"
            if name in system.abstention.auroc:
                title += f", AUROC {system.abstention.auroc[name]:.3f}"
            axes.set_title(title)
            axes.set_xlim(low, high)
            _mark_threshold(axes, system.abstention, is_named=axes is rows[0, 0])
        axes.set_xlabel("score of the first hit")
        return _svg(figure, prefix, "Scores of first hits by kind of query")


def plot_reliability(system: SystemReport, *, prefix: str) -> str | None:
    """Plot how often first hits are relevant by their score, and how many there are."""
    bins = [bin_ for bin_ in system.abstention.reliability if bin_.count]
    if not bins:
        return None
    with _figure(4.4, nrows=2, sharex=True, height_ratios=[4, 1]) as (figure, (axes, below)):
        axes.plot([0, 1], [0, 1], **_DIAGONAL)
        scores, shares = [bin_.score for bin_ in bins], [bin_.relevant for bin_ in bins]
        axes.vlines(scores, scores, shares, color=_COLOURS[1], linewidth=2)
        axes.plot(scores, shares, "-o", color=_COLOURS[0], markersize=6, clip_on=False)
        axes.set(ylabel="share that is relevant", xlim=(0, 1), ylim=(0, 1.02))
        for kind, error in list(system.abstention.calibration_error.items())[-1:]:
            axes.set_title(f"expected calibration error {error:.3f}\nof {kind} queries")
        for bin_ in bins:
            middle, width = (bin_.low + bin_.high) / 2, 0.97 * (bin_.high - bin_.low)
            below.bar(middle, bin_.count, width, color=_COLOURS[0])
        below.set(xlabel="score of the first hit", ylabel="queries")
        return _svg(figure, prefix, "Reliability of scores")


def plot_states(system: SystemReport, *, prefix: str) -> str | None:
    """Plot what answers say at the default threshold, a bar for each kind of request."""
    states = system.abstention.default
    if states is None:
        return None
    groups = {ANSWERABLE: states.answerable, **states.unanswerable}
    with _figure(1.1 + 0.34 * len(groups)) as (figure, axes):
        handles, left = [], np.zeros(len(groups))
        for name, look in _STATES.items():
            widths = np.array([100 * getattr(shares, name) for shares in groups.values()])
            handles += [axes.barh(range(len(groups)), widths, 0.7, left, **look)]
            left += widths
        axes.set_yticks(range(len(groups)), [_name(source) for source in groups])
        axes.set(xlim=(0, 100), ylim=(len(groups) - 0.5, -0.5), xlabel="percent of requests")
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        _legend(figure, handles, [look["label"] for look in _STATES.values()])
        return _svg(figure, prefix, "States of answers by kind of request")


def plot_thresholds(system: SystemReport, *, prefix: str) -> str | None:
    """Plot recall, precision and false answers by threshold."""
    curve = system.abstention.curve
    if len(curve) < 2:
        return None
    lines: dict[str, list[float]] = {
        "recall": [point.recall for point in curve],
        "precision": [math.nan if point.precision is None else point.precision for point in curve],
    }
    for source in curve[0].false_answers:
        shares = [point.false_answers.get(source, math.nan) for point in curve]
        lines[f"false answers: {_name(source)}"] = shares
    thresholds = [_finite(point.threshold) for point in curve]
    with _figure(3.6 + 0.2 * math.ceil(len(lines) / 2)) as (figure, axes):
        handles = []
        for number, values in enumerate(lines.values()):
            style, colour = _DASHES[number % len(_DASHES)], _COLOURS[number % len(_COLOURS)]
            percent = [100 * value for value in values]
            handles += axes.plot(thresholds, percent, linestyle=style, color=colour, linewidth=1.9)
        axes.set(xlabel="threshold", ylabel="percent of queries", ylim=(0, 103))
        axes.set_xlim(*_score_range(system.abstention, thresholds))
        _mark_threshold(axes, system.abstention, is_named=True)
        _legend(figure, handles, list(lines))
        return _svg(figure, prefix, "Recall and false answers by threshold")


def _percent(figures: Iterable[tuple[SystemReport, str]]) -> Iterator[NDArray[np.float64]]:
    """Return means in percent, then the low and the high ends of their intervals."""
    nan = math.nan
    rows = [
        (system.means.get(name, nan), *system.intervals.get(name, (nan, nan)))
        for system, name in figures
    ]
    return iter(100 * np.array(rows).T)


class _Grid(TypedDict, total=False):
    """How axes are laid out, as matplotlib names it."""

    nrows: int
    sharex: bool
    squeeze: bool
    height_ratios: Sequence[float]


@contextmanager
def _figure(height: float, **grid: Unpack[_Grid]) -> Iterator[tuple[Figure, Any]]:
    """Give a figure of this height in inches, with empty axes and our style until it is saved."""
    folder = str(cache_dir() / "matplotlib")
    # At the import it lists the fonts, as does fontconfig, and both cache their list.
    cached = Variables({"MPLCONFIGDIR": folder, "XDG_CACHE_HOME": folder})
    with importing("matplotlib", "eval", "Plotting"), cached:
        from matplotlib import style
        from matplotlib.figure import Figure
    with style.context(["default", _STYLE]), warnings.catch_warnings():
        # Text stays text in the SVG, and the reader's fonts show it; only its width is a guess.
        warnings.filterwarnings("ignore", r"Glyph .* missing from font", UserWarning)
        # Older versions cannot shape some scripts, but the browser does.
        warnings.filterwarnings("ignore", r"Matplotlib currently does not support", UserWarning)
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        yield figure, figure.subplots(**grid)


def _svg(figure: Figure, prefix: str, label: str) -> str:
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata=_NO_METADATA)
    return inline_svg(file.getvalue(), prefix=prefix, label=label)


def inline_svg(document: str, *, prefix: str, label: str) -> str:
    """Return an SVG document of matplotlib as an element to stand beside others in a page.

    The stylesheet, which would hold for the whole page, becomes two inherited attributes.
    """
    root = ElementTree.fromstring(document)
    for defs in root.findall(f"{_SVG}defs"):
        for stylesheet in defs.findall(f"{_SVG}style"):
            defs.remove(stylesheet)
    values = [value for element in root.iter() for value in element.attrib.values()]
    used = {match[2] for value in values for match in _REFERENCE.finditer(value)}
    for element in root.iter():
        attributes = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
        name = attributes.pop("id", None)
        element.attrib = {
            key: _REFERENCE.sub(rf"\1#{prefix}-\2", value) for key, value in attributes.items()
        }
        if name in used:
            element.set("id", f"{prefix}-{name}")
        element.tag, element.tail = element.tag.removeprefix(_SVG), None
    root.attrib |= {"role": "img", "aria-label": label, **_INHERITED}
    return ElementTree.tostring(root, encoding="unicode")


def _legend(figure: Figure, handles: Sequence[Any], names: Sequence[str]) -> None:
    legend = figure.legend(handles, names, loc="outside upper left", ncols=2, columnspacing=1.0)
    if legend.get_window_extent().width > figure.bbox.width:
        legend.remove()
        figure.legend(handles, names, loc="outside upper left")


def _mark_threshold(axes: Axes, abstention: Abstention, *, is_named: bool) -> None:
    """Draw a line at the system's default threshold, if it is on the axis."""
    low, high = axes.get_xlim()
    threshold = abstention.default.threshold if abstention.default else math.nan
    if not low <= threshold <= high:
        return
    axes.axvline(threshold, color="black", linewidth=1.2, linestyle=_DASHES[2])
    if is_named:
        is_left = threshold > (low + high) / 2
        axes.annotate(
            f"default {score_digits(threshold)}",
            (threshold, 1),
            (-5 if is_left else 5, -2),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            horizontalalignment="right" if is_left else "left",
            verticalalignment="top",
            bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1},
        )


def _score_range(abstention: Abstention, scores: Sequence[float]) -> tuple[float, float]:
    if abstention.calibration_error:
        return 0.0, 1.0
    low, high = min(scores), max(scores)
    is_wide = high - low > 1e-9 * max(-low, high, 1e-3)
    return (low, high) if is_wide else (low - 0.5, high + 0.5)


def _finite(score: float) -> float:
    return 0.0 if math.isnan(score) else min(max(score, -_MAX_SCORE), _MAX_SCORE)


def _name(text: str) -> str:
    """Return the name of a system or source, short and safe in XML."""
    return one_line(text, _NAME_CHARS if text.isascii() else _WIDE_CHARS)
