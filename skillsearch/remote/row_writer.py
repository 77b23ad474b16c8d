"""Add and remove rows between the current version and the next, and count their terms exactly.

The row of a term has the numbers at its version and at the one before, so that readers find theirs
while a writer makes the next, and an interrupted run can be resumed or undone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.embedders.embedding import Embedder
from skillsearch.errors import CacheError, IndexNotFoundError
from skillsearch.index.corpus import IndexSettings
from skillsearch.index.documents import KNOWN
from skillsearch.remote import rows as packed
from skillsearch.remote import schema
from skillsearch.remote.client import MilvusServer, Row, batches
from skillsearch.remote.generations import Claim, FieldTotals, Head, find_current, read_head
from skillsearch.remote.rows import Addition, CountedTerms
from skillsearch.remote.schema import FOREVER, LEXICAL, Generation

if TYPE_CHECKING:
    from numpy.typing import NDArray

BATCH_SKILLS = 256  # skills that are embedded and sent at a time
BATCH_BYTES = 4 << 20
"""Bytes of SKILL.md files that are sent at a time; their rows are about three times as large, and
Milvus takes 64 MB in a message."""
_COUNTED = ("record", "counts", "shadowed")  # fields of a row that `_count` needs
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
        server: MilvusServer,
        generation: Generation,
        head: Head,
        claim: Claim,
        embedders: Sequence[Embedder] = (),
        batch_skills: int = BATCH_SKILLS,
    ) -> None:
        """Prepare to write; without additions no embedders are needed."""
        self._server = server
        self._generation = generation
        self._head = head
        self._claim = claim
        self._embedders = embedders
        self._batch_skills = batch_skills
        self._with_body = head.settings.with_body
        self._waiting: list[Addition] = []
        self._waiting_bytes = 0
        self._tallies = TermTallies()
        self._lengths = np.array([head.totals[field].length for field in LEXICAL])
        self._documents, self._shadowed = head.documents, head.shadowed
        self._trust, self._others = head.trust, head.others
        self.embedded = self.truncated = self.changed = 0

    def add(self, addition: Addition) -> None:
        """Queue a skill; full batches are sent as `send` does."""
        self._waiting.append(addition)
        self._waiting_bytes += len(addition.data)
        if len(self._waiting) >= self._batch_skills or self._waiting_bytes >= BATCH_BYTES:
            self.send()

    def send(self) -> None:
        """Embed and send the queue; raise `EmbedderError` if the embedder gives bad vectors."""
        self._claim.renew()
        vectors = self._vectors()
        since = self._head.version + 1
        with_body = self._with_body
        rows = [
            packed.row_of(one, vectors, since=since, with_body=with_body) for one in self._waiting
        ]
        self._count(rows, 1)
        self._server.insert(self._generation.documents, rows)
        self._waiting, self._waiting_bytes = [], 0

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
        histograms = write_changes(self._server, self._generation, version, self._tallies)
        if self.changed >= _FLUSH_ROWS:
            for name in (self._generation.documents, self._generation.terms):
                self._server.flush(name)
        searched = self._documents - self._shadowed
        head = replace(
            self._head,
            version=version + 1,
            settings=settings,
            skipped=skipped,
            documents=self._documents,
            shadowed=self._shadowed,
            trust=self._trust,
            others=self._others,
            totals={
                field: FieldTotals(length, histograms.average_idf(field, searched))
                for field, length in zip(LEXICAL, self._lengths.tolist(), strict=True)
            },
        )
        self._claim.check()
        self._server.upsert(self._generation.terms, [head.to_row()])
        forget_before(self._server, self._generation, version)
        return head

    def _count(self, rows: Iterable[Row], sign: int) -> None:
        """Count documents that are added (sign 1) or removed (sign -1)."""
        for row in rows:
            self.changed += 1
            self._documents += sign
            if row["shadowed"]:
                self._shadowed += sign
                continue
            document, counted = packed.document_of(row), packed.counts_of(row)
            self._tallies.add(counted, sign)
            self._lengths += sign * np.array(counted.lengths)
            self._trust += sign * float(np.float32(document.trust))
            self._others += sign * (document.fluency < KNOWN)

    def _vectors(self) -> list[dict[bytes, NDArray[np.float32]]]:
        """Return the queued texts' vectors by channel and key, reusing vectors of replaced rows."""
        known: list[dict[bytes, NDArray[np.float32]]] = [{} for _ in self._embedders]
        dense = schema.dense_fields(len(known), with_body=self._with_body)
        replaced = [one.replaces for one in self._waiting if one.replaces]
        for row in self._read(replaced, ["record", *chain(*dense)]):
            for vectors, names, keys in zip(
                known, dense, packed.document_of(row).keys, strict=True
            ):
                for name, key in zip(names, keys, strict=False):
                    vectors[bytes.fromhex(key)] = np.array(row[name], np.float32)
        for channel, (embedder, vectors) in enumerate(zip(self._embedders, known, strict=True)):
            texts: dict[str, str] = {}
            for one in self._waiting:
                keys, embedded = one.texts.document.keys[channel], one.texts.embedded[channel]
                texts.update(zip(keys, embedded, strict=True))
                if channel == 0:
                    texts.update((chunk.record[2], chunk.head) for chunk in one.texts.chunks)
            missing = [key for key in map(bytes.fromhex, filter(None, texts)) if key not in vectors]
            for result in embedder.embed_stream([texts[key.hex()] for key in missing]):
                vectors[missing[result.position]] = result.vector
                self.truncated += result.truncated
                self.embedded += 1
        return known

    def _read(self, ids: Iterable[str], fields: Sequence[str]) -> Iterable[Row]:
        for some in batches(ids, _READ_ROWS):
            yield from self._server.get(self._generation.documents, some, fields).values()

    def _set_until(self, ids: Sequence[str], until: int) -> None:
        self._claim.renew()
        rows = [{"id": key, "until": until} for key in ids]
        self._server.upsert(self._generation.documents, rows, partial=True)


