"""Plots as SVG: what they show, and that they can stand on any page."""

import math
import re
import sys
from dataclasses import replace
from functools import cache
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from skillsearch.errors import MissingDependencyError
from skillsearch.evaluation.reporting.plots import (
    inline_svg,
    plot_history,
    plot_measures,
    plot_queries,
    plot_reliability,
    plot_states,
    plot_thresholds,
    plot_top_scores,
)
from skillsearch.evaluation.types import (
    Abstention,
    Comparison,
    OperatingPoint,
    ReliabilityBin,
    States,
    StateShares,
    SystemReport,
)

STATES = States(
    *(0.1, StateShares(0.5, 0.125, 0.125, 0.25), 0.75, 1.5),
    {"twin": StateShares(0.0, 0.25, 0.5, 0.25)},
    *(0.3, None, {}),
)
NOTHING = Abstention({}, (), None, {}, {}, {}, (), {})
SIX = ("bm25", "dense", "hybrid", "hybrid-large", "tuned", "foreign-run")
HOSTILE = {
    "chinese": "混合检索",
    "arabic": "بحث هجين",
    "devanagari and tamil": "खोज தேடல்",
    "emoji": "rocket 🚀 family 👨‍👩‍👧",
    "formula": r"$\frac{1}{0$ $x$",
    "underscore": "_hidden",
    "markup": '<script>alert("1")</script>',
    "attribute": '"id="patch_1" url(#patch_1)',
    "control": "a\x00b\x1b[31m\u202ec",
    "no character": "a\ufffe\uffffb",
    "surrogate": "a\ud800b",
    "long": "x" * 5_000,
    "empty": "",
}
WORST = ("formula", "markup", "attribute", "control", "surrogate")
SHOWN = {
    HOSTILE["control"]: "ab[31mc",
    HOSTILE["no character"]: "ab",
    HOSTILE["surrogate"]: "a\ufffdb",
}
"""How names are shown that cannot be shown as they are."""


def make_system(name="hybrid", means=None, intervals=None, values=None, **abstention):
    """Make the report of a system of which only what is given is known."""
    return SystemReport(
        name=name,
        settings="",
        means=means or {},
        intervals=intervals or {},
        per_query=values or {},
        worst=(),
        best=(),
        abstention=replace(NOTHING, **abstention),
    )


def compared(system, baseline="bm25", wins=0, ties=0, losses=0):
    return Comparison(system, baseline, "nDCG@10", 0.0, (0.0, 0.0), 1.0, 1.0, wins, ties, losses)


def scatter(before, after, **counts):
    """Plot two systems by their values of the queries 0, 1, 2, ..."""
    pair = [
        make_system(name, values={"nDCG@10": {str(at): value for at, value in enumerate(values)}})
        for name, values in (("bm25", before), ("hybrid", after))
    ]
    return plot_queries(*pair, compared("hybrid", **counts), prefix="p")


def all_plots(system, prefix="p"):
    return [
        plot_measures([system, system], prefix=f"{prefix}a"),
        plot_queries(system, system, compared(system.name, system.name), prefix=f"{prefix}b"),
        plot_top_scores(system, prefix=f"{prefix}c"),
        plot_thresholds(system, prefix=f"{prefix}d"),
        plot_reliability(system, prefix=f"{prefix}e"),
        plot_states(system, prefix=f"{prefix}f"),
    ]


@cache
def plots_of_hybrid(make, prefix):
    """Plot a usual system once for several tests."""
    return all_plots(make("hybrid"), prefix)


def texts(svg):
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter("text")]


def style(element, name):
    match = re.search(rf"(?:^|; ){name}: ([^;]+)", element.get("style", ""))
    return match[1] if match else None


def dots(svg, colour):
    """Return where the markers of a colour are, but for those of legends and ticks."""
    root = ElementTree.fromstring(svg)
    plotted = [group for group in root.iter("g") if "clip-path" in group.attrib] or [root]
    return [
        (float(dot.get("x")), float(dot.get("y")))
        for group in plotted
        for dot in group.iter("use")
        if style(dot, "fill") == colour
    ]


