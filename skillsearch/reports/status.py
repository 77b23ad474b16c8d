"""What an index is, and whether the disk still is what it was made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skillsearch.index.builder import count_skipped
from skillsearch.index.cache import IndexFolder
from skillsearch.index.freshness import Differences
from skillsearch.index.skill_index import SkillIndex
from skillsearch.reports.validation import count_severities
from skillsearch.types import JsonValue, Root


@dataclass(frozen=True, slots=True)
class Status:
    """An index, and whether the disk still is what it was made of.

    Attributes:
        index_dir: Its folder.
        generation: Name of the generation in use.
        model: What its embedder is loaded by.
        fields: ``full``, or ``metadata`` for an index without bodies.
        indexed: Skills in it.
        skipped: SKILL.md files that could not be indexed.
        diagnostics: How many problems were reported, by severity.
        size_bytes: What its folder takes on disk.
        roots: The folders it was made of.
        differences: What came, changed and went since, every file hashed.
    """

    index_dir: Path
    generation: str
    model: str
    fields: str
    indexed: int
    skipped: int
    diagnostics: dict[str, int]
    size_bytes: int
    roots: tuple[Root, ...]
    differences: Differences

    @property
    def in_sync(self) -> bool:
        """Whether index and disk are the same."""
        return not len(self.differences) and not self.differences.missing_roots

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {
            "index_dir": str(self.index_dir),
            "generation": self.generation,
            "model": self.model,
            "fields": self.fields,
            "indexed": self.indexed,
            "skipped": self.skipped,
            "diagnostics": self.diagnostics,
            "size_bytes": self.size_bytes,
            "roots": [{"alias": root.alias, "path": str(root.path)} for root in self.roots],
            "in_sync": self.in_sync,
            "differences": self.differences.to_dict(),
        }


def status(index: SkillIndex) -> Status:
    """Describe an index and compare it with the disk by the hash of every file.

    Args:
        index: The opened index.

    Returns:
        What there is to say about it.
    """
    settings = index.opened.settings
    diagnostics = index.diagnostics()
    return Status(
        index_dir=index.folder,
        generation=index.generation,
        model=settings.model,
        fields="full" if settings.with_body else "metadata",
        indexed=len(index),
        skipped=count_skipped(diagnostics),
        diagnostics=count_severities(diagnostics),
        size_bytes=IndexFolder(index.folder).size(),
        roots=settings.roots,
        differences=index.differences(verify=True),
    )
