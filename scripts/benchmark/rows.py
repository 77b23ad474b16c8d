"""What the benchmark measures, by the keys of its result file; times are of CPU and wall."""

from __future__ import annotations

from typing import Generic, Literal, NotRequired, TypeAlias, TypedDict, TypeVar

_T = TypeVar("_T")


class Machine(TypedDict):
    """What was measured and when, and what tells how fast the machine is."""

    date: str
    commit: str
    cpus: int | None
    python: str
    import_numpy_cpu_s: float


class Cost(TypedDict):
    """What a process costs."""

    cpu_s: float
    wall_s: float
    rss_mb: float


class Calls(TypedDict):
    """Milliseconds of a call: the median, and percentiles."""

    cpu_ms: float
    cpu_ms_p95: float
    cpu_ms_p99: float
    wall_ms: float
    wall_ms_p90: float
    wall_ms_p95: float
    wall_ms_p99: float


WallTime: TypeAlias = Literal["wall_ms", "wall_ms_p95", "wall_ms_p99"]
Reader: TypeAlias = Literal["off", "on"]


class ByReader(TypedDict, Generic[_T]):
    """A figure without the reader, and with it."""

    off: _T
    on: _T


class Building(Cost):
    """What making an index costs, and how many texts were embedded meanwhile."""

    embedded: int


class WarmQuery(TypedDict):
    """What a search costs in a process that has searched before, and the mean of its steps."""

    reader: ByReader[Calls]
    without_embedding: Calls
    steps_ms: dict[str, float]


class Recall(TypedDict):
    """The share of the nearest vectors that is found."""

    queries: float
    noisy_descriptions: float


class Loading(TypedDict):
    """What loading a skill by its name costs."""

    body: Calls
    body_and_files: Calls
    again: Calls


class RankBm25(TypedDict, total=False):
    """What rank-bm25 takes, and how far its scores are from ours."""

    rank_bm25_cpu_ms: float
    rank_bm25_best_cpu_ms: float
    rank_bm25_build_cpu_s: float
    largest_difference: float


class Bm25(RankBm25):
    """BM25, ours and others, over the same texts, or which were left out and why."""

    ours_cpu_ms: float
    ours_best_cpu_ms: float
    ratio: NotRequired[float]
    rank_bm25_best_ratio: NotRequired[float]
    bm25s_best_cpu_ms: NotRequired[float]
    bm25s_best_ratio: NotRequired[float]
    bm25s_build_cpu_s: NotRequired[float]
    left_out: NotRequired[str]


Ratio: TypeAlias = Literal["ratio", "bm25s_best_ratio"]


class Update(TypedDict):
    """What indexing a changed skill costs: by looking at all, and at it alone."""

    all: Cost
    only: Cost


class SizeRow(TypedDict):
    """What is measured at one size of the corpus."""

    skills: int
    fields: str
    families: int
    index_without_embedding: Building
    disk_bytes: dict[str, int]
    no_op_index: Cost
    cold_query: ByReader[Cost]
    hook: Cost
    warm_query: WarmQuery
    recall_at_10: Recall
    loading: Loading
    bm25: Bm25
    update: Update


class Throughput(Cost):
    """How fast skills are indexed, embedding included, and queries of two kinds answered."""

    date: str
    skills: int
    skills_per_s: float
    english_queries: Calls
    other_queries: Calls


class ExampleCost(TypedDict):
    """An index with example requests, or without any."""

    skills: int
    embedded: int
    disk_bytes: int
    warm_cpu_ms: float


ExampleCosts = TypedDict("ExampleCosts", {"without": ExampleCost, "with": ExampleCost})


class Evaluation(Cost):
    """What a comparison of two systems costs."""

    collection: str
    queries: int


class Report(TypedDict):
    """The result file."""

    machine: Machine
    originals: int
    throughput: Throughput
    examples: NotRequired[ExampleCosts]
    evaluation: list[Evaluation]
    sizes: list[SizeRow]
