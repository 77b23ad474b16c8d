"""What is compared of systems that can be installed, by the keys of its result file.

Shares stand with their interval, as three numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NotRequired, TypeAlias, TypedDict

from skillsearch.evaluation.types import Ranking

Share: TypeAlias = Sequence[float]
Half: TypeAlias = Literal["quality", "cost"]


class Run(TypedDict):
    """When, at which commit and on what machine something was measured, and on how much."""

    date: str
    commit: str
    cpus: int | None
    python: NotRequired[str]
    import_numpy_cpu_s: NotRequired[float]
    sizes: NotRequired[list[int]]


class Answer(TypedDict):
    """What a system answers to a request: a ranking; whether a skill fits; whether one is named."""

    id: str
    hits: Ranking
    fits: bool
    named: bool
    cpu_ms: float


class PeerRun(TypedDict):
    """What a process of a system measured of itself, and its answers."""

    cpu_s: float
    rss_mb: float
    rows: list[Answer]


class Language(TypedDict):
    """Measures of the requests in a language."""

    ndcg: float
    recall: float
    requests: int


class Named(TypedDict, total=False):
    """To how many requests a skill fits, and for how many it does or may."""

    fits: Share
    named: Share


class Pairs(TypedDict, total=False):
    """For how many pairs of requests a best skill is first in both, and how many there are."""

    contrast: Share
    pairs: int


class Negatives(Named, total=False):
    """The same of requests that nothing fits, by kind too, and what a threshold would keep."""

    kinds: dict[str, Named]
    kept: Share


class Judged(Negatives, Pairs, total=False):
    """How good answers are."""

    ndcg: Share
    success_1: Share
    success_5: Share
    told: Share
    p_holm: float
    languages: dict[str, Language]


class Failures(TypedDict, total=False):
    """Why an interface does not answer."""

    server_failed: str
    hook_failed: str


class ServerStart(TypedDict):
    """What a server takes to shake hands, and to its first answer."""

    server_cpu_s: float
    first_answer_cpu_s: float


class Costs(Failures, total=False):
    """What an index, a first and a later answer cost."""

    index_cpu_s: float
    cold_cpu_s: float
    warm_cpu_ms: float
    rss_mb: float
    install_mb: float
    server_cpu_s: float
    first_answer_cpu_s: float
    hook_cpu_s: float


class ServerTokens(TypedDict):
    """The tokens of a server's definitions, and of an answer."""

    definitions: int
    answer: float


class HookTokens(TypedDict):
    """The tokens that a hook adds to a prompt."""

    hook: float


class Tokens(Failures, total=False):
    """What an agent reads of a server and of a hook."""

    definitions: int
    answer: float
    hook: float


class Row(Judged, Costs, total=False):
    """A system on a collection; what was not measured is not there."""

    kind: str
    failed: str
    measured: dict[Half, Run]
    tokens: Tokens
    answers: dict[str, Answer]


class Report(TypedDict):
    """The result file."""

    collections: dict[str, dict[str, Row]]
    sizes: dict[str, list[int]]
    packages: dict[str, list[str]]
    network: bool


CostKey: TypeAlias = Literal[
    "index_cpu_s",
    "cold_cpu_s",
    "warm_cpu_ms",
    "rss_mb",
    "install_mb",
    "server_cpu_s",
    "first_answer_cpu_s",
    "hook_cpu_s",
]
TokenKey: TypeAlias = Literal["definitions", "answer", "hook"]
FailureKey: TypeAlias = Literal["server_failed", "hook_failed"]
