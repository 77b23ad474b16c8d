"""Value types of an evaluation: collections, systems and their answers, reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from skillsearch.settings.values import DEFAULT_READER
from skillsearch.types.answers import Face, System
from skillsearch.types.skills import Diagnostic

Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Query id → document id → grade; above 0 is relevant."""
Ranking: TypeAlias = tuple[tuple[str, float], ...]
"""Document ids with scores, best first; ties keep the order of the system."""
Run: TypeAlias = Mapping[str, Ranking]
"""Query id → its ranking, empty for a query without a hit."""
PerQuery: TypeAlias = Mapping[str, float]  # query id → value of a measure
Examples = Literal["none", "given", "packaged", "all"]
"""Which example requests a system has: of the collection, of the package, or both."""
ANSWERABLE = "answerable"
NEGATIVES, FOREIGN, DROPPED_RELEVANT = "negatives", "foreign", "dropped relevant"
"""Where unanswerable queries come from; negatives of a kind of their own go by its name."""


@dataclass(frozen=True, slots=True)
class JudgedDocument:
    """A skill of a collection by its texts, and its language tag if known, such as ``zh-CN``.

    The `examples` are requests that it is for, which a system may use that says so.
    """

    doc_id: str
    name: str
    description: str
    body: str = ""
    language: str = ""
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query or negative of a collection; all but id and text may be empty.

    It may be the twin of a query: the same request but for a detail, so that no skill fits a
    negative, and other skills fit a query.
    """

    query_id: str
    text: str
    kind: str = ""
    language: str = ""
    twin_of: str = ""


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents, queries with a relevant document, negatives that have none, and judgments."""

    name: str
    documents: tuple[JudgedDocument, ...]
    queries: tuple[JudgedQuery, ...]
    qrels: Qrels
    ignored: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Query id → documents that are dropped from its ranking before it is measured."""
    negatives: tuple[JudgedQuery, ...] = ()
    notes: tuple[str, ...] = ()
    unjudged: frozenset[str] = frozenset()  # ids of queries for which nothing is relevant
    pool: str = ""  # name of the pool in which the documents are shared, if any

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each query by its id, empty if it has none."""
        return {query.query_id: query.kind for query in self.queries}


@dataclass(frozen=True, slots=True)
class Job:
    """A collection to evaluate, foreign queries by collection, and the folders it was made from."""

    collection: Collection
    foreign: Sequence[tuple[str, Sequence[JudgedQuery]]] = ()
    roots: tuple[Path, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class SystemSpec:
    """A way to search with its settings, or a run file with answers.

    Its fields are ``full`` or ``metadata``; without threshold or calibration it has the default. Of
    a run only the threshold can be set, and the lowest score of what may fit.
    """

    name: str
    system: System = "hybrid"
    model: str = "onnx"
    fields: str = "full"
    threshold: float | None = None
    calibration: Path | None = None
    reader: str = DEFAULT_READER
    examples: Examples = "none"
    run: Path | None = None
    perhaps: float | None = None

    @property
    def settings(self) -> str:
        """All settings in one line, without those that have their default."""
        parts = [self.system, f"model {self.model}", f"fields {self.fields}"]
        if self.run is not None:
            parts = [f"run file {self.run}"]
        usual = SystemSpec(self.name)
        for key in ("examples", "reader", "threshold", "perhaps", "calibration"):
            if (value := getattr(self, key)) != getattr(usual, key):
                parts.append(f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class SystemAnswers:
    """All answers of one system on a collection, without ignored documents."""

    name: str
    settings: str
    answers: Run
    unanswerable: Mapping[str, Run] = field(default_factory=dict)
    """By source, such as ``negatives``, answers to queries that nothing answers."""
    threshold: float | None = None  # None if scores carry no meaning
    has_states: bool = False  # whether skills below the threshold may fit, by the bounds of faces
    lower_bound: float | None = None  # lowest score of what may fit, of a system of others
    is_calibrated: bool = False  # whether scores claim to be probabilities
    milliseconds: float | None = None  # median of a query, None for a run file


@dataclass(frozen=True, slots=True)
class Comparison:
    """One system minus the baseline, on one measure; the interval is of 95 %, by bootstrap.

    The p-value is of a two-sided paired randomisation test, and then corrected over all comparisons
    of the collection by Holm's method. Wins are queries on which the system is better.
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
    """The effect of a threshold, the lowest accepted score, as shares."""

    threshold: float
    recall: float  # answerable queries whose answer holds a relevant document
    false_answers: Mapping[str, float]
    precision: float | None  # of all answered queries, if any, those whose first hit is relevant


@dataclass(frozen=True, slots=True)
class StateShares:
    """The states of answers to some queries, as shares that add up to 1.

    Skills fit, a right one among them (recall) or not (false); none fits but one may; or none does.
    """

    recall: float
    false: float
    perhaps: float
    none: float


@dataclass(frozen=True, slots=True)
class FaceStates:
    """The states of all answers as one face shows them.

    Attributes:
        lower_bound: Lowest score of what may fit.
        shown: Of the queries with a relevant document among the first ten, if any, those whose
            answer names one as fitting or perhaps fitting.
        length: Skills that an answer to an answerable query names, on average.
    """

    lower_bound: float
    answerable: StateShares
    shown: float | None
    length: float
    unanswerable: Mapping[str, StateShares]


@dataclass(frozen=True, slots=True)
class States(FaceStates):
    """The states of all answers at the system's own threshold, as a list shows them.

    Attributes:
        precision: Of all answered queries, if any, those whose first hit is relevant.
        kinds: The recall of each kind of answerable query, if there are several.
        faces: As all other faces show them; none if nothing below the threshold may fit.
    """

    threshold: float
    precision: float | None
    kinds: Mapping[str, float]
    faces: Mapping[Face, FaceStates] = field(default_factory=dict)


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
    """How well a system knows when nothing fits; scores are of first hits, 0 without one."""

    auroc: Mapping[str, float]
    curve: tuple[OperatingPoint, ...]  # by ascending threshold
    default: States | None  # at the system's own threshold, if it has one
    keeping: Mapping[float, OperatingPoint]  # share of right answers kept → highest threshold
    recall_at_few_false: Mapping[str, float]  # by source, above the score that 1 in 20 reach
    calibration_error: Mapping[str, float]  # ``answerable``, ``all``; empty if not calibrated
    reliability: tuple[ReliabilityBin, ...]  # over all queries
    top_scores: Mapping[str, tuple[float, ...]]  # ``answerable`` and by source


@dataclass(frozen=True, slots=True)
class SystemReport:
    """Measurements of one system on one collection; intervals are of 95 %, by bootstrap.

    The worst queries have the lowest nDCG@10; on the best it is furthest above another system.
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
    """Measurements on one collection, the baseline first, with counts of unanswerable queries.

    Unless all queries and documents are in one language, the queries of each language are measured
    by themselves, most first, and queries in the ``same language`` as a relevant document apart
    from ``cross-language`` ones. `style` is the AUROC that the words of the requests alone reach,
    without any search, by source of unanswerable queries. If the `unit` is ``run``, the systems are
    one system at different times, the oldest first.
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
    style: Mapping[str, float] = field(default_factory=dict)
    unit: Literal["system", "run"] = "system"
