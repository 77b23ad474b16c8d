"""Compare added sources with the lock file and with their present content."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skillsearch.errors import SkillError
from skillsearch.index.roots.request import IndexRequest
from skillsearch.roots.bundles import content_digest
from skillsearch.roots.lock import LockedSource
from skillsearch.roots.sources import folder_of, is_bundle, shown
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.skills.parser import read_skill
from skillsearch.text.safe_text import listed, one_line

_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class SkillChanges:
    """The skills that come, change and go with another content of a source, by name."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def __str__(self) -> str:
        parts = {"added": self.added, "changed": self.changed, "removed": self.removed}
        said = [f"{word}: {listed(names, _MOST_NAMED)}" for word, names in parts.items() if names]
        return "; ".join(said) or "no skill differs, other files do"


def compare(old: Path | None, new: Path) -> SkillChanges:
    """Compare the skills of two folders: by their place below it, and by all of their files."""
    before, now = _skills(old) if old else {}, _skills(new)
    changed = (key for key in before.keys() & now.keys() if before[key][1] != now[key][1])
    groups = (
        (now[key][0] for key in now.keys() - before.keys()),
        (now[key][0] for key in changed),
        (before[key][0] for key in before.keys() - now.keys()),
    )
    return SkillChanges(*(tuple(sorted(names)) for names in groups))


def _skills(folder: Path) -> dict[str, tuple[str, str]]:
    """Return the name and the digest of each skill below a folder, by its place there."""
    skills = {}
    for file in discover(make_roots([folder])[0]).files:
        below = file.doc_id.partition(":")[2]
        name = Path(below).name
        with suppress(SkillError):
            name = read_skill(file.path, doc_id=file.doc_id, root=file.root.path).name
        skills[below] = one_line(name, 80), content_digest(file.path.parent)
    return skills


def check_sources(
    entries: Iterable[LockedSource], request: IndexRequest | None
) -> list[tuple[LockedSource, str]]:
    """Return each locked source with its problem, empty if there is none.

    Its copy is hashed, and it must be a root of the index.
    """
    held = set(request.sources) if request else set()
    checked = []
    for entry in entries:
        folder, source = folder_of(entry.source), shlex.quote(entry.text)
        again = f"skillsearch update {source}"
        problem = ""
        if entry.source not in held:
            problem = f"it is not in the index: skillsearch add {source}"
        elif not folder.is_dir():
            problem = f"its copy is gone: {again}"
        elif content_digest(folder) != entry.digest:
            problem = f"its copy is not what was added on {entry.date}: {again}"
        checked.append((entry, problem))
    return checked


def unlocked(entries: Iterable[LockedSource], request: IndexRequest | None) -> list[str]:
    """Return the downloaded roots of an index that no entry of the lock file pins."""
    locked = {entry.source for entry in entries}
    sources = request.sources if request else ()
    return [shown(source) for source in sources if is_bundle(source) and source not in locked]