def delete(server: MilvusServer, alias: str, doc_ids: Collection[str]) -> int:
    """Remove documents by id, without looking at any disk; return how many there were."""
    missing = IndexNotFoundError(f"There is no usable index {alias!r} in Milvus at {server.shown}.")
    current = find_current(server, alias)
    if current is None:
        raise missing
    generation = current.generation
    with Claim(server, generation) as claim:
        head = read_head(server, generation)
        if head is None or find_current(server, alias) is None:
            raise missing
        writer = RowWriter(server, generation, head, claim)
        for condition, act in (  # what an interrupted run left
            (f"since > {head.version}", writer.discard),
            (f"until == {head.version + 1}", writer.restore),
            (f"until < {head.version}", writer.discard),
        ):
            pages = server.iterate(generation.documents, condition, ["id"], _DELETE_ROWS)
            for page in list(pages):
                act([row["id"] for row in page])
        found: list[str] = []
        for keys in batches(sorted(set(map(packed.key_of, doc_ids))), _DELETE_ROWS):
            wanted = ", ".join(f'"{key}"' for key in keys)
            condition = f"key in [{wanted}] and {head.condition}"
            rows = server.query(generation.documents, condition, ["id"], len(keys))
            found += [row["id"] for row in rows]
        if found:
            writer.retire(found)
            writer.finish(head.settings, head.skipped)
        return len(found)


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
        """Take counts; by default there are no terms."""
        self._counts = counts or {field: Counter() for field in schema.LEXICAL}

    def change(self, before: NDArray[np.int64], after: NDArray[np.int64]) -> None:
        """Change frequencies, both of shape (terms, 2); raise `CacheError` if any gets negative."""
        if (after < 0).any():
            raise CacheError("the collection counts fewer documents of a term than it holds")
        for place, field in enumerate(schema.LEXICAL):
            counts = self._counts[field]
            counts.update(after[:, place].tolist())
            counts.subtract(before[:, place].tolist())
            kept = {number: terms for number, terms in counts.items() if number and terms}
            self._counts[field] = Counter(kept)

    def average_idf(self, field: str, documents: int) -> float:
        """Return BM25Okapi's mean idf over the distinct terms of a field."""
        if not (counts := self._counts[field]):
            return 0.0
        numbers, terms = np.array(sorted(counts.items()), np.float64).T
        idf = np.log(documents - numbers + 0.5) - np.log(numbers + 0.5)
        return float(terms @ idf / terms.sum())

    def to_bytes(self) -> bytes:
        """Return the form that a row holds."""
        tables = {name: sorted(self._counts[name].items()) for name in schema.LEXICAL}
        return json.dumps(tables).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Histograms:
        """Read the result of `to_bytes`; raise `CacheError` if it is damaged."""
        with packed.checked("the statistics row of the collection"):
            tables = json.loads(data)
            counts = {
                field: Counter({int(number): int(terms) for number, terms in tables[field]})
                for field in schema.LEXICAL
            }
        return cls(counts)


