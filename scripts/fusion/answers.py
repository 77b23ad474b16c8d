"""The first hits of samples under ranking weights, and what a reader says of them."""

from __future__ import annotations

import json
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fusion.ranking import Matrix
from fusion.samples import Sample
from skillsearch.embedders.model_files import sha256_of
from skillsearch.evaluation.types import Collection
from skillsearch.index.search.evidence import EVIDENCE, leads
from skillsearch.index.search.ranker import best_first
from skillsearch.index.search.reading import READ_MOST, can_read, shown_of
from skillsearch.readers.loading import load_reader

HITS = 10
"""First hits of an answer, which are judged."""
NO_HIT = 1e9


@dataclass(frozen=True, slots=True)
class Answers:
    """All samples under one set of ranking weights, one row each, and a column for each hit.

    Attributes:
        evidence: Evidence for each of the first `HITS` hits, columns as in `EVIDENCE`; NaN for
            missing ones.
        sums: Their ranking sums, the highest first.
        relevant: Which of these hits are relevant.
        logits: What the reader says of the first hits; NaN for those that it has not read.
    """

    evidence: Matrix
    sums: Matrix
    relevant: NDArray[np.bool_]
    logits: Matrix

    @classmethod
    def of(cls, samples: Sequence[Sample], weights: Matrix, logits: Logits | None) -> Answers:
        """Rank the candidates of every sample."""
        shape = (len(samples), HITS)
        answers = cls(
            np.full((*shape, len(EVIDENCE)), np.nan),
            np.full(shape, -NO_HIT),
            np.zeros(shape, bool),
            np.full(shape, np.nan),
        )
        lead = list(EVIDENCE).index("lead")
        for row, sample in enumerate(samples):
            candidates = sample.candidates
            sums = candidates.features @ weights
            order = best_first(sums, candidates.documents)[:HITS]
            size = len(order)
            answers.evidence[row, :size] = sample.evidence(order.tolist())
            answers.evidence[row, :size, lead] = leads(sums[order])
            answers.sums[row, :size] = sums[order]
            answers.relevant[row, :size] = sample.relevant[order]
            if logits is not None:
                read = logits.of(sample, order[:READ_MOST].tolist())
                answers.logits[row, : len(read)] = read
        return answers

    def reordered(self, weight: float) -> NDArray[np.int64]:
        """Return the order of the hits after reading, (samples, `HITS`)."""
        is_read = ~np.isnan(self.logits)
        sums = self.sums + weight * np.nan_to_num(self.logits)
        # First those that were read, best first; the others keep their ranks.
        best = np.argsort(np.where(is_read, -sums, np.inf), axis=1, kind="stable")
        ranks = np.argsort(~is_read, axis=1, kind="stable")
        order = np.empty_like(best)
        np.put_along_axis(order, ranks, best, axis=1)
        return order


class Logits:
    """What a reader says of queries that it was trained without; kept in a file."""

    def __init__(self, folder: Path, queries: Mapping[str, Container[str]], work: Path) -> None:
        """Load the reader, for queries by collection, and what it said before."""
        self._reader = load_reader(str(folder))
        digest = sha256_of(folder / "reader.onnx_data")
        self.queries = queries
        self._path = work / f"logits-{digest[:16]}.json"
        self._logits: dict[str, float] = {}
        if self._path.is_file():
            self._logits = json.loads(self._path.read_text(encoding="utf-8"))

    def of(self, sample: Sample, rows: Sequence[int]) -> list[float]:
        """Return the logits of the candidates in some rows, none if they are not to be read."""
        if not self._may_read(sample):
            return []
        request, texts = sample.query.request, unread_texts(sample, rows)
        keys = {
            row: sha256(f"{request}\0{text}".encode()).hexdigest()[:24]
            for row, text in texts.items()
        }
        new = {key: texts[row] for row, key in keys.items() if key not in self._logits}
        if new:
            logits = self._reader.read(request, list(new.values()))
            self._logits.update(zip(new, logits.tolist(), strict=True))
        sample.read.update((row, self._logits[key]) for row, key in keys.items())
        return [sample.read[row] for row in rows]

    def _may_read(self, sample: Sample) -> bool:
        """Return whether the reader was trained without the query of a sample, a whole one."""
        unseen = self.queries.get(sample.collection)
        if unseen is None or sample.variant != "whole":
            return False
        return sample.judged_query is None or sample.judged_query.query_id in unseen

    def save(self) -> None:
        """Keep what was read."""
        self._path.write_text(json.dumps(self._logits), encoding="utf-8")


def unread_texts(sample: Sample, rows: Sequence[int]) -> dict[int, str]:
    """Return what a reader is shown of candidates that it has not read, by their rows.

    For those that it cannot read, NaN is noted in the sample.
    """
    texts = {}
    for row in rows:
        if row not in sample.read:
            document = sample.corpus.documents[int(sample.candidates.documents[row])]
            if can_read(document, sample.query):
                texts[row] = shown_of(document, sample.query)
            else:
                sample.read[row] = math.nan
    return texts


def unseen_queries(
    collections: Sequence[Collection], names: Sequence[str]
) -> dict[str, Container[str]]:
    """Return the ids of queries that a reader was trained without, by collection.

    Of ``NAME:HALF`` they are those of every other repository, as `train_reader` leaves them out.
    """
    halves = {name.partition(":")[0]: name.partition(":")[2] for name in names}
    unseen: dict[str, Container[str]] = {}
    for collection in collections:
        if collection.name not in halves:
            continue
        ids = {query.query_id for query in (*collection.queries, *collection.negatives)}
        if half := halves[collection.name]:
            homes = sorted({document.doc_id.partition("/")[0] for document in collection.documents})
            kept = set(homes[int(half) :: 2])
            ids = {query_id for query_id in ids if query_id.partition("/")[0] in kept}
        unseen[collection.name] = ids
    return unseen
