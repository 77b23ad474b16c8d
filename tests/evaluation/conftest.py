"""Reports to show, made by hand with numbers as real collections give them, and how they look."""

import io

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from skillsearch.cli.tables import print_blocks
from skillsearch.evaluation.comparison import NOT_COMPARED
from skillsearch.evaluation.types import (
    Abstention,
    Comparison,
    FaceStates,
    OperatingPoint,
    QueryExample,
    RankedDocument,
    ReliabilityBin,
    Report,
    States,
    StateShares,
    SystemReport,
)
from skillsearch.rendering.blocks import Table

MEASURES = ("nDCG@10", "R@5", "R@10", "Success@1", "Success@5", "RR@10", "Judged@10")
LEVELS = (0.0, 0.29, 0.39, 0.43, 0.5, 0.63, 1.0)
"""Values of nDCG@10 that queries with one relevant document have, and 0."""
TEXTS = (
    "turn a folder of scanned invoices into one spreadsheet",
    "why does my pod restart every ten minutes after the last deployment to staging?",
    "把这份合同翻译成英文并保留格式",
    "write release notes",
)
SOURCES = ("foreign", "dropped relevant", "negatives")


def make_abstention(rng, sources, *, is_calibrated=True, is_empty=False):
    """Make scores of first hits, and all that follows from them."""
    if is_empty:
        return Abstention({}, (), None, {}, {}, {}, (), {})
    scale = 1.0 if is_calibrated else 31.7
    scores = {"answerable": rng.beta(6, 2, 240)}
    for number, source in enumerate(sources):
        scores[source] = np.where(rng.random(150) < 0.3, 0.0, rng.beta(2, 9 - 3 * number, 150))
    relevant = rng.random(240) < scores["answerable"]

    def point(threshold):
        recall = float(np.mean((scores["answerable"] >= threshold) & relevant))
        false = {source: float(np.mean(scores[source] >= threshold)) for source in sources}
        answered = float(np.mean(scores["answerable"] >= threshold)) + sum(false.values())
        precision = recall / answered if answered else None
        return OperatingPoint(float(threshold) * scale, recall, false, precision)

    return Abstention(
        auroc={
            source: float(np.mean(scores["answerable"][:, None] > scores[source]))
            for source in sources
        },
        curve=tuple(point(threshold) for threshold in np.linspace(0, 1, 51)),
        default=make_states(point(0.3)) if is_calibrated else None,
        keeping={0.9: point(0.38), 0.95: point(0.27)},
        recall_at_few_false=dict.fromkeys(sources, 0.41),
        calibration_error={"answerable": 0.0612, "all": 0.0434} if is_calibrated else {},
        reliability=make_bins(rng) if is_calibrated else (),
        top_scores={name: tuple((scale * values).tolist()) for name, values in scores.items()},
    )


def make_states(point):
    """Make what answers say at a threshold, a tenth of them that a skill may fit."""
    unanswerable = {
        source: StateShares(0.0, 0.9 * share, 0.1, 0.9 * (1 - share))
        for source, share in point.false_answers.items()
    }
    recall = 0.8 * point.recall
    answerable = StateShares(recall, 0.05, 0.1, 0.85 - recall)
    return States(
        *(0.11, answerable, 0.93, 1.4, unanswerable),
        threshold=point.threshold,
        precision=point.precision,
        kinds={"short": 0.61, "task": 0.42},
        faces={"page": FaceStates(0.05, answerable, 0.97, 2.5, unanswerable)},
    )


def make_bins(rng):
    """Make ten bins that are somewhat off the diagonal, the second of them empty."""
    bins = []
    for number in range(10):
        count = 0 if number == 1 else int(rng.integers(8, 60))
        score = number / 10 + 0.05
        share = float(np.clip(score + rng.normal(0, 0.06), 0, 1)) if count else 0.0
        bins.append(ReliabilityBin(number / 10, (number + 1) / 10, count, score, share))
    return tuple(bins)


