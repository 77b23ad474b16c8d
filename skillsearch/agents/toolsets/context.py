"""Skills of a project: metadata from the start, content on demand, found by what they are for.

`context_tools` has the tools for agents.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

from skillsearch.agents.prompt import fit_lines, skill_line
from skillsearch.agents.tools.failures import MAX_MESSAGE_CHARS, DiagnosticLog
from skillsearch.agents.tools.library_tools import MAX_DESCRIPTION_CHARS
from skillsearch.errors import SkillError, SkillNotFoundError
from skillsearch.index.documents import Document
from skillsearch.library.naming import LoadOrder
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.library.source import Changes
from skillsearch.skills.parser import decode_skill_md
from skillsearch.skills.resources import content_hash, read_skill_md
from skillsearch.skills.versions import satisfies
from skillsearch.text.safe_text import one_line
from skillsearch.types import Diagnostic, Hit, Languages, SearchResult

SKILLS_ROOT = Path(".skills")
MAX_PRELOADED = 1_000
KEPT = 100
"""Skills whose content a loader keeps in memory."""
SUMMARY_CHARS = 8_000
"""The length at which hosts cut a list of skills."""
MIN_SUMMARY_CHARS = 128
"""Room to say that nothing is listed."""

_LEFT_OUT = "(not listed: {hidden:,} of {total:,} skills; find them with search_skills)"

_T = TypeVar("_T")

logger = logging.getLogger(__name__)


class SkillMetadata(BaseModel):
    """The name, purpose and file of a skill."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(..., description="Name of the skill")
    description: str = Field(..., description="What the skill does and when to use it")
    path: Path = Field(..., description="Path of the skill's file")

    @classmethod
    def of(cls, found: Document | Hit) -> SkillMetadata:
        """Return the metadata of a skill that a library found."""
        return cls(name=found.name, description=found.description, path=Path(found.path))


class Skill(BaseModel):
    """A skill with the whole Markdown of its file."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(..., description="Name of the skill")
    description: str = Field(..., description="What the skill does and when to use it")
    content: str = Field(..., description="The whole Markdown of the skill's file")
    path: Path = Field(..., description="Path of the skill's file")
    loaded_at: datetime = Field(default_factory=datetime.now, description="When it was read")


class SkillsLoader:
    """The skills of a project's folder, and behind it those of a global one.

    Every load first looks at the disk, by stat; unchanged files are not read again. A file that
    cannot be read as a skill is skipped, and logged once. Skills are named as in `find`.
    """

    def __init__(
        self,
        skills_root: str | Path = SKILLS_ROOT,
        *,
        global_root: str | Path | None = None,
        library: SkillLibrary | None = None,
        index_dir: str | Path | None = None,
        model: str = "onnx",
        languages: Languages = "auto",
        kept: int = KEPT,
    ) -> None:
        """Read the metadata of all skills; a missing folder has none yet.

        A skill of the project takes precedence over one of the same name in `global_root`, such as
        ``~/.skills``. A given library is used instead of all folders and settings, which are those
        of `SkillLibrary.from_roots`. `kept` skills stay in memory with their content.
        """
        roots = [root for root in (skills_root, global_root) if root is not None]
        self.library = (
            SkillLibrary.from_roots(roots, index_dir=index_dir, model=model, languages=languages)
            if library is None
            else library
        )
        self._kept: dict[str, tuple[str, Skill]] = {}
        self._room = kept
        self._log = DiagnosticLog(logger, _skipped)
        self._log.update(self.library.diagnostics)

    def reload(self) -> Changes:
        """Look at the disk, and read the metadata of what changed."""
        changes = self.library.refresh()
        self._log.update(self.library.diagnostics)
        return changes

    def load_skill_metadata(self, skill_name: str) -> SkillMetadata | None:
        """Return the metadata of a skill, or None if there is no such skill."""
        self.reload()
        return self._or_none(lambda: SkillMetadata.of(self.find(skill_name)))

    def load_all_metadata(self) -> list[SkillMetadata]:
        """Return the metadata of all skills that models may be offered, by name."""
        self.reload()
        return [SkillMetadata.of(document) for document in self.library.list()]

    def load_skill_content(self, skill_name: str) -> str | None:
        """Return the whole Markdown of a skill's file, or None if it cannot be loaded."""
        skill = self.load_skill(skill_name)
        return None if skill is None else skill.content

    def load_skill(self, skill_name: str, version: str | None = None) -> Skill | None:
        """Return a skill with its content, or None if it cannot be loaded.

        It is the same object as before while its file has not changed. `version` is a constraint,
        such as ``>=1,<2``.
        """
        self.reload()
        return self._load(skill_name, version)

    def preload(self, names: Iterable[str]) -> tuple[str, ...]:
        """Read the first `MAX_PRELOADED` of some skills and keep them; return those that loaded."""
        wanted = list(dict.fromkeys(names))[:MAX_PRELOADED]
        self._room = max(self._room, len(wanted))
        self.reload()
        return tuple(name for name in wanted if self._load(name) is not None)

    def find(self, skill_name: str, version: str | None = None) -> Document:
        """Find a skill as of the last look at the disk, by its name or its folder's, in any case.

        With a constraint, such as ``pdf@>=1,<2``, it is one of its versions, else the newest.
        `SkillError` if no skill fits, or several do; it says which there are.
        """
        try:
            return self.library.find(f"{skill_name}@{version}" if version else skill_name)
        except SkillNotFoundError:
            found = self.library.in_folder(skill_name)
            if found is None or not satisfies(found.version, version or ""):
                raise
            return found

    def read(self, document: Document) -> Skill:
        """Read a skill that `find` found, unless it is kept; `ParseError` if it is unreadable."""
        seen, skill = self._kept.pop(document.doc_id, ("", None))
        if skill is None or seen != document.content_hash:
            data, _ = read_skill_md(Path(document.path))
            seen, content = content_hash(data), decode_skill_md(data)[0]
            skill = Skill(**SkillMetadata.of(document).model_dump(), content=content)
        if seen == document.content_hash:  # else it changed just now
            self._kept[document.doc_id] = seen, skill
        while len(self._kept) > self._room:
            del self._kept[next(iter(self._kept))]
        return skill

    def _load(self, skill_name: str, version: str | None = None) -> Skill | None:
        return self._or_none(lambda: self.read(self.find(skill_name, version)))

    def _or_none(self, load: Callable[[], _T]) -> _T | None:
        """Load something, or log why it cannot be loaded."""
        try:
            return load()
        except SkillError as exc:
            logger.warning("%s", one_line(str(exc), MAX_MESSAGE_CHARS))
            return None


