"""Whether an index still matches the disk, and whether skills follow the specification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from skillsearch.embedders.embedder import PACKAGED, multilingual_is_installed
from skillsearch.embedders.multilingual.source import NAME as MULTILINGUAL_NAME
from skillsearch.index.build.changes import Changes
from skillsearch.index.build.reading import count_skipped
from skillsearch.index.dense.channels import MULTILINGUAL
from skillsearch.index.fields import embeds_body
from skillsearch.index.languages import advice, count_languages
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.roots.sources import unpacked_from
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.skills.validator import FILE_NAMES, validate
from skillsearch.types import Diagnostic, JsonValue, Languages, Root

_NAMES = {spec: packaged.name for spec, packaged in PACKAGED.items()}
_NAMES[MULTILINGUAL] = MULTILINGUAL_NAME


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """A dense channel of an index: its embedder's spec and name, and what it is asked about.

    It is not usable if its library is not installed.
    """

    model: str
    name: str
    dimensions: int
    vectors: int
    asked_about: str
    usable: bool


@dataclass(frozen=True, slots=True)
class Status:
    """An index, and how it differs from the disk, every file hashed.

    The model is of its first embedder; its fields are ``full`` or ``metadata``; advice is about
    skills in languages that no channel knows; skipped are files that could not be indexed.
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
    differences: Changes

    @property
    def in_sync(self) -> bool:
        """Whether the index matches the disk."""
        return not len(self.differences) and not self.differences.missing_roots

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "index_dir": str(self.index_dir),
            "channels": [asdict(channel) for channel in self.channels],
            "roots": [{"alias": root.alias, "path": str(root.path)} for root in self.roots],
            "in_sync": self.in_sync,
            "differences": self.differences.to_dict(),
        }


def status(index: SkillIndex) -> Status:
    """Describe an index, and compare it with the disk by the hash of every file."""
    settings = index.opened.settings
    diagnostics = index.diagnostics()
    return Status(
        index_dir=index.folder,
        generation=index.generation,
        model=settings.channels[0].model,
        fields="full" if settings.with_body else "metadata",
        languages=settings.languages,
        channels=tuple(_channel(index, number) for number in range(len(settings.channels))),
        skills_by_language=count_languages(index),
        advice=advice(index),
        indexed=len(index),
        skipped=count_skipped(diagnostics),
        diagnostics=count_severities(diagnostics),
        size_bytes=IndexFolder(index.folder).size(),
        roots=settings.roots,
        differences=index.differences(verify=True),
    )


def _channel(index: SkillIndex, number: int) -> ChannelStatus:
    settings, corpus = index.opened.settings, index.opened.corpus
    channel = settings.channels[number]
    asked_about = "all other languages" if number else "English"
    if len(settings.channels) == 1:
        letters = ", ".join(sorted(channel.scripts or ()))
        asked_about = f"texts in {letters} letters" if channel.scripts else "all languages"
    fields = 1 + embeds_body(number, with_body=settings.with_body)
    chunks = 0 if number else sum(len(part.vectors) for part in corpus.chunks if part)
    vectors = fields * len(corpus.documents) + chunks
    name = _NAMES.get(channel.model, channel.model)
    usable = not number or multilingual_is_installed()
    return ChannelStatus(channel.model, name, channel.dimensions, vectors, asked_about, usable)


def describe_root(root: Root) -> str:
    """Return the path and alias of a root, and the archive or URL it was unpacked from, if any."""
    source = unpacked_from(root.path)
    return f"{root.path} (alias {root.alias}{f', from {source}' if source else ''})"


def validate_paths(paths: Sequence[Path]) -> tuple[int, tuple[Diagnostic, ...]]:
    """Check skills against the specification; returns their number and all problems in order.

    Each path is a skill folder, a SKILL.md, or a folder with skills anywhere below it.
    """
    checked = 0
    problems: list[Diagnostic] = []
    for path in paths:
        skills = [path]
        if path.is_dir() and not any((path / name).exists() for name in FILE_NAMES):
            roots, of_roots = make_roots([path])
            discovery = discover(roots)
            met = [*of_roots, *discovery.diagnostics]
            # A folder without anything is checked as if it were a skill.
            if discovery.files or met:
                skills = [file.path.parent for file in discovery.files]
            problems += met
        checked += len(skills)
        for skill in skills:
            problems += validate(skill)
    return checked, tuple(problems)


def count_severities(diagnostics: Iterable[Diagnostic]) -> dict[str, int]:
    """Count errors, warnings and notes, zeros included."""
    counts = Counter(diagnostic.severity for diagnostic in diagnostics)
    return {severity: counts[severity] for severity in ("error", "warning", "note")}
