"""Add and remove rows between the current version and the next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skillsearch.embedders.embedding import Embedder
from skillsearch.errors import IndexNotFoundError
from skillsearch.index.corpus import IndexSettings
from skillsearch.index.documents import KNOWN
from skillsearch.index.fields import FieldTexts
from skillsearch.remote.client import MilvusServer, Row, batches
from skillsearch.remote.generations import Claim, FieldTotals, Head, find_current, read_head
from skillsearch.remote.rows import counts_of, document_of, key_of, row_of
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


@dataclass(frozen=True, slots=True)
class Addition:
    """A skill to add: its texts, its SKILL.md, and the id of the row that it replaces, if any."""

    texts: FieldTexts
    data: bytes
    shadowed: bool
    replaces: str = ""


class RowWriter:
    """Makes the next version of a generation.

    Attributes:
        embedded: Texts that were embedded.
        truncated: How many of them were cut at the embedder's token limit.
        changed: Rows that were added or removed.
    """

    def __init__(
        self,
        server: MilvusServer,
        generation: Generation,
        head: Head,
        embedders: Sequence[Embedder],
        claim: Claim,
        *,
        batch_skills: int = BATCH_SKILLS,
    ) -> None:
        """Prepare to write; without additions no embedders are needed."""
        self._server = server
        self._generation = generation
        self._head = head
        self._embedders = embedders
        self._claim = claim
        self._batch_skills = batch_skills
        self._with_body = head.settings.with_body
        self._dense = dense_fields(len(head.settings.channels), with_body=self._with_body)
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
        vectors = self._known_vectors()
        for channel, embedder in enumerate(self._embedders):
            self._embed_missing(channel, embedder, vectors[channel])
        since = self._head.version + 1
        rows = [
            row_of(
                one.texts,
                one.data,
                vectors,
                since=since,
                with_body=self._with_body,
                shadowed=one.shadowed,
            )
            for one in self._waiting
        ]
        for row in rows:
            self._count(row, 1)
        self._server.insert(self._generation.documents, rows)
        self._waiting, self._waiting_bytes = [], 0

    def keep(self, ids: Iterable[str]) -> None:
        """Adopt rows that an interrupted run sent for the next version."""
        for row in self._read(ids, _COUNTED):
            self._count(row, 1)

    def retire(self, ids: Iterable[str]) -> None:
        """End rows with the current version."""
        for some in batches(ids, _CHANGED_ROWS):
            for row in self._read(some, _COUNTED):
                self._count(row, -1)
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
        """Complete the next version and publish it.

        Args:
            settings: Settings of the index now.
            skipped: SKILL.md files that could not be indexed.

        Returns:
            The head of the new version.

        Raises:
            CacheError: When the statistics of the generation are damaged.
            LockTimeoutError: When another process took over.
            RemoteError: When the server does not answer.
        """
        version = self._head.version
        histograms = write_changes(self._server, self._generation, version, self._tallies)
        if self.changed >= _FLUSH_ROWS:
            for name in (self._generation.documents, self._generation.terms):
                self._server.flush(name)
        searched = self._documents - self._shadowed
        totals = {
            field: FieldTotals(int(length), histograms.average_idf(field, searched))
            for field, length in zip(LEXICAL, self._lengths, strict=True)
        }
        head = replace(
            self._head,
            version=version + 1,
            settings=settings,
            skipped=skipped,
            documents=self._documents,
            shadowed=self._shadowed,
            trust=self._trust,
            others=self._others,
            totals=totals,
        )
        self._claim.check()
        self._server.upsert(self._generation.terms, [head.to_row()])
        forget_before(self._server, self._generation, version)
        return head

    def _count(self, row: Row, sign: int) -> None:
        """Count a document that is added (sign 1) or removed (sign -1)."""
        self.changed += 1
        self._documents += sign
        if row["shadowed"]:
            self._shadowed += sign
            return
        document, counted = document_of(row), counts_of(row)
        self._tallies.add(counted, sign)
        self._lengths += sign * np.array(counted.lengths)
        self._trust += sign * float(np.float32(document.trust))
        self._others += sign * (document.fluency < KNOWN)

    def _known_vectors(self) -> list[dict[bytes, NDArray[np.float32]]]:
        """Return the vectors of replaced rows, by channel and key of the text."""
        known: list[dict[bytes, NDArray[np.float32]]] = [{} for _ in self._embedders]
        replaced = [one.replaces for one in self._waiting if one.replaces]
        for row in self._read(replaced, ["record", *chain(*self._dense)]):
            for vectors, names, keys in zip(known, self._dense, document_of(row).keys, strict=True):
                for name, key in zip(names, keys, strict=False):
                    vectors[bytes.fromhex(key)] = np.array(row[name], np.float32)
        return known

    def _embed_missing(
        self, channel: int, embedder: Embedder, known: dict[bytes, NDArray[np.float32]]
    ) -> None:
        """Embed those queued texts of a channel that have no vector yet."""
        texts: dict[bytes, str] = {}
        for one in self._waiting:
            keys = one.texts.document.keys[channel]
            pairs = list(zip(keys, one.texts.embedded[channel], strict=True))
            if channel == 0:
                pairs += [(chunk.record[2], chunk.head) for chunk in one.texts.chunks]
            texts.update((bytes.fromhex(key), text) for key, text in pairs if key)
        missing = [key for key in texts if key not in known]
        for result in embedder.embed_stream([texts[key] for key in missing]):
            known[missing[result.position]] = result.vector
            self.truncated += result.truncated
            self.embedded += 1

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
    """The rows of all documents, some 300 bytes of memory each.

    A row is live if readers see it, and unseen if an interrupted run sent it for the next version.

    Attributes:
        replaced: Ids of live rows whose document has another row in the next version.
        restored: Ids of live rows that were to end, and stay after all.
    """

    def __init__(self) -> None:
        self._live: dict[bytes, _Known] = {}
        self._unseen: dict[bytes, _Known] = {}
        self.replaced: list[str] = []
        self.restored: list[str] = []

    @classmethod
    def read(cls, server: MilvusServer, generation: Generation, version: int) -> RowStates:
        """Read all rows, and remove those that ended before the version before the current one."""
        states, dead = cls(), []
        fields = ("id", "key", "state", "since", "until", "name_key", "shadowed")
        for page in server.iterate(generation.documents, "", fields, _STATE_ROWS):
            for row in page:
                if row["until"] < version:
                    dead.append(row["id"])
                else:
                    states._add(row, version)
        for ids in batches(dead, _STATE_ROWS):
            server.delete(generation.documents, ids)
        return states

    def _add(self, row: Row, version: int) -> None:
        document, state = bytes.fromhex(row["key"]), bytes.fromhex(row["state"])
        ends = row["until"] != FOREVER
        known = _Known(row["id"], state, ends, row["name_key"], row["shadowed"])
        if row["since"] > version:
            self._unseen[document] = known
        elif row["until"] > version:
            self._live[document] = known

    def name_key(self, key: str, state: str) -> int | None:
        """Return the `rows.name_key` of a document in this state; None if no row has it."""
        for rows in (self._live, self._unseen):
            found = rows.get(bytes.fromhex(key))
            if found is not None and found.state == bytes.fromhex(state):
                return found.name_key
        return None

    def keeps(self, key: str, state: str, *, shadowed: bool) -> bool:
        """Take the live row of a document if it can stay; return whether it can."""
        known = self._pop_same(self._live, key, state, shadowed=shadowed)
        if known is not None and known.ends:
            self.restored.append(known.row)
        return known is not None

    def resumes(self, key: str, state: str, *, shadowed: bool) -> str | None:
        """Take the unseen row of a document if it can stay, and return its id."""
        known = self._pop_same(self._unseen, key, state, shadowed=shadowed)
        if known is None:
            return None
        self.replace(key)
        return known.row

    def replace(self, key: str) -> tuple[list[str], str]:
        """Take the rows of a document that gets a new one.

        Returns the ids of unseen rows to remove first, and the id of the live row, or empty.
        """
        unseen = self._unseen.pop(bytes.fromhex(key), None)
        live = self._live.pop(bytes.fromhex(key), None)
        if live is not None:
            self.replaced.append(live.row)
        return [unseen.row] if unseen else [], live.row if live else ""

    def left(self) -> tuple[list[str], list[str]]:
        """Return the ids of the unseen and the live rows that nobody took."""
        return [one.row for one in self._unseen.values()], [one.row for one in self._live.values()]

    @staticmethod
    def _pop_same(
        rows: dict[bytes, _Known], key: str, state: str, *, shadowed: bool
    ) -> _Known | None:
        document = bytes.fromhex(key)
        known = rows.get(document)
        if known is None or (known.state, known.shadowed) != (bytes.fromhex(state), shadowed):
            return None
        return rows.pop(document)


def delete(server: MilvusServer, alias: str, doc_ids: Collection[str]) -> int:
    """Remove documents by id, without looking at any disk; return how many there were.

    Raises:
        IndexNotFoundError: When there is no usable index.
        LockTimeoutError: When another process is writing.
        RemoteError: When the server does not answer.
    """
    missing = IndexNotFoundError(f"There is no usable index {alias!r} in Milvus at {server.shown}.")
    current = find_current(server, alias)
    if current is None:
        raise missing
    generation = current.generation
    with Claim(server, generation) as claim:
        head = read_head(server, generation)
        if head is None or find_current(server, alias) is None:
            raise missing
        writer = RowWriter(server, generation, head, (), claim)
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
