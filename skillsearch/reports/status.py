"""What an index is, and whether the disk still is what it was made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from skillsearch.embedders.embedder import PACKAGED, multilingual_is_installed
from skillsearch.embedders.multilingual.source import NAME as MULTILINGUAL_NAME
from skillsearch.index.build.diagnostics import count_skipped
from skillsearch.index.build.freshness import Differences
from skillsearch.index.dense.channels import MULTILINGUAL
from skillsearch.index.fields import embeds_body
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.reports.languages import advice, count_languages
from skillsearch.reports.validation import count_severities
from skillsearch.types import JsonValue, Languages, Root

_NAMES = {
    **{spec: packaged.name for spec, packaged in PACKAGED.items()},
    MULTILINGUAL: MULTILINGUAL_NAME,
}


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """A dense channel of an index.

    Attributes:
        model: What its embedder is loaded by.
        name: Name of the embedder.
        dimensions: Length of its vectors.
        vectors: How many there are.
        asked_about: Which queries and skills it has a vote on, in words.
        usable: False where its library is not installed, so that it cannot be asked.
    """

    model: str
    name: str
    dimensions: int
    vectors: int
    asked_about: str
    usable: bool


@dataclass(frozen=True, slots=True)
class Status:
    """An index, and whether the disk still is what it was made of.

    Attributes:
        index_dir: Its folder.
        generation: Name of the generation in use.
        model: What its embedder is loaded by.
        fields: ``full``, or ``metadata`` for an index without bodies.
        languages: Which languages it was asked for; see `skillsearch.types.LANGUAGES`.
        channels: Its dense channels, that of its model first.
        skills_by_language: How many skills are in each language, most first.
        advice: What to do about skills in languages that no channel knows; empty for nothing.
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
    languages: Languages
    channels: tuple[ChannelStatus, ...]
    skills_by_language: dict[str, int]
    advice: str
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
            "languages": self.languages,
            "channels": [asdict(channel) for channel in self.channels],
            "skills_by_language": self.skills_by_language,
            "advice": self.advice,
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
        model=settings.channels[0].model,
        fields="full" if settings.with_body else "metadata",
        languages=settings.languages,
        channels=_channels(index),
        skills_by_language=count_languages(index),
        advice=advice(index),
        indexed=len(index),
        skipped=count_skipped(diagnostics),
        diagnostics=count_severities(diagnostics),
        size_bytes=IndexFolder(index.folder).size(),
        roots=settings.roots,
        differences=index.differences(verify=True),
    )


def _channels(index: SkillIndex) -> tuple[ChannelStatus, ...]:
    """Describe the dense channels."""
    settings, corpus = index.opened.settings, index.opened.corpus
    found = []
    for number, channel in enumerate(settings.channels):
        if number:
            asked_about = "all other languages"
        elif len(settings.channels) > 1:
            asked_about = "English"
        elif channel.scripts is None:
            asked_about = "all languages"
        else:
            asked_about = f"texts in {', '.join(sorted(channel.scripts))} letters"
        fields = 1 + embeds_body(number, with_body=settings.with_body)
        chunks = 0 if number else sum(len(part.vectors) for part in corpus.chunks if part)
        found.append(
            ChannelStatus(
                channel.model,
                _NAMES.get(channel.model, channel.model),
                channel.dimensions,
                fields * len(corpus.documents) + chunks,
                asked_about,
                usable=not number or multilingual_is_installed(),
            )
        )
    return tuple(found)
