"""The page of reports: what it says, that it is harmless, and that a browser shows it."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from skillsearch.evaluation.reporting.page import render_page
from skillsearch.evaluation.reporting.report import headline
from skillsearch.evaluation.types import QueryExample, RankedDocument

pytestmark = pytest.mark.slow

DASH = "\u2013"
VOID = {"meta", "br", "hr", "img", "link", "input"}
HOSTILE = "<script>alert(1)</script>\"'&amp;\u202eevil\x00\x1b[31m"
HARMLESS = "<script>alert(1)</script>\"'&amp;evil[31m"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


class Page(HTMLParser):
    """The elements of a page, and whether each is closed where it has to be."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.open, self.texts, self.rows = [], [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attrs):
        """Note an element that closes itself, as those of SVG may."""
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        """An element is closed inside the one it was opened in."""
        assert self.open.pop() == tag

    def handle_data(self, data):
        """Gather text, by the cell it is in."""
        if self.open and self.open[-1] != "style":
            self.texts.append(data)
        if {"td", "th"} & set(self.open):
            mark = "*" if "b" in self.open[-2:] else ""
            self.rows[-1][-1] += f"{mark}{data}{mark}".replace(DASH, "-")

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def row(self, head):
        return next(row[1:] for row in self.rows if row[0] == head)

    def count(self, tag):
        return sum(name == tag for name, _ in self.tags)


def render(*reports):
    return render_page(reports, made="2026-11-22", version="1.2.3")


@cache
def full(make):
    """Render a usual page once for several tests."""
    return render(make(notes=("14 queries were left out.",)))


@pytest.fixture(scope="session")
def plain(system_report, report):
    """Make a report of one system without plots but one, of which fields can be replaced."""

    def make(**fields):
        system = system_report("hybrid", is_empty=True)
        return report(replace(system, **fields), unanswerable={})

    return make


def test_a_page_is_well_formed_and_says_its_language(report):
    html = full(report)
    page = Page(html)
    assert html.startswith('<!DOCTYPE html>\n<html lang="en">')
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_a_page_loads_and_runs_nothing(report):
    html = full(report)
    page = Page(html)
    assert not {"script", "link", "img", "iframe", "object", "base"} & {tag for tag, _ in page.tags}
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("href", "#").startswith("#")
        assert not {"src", "srcset", "action", "style"} & set(attributes) or "style" in attributes
    assert "@import" not in html
    assert "//" not in html
    policy = "Content-Security-Policy"
    policies = [of["content"] for _, of in page.tags if of.get("http-equiv") == policy]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    assert html.index("Content-Security-Policy") < html.index("<style")


def test_the_head_says_what_was_measured_when_and_by_what(report):
    text = Page(full(report)).text
    assert "Search quality on office-skills" in text
    assert "Made 2026-11-22 with skillsearch 1.2.3 ." in text
    assert "697 skills, 240 judged queries." in text
    assert "Queries that nothing answers: 150 foreign , 150 dropped relevant ." in text
    assert "14 queries were left out." in text
    assert headline(report()) in text


