"""An index of the same skills without example requests, and with one of them as it might be.

What a description says is tried on the whole library, and nothing of the user's is touched: both
indexes are written to a folder of the caller's, and share all but the one skill.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import Embedder
from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.errors import CacheError
from skillsearch.files.openat import UNKNOWN_STAT
from skillsearch.index.corpus import OpenedIndex, open_current
from skillsearch.index.documents.document import Document
from skillsearch.index.indexing.builder import Builder
from skillsearch.index.indexing.changes import FileChanges
from skillsearch.index.indexing.embedding import CachedEmbedder
from skillsearch.index.indexing.options import IndexOptions, SegmentLimits
from skillsearch.index.indexing.reading import NO_EXAMPLES, FileReader, ReadFile, parse_file
from skillsearch.index.indexing.snapshot import SeenFile
from skillsearch.index.indexing.writers import DeltaWriter, Update
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.skills.discovery import Discovery
from skillsearch.types.skills import SkillFile


@dataclass(frozen=True)
class Trial:
    """An index without example requests, to be compared with what `changed` makes of it."""

    folder: Path
    opened: OpenedIndex
    embedder: Embedder

    @classmethod
    def begin(cls, like: OpenedIndex, folder: Path) -> Self:
        """Index the skills of another index in a folder.

        Fails as `Builder.run` does; a CacheError if it is damaged right after.
        """
        aliases = {str(root.path): root.alias for root in like.settings.roots}
        request = replace(like.settings.request(), aliases=aliases)
        embedder = load_embedder(request.model)
        options = IndexOptions(
            missing="leave", embedders={request.model: embedder}, examples=NO_EXAMPLES
        )
        builder = Builder(IndexFolder(folder / "as-it-is"), request, options)
        builder.run()
        if builder.opened is None:
            raise CacheError(f"the index in {folder} was damaged right after it was written")
        return cls(folder, builder.opened, embedder)

    def changed(self, document: Document, data: bytes) -> OpenedIndex:
        """Return the index as it would be if one SKILL.md had these bytes.

        A ParseError if these are no skill; a CacheError if the index is damaged right after.
        """
        settings, before = self.opened.settings, self.opened
        root = next(root for root in settings.roots if str(root.path) == document.root)
        file = SkillFile(document.doc_id, Path(document.path), root, UNKNOWN_STAT)
        skill, _, _ = parse_file(file, data, NO_EXAMPLES)
        reader = FileReader()
        reader.files[document.path] = ReadFile(SeenFile(file.stat, ""), skill, ())
        target = IndexFolder(Path(tempfile.mkdtemp(prefix="changed-", dir=self.folder)))
        with EmbeddingCache(self.embedder.fingerprint, self.embedder.dimensions) as cache:
            discovery = Discovery((file,), (), ())
            changes = FileChanges(
                before, discovery, settings.roots, is_kept=bytearray(1), reader=reader
            )
            cached, limits = CachedEmbedder(self.embedder, cache), SegmentLimits()
            update = Update(changes, settings, cached, _tell_nobody, limits, target.path)
            with target.lock(), before.guard:
                delta, shared = DeltaWriter(update, before), before.generation
                target.write(delta.write, settings.to_dict(), before=shared, reused=delta.reused)
        if (opened := open_current(target)) is None:
            raise CacheError(f"the index in {target.path} was damaged right after it was written")
        return opened


def _tell_nobody(stage: str, done: int, total: int) -> None:
    """Take no notice of progress: one skill is written in an instant."""
