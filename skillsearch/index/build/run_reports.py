"""What a run of indexing did, for its caller."""

from __future__ import annotations

import time
from typing import Protocol

from skillsearch.index.build.diagnostics import count_skipped
from skillsearch.index.corpus import OpenedIndex
from skillsearch.types import Diagnostic, IndexReport


class Run(Protocol):
    """A run that wrote an index; see `IndexReport` for what its counts are."""

    size: int
    removed: int
    embedded: int
    truncated: int

    @property
    def reused(self) -> int:
        """How many documents are what they were."""


def report_of(
    run: Run,
    generation: str,
    diagnostics: tuple[Diagnostic, ...],
    healed: tuple[str, ...],
    started: float,
) -> IndexReport:
    """Tell what a run did.

    Args:
        run: The run.
        generation: What it wrote.
        diagnostics: All that there is to report.
        healed: Files of the index that were damaged.
        started: When it began, by the monotonic clock.

    Returns:
        The report.
    """
    return IndexReport(
        indexed=run.size,
        embedded=run.embedded,
        reused=run.reused,
        removed=run.removed,
        skipped=count_skipped(diagnostics),
        truncated=run.truncated,
        diagnostics=diagnostics,
        generation=generation,
        healed=healed,
        seconds=time.monotonic() - started,
    )


def report_unchanged(index: OpenedIndex, healed: tuple[str, ...], started: float) -> IndexReport:
    """Tell of a run that found nothing to do.

    Args:
        index: The index as it is.
        healed: Files of the index that were damaged.
        started: When the run began, by the monotonic clock.

    Returns:
        The report.
    """
    diagnostics, count = index.diagnostics(), len(index.corpus.documents)
    return IndexReport(
        indexed=count,
        embedded=0,
        reused=count,
        removed=0,
        skipped=count_skipped(diagnostics),
        truncated=0,
        diagnostics=diagnostics,
        generation=index.name,
        healed=healed,
        seconds=time.monotonic() - started,
    )
