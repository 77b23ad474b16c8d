"""What an index holds, and how it differs from the disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Literal, TypedDict

from skillsearch.embedders.embedder import PACKAGED, PACKAGED_NAME
from skillsearch.index.documents.languages import count_languages
from skillsearch.index.indexing.changes import Changes
from skillsearch.index.indexing.reading import count_skipped
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.reports.sources import check_sources
from skillsearch.roots.lock import known_sources
from skillsearch.roots.sources import shown, source_behind
from skillsearch.skills.example_requests import count_exampled
from skillsearch.types.json_values import text_of
from skillsearch.types.skills import Diagnostic, Root

_NAMES = dict.fromkeys(PACKAGED, PACKAGED_NAME)


class Status(TypedDict):
    """An index in JSON form; skipped are files that could not be indexed."""

    index_dir: str
    generation: str
    model: str
    model_name: str
    dimensions: int
    vectors: int
    fields: Literal["full", "metadata"]
    skills_by_language: dict[str, int]
    examples: dict[str, int]
    indexed: int
    skipped: int
    diagnostics: dict[str, int]
    size_bytes: int
    roots: list[dict[str, object]]
    sources: list[dict[str, str]]
    differences: dict[str, list[str]]
    is_current: bool


def status(index: SkillIndex) -> tuple[Status, Changes]:
    """Return an index in JSON form, and how it differs from the disk by the hash of every file."""
    settings, diagnostics = index.opened.settings, index.diagnostics()
    model, corpus = settings.model, index.opened.corpus
    differences = index.differences(verify=True)
    record: Status = {
        "index_dir": str(index.folder),
        "generation": index.generation,
        "model": model.spec,
        "model_name": _NAMES.get(model.spec, model.spec),
        "dimensions": model.dimensions,
        "vectors": len(index) + sum(len(part.vectors) for part in corpus.chunks if part),
        "fields": "full" if settings.with_body else "metadata",
        "skills_by_language": count_languages(index.documents()),
        "examples": count_exampled(document.examples for document in index.documents()),
        "indexed": len(index),
        "skipped": count_skipped(diagnostics),
        "diagnostics": count_severities(diagnostics),
        "size_bytes": IndexFolder(index.folder).size(),
        "roots": [asdict(root) | {"path": str(root.path)} for root in settings.roots],
        "sources": _sources_of(index),
        "differences": differences.to_dict(),
        "is_current": not len(differences) and not differences.missing_roots,
    }
    return record, differences


def _sources_of(index: SkillIndex) -> list[dict[str, str]]:
    """Return the locked sources that the index holds, each with its problem if any."""
    request = IndexRequest.load(index.folder)
    held = set(request.sources) if request else set()
    checked = check_sources(known_sources().values(), request)
    return [
        {key: text_of(value) for key, value in entry.to_dict().items()} | {"problem": why}
        for entry, why in checked
        if entry.source in held
    ]


def describe_root(root: Root) -> str:
    """Return the path and alias of a root, its origin if it has one, and unvetted trust."""
    source = root.origin or shown(source_behind(root.path))
    about = [f"alias {root.alias}", f"from {source}" if source else ""]
    about.append("" if root.trust == "vetted" else root.trust)
    return f"{root.path} ({', '.join(filter(None, about))})"


def count_severities(diagnostics: Iterable[Diagnostic]) -> dict[str, int]:
    """Count errors, warnings and notes, zeros included."""
    counts = Counter(diagnostic.severity for diagnostic in diagnostics)
    return {severity: counts[severity] for severity in ("error", "warning", "note")}
