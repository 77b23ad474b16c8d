"""Bring an index in Milvus up to date with the disk; only what changed is embedded and sent.

Readers see the current version until the next is complete. An interrupted run is resumed.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

from skillsearch.embedders.embedding import Embedder
from skillsearch.errors import LockTimeoutError, ParseError
from skillsearch.index.corpus import IndexSettings
from skillsearch.index.dense.query_embedder import ModelSettings
from skillsearch.index.documents.document import ANALYSIS, Document, field_texts
from skillsearch.index.documents.shadowing import find_shadowed
from skillsearch.index.indexing.reading import (
    NO_EXAMPLES,
    empty_roots,
    hash_beside,
    parse_file,
    read_for_index,
    sorted_diagnostics,
)
from skillsearch.index.roots.request import IndexRequest, resolve_roots
from skillsearch.index.roots.root_change import RootChange
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.remote import generations
from skillsearch.remote.client import Field, MilvusServer, batches
from skillsearch.remote.generations import WriteClaim
from skillsearch.remote.row_writer import RowWriter
from skillsearch.remote.rows import (
    FOREVER,
    Addition,
    RemoteGeneration,
    kept_key,
    key_of,
    name_key,
    state_of,
)
from skillsearch.skills.discovery import Discovery, discover
from skillsearch.skills.example_requests import ExampleBook
from skillsearch.skills.resources import content_hash, read_skill_md
from skillsearch.types.indexing import IndexReport, Progress
from skillsearch.types.skills import Diagnostic, SkillFile

_STATE_ROWS = 5_000
_STATE: tuple[Field, ...] = (
    *("id", "key", "state", "since", "until", "name_key"),
    *("shadowed", "skill", "examples"),
)
"""The fields that tell which rows are up to date."""

logger = logging.getLogger(__name__)


class Indexing:
    """One indexing run; its `embedder` is there after it."""

    def __init__(
        self,
        server: MilvusServer,
        alias: str,
        change: IndexRequest | RootChange,
        load: Callable[[str], Embedder],
        *,
        progress: Progress | None = None,
    ) -> None:
        """Prepare; `load` loads an embedder by its spec. Raises RootError for an unusable root.

        The change is applied to the version that is there now, the only one that `run` replaces.
        """
        self._started = time.monotonic()
        self._server, self._alias = server, alias
        self._current = current = generations.find_current(server, alias)
        held = current.head.settings.request() if current and current.head else None
        self.request = change.applied_to(held)
        self._load, self._progress = load, progress
        self._book = ExampleBook()
        roots, diagnostics = resolve_roots(self.request.roots)
        self._roots = self.request.with_trust(roots)
        self._paths = [root.path for root in roots]
        self._diagnostics = list(diagnostics)
        self._skipped: list[Diagnostic] = []
        self.embedder: Embedder | None = None

    def run(self) -> IndexReport:
        """Bring the index up to date; fails as `RemoteIndex.from_roots` does.

        A LockTimeoutError if another process has just written it.
        """
        server, alias = self._server, self._alias
        discovery = discover(self._roots)
        current = self._current
        self.embedder = embedder = self._load(self.request.model)
        model = ModelSettings.of(self.request.model, embedder)
        settings = IndexSettings(self._roots, model, self.request.with_body, ANALYSIS)
        generation, head = current or generations.prepare_next(server, alias, 0, settings)
        oldest = generation.number
        with WriteClaim(server, generation) as claim:
            if generations.find_current(server, alias) != current:
                message = f"Another process has just written {alias!r}; run the command again."
                raise LockTimeoutError(message)
            if head is None or not generations.are_compatible(head.settings, settings):
                generation, head = generations.prepare_next(server, alias, oldest, settings)
            writer = RowWriter(claim, generation, head, embedder)
            states = RowStates(server, generation, head.version, self._book)
            new = self._compare(discovery.files, states)
            removed = states.take_rest()
            writer.discard(states.discarded)
            self._send(discovery.files, new, writer)
            writer.keep(states.resumed)
            writer.retire([*states.replaced, *removed])
            writer.restore(states.restored)
            wanted = (self._roots, len(self._skipped))
            if writer.changed or head.version == 0 or (head.settings.roots, head.skipped) != wanted:
                head = writer.finish(settings, len(self._skipped))
            if current is None or generation != current.generation:
                server.point(alias, generation.terms, is_new=current is None)
                generations.drop_before(server, alias, oldest)
        return IndexReport(
            indexed=head.documents,
            embedded=writer.embedded,
            reused=states.unchanged + len(states.resumed),
            removed=len(removed),
            skipped=len(self._skipped),
            truncated=writer.truncated,
            diagnostics=self._all_diagnostics(discovery),
            generation=f"{generation.documents}@{head.version}",
            seconds=time.monotonic() - self._started,
        )

    def _all_diagnostics(self, discovery: Discovery) -> tuple[Diagnostic, ...]:
        diagnostics = [*self._diagnostics, *discovery.diagnostics, *self._skipped]
        if not discovery.files:
            diagnostics += empty_roots(self._roots)
        return sorted_diagnostics(diagnostics)

    def _compare(
        self, files: Sequence[SkillFile], states: RowStates
    ) -> dict[str, tuple[bool, str]]:
        """Return the documents that need a new row: whether shadowed, and which row it replaces.

        Only new files are parsed, and those that share a name: it must be known before any is sent.
        """
        read: dict[str, tuple[bytes, bytes]] = {}
        named: defaultdict[int, list[SkillFile]] = defaultdict(list)
        for file in files:
            with self._reporting(file):
                data, _ = read_skill_md(file.path, self._paths)
                beside = hash_beside(file, data, self._book)
                state = state_of(content_hash(data), str(file.path), str(file.root.path), beside)
                key_and_state = bytes.fromhex(key_of(file.doc_id)), bytes.fromhex(state)
                name = states.name_key(*key_and_state)
                if name is None:
                    name = name_key(parse_file(file, data, NO_EXAMPLES)[0].name)
                named[name].append(file)
                read[file.doc_id] = key_and_state
        shared = chain.from_iterable(same for same in named.values() if len(same) > 1)
        skills = [
            skill for file in shared if (skill := read_for_index(file, roots=self._paths).skill)
        ]
        documents = sorted(map(Document.listed, skills), key=lambda document: document.doc_id)
        pairs = find_shadowed(DocumentStore.build(documents), self._roots)
        shadowed = {pair.document.doc_id for pair in pairs}
        new = {}
        for doc_id, (key, state_now) in read.items():
            replaced = states.take(key, state_now, shadowed=doc_id in shadowed)
            if replaced is not None:
                new[doc_id] = (doc_id in shadowed, replaced)
        return new

    def _send(
        self, files: Sequence[SkillFile], new: dict[str, tuple[bool, str]], writer: RowWriter
    ) -> None:
        for done, file in enumerate(files, start=1):
            if file.doc_id in new:
                with self._reporting(file):
                    data, _ = read_skill_md(file.path, self._paths)
                    skill, diagnostics, _ = parse_file(file, data, self._book)
                    texts = field_texts(skill, with_body=self.request.with_body)
                    self._diagnostics += diagnostics
                    writer.add(Addition(texts, data, *new[file.doc_id]))
            if self._progress:
                self._progress("read", done, len(files))
        writer.send()

    @contextmanager
    def _reporting(self, file: SkillFile) -> Iterator[None]:
        """Skip a file that cannot be read or parsed, and report it."""
        try:
            yield
        except ParseError as exc:
            path = str(file.path)
            self._skipped.append(Diagnostic(exc.code, exc.severity, str(exc), path, exc.line))


class _HeldRow(NamedTuple):
    """A row of a document; `ends` if an interrupted run was about to end it.

    The state of a row whose examples the book has changed is empty.
    """

    row: str
    state: bytes
    ends: bool
    name_key: int
    shadowed: bool


class RowStates:
    """The rows of all documents, some 300 bytes of memory each, and what becomes of them.

    Live rows, which readers see, are `kept`, `replaced`, or `restored` though an interrupted run
    ended them; unseen ones, which it sent for the next version, are `resumed` or `discarded`.
    """

    def __init__(
        self, server: MilvusServer, generation: RemoteGeneration, version: int, book: ExampleBook
    ) -> None:
        """Read all rows, and remove those that ended before the version before the current one."""
        self._live: dict[bytes, _HeldRow] = {}
        self._unseen: dict[bytes, _HeldRow] = {}
        self.unchanged = 0
        lists: tuple[list[str], ...] = ([], [], [], [])
        self.resumed, self.replaced, self.restored, self.discarded = lists
        dead = []
        pages = server.iterate(generation.documents, "", _STATE, _STATE_ROWS)
        for row in chain.from_iterable(pages):
            has_same = kept_key(book.by_digest(row["skill"])) == row["examples"]
            ends = row["until"] != FOREVER
            state = bytes.fromhex(row["state"]) if has_same else b""
            entry = _HeldRow(row["id"], state, ends, row["name_key"], row["shadowed"])
            if row["until"] < version:
                dead.append(row["id"])
            elif row["since"] > version:
                self._unseen[bytes.fromhex(row["key"])] = entry
            elif row["until"] > version:
                self._live[bytes.fromhex(row["key"])] = entry
        for ids in batches(dead, _STATE_ROWS):
            server.delete(generation.documents, ids)

    def name_key(self, key: bytes, state: bytes) -> int | None:
        """Return the `rows.name_key` of a document in this state; None if no row has it."""
        rows = (self._live.get(key), self._unseen.get(key))
        return next((row.name_key for row in rows if row and row.state == state), None)

    def take(self, key: bytes, state: bytes, *, shadowed: bool) -> str | None:
        """Decide about a document's rows; None if one stays, else the id of a live one or ""."""
        live, unseen = self._live.pop(key, None), self._unseen.pop(key, None)
        if live and (live.state, live.shadowed) == (state, shadowed):
            self.unchanged += 1
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
        """Discard unseen rows without a document; return the ids of live ones without."""
        self.discarded += [entry.row for entry in self._unseen.values()]
        return [entry.row for entry in self._live.values()]
