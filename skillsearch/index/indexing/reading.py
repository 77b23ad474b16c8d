"""Reads SKILL.md files, and the files beside them, for the index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from skillsearch.errors import ParseError
from skillsearch.files.openat import UNKNOWN_STAT
from skillsearch.index.indexing.snapshot import SeenFile
from skillsearch.skills.example_requests import EvalFiles, ExampleBook, beside_hash
from skillsearch.skills.resources import content_hash, read_skill_md
from skillsearch.skills.stubs import Continuation, continuation_in, continuation_of, digest_of
from skillsearch.types.skills import Diagnostic, FileStat, Root, Skill, SkillFile

NO_EXAMPLES = ExampleBook.empty()

_MOST_KEPT = 1_000
"""Skills that a `FileReader` keeps: enough for a delta segment, too few to fill the memory."""


class ReadFile(NamedTuple):
    """A SKILL.md that was read; `skill` is None if it cannot be indexed.

    Other `files` of the skill were read too: a stub's continuation, eval files.
    """

    seen: SeenFile
    skill: Skill | None
    diagnostics: Sequence[Diagnostic]
    files: Sequence[tuple[str, FileStat]] = ()


def read_for_index(
    file: SkillFile, book: ExampleBook = NO_EXAMPLES, roots: Iterable[Path] = ()
) -> ReadFile:
    """Read a SKILL.md, a stub with its continuation, and the examples that a book has for it.

    Problems with it become diagnostics. A link may lead into its root, or into one of the `roots`.
    """
    path = str(file.path)
    seen = SeenFile(file.stat, "", is_indexed=False)
    try:
        data, status = read_skill_md(file.path, (file.root.path, *roots))
        seen = SeenFile(FileStat.of(status), content_hash(data), is_indexed=False)
        skill, diagnostics, files = parse_file(file, data, book)
    except ParseError as exc:
        if exc.code == "file-unreadable":
            # Permissions do not change the stat, so an unreadable file is tried again each time.
            seen = seen._replace(stat=UNKNOWN_STAT)
        return ReadFile(seen, None, [Diagnostic(exc.code, exc.severity, str(exc), path, exc.line)])
    beside = beside_hash(digest_of(skill.continuation), skill.evals_hash)
    return ReadFile(seen._replace(is_indexed=True, beside_hash=beside), skill, diagnostics, files)


def parse_file(
    file: SkillFile, data: bytes, book: ExampleBook
) -> tuple[Skill, Sequence[Diagnostic], Sequence[tuple[str, FileStat]]]:
    """Parse the bytes of a SKILL.md, and read the files indexed with it; may raise a ParseError.

    Returns also the diagnostics, and the stat of each other file read for it.
    """
    # Importing the parser takes a tenth of a run that finds nothing changed.
    from skillsearch.skills.parser import parse_skill

    location = {"path": file.path, "root": file.root.path}
    skill, diagnostics = parse_skill(data, doc_id=file.doc_id, **location)
    more, evals = _beside(file, data, book)
    examples, text = book.with_own(skill.metadata, evals), more.text if more else None
    skill = replace(skill, examples=examples, evals_hash=evals.digest, continuation=text)
    return skill, diagnostics, (*(more.files if more else ()), *evals.stats)


def hash_beside(file: SkillFile, data: bytes, book: ExampleBook) -> str:
    """Return `SeenFile.beside_hash` for the bytes of a SKILL.md."""
    return _hash_of(*_beside(file, data, book))


def _beside(
    file: SkillFile, data: bytes, book: ExampleBook
) -> tuple[Continuation | None, EvalFiles]:
    """Read the other files of its folder that are indexed with a SKILL.md."""
    evals = EvalFiles.of(file.path.parent) if book.own else EvalFiles()
    return continuation_of(file.path, data), evals


def _hash_of(more: Continuation | None, evals: EvalFiles) -> str:
    return beside_hash(digest_of(more.text if more else None), evals.digest)


def is_same(file: SkillFile, seen: SeenFile, *, verify: bool, roots: Iterable[Path] = ()) -> bool:
    """Return whether a file has the bytes it had; `verify` hashes it whatever its stat."""
    if seen.stat == file.stat and not verify:
        return True
    if seen.stat != UNKNOWN_STAT and seen.stat.size != file.stat.size:
        return False
    with suppress(ParseError):
        data, _ = read_skill_md(file.path, (file.root.path, *roots))
        return content_hash(data) == seen.content_hash
    return False


class FileReader:
    """Reads files, and keeps how they looked, by path, and the first skills.

    The `continued` are the other files that were read with a SKILL.md, by its path.
    """

    def __init__(self, book: ExampleBook = NO_EXAMPLES, roots: Sequence[Path] = ()) -> None:
        """Take the examples that skills get, and the folders that links may lead into."""
        self._book, self.roots = book, roots
        self.files: dict[str, ReadFile] = {}
        self.continued: dict[str, Sequence[tuple[str, FileStat]]] = {}

    def read(self, file: SkillFile) -> Skill | None:
        """Return the skill of a file, None if it cannot be indexed."""
        path = str(file.path)
        read = self.files.get(path)
        if read is None or (read.skill is None and read.seen.is_indexed):
            read = read_for_index(file, self._book, self.roots)
            is_kept = len(self.files) < _MOST_KEPT
            self.files[path] = read if is_kept else read._replace(skill=None)
            self.continued[path] = read.files
        return read.skill

    def continues(self, file: SkillFile, seen: SeenFile) -> bool:
        """Return whether the files read with an unchanged SKILL.md are unchanged too."""
        evals = EvalFiles.of(file.path.parent) if self._book.own else EvalFiles()
        more = None
        if seen.beside_hash and _hash_of(None, evals) != seen.beside_hash:
            more = continuation_in(file.path.parent)  # as far as it can be told, it is a stub
        self.continued[str(file.path)] = (*(more.files if more else ()), *evals.stats)
        return _hash_of(more, evals) == seen.beside_hash


def sorted_diagnostics(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sort diagnostics by path and drop duplicates."""
    return tuple(sorted(set(diagnostics), key=lambda d: (d.path, d.line or 0, d.code, d.message)))


def empty_roots(roots: Iterable[Root]) -> Iterator[Diagnostic]:
    """Yield a warning of each root, which has no skills."""
    message = "No SKILL.md lies below this root; check the path."
    return (Diagnostic("root-empty", "warning", message, str(root.path)) for root in roots)


def skipped(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return why skills are lost: of each file or folder that could not be indexed, one error."""
    errors = (
        diagnostic
        for diagnostic in diagnostics
        if diagnostic.severity == "error" and not diagnostic.code.startswith("root-")
    )
    return list({error.path: error for error in errors}.values())


def count_skipped(diagnostics: Iterable[Diagnostic]) -> int:
    """Count the skills that are lost."""
    return len(skipped(diagnostics))