def bars(svg, colour):
    """Return width and height of each bar of a colour that can be seen, from left to right."""
    shapes = []
    for path in ElementTree.fromstring(svg).iter("path"):
        if style(path, "fill") == colour and "clip-path" in path.attrib:
            points = re.findall(r"(-?[\d.]+) (-?[\d.]+)", path.get("d"))
            across, up = ([float(point[side]) for point in points] for side in (0, 1))
            if max(up) > min(up):
                shapes.append((min(across), max(across) - min(across), max(up) - min(up)))
    return [bar[1:] for bar in sorted(shapes)]


def circles(svg):
    """Return the centre of each half-transparent dot, x and y, and its width."""
    dots = []
    for path in ElementTree.fromstring(svg).iter("path"):
        if style(path, "fill-opacity") == "0.6":
            points = re.findall(r"(-?[\d.]+) (-?[\d.]+)", path.get("d"))
            across, up = ([float(point[side]) for point in points] for side in (0, 1))
            middle = (max(across) + min(across)) / 2, (max(up) + min(up)) / 2
            dots.append((*middle, max(across) - min(across)))
    return dots


@pytest.mark.slow
def test_a_plot_is_one_element_that_refers_to_nothing_outside(system_report):
    for svg in plots_of_hybrid(system_report, "one"):
        root = ElementTree.fromstring(svg)
        tags = {element.tag for element in root.iter()}
        assert svg.startswith("<svg ")
        assert tags <= {"svg", "g", "defs", "path", "use", "clipPath", "pattern", "rect", "text"}
        ids = [element.get("id") for element in root.iter() if element.get("id")]
        assert all(name.startswith("one") for name in ids)
        assert set(re.findall(r'(?:href="|url\()#([\w.-]+)', svg)) == set(ids)
        assert "//" not in svg


@pytest.mark.slow
def test_equal_values_give_equal_plots(system_report):
    first, second = (plots_of_hybrid(system_report, prefix) for prefix in ("one", "two"))
    assert first == [svg.replace('"two', '"one').replace("#two", "#one") for svg in second]


@pytest.mark.slow
def test_settings_of_the_user_change_nothing(system_report):
    import matplotlib as mpl

    expected = plots_of_hybrid(system_report, "one")
    with mpl.rc_context({"font.size": 40, "svg.fonttype": "path", "axes.facecolor": "black"}):
        assert plot_thresholds(system_report("hybrid"), prefix="oned") == expected[3]


@pytest.mark.parametrize("count", [1, 6])
@pytest.mark.slow
def test_means_lie_on_one_scale_for_all_systems_and_measures(system_report, count):
    systems = [system_report(name, seed) for seed, name in enumerate(SIX[:count])]
    svg = plot_measures(systems, prefix="p")
    colours = ("#0072b2", "#d55e00", "#007d5b", "#9a3d86", "#333333", "#b07d00")
    markers = [marker for colour in colours[:count] for marker in dots(svg, colour)]
    means = [mean for system in systems for mean in system.means.values()]
    assert len(markers) == len(means) == 7 * count
    assert len({round(y, 3) for _, y in markers}) == 7 * count
    lowest, highest = min(zip(means, markers, strict=True)), max(zip(means, markers, strict=True))
    scale = (highest[1][0] - lowest[1][0]) / (highest[0] - lowest[0])
    for mean, (x, _) in zip(means, markers, strict=True):
        assert x == pytest.approx(lowest[1][0] + scale * (mean - lowest[0]), abs=0.01)


