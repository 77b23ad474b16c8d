"""What changed is read and written beside a large segment; nothing else is looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from skillsearch.errors import CacheError
from skillsearch.index.build.amending import Amender, Changes, kept_parts
from skillsearch.index.build.reading import read_file
from skillsearch.index.build.snapshot import SeenFile
from skillsearch.index.build.text_embedding import Channel, TextEmbedding
from skillsearch.index.corpus import OpenedIndex, save_diagnostics
from skillsearch.index.documents import KNOWN
from skillsearch.index.fields import FieldTexts
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.types import Diagnostic, JsonValue, Progress, SkillFile


class AmendingPass:
    """Reads some files, and writes what has become of an index through them.

    Attributes:
        previous: The index as it is.
        reported: What there is to report of all that is not read.
        seen: The files that were read, as they were found, by path.
        diagnostics: What was reported of them.
        others: How many of their skills a model for English does not know.
        size: How many documents the index has then.
        removed: How many documents are gone.
        embedded: How many texts were embedded.
        truncated: How many of them were cut at the token limit.
    """

    def __init__(
        self,
        previous: OpenedIndex,
        channels: Sequence[Channel],
        reported: Sequence[Diagnostic],
        *,
        with_body: bool,
        progress: Progress,
    ) -> None:
        """Prepare to read.

        Args:
            previous: The index.
            channels: Its dense channels.
            reported: What there is to report of all that is not read.
            with_body: False for the metadata alone.
            progress: Told how many files are read and how many texts are embedded.
        """
        self.seen: dict[str, SeenFile] = {}
        self.diagnostics: list[Diagnostic] = []
        self.others = self.size = self.removed = self.embedded = self.truncated = 0
        self.previous = previous
        self.reported = reported
        self._channels = channels
        self._with_body = with_body
        self._progress = progress
        self._texts: dict[str, FieldTexts] = {}
        self._refused: set[str] = set()

    @property
    def reused(self) -> int:
        """How many documents are what they were."""
        return self.size - self.read_count

    @property
    def read_count(self) -> int:
        """How many documents came or changed."""
        return len(self._texts)

    def read(self, files: Sequence[SkillFile]) -> None:
        """Read files; those with the bytes that were indexed are left as they are.

        Args:
            files: Those that may have come or changed.
        """
        documents = self.previous.corpus.documents
        scripts = [channel.embedder.scripts for channel in self._channels]
        for done, file in enumerate(files, start=1):
            found = read_file(file)
            self.seen[str(file.path)] = found.seen
            number = documents.number_of(file.doc_id)
            texts = found.texts(scripts, with_body=self._with_body)
            self.diagnostics.extend(found.diagnostics)
            if texts is None:
                self._refused.add(file.doc_id)
            elif number is None or documents[number].content_hash != found.seen.content_hash:
                self._texts[file.doc_id] = texts
                self.others += texts.document.fluency < KNOWN
            self._progress("read", done, len(files))

    def changes(self, gone: Iterable[str]) -> Changes:
        """Return what is to become of the index.

        Args:
            gone: Ids whose files are there no more; those that were never indexed do not count.

        Returns:
            The changes; none where the index is what it has to be.
        """
        documents = self.previous.corpus.documents
        wanted = {*gone, *self._refused}
        removed = frozenset(one for one in wanted if documents.number_of(one) is not None)
        return Changes(self._texts, removed)

    def publish(
        self,
        folder: IndexFolder,
        settings: dict[str, JsonValue],
        changes: Changes,
        diagnostics: tuple[Diagnostic, ...],
    ) -> str:
        """Embed what is new and write a generation that shares all else with the one before.

        Args:
            folder: The index folder.
            settings: What the index is made with.
            changes: What `changes` returned.
            diagnostics: All that there is to report.

        Returns:
            Name of the generation.

        Raises:
            CacheError: When a part that is copied from is damaged.
            EmbedderError: When a text could not be embedded.
            StorageError: When it cannot be written; the one before is unchanged.
        """

        def save(place: Path) -> None:
            """Write what is not shared."""
            self._write(place, changes)
            save_diagnostics(place, diagnostics)

        before = self.previous.generation
        kept = kept_parts(before.parts)
        if before.has_damage(kept):
            raise CacheError("what changed before is damaged")
        return folder.write(save, settings, before=before, kept=kept)

    def _write(self, folder: Path, changes: Changes) -> None:
        """Write the small segment."""
        with TextEmbedding(self._channels, self._progress) as embedding:
            try:
                for done, texts in enumerate(changes.texts.values(), start=1):
                    embedding.add(texts, done / len(changes.texts))
                embedding.finish()
            finally:
                self.embedded, self.truncated = embedding.embedded, embedding.truncated
        roots = [str(root.path) for root in self.previous.settings.roots]
        amender = Amender(self.previous.corpus, changes, roots)
        amender.save(folder, [channel.cache for channel in self._channels])
        self.size, self.removed = amender.size, len(changes.removed)
