"""Skills of a project as its context keeps them: metadata from the start, content on demand."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from skillsearch.errors import SkillError, SkillNotFoundError
from skillsearch.index.documents import Document
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.library.source import Changes
from skillsearch.skills.parser import decode_skill_md
from skillsearch.skills.resources import content_hash, read_skill_md
from skillsearch.skills.versions import satisfies
from skillsearch.text.safe_text import one_line
from skillsearch.types import Diagnostic, Hit, Languages

SKILLS_ROOT = Path(".skills")
MAX_PRELOADED = 1_000

_KEPT = 100
_MAX_LOG_CHARS = 1_000

logger = logging.getLogger(__name__)


class SkillMetadata(BaseModel):
    """What a skill is chosen by."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(..., description="Name of the skill")
    description: str = Field(..., description="What the skill does and when to use it")
    path: Path = Field(..., description="Path of the skill's file")


class Skill(BaseModel):
    """A skill with its whole content."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(..., description="Name of the skill")
    description: str = Field(..., description="What the skill does and when to use it")
    content: str = Field(..., description="The whole Markdown of the skill's file")
    path: Path = Field(..., description="Path of the skill's file")
    loaded_at: datetime = Field(default_factory=datetime.now, description="When it was read")


class SkillsLoader:
    """The skills of a project's folder, and of a global one behind it.

    Whatever it loads, it looks at the disk first, by stat: what did not change is not read again.
    A file that cannot be read as a skill is skipped, and logged once.
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
    ) -> None:
        """Read the metadata of all skills; a folder that is missing has none, and may come later.

        Args:
            skills_root: The project's folder.
            global_root: A folder of skills for all projects, such as ``~/.skills``; a skill of
                the project comes before one of the same name in it.
            library: Skills that are there already, in the place of all other arguments.
            index_dir: Folder of the index that searches use; by default in the user's cache.
            model: What to load the embedder by.
            languages: Which languages to index for; see `skillsearch.types.LANGUAGES`.
        """
        roots = [root for root in (skills_root, global_root) if root is not None]
        self.library = (
            SkillLibrary.from_roots(roots, index_dir=index_dir, model=model, languages=languages)
            if library is None
            else library
        )
        self._kept: dict[str, tuple[str, Skill]] = {}
        self._room = _KEPT
        self._logged: frozenset[Diagnostic] = frozenset()
        self._log()

    def reload(self) -> Changes:
        """Look at the disk, and read the metadata of what changed."""
        changes = self.library.refresh()
        self._log()
        return changes

    def load_skill_metadata(self, skill_name: str) -> SkillMetadata | None:
        """Return the metadata of a skill.

        Args:
            skill_name: As in `find`.

        Returns:
            The metadata, or None where there is no such skill.
        """
        self.reload()
        try:
            return metadata_of(self.find(skill_name))
        except SkillError as exc:
            _log_failure(exc)
            return None

    def load_all_metadata(self) -> list[SkillMetadata]:
        """Return the metadata of all skills that models may be offered, by name."""
        self.reload()
        return [metadata_of(document) for document in self.library.list()]

    def load_skill_content(self, skill_name: str) -> str | None:
        """Return the whole Markdown of a skill's file.

        Args:
            skill_name: As in `find`.

        Returns:
            The text, frontmatter included, or None where it cannot be loaded.
        """
        skill = self.load_skill(skill_name)
        return None if skill is None else skill.content

    def load_skill(self, skill_name: str, version: str | None = None) -> Skill | None:
        """Return a skill with its content, or None where it cannot be loaded.

        Args:
            skill_name: As in `find`.
            version: A constraint, such as ``>=1,<2``; by default the newest will do.

        Returns:
            The skill; the same object as before while its file has not changed.
        """
        self.reload()
        return self._load(skill_name, version)

    def preload(self, names: Iterable[str]) -> tuple[str, ...]:
        """Read skills ahead of their use, and keep them.

        Args:
            names: The skills, each as in `find`; only the first `MAX_PRELOADED` are read.

        Returns:
            Those names that could be loaded.
        """
        wanted = list(dict.fromkeys(names))[:MAX_PRELOADED]
        self._room = max(self._room, len(wanted))
        self.reload()
        return tuple(name for name in wanted if self._load(name) is not None)

    def find(self, skill_name: str, version: str | None = None) -> Document:
        """Find the skill that a name meant at the last look at the disk.

        Args:
            skill_name: Its name or that of its folder, in any case; with a constraint, such as
                ``pdf@>=1,<2``, one of its versions.
            version: The constraint, where the name has none.

        Returns:
            Its document; of several in one folder of skills the newest.

        Raises:
            SkillError: When there is none that fits, or several do; says which there are.
        """
        try:
            return self.library.find(f"{skill_name}@{version}" if version else skill_name)
        except SkillNotFoundError:
            found = self.library.in_folder(skill_name)
            if found is None or not satisfies(found.version, version or ""):
                raise
            return found

    def read(self, document: Document) -> Skill:
        """Read a skill, unless that was done since its file changed.

        Args:
            document: What `find` found.

        Returns:
            The skill.

        Raises:
            ParseError: When its file cannot be read.
        """
        seen, skill = self._kept.pop(document.doc_id, ("", None))
        if skill is None or seen != document.content_hash:
            data, _ = read_skill_md(Path(document.path))
            seen, content = content_hash(data), decode_skill_md(data)[0]
            skill = Skill(**metadata_of(document).model_dump(), content=content)
        if seen == document.content_hash:  # else it changed just now
            self._kept[document.doc_id] = seen, skill
        while len(self._kept) > self._room:
            del self._kept[next(iter(self._kept))]
        return skill

    def _load(self, skill_name: str, version: str | None = None) -> Skill | None:
        """Return a skill as it was found at the last look, or None."""
        try:
            return self.read(self.find(skill_name, version))
        except SkillError as exc:
            _log_failure(exc)
            return None

    def _log(self) -> None:
        """Log what could not be loaded, but for what was logged at the look before."""
        found = frozenset(self.library.diagnostics)
        for problem in sorted(found - self._logged, key=lambda problem: problem.path):
            if problem.severity == "error":
                text = f"Skipped {problem.path}: {problem.message}"
                logger.warning("%s", one_line(text, _MAX_LOG_CHARS))
        self._logged = found


def metadata_of(found: Document | Hit) -> SkillMetadata:
    """Return what the library found as what a skill is chosen by."""
    return SkillMetadata(name=found.name, description=found.description, path=Path(found.path))


def _log_failure(error: SkillError) -> None:
    """Log why a skill cannot be loaded."""
    logger.warning("%s", one_line(str(error), _MAX_LOG_CHARS))