@pytest.mark.slow
def test_runs_stand_in_their_order_at_the_height_of_their_means():
    means = (0.2, 0.6, None, 0.4)
    runs = [
        make_system(f"run {at}", {} if mean is None else {"recall": mean}, {})
        for at, mean in enumerate(means)
    ]
    svg = plot_history(runs, ["recall"], prefix="p")
    (first, a), (second, b), (last, c) = dots(svg, "#0072b2")
    assert last - second == pytest.approx(2 * (second - first), abs=0.01)
    assert (a - b) == pytest.approx(2 * (a - c), abs=0.01)
    assert a > c > b
    named = {text for text in texts(svg) if text.startswith("run")}
    assert named == {f"run {at}" for at in range(4)}
    assert plot_history(runs, ["R@5"], prefix="p") is None


@pytest.mark.slow
def test_of_many_runs_some_are_named():
    runs = [make_system(f"run {at}", {"recall": at / 40}, {"recall": (0, 1)}) for at in range(33)]
    svg = plot_history(runs, ["recall"], prefix="p")
    named = [text for text in texts(svg) if text.startswith("run")]
    assert named == [f"run {at}" for at in range(32, -1, -5)]
    assert len(dots(svg, "#0072b2")) == 33


@pytest.mark.slow
def test_intervals_are_drawn_from_end_to_end():
    systems = [make_system("a", {"R@5": 0.5}, {"R@5": (0.4, 0.7)}), make_system("b", {"R@10": 0.7})]
    svg = plot_measures(systems, prefix="p")
    ((middle, _),) = dots(svg, "#0072b2")
    assert len(dots(svg, "#d55e00")) == 1
    line = next(
        path
        for path in ElementTree.fromstring(svg).iter("path")
        if style(path, "stroke") == "#0072b2"
        and path.get("d", "").startswith("M")
        and "clip-path" in path.attrib
    )
    left, right = (float(x) for x, _ in re.findall(r"([\d.]+) ([\d.]+)", line.get("d")))
    assert (right - middle) / (middle - left) == pytest.approx(2.0, abs=1e-3)


@pytest.mark.slow
def test_long_names_stand_below_each_other():
    def columns(name):
        systems = [make_system(f"{name}{at}", {"R@5": 0.5}) for at in range(4)]
        root = ElementTree.fromstring(plot_measures(systems, prefix="p"))
        return {text.get("x") for text in root.iter("text") if (text.text or "").startswith(name)}

    assert len(columns("short")) == 2
    assert len(columns("a-name-of-22-characters")) == 1


@pytest.mark.slow
def test_queries_with_the_same_values_are_one_dot_above_the_diagonal_if_better():
    svg = scatter([1.0, 1.0, 1.0, 1.0, 0.5], [0.0, 0.0, 0.0, 0.0, 1.0], wins=1, losses=4)
    assert {"1 better, 0 equal, 4 worse", "largest dot: 4 queries"} <= set(texts(svg))
    (_, _, small), (_, _, large) = sorted(circles(svg), key=lambda circle: circle[2])
    assert (large / small) ** 2 == pytest.approx(4.0, rel=0.01)
    svg = scatter([0.0, 1.0, 0.25], [0.0, 1.0, 0.75], wins=1, ties=2)
    (left, bottom, _), (across, up, _), (right, top, _) = sorted(circles(svg))
    assert (across - left) / (right - left) == pytest.approx(0.25, abs=1e-4)
    assert (bottom - up) / (bottom - top) == pytest.approx(0.75, abs=1e-4)
    named = {"nDCG@10 of bm25", "nDCG@10 of hybrid", "largest dot: 1 query"}
    assert named <= set(texts(svg))


