"""The languages of the skills in an index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from skillsearch.index.documents.document import Document
from skillsearch.text.languages import UNKNOWN


def count_languages(documents: Iterable[Document]) -> dict[str, int]:
    """Count skills by language code, most frequent first, ties by code."""
    counts = Counter(document.language or UNKNOWN for document in documents)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def in_words(counts: Mapping[str, int]) -> str:
    """Write counts by language, as in ``en 950, zh 40``."""
    return ", ".join(f"{language} {count:,}" for language, count in counts.items())
