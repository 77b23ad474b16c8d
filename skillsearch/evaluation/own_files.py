"""Folders of the user's own skills → a judged collection of them."""

from __future__ import annotations

from collections.abc import Collection as AbstractCollection
from collections.abc import Iterator, Sequence
from pathlib import Path

from skillsearch.errors import ParseError, SkillError
from skillsearch.evaluation.own_skills import KINDS, own_collection
from skillsearch.evaluation.trigger_evals import is_eval_file
from skillsearch.evaluation.types import Collection
from skillsearch.files.paths import printable
from skillsearch.index.documents import Document
from skillsearch.index.names import find_shadowed
from skillsearch.index.request import resolve_roots
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.skills.discovery import discover
from skillsearch.skills.frontmatter import load_yaml
from skillsearch.skills.listing import list_files
from skillsearch.skills.parser import parse_skill
from skillsearch.skills.resources import read_file, read_skill_md
from skillsearch.types import Diagnostic, JsonValue, Severity, Skill

_MAX_LISTED = 20_000
"""Files of a skill folder that are looked at; it may hold all other skills."""


def read_own_collection(
    roots: Sequence[Path], kinds: AbstractCollection[str] = KINDS
) -> tuple[Collection, tuple[Diagnostic, ...]]:
    """Make a judged collection of the skills in some folders.

    Args:
        roots: The folders, in order of precedence.
        kinds: Which of `KINDS` of queries to make.

    Returns:
        The collection, its documents with the ids that an index of these roots gives them, and
        what is wrong with skills and their eval files. Skills that no search finds, because their
        names mean others, are left out and reported.

    Raises:
        RootError: When a folder cannot be read.
        EvaluationError: When no query can be made.
    """
    own = _OwnFiles()
    skills = own.without_shadowed(list(own.read_skills(roots)), roots)
    collection, diagnostics = own_collection(
        skills, own.eval_files, kinds=kinds, load_yaml=_load_yaml
    )
    return collection, (*own.diagnostics, *diagnostics)


class _OwnFiles:
    """What reads the files of skills, and what was wrong with them so far."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []

    def read_skills(self, paths: Sequence[Path]) -> Iterator[Skill]:
        """Yield all skills below some folders."""
        roots, _ = resolve_roots(paths)
        for file in discover(roots).files:
            try:
                data, _ = read_skill_md(file.path)
                skill, _ = parse_skill(
                    data, doc_id=file.doc_id, path=file.path, root=file.root.path
                )
            except ParseError as exc:
                self._report(exc.code, "error", str(exc), str(file.path), exc.line)
            else:
                yield skill

    def without_shadowed(self, skills: Sequence[Skill], paths: Sequence[Path]) -> list[Skill]:
        """Return the skills that their names mean; report the others."""
        roots, _ = resolve_roots(paths)
        documents = sorted(map(Document.listed, skills), key=lambda document: document.doc_id)
        found = find_shadowed(DocumentStore.build(documents), [str(root.path) for root in roots])
        for one in found:
            message = f"Not evaluated: its name means {one.by.doc_id}, so no search finds it."
            self._report("shadowed", "note", message, one.document.path)
        left_out = {one.document.doc_id for one in found}
        return [skill for skill in skills if skill.doc_id not in left_out]

    def eval_files(self, skill: Skill) -> Iterator[tuple[str, bytes]]:
        """Yield the eval files of a skill; links are not followed."""
        folder = skill.path.parent
        try:
            files, is_cut = list_files(folder, limit=_MAX_LISTED)
        except SkillError as exc:
            self._report("eval-unreadable", "warning", str(exc), str(folder))
            return
        if is_cut:
            message = (
                "Not all files were looked at for evals: there are too many, or a name hides "
                "characters. Move what is not part of the skill, and rename the rest."
            )
            self._report("eval-not-listed", "note", message, str(folder))
        for file in filter(is_eval_file, files):
            try:
                yield file, read_file(folder, file)
            except SkillError as exc:
                self._report("eval-unreadable", "warning", str(exc), str(folder / file))

    def _report(
        self, code: str, severity: Severity, message: str, path: str, line: int | None = None
    ) -> None:
        """Add a diagnostic."""
        self.diagnostics.append(Diagnostic(code, severity, message, printable(path), line))


def _load_yaml(text: str) -> JsonValue:
    """Return the values of an eval file in YAML."""
    return load_yaml(text)[0]