@pytest.mark.slow
def test_each_kind_of_query_gets_a_row_of_scores():
    scores = {"answerable": (0.9, 0.8), "foreign": (0.1,), "negatives": (0.2, 0.3, 0.4)}
    system = make_system(top_scores=scores, auroc={"foreign": 1.0, "negatives": 0.98765})
    shown = [text for text in texts(plot_top_scores(system, prefix="p")) if "quer" in text]
    assert shown == [
        "answerable, 2 queries",
        "foreign, 1 query, AUROC 1.000",
        "negatives, 3 queries, AUROC 0.988",
    ]
    system = make_system(top_scores={"answerable": (0.1, 0.1, 0.1, 0.9)})
    (wide, high), (also_wide, low) = bars(plot_top_scores(system, prefix="p"), "#0072b2")
    assert high / low == pytest.approx(3.0, abs=1e-3)
    assert wide == pytest.approx(also_wide, abs=1e-3)


@pytest.mark.slow
def test_the_default_threshold_is_marked_on_an_axis_that_fits_the_scores():
    """Probabilities from 0 to 1; that would squeeze the scores of BM25."""

    def shown(threshold):
        default = threshold and replace(STATES, threshold=threshold)
        system = make_system(top_scores={"answerable": (0.1, 0.9)}, default=default)
        return [label for label in texts(plot_top_scores(system, prefix="p")) if "default" in label]

    assert shown(0.3) == ["default 0.30"]
    assert shown(0.89) == ["default 0.89"]
    assert shown(None) == shown(40.0) == shown(math.nan) == []
    calibrated = make_system(top_scores={"a": (0.4, 0.6)}, calibration_error={"all": 0.1})
    assert {"0.0", "1.0"} <= set(texts(plot_top_scores(calibrated, prefix="p")))
    raw = make_system(top_scores={"answerable": (12.0, 31.0)})
    labels = set(texts(plot_top_scores(raw, prefix="p")))
    assert "30.0" in labels
    assert not {"0.0", "1.0", "0"} & labels


@pytest.mark.slow
def test_reliability_shows_where_scores_are_too_high():
    bins = (
        ReliabilityBin(0.0, 0.5, 30, 0.25, 0.5),
        ReliabilityBin(0.5, 0.75, 0, 0.0, 0.0),
        ReliabilityBin(0.75, 1.0, 10, 0.75, 0.25),
    )
    system = make_system(reliability=bins, calibration_error={"answerable": 0.1, "all": 0.375})
    svg = plot_reliability(system, prefix="p")
    (left, high), (right, low) = dots(svg, "#0072b2")
    assert right > left
    assert low > high, "y grows downwards in SVG"
    (wide, tall), (narrow, short) = bars(svg, "#0072b2")
    assert (wide / narrow, tall / short) == pytest.approx((2.0, 3.0), abs=1e-2)
    assert {"expected calibration error 0.375", "of all queries"} <= set(texts(svg))
    alone = make_system(reliability=bins, calibration_error={"answerable": 0.01})
    assert "of answerable queries" in texts(plot_reliability(alone, prefix="p"))


@pytest.mark.slow
def test_thresholds_show_recall_precision_and_false_answers():
    false = {"foreign": 0.5, "negatives": 0.1}
    curve = tuple(
        OperatingPoint(at / 4, 1 - at / 4, false, None if at == 4 else 1.0) for at in range(5)
    )
    default = replace(STATES, threshold=0.25)
    svg = plot_thresholds(make_system(curve=curve, default=default), prefix="p")
    labels = texts(svg)
    for name in ("recall", "precision", "false answers: foreign", "false answers: negatives"):
        assert labels.count(name) == 1
    assert "default 0.25" in labels
    lines = {
        style(path, "stroke"): re.findall(r"([\d.]+) ([\d.]+)", path.get("d"))
        for path in ElementTree.fromstring(svg).iter("path")
        if style(path, "stroke-width") == "1.9" and "clip-path" in path.attrib
    }
    recalls = [float(y) for _, y in lines["#0072b2"]]
    assert all(later > earlier for earlier, later in pairwise(recalls))
    assert lines["#d55e00"][-1][0] != lines["#0072b2"][-1][0]


