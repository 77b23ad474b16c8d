"""Rows that come and go between the version that readers see and the next one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.embedders.embedding import Embedder
from skillsearch.index.corpus import IndexSettings
from skillsearch.index.documents import KNOWN
from skillsearch.index.fields import FieldTexts
from skillsearch.remote.claims import Claim
from skillsearch.remote.client import MilvusServer, Row
from skillsearch.remote.head import FieldTotals, Head
from skillsearch.remote.rows import counts_of, document_of, row_of
from skillsearch.remote.schema import FOREVER, Generation, dense_fields
from skillsearch.remote.tally import FIELDS, TermTallies
from skillsearch.remote.vocabulary import batches, forget_before, write_changes

if TYPE_CHECKING:
    from numpy.typing import NDArray

BATCH_SKILLS = 256
"""Skills that are embedded and sent at a time."""
BATCH_BYTES = 4 << 20
"""Bytes of SKILL.md files that are sent at a time; the rows are some three times as large, and
Milvus takes 64 MB in a message."""
_COUNTED = ("record", "counts", "shadowed")
"""Fields of a row that are needed to count it."""
_READ_ROWS = 200
_CHANGED_ROWS = 1_000
_FLUSH_ROWS = 1_000
"""Rows from which on it is worth to have the server index them at once."""


@dataclass(frozen=True, slots=True)
class Addition:
    """A skill that is to come.

    Attributes:
        texts: Its texts.
        data: Its SKILL.md.
        shadowed: Whether its name means another skill.
        replaces: Id of the row that it takes the place of; empty for none.
    """

    texts: FieldTexts
    data: bytes
    shadowed: bool
    replaces: str = ""


class RowWriter:
    """Makes the next version of a generation.

    Attributes:
        embedded: Texts that were embedded.
        truncated: How many of them were cut at the embedder's token limit.
        changed: Rows that came or went.
    """

    def __init__(
        self,
        server: MilvusServer,
        generation: Generation,
        head: Head,
        embedders: Sequence[Embedder],
        claim: Claim,
    ) -> None:
        """Prepare to write.

        Args:
            server: The server.
            generation: The generation.
            head: Its head.
            embedders: Those of its channels; none where nothing will be added.
            claim: Held by this process.
        """
        self._server = server
        self._generation = generation
        self._head = head
        self._embedders = embedders
        self._claim = claim
        self._with_body = head.settings.with_body
        self._dense = dense_fields(len(head.settings.channels), with_body=self._with_body)
        self._waiting: list[Addition] = []
        self._waiting_bytes = 0
        self._tallies = TermTallies()
        self._lengths = np.array([head.totals[field].length for field in FIELDS])
        self._documents, self._shadowed = head.documents, head.shadowed
        self._trust, self._others = head.trust, head.others
        self.embedded = self.truncated = self.changed = 0

    def add(self, addition: Addition) -> None:
        """Take a skill; it is sent with others.

        Args:
            addition: The skill.

        Raises:
            EmbedderError: When the embedder gives unusable vectors.
            RemoteError: When the server does not answer.
        """
        self._waiting.append(addition)
        self._waiting_bytes += len(addition.data)
        if len(self._waiting) >= BATCH_SKILLS or self._waiting_bytes >= BATCH_BYTES:
            self.send()

    def send(self) -> None:
        """Embed and send the skills that wait.

        Raises:
            EmbedderError: When the embedder gives unusable vectors.
            RemoteError: When the server does not answer.
        """
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
        """Take rows over that a run which was cut off has sent already."""
        for row in self._read(ids, _COUNTED):
            self._count(row, 1)

    def retire(self, ids: Iterable[str]) -> None:
        """Have rows end with the version that readers see."""
        until = self._head.version + 1
        for some in batches(ids, _CHANGED_ROWS):
            for row in self._read(some, _COUNTED):
                self._count(row, -1)
            self._set_until(some, until)

    def restore(self, ids: Iterable[str]) -> None:
        """Have rows go on that a run which was cut off had end."""
        for some in batches(ids, _CHANGED_ROWS):
            self._set_until(some, FOREVER)

    def discard(self, ids: Iterable[str]) -> None:
        """Remove rows that no reader sees."""
        for some in batches(ids, _CHANGED_ROWS):
            self._server.delete(self._generation.documents, some)

    def finish(self, settings: IndexSettings, skipped: int) -> Head:
        """Complete the next version and have readers see it.

        Args:
            settings: What the index is made with now.
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
            for field, length in zip(FIELDS, self._lengths, strict=True)
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
        """Count a document that comes (sign 1) or goes (sign -1)."""
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
        """Return the vectors of the rows that are replaced, by channel and key of the text."""
        known: list[dict[bytes, NDArray[np.float32]]] = [{} for _ in self._embedders]
        replaced = [one.replaces for one in self._waiting if one.replaces]
        for row in self._read(replaced, ["record", *chain(*self._dense)]):
            pairs = document_of(row).keys
            for vectors, names, pair in zip(known, self._dense, pairs, strict=True):
                for name, key in zip(names, pair, strict=False):
                    vectors[bytes.fromhex(key)] = np.array(row[name], np.float32)
        return known

    def _embed_missing(
        self, channel: int, embedder: Embedder, known: dict[bytes, NDArray[np.float32]]
    ) -> None:
        """Embed the texts of a channel that have no vector yet."""
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
        """Say how long rows are seen."""
        self._claim.renew()
        rows = [{"id": key, "until": until} for key in ids]
        self._server.upsert(self._generation.documents, rows, partial=True)
