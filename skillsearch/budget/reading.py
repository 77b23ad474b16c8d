"""Read and measure the skills of roots or of an index, one file at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from skillsearch.budget.costs import Counter, MeasuredSkill, Size, measure_skill, measure_text
from skillsearch.budget.hosts import ListedSkill
from skillsearch.errors import ParseError, SkillError
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.skills.parser import parse_skill
from skillsearch.skills.resources import list_files, read_file, read_skill_md
from skillsearch.types import Diagnostic, Progress, Skill

if TYPE_CHECKING:
    from skillsearch.index.skill_index import SkillIndex

DOCUMENT_SUFFIXES = frozenset({".md", ".txt"})
"""Files that an agent reads into its prompt; scripts are run, assets are copied."""


class Source(NamedTuple):
    """A skill to be read: its id, its SKILL.md and its root."""

    doc_id: str
    path: Path
    root: Path


def sources_of_roots(paths: Sequence[Path]) -> tuple[list[Source], tuple[Diagnostic, ...]]:
    """Return the skills below folders, in the order of the folders, and what cannot be read."""
    roots, problems = make_roots(paths)
    found = discover(roots)
    sources = [Source(file.doc_id, file.path, file.root.path) for file in found.files]
    errors = (item for item in (*problems, *found.diagnostics) if item.severity == "error")
    return _by_root(sources, [root.path for root in roots]), tuple(errors)


def sources_of_index(index: SkillIndex) -> list[Source]:
    """Return the skills of an index in the order of its roots."""
    roots = [root.path for root in index.opened.settings.roots]
    found = (Source(d.doc_id, Path(d.path), Path(d.root)) for d in index.documents())
    return _by_root(found, roots)


def _by_root(sources: Iterable[Source], roots: Sequence[Path]) -> list[Source]:
    order = {root: place for place, root in enumerate(roots)}
    return sorted(sources, key=lambda source: order.get(source.root, len(order)))


def measure(
    sources: Sequence[Source], count: Counter, progress: Progress | None = None
) -> tuple[tuple[MeasuredSkill, ...], tuple[Diagnostic, ...]]:
    """Read and measure skills with their text documents, dropping each text once it is measured.

    A document of a skill inside another counts for the inner one alone. Returns the skills by
    root, then by name, and what could not be read.
    """
    folders = frozenset(source.path.parent for source in sources)
    places = {root: place for place, root in enumerate(dict.fromkeys(s.root for s in sources))}
    found: list[tuple[tuple[int, str, str], MeasuredSkill]] = []
    problems: list[Diagnostic] = []
    for number, source in enumerate(sources):
        try:
            data, _ = read_skill_md(source.path)
            skill, _ = parse_skill(data, doc_id=source.doc_id, path=source.path, root=source.root)
        except ParseError as error:
            problems.append(
                Diagnostic(error.code, "error", str(error), str(source.path), error.line)
            )
        else:
            documents = _measure_documents(source.path.parent, folders, count, problems)
            measured = measure_skill(_listed(skill), skill.body, documents, count=count)
            key = (places[source.root], skill.name.casefold(), source.doc_id)
            found.append((key, measured))
        if progress is not None:
            progress("read", number + 1, len(sources))
    return tuple(skill for _, skill in sorted(found, key=lambda pair: pair[0])), tuple(problems)


def _listed(skill: Skill) -> ListedSkill:
    path = short = skill.path.as_posix()
    with suppress(RuntimeError, ValueError):
        short = f"~/{skill.path.relative_to(Path.home()).as_posix()}"
    return ListedSkill(
        name=skill.name,
        description=" ".join(skill.description.split()),
        when_to_use=" ".join(skill.metadata.when_to_use.split()),
        hidden=skill.metadata.hidden,
        path=path,
        root=skill.root.as_posix(),
        short_path=short,
    )


def _measure_documents(
    folder: Path, folders: Collection[Path], count: Counter, problems: list[Diagnostic]
) -> Size:
    """Return the size of a skill's text documents; add those that cannot be read to `problems`."""
    size = Size()
    try:
        files, truncated = list_files(folder)
    except SkillError as error:
        problems.append(Diagnostic("folder-unreadable", "warning", str(error), str(folder)))
        return size
    if truncated:
        message = "The folder has more files than are listed; some documents are not counted."
        problems.append(Diagnostic("files-truncated", "warning", message, str(folder)))
    for file in files:
        path = PurePosixPath(file)
        is_nested = any(folder / parent in folders for parent in path.parents if parent.name)
        if path.suffix.lower() in DOCUMENT_SUFFIXES and not is_nested:
            try:
                text = read_file(folder, file).decode("utf-8-sig", "replace")
                size += measure_text(text, count)
            except SkillError as error:
                code, place = "document-unreadable", str(folder / file)
                problems.append(Diagnostic(code, "warning", str(error), place))
    return size