def test_the_verdict_comes_before_the_plots_and_these_before_the_tables(report):
    html = full(report)
    starts = [html.index(mark) for mark in ('class="verdict"', "<svg", "<table", "<article")]
    assert starts == sorted(starts)
    assert html.rindex("<svg") < html.index("<table")
    levels = [int(level) for level in re.findall(r"<h(\d)", html)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_measures_have_intervals_and_the_best_is_bold(report, system_report):
    low, high = (system_report(name, is_empty=True) for name in ("bm25", "hybrid"))
    means = {"nDCG@10": 0.5, "R@5": 0.25, "Judged@10": 0.1}
    low = replace(low, means=means, intervals={"nDCG@10": (0.4567, 0.6)}, milliseconds=None)
    means = {**means, "nDCG@10": 0.84321, "Judged@10": 1.0}
    high = replace(low, name="hybrid", means=means, milliseconds=1234.56)
    page = Page(render(report(low, high)))
    assert page.row("system") == ["nDCG@10", "R@5", "Judged@10", "ms"]
    assert page.row("bm25") == ["50.045.7-60.0", "25.0-", "10.0-", "-"]
    assert page.row("hybrid") == ["*84.3*45.7-60.0", "25.0-", "100.0-", "1,234.6"]


def test_several_collections_have_a_summary_that_leads_to_each(plain):
    """Kinds of query of one collection overlap: only collections have a mean."""
    reports = [replace(plain(), collection=f"collection-{at}") for at in range(4)]
    assert "<title>Search quality on 4 collections</title>" in render(*reports)
    html = render(*reports[:2])
    assert "<title>Search quality on collection-0, collection-1</title>" in html
    assert "mean of the collections" in html
    without = render_page(reports[:2], made="now", version="1", mean="")
    assert "mean of the collections" not in without
    tags = Page(html).tags
    links = [attributes["href"] for tag, attributes in tags if tag == "a"]
    assert links == ["#c0", "#c1"]
    assert {"c0", "c1"} <= {of.get("id") for tag, of in tags if tag == "section"}


def test_examples_show_what_won_and_what_should_have(plain):
    wrong = RankedDocument("a", "brew-tea", 0.91, False)
    right = RankedDocument("b", "steep-tea", 0.0164, True)
    shown = QueryExample("q7", "make tea", 0.63, ("b", "c"), (wrong, right))
    silent = QueryExample("q8", "make coffee", 0.0, tuple("defghijk"), ())
    page = Page(render(plain(worst=(shown, silent), best=(shown,))))
    assert "Worst by nDCG@10" in page.text
    assert "make tea nDCG@10 63.0, query q7 brew-tea 0.91 steep-tea 0.0164 relevant" in page.text
    assert "Relevant, but not above: c " in page.text
    assert "It gave no answer. Relevant, but not above: d , e , f , g , h and 3 more" in page.text
    assert page.count("article") == 3


def test_a_long_query_opens_on_a_click(plain):
    long, huge = "tea " * 60, "x" * 100_000
    worst = tuple(QueryExample(text, text, 0.0, (), ()) for text in (long, huge))
    html = render(plain(worst=worst))
    cut = re.findall(r"<summary><bdi>([^<]*)</bdi></summary>\n<p><bdi>([^<]*)</bdi></p>", html)
    assert [len(first) for first, _ in cut] == [160, 160]
    assert cut[0][1] == long.strip()
    assert all(first.endswith("…") for first, _ in cut)
    assert len(cut[1][1]) == 5_000


def test_hostile_text_comes_out_as_text(report, system_report):
    top = (RankedDocument(HOSTILE, HOSTILE, 0.5, True),)
    example = QueryExample(HOSTILE, HOSTILE + "x" * 200, 0.5, (HOSTILE, "other" + HOSTILE), top)
    shown = {"settings": HOSTILE, "worst": (example,), "best": (example,)}
    systems = [
        replace(system_report(name, is_empty=True), name=name, **shown)
        for name in (HOSTILE, HOSTILE + "2")
    ]
    made = report(*systems, collection=HOSTILE, notes=(HOSTILE,), unanswerable={HOSTILE: 3})
    html = render_page([made, made], made=HOSTILE, version=HOSTILE)
    page = Page(html)
    assert page.count("script") == 0
    assert not set("\u202e\x00\x1b") & set(html)
    hostile = {key for _, of in page.tags for key, value in of.items() if "alert" in (value or "")}
    assert hostile == {"data-label"}  # what the column says, as text
    assert page.text.count(HARMLESS) > 20


def test_languages_have_a_section_of_their_own(report):
    plain = full(report)
    made = report(notes=("14 queries were left out.",))
    html = render(replace(made, languages={"zh": report()}, crossing={"cross-language": report()}))
    assert html.index("Differences from") < html.index("<h3>Languages</h3>")
    start, end = html.index("<h3>Languages"), html.index("<h3>When nothing fits")
    assert html[:start] + html[end:] == plain


needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium or google-chrome")


def browse(folder, page, *options):
    """Open a file in a browser of its own, and return the page as it is then and the log."""
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000", *options]
    done = subprocess.run(
        [*command, page.as_uri()], capture_output=True, timeout=120, check=True, cwd=folder
    )
    return done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


LOOK = """<script>
document.querySelectorAll("details").forEach(one => one.open = true);
const plots = [...document.querySelectorAll("figure svg")].map(one => one.getBoundingClientRect());
const cut = [...document.querySelectorAll("figure svg text")].filter(one => {
  const text = one.getBoundingClientRect(), plot = one.closest("svg").getBoundingClientRect();
  return text.left < plot.left || text.right > plot.right
    || text.top < plot.top || text.bottom > plot.bottom;
});
const wide = [...document.querySelectorAll("body *")].filter(one =>
  !one.closest(".scroll, svg") && one.getBoundingClientRect().right > innerWidth + 0.5);
parent.postMessage({
  width: innerWidth,
  page: document.documentElement.scrollWidth,
  plots: plots.map(one => [one.width, one.height]),
  cut: cut.map(one => one.textContent),
  wide: wide.map(one => one.tagName),
}, "*");
</script></body>"""
FRAME = """<!DOCTYPE html><meta charset="utf-8"><body><script>
onmessage = event => { document.body.dataset.seen = JSON.stringify(event.data); };
</script><iframe src="page.html" style="border: 0; height: 900px; width: %dpx"></iframe>"""
"""A window is at least 500 pixels wide; a frame in it may be narrower."""


@cache
def busy(make, make_system):
    """Render a page with much on it once: long names, no blanks, two collections."""
    names = (
        "bm25",
        "a-system-with-a-name-of-40-characters",
        "混合检索系统的一个很长的名字",
        "W" * 30,
    )
    sources = ("foreign", "dropped relevant", "negatives")
    systems = [make_system(name, seed, sources=sources) for seed, name in enumerate(names)]
    top = (RankedDocument("z", "z" * 300, 0.5, False),)
    example = QueryExample("q" * 300, "x" * 2_000, 0.0, ("y" * 300,), top)
    systems[0] = replace(systems[0], worst=(example,), settings="s" * 400)
    return render(make(*systems, collection="c" * 120, notes=("n" * 300,)), make(systems[1]))


@needs_chromium
@pytest.mark.browser
def test_a_browser_complains_of_nothing_but_of_what_the_policy_stops(
    tmp_path, report, system_report
):
    page = tmp_path / "page.html"
    html = busy(report, system_report)
    page.write_text(html, encoding="utf-8")
    shown, log = browse(tmp_path, page, "--dump-dom")
    assert "CONSOLE" not in log
    assert shown.count("<svg") == html.count("<svg ")
    bad = '<script>document.title = "taken"</script><img src="http://127.0.0.1:9/x.png"></body>'
    page.write_text(html.replace("</body>", bad), encoding="utf-8")
    shown, log = browse(tmp_path, page, "--dump-dom")
    assert "<title>taken" not in shown
    assert log.count("Content Security Policy") == 2


@needs_chromium
@pytest.mark.browser
@pytest.mark.parametrize("width", [400, 1200])
def test_the_page_fits_its_window_with_all_plots_laid_out(tmp_path, report, system_report, width):
    html = busy(report, system_report)
    unlocked = re.sub(r"<meta http-equiv[^>]*>", "", html).replace("</body>", LOOK)
    (tmp_path / "page.html").write_text(unlocked, encoding="utf-8")
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME % width, encoding="utf-8")
    shown, _ = browse(tmp_path, frame, "--dump-dom", "--window-size=1400,1000")
    seen = json.loads(unescape(re.search(r'data-seen="([^"]*)"', shown)[1]))
    assert seen["width"] == width
    assert seen["page"] <= width
    assert seen["wide"] == []
    assert seen["cut"] == []
    assert len(seen["plots"]) == html.count("<svg ")
    assert min(min(plot) for plot in seen["plots"]) > 100