def write_changes(
    server: MilvusServer, generation: Generation, version: int, tallies: TermTallies
) -> Histograms:
    """Write terms and histograms of the next version, and return these, or raise `CacheError`."""
    hashes, changes = tallies.total()
    histograms = Histograms()
    if version:
        key = f"histograms-{version}"
        rows = server.get(generation.terms, [key], ["note"])
        if not rows:
            raise CacheError("the statistics of the collection are missing")
        histograms = Histograms.from_bytes(packed.unpack(rows[key]["note"]))
    is_untouched = not _undo_others(server, generation, version, hashes) and version == 0
    for begin in range(0, len(hashes), _TERM_ROWS):
        part = slice(begin, begin + _TERM_ROWS)
        ids = list(map(schema.term_id, hashes[part].tolist()))
        rows = {} if is_untouched else server.get(generation.terms, ids, schema.FREQUENCIES)
        before = np.array(
            [_known_frequencies(rows[key], version) if key in rows else (0, 0) for key in ids]
        )
        after = before + changes[part]
        histograms.change(before, after)
        written = [
            schema.term_row(key, version + 1, now, then)
            for key, now, then in zip(ids, after.tolist(), before.tolist(), strict=True)
        ]
        server.insert(generation.terms, [row for row in written if row["id"] not in rows])
        server.upsert(generation.terms, [row for row in written if row["id"] in rows])
    note = packed.pack(histograms.to_bytes())
    key = f"histograms-{version + 1}"
    server.upsert(generation.terms, [schema.note_row(key, schema.RECORD, version + 1, note)])
    return histograms


def forget_before(server: MilvusServer, generation: Generation, version: int) -> None:
    """Remove the histograms and terms that only versions before this one need."""
    dead = f"kind == {schema.TERM} and version <= {version} and metadata == 0 and full == 0"
    old = f'kind == {schema.RECORD} and version < {version} and id != "{schema.HEAD}"'
    for condition in (dead, old):
        pages = list(server.iterate(generation.terms, condition, ["id"], _TERM_ROWS))
        for ids in batches((row["id"] for page in pages for row in page), _TERM_ROWS):
            server.delete(generation.terms, ids)


def _undo_others(
    server: MilvusServer, generation: Generation, version: int, hashes: NDArray[np.uint64]
) -> bool:
    """Restore terms that an interrupted run changed and this one does not; return if any."""
    condition = f"kind == {schema.TERM} and version > {version}"
    pages = list(
        server.iterate(generation.terms, condition, ["id", *schema.FREQUENCIES], _TERM_ROWS)
    )
    for page in pages:
        is_ours = np.isin(np.array([int(row["id"], 16) for row in page], np.uint64), hashes)
        others = [row for row, ours in zip(page, is_ours.tolist(), strict=True) if not ours]
        restored = []
        for row in others:
            now = _known_frequencies(row, version)
            restored.append(schema.term_row(row["id"], version, now, now))
        server.upsert(generation.terms, restored)
    return bool(pages)


def _known_frequencies(row: Row, version: int) -> tuple[int, int]:
    """Return the frequencies at a version; only concurrent writers can have made it forget."""
    numbers = schema.frequencies_at(row, version)
    if numbers is None:
        raise CacheError(f"the term {row['id']} of the collection has a version from the future")
    return numbers