def make_example(value, number, texts=TEXTS):
    """Make a query with the documents that won; the relevant one is among them or is not."""
    top = tuple(
        RankedDocument(f"team/skill-{rank}", f"skill-{rank}", 0.9 - 0.15 * rank, rank == 0)
        for rank in range(0 if value else 1, 3)
    )
    return QueryExample(f"q{number}", texts[number % len(texts)], value, ("team/skill-0",), top)


def make_system(name, seed=0, quality=0.6, queries=240, sources=SOURCES[:2], **abstention):
    """Make the report of one system; its quality is about the mean of nDCG@10."""
    rng = np.random.default_rng(seed)
    # A query is as hard for every system, so that many are ties.
    hardness = np.random.default_rng(7).random(queries)
    values = {}
    for measure in MEASURES:
        lift = quality + (0.1 if measure.startswith(("R@", "Success@5")) else 0.0)
        ease = lift + 0.5 - hardness + rng.normal(0, 0.16, queries)
        levels = np.searchsorted(np.linspace(0.1, 0.9, len(LEVELS) - 1), ease)
        values[measure] = {f"q{number}": LEVELS[level] for number, level in enumerate(levels)}
    means = {measure: float(np.mean(list(per.values()))) for measure, per in values.items()}
    return SystemReport(
        name=name,
        settings=f"model=minilm-l6-int8 weights=v{seed} threshold=0.3",
        means=means,
        intervals={measure: (mean - 0.041, mean + 0.039) for measure, mean in means.items()},
        per_query=values,
        worst=tuple(make_example(0.0, number) for number in range(4)),
        best=tuple(make_example(1.0, number) for number in range(2)),
        abstention=make_abstention(rng, sources, **abstention),
        milliseconds=1.234 + seed,
    )


def compare(baseline, system, measure, p_holm):
    """Compare two systems query by query; only the p-value is made up."""
    before, after = baseline.per_query[measure], system.per_query[measure]
    differences = np.array([after[query] - before[query] for query in before])
    mean = float(differences.mean())
    return Comparison(
        system=system.name,
        baseline=baseline.name,
        measure=measure,
        difference=mean,
        interval=(mean - 0.03, mean + 0.03),
        p_value=p_holm / 2,
        p_holm=p_holm,
        wins=int((differences > 0).sum()),
        ties=int((differences == 0).sum()),
        losses=int((differences < 0).sum()),
    )


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Name the folder in which each collection is indexed once for all tests of a file."""
    return tmp_path_factory.mktemp("indexed") / "work"


@pytest.fixture(scope="session")
def printed():
    """Print a table or blocks, and return the lines without the blanks at their ends."""

    def print_lines(blocks, width=80, *, is_styled=False):
        file, color = io.StringIO(), "standard" if is_styled else None
        look = {"force_terminal": is_styled, "color_system": color, "highlight": False}
        console = Console(file=file, width=width, **look)
        print_blocks([blocks] if isinstance(blocks, Table) else blocks, console)
        lines = file.getvalue().splitlines()
        assert is_styled or max(map(cell_len, lines)) <= width
        return [line.rstrip() for line in lines]

    return print_lines


@pytest.fixture(scope="session")
def system_report():
    return make_system


@pytest.fixture(scope="session")
def report():
    """Make the report of a collection: the systems, each against the first."""

    def make(*systems, collection="office-skills", notes=(), **fields):
        systems = systems or (
            make_system("bm25", 1, 0.55, is_calibrated=False),
            make_system("dense", 2, 0.57, is_calibrated=False),
            make_system("hybrid", 3, 0.67),
        )
        comparisons = [
            compare(systems[0], system, measure, 0.4 if system.name == "dense" else 0.0006)
            for system in systems[1:]
            for measure in systems[0].means
            if measure not in NOT_COMPARED
        ]
        sources = [*systems[0].abstention.auroc]
        figures = {
            "documents": 697,
            "queries": len(systems[0].per_query.get("nDCG@10", ())),
            "unanswerable": dict.fromkeys(sources, 150),
            "style": dict.fromkeys(sources[:1], 0.8765),
            "comparisons": tuple(comparisons),
            **fields,
        }
        return Report(collection=collection, systems=systems, notes=notes, **figures)

    return make
