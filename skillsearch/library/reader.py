"""The skills of a library as they are on disk, each parsed once for the same bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skillsearch.errors import ParseError
from skillsearch.index.documents import Document
from skillsearch.skills.listing import list_files
from skillsearch.skills.parser import parse_skill
from skillsearch.skills.resources import content_hash, read_skill_md
from skillsearch.types import Skill

MAX_PRELOADED_SKILLS = 1_000
_KEPT_SKILLS = 32


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """A skill with all that an agent needs to follow it.

    Attributes:
        document: What the library knows of it.
        skill: The skill as it is on disk now.
        stale: True where its SKILL.md has changed since the library looked.
        files: Its other files, sorted.
        files_truncated: True where there are more files than are listed.
    """

    document: Document
    skill: Skill
    stale: bool
    files: tuple[str, ...]
    files_truncated: bool

    @property
    def folder(self) -> Path:
        """The skill folder."""
        return self.skill.path.parent


class SkillReader:
    """Reads skills, and keeps those that were read last."""

    def __init__(self) -> None:
        """Begin with none."""
        self._kept = _KEPT_SKILLS
        self._parsed: OrderedDict[tuple[str, str], Skill] = OrderedDict()

    def preload(self, documents: Sequence[Document]) -> tuple[str, ...]:
        """Read skills ahead of their use, and keep as many from now on.

        Args:
            documents: Their documents; of very many only the first are read.

        Returns:
            Ids of the skills that were read; one that cannot be read stops nothing.
        """
        wanted = documents[:MAX_PRELOADED_SKILLS]
        self._kept = max(self._kept, len(wanted))
        read = []
        for document in wanted:
            with suppress(ParseError):
                self.read(document)
                read.append(document.doc_id)
        return tuple(read)

    def read(self, document: Document) -> Skill:
        """Read a skill from disk.

        Args:
            document: Its document.

        Returns:
            The skill; the same object as before while its file has the same bytes.

        Raises:
            ParseError: When its file can no longer be read as a skill.
        """
        path = Path(document.path)
        data, _ = read_skill_md(path)
        key = (document.doc_id, content_hash(data))
        skill = self._parsed.get(key)
        if skill is None:
            root = Path(document.root)
            skill, _ = parse_skill(data, doc_id=document.doc_id, path=path, root=root)
            self._parsed[key] = skill
        self._parsed.move_to_end(key)
        while len(self._parsed) > self._kept:
            self._parsed.popitem(last=False)
        return skill

    def load(self, document: Document) -> LoadedSkill:
        """Read a skill from disk and list its files.

        Args:
            document: Its document.

        Returns:
            The skill, flagged ``stale`` where its bytes are not those of the document.

        Raises:
            ParseError: When its file can no longer be read as a skill.
        """
        skill = self.read(document)
        files, truncated = list_files(skill.path.parent)
        stale = skill.content_hash != document.content_hash
        return LoadedSkill(document, skill, stale, files, truncated)
