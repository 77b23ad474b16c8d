"""Add and remove rows between the current version and the next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skillsearch.embedders.embedding import Embedder
from skillsearch.errors import IndexNotFoundError
from skillsearch.index.corpus import IndexSettings
from skillsearch.index.documents import KNOWN
from skillsearch.remote.client import MilvusServer, Row, batches
from skillsearch.remote.generations import Claim, FieldTotals, Head, find_current, read_head
from skillsearch.remote.rows import Addition, counts_of, document_of, key_of, row_of
from skillsearch.remote.schema import FOREVER, LEXICAL, Generation, dense_fields
from skillsearch.remote.term_statistics import TermTallies, forget_before, write_changes

if TYPE_CHECKING:
    from numpy.typing import NDArray

BATCH_SKILLS = 256
"""Skills that are embedded and sent at a time."""
BATCH_BYTES = 4 << 20
"""Bytes of SKILL.md files that are sent at a time; their rows are about three times as large, and
Milvus takes 64 MB in a message."""
_COUNTED = ("record", "counts", "shadowed")
"""Fields of a row that `_count` needs."""
_READ_ROWS = 200
_CHANGED_ROWS = 1_000
_FLUSH_ROWS = 1_000
"""Changed rows above which the server should index them at once."""
_DELETE_ROWS = 500
_STATE_ROWS = 5_000


class RowWriter:
    """Makes the next version of a generation.

    It counts the texts that were `embedded`, those of them that were `truncated` at the embedder's
    limit, and the rows that were added or removed: `changed`.
    """

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
        rows = [row_of(one, vectors, since=since, with_body=with_body) for one in self._waiting]
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
        """Complete the next version and publish it; return its head.

        `skipped` SKILL.md files could not be indexed. Raises CacheError if the statistics of the
        generation are damaged, and LockTimeoutError if another process took over.
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
            document, counted = document_of(row), counts_of(row)
            self._tallies.add(counted, sign)
            self._lengths += sign * np.array(counted.lengths)
            self._trust += sign * float(np.float32(document.trust))
            self._others += sign * (document.fluency < KNOWN)

    def _vectors(self) -> list[dict[bytes, NDArray[np.float32]]]:
        """Return the vectors of the queued texts, by channel and key of the text.

        Those of replaced rows are taken from there, the others are embedded.
        """
        known: list[dict[bytes, NDArray[np.float32]]] = [{} for _ in self._embedders]
        dense = dense_fields(len(known), with_body=self._with_body)
        replaced = [one.replaces for one in self._waiting if one.replaces]
        for row in self._read(replaced, ["record", *chain(*dense)]):
            for vectors, names, keys in zip(known, dense, document_of(row).keys, strict=True):
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
        """Read rows of documents by id."""
        for some in batches(ids, _READ_ROWS):
            yield from self._server.get(self._generation.documents, some, fields).values()

    def _set_until(self, ids: Sequence[str], until: int) -> None:
        """Set the version with which rows end."""
        self._claim.renew()
        rows = [{"id": key, "until": until} for key in ids]
        self._server.upsert(self._generation.documents, rows, partial=True)


class _Known(NamedTuple):
    """A row of a document; `ends` if an interrupted run was about to end it."""

    row: str
    state: bytes
    ends: bool
    name_key: int
    shadowed: bool


class RowStates:
    """The rows of all documents, some 300 bytes of memory each, and what becomes of them.

    A row is live if readers see it, and unseen if an interrupted run sent it for the next version.

    Attributes:
        kept: Number of documents whose live row stays.
        resumed: Ids of unseen rows that become live; `discarded` ones nobody needs.
        replaced: Ids of live rows whose document has another row in the next version.
        restored: Ids of live rows that were to end, and stay after all.
    """

    def __init__(self, server: MilvusServer, generation: Generation, version: int) -> None:
        """Read all rows, and remove those that ended before the version before the current one."""
        self._live: dict[bytes, _Known] = {}
        self._unseen: dict[bytes, _Known] = {}
        self.kept = 0
        found: tuple[list[str], ...] = ([], [], [], [])
        self.resumed, self.replaced, self.restored, self.discarded = found
        dead = []
        fields = ("id", "key", "state", "since", "until", "name_key", "shadowed")
        pages = server.iterate(generation.documents, "", fields, _STATE_ROWS)
        for row in chain.from_iterable(pages):
            ends, state = row["until"] != FOREVER, bytes.fromhex(row["state"])
            known = _Known(row["id"], state, ends, row["name_key"], row["shadowed"])
            if row["until"] < version:
                dead.append(row["id"])
            elif row["since"] > version:
                self._unseen[bytes.fromhex(row["key"])] = known
            elif row["until"] > version:
                self._live[bytes.fromhex(row["key"])] = known
        for ids in batches(dead, _STATE_ROWS):
            server.delete(generation.documents, ids)

    def name_key(self, key: bytes, state: bytes) -> int | None:
        """Return the `rows.name_key` of a document in this state; None if no row has it."""
        rows = (self._live.get(key), self._unseen.get(key))
        return next((one.name_key for one in rows if one and one.state == state), None)

    def take(self, key: bytes, state: bytes, *, shadowed: bool) -> str | None:
        """Decide what becomes of the rows of a document; None if one of them stays.

        Else it gets a new row; returns the id of the live row that this replaces, or empty.
        """
        live, unseen = self._live.pop(key, None), self._unseen.pop(key, None)
        if live and (live.state, live.shadowed) == (state, shadowed):
            self.kept += 1
            self.restored += [live.row] if live.ends else []
            self.discarded += [unseen.row] if unseen else []
            return None
        self.replaced += [live.row] if live else []
        if unseen and (unseen.state, unseen.shadowed) == (state, shadowed):
            self.resumed.append(unseen.row)
            return None
        self.discarded += [unseen.row] if unseen else []
        return live.row if live else ""

    def take_rest(self) -> list[str]:
        """Discard the unseen rows that nobody took, and return the ids of such live rows."""
        self.discarded += [one.row for one in self._unseen.values()]
        return [one.row for one in self._live.values()]


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
        for keys in batches(sorted(set(map(key_of, doc_ids))), _DELETE_ROWS):
            wanted = ", ".join(f'"{key}"' for key in keys)
            condition = f"key in [{wanted}] and {head.condition}"
            rows = server.query(generation.documents, condition, ["id"], len(keys))
            found += [row["id"] for row in rows]
        if found:
            writer.retire(found)
            writer.finish(head.settings, head.skipped)
        return len(found)
