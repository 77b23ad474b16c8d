"""What pages say of the written collection: what it holds, and what was measured on it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import comparison.tables
import markdown_tables

from page_parts.results import RESULTS
from skillsearch.evaluation.collection import EXAMPLE
from skillsearch.evaluation.reporting.report import percent
from skillsearch.text.languages import LANGUAGE_NAMES

TEXTS = EXAMPLE.with_name("written")
MEASURED = RESULTS / "written.json"
"""What `measure_written.py` measured of both editions of the written collection."""
EDITIONS = (("written", ""), ("first", ", first edition"))
KINDS = ("twin", "near", "far", "dropped relevant")


class Written(NamedTuple):
    """What was measured on the written collection, by edition, system and measure."""

    figures: Mapping[tuple[str, str, str], Sequence[float]]

    @classmethod
    def read(cls) -> Written:
        """Read each value, with its interval if there is one."""
        figures = json.loads(MEASURED.read_bytes())["figures"]
        return cls({(edition, system, name): values for edition, system, name, values in figures})

    @property
    def systems(self) -> list[str]:
        """The systems, in order."""
        return list(dict.fromkeys(system for _, system, _ in self.figures if system != "style"))

    def percent(self, edition: str, system: str, measure: str, at: int = 0) -> str:
        """Return a share in percent, empty if it was not measured."""
        values = self.figures.get((edition, system, measure), [])
        return percent(values[at]) if values else ""

    def auroc(self, edition: str, system: str, kind: str) -> str:
        """Return an AUROC, empty if it was not measured."""
        values = self.figures.get((edition, system, f"AUROC {kind}"), [])
        return f"{values[0]:.3f}" if values else ""

    def ranked(self, edition: str, system: str) -> list[str]:
        """Return how well a system ranks, and to how many it says that a right skill fits."""
        low, high = (self.percent(edition, system, "nDCG@10", at) for at in (1, 2))
        parts = (f"{edition}: {part}" for part in ("same language", "cross-language"))
        shares = [self.percent(edition, system, name) for name in ("nDCG@10", "R@5", "Success@1")]
        shares.insert(1, f"{low}-{high}")
        shares.append(", ".join(self.percent(part, system, "nDCG@10") for part in parts))
        return [*shares, self.percent(edition, system, "recall answerable")]

    def unanswered(self, edition: str, kind: str) -> list[str]:
        """Return what is said to requests that nothing fits, and how well scores tell them."""
        states = (f"{state} {kind}" for state in ("false", "perhaps", "none"))
        shares = [self.percent(edition, "hybrid", state) for state in states]
        aurocs = [self.auroc(edition, system, kind) for system in ("style", *self.systems)]
        few = f"recall at 5 % false {kind}"
        return [*shares, *aurocs, *(self.percent(edition, system, few) for system in self.systems)]


def ranked() -> str:
    """Return how well each system ranks the requests of both editions."""
    written = Written.read()
    heads = ["nDCG@10", "95 %", "R@5", "Success@1", "same language, cross-language", "recall"]
    return markdown_tables.text(
        ["system", *heads],
        (
            [f"{system}{text}", *written.ranked(edition, system)]
            for edition, text in EDITIONS
            for system in written.systems
        ),
    )


def unanswered() -> str:
    """Return what is said to each kind of requests that nothing fits."""
    written = Written.read()
    heads = ["fits", "perhaps", "none", "AUROC of style"]
    heads += [f"AUROC of {name}" for name in written.systems]
    heads += [f"{name}: recall at 5 % false" for name in written.systems]
    rows = (
        [f"{kind}{text}", *written.unanswered(edition, kind)]
        for edition, text in EDITIONS
        for kind in KINDS
    )
    return "\n".join(comparison.tables.with_figures(["kind", *heads], rows))


def by_language() -> str:
    """Return nDCG@10 of each system by the language of the requests."""
    written = Written.read()
    rows = []
    for code, language in LANGUAGE_NAMES.items():
        cells = [
            written.percent(f"written: {code}", system, "nDCG@10") for system in written.systems
        ]
        rows += [[language, *cells]] if any(cells) else []
    return markdown_tables.text(["requests in", *written.systems], rows)


def by_kind() -> str:
    """Return the recall of hybrid search by the kind of the requests."""
    written = Written.read()
    kinds = "short plain reworded contrast task error mail typos odd".split()
    cells = [written.percent("written", "hybrid", f"recall {kind}") for kind in kinds]
    return markdown_tables.text(["kind", *kinds], [["recall", *cells]])


def counts(key: str) -> str:
    """Return how many texts the written collection has by a key: their kind or language."""
    columns = counts_by(key)
    rows = (
        [LANGUAGE_NAMES.get(value, value), *(str(count[value]) for count in columns.values())]
        for value, _ in columns["requests"].most_common()
    )
    return markdown_tables.text([{"lang": "language"}.get(key, key), *columns], rows)


def counts_by(key: str) -> dict[str, Counter[str]]:
    """Count requests, skills by language alone, and kinds of requests that nothing fits, by a key.

    A request that nothing fits counts as of the kind of the request that it is like.
    """
    skills, requests, negatives = (
        [json.loads(line) for line in (TEXTS / f"{name}.jsonl").read_bytes().splitlines()]
        for name in ("corpus", "queries", "negatives")
    )
    kinds = {request["_id"]: request["kind"] for request in requests}

    def of_negative(text: Mapping[str, str]) -> str:
        return kinds[text.get("twin_of") or text["matches"]] if key == "kind" else text[key]

    counts = {"requests": Counter(request[key] for request in requests)}
    if key == "lang":
        counts["skills"] = Counter(skill.get(key) for skill in skills)
    for kind in KINDS[:3]:
        counts[kind] = Counter(of_negative(text) for text in negatives if text["kind"] == kind)
    return counts
