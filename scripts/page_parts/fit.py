"""What pages say of the quality that `fit_fusion.py` measured, each collection left out of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import markdown_tables

from page_parts.results import measured
from skillsearch.evaluation.assess import means
from skillsearch.evaluation.reporting.report import percent
from skillsearch.index.search.evidence import MEANINGS

EVERYDAY = ("korean", "one-liners", "translated", "metatool", "metatool-multi")
OF_SKILLS = ("nvidia", "salesforce", "salesforce-variants", "skill-evals", "swe")
OF_REQUESTS = ("authors-tasks", "authors", "requests-0", "requests-1", "requests-languages")
BESIDE = ("requests-translated", "requests-hard", "real-development")
"""Collections that are in no mean."""
IN_SHORT = {
    "ten by others: everyday tools, agents' skills, software": (*EVERYDAY, *OF_SKILLS),
    "two of requests by unseen writers, with near siblings": ("requests-0", "requests-1"),
    "two by authors of 932 skills, for their own": ("authors", "authors-tasks"),
    "requests in 17 languages for English skills": ("requests-languages",),
}
COLUMNS = {
    "hybrid": "read",
    "not read": "not read",
    "bm25": "bm25",
    "dense": "dense",
    "recall": "recall",
    "shown": "shown terminal",
    "ECE": "ece first",
    "AUROC dropped": "auroc dropped",
    "AUROC twins": "auroc twin",
    "AUROC foreign": "auroc foreign",
    "false: dropped": "dropped answered",
    "twins": "twin answered",
    "foreign": "foreign answered",
}
ABLATED = {
    "nDCG@10": "read",
    "recall": "recall",
    "twins that fit": "twin answered",
    "AUROC dropped": "auroc dropped",
    "AUROC twins": "auroc twin",
    "AUROC foreign": "auroc foreign",
    "ECE": "ece first",
}
"""Measures of which the table of ablations says what a part is worth, in points."""


def quality() -> str:
    """Return a row for each collection and their mean, then for those `BESIDE` it.

    Last comes the mean of all others, which are in other languages.
    """
    report = measured("quality")
    fitted, margins = report["collections"], report["margins"]
    names = (*OF_REQUESTS, *EVERYDAY, *OF_SKILLS)
    others = [name for name in fitted if name not in {*names, *BESIDE}]
    groups = {name: [name] for name in names} | {"**mean**": [*names]}
    groups |= {name: [name] for name in BESIDE} | {f"in other languages: {len(others)}": others}
    rows = []
    for head, group in groups.items():
        row, of_group = means(fitted[name] for name in group), [margins[name] for name in group]
        rows.append([head, *(_cell(row, measure, of_group) for measure in COLUMNS.values())])
    twins = (
        f"{kind} {row['auroc twin']:.3f} ({row['style twin']:.3f})"
        for kind, row in report["kinds"].items()
        if "auroc twin" in row
    )
    note = f"AUROC against twins by kind, and of style alone: {', '.join(twins)}."
    return "\n".join([*markdown_tables.table(["collection", *COLUMNS], rows), "", note])


def _cell(row: Mapping[str, float], measure: str, margins: Sequence[Mapping[str, float]]) -> str:
    """Return the mean of a measure over collections, with its margin if each of them has one."""
    cell = _figure(row.get(measure), measure)
    if all(measure in margin for margin in margins):
        squares = sum(margin[measure] ** 2 for margin in margins)
        cell += f" ± {percent(math.sqrt(squares) / len(margins))}"
    return cell


def ablation() -> str:
    """Return a row for each part of the fit: what measures lose or gain without it.

    Parts without which none changes are named below the table.
    """
    rows, idle = [], []
    for name, row in measured("quality")["ablation"].items():
        if not any(row.values()):
            idle.append(f"`{name.removeprefix('feature ')}`")
            continue
        cells = [f"`{name}`: {MEANINGS[name]}" if name in MEANINGS else name]
        for measure in ABLATED.values():
            # Of a feature, the order by features alone is known.
            key = "hybrid" if measure == "read" and "hybrid" in row else measure
            cell = f"{round(100 * row[key], 1) or 0.0:+.1f}" if key in row else ""
            margin = row.get(f"{key} margin")
            cells.append(cell if margin is None else f"{cell} ± {percent(margin)}")
        rows.append(cells)
    note = f"Nothing changes without {', '.join(dict.fromkeys(idle))}."
    return "\n".join([*markdown_tables.table(["without", *ABLATED], rows), "", note])


def quality_in_short() -> str:
    """Return a row for each kind of collection, with the means of its collections."""
    fitted = measured("quality")["collections"]
    rows = []
    for text, names in IN_SHORT.items():
        row = means(fitted[name] for name in names)
        cells = (_figure(row[measure], measure) for measure in ("read", "bm25", "dense"))
        rows.append([text, *cells])
    return markdown_tables.text(["judged collections", "hybrid", "BM25 alone", "dense alone"], rows)


def _figure(value: float | None, measure: str) -> str:
    if value is None:
        return ""
    is_error = measure.startswith(("ece", "auroc"))
    return f"{value:.3f}" if is_error else percent(value)