def _skipped(found: Diagnostic) -> str | None:
    return f"Skipped {found.path}: {found.message}" if found.severity == "error" else None


class SkillsManager:
    """Finds skills by what they are for; loads their content only on request.

    Like its loader, it shows at every call what is on disk then.
    """

    def __init__(
        self,
        loader: SkillsLoader,
        *,
        summary_chars: int = SUMMARY_CHARS,
        threshold: float | None = None,
    ) -> None:
        """Take the skills of a loader, room for the summary, and the lowest accepted score.

        `ValueError` if the room is less than `MIN_SUMMARY_CHARS`.
        """
        if summary_chars < MIN_SUMMARY_CHARS:
            raise ValueError(f"summary_chars is {summary_chars}; use {MIN_SUMMARY_CHARS} or more")
        self.loader = loader
        self._summary_chars = summary_chars
        self._threshold = threshold

    @property
    def metadata_list(self) -> list[SkillMetadata]:
        """The metadata of all skills that models may be offered, by name."""
        return self.loader.load_all_metadata()

    def reload(self) -> Changes:
        """Look at the disk, as every call does, and return what changed."""
        return self.loader.reload()

    def search_skills(self, query: str, limit: int = 3) -> list[SkillMetadata]:
        """Find the skills that fit a request, best first, by the index.

        `QueryError` if an argument cannot be used. See `calculate_match_score` for a baseline.
        """
        return [SkillMetadata.of(hit) for hit in self.hits(query, limit)]

    def hits(self, query: str, limit: int) -> SearchResult:
        """Find as `search_skills` does, and return the hits themselves."""
        self.reload()
        return self.loader.library.search(query, limit, self._threshold)

    def get_skill_content(self, skill_name: str) -> str | None:
        """Return the whole Markdown of a skill's file, or None if it cannot be loaded."""
        return self.loader.load_skill_content(skill_name)

    def get_metadata_summary(self) -> str:
        """Return a line for each skill, for a system prompt, as many as fit into the summary.

        If some do not fit, the last line says how many, and how to find them.
        """
        return self.lines(self._summary_chars)

    def lines(self, room: int) -> str:
        """Return the summary for another budget, in characters."""
        self.reload()
        return self.lines_of(self.loader.library.list(), room)

    def lines_of(self, found: Sequence[Document | Hit], room: int) -> str:
        """Return the summary of some skills only."""
        library = self.loader.library
        lines = (
            skill_line(library.handle(skill), one_line(skill.description, MAX_DESCRIPTION_CHARS))
            for skill in found
        )
        return fit_lines(lines, len(found), room, _LEFT_OUT)[0]

    def load_order(self, names: Iterable[str]) -> LoadOrder:
        """Order skills and everything they need; also returns what is missing, and cycles."""
        self.reload()
        return self.loader.library.load_order(names)


def calculate_match_score(query: str, metadata: SkillMetadata) -> float:
    """Score by keywords alone: a baseline to compare with, which no search uses.

    The best of: the whole query in the name 0.8, one of its words there 0.5; in the description
    0.6 and 0.3. Case is ignored, and parts of words count.
    """
    whole = query.lower()
    name = _match(whole, metadata.name.lower(), 0.8, 0.5)
    return max(name, _match(whole, metadata.description.lower(), 0.6, 0.3))


def _match(query: str, text: str, whole: float, part: float) -> float:
    if query in text:
        return whole
    return part if any(word in text for word in query.split()) else 0.0
