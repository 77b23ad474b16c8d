"""Value types of an evaluation: collections, systems and their answers, reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from skillsearch.types import Languages, System

Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Query id → document id → grade; above 0 is relevant."""
Ranking: TypeAlias = tuple[tuple[str, float], ...]
"""Document ids with scores, best first; ties keep the order of the system."""
Answers: TypeAlias = Mapping[str, Ranking]
"""Query id → its ranking, empty for a query without a hit."""
PerQuery: TypeAlias = Mapping[str, float]
"""Query id → value of a measure."""
NEGATIVES = "negatives"
"""The source of the unanswerable queries that a collection has."""


@dataclass(frozen=True, slots=True)
class JudgedDocument:
    """A skill of a collection by its texts, and its language tag if known, such as ``zh-CN``."""

    doc_id: str
    name: str
    description: str
    body: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query or negative of a collection; kind, such as ``trigger``, and language may be empty."""

    query_id: str
    text: str
    kind: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents, queries with a relevant document, and judgments.

    Attributes:
        ignored: Documents to drop from the ranking of a query before it is measured.
        negatives: Queries that no document of the collection answers.
        unjudged: Ids of the queries left out because they have no relevant document.
        pool: Name of the pool that the documents are shared in; empty without one.
    """

    name: str
    documents: tuple[JudgedDocument, ...]
    queries: tuple[JudgedQuery, ...]
    qrels: Qrels
    ignored: Mapping[str, frozenset[str]] = field(default_factory=dict)
    negatives: tuple[JudgedQuery, ...] = ()
    notes: tuple[str, ...] = ()
    unjudged: frozenset[str] = frozenset()
    pool: str = ""


@dataclass(frozen=True, slots=True)
class SystemSpec:
    """A system to measure.

    Attributes:
        fields: Indexed fields: ``full``, or ``metadata`` for names and descriptions only.
        threshold: Lowest score that it answers with; None for the default.
        calibration: File with the calibration; None for the packaged one.
        run: Run file with its answers; nothing is searched then, and other settings are unused.
    """

    name: str
    system: System = "hybrid"
    model: str = "onnx"
    fields: str = "full"
    threshold: float | None = None
    calibration: Path | None = None
    languages: Languages = "auto"
    run: Path | None = None

    @property
    def settings(self) -> str:
        """All settings in one line, without languages if the index decides by itself."""
        if self.run is not None:
            return f"run file {self.run}"
        parts = [self.system, f"model {self.model}", f"fields {self.fields}"]
        parts += [] if self.languages == "auto" else [f"languages {self.languages}"]
        parts += [] if self.threshold is None else [f"threshold {self.threshold:g}"]
        parts += [] if self.calibration is None else [f"calibration {self.calibration}"]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class SystemAnswers:
    """All answers of one system on a collection, without ignored documents.

    Attributes:
        unanswerable: Rankings of queries that nothing answers, by source: ``negatives``,
            ``foreign``, ``dropped gold``.
        threshold: Lowest score that it returns by default; None if scores carry no meaning.
        is_calibrated: Whether scores claim to be probabilities of relevance.
        milliseconds: Median wall time of a query; None for a run file.
    """

    name: str
    settings: str
    answers: Answers
    unanswerable: Mapping[str, Answers] = field(default_factory=dict)
    threshold: float | None = None
    is_calibrated: bool = False
    milliseconds: float | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One system minus the baseline, on one measure; the interval is of 95 %, by bootstrap.

    Attributes:
        p_value: Two-sided paired randomisation test.
        p_holm: The same after Holm's correction over all comparisons of the collection.
        wins: Queries on which the system is better; on `losses` the baseline is.
    """

    system: str
    baseline: str
    measure: str
    difference: float
    interval: tuple[float, float]
    p_value: float
    p_holm: float
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True, slots=True)
class RankedDocument:
    """A document in an answer, for a person to read."""

    doc_id: str
    name: str
    score: float
    is_relevant: bool


@dataclass(frozen=True, slots=True)
class QueryExample:
    """A query on which a system did well or badly: its nDCG@10, and the top documents."""

    query_id: str
    text: str
    value: float
    relevant: tuple[str, ...]
    top: tuple[RankedDocument, ...]


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """The effect of a threshold, the lowest accepted score.

    Attributes:
        kept: Share of the answerable queries whose answer holds a relevant document.
        false_answers: Share of the unanswerable queries that are answered, by source.
        precision: Share of all answered queries, answerable or not, whose first hit is relevant;
            None if nothing is answered.
    """

    threshold: float
    kept: float
    false_answers: Mapping[str, float]
    precision: float | None


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """First hits with scores from `low` to `high`: how many, mean score, share relevant."""

    low: float
    high: float
    count: int
    score: float
    relevant: float


@dataclass(frozen=True, slots=True)
class Abstention:
    """How well a system knows when nothing fits.

    Attributes:
        auroc: Chance that the first hit of an answerable query scores above the first hit of an
            unanswerable one, by source; ties count half.
        curve: Operating points by ascending threshold.
        default: The operating point at the system's own threshold; None if it has none.
        keeping: Share kept of the answers with a relevant document → the highest such threshold.
        calibration_error: Expected calibration error of the first hits of ``answerable`` and of
            ``all`` queries; empty if scores are not probabilities.
        reliability: The bins of that error over all queries.
        top_scores: Scores of the first hits, 0 without one: ``answerable`` and by source.
    """

    auroc: Mapping[str, float]
    curve: tuple[OperatingPoint, ...]
    default: OperatingPoint | None
    keeping: Mapping[float, OperatingPoint]
    calibration_error: Mapping[str, float]
    reliability: tuple[ReliabilityBin, ...]
    top_scores: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class SystemReport:
    """Measurements of one system on one collection; intervals are of 95 %, by bootstrap.

    Attributes:
        worst: Queries with the lowest nDCG@10, lowest first.
        best: Queries on which it is furthest above the worst other system.
        milliseconds: Median wall time of a query; None for a run file.
    """

    name: str
    settings: str
    means: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    per_query: Mapping[str, PerQuery]
    worst: tuple[QueryExample, ...]
    best: tuple[QueryExample, ...]
    abstention: Abstention
    milliseconds: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Measurements on one collection, the baseline first.

    Attributes:
        unanswerable: Number of unanswerable queries by source.
        languages: The queries of each language by themselves, most first; empty if all queries and
            their documents are in one language.
        crossing: Then ``same language`` and ``cross-language``: queries with a relevant document in
            their own language, and those with such documents in other languages only.
    """

    collection: str
    documents: int
    queries: int
    unanswerable: Mapping[str, int]
    systems: tuple[SystemReport, ...]
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...] = ()
    languages: Mapping[str, Report] = field(default_factory=dict)
    crossing: Mapping[str, Report] = field(default_factory=dict)