@pytest.mark.slow
def test_states_are_bars_that_fill_the_width():
    svg = plot_states(make_system(default=STATES), prefix="p")
    labels = texts(svg)
    for name in ("answerable", "twin", "right skill fits", "only others fit", "none fits"):
        assert labels.count(name) == 1
    (recall,) = (width for width, _ in bars(svg, "#0072b2") if width)  # nothing is kept of a twin
    none = [width for width, _ in bars(svg, "#c4c4c4")]
    assert [width / recall for width in none] == pytest.approx([0.5, 0.5], abs=1e-3)


@pytest.mark.slow
def test_there_is_no_plot_where_there_is_nothing_to_show():
    nothing = make_system()
    assert all_plots(nothing) == [None] * 6
    assert plot_measures([], prefix="p") is None
    no_query = make_system(reliability=(ReliabilityBin(0, 1, 0, 0.0, 0.0),), top_scores={"a": ()})
    assert all_plots(no_query) == [None] * 6
    one_point = make_system(curve=(OperatingPoint(0.5, 1.0, {}, None),))
    assert plot_thresholds(one_point, prefix="p") is None


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, id=kind, marks=pytest.mark.slow if kind in WORST else pytest.mark.night)
        for kind, name in HOSTILE.items()
    ],
)
def test_any_name_is_shown_as_text(name):
    system = make_system(name, {"R@5": 0.5}, top_scores={name: (1.0,)})
    states = replace(STATES, unanswerable={name: STATES.answerable})
    plots = [
        plot_measures([system], prefix="p"),
        plot_top_scores(system, prefix="p"),
        plot_states(make_system(default=states), prefix="p"),
    ]
    for svg in plots:
        tags = {element.tag for element in ElementTree.fromstring(svg).iter()}
        assert "script" not in tags
        assert not set("\x00\x1b\u202e\ufffe") & set(svg)
        assert SHOWN.get(name, name[:10]) in " ".join(texts(svg))


@pytest.mark.parametrize(
    "scores",
    [(math.nan, math.inf, -math.inf), (1e308, -1e308), (0.0, 5e-324), (7.0, 7.0), (-3.0, -1.0)],
    ids=str,
)
@pytest.mark.slow
def test_any_score_can_be_plotted(scores):
    curve = tuple(OperatingPoint(score, 0.5, {}, None) for score in scores)
    default = replace(STATES, threshold=scores[0])
    system = make_system(top_scores={"answerable": scores}, curve=curve, default=default)
    assert plot_top_scores(system, prefix="p")
    assert plot_thresholds(system, prefix="p")


@pytest.mark.slow
def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"matplotlib.*\[eval\]"):
        plot_measures([make_system("a", {"R@5": 0.5})], prefix="p")


DOCUMENT = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<svg xmlns:xlink="http://www.w3.org/1999/xlink" xmlns="http://www.w3.org/2000/svg" width="9pt">
 <defs>
  <style type="text/css">*{stroke-linejoin: round; stroke-linecap: butt}</style>
 </defs>
 <g id="axes_1">
  <path id="dot" d="M 0 0" style="fill: #dot"/>
  <use xlink:href="#dot" clip-path="url(#box)"/>
  <text>id="dot" url(#dot) &lt;b&gt;</text>
 </g>
 <defs><clipPath id="box"><rect/></clipPath></defs>
</svg>"""


@pytest.mark.slow
def test_an_svg_document_becomes_an_element_of_the_page():
    assert inline_svg(DOCUMENT, prefix="p1", label="a dot").replace("\n", "") == (
        '<svg width="9pt" role="img" aria-label="a dot" stroke-linejoin="round" '
        'stroke-linecap="butt"> <defs>  </defs><g>  '
        '<path d="M 0 0" style="fill: #dot" id="p1-dot" />'
        '<use href="#p1-dot" clip-path="url(#p1-box)" />'
        '<text>id="dot" url(#dot) &lt;b&gt;</text></g>'
        '<defs><clipPath id="p1-box"><rect /></clipPath></defs></svg>'
    )
