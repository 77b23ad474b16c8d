"""Files on disk → the skills of one run of indexing, those unchanged taken over unread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.errors import ParseError
from skillsearch.index.cache import IndexFolder
from skillsearch.index.chunk_index import term_set
from skillsearch.index.corpus import OpenedIndex
from skillsearch.index.documents import Document
from skillsearch.index.embedding_cache import EmbeddingCache
from skillsearch.index.fields import FieldTexts, field_texts
from skillsearch.index.lexical import TermCounter
from skillsearch.index.snapshot import UNKNOWN_STAT, FileStat, SeenFile, Snapshot
from skillsearch.skills.discovery import Discovery
from skillsearch.skills.parser import parse_skill
from skillsearch.skills.resources import content_hash as hash_bytes
from skillsearch.skills.resources import read_skill_md
from skillsearch.types import Diagnostic, Progress, SkillFile

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Reading:
    """The skills of one run, read anew or taken over, in order of their ids.

    Attributes:
        documents: All documents.
        renumber: The number in `documents` of each document of the index before, -1 for those that
            were not taken over.
        reused: How many were taken over.
        texts: What the cache of each dense channel lacks of the documents that were read, by key.
        metadata_counter: Terms of the metadata of the documents that were read.
        full_counter: Terms of their metadata and bodies.
        diagnostics: What was reported, of documents taken over as well.
        seen: Every SKILL.md as it was found, by path.
    """

    def __init__(
        self,
        previous: OpenedIndex | None,
        folder: IndexFolder,
        *,
        scripts: Sequence[frozenset[str] | None],
        with_body: bool,
    ) -> None:
        """Prepare to read.

        Args:
            previous: The index to take over from, where there is one.
            folder: The index folder.
            scripts: Scripts that the embedder of each dense channel reads, None for all.
            with_body: False to index the metadata alone.
        """
        self._previous = previous
        self._scripts = scripts
        self._with_body = with_body
        snapshot = Snapshot.load(folder.path) if previous else None
        is_ours = snapshot and previous and snapshot.generation == previous.name
        self._snapshot = snapshot if is_ours else None
        documents = previous.corpus.documents if previous else ()
        self._old_numbers = {document.path: n for n, document in enumerate(documents)}
        self._old_diagnostics: dict[str, list[Diagnostic]] = {}
        for diagnostic in previous.diagnostics() if previous else ():
            self._old_diagnostics.setdefault(diagnostic.path, []).append(diagnostic)
        self.renumber = np.full(len(documents), -1, np.int32)
        self.documents: list[Document] = []
        self.texts: tuple[dict[bytes, str], ...] = tuple({} for _ in scripts)
        self.metadata_counter = TermCounter()
        self.full_counter = TermCounter()
        self._chunk_terms: dict[int, list[NDArray[np.uint64]]] = {}
        self.diagnostics: list[Diagnostic] = []
        self.seen: dict[str, SeenFile] = {}
        self.reused = 0

    @property
    def is_unchanged(self) -> bool:
        """True where every skill of the index before was taken over, and no other is there."""
        before = len(self._previous.corpus.documents) if self._previous else -1
        return self.reused == len(self.documents) == before

    @property
    def previous(self) -> OpenedIndex | None:
        """The index that postings are taken over from."""
        return self._previous

    def chunk_terms(self) -> dict[int, list[NDArray[np.uint64]]]:
        """Return the terms of all chunks as `ChunkIndex.build` takes them, those kept unread."""
        before = self._previous.corpus.chunks if self._previous else None
        kept = before.term_sets(self.renumber) if before else {}
        return kept | self._chunk_terms

    def keep_channels(self, count: int) -> None:
        """Leave out what was read for the dense channels after the first `count`."""
        self.texts = self.texts[:count]
        self.documents = [replace(one, keys=one.keys[:count]) for one in self.documents]

    def read(
        self,
        discovery: Discovery,
        caches: Sequence[EmbeddingCache],
        *,
        verify: bool,
        progress: Progress,
    ) -> None:
        """Go through all files that were discovered.

        Args:
            discovery: The files, by document id.
            caches: The vectors of each channel; a skill that lacks one is read again.
            verify: Hash every file, whatever its stat says.
            progress: Told how far the reading is.
        """
        total = len(discovery.files)
        for done, file in enumerate(discovery.files, start=1):
            if verify or not self._take_over_by_stat(file, caches):
                self._read_file(file, caches)
            progress("read", done, total)

    def _take_over_by_stat(self, file: SkillFile, caches: Sequence[EmbeddingCache]) -> bool:
        """Take over a skill without opening its file, where its stat is unchanged."""
        seen = self._snapshot.files.get(str(file.path)) if self._snapshot else None
        stat = FileStat(file.size, file.mtime_ns, file.inode)
        if seen is None or seen.stat != stat or not seen.content_hash:
            return False
        return self._take_over(file, stat, seen.content_hash, caches)

    def _take_over(
        self,
        file: SkillFile,
        stat: FileStat,
        content_hash: str,
        caches: Sequence[EmbeddingCache],
    ) -> bool:
        """Take over a skill whose bytes, place and vectors are those of the index before."""
        path = str(file.path)
        number = self._old_numbers.get(path)
        if number is None or self._previous is None:
            return False
        document = self._previous.corpus.documents[number]
        if (document.doc_id, document.content_hash) != (file.doc_id, content_hash):
            return False
        for channel, cache in enumerate(caches):
            if any(cache.get(key) is None for key in document_keys([document], channel)):
                return False
        self.renumber[number] = len(self.documents)
        self.documents.append(document)
        self.diagnostics.extend(self._old_diagnostics.get(path, ()))
        self.seen[path] = SeenFile(stat, content_hash)
        self.reused += 1
        return True

    def _read_file(self, file: SkillFile, caches: Sequence[EmbeddingCache]) -> None:
        """Read a file; what cannot be indexed is reported and the run goes on."""
        path = str(file.path)
        try:
            data, status = read_skill_md(file.path)
        except ParseError as exc:
            # Permissions change no file's stat, so an unreadable file is tried again each time.
            found = FileStat(file.size, file.mtime_ns, file.inode)
            stat = UNKNOWN_STAT if exc.code == "file-unreadable" else found
            self.seen[path] = SeenFile(stat, "")
            self._skip(path, exc)
            return
        stat = FileStat(status.st_size, status.st_mtime_ns, status.st_ino)
        content_hash = hash_bytes(data)
        if self._take_over(file, stat, content_hash, caches):
            return
        self.seen[path] = SeenFile(stat, content_hash)
        try:
            skill, diagnostics = parse_skill(
                data, doc_id=file.doc_id, path=file.path, root=file.root.path
            )
        except ParseError as exc:
            self._skip(path, exc)
            return
        self.diagnostics.extend(diagnostics)
        self._add(field_texts(skill, self._scripts, with_body=self._with_body), caches)

    def _skip(self, path: str, error: ParseError) -> None:
        """Report a file that cannot be indexed."""
        self.diagnostics.append(Diagnostic(error.code, "error", str(error), path, error.line))

    def _add(self, texts: FieldTexts, caches: Sequence[EmbeddingCache]) -> None:
        """Number a skill that was read, count its terms, keep the texts that are to be embedded."""
        number = len(self.documents)
        document = texts.document
        self.documents.append(document)
        self.metadata_counter.add(number, texts.metadata_terms)
        if self._with_body:
            self.full_counter.add(number, texts.full_terms)
        if texts.chunks:
            self._chunk_terms[number] = [term_set(chunk.terms) for chunk in texts.chunks]
        for channel, cache in enumerate(caches):
            embedded = list(zip(document.keys[channel], texts.embedded[channel], strict=True))
            if channel == 0:
                embedded += [(chunk.record[2], chunk.head) for chunk in texts.chunks]
            for key, text in embedded:
                if key and cache.get(bytes.fromhex(key)) is None:
                    self.texts[channel][bytes.fromhex(key)] = text


def document_keys(documents: Sequence[Document], channel: int) -> list[bytes]:
    """Return the keys of all texts of documents that a dense channel embeds."""
    keys = [bytes.fromhex(key) for one in documents for key in one.keys[channel] if key]
    return keys + chunk_keys(documents) if channel == 0 else keys


def field_keys(documents: Sequence[Document], channel: int, field: int) -> list[bytes]:
    """Return the keys of one field of documents in a dense channel: 0 metadata, 1 body."""
    return [bytes.fromhex(document.keys[channel][field]) for document in documents]


def chunk_keys(documents: Sequence[Document]) -> list[bytes]:
    """Return the keys of the texts of all chunks, in the order of the documents."""
    return [bytes.fromhex(key) for document in documents for _, _, key in document.chunks]
