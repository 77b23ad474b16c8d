"""Value types of an evaluation: what is judged, what systems answered, what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Query id → document id → grade; above 0 is relevant."""

Ranking: TypeAlias = tuple[tuple[str, float], ...]
"""Document ids with their scores, best first; ties are in the order that the system gave them."""

Answers: TypeAlias = Mapping[str, Ranking]
"""Query id → the ranking that answers it; a query without a hit has an empty one."""

PerQuery: TypeAlias = Mapping[str, float]
"""Query id → value of a measure."""


@dataclass(frozen=True, slots=True)
class JudgedDocument:
    """A document of a collection: a skill by its texts.

    Attributes:
        doc_id: Id, unique in the collection.
        name: The skill's name.
        description: The skill's description, possibly empty.
        body: The skill's body, possibly empty.
        language: Language tag as written, such as ``zh-CN``; empty where nothing says so.
    """

    doc_id: str
    name: str
    description: str
    body: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query of a collection.

    Attributes:
        query_id: Id, unique among the queries and negatives of the collection.
        text: What is asked.
        kind: Where the query comes from, such as ``trigger``; empty where nothing says so.
        language: Language tag as written, such as ``zh-CN``; empty where nothing says so.
    """

    query_id: str
    text: str
    kind: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents, queries, and who judged which document relevant for which query.

    Attributes:
        name: Short name, that of its folder.
        documents: All documents, by their order in the file.
        queries: The queries with at least one relevant document, by their order in the file.
        qrels: Judgments of those queries.
        ignored: Documents to drop from the ranking of a query before it is measured.
        negatives: Queries that no document of the collection answers.
        notes: What a user should know of how it was read, a line each.
        unjudged: Ids of the queries left out, which have no relevant document.
        pool: Name of the documents where they are shared with other collections; empty where
            they are its own.
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
class SystemAnswers:
    """All that one system answered on a collection.

    Attributes:
        name: The name it is reported under.
        settings: How it was set up, in one line.
        answers: Its rankings of the judged queries; ignored documents are not in them.
        unanswerable: Its rankings of queries that nothing answers, by their source:
            ``negatives``, ``foreign``, ``dropped gold``.
        threshold: The score from which it answers by default; None where its scores carry none.
        is_calibrated: True where its scores claim to be probabilities of relevance.
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
    """One system against the first, on one measure.

    Attributes:
        system: The system.
        baseline: The first system.
        measure: Name of the measure.
        difference: Mean of the system minus mean of the baseline.
        interval: Bootstrap interval of the difference, 95 %.
        p_value: Two-sided paired randomisation test.
        p_holm: The same, corrected by Holm for all comparisons of the collection.
        wins: Queries on which the system is better.
        ties: Queries on which both are equal.
        losses: Queries on which the baseline is better.
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
    """A document in an answer, for a person to read.

    Attributes:
        doc_id: Id of the document.
        name: The skill's name.
        score: Its score.
        is_relevant: Whether it is judged relevant for the query.
    """

    doc_id: str
    name: str
    score: float
    is_relevant: bool


@dataclass(frozen=True, slots=True)
class QueryExample:
    """A query on which a system did well or badly.

    Attributes:
        query_id: Id of the query.
        text: What is asked.
        value: nDCG@10.
        relevant: Ids of the relevant documents.
        top: The documents that won, best first.
    """

    query_id: str
    text: str
    value: float
    relevant: tuple[str, ...]
    top: tuple[RankedDocument, ...]


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """What a threshold does.

    Attributes:
        threshold: Lowest accepted score.
        kept: Share of the answerable queries whose answer holds a relevant document.
        false_answers: Share of the unanswerable queries that are answered, by source.
        precision: Of all answered queries, the share whose first hit is relevant; None where
            nothing is answered. Unanswerable queries count as one group as large as they are.
    """

    threshold: float
    kept: float
    false_answers: Mapping[str, float]
    precision: float | None


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """First hits with scores in one range.

    Attributes:
        low: Lower edge of the range.
        high: Upper edge.
        count: How many first hits lie in it.
        score: Their mean score.
        relevant: Share of them that are relevant.
    """

    low: float
    high: float
    count: int
    score: float
    relevant: float


@dataclass(frozen=True, slots=True)
class Abstention:
    """How well a system knows when nothing fits.

    Attributes:
        auroc: Chance that the first hit of an answerable query scores above that of an
            unanswerable one, by source; ties count half.
        curve: Operating points by ascending threshold.
        default: The operating point at the system's own threshold; None where it has none.
        keeping: Share of answerable queries kept of those whose answer holds a relevant document
            at all (0.9, 0.95) → the highest threshold that keeps it.
        calibration_error: Expected calibration error of the first hits of answerable queries and,
            as ``all``, of those and the unanswerable ones; empty where scores are no probabilities.
        reliability: The bins of that error over all queries.
        top_scores: Scores of the first hits, 0 where there is none: ``answerable`` and by source.
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
    """What was measured of one system on one collection.

    Attributes:
        name: The name of the system.
        settings: How it was set up, in one line.
        means: Mean of each measure, 0 to 1.
        intervals: Bootstrap interval of each mean, 95 %.
        per_query: Values of each measure by query.
        worst: Queries with the lowest nDCG@10, lowest first.
        best: Queries with the highest, where another system did worst.
        abstention: How well it knows when nothing fits.
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
    """What was measured on one collection.

    Attributes:
        collection: Name of the collection.
        documents: Documents in it.
        queries: Judged queries.
        unanswerable: How many unanswerable queries there are, by source.
        systems: One report a system, the baseline first.
        comparisons: Every other system against the baseline, every measure.
        notes: What a user should know of how this came about, a line each.
        languages: The queries of each language by themselves, most first; empty where all queries
            and what they ask for are in one language.
        crossing: Then ``same language`` and ``cross-language``: the queries that a document in
            their own language answers, and those that only documents in others do.
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
