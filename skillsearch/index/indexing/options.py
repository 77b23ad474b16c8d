"""How a run of indexing is to work: declared here alone, for all that change an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from skillsearch.embedders.embedding import Embedder
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.index.corpus import Corpus
from skillsearch.index.dense.vectors import FLAT_LIMIT
from skillsearch.index.roots.request import OnMissing
from skillsearch.skills.example_requests import ExampleBook
from skillsearch.types.indexing import Progress


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """When changes are written as a delta instead of into the corpus, and vectors beside codes.

    A corpus below `least_documents` is rewritten within seconds. At `most_changed` skills since the
    base segment a delta is written in half a second; `most_at_once` have their terms in memory. A
    segment of more than `most_flat` is searched by codes of its vectors.
    """

    least_documents: int = 20_000
    most_changed: int = 5_000
    most_at_once: int = 1_000
    most_flat: int = FLAT_LIMIT

    def allow(self, corpus: Corpus, changes: int) -> bool:
        """Return whether `changes` changes of a corpus are better written as a delta."""
        store = corpus.documents
        base = store.segments[0].size
        changed = store.size - base + len(store.deleted) + 2 * changes
        fits = changes <= self.most_at_once and changed <= self.most_changed
        return base >= self.least_documents and fits


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """The options of a `Builder`.

    Attributes:
        verify: Hash every file, the index's too, whatever its stat says, and load the model anew.
        missing: What becomes of a root that cannot be read.
        only: What may have changed since the last run; in a small index all files are looked at.
        device: Where a model of sentence-transformers runs; None asks the settings.
        embedders: The loaded embedders, by model spec.
        progress: Called with the stage, how many are done, and how many there are.
        limits: When changes are written as a delta.
        examples: Which example requests skills get; None for those that are there.
        metadata_first: Embed only the metadata of skills in new roots, since somebody waits. Their
            chunks and examples, which are most of the text, wait for a run without this option.
    """

    verify: bool = False
    missing: OnMissing = "refuse"
    only: Sequence[Path] = ()
    device: str | None = None
    embedders: Mapping[str, Embedder] = field(default_factory=dict)
    progress: Progress | None = None
    limits: SegmentLimits = field(default_factory=SegmentLimits)
    examples: ExampleBook | None = None
    metadata_first: bool = False
