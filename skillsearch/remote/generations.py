"""The generations of an index in Milvus: their heads, their life cycle, and who may write them."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from skillsearch.errors import CacheError, ConfigError, LockTimeoutError, RemoteError
from skillsearch.index.corpus import IndexSettings
from skillsearch.index.lexical.postings import LexicalStatistics
from skillsearch.remote import schema
from skillsearch.remote.client import CollectionMissingError, MilvusServer, Row
from skillsearch.remote.rows import checked, pack, unpack
from skillsearch.remote.schema import Generation

FORMAT = 3  # raise if the meaning of rows changes; a collection of another format is made anew
EXPIRES_S = 120  # seconds after which a claim that was not renewed belongs to a dead writer
_RENEW_S = 20
_COUNTS = ("number", "documents", "shadowed", "skipped", "others")

logger = logging.getLogger(__name__)


class FieldTotals(NamedTuple):
    """Totals of one lexical field: its length in terms, and the mean idf of distinct terms."""

    length: int
    average_idf: float


@dataclass(frozen=True, slots=True)
class Head:
    """The facts of a generation as a whole; its version is 0 before any documents are complete.

    No search finds the `shadowed` documents, which `trust`, `others` (in languages foreign to a
    model for English) and `totals` leave out; `skipped` SKILL.md files could not be indexed.
    """

    version: int
    number: int
    settings: IndexSettings
    documents: int
    shadowed: int
    skipped: int
    trust: float
    others: int
    totals: Mapping[str, FieldTotals]

    @property
    def searched(self) -> int:
        """Number of documents that searches can find."""
        return self.documents - self.shadowed

    @property
    def condition(self) -> str:
        """A filter for the rows that readers see."""
        return f"since <= {self.version} and until > {self.version}"

    def statistics(self, field: str) -> LexicalStatistics:
        """Return the BM25 statistics of a lexical field."""
        length, average_idf = self.totals[field]
        return LexicalStatistics(self.searched, length / max(self.searched, 1), average_idf)

    def to_row(self) -> Row:
        """Return the row that holds the head."""
        record = {
            "format": FORMAT,
            "settings": self.settings.to_dict(),
            "trust": self.trust,
            "totals": {name: totals._asdict() for name, totals in self.totals.items()},
            **{name: getattr(self, name) for name in _COUNTS},
        }
        note = pack(json.dumps(record).encode())
        return schema.note_row(schema.HEAD, schema.RECORD, self.version, note)

    @classmethod
    def from_row(cls, row: Row) -> Head:
        """Read the result of `to_row`; raise `CacheError` for damage or another format."""
        with checked("the head of the collection"):
            record = json.loads(unpack(row["note"]))
            if record["format"] != FORMAT:
                raise ValueError(f"its format is {record['format']!r}, not {FORMAT}")
            totals = {}
            for name in schema.LEXICAL:
                one = record["totals"][name]
                totals[name] = FieldTotals(int(one["length"]), float(one["average_idf"]))
            return cls(
                version=int(row["version"]),
                settings=IndexSettings.from_dict(record["settings"]),
                trust=float(record["trust"]),
                totals=totals,
                **{name: int(record[name]) for name in _COUNTS},
            )


class Opened(NamedTuple):
    """A generation with its head, None if that cannot be read."""

    generation: Generation
    head: Head | None


def find_current(server: MilvusServer, alias: str) -> Opened | None:
    """Find the generation that readers see, None without one; ConfigError if the name is taken."""
    is_collection = alias in server.collections()
    target = None if is_collection else server.target(alias)
    generation = Generation.of(target, alias) if target else None
    if generation is not None:
        return Opened(generation, read_head(server, generation))
    if is_collection or target is not None:
        raise ConfigError(
            f"The collection {alias!r} at {server.shown} does not belong to skillsearch; choose "
            "another name: --collection NAME."
        )
    return None


def read_head(server: MilvusServer, generation: Generation) -> Head | None:
    """Read the head of a generation; None if this version of the package cannot."""
    try:
        rows = server.get(generation.terms, [schema.HEAD], ["version", "note"])
        return Head.from_row(rows[schema.HEAD]) if rows else None
    except (CacheError, CollectionMissingError) as exc:
        logger.info("no usable head in %s: %s", generation.terms, exc)
        return None


def prepare_next(server: MilvusServer, alias: str, after: int, settings: IndexSettings) -> Opened:
    """Return a generation above `after` that readers do not see yet, with a head of version 0.

    Interrupted ones with other settings are dropped. Raises LockTimeoutError if one is being
    written.
    """
    for generation in _all(server, alias):
        if generation.number <= after:
            continue
        head = read_head(server, generation)
        if head is not None and head.version == 0 and are_compatible(head.settings, settings):
            return Opened(generation, head)
        with suppress(CollectionMissingError), Claim(server, generation):
            _drop(server, generation)
        _drop(server, generation)
    generation = Generation(alias, after + 1)
    library, channels = server.library, settings.channels
    documents = schema.documents_schema(library, channels, with_body=settings.with_body)
    server.create(generation.documents, *documents)
    server.create(generation.terms, *schema.terms_schema(library))
    totals = dict.fromkeys(schema.LEXICAL, FieldTotals(0, 0.0))
    head = Head(0, generation.number, settings, 0, 0, 0, 0.0, 0, totals)
    server.upsert(generation.terms, [head.to_row()])
    return Opened(generation, head)


def are_compatible(one: IndexSettings, other: IndexSettings) -> bool:
    """Return whether rows made with either of two settings can share a collection."""
    mine, theirs = (
        [(channel.fingerprint, channel.dimensions, channel.scripts) for channel in some.channels]
        for some in (one, other)
    )
    is_same = (one.with_body, one.analysis) == (other.with_body, other.analysis)
    return is_same and mine == theirs


def drop_before(server: MilvusServer, alias: str, number: int) -> None:
    """Drop the generations with a lower number."""
    for generation in _all(server, alias):
        if generation.number < number:
            _drop(server, generation)


class Claim:
    """The exclusive right of this process to write a generation; a context manager.

    Milvus has no locks, so a writer writes its claim and then looks for others: every read sees all
    earlier writes, so of two writers at least one sees the other's and gives way.
    """

    def __init__(self, server: MilvusServer, generation: Generation) -> None:
        self._server = server
        self._terms = generation.terms
        self._id = f"claim-{uuid.uuid4().hex}"
        self._renewed = 0.0

    def __enter__(self) -> Claim:
        """Make the claim; raise `LockTimeoutError` if another process has one."""
        self._write()
        rows = self._server.query(self._terms, f"kind == {schema.CLAIM}", ["version"], 1_000)
        oldest = time.time() - EXPIRES_S
        others = [row for row in rows if row["id"] != self._id]
        if living := [row["version"] for row in others if row["version"] > oldest]:
            self.__exit__()
            rest = max(living) - oldest
            raise LockTimeoutError(
                f"Another process is writing to {self._terms} at {self._server.shown}; try again "
                f"when it is done. If it was killed, its claim expires in {rest:.0f} s."
            )
        self._server.delete(self._terms, [row["id"] for row in others])
        return self

    def __exit__(self, *_exception: object) -> None:
        """Give up the claim; if that fails, it expires by itself."""
        try:
            self._server.delete(self._terms, [self._id])
        except RemoteError as exc:
            logger.info("the claim on %s is left to expire: %s", self._terms, exc)

    def renew(self) -> None:
        """Keep the claim alive between batches; raise `LockTimeoutError` if it was lost."""
        if time.monotonic() - self._renewed > _RENEW_S:
            self.check()
            self._write()

    def check(self) -> None:
        """Raise `LockTimeoutError` if the claim expired and another process took over."""
        if not self._server.get(self._terms, [self._id], ["version"]):
            raise LockTimeoutError(
                "This process was silent for too long, and another one is writing to "
                f"{self._terms} now; run the command again when that is done."
            )

    def _write(self) -> None:
        row = schema.note_row(self._id, schema.CLAIM, int(time.time()), [])
        self._server.upsert(self._terms, [row])
        self._renewed = time.monotonic()


def _all(server: MilvusServer, alias: str) -> list[Generation]:
    """Return all generations by number, even half made and half dropped ones."""
    names = {f"{name.removesuffix('_terms')}_terms" for name in server.collections()}
    found = [one for name in names if (one := Generation.of(name, alias))]
    return sorted(found, key=lambda generation: generation.number)


def _drop(server: MilvusServer, generation: Generation) -> None:
    for name in {generation.documents, generation.terms}.intersection(server.collections()):
        server.drop(name)
