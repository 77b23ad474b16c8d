"""Add and remove rows between the current version and the next, and count their terms exactly.

The row of a term has the numbers at its version and at the one before, so that readers find theirs
while a writer makes the next, and an interrupted run can be resumed or undone.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedding import Embedder
from skillsearch.errors import CacheError, IndexNotFoundError
from skillsearch.index.corpus import IndexSettings
from skillsearch.index.lexical.postings import average_idf
from skillsearch.remote import rows as packed
from skillsearch.remote.client import Field, MilvusRow, MilvusServer, batches
from skillsearch.remote.generations import FieldTotals, Head, WriteClaim, find_current, read_head
from skillsearch.remote.rows import FOREVER, LEXICAL, Addition, CountedTerms, RemoteGeneration

BATCH_SKILLS = 256  # skills that are embedded and sent at a time
BATCH_BYTES = 4 << 20
"""Bytes of SKILL.md files in a message: their rows are thrice as large, and Milvus takes 64 MB."""
_SUMMED = ("documents", "shadowed")
_COUNTED: tuple[Field, ...] = ("record", "counts", "shadowed")
"""The fields of a row that `_count` needs."""
_READ_ROWS = 200
_CHANGED_ROWS = 1_000
_FLUSH_ROWS = 1_000  # changed rows above which the server should index them at once
_DELETE_ROWS = 500
_TERM_ROWS = 2_000
_COMPACT_AT = 1 << 21
"""Entries above which equal terms are added up, so that memory follows the vocabulary."""


class RowWriter:
    """Makes the next version; counts texts `embedded` or `truncated`, and rows `changed`."""

    def __init__(
        self,
        claim: WriteClaim,
        generation: RemoteGeneration,
        head: Head,
        embedder: Embedder | None = None,
    ) -> None:
        """Prepare to write; the claim may be of the generation that this one takes over from."""
        self._server, self._generation = claim.server, generation
        self._claim, self._head, self._embedder = claim, head, embedder
        self._waiting: list[Addition] = []
        self._tallies = TermTallies()
        self._lengths = np.array([head.totals[field].length for field in LEXICAL])
        self._sums: dict[str, Any] = {name: getattr(head, name) for name in _SUMMED}
        self.embedded = self.truncated = self.changed = 0

    def add(self, addition: Addition) -> None:
        """Queue a skill; full batches are sent as `send` does."""
        self._waiting.append(addition)
        size = sum(len(addition.data) for addition in self._waiting)
        if len(self._waiting) >= BATCH_SKILLS or size >= BATCH_BYTES:
            self.send()

    def send(self) -> None:
        """Embed and send the queue; raise `EmbedderError` if the embedder gives bad vectors."""
        self._claim.renew()
        vectors = self._vectors()
        since = self._head.version + 1
        with_body = self._head.settings.with_body
        make = partial(packed.row_of, vectors=vectors, since=since, with_body=with_body)
        rows = list(map(make, self._waiting))
        self._count(rows, 1)
        self._server.insert(self._generation.documents, rows)
        self._waiting = []

    def keep(self, ids: Iterable[str]) -> None:
        """Adopt rows that an interrupted run sent for the next version."""
        self._count(self._read(ids, _COUNTED), 1)

    def retire(self, ids: Iterable[str]) -> None:
        """End rows with the current version."""
        for some in batches(ids, _CHANGED_ROWS):
            self._count(self._read(some, _COUNTED), -1)
            self._set_until(some, self._head.version + 1)

    def restore(self, ids: Iterable[str]) -> None:
        """Keep rows that an interrupted run ended."""
        for some in batches(ids, _CHANGED_ROWS):
            self._set_until(some, FOREVER)

    def discard(self, ids: Iterable[str]) -> None:
        """Remove rows that no reader sees."""
        for some in batches(ids, _CHANGED_ROWS):
            self._server.delete(self._generation.documents, some)

    def finish(self, settings: IndexSettings, skipped: int) -> Head:
        """Complete and publish the next version; return its head.

        Raises CacheError for damaged statistics, and LockTimeoutError if another process took over.
        """
        version = self._head.version
        histograms = self._write_terms()
        if self.changed >= _FLUSH_ROWS:
            for name in (self._generation.documents, self._generation.terms):
                self._server.flush(name)
        searched = self._sums["documents"] - self._sums["shadowed"]
        head = replace(
            self._head,
            version=version + 1,
            settings=settings,
            skipped=skipped,
            totals={
                field: FieldTotals(length, histograms.average_idf(field, searched))
                for field, length in zip(LEXICAL, self._lengths.tolist(), strict=True)
            },
            **self._sums,
        )
        self._claim.check()
        self._server.upsert(self._generation.terms, [head.to_row()])
        self._forget_old()
        return head

    def _count(self, rows: Iterable[MilvusRow], sign: int) -> None:
        """Count documents that are added (sign 1) or removed (sign -1)."""
        for row in rows:
            self.changed += 1
            self._sums["documents"] += sign
            if row["shadowed"]:
                self._sums["shadowed"] += sign
                continue
            counted = packed.counts_of(row)
            self._tallies.add(counted, sign)
            self._lengths += sign * np.array(counted.lengths)

    def _vectors(self) -> dict[bytes, NDArray[np.float32]]:
        """Return the vectors of the queued texts by key, reusing those of replaced rows."""
        vectors: dict[bytes, NDArray[np.float32]] = {}
        metadata, _ = packed.DENSE
        replaced = [addition.replaces for addition in self._waiting if addition.replaces]
        for row in self._read(replaced, ["record", metadata]):
            key = bytes.fromhex(packed.document_of(row).key)
            vectors[key] = np.array(row[metadata], np.float32)
        texts: dict[bytes, str] = {}
        for addition in self._waiting:
            texts |= addition.texts.by_key()
        missing = [key for key in texts if key not in vectors]
        new = [texts[key] for key in missing]
        for result in self._embedder.embed_stream(new) if self._embedder else ():
            vectors[missing[result.position]] = result.vector
            self.truncated += result.truncated
            self.embedded += 1
        return vectors

    def _write_terms(self) -> Histograms:
        """Write terms and histograms of the next version, and return these, or raise CacheError."""
        server, name, version = self._server, self._generation.terms, self._head.version
        hashes, changes = self._tallies.total()
        histograms = Histograms()
        if version:
            key = f"histograms-{version}"
            histograms = Histograms.from_row(server.get(name, [key], ["note"]).get(key, {}))
        is_untouched = not self._undo_others(hashes) and version == 0
        for begin in range(0, len(hashes), _TERM_ROWS):
            part = slice(begin, begin + _TERM_ROWS)
            ids = list(map(packed.term_id, hashes[part].tolist()))
            rows = {} if is_untouched else server.get(name, ids, packed.FREQUENCIES)
            before = np.array([_known_frequencies(rows.get(key), version) for key in ids])
            after = before + changes[part]
            histograms.change(before, after)
            written = [
                packed.term_row(key, version + 1, now, then)
                for key, now, then in zip(ids, after.tolist(), before.tolist(), strict=True)
            ]
            server.insert(name, [row for row in written if row["id"] not in rows])
            server.upsert(name, [row for row in written if row["id"] in rows])
        server.upsert(name, [histograms.to_row(version + 1)])
        return histograms

    def _undo_others(self, hashes: NDArray[np.uint64]) -> bool:
        """Restore terms that an interrupted run changed and this one does not; return if any."""
        version, fields = self._head.version, ["id", *packed.FREQUENCIES]
        condition = f"kind == {packed.TERM} and version > {version}"
        pages = self._server.iterate(self._generation.terms, condition, fields, _TERM_ROWS)
        changed_rows = [row for page in list(pages) for row in page]
        is_ours = np.isin(np.array([int(row["id"], 16) for row in changed_rows], np.uint64), hashes)
        for some in batches(itertools.compress(changed_rows, ~is_ours), _TERM_ROWS):
            frequencies = [(row["id"], _known_frequencies(row, version)) for row in some]
            restored = [packed.term_row(key, version, now, now) for key, now in frequencies]
            self._server.upsert(self._generation.terms, restored)
        return bool(changed_rows)

    def _forget_old(self) -> None:
        """Remove the histograms and terms that only versions before the last one need."""
        name, version = self._generation.terms, self._head.version
        dead = f"kind == {packed.TERM} and version <= {version} and metadata == 0 and full == 0"
        old = f'kind == {packed.RECORD} and version < {version} and id != "{packed.HEAD}"'
        for condition in (dead, old):
            for page in list(self._server.iterate(name, condition, ["id"], _TERM_ROWS)):
                self._server.delete(name, [row["id"] for row in page])

    def _read(self, ids: Iterable[str], fields: Sequence[Field]) -> Iterable[MilvusRow]:
        for some in batches(ids, _READ_ROWS):
            yield from self._server.get(self._generation.documents, some, fields).values()

    def _set_until(self, ids: Sequence[str], until: int) -> None:
        self._claim.renew()
        rows: list[MilvusRow] = [{"id": key, "until": until} for key in ids]
        self._server.upsert(self._generation.documents, rows, partial=True)


def delete(server: MilvusServer, alias: str, doc_ids: Collection[str]) -> int:
    """Remove documents by id, without looking at any disk; return how many there were."""
    missing = IndexNotFoundError(f"There is no usable index {alias!r} in Milvus at {server.shown}.")
    current = find_current(server, alias)
    if current is None:
        raise missing
    generation = current.generation
    with WriteClaim(server, generation) as claim:
        head = read_head(server, generation.terms)
        if head is None or find_current(server, alias) is None:
            raise missing
        writer = RowWriter(claim, generation, head)
        for condition, act in (  # what an interrupted run left
            (f"since > {head.version}", writer.discard),
            (f"until == {head.version + 1}", writer.restore),
            (f"until < {head.version}", writer.discard),
        ):
            pages = server.iterate(generation.documents, condition, ["id"], _DELETE_ROWS)
            for page in list(pages):
                act([row["id"] for row in page])
        ids: list[str] = []
        for keys in batches(sorted(set(map(packed.key_of, doc_ids))), _DELETE_ROWS):
            wanted = ", ".join(f'"{key}"' for key in keys)
            condition = f"key in [{wanted}] and {head.condition}"
            rows = server.query(generation.documents, condition, ["id"], len(keys))
            ids += [row["id"] for row in rows]
        if ids:
            writer.retire(ids)
            writer.finish(head.settings, head.skipped)
        return len(ids)


class TermTallies:
    """Adds up by how many documents each term's frequency changes, by lexical field."""

    def __init__(self, compact_at: int = _COMPACT_AT) -> None:
        self._hashes = [np.zeros(0, np.uint64)]
        self._changes = [np.zeros((0, 2), np.int64)]
        self._held = 0
        self._compact_at = self._limit = compact_at

    def add(self, counted: CountedTerms, sign: int) -> None:
        """Count a document that is added (sign 1) or removed (sign -1)."""
        self._hashes.append(counted.hashes)
        self._changes.append((counted.frequencies > 0).T * np.int64(sign))
        self._held += len(counted.hashes)
        if self._held > self._limit:
            self.total()
            self._limit = max(self._compact_at, 2 * self._held)

    def total(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the terms, ascending, and their changes, int64, shape (terms, 2)."""
        changes = np.concatenate(self._changes)
        hashes, places = np.unique(np.concatenate(self._hashes), return_inverse=True)
        sums = [np.bincount(places, column, len(hashes)) for column in changes.T]
        total = np.stack(sums, axis=1).astype(np.int64)
        self._hashes, self._changes, self._held = [hashes], [total], len(hashes)
        return hashes, total


class Histograms:
    """How many terms have each document frequency, by field, from which the mean idf follows."""

    def __init__(self, counts: dict[str, Counter[int]] | None = None) -> None:
        self._counts = counts or {field: Counter() for field in LEXICAL}

    def change(self, before: NDArray[np.int64], after: NDArray[np.int64]) -> None:
        """Change frequencies, both of shape (terms, 2); raise `CacheError` if any gets negative."""
        if (after < 0).any():
            raise CacheError("the collection counts fewer documents of a term than it holds")
        for column, field in enumerate(LEXICAL):
            counts = self._counts[field]
            counts.update(after[:, column].tolist())
            counts.subtract(before[:, column].tolist())
            nonzero = {number: terms for number, terms in counts.items() if number and terms}
            self._counts[field] = Counter(nonzero)

    def average_idf(self, field: str, documents: int) -> float:
        """Return BM25Okapi's mean idf over the distinct terms of a field."""
        numbers, terms = np.array(sorted(self._counts[field].items()), np.int64).reshape(-1, 2).T
        return average_idf(numbers, documents, terms)

    def to_row(self, version: int) -> MilvusRow:
        """Return the row that holds the counts of a version."""
        tables = {name: sorted(self._counts[name].items()) for name in LEXICAL}
        return packed.note_row(f"histograms-{version}", packed.RECORD, version, tables)

    @classmethod
    def from_row(cls, row: MilvusRow) -> Histograms:
        """Read the result of `to_row`; raise `CacheError` if it is damaged."""
        with packed.checked("the statistics row of the collection"):
            tables = json.loads(packed.unpack(row["note"]))
            counts = {
                field: Counter({int(number): int(terms) for number, terms in tables[field]})
                for field in LEXICAL
            }
        return cls(counts)


def _known_frequencies(row: MilvusRow | None, version: int) -> tuple[int, int]:
    """Return the frequencies at a version; only concurrent writers can have made it forget."""
    if (numbers := packed.frequencies_at(row, version)) is None:
        raise CacheError("a term was written by a newer version of the index than the one read")
    return numbers
