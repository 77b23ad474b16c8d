"""How an interface records what it answers, and has searches learn from what was recorded.

Without a log, nothing here does anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from skillsearch.index.roots.scope import folders_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from skillsearch.index.dense.query_embedder import ModelSettings
    from skillsearch.index.search.query import QueryForm
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.settings.table import Settings
    from skillsearch.types.answers import SearchResult, Selection
    from skillsearch.usage.log import Origin, UsageLog
    from skillsearch.usage.support import Usage


class AnyIndex(Protocol):
    """An index that learns, on this machine or in Milvus."""

    usage: Usage | None

    @property
    def address(self) -> str:
        """Where it is."""

    @property
    def model(self) -> ModelSettings:
        """The model that it was made with."""

    def analyse(self, query: str) -> QueryForm:
        """Return a query as it is searched for."""


def log_of(settings: Settings, interface: str) -> UsageLog | None:
    """Return the log in which an interface records; None if the settings do not ask for one."""
    if settings.usage == "off":
        return None
    from skillsearch.usage.log import UsageLog

    return UsageLog.own(interface, has_text=settings.usage == "text")


def learn(index: AnyIndex, log: UsageLog | None) -> None:
    """Let an index use what a log says of its skills; without a log, nothing."""
    index.usage = log.usage(origin_of(index), index.model.dimensions, index.usage) if log else None


def record(
    log: UsageLog | None,
    index: AnyIndex,
    answer: SearchResult,
    selection: Selection = (),
    *,
    is_shadow: bool = False,
) -> None:
    """Record an answer of an index to a question from the folder of a selection."""
    if log:
        vector = index.analyse(answer.query).vector
        log.note_request(origin_of(index, selection), answer, vector, is_shadow=is_shadow)


def record_load(
    log: UsageLog | None, index: AnyIndex, skill: str, selection: Selection = ()
) -> None:
    """Record that a skill was loaded, by its id."""
    if log:
        log.note_load(origin_of(index, selection), skill)


def names_by_vectors(index: SkillIndex, vectors: NDArray[np.float32]) -> list[str]:
    """Return the name of the skill that is nearest to each vector; empty if there is none."""
    corpus = index.opened.corpus
    with index.opened.guard:
        near = corpus.dense.nearest_to_each(vectors, 1, corpus.documents.left_out)
        return [corpus.documents[int(pool[0])].name if len(pool) else "" for pool in near]


def origin_of(index: AnyIndex, selection: Selection = ()) -> Origin:
    """Return where a question to an index comes from."""
    from skillsearch.embedders.embedder import PACKAGED
    from skillsearch.usage.log import Origin
    from skillsearch.usage.support import ALIKE, ALIKE_ELSEWHERE

    alike = ALIKE if index.model.spec in PACKAGED else ALIKE_ELSEWHERE
    folder = next(iter(folders_of(selection)), "")
    return Origin(folder, index.address, index.model.fingerprint, alike)
