"""Read and measure the skills of roots or of an index, one file at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from skillsearch.budget.costs import Counter, MeasuredSkill, Size, measure_skill, measure_text
from skillsearch.budget.hosts import ListedSkill
from skillsearch.errors import SkillError
from skillsearch.index.build.reading import read_file as read_skill
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.skills.resources import list_files, read_file
from skillsearch.types import Diagnostic, Progress, Root, Skill, SkillFile

if TYPE_CHECKING:
    from skillsearch.index.skill_index import SkillIndex

DOCUMENT_SUFFIXES = frozenset({".md", ".txt"})
"""Files that an agent reads into its prompt; scripts are run, assets are copied."""


def sources_of_roots(paths: Sequence[Path]) -> tuple[list[SkillFile], tuple[Diagnostic, ...]]:
    """Return the skills below folders, in the order of the folders, and what cannot be read."""
    roots, problems = make_roots(paths)
    found = discover(roots)
    errors = (item for item in (*problems, *found.diagnostics) if item.severity == "error")
    return _by_root(found.files, roots), tuple(errors)


def sources_of_index(index: SkillIndex) -> list[SkillFile]:
    """Return the skills of an index in the order of its roots; their stat is unknown."""
    roots = ((document, Root(Path(document.root), "")) for document in index.documents())
    found = (SkillFile(one.doc_id, Path(one.path), root, 0, 0, 0) for one, root in roots)
    return _by_root(found, index.opened.settings.roots)


def _by_root(sources: Iterable[SkillFile], roots: Sequence[Root]) -> list[SkillFile]:
    order = {root.path: place for place, root in enumerate(roots)}
    return sorted(sources, key=lambda source: order.get(source.root.path, len(order)))


def measure(
    sources: Sequence[SkillFile], count: Counter, progress: Progress | None = None
) -> tuple[tuple[MeasuredSkill, ...], tuple[Diagnostic, ...]]:
    """Read and measure skills with their text documents; returns them by root and name.

    A document of a skill inside another counts for the inner one alone.
    """
    folders = frozenset(source.path.parent for source in sources)
    roots = list(dict.fromkeys(source.root.path for source in sources))
    found: list[tuple[tuple[int, str, str], MeasuredSkill]] = []
    problems: list[Diagnostic] = []
    for number, source in enumerate(sources):
        read = read_skill(source)
        if read.skill is None:
            problems += read.diagnostics
        else:
            documents = _measure_documents(source.path.parent, folders, count, problems)
            measured = measure_skill(_listed(read.skill), read.skill.body, documents, count=count)
            key = (roots.index(source.root.path), read.skill.name.casefold(), source.doc_id)
            found.append((key, measured))
        if progress is not None:
            progress("read", number + 1, len(sources))
    return tuple(skill for _, skill in sorted(found, key=lambda pair: pair[0])), tuple(problems)


def _listed(skill: Skill) -> ListedSkill:
    path = short = skill.path.as_posix()
    with suppress(RuntimeError, ValueError):
        short = f"~/{skill.path.relative_to(Path.home()).as_posix()}"
    description = " ".join(skill.description.split())
    when = " ".join(skill.metadata.when_to_use.split())
    root, hidden = skill.root.as_posix(), skill.metadata.hidden
    return ListedSkill(skill.name, description, when, hidden, path, root, short)


def _measure_documents(
    folder: Path, folders: Collection[Path], count: Counter, problems: list[Diagnostic]
) -> Size:
    """Return the size of a skill's text documents; add those that cannot be read to `problems`."""

    def report(code: str, message: object, place: Path) -> None:
        problems.append(Diagnostic(code, "warning", str(message), str(place)))

    size = Size()
    try:
        files, is_truncated = list_files(folder)
    except SkillError as error:
        report("folder-unreadable", error, folder)
        return size
    if is_truncated:
        message = "The folder has more files than are listed; some documents are not counted."
        report("files-truncated", message, folder)
    for file in files:
        path = PurePosixPath(file)
        is_nested = any(folder / parent in folders for parent in path.parents if parent.name)
        if path.suffix.lower() in DOCUMENT_SUFFIXES and not is_nested:
            try:
                text = read_file(folder, file).decode("utf-8-sig", "replace")
                size += measure_text(text, count)
            except SkillError as error:
                report("document-unreadable", error, folder / file)
    return size
