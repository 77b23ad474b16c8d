"""Readers that read no pair of texts twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skillsearch.readers.loading import Readers
from skillsearch.readers.reader import Logits, Reader


class RememberingReader:
    """A reader that reads no pair twice, for the same requests to indexes that differ a little."""

    def __init__(self, reader: Reader) -> None:
        self.name, self._reader = reader.name, reader
        self._logits: dict[tuple[str, str], float] = {}

    def read(self, request: str, texts: Sequence[str]) -> Logits:
        """Return the log-odds that the skill of each text fits, in order."""
        if new := [text for text in dict.fromkeys(texts) if (request, text) not in self._logits]:
            pairs = ((request, text) for text in new)
            self._logits.update(zip(pairs, self._reader.read(request, new).tolist(), strict=True))
        return np.array([self._logits[request, text] for text in texts])


class RememberingReaders(Readers):
    """Readers that remember what they have read."""

    def get(self, spec: str) -> Reader | None:
        """Return a reader, as `Readers.get` does."""
        if spec not in self.loaded and (reader := super().get(spec)):
            self.loaded[spec] = RememberingReader(reader)
        return super().get(spec)
